//! What happens to a node, as lines on stderr.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use qsm::{Event, Events, Node, NodeId, Received, UnconfirmedCause};

use crate::absence::Absences;
use crate::away::Away;
use crate::reach::{self, Names, Unheard};
use crate::table::printable;

/// How often drops of one's own are told.
const SLOW: Duration = Duration::from_secs(1);

/// A membership service that has not answered for so long is told of.
const SILENCE: Duration = Duration::from_secs(5);

/// A node that found no membership service and has had no other node for so long says why that may
/// be. Longer than starting a second program by hand takes.
const LONELY: Duration = Duration::from_secs(10);

/// Reads the events of a node, writes those that matter, and counts what its subscriptions miss.
#[derive(Debug)]
pub struct Notices {
    node: Node,
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
    silence: Silence,
    solitude: Solitude,
    deaf: Unheard,
    names: Names,
    /// Messages that were not read in time, as far as told.
    pub dropped: u64,
    /// Of these, not written yet.
    unsaid: u64,
    say_again: Option<Instant>,
}

impl Notices {
    /// Of the events of this node; all of them if `verbose`, else those that mean trouble.
    #[must_use]
    pub fn new(node: &Node, verbose: bool) -> Self {
        Self {
            node: node.clone(),
            events: node.events(),
            verbose,
            lost: 0,
            unheard: BTreeMap::new(),
            views: 0,
            absences: Absences::new(SystemTime::now()),
            away: Away::default(),
            silence: Silence::default(),
            solitude: Solitude::default(),
            deaf: Unheard::default(),
            names: Names::default(),
            dropped: 0,
            unsaid: 0,
            say_again: None,
        }
    }

    /// The cluster does not hear the node, and keeps for it what it misses.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away.is_away()
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
            if !self.verbose {
                self.silence.take(&event, now);
            }
            self.solitude.take(&event, now);
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
        if let Some(line) = self.silence.look(now) {
            eprintln!("qsm: {line}");
        }
        if let Some(discovery) = self.solitude.look(now)
            && others(&self.node) == Some(0)
        {
            eprintln!("qsm: {}", still_alone(discovery));
        }
    }
}

/// Other nodes of the cluster; `None` if the membership service does not say.
fn others(node: &Node) -> Option<usize> {
    let rows = node.list_nodes().ok()?;
    let own: Vec<NodeId> = node.ids().collect();
    let others = rows.iter().filter(|row| !own.contains(&row.origin.node));
    Some(others.count())
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
        Event::Dropped { events } => trouble(format!(
            "MISSED: {events} events of this node came faster than they were read; what they told \
             is not known here"
        )),
        Event::ServiceEmbedded { address, discovery } => Some(alone(*address, *discovery)),
        Event::NotListening { address, reason } => {
            // Its advice is for a port that a program may choose alone.
            let cause = reason
                .split_once("; ")
                .map_or(reason.as_str(), |(cause, _)| cause);
            trouble(format!(
                "cannot receive {address}: {cause}; what is sent there comes as repairs, of members \
                 that hear it: find the owner with `ss -ulnp 'sport = {port}'` and end it, or give \
                 all nodes and services another port by --data-port, of the discovery address by \
                 --discovery",
                port = address.port()
            ))
        }
        Event::Damaged(_) => trouble(format!("DAMAGED: {event}")),
        Event::Moved { .. } | Event::ServiceNotEmbedded { .. } => trouble(event.to_string()),
        Event::Away { .. }
        | Event::Back { .. }
        | Event::Admitted { .. }
        | Event::RegionView { .. }
        | Event::ServiceFound { .. }
        | Event::ServiceLost
        | Event::ServiceYielded
        | Event::Unserved(_) => news(event.to_string()),
        _ => None,
    }
}

/// A service that does not answer is news only after a while: when the program that ran it has ended,
/// another one is found at once.
#[derive(Debug, Default)]
struct Silence {
    say_at: Option<SystemTime>,
}

impl Silence {
    fn take(&mut self, event: &Event, now: SystemTime) {
        match event {
            Event::ServiceLost => self.say_at = Some(now + SILENCE),
            Event::ServiceFound { .. } | Event::ServiceEmbedded { .. } => self.say_at = None,
            _ => {}
        }
    }

    fn look(&mut self, now: SystemTime) -> Option<String> {
        self.say_at.take_if(|at| *at <= now)?;
        Some(Event::ServiceLost.to_string())
    }
}

/// A node that looked for a membership service in vain. That is so of the first one of a cluster, so
/// it is a reason to doubt multicast only when nobody has come for a while.
#[derive(Debug, Default)]
struct Solitude {
    say_at: Option<(SystemTime, SocketAddr)>,
    /// The node's own service.
    own: Option<SocketAddr>,
}

