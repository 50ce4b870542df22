use qsm_wire::{Ranges, SeqRange};

/// Appends a run to an ascending list of at most [`Ranges::MAX`] runs, joined to the last one if
/// it continues it. Returns whether there was room.
pub(crate) fn append(into: &mut Vec<SeqRange>, run: SeqRange) -> bool {
    if let Some(last) = into.last_mut()
        && last.last() + 1 == run.first()
        && let Some(joined) = SeqRange::new(last.first(), run.last())
    {
        *last = joined;
        return true;
    }
    if into.len() == Ranges::MAX {
        return false;
    }
    into.push(run);
    true
}
