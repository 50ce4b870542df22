//! What a link does to packets.

use std::time::Duration;

use crate::error::LabError;

/// Most packets on their way in one direction of a link; further ones are dropped, and counted.
pub const LINK_HELD_MAX: usize = 65_536;
/// Longest delay, and longest jitter.
const TIME_MAX: Duration = Duration::from_secs(10);
/// A packet of Ethernet's usual size.
const PACKET_BYTES: u64 = 1500;
/// Lowest rate, at which such a packet takes a second and a half.
const RATE_MIN: u64 = 1000;
/// Part of a second for which the queue of [`LinkShape::with_rate`] holds data.
const QUEUE_PART: u64 = 10;

/// Properties of a link, the same for both directions. Packets do not overtake each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkShape {
    /// Time that each packet takes, at most 10 s.
    pub delay: Duration,
    /// Further time, drawn evenly between 0 and this, at most 10 s.
    pub jitter: Duration,
    /// Packets that are lost, in a million. ARP and neighbour discovery are spared.
    pub loss_ppm: u32,
    /// Bytes a second, with the headers of IP, at least 1,000; none: no limit.
    pub rate: Option<u64>,
    /// Bytes that wait for the rate at most, at least 1,500; what does not fit is dropped.
    pub queue: u64,
    /// Bytes that wait behind which a packet is marked (CE) in the place of nothing, if it can be (ECN, RFC 3168).
    pub mark: u64,
    /// Losses and jitter are those of this number: the same packets in the same order fare the same.
    pub seed: u64,
}

impl Default for LinkShape {
    /// A link that changes nothing.
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            loss_ppm: 0,
            rate: None,
            queue: u64::MAX,
            mark: u64::MAX,
            seed: 1,
        }
    }
}

impl LinkShape {
    /// With a rate, in bytes a second, and a queue that holds what passes in a tenth of a second, at
    /// least 64 KiB.
    #[must_use]
    pub fn with_rate(self, rate: u64) -> Self {
        Self {
            rate: Some(rate),
            queue: (rate / QUEUE_PART).max(65_536),
            ..self
        }
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        let wrong = if self.delay > TIME_MAX || self.jitter > TIME_MAX {
            "delay and jitter are at most 10 s each; give less"
        } else if self.loss_ppm > 1_000_000 {
            "more packets than all cannot be lost; give 100 % at most"
        } else if self.rate.is_some_and(|rate| rate < RATE_MIN) {
            "a rate of less than 1000 bytes a second carries nothing in time; give more"
        } else if self.queue < PACKET_BYTES {
            "a queue of less than 1500 bytes has no room for a packet; give more"
        } else {
            return Ok(());
        };
        Err(LabError::BadLink { wrong })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_carry_nothing_are_refused() {
        let fine = LinkShape::default();
        assert!(fine.check().is_ok());
        assert!(fine.with_rate(1000).check().is_ok());
        assert_eq!(fine.with_rate(10_000_000).queue, 1_000_000);
        let wrong = [
            LinkShape {
                delay: TIME_MAX * 2,
                ..fine
            },
            LinkShape {
                loss_ppm: 1_000_001,
                ..fine
            },
            LinkShape {
                rate: Some(0),
                ..fine
            },
            LinkShape {
                queue: 1499,
                ..fine
            },
        ];
        for shape in wrong {
            let error = shape.check().unwrap_err().to_string();
            assert!(error.contains("; give "), "{error}");
        }
    }
}
