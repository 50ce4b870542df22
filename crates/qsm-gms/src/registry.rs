//! The membership as a deterministic machine: commands in, updates out (R035-R044, R052). The
//! requests of nodes are commands in the form in which they come; the service adds its own.
//!
//! ```text
//!   ToService ─► request ─┬─► node: its groups, its departures ─┐
//!   Command ───► apply ───┼─► node: its life ───────────────────┤
//!                         │                                     ├─ work for the next batch
//!                         └─► Updates: welcomes, refusals, ends │
//!                                                               ▼
//!   Command::Batch ─► place ─► views ─► audience ─► Updates: for each node what concerns it
//! ```
//!
//! The registry holds nothing of a session, of a clock or of a failure detector: it knows the
//! time that comes with an input, and every decision follows from its state and the input. So
//! replicas that take the same inputs stay equal, and one that has the log can be rebuilt.
//!
//! States that change in one way only are tables: [`life::Life`] of a node,
//! [`departure::DepartureState`] of a node on its way out of a region. What a batch has yet to do
//! is in one queue, [`work::Work`], in the order in which it does it.
//!
//! Whether a member is *away* is a mark of its entry in a view, see [`away`].
//!
//! Cost follows change. A node that moves between regions that exist touches only its own set
//! and the two member lists; the index from groups to regions changes only when a region is made,
//! closed or regrouped.

mod absences;
mod admission;
mod aim;
mod audience;
mod away;
mod batch;
mod census;
mod clusters;
mod command;
mod commons;
mod confirmations;
mod decided;
mod departure;
mod draft;
mod factions;
mod filters;
mod groups;
mod hinted;
mod last_words;
mod late;
mod life;
mod merging;
mod paces;
mod placement;
mod proven;
mod readdressing;
mod rebuild;
mod relocation;
mod repairs;
mod request;
mod resumption;
mod rows;
mod settling;
mod stranded;
mod terms;
#[cfg(test)]
mod tests;
mod transition;
mod unreported;
mod unsettled;
mod work;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_plan::{NodeHint, ServiceHints};
use qsm_proto::Instant;
use qsm_wire::membership::{Sender, ToldLimit};
use qsm_wire::{GroupId, Incarnation, NodeId, Origin, RegionId, ViewNumber};

use self::absences::Absences;
pub(crate) use self::admission::ERAS;
use self::aim::{Aim, Classes, GroupSet};
pub(crate) use self::batch::Batch;
pub(crate) use self::clusters::ClusterId;
use self::clusters::Clusters;
pub(crate) use self::command::{Advice, Command, CommonSet, EndCause, PlannedRegion};
use self::confirmations::ViewConfirmations;
pub(crate) use self::decided::PlanKnowledge;
use self::departure::{Departure, DepartureEvent, DepartureState};
use self::groups::GroupTable;
use self::last_words::LastWords;
use self::late::LateSenders;
use self::life::{Life, LifeEvent, Reported};
use self::request::PendingRoles;
use self::transition::State as _;
use self::unsettled::UnsettledViews;
use self::work::{Work, WorkQueue};
use crate::plan::{AddressPlan, RegionTable, Signature, SignatureKey, Tenant, Zone};
use crate::{ServiceLimits, ServiceStats};

/// Highest number believed of an incarnation, a region or a channel; a higher one is a mistake or
/// an attack (R-MEM-1).
pub(crate) const NUMBER_MAX: u32 = u32::MAX / 2;
/// A node in its present life.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Node {
    origin: Origin,
    name: String,
    address: SocketAddr,
    /// Its address on a second network, if it is on two.
    second: Option<SocketAddr>,
    /// The groups it receives, ascending; the same allocation as its region's, if that has all.
    groups: Arc<[GroupId]>,
    signature: Signature,
    /// Hints for a node of its name, and the zone that it is in by them (R-VIEW-18).
    hint: NodeHint,
    zone: Zone,
    /// The groups it is to receive.
    aim: Aim,
    publishes: BTreeSet<GroupId>,
    life: Life,
    /// The region it is an active member of, perhaps with others.
    home: Option<RegionId>,
    /// The region that it is the only member of beside that one, for its residue.
    private: Option<RegionId>,
    /// The common regions it is an active member of beside that one.
    commons: BTreeSet<RegionId>,
    /// Regions it is on its way out of.
    departures: BTreeMap<RegionId, Departure>,
    /// The views and deaths that an unsynced node knows of.
    reported: Reported,
    /// Regions it is told of.
    concerned: BTreeSet<RegionId>,
    /// It is, or has been, a publisher of something.
    published: bool,
    /// Regions it may have sent to in this life; if it dies their members must know.
    streams: BTreeSet<RegionId>,
    pending: PendingRoles,
    /// Its change waits until it is out of a region it would move back to.
    blocked: bool,
    /// Where nobody waits for it.
    absences: Absences,
    /// It was taken up by what others say of it, and has not said hello.
    unreported: bool,
}

