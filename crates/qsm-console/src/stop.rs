//! SIGINT and SIGTERM: the first asks a command to end well, the second ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

use crate::failure::Failure;

/// Exit code after a second signal: 128 + SIGINT, as a shell would report it.
const KILLED: i32 = 130;

/// A flag that the user raises to end the command.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>, Arc<OnceLock<Instant>>);

impl Stop {
    /// From now on signals ask instead of killing.
    ///
    /// # Errors
    /// The system refuses signal handlers.
    pub fn on_signals() -> Result<Self, Failure> {
        let stop = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag still down.
            flag::register_conditional_shutdown(signal, KILLED, Arc::clone(&stop.0))
                .and_then(|_| flag::register(signal, Arc::clone(&stop.0)))
                .map_err(|error| Failure::io("handle signals", &error))?;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_raises_the_flag() {
        let stop = Stop::on_signals().unwrap();
        assert!(!stop.is_asked());
        signal_hook::low_level::raise(SIGTERM).unwrap();
        assert!(stop.is_asked());
    }
}
