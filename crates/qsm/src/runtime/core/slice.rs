use core::time::Duration;
use std::thread;

use qsm_net::{SHORT_SLICE, ThreadReport};
use qsm_proto::Instant;

use crate::runtime::clock::Clock;

/// Longer than others take who give the CPU away as well, a dozen of them even; shorter than the
/// usual slice.
const KEPT_BY_OTHERS: Duration = Duration::from_millis(2);
/// How long the CPU is not given to others after that.
const KEPT: Duration = Duration::from_millis(100);

/// A core thread's time on its CPU. The kernel ends it only with a tick of its clock, milliseconds
/// after the slice is over, and tokens, repairs and receivers on the same host wait so long; so the
/// core gives its CPU away itself, between two turns, unless those who get it keep it.
#[derive(Debug, Default)]
pub(super) struct Slice {
    /// It loses no more by that than such a slice.
    short: bool,
    /// It never sleeps, and so would never let others run otherwise.
    spin: bool,
    began: Instant,
    kept_until: Instant,
}

impl Slice {
    /// Of a core that never sleeps, or of one that does.
    pub(super) fn new(spin: bool) -> Self {
        Self {
            spin,
            ..Self::default()
        }
    }

    /// Whether it never sleeps.
    pub(super) fn spins(&self) -> bool {
        self.spin
    }

    /// Finds out what slices the calling thread has, which is the core's.
    pub(super) fn look(&mut self) {
        self.short = ThreadReport::current().has_short_slice();
    }

    /// It has slept until now.
    pub(super) fn begin(&mut self, now: Instant) {
        self.began = now;
    }

    pub(super) fn is_over(&self, now: Instant) -> bool {
        now.since(self.began) >= SHORT_SLICE
    }

    /// Whether the CPU is given away now when its time has come.
    pub(super) fn is_given(&self, now: Instant) -> bool {
        self.short && (self.spin || now >= self.kept_until)
    }

    /// Lets others run who wait for this CPU now, if there are any. Whoever computes without pause
    /// keeps it for all of a usual slice.
    pub(super) fn give_away(&mut self, now: Instant, clock: Clock) {
        if !self.is_given(now) {
            return;
        }
        thread::yield_now();
        self.began = clock.now();
        if self.began.since(now) > KEPT_BY_OTHERS {
            self.kept_until = self.began.after(KEPT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_is_over_after_its_time_and_begins_again() {
        let mut slice = Slice::default();
        let later = Instant(0).after(SHORT_SLICE);
        assert!(!slice.is_over(Instant(later.0 - 1)) && slice.is_over(later));
        slice.begin(later);
        assert!(!slice.is_over(later));
    }

    #[test]
    fn the_cpu_is_kept_from_those_who_keep_it_but_never_while_spinning() {
        let kept_until = Instant(0).after(KEPT);
        let given = |short, spin, now| {
            let (began, kept_until) = (Instant(0), kept_until);
            let slice = Slice {
                short,
                spin,
                began,
                kept_until,
            };
            slice.is_given(now)
        };
        assert!(!given(true, false, Instant(1)) && given(true, false, kept_until));
        assert!(given(true, true, Instant(1)));
        assert!(
            !given(false, true, kept_until),
            "a usual slice is too dear to give away"
        );
    }
}
