use std::thread;
use std::time::{Duration, Instant};

use qsm_console::stop::Stop;
use qsm_net::set_realtime;
use rustix::io::Errno;
use rustix::process::setpriority_process;
use rustix::thread::gettid;

use crate::latencies::Latencies;

/// Priority within the real-time class: above threads of interrupts (50), as usual for such tests.
const PRIORITY: u8 = 80;
/// The most that `nice` can do.
const NICEST: i32 = -20;

/// Scheduling class of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    Normal,
    Nice,
    Realtime,
}

impl Class {
    pub(super) const ALL: [Self; 3] = [Self::Normal, Self::Nice, Self::Realtime];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Nice => "nice -20",
            Self::Realtime => "real-time",
        }
    }

    /// Puts the calling thread into it.
    fn enter(self) -> Result<(), String> {
        match self {
            Self::Normal => Ok(()),
            Self::Nice => setpriority_process(Some(gettid()), NICEST).map_err(not_nice),
            Self::Realtime => set_realtime(PRIORITY).map_err(|error| error.to_string()),
        }
    }
}

fn not_nice(error: Errno) -> String {
    format!("a thread may not be given more weight ({error}): run as root, or raise `ulimit -e`")
}

/// Measures how late a thread of this class runs that is due at even intervals.
///
/// # Errors
/// It may not be of that class.
pub(super) fn measure(
    class: Class,
    interval: Duration,
    time: Duration,
    stop: &Stop,
) -> Result<Latencies, String> {
    thread::scope(|scope| {
        let measure = || class.enter().map(|()| wake(interval, time, stop));
        let measured = scope.spawn(measure).join();
        measured.unwrap_or_else(|_| Err("the measuring thread has panicked".to_owned()))
    })
}

/// A thread that was late for longer than an interval has missed moments, and each counts.
fn wake(interval: Duration, time: Duration, stop: &Stop) -> Latencies {
    let mut latencies = Latencies::new();
    let begun = Instant::now();
    let (mut due, end) = (begun + interval, begun + time);
    while due < end && !stop.is_asked() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        while due <= now && due < end {
            latencies.record(u64::try_from((now - due).as_nanos()).unwrap_or(u64::MAX));
            due += interval;
        }
    }
    latencies
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn each_moment_counts_and_none_is_early() {
        let (interval, time) = (Duration::from_millis(2), Duration::from_millis(101));
        let latencies = measure(Class::Normal, interval, time, &Stop::default()).unwrap();
        assert_eq!(latencies.count(), 50);
        let stopped = Stop::default();
        stopped.flag().store(true, Ordering::Relaxed);
        let none = measure(Class::Normal, interval, time, &stopped).unwrap();
        assert_eq!(none.count(), 0);
    }
}
