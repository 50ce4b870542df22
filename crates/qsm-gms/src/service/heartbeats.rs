use core::time::Duration;

/// Share of a new sample in the mean.
const WEIGHT: u32 = 8;
/// One heartbeat, in the unit of their mean.
const HEARTBEAT: u32 = 64;
/// Most that are taken for lost in a row; after more the node was silent.
const MISSED_MAX: u32 = 4;
/// Most copies of a probe.
const COPIES_MAX: u32 = 16;

/// The heartbeats of a node that did not arrive: how much the way from it loses.
#[derive(Debug, Clone, Default)]
pub(super) struct Heartbeats {
    /// Smoothed number of those missed before one that came.
    missed_64ths: u32,
}

impl Heartbeats {
    /// The node was heard, so long after the last time; within a heartbeat that shows nothing.
    pub(super) fn note(&mut self, gap: Duration, heartbeat: Duration) {
        let halves = gap.as_nanos() * 2 / heartbeat.as_nanos().max(1);
        if halves == 0 {
            return;
        }
        let heartbeats = u32::try_from(halves.div_ceil(2)).unwrap_or(u32::MAX);
        let missed = (heartbeats - 1).min(MISSED_MAX);
        self.missed_64ths -= self.missed_64ths / WEIGHT;
        self.missed_64ths += missed * HEARTBEAT / WEIGHT;
    }

    /// Copies of a probe that lose no more than one does on a good way: about twice as many as
    /// an answer takes, if the way there loses as much as the way back. Rule R-MEM-4.
    pub(super) fn copies(&self) -> u32 {
        let one_way = HEARTBEAT + self.missed_64ths;
        let both_ways = one_way * one_way / HEARTBEAT;
        (1 + 2 * (both_ways - HEARTBEAT) / HEARTBEAT).min(COPIES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEAT: Duration = Duration::from_millis(200);

    /// Copies after ten times as many gaps of so many heartbeats.
    fn copies(gaps: &[u32]) -> u32 {
        let mut heartbeats = Heartbeats::default();
        for gap in [gaps; 10].concat() {
            heartbeats.note(BEAT * gap, BEAT);
        }
        heartbeats.copies()
    }

    #[test]
    fn probes_are_copied_where_heartbeats_are_missed() {
        assert_eq!(copies(&[1; 10]), 1);
        assert_eq!(copies(&[2, 1, 1, 1, 1, 1, 1, 1, 1, 1]), 1);
        assert!((3..=6).contains(&copies(&[1, 2, 2, 1, 2, 2])));
        assert!((9..=14).contains(&copies(&[1, 4, 2, 3, 2, 3])));
        assert_eq!(copies(&[100]), COPIES_MAX);
    }

    #[test]
    fn one_long_pause_and_what_comes_within_a_heartbeat_change_little() {
        let mut heartbeats = Heartbeats::default();
        heartbeats.note(BEAT * 1000, BEAT);
        assert!(heartbeats.copies() <= 3);
        (0..100).for_each(|_| heartbeats.note(BEAT / 3, BEAT));
        assert!(heartbeats.copies() > 1);
        (0..20).for_each(|_| heartbeats.note(BEAT, BEAT));
        assert_eq!(heartbeats.copies(), 1);
    }
}
