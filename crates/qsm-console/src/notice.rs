//! What happens to a node, as lines on stderr.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use qsm::{Event, Events, Received, UnconfirmedCause};

use crate::absence::Absences;
use crate::away::Away;
use crate::reach::{self, Names, Unheard};
use crate::table::printable;

/// How often drops of one's own are told.
const SLOW: Duration = Duration::from_secs(1);

/// Reads the events of a node, writes those that matter, and counts what its subscriptions miss.
#[derive(Debug)]
pub struct Notices {
    events: Events,
    verbose: bool,
    /// Messages lost, as far as known; of lost packets, packets.
    pub lost: u64,
    /// Messages of this node that nobody was left to have, by group.
    unheard: BTreeMap<Arc<str>, u64>,
    /// Views of regions so far.
    pub views: u64,
    /// When the node was excluded, and whose messages it may have missed.
    pub absences: Absences,
    away: Away,
    deaf: Unheard,
    names: Names,
    /// Messages that were not read in time, as far as told.
    pub dropped: u64,
    /// Of these, not written yet.
    unsaid: u64,
    say_again: Option<Instant>,
}

impl Notices {
    /// Of these events; all of them if `verbose`, else those that mean trouble.
    #[must_use]
    pub fn new(events: Events, verbose: bool) -> Self {
        Self {
            events,
            verbose,
            lost: 0,
            unheard: BTreeMap::new(),
            views: 0,
            absences: Absences::new(SystemTime::now()),
            away: Away::default(),
            deaf: Unheard::default(),
            names: Names::default(),
            dropped: 0,
            unsaid: 0,
            say_again: None,
        }
    }

    /// Calls nodes by these names.
    pub fn call_by(&mut self, names: Names) {
        self.names = names;
    }

    /// The members that multicast of this node does not reach now.
    #[must_use]
    pub fn unreached(&self) -> Option<String> {
        self.deaf.sentence(&self.names)
    }

    /// Writes and counts what a subscription says is missing.
    pub fn missing(&mut self, missing: &Received) {
        match missing {
            Received::Dropped(dropped) => {
                self.dropped += dropped.messages;
                self.unsaid += dropped.messages;
                self.say_dropped();
            }
            other => {
                match other {
                    Received::Lost(lost) => self.absences.lost(lost.sender, &lost.group),
                    Received::Excluded(_) => self.absences.returned(),
                    _ => {}
                }
                self.lost += other.missing();
                if let Some(line) = loss(other) {
                    eprintln!("qsm: {line}");
                }
            }
        }
    }

    fn note_unheard(&mut self, event: &Event) {
        if let Event::Unconfirmed {
            messages,
            cause: UnconfirmedCause::NoReceivers,
        } = event
        {
            let unheard = self.unheard.entry(Arc::clone(&messages.group));
            *unheard.or_default() += messages.messages();
        }
    }

    /// Messages of this node to these groups that nobody was left to have.
    #[must_use]
    pub fn unheard_in(&self, groups: &[String]) -> u64 {
        let of = |group: &String| self.unheard.get(group.as_str());
        let groups: BTreeSet<&String> = groups.iter().collect();
        groups.into_iter().filter_map(of).sum()
    }

    fn say_dropped(&mut self) {
        let now = Instant::now();
        if self.unsaid == 0 || self.say_again.is_some_and(|at| now < at) {
            return;
        }
        eprintln!(
            "qsm: SLOW: {} messages dropped because they came faster than they were taken, {} in \
             all; a larger --queue holds more",
            self.unsaid, self.dropped
        );
        self.unsaid = 0;
        self.say_again = now.checked_add(SLOW);
    }

    /// Writes what has happened since the last call.
    pub fn drain(&mut self) {
        self.say_dropped();
        let now = SystemTime::now();
        self.absences.look(now);
        while let Ok(Some(event)) = self.events.try_recv() {
            self.note_unheard(&event);
            match &event {
                Event::Excluded => self.absences.begin(now),
                Event::Admitted { .. } => self.absences.end(now),
                Event::RegionView { .. } => self.views += 1,
                Event::Deaf(deafness) => {
                    self.deaf.begin(deafness);
                    eprintln!("qsm: {}", reach::deaf(deafness, &self.names));
                }
                Event::Hears(deafness) => {
                    self.deaf.end(deafness);
                    eprintln!("qsm: {}", reach::hears(deafness, &self.names));
                }
                _ => {}
            }
            if let Some(line) = self.away.take(&event, now) {
                eprintln!("qsm: {line}");
            }
            if let Some((trouble, line)) = describe(&event)
                && (trouble || self.verbose)
            {
                eprintln!("qsm: {line}");
            }
        }
        if let Some(line) = self.away.look(now) {
            eprintln!("qsm: {line}");
        }
    }
}

/// A line about messages that are lost. Of a node that was away its events have told.
#[must_use]
pub fn loss(missing: &Received) -> Option<String> {
    match missing {
        Received::Lost(lost) => Some(format!(
            "LOST: group {} sender {} messages {}..={}",
            printable(&lost.group),
            lost.sender,
            lost.first,
            lost.last
        )),
        Received::LostPackets(lost) => Some(format!("LOST: {lost}")),
        _ => None,
    }
}

/// Whether it means trouble, and a line.
fn describe(event: &Event) -> Option<(bool, String)> {
    let trouble = |line: String| Some((true, line));
    let news = |line: String| Some((false, line));
    match event {
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
        Event::AddressLost { reason } => trouble(format!("NO ADDRESS: {reason}; trying again")),
        Event::Moved { from, to } if from == to => trouble(format!("the address {to} is back")),
        Event::Moved { from, to } => trouble(format!("moved from {from} to {to}")),
        Event::Away { region, reason } => news(format!("away in region {region}: {reason}")),
        Event::Back { region, away } => news(format!(
            "back in region {region} after {:.1} s",
            away.as_secs_f64()
        )),
        Event::Dropped { events } => trouble(format!(
            "MISSED: {events} events of this node came faster than they were read; what they told \
             is not known here"
        )),
        Event::ServiceLost => trouble("the membership service does not answer".to_owned()),
        Event::Unserved(unserved) => news(unserved.to_string()),
        Event::ServiceNotEmbedded { reason } => {
            trouble(format!("no membership service of its own: {reason}"))
        }
        Event::ServiceFound { address } => news(format!("membership service at {address}")),
        Event::ServiceEmbedded { address, discovery } => Some(alone(*address, *discovery)),
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

/// A node runs a service of its own. If it looked for one in vain, multicast may be why.
fn alone(address: SocketAddr, discovery: Option<SocketAddr>) -> (bool, String) {
    match discovery {
        Some(discovery) => (
            true,
            format!(
                "ALONE so far: no membership service answered at {discovery}, so this node runs one, \
                 at {address}. If others are running, multicast does not pass between them and this \
                 node: {}, or start `qsm gms` and name it with --service",
                reach::REMEDY
            ),
        ),
        None => (
            false,
            format!("this node runs a membership service, at {address}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use qsm::{Lost, Origin};

    use super::*;

    #[test]
    fn losses_are_told_and_counted() {
        let lost = Received::Lost(Lost::new("a\nb", Origin::default(), 3, 5));
        assert_eq!(lost.missing(), 3);
        let line = "LOST: group a\\nb sender 0.0 messages 3..=5".to_owned();
        assert_eq!(loss(&lost), Some(line));
    }

    #[test]
    fn views_are_news_only() {
        let event = Event::RegionView {
            region: qsm::RegionId(1),
            view: qsm::ViewNumber(2),
            members: 3,
        };
        assert!(matches!(describe(&event), Some((false, _))));
    }
}