impl Solitude {
    fn take(&mut self, event: &Event, now: SystemTime) {
        match event {
            Event::ServiceEmbedded { address, discovery } => {
                self.say_at = discovery.map(|discovery| (now + LONELY, discovery));
                self.own = Some(*address);
            }
            Event::ServiceFound { address } if self.own == Some(*address) => {}
            // Another service, so there are others.
            Event::ServiceFound { .. } | Event::ServiceYielded => self.say_at = None,
            _ => {}
        }
    }

    /// The address at which no service answered, once, when it is time to see whether somebody has
    /// come.
    fn look(&mut self, now: SystemTime) -> Option<SocketAddr> {
        let (_, discovery) = self.say_at.take_if(|(at, _)| *at <= now)?;
        Some(discovery)
    }
}

/// A node runs a service of its own.
fn alone(address: SocketAddr, discovery: Option<SocketAddr>) -> (bool, String) {
    match discovery {
        Some(discovery) => (
            true,
            format!(
                "no membership service answered at {discovery}, so this node runs one, at {address}; \
                 waiting for others, as the first node of a cluster does"
            ),
        ),
        None => (
            false,
            format!("this node runs a membership service, at {address}"),
        ),
    }
}

/// Nobody has come.
fn still_alone(discovery: SocketAddr) -> String {
    format!(
        "still alone after {} s, which is no fault if no other node has been started. If others are \
         running, multicast to {discovery} does not pass between them and this node: {}, or start \
         `qsm gms` and name it with --service HOST:PORT at all",
        LONELY.as_secs(),
        reach::REMEDY
    )
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
    fn a_service_that_another_follows_at_once_is_not_told_of() {
        let (mut silence, start) = (Silence::default(), SystemTime::UNIX_EPOCH);
        let address = "10.0.0.1:4481".parse().unwrap();
        silence.take(&Event::ServiceLost, start);
        silence.take(&Event::ServiceFound { address }, start);
        assert_eq!(silence.look(start + 2 * SILENCE), None);
        silence.take(&Event::ServiceLost, start);
        assert_eq!(silence.look(start + SILENCE / 2), None);
        let line = silence.look(start + SILENCE).unwrap_or_default();
        assert!(line.contains("messages go on"), "{line}");
        assert_eq!(silence.look(start + 2 * SILENCE), None);
    }

    #[test]
    fn a_first_node_doubts_multicast_only_after_a_while_and_once() {
        let address = "10.0.0.1:4481".parse().unwrap();
        let group: SocketAddr = "239.192.83.77:4483".parse().unwrap();
        let embedded = |discovery| Event::ServiceEmbedded { address, discovery };
        let (_, line) = describe(&embedded(Some(group))).unwrap_or_default();
        assert!(line.contains("waiting for others"), "{line}");
        assert!(
            !line.contains("multicast") && !line.contains("ALONE"),
            "{line}"
        );
        let (mut solitude, start) = (Solitude::default(), SystemTime::UNIX_EPOCH);
        solitude.take(&embedded(Some(group)), start);
        // It is found like any other.
        solitude.take(&Event::ServiceFound { address }, start);
        assert_eq!(solitude.look(start + LONELY / 2), None);
        assert_eq!(solitude.look(start + LONELY), Some(group));
        assert_eq!(solitude.look(start + 2 * LONELY), None);
        solitude.take(&embedded(Some(group)), start);
        let address = "10.0.0.2:4481".parse().unwrap();
        solitude.take(&Event::ServiceFound { address }, start);
        assert_eq!(solitude.look(start + 2 * LONELY), None);
        solitude.take(&embedded(None), start);
        assert_eq!(solitude.look(start + 2 * LONELY), None);
        let line = still_alone(group);
        for part in ["multicast to 239.192.83.77:4483", "--service", "IGMP"] {
            assert!(line.contains(part), "{line}");
        }
    }

    #[test]
    fn a_port_that_another_program_has_is_told_with_the_options_that_change_it() {
        let address = "239.192.0.0:4484".parse().unwrap();
        let reason = "UDP port 4484 is in use; choose another port, or 0 for any".to_owned();
        let event = Event::NotListening { address, reason };
        let (trouble, line) = describe(&event).unwrap_or_default();
        assert!(trouble && line.contains("is in use; what"), "{line}");
        for part in ["--data-port", "--discovery", "sport = 4484"] {
            assert!(line.contains(part) && !line.contains("or 0"), "{line}");
        }
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
