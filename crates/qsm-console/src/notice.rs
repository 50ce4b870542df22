//! What happens to a node, as lines on stderr.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use qsm::{
    Event, Events, Forged, LostCause, Node, NodeId, Origin, Received, UnconfirmedCause, Unserved,
    UnservedCause,
};

use crate::absence::Absences;
use crate::away::Away;
use crate::failure::Failure;
use crate::figures::{count, counted};
use crate::log::Note;
use crate::names::{Asker, Names};
use crate::options::NodeOptions;
use crate::reach::Earshot;
use crate::solitude::{Doubts, Solitude, still_alone};
use crate::table::printable;

/// Receivers that a line names.
const RECEIVERS_SHOWN: usize = 16;

/// How often drops of one's own are told.
const SLOW: Duration = Duration::from_secs(1);

/// A membership service that has not answered for so long is told of.
const SILENCE: Duration = Duration::from_secs(5);

/// Shortest time between two questions for names.
const PAUSE: Duration = Duration::from_secs(1);

/// Time that a line on a forgery waits for the names in it.
const PATIENCE: Duration = Duration::from_secs(1);

/// Reads the events of a node, writes those that matter, and counts what its subscriptions miss.
#[derive(Debug)]
pub struct Notices {
    node: Node,
    events: Events,
    verbose: bool,
    /// Messages lost, as far as known; of lost packets, packets.
    pub lost: u64,
    /// Of these, messages that had expired.
    pub expired: u64,
    /// Messages of this node that nobody was left to have, by group.
    unheard: BTreeMap<Arc<str>, u64>,
    /// When the node was excluded, and whose messages it may have missed.
    pub absences: Absences,
    away: Away,
    silence: Silence,
    solitude: Solitude,
    named: Option<NamedService>,
    earshot: Earshot,
    names: Names,
    /// Asks for names, if lines are to have them.
    asker: Option<Asker>,
    /// There are nodes whose names may not be known.
    newcomers: bool,
    ask_at: Instant,
    /// Messages that were not read in time, as far as told.
    pub dropped: u64,
    /// Of these, not written yet.
    unsaid: u64,
    say_again: Option<Instant>,
}

impl Notices {
    /// Of the events of a node with these options; all of them if they say so, else those that mean
    /// trouble.
    #[must_use]
    pub fn new(node: &Node, options: &NodeOptions) -> Self {
        let mut notices = Self {
            node: node.clone(),
            events: node.events(),
            verbose: options.network.verbose,
            lost: 0,
            expired: 0,
            unheard: BTreeMap::new(),
            absences: Absences::new(SystemTime::now()),
            away: Away::default(),
            silence: Silence::default(),
            solitude: Solitude::default(),
            named: NamedService::of(options),
            earshot: Earshot::default(),
            names: Names::default(),
            asker: None,
            newcomers: true,
            ask_at: Instant::now(),
            dropped: 0,
            unsaid: 0,
            say_again: None,
        };
        // It may have been found before.
        match node.stats() {
            Ok(snapshot) => snapshot
                .service
                .into_iter()
                .for_each(|at| notices.goes_by(at)),
            // The options are not for an attached one.
            Err(_) => notices.named = None,
        }
        notices
    }

    /// The cluster does not hear the node, and keeps for it what it misses.
    #[must_use]
    pub fn is_away(&self) -> bool {
        self.away.is_away()
    }

    /// Calls nodes by their names, which are asked for as nodes come.
    ///
    /// # Errors
    /// There is no thread for it.
    pub fn find_names(&mut self, names: &Names) -> Result<(), Failure> {
        self.asker = Some(Asker::start(&self.node, names)?);
        self.names = names.clone();
        Ok(())
    }

    /// The members that multicast of this node does not reach now.
    #[must_use]
    pub fn unreached(&self) -> Option<String> {
        self.earshot.unheard.sentence(&self.names)
    }

    /// When the node was excluded, and whose messages may be missing for that.
    #[must_use]
    pub fn exclusions(&self) -> Option<String> {
        self.absences.tell(&self.names)
    }

