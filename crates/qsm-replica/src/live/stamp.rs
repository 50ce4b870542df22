//! Times of writes, which agree with cause and effect.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use super::error::LiveError;

/// Times beyond are nonsense: no write of that time is taken, or nobody could write after it. Some 146,000 years.
const TIME_MAX: u64 = 1 << 62;

/// When and where a write was made. Of two the greater is the later one: who has seen a write gives its own a greater
/// time, whatever the clock of its host says (hybrid logical clocks, Kulkarni et al. 2014).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Stamp {
    /// Microseconds since 1970.
    pub time: u64,
    /// The writer, drawn by it; it decides between equal times.
    pub origin: u64,
}

impl Stamp {
    pub(super) fn is_possible(self) -> bool {
        self.time <= TIME_MAX
    }
}

/// Gives stamps, each greater than all that it has given or seen.
#[derive(Debug, Clone)]
pub(super) struct Clock {
    origin: u64,
    latest: u64,
}

impl Clock {
    pub(super) fn new(origin: u64) -> Self {
        Self { origin, latest: 0 }
    }

    pub(super) fn see(&mut self, stamp: Stamp) {
        self.latest = self.latest.max(stamp.time);
    }

    /// The stamp of a write at this time of the host's clock, microseconds since 1970.
    pub(super) fn next(&mut self, wall: u64) -> Result<Stamp, LiveError> {
        let time = wall.max(self.latest + 1);
        let origin = self.origin;
        let stamp = Stamp { time, origin };
        if !stamp.is_possible() {
            return Err(LiveError::Clock);
        }
        self.latest = time;
        Ok(stamp)
    }
}

/// An origin by chance.
pub(super) fn origin() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The host's clock, microseconds since 1970.
pub(super) fn wall() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let micros = since.unwrap_or_default().as_micros();
    u64::try_from(micros).unwrap_or(TIME_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_later_than_what_its_writer_has_seen() {
        let mut clock = Clock::new(7);
        let first = clock.next(100).unwrap();
        assert_eq!((first.time, first.origin), (100, 7));
        // The host's clock goes back.
        assert_eq!(clock.next(50).unwrap().time, 101);
        // Another host's clock is far ahead.
        let (time, origin) = (5000, 9);
        clock.see(Stamp { time, origin });
        assert_eq!(clock.next(102).unwrap().time, 5001);
    }

    #[test]
    fn nobody_writes_at_a_time_that_is_nonsense() {
        let mut clock = Clock::new(7);
        assert!(matches!(clock.next(u64::MAX), Err(LiveError::Clock)));
        assert_eq!(clock.next(100).unwrap().time, 100);
    }
}
