use core::time::Duration;

use crate::{Random, nanoseconds};

/// How widespread losses in a region have been lately, and how long to wait before asking for a
/// new one. Isolated losses are asked for at once (K = 0). When many members miss the same
/// packets each waits a random time, so that one request, and the multicast repair it brings,
/// saves the others theirs (algorithms (b) "When to ask"; RFC 5401 §4.2: truncated exponential).
#[derive(Debug, Default)]
pub struct RequestBackoff {
    /// Smoothed number of members that miss something, in sixteenths.
    losers_16ths: u64,
}

/// Losers from which on waiting pays: below it requests are few anyway.
const WIDESPREAD: u64 = 10;
/// K: the longest wait in round trips.
const ROUND_TRIPS: u32 = 2;

impl RequestBackoff {
    /// A token has counted the losers among those it visited so far.
    pub fn note(&mut self, losers: u16, visited: u16, members: usize) {
        let members = u64::try_from(members).unwrap_or(u64::MAX);
        let among = u64::from(losers).saturating_mul(members) / u64::from(visited.max(1));
        let target = among.min(members) * 16;
        self.losers_16ths = self.losers_16ths - self.losers_16ths / 4 + target / 4;
    }

    /// How long to wait before the first request for a packet found missing now (R-NAK-1).
    pub fn draw(&self, round_trip: Duration, members: usize, random: &mut Random) -> Duration {
        if self.losers_16ths < WIDESPREAD * 16 {
            return Duration::ZERO;
        }
        // -log2 of a uniform number is exponential with mean log2(e); in 1/256.
        let bits = random.bits();
        let whole = u64::from(bits.leading_zeros());
        let fraction = 255 - (bits << whole.min(63) << 1 >> 56);
        let exponential = whole * 256 + fraction;
        // Its range up to log2(n) + 2 is spread over the wait; most draws are near the end.
        let range = (u64::from(members.max(1).ilog2()) + 2) * 256;
        let longest = nanoseconds(round_trip * ROUND_TRIPS);
        let early = longest.saturating_mul(exponential.min(range)) / range;
        Duration::from_nanos(longest - early)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    const ROUND_TRIP: Duration = Duration::from_micros(100);

    // Rule R-NAK-1.
    #[test]
    fn isolated_losses_do_not_wait() {
        let mut backoff = RequestBackoff::default();
        backoff.note(3, 200, 200);
        let mut random = Random::new(Seed(1), "backoff");
        assert_eq!(backoff.draw(ROUND_TRIP, 200, &mut random), Duration::ZERO);
    }

    #[test]
    fn of_two_hundred_that_lost_the_same_few_ask_in_the_first_half() {
        let mut backoff = RequestBackoff::default();
        (0..20).for_each(|_| backoff.note(200, 200, 200));
        let mut random = Random::new(Seed(1), "backoff");
        let draws: Vec<Duration> = (0..20_000)
            .map(|_| backoff.draw(ROUND_TRIP, 200, &mut random))
            .collect();
        assert!(draws.iter().all(|draw| *draw <= ROUND_TRIP * 2));
        let early = draws.iter().filter(|draw| **draw < ROUND_TRIP).count();
        // 2^-(range/2) of the draws, that is 2^-4.5: about 4.4 %, or 9 of 200.
        assert!((400..1400).contains(&early), "{early} of 20000");
    }
}
