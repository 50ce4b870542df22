use qsm_wire::{Ranges, SeqRange};

use crate::view::RegionView;

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

/// As [`append`], for runs of packets that one partition caches: the list stands for those among
/// its numbers that this partition caches (S2 §2.3.3: "ranges of packets cached in the local
/// partition"), so that what only others cache does not part two runs. Without this a burst of
/// losses would be as many runs as it has blocks.
pub(crate) fn append_own(into: &mut Vec<SeqRange>, run: SeqRange, view: &RegionView) -> bool {
    if let Some(last) = into.last_mut()
        && view.next_cached(last.last()) == run.first()
        && let Some(joined) = SeqRange::new(last.first(), run.last())
        && joined.last() == run.last()
    {
        *last = joined;
        return true;
    }
    append(into, run)
}
