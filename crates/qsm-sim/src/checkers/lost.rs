use qsm_wire::Origin;

/// Messages that will not come, as their receiver is told.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LostNumbers {
    pub(crate) receiver: Origin,
    pub(crate) group: usize,
    pub(crate) sender: Origin,
    pub(crate) first: u64,
    pub(crate) last: u64,
}
