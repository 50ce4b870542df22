//! What time it is, and what has been spent: the clocks that `std` keeps to itself.

use std::mem;
use std::time::Duration;

/// The monotonic clock (`CLOCK_MONOTONIC`): nanoseconds that count alike in all processes of a host, which
/// [`std::time::Instant`] reads too but does not show.
#[must_use]
pub fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime only writes into the timespec given. It cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The clock of the wall (`CLOCK_REALTIME`), by which the kernel stamps what arrives: since 1970. It may be set.
pub(crate) fn wall_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime only writes into the timespec given. It cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut time) };
    time_of(time)
}

/// A time of the kernel since 1970; 0 if it is before.
pub(crate) fn time_of(time: libc::timespec) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0).min(999_999_999);
    Duration::new(seconds, nanos)
}

/// CPU time, user and system, of all threads of this process so far (`getrusage`).
#[must_use]
pub fn process_cpu_time() -> Duration {
    // SAFETY: rusage is plain data, for which zero is valid, and getrusage only writes into the one given. It cannot fail
    // for this process.
    let usage = unsafe {
        let mut usage: libc::rusage = mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let duration =
        |time: libc::timeval| Duration::new(time.tv_sec as u64, time.tv_usec as u32 * 1000);
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// CPU time, user and system, of the calling thread so far (`CLOCK_THREAD_CPUTIME_ID`).
pub(crate) fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime only writes into the timespec given. It cannot fail: every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time_of(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time_of_both_kinds() {
        let (time, cpu) = (monotonic_nanos(), process_cpu_time());
        let mut sum = 0_u64;
        // The kernel counts CPU time in ticks on some machines: until it is seen to grow.
        while process_cpu_time() == cpu {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(monotonic_nanos() > time);
    }
}
