//! Planning in slices, each of them timed.

use std::time::{Duration, Instant as Clock};

use qsm_console::progress::Progress as Bar;
use qsm_plan::{PlanError, Planner, Progress, SLICE};
use qsm_wire::Instant;

use super::stopwatch::Stopwatch;

/// A line on a terminal that says what planning does.
pub(super) struct Line {
    bar: Bar,
    start: Clock,
}

impl Line {
    pub(super) fn new() -> Self {
        Self {
            bar: Bar::new(),
            start: Clock::now(),
        }
    }

    fn show(&mut self, doing: &str) {
        if self.bar.is_due() && self.start.elapsed() > Duration::from_millis(500) {
            let seconds = self.start.elapsed().as_secs();
            self.bar.show(&format!("planning, {seconds} s: {doing}"));
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.bar.clear();
    }
}

/// Times of planning.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Effort {
    pub(super) all: Duration,
    pub(super) slices: u32,
    /// The longest slice in CPU time, and what it did.
    pub(super) longest: Duration,
    pub(super) doing: &'static str,
    /// Slices of more than two milliseconds.
    pub(super) long: u32,
}

impl Effort {
    /// Plans to the end.
    ///
    /// # Errors
    /// Hints cannot be followed.
    pub(super) fn of(
        planner: &mut Planner,
        now: Instant,
        line: &mut Line,
    ) -> Result<Self, PlanError> {
        let mut effort = Self::default();
        let (begin, snapshot) = (Clock::now(), Stopwatch::start());
        planner.start(now)?;
        effort.note(snapshot.elapsed(), "begins");
        let mut doing = "counts groups";
        loop {
            let start = Stopwatch::start();
            let progress = planner.step(SLICE);
            effort.note(start.elapsed(), doing);
            match progress {
                Progress::Busy(next) => doing = next,
                Progress::Done | Progress::Idle => break,
            }
            line.show(doing);
        }
        effort.all = begin.elapsed();
        Ok(effort)
    }

    fn note(&mut self, took: Duration, doing: &'static str) {
        self.slices += 1;
        self.long += u32::from(took > Duration::from_millis(2));
        if took > self.longest {
            self.longest = took;
            self.doing = doing;
        }
    }
}