/// The cluster's membership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registry {
    limits: ServiceLimits,
    drain_max: Duration,
    /// Time for which a silent life is waited for; 0: for none.
    gone_after: Duration,
    key: SignatureKey,
    hints: Arc<ServiceHints>,
    /// The term it serves in; 0: it is not open yet.
    term: u64,
    incarnation_last: u32,
    groups: GroupTable,
    regions: RegionTable,
    nodes: BTreeMap<NodeId, Node>,
    /// By which keys nodes sign, where they have proven them, and what they may do.
    keys: BTreeMap<NodeId, proven::Proven>,
    classes: Classes,
    clusters: Clusters,
    /// The common sets of the plan, the most worthwhile first.
    commons: Vec<GroupSet>,
    /// Of each node the last life that ended here.
    ended: BTreeMap<NodeId, Incarnation>,
    /// Last words of senders.
    last_words: LastWords,
    /// Of each node the last life that another service has declared dead.
    dead_elsewhere: BTreeMap<NodeId, Incarnation>,
    /// Limit of what nodes send again (R-NAK-16).
    repairs: ToldLimit,
    /// What the next batch has to do.
    work: WorkQueue,
    /// The last batch.
    batch: u64,
    /// Views that mark members as leaving, and who has not confirmed them.
    confirmations: ViewConfirmations,
    /// Senders that a new service waits for.
    late: LateSenders,
    /// Views that senders may not know which have not reported.
    unsettled: UnsettledViews,
    /// When the time of departing nodes is over. An entry stays when its departure ends sooner;
    /// it counts for the departure with this deadline only.
    deadlines: BTreeSet<(Instant, RegionId, NodeId)>,
    /// Changes of what nodes are to receive.
    pub(crate) aims_changed: u64,
    pub(crate) stats: ServiceStats,
}

impl Node {
    fn as_sender(&self) -> Sender {
        Sender {
            origin: self.origin,
            address: self.address,
        }
    }

    /// Regions of which it is a leaving member.
    fn leaving(&self) -> impl Iterator<Item = RegionId> {
        let departures = self.departures.iter();
        departures.filter_map(|(region, departure)| departure.is_member().then_some(*region))
    }

    fn is_leaving(&self, region: RegionId) -> bool {
        let departure = self.departures.get(&region);
        departure.is_some_and(|departure| departure.is_member())
    }

    /// It owes nothing to a region that it published to.
    fn has_parted(&self, region: RegionId) -> bool {
        let departure = self.departures.get(&region);
        departure.is_some_and(|departure| departure.state == DepartureState::Parted)
    }

    /// Something happens to a departure, if there is one.
    fn depart(&mut self, region: RegionId, event: DepartureEvent) {
        if let Some(departure) = self.departures.get_mut(&region) {
            departure.state.advance(event);
            if departure.state == DepartureState::Over {
                self.departures.remove(&region);
            }
        }
    }

    /// The region concerns it: if it was about to part, it is no more.
    fn return_to(&mut self, region: RegionId) {
        if !self.is_leaving(region) {
            self.depart(region, DepartureEvent::Return);
        }
    }
}

impl Registry {
    /// A registry without nodes, before its term.
    pub(crate) fn new(
        limits: ServiceLimits,
        drain_max: Duration,
        gone_after: Duration,
        mut plan: AddressPlan,
        key: SignatureKey,
        hints: Arc<ServiceHints>,
    ) -> Self {
        plan.keep_for(Tenant::named(&hints));
        Self {
            limits,
            drain_max,
            gone_after,
            key,
            term: 0,
            incarnation_last: 0,
            groups: GroupTable::new(Arc::clone(&hints)),
            hints,
            regions: RegionTable::new(plan),
            nodes: BTreeMap::new(),
            keys: BTreeMap::new(),
            classes: Classes::default(),
            clusters: Clusters::default(),
            commons: Vec::new(),
            ended: BTreeMap::new(),
            last_words: LastWords::default(),
            dead_elsewhere: BTreeMap::new(),
            repairs: ToldLimit::default(),
            work: WorkQueue::default(),
            batch: 0,
            confirmations: ViewConfirmations::default(),
            late: LateSenders::default(),
            unsettled: UnsettledViews::default(),
            deadlines: BTreeSet::new(),
            aims_changed: 0,
            stats: ServiceStats::default(),
        }
    }

    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    /// The present life of a node, if it is not over.
    pub(crate) fn origin(&self, node: NodeId) -> Option<Origin> {
        let node = self.nodes.get(&node)?;
        node.life.is_running().then_some(node.origin)
    }

    /// The state of one life of a node.
    fn life(&self, origin: Origin) -> Life {
        match self.nodes.get(&origin.node) {
            Some(node) if node.origin == origin => node.life,
            _ if self.ended.get(&origin.node) == Some(&origin.incarnation) => Life::Ended,
            _ => Life::Unknown,
        }
    }

