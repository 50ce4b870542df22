use core::time::Duration;

use crate::faults::Fault;
use crate::options::SimOptions;
use crate::violation::Violation;

/// Time that a host may need to be heard again after it was silent.
const HEARD_AGAIN: Duration = Duration::from_secs(2);

/// A node that was silent for less than `gone_after` keeps its life (R-MEM-15), and with it, as
/// [`super::completeness`] and [`super::loss`] judge, everything it missed. Judged where a life ends
/// by exclusion, from the run's faults: whatever may have kept the host and the service apart counts
/// as silence. A service that has begun again may have taken it for dead (R-MEM-6), and of several
/// services each knows its own nodes.
pub(crate) fn check(options: &SimOptions, host: usize) -> Result<(), Violation> {
    let Some(silent) = longest_silence(options, host) else {
        return Ok(());
    };
    if silent + HEARD_AGAIN >= options.gone_after {
        return Ok(());
    }
    let message = format!(
        "host {host} was silent for {silent:?} at most, and has lost its life, though it may be \
         away for {:?}",
        options.gone_after
    );
    Err(Violation::new("pauses", message))
}

/// The longest time for which the service may not have heard the host; `None` if that cannot be
/// told.
fn longest_silence(options: &SimOptions, host: usize) -> Option<Duration> {
    let mut services = options.services();
    let service = services.next().filter(|_| services.next().is_none())?;
    let mut silences = Vec::new();
    for (at, fault) in &options.faults {
        let time = match fault {
            Fault::Crash { host: died } if *died == service => return None,
            Fault::Freeze { host: still, time }
            | Fault::Sleep { host: still, time }
            | Fault::Slow {
                host: still, time, ..
            } if [host, service].contains(still) => *time,
            Fault::Split { .. } => healed_after(options, *at),
            Fault::Clog { time, .. } | Fault::Narrow { time, .. } | Fault::Outage { time, .. } => {
                *time
            }
            _ => continue,
        };
        silences.push((*at, *at + time));
    }
    silences.sort_unstable();
    let mut longest = Duration::ZERO;
    let mut present: Option<(Duration, Duration)> = None;
    for (from, to) in silences {
        let joined = present.filter(|(_, end)| from <= *end + HEARD_AGAIN);
        let (begin, end) = joined.map_or((from, to), |(begin, end)| (begin, end.max(to)));
        present = Some((begin, end));
        longest = longest.max(end - begin);
    }
    Some(longest)
}

fn healed_after(options: &SimOptions, split: Duration) -> Duration {
    let heals = options.faults.iter();
    let heals = heals.filter(|(at, fault)| *at >= split && matches!(fault, Fault::Heal));
    let healed = heals.map(|(at, _)| *at).min();
    healed.unwrap_or(options.duration) - split
}