    /// The node has been away, so that what others kept for it may not have been enough.
    #[must_use]
    pub fn was_away(&self) -> bool {
        self.away.ever()
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
                    Received::Lost(lost) => {
                        self.absences.lost(lost.sender, &lost.group);
                        let expired = lost.cause == LostCause::Expired;
                        self.expired += if expired { lost.messages() } else { 0 };
                    }
                    Received::Excluded(_) => self.absences.returned(),
                    _ => {}
                }
                self.lost += other.missing();
                if let Some(line) = loss(other, &self.names) {
                    say_lost(other, &line, &self.names);
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
        let line = format!(
            "SLOW: {} dropped because they came faster than they were taken, {} in all; a larger \
             --queue holds more",
            counted(self.unsaid, "message"),
            count(self.dropped)
        );
        let note = Note::warn("dropped", &line);
        note.messages(self.unsaid).say();
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
                Event::RegionView { .. } => self.newcomers = true,
                Event::Deaf(_) | Event::Hears(_) => {
                    self.newcomers = true;
                    self.earshot.take(&event, now, &self.names);
                }
                Event::ServiceFound { address } => self.goes_by(*address),
                _ => {}
            }
            if !self.verbose {
                self.silence.take(&event, now);
            }
            self.solitude.take(&event, now);
            if let Some(line) = self.away.take(&event, now) {
                Note::warn("away-here", &line).say();
            }
            if let Event::Forged(forged) = &event {
                self.wait_for_name(forged.sender);
            }
            if let Some((trouble, line)) = describe(&event, &self.names)
                && (trouble || self.verbose)
            {
                match (trouble, &event) {
                    (true, Event::Forged(forged)) => say_forged(forged, &line, &self.names),
                    (true, _) => Note::warn(name_of(&event), &line).say(),
                    (false, _) => Note::info(name_of(&event), &line).say(),
                }
            }
        }
        self.ask_for_names();
        let known = self.asker.is_some().then_some(&self.names);
        while let Some(line) = self.earshot.next(now, known) {
            Note::warn("reach", &line).say();
        }
        if let Some(line) = self.away.look(now) {
            Note::warn("away-here", line).say();
        }
        if let Some(line) = self.silence.look(now) {
            Note::warn("service-lost", &line).say();
        }
        if let Some(discovery) = self.solitude.look(now)
            && others(&self.node) == Some(0)
        {
            let line = still_alone(discovery, &Doubts::of(&self.node));
            Note::warn("alone", &line).say();
        }
    }

    /// Asks for a node's name, if it is not known, and waits a moment for the answer.
    fn wait_for_name(&mut self, origin: Origin) {
        let now = Instant::now();
        if let Some(asker) = self.asker.as_ref().filter(|_| now >= self.ask_at)
            && self.names.get(origin).is_none()
        {
            self.ask_at = now + PAUSE;
            asker.ask_within(PATIENCE);
        }
    }

    fn ask_for_names(&mut self) {
        self.newcomers |= self.absences.take_newcomers() > 0;
        let now = Instant::now();
        if let Some(asker) = self.asker.as_ref().filter(|_| now >= self.ask_at)
            && core::mem::take(&mut self.newcomers)
        {
            self.ask_at = now + PAUSE;
            asker.ask();
        }
    }

    /// The node goes by the membership service there.
    fn goes_by(&mut self, address: SocketAddr) {
        if let Some(line) = self.named.as_mut().and_then(|named| named.look(address)) {
            Note::warn("other-service", &line).say();
        }
    }
}

/// The membership service that an option names.
#[derive(Debug)]
struct NamedService {
    /// As it was given.
    option: String,
    addresses: Vec<SocketAddr>,
    /// Another one that has been told of.
    told: Option<SocketAddr>,
}

impl NamedService {
    fn of(options: &NodeOptions) -> Option<Self> {
        let places: Vec<String> = options.service.iter().map(ToString::to_string).collect();
        if places.is_empty() {
            return None;
        }
        Some(Self {
            option: places.join(", "),
            addresses: options.services().ok()?,
            told: None,
        })
    }