    pub(crate) fn address(&self, node: NodeId) -> Option<SocketAddr> {
        Some(self.nodes.get(&node)?.address)
    }

    /// The multicast address of a region.
    pub(crate) fn region_address(&self, region: RegionId) -> Option<SocketAddr> {
        Some(self.regions.get(region)?.address)
    }

    /// What a node calls itself.
    pub(crate) fn name(&self, node: NodeId) -> String {
        let node = self.nodes.get(&node);
        node.map_or_else(String::new, |node| node.name.clone())
    }

    /// The node that lives at this address.
    pub(crate) fn node_at(&self, address: SocketAddr) -> Option<NodeId> {
        let mut running = self.nodes.values().filter(|node| node.life.is_running());
        let at = |node: &&Node| node.address == address || node.second == Some(address);
        Some(running.find(at)?.origin.node)
    }

    /// A batch would do something.
    pub(crate) fn has_changes(&self) -> bool {
        !self.work.is_empty()
    }

    /// All that a node has been told up to this batch has arrived there.
    fn confirm(&mut self, node: NodeId, batch: u64) {
        for (region, view) in self.confirmations.confirm(node, batch) {
            self.work.push(Work::Settle { region, view });
        }
    }

    /// The time at which a departing node is let go without its word, a sender is dead that has
    /// not reported, or views are known to all who may come back.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let drains = self.deadlines.first().map(|(at, ..)| *at);
        let others = self.late.next_timeout().into_iter();
        drains
            .into_iter()
            .chain(others)
            .chain(self.unsettled.next_timeout())
            .min()
    }

    /// Lets go the departing nodes whose time is over.
    fn expire_drains(&mut self, now: Instant) {
        while let Some(&(at, region, node)) = self.deadlines.first() {
            if at > now {
                return;
            }
            self.deadlines.pop_first();
            let Some(entry) = self.nodes.get_mut(&node) else {
                continue;
            };
            let departure = entry.departures.get(&region);
            if departure.is_some_and(|departure| departure.deadline == at) {
                self.stats.drains_expired += 1;
                entry.depart(region, DepartureEvent::Drain);
                self.work.push(Work::Release { region, node });
                if entry.is_leaving(region) {
                    self.note_left(region, [node].iter());
                }
            }
        }
    }

    /// Lets a node in, in a new life. The caller has removed its former one and checked the
    /// limit.
    fn admit(
        &mut self,
        origin: Origin,
        name: String,
        address: SocketAddr,
        second: Option<SocketAddr>,
    ) {
        let mut life = Life::Unknown;
        life.advance(LifeEvent::Admit);
        self.work.push(Work::Resync { node: origin.node });
        self.nodes.insert(
            origin.node,
            Node {
                origin,
                name,
                address,
                second,
                groups: Arc::new([]),
                signature: 0,
                hint: NodeHint::default(),
                zone: Zone::default(),
                aim: Aim::default(),
                publishes: BTreeSet::new(),
                life,
                home: None,
                private: None,
                commons: BTreeSet::new(),
                departures: BTreeMap::new(),
                reported: Reported::default(),
                published: false,
                concerned: BTreeSet::new(),
                streams: BTreeSet::new(),
                pending: PendingRoles::default(),
                blocked: false,
                absences: Absences::default(),
                unreported: false,
            },
        );
        self.stats.admitted += 1;
        self.take_hints(origin.node);
    }

    /// A node's life ends, with the next batch for the others.
    fn end(&mut self, node: NodeId) -> Option<Origin> {
        let entry = self.nodes.get_mut(&node)?;
        if !entry.life.is_running() {
            return None;
        }
        entry.life.advance(LifeEvent::End);
        let origin = entry.origin;
        self.work.withdraw(Work::Place { node });
        self.work.withdraw(Work::Resync { node });
        self.work.push(Work::RemoveNode { node });
        Some(origin)
    }

    /// A life of a node is over. If this service has never seen it, nor its end, whoever has
    /// streams of it must know.
    fn end_elsewhere(&mut self, origin: Origin) {
        if self.life(origin) == Life::Unknown {
            self.declare_dead(origin);
        }
    }

    /// A node that is known has a new session: all it has been told may be lost, but for these
    /// views. It may not have heard that some of these senders are dead.
    fn resume(&mut self, node: NodeId, views: BTreeMap<RegionId, ViewNumber>, senders: &[Origin]) {
        let dead = |sender: &&Origin| {
            self.origin(sender.node) != Some(**sender) && !self.late.contains(**sender)
        };
        let dead: Vec<Origin> = senders.iter().filter(dead).copied().collect();
        let Some(entry) = self.nodes.get_mut(&node) else {
            return;
        };
        if !entry.life.is_running() {
            return;
        }
        entry.life.advance(LifeEvent::Resume);
        entry.reported.views = views;
        if !dead.is_empty() {
            entry.reported.dead = dead;
        }
        self.work.push(Work::Resync { node });
    }
}
