//! The clock of the machine.

use rustix::time::{ClockId, clock_gettime};

/// A time that all processes of the machine share, nanoseconds.
#[must_use]
pub fn nanos() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(i64::cast_unsigned);
    seconds * 1_000_000_000 + nanos
}
