//! The client's side of the membership protocol: it finds a service, keeps a session with it, and
//! keeps the tables of groups and regions that the service's batches describe (R035-R039).
//!
//! ```text
//!           beacon / set_service          Welcome
//!  Searching ───────────────► Greeting ───────────► Member ──► poll_message: batches, answers
//!      ▲                        ▲   ▲                 │
//!      │ nobody answers         │   └── reset ────────┤  (service restarted, or excluded this node)
//!      └── ServiceMissing       └────── redirect ─────┘  (service yields to another one)
//! ```
//!
//! The service is needed for change, not for traffic: when it is silent, [`Event::ServiceLost`]
//! says so and everything else goes on with the last views. When it, or another, comes back
//! without memory, the node reports in its `Hello` what it knows, and goes on in the same life if
//! the service can take it up. Requests not answered yet are sent again after every welcome.
//!
//! Messages come out as the service sent them. Whoever polls them has each update noted in the
//! tables ([`Membership::next_view`] and its like) when it takes effect, and says
//! [`Membership::start_over`] if one does not fit.
//!
//! Commands end in one step that does whatever is due; [`Membership::next_timeout`] says when
//! that step is needed again.

mod commands;
mod discovery;
mod groups;
mod link;
mod lives;
mod messages;
mod regions;
mod requests;

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::membership::{Hello, MESSAGE_BYTES_MAX, Role, ToService, ToldLimit};
use qsm_wire::{
    Body, GroupId, Header, HeaderTemplate, Incarnation, Kind, NodeId, Origin, Probe, RegionId,
    Reset, ViewNumber,
};

use self::discovery::Discovery;
use self::groups::Groups;
use self::link::Link;
use self::lives::LifeTable;
pub use self::messages::RoleChanges;
use self::regions::Regions;
use self::requests::Requests;
use crate::session::frame_bytes;
use crate::view::{Layout, RegionView};
use crate::{Config, Destination, Event, Events, Instant, Outbox, Random, Reason, Seed};

/// Silence of the service after which it counts as lost: five heartbeats (R-MEM-5).
const SERVICE_SILENCE: Duration = Duration::from_secs(1);
/// Silence of the service that is remembered when it has ended: two heartbeats were missed.
const NOTABLE_SILENCE: Duration = Duration::from_millis(500);
/// Age up to which the end of such a silence explains why this node was not heard either.
const RECENT_SILENCE: Duration = Duration::from_secs(5);
/// Heartbeat interval until the service has told its own.
const HEARTBEAT_START: Duration = Duration::from_millis(200);
/// First pause before a session that was never welcomed is opened again; it doubles.
const REOPEN_MIN: Duration = Duration::from_millis(50);
/// Longest such pause.
const REOPEN_MAX: Duration = Duration::from_secs(1);
/// How long a goodbye is repeated without receipt.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// What was configured.
#[derive(Debug)]
struct Identity {
    node: NodeId,
    name: String,
    address: SocketAddr,
    second: Option<SocketAddr>,
    discovery: SocketAddr,
    template: HeaderTemplate,
    layout: Layout,
    frame_bytes: usize,
    groups_max: usize,
    /// A configured service is never replaced by one of this node's own.
    service_fixed: bool,
}

/// How the service stands, as far as the endpoint has been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Contact {
    None,
    Found,
    Lost,
}

/// A node's side of the membership protocol.
#[derive(Debug)]
pub struct Membership {
    identity: Identity,
    random: Random,
    incarnation: Incarnation,
    /// The highest incarnation of any node heard of.
    incarnation_last: Incarnation,
    term: u64,
    /// The run of the service that admitted this node last.
    run: Option<Origin>,
    contact: Contact,
    link: Option<Link>,
    /// Since when, and until when, the service was silent last.
    silence: Option<(Instant, Instant)>,
    /// Session ids grow, so that a service can tell a new session from an old one's echo.
    session_last: u64,
    reopen_at: Option<Instant>,
    reopen_pause: Duration,
    goodbye_until: Option<Instant>,
    discovery: Discovery,
    groups: Groups,
    regions: Regions,
    requests: Requests,
    /// Regions that this node has left and is done with.
    drained: BTreeMap<RegionId, ViewNumber>,
    dead: LifeTable,
    /// Those of them that owed this node nothing when they said goodbye.
    owe_nothing: LifeTable,
    /// Lives that this node receives from, unless they are dead.
    senders: LifeTable,
    /// Whether it has ever asked to publish.
    published: bool,
    /// The limit of repairs that it was told last. It outlives services and lives.
    repairs: ToldLimit,
    /// News of the service, for the runtime.
    events: Events,
    /// Batches that did not fit what is known here; each costs a new session.
    misfits: u64,
}

