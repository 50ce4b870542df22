/// The rest of a slice of work. Work is counted in units of a few nanoseconds, so that
/// slices are the same on every machine and no clock is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    left: u64,
}

impl Work {
    pub(crate) fn new(units: u64) -> Self {
        Self { left: units }
    }

    pub(crate) fn spend(&mut self, units: usize) {
        self.left = self.left.saturating_sub(units as u64);
    }

    pub(crate) fn is_spent(&self) -> bool {
        self.left == 0
    }
}
