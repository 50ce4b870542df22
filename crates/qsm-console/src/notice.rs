//! What happens to a node, as lines on stderr.

use std::time::SystemTime;

use qsm::{Event, Events, UnconfirmedCause};

use crate::absence::Absences;
use crate::table::printable;

/// Reads the events of a node, writes those that matter, and counts losses.
#[derive(Debug)]
pub struct Notices {
    events: Events,
    verbose: bool,
    /// Messages lost, as far as known.
    pub lost: u64,
    /// Messages of this node that nobody was left to have.
    pub unheard: u64,
    /// When the node was excluded, and whose messages it may have missed.
    pub absences: Absences,
}

impl Notices {
    /// Of these events; all of them if `verbose`, else those that mean trouble.
    #[must_use]
    pub fn new(events: Events, verbose: bool) -> Self {
        Self {
            events,
            verbose,
            lost: 0,
            unheard: 0,
            absences: Absences::new(SystemTime::now()),
        }
    }

    /// Writes what has happened since the last call.
    pub fn drain(&mut self) {
        let now = SystemTime::now();
        self.absences.look(now);
        while let Ok(Some(event)) = self.events.try_recv() {
            self.lost += lost(&event);
            self.unheard += unheard(&event);
            match &event {
                Event::Excluded => self.absences.begin(now),
                Event::Admitted { .. } => self.absences.end(now),
                Event::Lost { group, sender, .. } => self.absences.resolve(*sender, group),
                _ => {}
            }
            if let Some((trouble, line)) = describe(&event)
                && (trouble || self.verbose)
            {
                eprintln!("qsm: {line}");
            }
        }
    }
}

/// Messages, or packets where messages are not known, that this event says are lost.
fn lost(event: &Event) -> u64 {
    match event {
        Event::Lost { first, last, .. } => last.saturating_sub(*first) + 1,
        Event::LostPackets { packets, .. } => *packets,
        _ => 0,
    }
}

/// Messages of this node that nobody was left to have.
fn unheard(event: &Event) -> u64 {
    match event {
        Event::Unconfirmed {
            messages,
            cause: UnconfirmedCause::NoReceivers,
        } => messages.messages(),
        _ => 0,
    }
}

/// Whether it means trouble, and a line.
fn describe(event: &Event) -> Option<(bool, String)> {
    let trouble = |line: String| Some((true, line));
    let news = |line: String| Some((false, line));
    match event {
        Event::Lost {
            group,
            sender,
            first,
            last,
        } => trouble(format!(
            "LOST: group {} sender {sender} messages {first}..={last}",
            printable(group)
        )),
        Event::LostPackets { sender, packets } => trouble(format!(
            "LOST: {packets} packets of sender {sender}, which has died"
        )),
        Event::SlowConsumer {
            dropped,
            dropped_total,
            ..
        } => trouble(format!(
            "SLOW: {dropped} messages dropped because they were not read in time, \
             {dropped_total} in all"
        )),
        Event::NotListening { address, reason } => {
            trouble(format!("cannot receive {address}: {reason}"))
        }
        Event::Unconfirmed { messages, cause } => {
            let why = match cause {
                UnconfirmedCause::NewLife => "accepted before this node was excluded",
                _ => "no receiver is left",
            };
            let line = format!("NOT CONFIRMED: {}: {why}", printable(&messages.to_string()));
            Some((*cause == UnconfirmedCause::NewLife, line))
        }
        Event::Excluded => trouble(
            "EXCLUDED: the cluster took this node for dead; it comes back by itself and misses \
             what was sent meanwhile"
                .to_owned(),
        ),
        Event::ServiceLost => trouble("the membership service does not answer".to_owned()),
        Event::ServiceNotEmbedded { reason } => {
            trouble(format!("no membership service of its own: {reason}"))
        }
        Event::ServiceFound { address } => news(format!("membership service at {address}")),
        Event::ServiceEmbedded { address } => news(format!(
            "no membership service found, so this node runs one, at {address}"
        )),
        Event::ServiceYielded => news("own membership service gave way to another".to_owned()),
        Event::Admitted { incarnation } => news(format!("admitted, life {incarnation}")),
        Event::RegionView {
            region,
            view,
            members,
        } => news(format!("region {region}, view {view}: {members} members")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use qsm::Origin;

    use super::*;

    #[test]
    fn losses_are_trouble_and_counted() {
        let event = Event::Lost {
            group: "a\nb".into(),
            sender: Origin::default(),
            first: 3,
            last: 5,
        };
        assert_eq!(lost(&event), 3);
        let line = "LOST: group a\\nb sender 0.0 messages 3..=5".to_owned();
        assert_eq!(describe(&event), Some((true, line)));
    }

    #[test]
    fn views_are_news_only() {
        let event = Event::RegionView {
            region: qsm::RegionId(1),
            view: qsm::ViewNumber(2),
            members: 3,
        };
        assert_eq!(lost(&event), 0);
        assert!(matches!(describe(&event), Some((false, _))));
    }
}
