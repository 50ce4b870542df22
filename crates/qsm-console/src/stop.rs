//! SIGINT and SIGTERM: the first asks a command to end well, a later one ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::failure::Failure;

/// Exit code after a second signal: 128 + SIGINT, as a shell would report it.
const KILLED: i32 = 130;

/// Signals closer together are one: `timeout -s INT` sends its own to the process and to its group.
const SAME: Duration = Duration::from_millis(300);

/// A flag that the user raises to end the command.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>, Arc<OnceLock<Instant>>);

impl Stop {
    /// From now on signals ask instead of killing.
    ///
    /// # Errors
    /// The system refuses signal handlers, or a thread.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Self::default();
        let refused = |error| Failure::io("handle signals", &error);
        for signal in [SIGINT, SIGTERM] {
            flag::register(signal, Arc::clone(&stop.0)).map_err(refused)?;
        }
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(refused)?;
        thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                let mut asked = Asked::default();
                for _signal in signals.forever() {
                    if asked.again(Instant::now()) {
                        low_level::exit(KILLED);
                    }
                }
            })
            .map_err(|error| Failure::io("start a thread", &error))?;
        Ok(stop)
    }

    /// The flag itself, for threads of others.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// When it was asked, as seen by whoever looks first.
    #[must_use]
    pub fn asked_at(&self) -> Option<Instant> {
        self.is_asked().then(|| *self.1.get_or_init(Instant::now))
    }

    /// It was asked.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The first signal, if there has been one.
#[derive(Debug, Default)]
struct Asked(Option<Instant>);

impl Asked {
    /// Takes note of a signal; returns whether it is another one than the first.
    fn again(&mut self, now: Instant) -> bool {
        let first = *self.0.get_or_insert(now);
        now.duration_since(first) >= SAME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_raises_the_flag() {
        let stop = Stop::on_signals().unwrap();
        assert!(!stop.is_asked());
        low_level::raise(SIGTERM).unwrap();
        assert!(stop.is_asked());
    }

    #[test]
    fn signals_close_together_are_one() {
        let (mut asked, start) = (Asked::default(), Instant::now());
        let at = [0, 1, 299, 300, 5000].map(|ms| asked.again(start + Duration::from_millis(ms)));
        assert_eq!(at, [false, false, false, true, true]);
    }
}
