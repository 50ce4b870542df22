//! What a node says of itself to the membership service, for lists: host and version when it is
//! admitted, and how many messages it sends and receives, when that has changed (R-MEM-19); and the
//! description that its program gives (R-MEM-21).

use core::time::Duration;

use qsm_wire::NodeId;
use qsm_wire::membership::{About, Rates};

use crate::description::Describer;
use crate::{Instant, Introduction};

/// Time over which rates are counted, and between two words on them.
const INTERVAL: Duration = Duration::from_secs(5);
/// The first word comes at least so long after the admission. Up to [`INTERVAL`] it is put off, by
/// the node's id, so that nodes that start together do not speak together.
const FIRST: Duration = Duration::from_secs(1);

/// Messages accepted and delivered since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counted {
    pub(crate) sent: u64,
    pub(crate) received: u64,
}

/// Says what the node is, and counts.
#[derive(Debug)]
pub(crate) struct Reporter {
    introduction: Introduction,
    node: NodeId,
    born: Instant,
    /// `None` before it is admitted.
    due: Option<Instant>,
    since: Instant,
    counted: Counted,
    said: Option<Rates>,
    pub(crate) describer: Describer,
}

impl Reporter {
    pub(crate) fn new(introduction: Introduction, node: NodeId, now: Instant) -> Self {
        Self {
            introduction,
            node,
            born: now,
            due: None,
            since: now,
            counted: Counted::default(),
            said: None,
            describer: Describer::default(),
        }
    }

    /// The node is admitted, perhaps by another service than before. What it is to say, if that can
    /// be said.
    pub(crate) fn admitted(&mut self, now: Instant, counted: Counted) -> Option<About> {
        let spread = INTERVAL - FIRST;
        let apart = self.node.0 % crate::nanoseconds(spread);
        self.due = Some(now.after(FIRST + Duration::from_nanos(apart)));
        (self.since, self.counted, self.said) = (now, counted, None);
        self.describer.admitted(now);
        let about = About {
            host: self.introduction.host.clone(),
            version: self.introduction.version.clone(),
            uptime_ms: milliseconds(now.since(self.born)),
        };
        about.is_valid().then_some(about)
    }

    /// When [`Reporter::report`] has something to do, or a description is to be said.
    pub(crate) fn due(&self) -> Option<Instant> {
        let due = [self.due, self.describer.due()];
        due.into_iter().flatten().min()
    }

    /// The rates, if they are due and have changed.
    pub(crate) fn report(&mut self, now: Instant, counted: Counted) -> Option<Rates> {
        if self.due.is_none_or(|due| now < due) {
            return None;
        }
        let time = milliseconds(now.since(self.since)).max(1);
        let rate = |now: u64, before: u64| {
            let rate = now.saturating_sub(before).saturating_mul(1000) / time;
            u32::try_from(rate).unwrap_or(u32::MAX)
        };
        let rates = Rates {
            sent: rate(counted.sent, self.counted.sent),
            received: rate(counted.received, self.counted.received),
        };
        self.due = Some(now.after(INTERVAL));
        (self.since, self.counted) = (now, counted);
        let changed = self.said != Some(rates);
        self.said = Some(rates);
        changed.then_some(rates)
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn reporter(host: &str) -> Reporter {
        let introduction = Introduction {
            host: host.to_owned(),
            version: "1.2".to_owned(),
        };
        Reporter::new(introduction, NodeId(0), at(0))
    }

    fn counted(sent: u64, received: u64) -> Counted {
        Counted { sent, received }
    }

    // Rule R-MEM-19.
    #[test]
    fn rates_are_said_when_they_change() {
        let mut reporter = reporter("h");
        assert_eq!(reporter.due(), None);
        let about = reporter.admitted(at(300), counted(50, 0)).unwrap();
        assert_eq!((about.host.as_str(), about.uptime_ms), ("h", 300));
        assert_eq!(reporter.due(), Some(at(1300)));
        assert_eq!(reporter.report(at(1299), counted(99, 9)), None);
        let rates = |sent, received| Some(Rates { sent, received });
        assert_eq!(reporter.report(at(1300), counted(60, 0)), rates(10, 0));
        assert_eq!(reporter.report(at(6300), counted(110, 20)), rates(10, 4));
        assert_eq!(reporter.report(at(11_300), counted(160, 40)), None);
        // Late, and no faster for that.
        assert_eq!(reporter.report(at(21_300), counted(160, 60)), rates(0, 2));
        assert_eq!(reporter.report(at(26_300), counted(160, 60)), rates(0, 0));
        assert_eq!(reporter.report(at(31_300), counted(160, 60)), None);
        // Another service has not heard it.
        reporter.admitted(at(31_400), counted(160, 60)).unwrap();
        assert_eq!(reporter.report(at(32_400), counted(160, 60)), rates(0, 0));
    }

    #[test]
    fn a_text_that_is_too_long_is_not_said() {
        let mut reporter = reporter(&"h".repeat(65));
        assert_eq!(reporter.admitted(at(0), Counted::default()), None);
    }
}
