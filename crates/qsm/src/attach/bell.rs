//! Sleeping until another process has something, so that it pays for waking only when somebody sleeps.
//!
//! One word in shared memory says whether anybody sleeps:
//!
//! ```text
//!   sleeper                              ringer
//!   word = ASLEEP                        change the ring
//!   fence                                fence
//!   look at the ring again: nothing      word ASLEEP? then word = AWAKE, wake all
//!   sleep while word is ASLEEP
//! ```
//!
//! Both fences are sequentially consistent, so at least one of the two sees what the other did
//! before its own (Dekker): either the sleeper finds the change, or the ringer finds the sleeper.
//! The kernel compares the word once more, so a ring between the last look and the sleep ends it.
//!
//! Only attached processes sleep here. The engine trusts nobody with its sleep: it waits on a
//! socket, see `session.rs`.

use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::Instant;

use qsm_net::{futex_wait, futex_wake};

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// A word to sleep on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bell<'a>(pub(super) &'a AtomicU32);

impl Bell<'_> {
    /// Somebody will look once more and then sleep.
    pub(super) fn announce(self) {
        self.0.store(ASLEEP, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// After a change: true if somebody sleeps, or is about to, and must be woken. Asked again it
    /// is false.
    pub(super) fn claim(self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) == ASLEEP && self.0.swap(AWAKE, Ordering::SeqCst) == ASLEEP
    }

    /// After a change: wakes those who sleep; true if there were any.
    pub(super) fn ring(self) -> bool {
        let asleep = self.claim();
        if asleep {
            futex_wake(self.0);
        }
        asleep
    }

    /// Tries until it succeeds, sleeping between; `None` when the deadline passed.
    pub(super) fn wait<T>(
        self,
        deadline: Option<Instant>,
        mut attempt: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        loop {
            if let Some(result) = attempt() {
                return Some(result);
            }
            self.announce();
            if let Some(result) = attempt() {
                return Some(result);
            }
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            futex_wait(self.0, ASLEEP, left);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// A lost wake-up leaves the sleeper asleep for ever.
    #[test]
    fn a_sleeper_sees_every_change() {
        let (word, value) = (AtomicU32::new(0), AtomicU64::new(0));
        let echo = (AtomicU32::new(0), AtomicU64::new(0));
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=20_000 {
                    let at_least =
                        |value: &AtomicU64| (value.load(Ordering::Acquire) >= round).then_some(());
                    assert!(Bell(&word).wait(None, || at_least(&value)).is_some());
                    echo.1.store(round, Ordering::Release);
                    Bell(&echo.0).ring();
                }
            });
            for round in 1..=20_000 {
                value.store(round, Ordering::Release);
                Bell(&word).ring();
                let reached = || (echo.1.load(Ordering::Acquire) >= round).then_some(());
                assert!(Bell(&echo.0).wait(None, reached).is_some());
            }
        });
    }

    #[test]
    fn waking_costs_nothing_when_nobody_sleeps_and_happens_once() {
        let word = AtomicU32::new(0);
        let bell = Bell(&word);
        assert!(!bell.ring());
        bell.announce();
        assert!(bell.ring());
        assert!(!bell.ring());
        let deadline = Instant::now() + Duration::from_millis(1);
        assert_eq!(bell.wait(Some(deadline), || None::<()>), None);
    }
}