impl Membership {
    /// A node that is in no cluster yet. The configuration has been checked.
    #[must_use]
    pub fn new(config: &Config, seed: Seed, now: Instant) -> Self {
        let mut random = Random::new(seed, "membership");
        let session_last = random.bits() >> 1;
        let mut this = Self {
            identity: Identity {
                node: config.node,
                name: config.name.clone(),
                address: config.address,
                second: config.second,
                discovery: config.discovery,
                template: config.header_template(),
                layout: config.layout,
                frame_bytes: frame_bytes(config.datagram_bytes),
                groups_max: config.limits.groups,
                service_fixed: config.service.is_some(),
            },
            random,
            incarnation: Incarnation(0),
            incarnation_last: Incarnation(0),
            term: 0,
            run: None,
            contact: Contact::None,
            link: None,
            silence: None,
            session_last,
            reopen_at: None,
            reopen_pause: REOPEN_MIN,
            goodbye_until: None,
            discovery: Discovery::idle(),
            groups: Groups::default(),
            regions: Regions::default(),
            requests: Requests::default(),
            drained: BTreeMap::new(),
            dead: LifeTable::default(),
            owe_nothing: LifeTable::default(),
            senders: LifeTable::default(),
            published: false,
            repairs: ToldLimit::default(),
            events: Events::default(),
            misfits: 0,
        };
        match config.service {
            Some(address) => this.connect(now, address),
            None => this.discovery.start(now, true, &mut this.random),
        }
        this
    }

