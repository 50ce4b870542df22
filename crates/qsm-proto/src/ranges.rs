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

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::view::Layout;
    use qsm_wire::membership::Member;
    use qsm_wire::{ChannelId, Incarnation, NodeId, Origin, RegionId, ViewNumber};

    /// Twelve members in four partitions.
    fn view(block_packets: u64) -> RegionView {
        let address = SocketAddr::from(([239, 0, 0, 1], 1));
        let member = |node| Member {
            origin: Origin {
                node: NodeId(node),
                incarnation: Incarnation(1),
            },
            address,
            joined: ViewNumber(1),
            left: None,
            away: None,
        };
        let layout = Layout {
            replication: 3,
            block_packets,
            ring_max: 25,
        };
        RegionView::new(
            RegionId(1),
            ViewNumber(1),
            (ChannelId(1), address),
            (0..12).map(member).collect(),
            layout,
        )
    }

    #[test]
    fn what_one_partition_caches_of_a_burst_is_one_run() {
        for block in [1, 4] {
            let view = view(block);
            let own: Vec<u64> = (16..400)
                .filter(|sequence| view.caching_partition(*sequence) == 2)
                .collect();
            let mut runs = Vec::new();
            for sequence in &own {
                assert!(append_own(&mut runs, SeqRange::one(*sequence), &view));
            }
            let whole = SeqRange::new(own[0], own[own.len() - 1]).unwrap();
            assert_eq!(runs, [whole], "B = {block}");
            assert!(own.windows(2).all(|two| view.next_cached(two[0]) == two[1]));
        }
    }

    #[test]
    fn a_packet_of_the_partition_that_is_there_parts_two_runs() {
        let view = view(1);
        let mut runs = Vec::new();
        for sequence in [2, 6, 14] {
            append_own(&mut runs, SeqRange::one(sequence), &view);
        }
        assert_eq!(runs, [SeqRange::new(2, 6).unwrap(), SeqRange::one(14)]);
    }
}