    /// A line if the node goes by another one.
    fn look(&mut self, address: SocketAddr) -> Option<String> {
        if self.addresses.contains(&address) || self.told.replace(address) == Some(address) {
            return None;
        }
        Some(format!(
            "WARNING: no membership service of this cluster answers at {}, which --service names; \
             found one at {address} by multicast, and go by that",
            self.option
        ))
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
fn loss(missing: &Received, names: &Names) -> Option<String> {
    match missing {
        Received::Lost(lost) => Some(format!(
            "LOST: group {} sender {} messages {}..={}{}",
            printable(&lost.group),
            names.with_identity(lost.sender),
            lost.first,
            lost.last,
            match lost.cause {
                LostCause::Expired => ", expired",
                LostCause::Overdue => ", not waited for any longer",
                _ => "",
            }
        )),
        Received::LostPackets(lost) => Some(format!(
            "LOST: {} of sender {}, which has died",
            counted(lost.packets, "packet"),
            names.with_identity(lost.sender)
        )),
        _ => None,
    }
}

/// Says what is lost, with group and sender where they are known.
fn say_lost(missing: &Received, line: &str, names: &Names) {
    let note = Note::warn("lost", line).messages(missing.missing());
    match missing {
        Received::Lost(lost) => {
            let sender = names.with_identity(lost.sender);
            note.group(&lost.group).sender(&sender).say();
        }
        _ => note.say(),
    }
}

/// Says what came in another's name, with that and where it came from.
fn say_forged(forged: &Forged, line: &str, names: &Names) {
    let sender = names.with_identity(forged.sender);
    let source = forged.source.map(|source| source.to_string());
    let note = Note::warn("forged", line).sender(&sender);
    match &source {
        Some(source) => note.address(source).say(),
        None => note.say(),
    }
}

/// The stable name of an event.
fn name_of(event: &Event) -> &'static str {
    match event {
        Event::AddressLost { .. } => "address-lost",
        Event::Admitted { .. } => "admitted",
        Event::Away { .. } => "away",
        Event::Back { .. } => "back",
        Event::Damaged(_) => "damaged",
        Event::Forged(_) => "forged",
        Event::Stranger(_) => "stranger",
        Event::Deaf(_) | Event::Hears(_) => "reach",
        Event::Dropped { .. } => "events-dropped",
        Event::Excluded => "excluded",
        Event::Expelled => "expelled",
        Event::Moved { .. } => "moved",
        Event::ListRefused { .. } => "list-refused",
        Event::NotListening { .. } => "not-listening",
        Event::NotPermitted(_) => "not-permitted",
        Event::OverBudget(_) => "over-budget",
        Event::RegionView { .. } => "region-view",
        Event::ServiceEmbedded { .. } => "service-embedded",
        Event::ServiceFound { .. } => "service-found",
        Event::ServiceLost => "service-lost",
        Event::ServiceNotEmbedded { .. } => "service-not-embedded",
        Event::ServiceYielded => "service-yielded",
        Event::Unconfirmed { .. } => "unconfirmed",
        Event::Unserved(_) => "unserved",
        _ => "other",
    }
}

/// Whether it means trouble, and a line.
fn describe(event: &Event, names: &Names) -> Option<(bool, String)> {
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
            "MISSED: {} of this node came faster than they were read; what they told is not known \
             here",
            counted(*events, "event")
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
        Event::Expelled => trouble(event.to_string().replacen("expelled", "EXPELLED", 1)),
        Event::Damaged(_) => trouble(format!("DAMAGED: {event}")),
        Event::Forged(forged) => trouble(format!("FORGED: {}", forged_by(forged, names))),
        Event::NotPermitted(sent) => {
            let line = sent.line(|origin| names.with_identity(origin));
            trouble(format!("NOT PERMITTED: {}", printable(&line)))
        }
        Event::OverBudget(_) => trouble(format!("OVER BUDGET: {event}")),
        Event::Stranger(_) => trouble(format!("STRANGER: {event}")),
        Event::ListRefused { .. } => {
            trouble(format!("LIST REFUSED: {}", printable(&event.to_string())))
        }
        Event::RecordingStopped { .. } => {
            trouble(format!("NOT RECORDED: {}", printable(&event.to_string())))
        }
        Event::Moved { .. } | Event::ServiceNotEmbedded { .. } => trouble(event.to_string()),
        Event::Away { .. }
        | Event::Back { .. }
        | Event::Admitted { .. }
        | Event::RegionView { .. }
        | Event::ServiceFound { .. }
        | Event::ServiceLost
        | Event::ServiceYielded => news(event.to_string()),
        Event::Unserved(unserved) => news(unserved_by(unserved, names)),
        _ => None,
    }
}