    /// Who this node is; incarnation 0 before it is admitted.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin {
            node: self.identity.node,
            incarnation: self.incarnation,
        }
    }

    /// A group's number, once the service has told it.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupId> {
        self.groups.id(name)
    }

    /// Whether the application has asked for this role and not given it up since.
    #[must_use]
    pub fn wants(&self, role: Role, name: &str) -> bool {
        self.groups.wants(role, name)
    }

    /// Whether the service has confirmed this role in the group, and the application wants it.
    #[must_use]
    pub fn holds(&self, role: Role, name: &str) -> bool {
        self.groups.holds(role, name)
    }

    /// This node knows something of that life: a service that starts without memory must not
    /// give its incarnation again (R-MEM-1).
    pub fn heard_of(&mut self, origin: Origin) {
        self.incarnation_last = self.incarnation_last.max(origin.incarnation);
    }

    /// This node receives a stream of that life, and will have to know when it is over.
    pub fn heard_sender(&mut self, origin: Origin) {
        self.heard_of(origin);
        if !self.is_dead(origin) {
            self.senders.insert(origin);
        }
    }

    /// Whether the service has said that this life is over.
    #[must_use]
    pub fn is_dead(&self, origin: Origin) -> bool {
        self.dead.contains(origin)
    }

    /// A sender has said goodbye, and what this node lacks of it was not for it. Rule R-VIEW-16.
    pub fn note_nothing_owed(&mut self, origin: Origin) {
        self.owe_nothing.insert(origin);
    }

    /// Tells whether what this node lacks of a sender that has said goodbye was not for it.
    #[must_use]
    pub fn is_owed_nothing(&self, origin: Origin) -> bool {
        self.owe_nothing.contains(origin)
    }

    /// The service has told a limit of repairs, which another one hears of. Rule R-NAK-16.
    pub fn note_repair_limit(&mut self, told: ToldLimit) {
        self.repairs = told;
    }

    /// How long the way to the service and back takes, as far as is known.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let link = self.link.as_ref();
        link.and_then(|link| link.session.round_trip())
    }

    /// The name of a group of this node.
    #[must_use]
    pub fn group_name(&self, group: GroupId) -> Option<&str> {
        self.groups.name(group)
    }

    /// The names of the groups by their numbers of the life before; to be asked once, at the
    /// beginning of a life.
    pub(crate) fn take_former_names(&mut self) -> BTreeMap<GroupId, Arc<str>> {
        self.groups.take_former()
    }

    /// The newest views of the regions that concern this node, by region.
    pub fn views(&self) -> impl Iterator<Item = &Arc<RegionView>> {
        self.regions.views()
    }

    /// The groups of a region that concern this node, ascending.
    #[must_use]
    pub fn region_groups(&self, region: RegionId) -> Option<&[GroupId]> {
        self.regions.groups(region)
    }

    /// Where the service is, or was last.
    #[must_use]
    pub fn service(&self) -> Option<SocketAddr> {
        self.link.as_ref().map(|link| link.address)
    }

    /// The term of the service that admitted this node last; 0 before.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.term
    }

    /// The run of the service that admitted this node last, and has made its views since; `None`
    /// before.
    #[must_use]
    pub fn service_run(&self) -> Option<Origin> {
        self.run
    }

    /// The next news of the service, for the runtime.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop()
    }

    /// Batches that contradicted what was known; each was repaired by a new session.
    #[must_use]
    pub fn misfits(&self) -> u64 {
        self.misfits
    }

    /// Whether the goodbye has arrived, or is pointless.
    #[must_use]
    pub fn is_gone(&self, now: Instant) -> bool {
        let Some(until) = self.goodbye_until else {
            return false;
        };
        let settled = |link: &Link| !link.welcomed || link.session.is_settled();
        now >= until || self.link.as_ref().is_none_or(settled)
    }

    /// The service's address, found by the runtime or embedded in it.
    pub fn set_service(&mut self, now: Instant, address: SocketAddr, outbox: &mut Outbox) {
        if self.service() != Some(address) || self.contact == Contact::Lost {
            self.connect(now, address);
            self.step(now, outbox);
        }
    }

    /// Takes one of the packets that concern membership; others are ignored. The header's
    /// cluster has been checked by the caller. Then [`Membership::poll_message`] has what the
    /// service says, and [`Membership::handle_timeout`] does what is due.
    pub fn handle(&mut self, now: Instant, header: &Header, body: &Body<'_>) {
        match body {
            Body::Session(frame) => {
                if self.heard_from_service(now, frame.head.session)
                    && self.is_same_run(now, header.origin)
                    && let Some(link) = &mut self.link
                {
                    link.session.handle_frame(now, frame);
                }
            }
            Body::SessionAck(heard) => {
                if self.heard_from_service(now, heard.session)
                    && self.is_same_run(now, header.origin)
                    && let Some(link) = &mut self.link
                {
                    link.session.handle_heard(now, heard.heard_upto, false);
                }
            }
            Body::SessionReset(reset) => self.handle_reset(now, *reset),
            Body::Beacon(beacon) => {
                if let Some(second) = beacon.second.filter(|_| self.has_second()) {
                    let address = beacon.address;
                    self.events.push(Event::SecondAddress { address, second });
                }
                self.handle_beacon(now, beacon.address);
            }
            Body::Solicit => self.discovery.heard(now, &mut self.random),
            _ => {}
        }
    }

    /// Does what is due; harmless when nothing is.
    pub fn handle_timeout(&mut self, now: Instant, outbox: &mut Outbox) {
        self.step(now, outbox);
    }

    /// When [`Membership::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let link = self.link.as_ref();
        let watching = self.contact != Contact::Lost && self.goodbye_until.is_none();
        let silence = link.filter(|_| watching);
        [
            link.and_then(|link| link.session.next_timeout()),
            link.map(|link| link.heartbeat_at),
            silence.map(|link| link.heard_at.after(SERVICE_SILENCE)),
            self.reopen_at,
            self.discovery.next_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Everything that is due, in one place.
    fn step(&mut self, now: Instant, outbox: &mut Outbox) {
        self.watch_service(now);
        if self.reopen_at.is_some_and(|at| at <= now)
            && let Some(address) = self.service()
        {
            self.connect(now, address);
        }
        self.send_requests();
        let wish = self.discovery.handle_timeout(now, &mut self.random);
        if wish.solicit {
            let header = self.header();
            outbox.push(
                Reason::Membership,
                Destination::Group(self.identity.discovery),
                |out| {
                    header.encode(Kind::Solicit, out);
                },
            );
        }
        if wish.missing {
            self.events.push(Event::ServiceMissing);
        }
        let header = self.header();
        let going = self.goodbye_until.is_some();
        if let Some(link) = &mut self.link {
            link.transmit(now, header, going, outbox);
        }
    }

    fn header(&self) -> Header {
        self.identity.template.header(self.origin())
    }

    fn watch_service(&mut self, now: Instant) {
        let Some(link) = &self.link else { return };
        let silent = now >= link.heard_at.after(SERVICE_SILENCE);
        if silent && self.contact != Contact::Lost && self.goodbye_until.is_none() {
            self.contact = Contact::Lost;
            self.events.push(Event::ServiceLost);
            let alone = !self.identity.service_fixed;
            self.discovery.start(now, alone, &mut self.random);
        }
    }

    /// Opens a new session and says hello in it.
    fn connect(&mut self, now: Instant, address: SocketAddr) {
        if self.goodbye_until.is_some() {
            return;
        }
        self.session_last += 1;
        self.reopen_at = None;
        if self.contact == Contact::Found && self.service() != Some(address) {
            // That one is still to be found.
            self.contact = Contact::None;
        }
        if self.contact == Contact::None {
            self.discovery.stop();
        }
        let mut link = Link::new(now, address, self.session_last, self.identity.frame_bytes);
        self.requests.unsend();
        let mut hello = self.hello(true);
        if hello.len() > MESSAGE_BYTES_MAX {
            hello = self.hello(false);
        }
        // A new session is empty, and group names are limited to less than a message.
        link.tell_bytes(&hello);
        // A session that replaces one with a silent service inherits its silence.
        if let Some(old) = &self.link
            && self.contact == Contact::Lost
        {
            link.heard_at = old.heard_at;
        }
        self.link = Some(link);
    }

    fn hello(&self, with_regions: bool) -> Vec<u8> {
        let known = self.incarnation != Incarnation(0);
        let groups = if known {
            self.groups.reports()
        } else {
            Vec::new()
        };
        let room = if known && with_regions {
            MESSAGE_BYTES_MAX / 4
        } else {
            0
        };
        let (region_last, channel_last) = self.regions.last();
        let hello = ToService::Hello(Hello {
            name: self.identity.name.clone(),
            address: self.identity.address,
            second: self.identity.second,
            incarnation: self.incarnation,
            term: self.term,
            groups,
            regions: self.regions.reports(self.origin(), room),
            region_last,
            channel_last,
            group_end: self.groups.end(),
            incarnation_last: self.incarnation_last,
            dead: self.dead.list(),
            senders: self.senders.list(),
            published: self.published,
            repairs: self.repairs,
        });
        let mut bytes = Vec::new();
        hello.encode(&mut bytes);
        bytes
    }

    /// Whether a packet of this session comes from the run of the service that the session is
    /// with. A service that has restarted may take a late copy of the session's first frame for a
    /// new one of the same id: its frames are not those that this node waits for, so a session of
    /// another id begins (R-MEM-3).
    fn is_same_run(&mut self, now: Instant, service: Origin) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        let same = *link.service.get_or_insert(service) == service;
        if !same {
            self.start_over(now);
        }
        same
    }

    /// Since when this node and the service have not heard each other, if that has just ended.
    pub(crate) fn silent_since(&self, now: Instant) -> Option<Instant> {
        let (from, until) = self.silence?;
        (now.since(until) <= RECENT_SILENCE).then_some(from)
    }

    /// Notes a sign of life; `false` when it is of another session.
    fn heard_from_service(&mut self, now: Instant, session: u64) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        if link.session.id() != session {
            return false;
        }
        if now.since(link.heard_at) >= NOTABLE_SILENCE {
            self.silence = Some((link.heard_at, now));
        }
        link.heard_at = now;
        if self.contact != Contact::Found {
            self.contact = Contact::Found;
            let address = link.address;
            self.discovery.stop();
            self.events.push(Event::ServiceFound { address });
        }
        true
    }

    fn handle_reset(&mut self, now: Instant, reset: Reset) {
        if !self.heard_from_service(now, reset.session) {
            return;
        }
        let Some(link) = &self.link else { return };
        let (welcomed, address) = (link.welcomed, link.address);
        if self.goodbye_until.is_some() {
            self.link = None;
        } else if welcomed {
            self.connect(now, address);
        } else if self.reopen_at.is_none() {
            self.reopen_at = Some(now.after(self.reopen_pause));
            self.reopen_pause = (self.reopen_pause * 2).min(REOPEN_MAX);
        }
    }

    /// A beacon matters only to a node whose service is silent or unknown.
    fn handle_beacon(&mut self, now: Instant, address: SocketAddr) {
        if self.contact == Contact::Found || self.goodbye_until.is_some() {
            return;
        }
        let greeting = self.contact == Contact::None && self.link.is_some();
        if !greeting && self.service() != Some(address) {
            self.connect(now, address);
            if let Some(link) = &mut self.link {
                link.heard_at = now;
            }
            self.contact = Contact::None;
            self.discovery.stop();
        }
    }

    /// True if this node is on two networks: only to such nodes it matters who else is. Rule R-MEM-12.
    #[must_use]
    pub fn has_second(&self) -> bool {
        self.identity.second.is_some()
    }

    /// Answers the service's question whether this node lives.
    pub fn answer_probe(&self, from: SocketAddr, probe: Probe, outbox: &mut Outbox) {
        if probe.subject == self.origin() && self.incarnation != Incarnation(0) {
            let header = self.header();
            outbox.push(Reason::Membership, Destination::Node(from), |out| {
                probe.encode(&header, Kind::ProbeReply, out);
            });
        }
    }

    /// The service said something that does not fit: a new session makes it say everything.
    pub fn start_over(&mut self, now: Instant) {
        self.misfits += 1;
        if let Some(address) = self.service() {
            self.connect(now, address);
        }
    }
}
