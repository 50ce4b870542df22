//! Measured delays of stages beside their shares of the latency budget (R241). Nothing is measured
//! for it without a budget, but what the protocol and the sender note anyway.

use std::time::Duration;

use qsm_proto::Instant;

use crate::latency::{LatencyBudget, OverBudget, Stage};
use crate::stats::LatencyStats;

/// Pause between two words on one stage.
const AGAIN: Duration = Duration::from_secs(10);
/// Pause between two looks at the protocol, the queues and the socket.
const LOOK: Duration = Duration::from_millis(1);

/// Judge of stages.
#[derive(Debug)]
pub(super) struct BudgetWatch {
    budget: LatencyBudget,
    stats: LatencyStats,
    told: [Option<Instant>; Stage::ALL.len()],
    looked: Instant,
}

impl BudgetWatch {
    pub(super) fn new(budget: LatencyBudget) -> Self {
        Self {
            budget,
            stats: LatencyStats::default(),
            told: [None; Stage::ALL.len()],
            looked: Instant(0),
        }
    }

    pub(super) fn stats(&self) -> LatencyStats {
        self.stats
    }

    /// The share of a stage.
    pub(super) fn share(&self, stage: Stage) -> Duration {
        self.budget.of(stage)
    }

    /// A stage took so long. `Some`: longer than it may, and that is to be told now.
    pub(super) fn note(
        &mut self,
        now: Instant,
        stage: Stage,
        took: Duration,
    ) -> Option<OverBudget> {
        let budget = self.budget.of(stage);
        let over = took > budget;
        self.stats.note(stage, took, over);
        let told = &mut self.told[stage.place()];
        let due = over && told.is_none_or(|told| now.since(told) >= AGAIN);
        if due {
            *told = Some(now);
        }
        due.then_some(OverBudget {
            stage,
            took,
            budget,
        })
    }

    /// When the next look may be.
    pub(super) fn next_look(&self) -> Instant {
        self.looked.after(LOOK)
    }

    /// Tells whether it is time for another look.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = now.since(self.looked) >= LOOK;
        if due {
            self.looked = now;
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn at(ms: u32) -> Instant {
        Instant(0).after(MS * ms)
    }

    #[test]
    fn the_stage_that_takes_too_long_is_named_and_no_other() {
        let budget = LatencyBudget::new(MS * 100);
        for stalled in Stage::ALL {
            let mut watch = BudgetWatch::new(budget);
            for stage in Stage::ALL {
                let took = budget.of(stage) + MS * u32::from(stage == stalled);
                let named = watch.note(at(1), stage, took).map(|over| over.stage);
                assert_eq!(named, (stage == stalled).then_some(stalled));
            }
        }
    }

    #[test]
    fn each_violation_counts_and_one_in_ten_seconds_is_told() {
        let mut watch = BudgetWatch::new(LatencyBudget::new(MS * 10));
        let mut told = 0;
        for second in 1..=25 {
            let over = watch.note(at(second * 1000), Stage::Repair, MS * 20);
            told += u32::from(over.is_some());
            let other = watch.note(at(second * 1000), Stage::Batching, MS);
            assert_eq!(other, None, "as long as it may");
        }
        assert_eq!(told, 3);
        let stats = watch.stats();
        assert_eq!((stats.over_repair, stats.over_batching), (25, 0));
        assert_eq!(
            (stats.longest_repair, stats.longest_batching),
            (MS * 20, MS)
        );
    }

    #[test]
    fn stages_are_looked_at_once_in_a_millisecond() {
        let mut watch = BudgetWatch::new(LatencyBudget::new(MS));
        let looks = (0..100).filter(|step| watch.is_due(at(5).after(MS / 10 * *step)));
        assert_eq!(looks.count(), 10);
    }
}