/// Packets in another's name, with the names of those who are known.
fn forged_by(forged: &Forged, names: &Names) -> String {
    forged.line(|origin| names.with_identity(origin))
}

/// Receivers that may lack something.
fn unserved_by(unserved: &Unserved, names: &Names) -> String {
    let one = unserved.receivers() == 1;
    let verb = match (unserved.cause, one) {
        (UnservedCause::Away, true) => "is away",
        (UnservedCause::Away, false) => "are away",
        (UnservedCause::Ended, true) => "is left behind by the end of this node",
        (UnservedCause::Ended, false) => "are left behind by the end of this node",
        (UnservedCause::Overrun, true) => "was away for longer than is kept for it,",
        (UnservedCause::Overrun, false) => "were away for longer than is kept for them,",
        (UnservedCause::Demoted, true) => "was slower than the others, and has gone on",
        (UnservedCause::Demoted, false) => "were slower than the others, and have gone on",
        _ => "left",
    };
    let who = unserved.receivers.iter().take(RECEIVERS_SHOWN);
    let who: Vec<String> = who.map(|origin| names.with_identity(*origin)).collect();
    format!(
        "{} {verb} without having acknowledged {}: {}",
        counted(unserved.receivers(), "receiver"),
        counted(unserved.messages(), "message"),
        who.join(", ")
    )
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

#[cfg(test)]
mod tests {
    use qsm::{Lost, Origin};

    use super::*;

    #[test]
    fn losses_are_told_and_counted() {
        let lost = Received::Lost(Lost::new("a\nb", Origin::default(), 3, 5));
        assert_eq!(lost.missing(), 3);
        let line = "LOST: group a\\nb sender 0.0 messages 3..=5".to_owned();
        assert_eq!(loss(&lost, &Names::default()), Some(line.clone()));
        let lost = Lost::new("a\nb", Origin::default(), 3, 5).because(LostCause::Expired);
        let told = loss(&Received::Lost(lost), &Names::default());
        assert_eq!(told, Some(line + ", expired"));
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
    fn a_first_node_waits_calmly() {
        let event = Event::ServiceEmbedded {
            address: "10.0.0.1:4481".parse().unwrap(),
            discovery: Some("239.192.83.77:4483".parse().unwrap()),
        };
        let (_, line) = describe(&event, &Names::default()).unwrap_or_default();
        assert!(line.contains("waiting for others"), "{line}");
        assert!(
            !line.contains("multicast") && !line.contains("ALONE"),
            "{line}"
        );
    }

    #[test]
    fn another_service_than_the_named_one_is_told_of_once() {
        let [one, two, other]: [SocketAddr; 3] =
            ["10.0.0.1:1", "10.0.0.2:1", "10.0.0.9:1"].map(|at| at.parse().unwrap());
        let mut named = NamedService {
            option: "gms.example:1".to_owned(),
            addresses: vec![one, two],
            told: None,
        };
        assert_eq!((named.look(one), named.look(two)), (None, None));
        let line = named.look(other).unwrap_or_default();
        assert!(
            line.contains("at gms.example:1, which --service") && line.contains("at 10.0.0.9:1"),
            "{line}"
        );
        assert_eq!(named.look(other), None);
    }

    #[test]
    fn a_port_that_another_program_has_is_told_with_the_options_that_change_it() {
        let address = "239.192.0.0:4484".parse().unwrap();
        let reason = "UDP port 4484 is in use; choose another port, or 0 for any".to_owned();
        let event = Event::NotListening { address, reason };
        let (trouble, line) = describe(&event, &Names::default()).unwrap_or_default();
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
        let told = describe(&event, &Names::default());
        assert!(matches!(told, Some((false, _))));
    }
}
