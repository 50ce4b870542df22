//! The rate of a TCP flow that sees the same losses and round trips (RFC 5348, 3.1; RFC 4654, 2.1), in
//! integers, so that it is the same everywhere.

/// A loss event rate of 1, in parts of a thousand million.
pub(crate) const ALL_LOST: u32 = 1_000_000_000;

/// Bytes a second that a TCP flow would send in packets of this size. Without losses there is no limit.
pub(crate) fn tcp_rate(packet_bytes: u64, round_trip_us: u32, loss_ppb: u32) -> u64 {
    if loss_ppb == 0 {
        return u64::MAX;
    }
    let one = u64::from(ALL_LOST);
    let loss = u64::from(loss_ppb.min(ALL_LOST));
    // Each in parts of a thousand million: √(2p/3), √(3p/8), p (1 + 32 p²).
    let congestion = (loss * 2 * one / 3).isqrt();
    let timeout = (loss * 3 * one / 8).isqrt();
    let squared = u128::from(loss) * u128::from(loss) / u128::from(one);
    let rare = u128::from(loss) * (u128::from(one) + 32 * squared) / u128::from(one);
    let rare = 12 * u128::from(timeout) * rare / u128::from(one);
    let trips = (u128::from(congestion) + rare).max(1) * u128::from(round_trip_us.max(1));
    let bytes = u128::from(packet_bytes) * 1_000_000 * u128::from(one);
    u64::try_from(bytes / trips).unwrap_or(u64::MAX)
}

/// The greatest loss event rate at which a flow would still send so fast, for what was before the first
/// loss (RFC 5348, 6.3.1).
pub(crate) fn loss_at(packet_bytes: u64, round_trip_us: u32, rate: u64) -> u32 {
    let (mut low, mut high) = (1, ALL_LOST);
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if tcp_rate(packet_bytes, round_trip_us, middle) >= rate {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside the equation in floating point. R-RELAY-14.
    #[test]
    fn the_equation_is_that_of_the_rfc() {
        for loss_ppb in [
            1,
            10,
            1000,
            100_000,
            1_000_000,
            10_000_000,
            50_000_000,
            300_000_000,
            ALL_LOST,
        ] {
            for round_trip_us in [100, 5000, 100_000, 800_000] {
                let p = f64::from(loss_ppb) / 1e9;
                let trip = f64::from(round_trip_us) / 1e6;
                let below = (2.0 * p / 3.0).sqrt()
                    + 12.0 * (3.0 * p / 8.0).sqrt() * p * (1.0 + 32.0 * p * p);
                let expected = 1400.0 / (trip * below);
                let found = tcp_rate(1400, round_trip_us, loss_ppb) as f64;
                let close = (found - expected).abs() <= expected / 100.0 + 1.0;
                assert!(close, "{loss_ppb} {round_trip_us}: {found}, not {expected}");
            }
        }
        assert_eq!(tcp_rate(1400, 1000, 0), u64::MAX);
    }

    #[test]
    fn the_loss_of_a_rate_is_that_of_the_equation() {
        for loss in [5, 1000, 2_000_000, 70_000_000] {
            let rate = tcp_rate(1000, 40_000, loss);
            let found = loss_at(1000, 40_000, rate);
            let ratio = f64::from(found) / f64::from(loss);
            assert!((0.99..1.3).contains(&ratio), "{found}, not {loss}");
        }
        assert_eq!(loss_at(1000, 40_000, u64::MAX), 1);
        assert_eq!(loss_at(1000, 40_000, 0), ALL_LOST);
    }
}
