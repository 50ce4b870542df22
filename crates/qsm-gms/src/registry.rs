//! Who is in the cluster, in which groups, and therefore in which region; and, batch by batch,
//! what each node has to be told about it (R035-R044, R052).
//!
//! ```text
//!   enter, exit ─┐                     ┌─ node: its set of groups, shared with its region
//!   drained ─────┼─► pending ─ apply ─►├─ group: its regions, its publishers
//!   dead ────────┘   (per node)        └─ region: members, view, audience with what each knows
//!                                            │
//!                                            ▼ updates per node, only what concerns it
//! ```
//!
//! Cost follows change. A node that moves between regions that exist touches only its own set
//! and the two member lists; the index from groups to regions changes only when a region is made,
//! closed or regrouped. The registry knows neither time (beyond deadlines) nor sessions.

mod audience;
mod batch;
mod confirmations;
mod groups;
mod placement;
mod rebuild;
mod rows;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_proto::{Instant, Random};
use qsm_wire::membership::{Role, Sender};
use qsm_wire::{GroupId, Incarnation, NodeId, Origin, RegionId, ViewNumber};

use self::confirmations::Settling;
use self::groups::{GroupTable, check_name};
pub(crate) use self::rebuild::Report;
use crate::plan::{AddressPlan, RegionTable, Signature, SignatureKey};
use crate::{ServiceConfig, ServiceLimits, ServiceStats};

/// Requests of one node that may wait for a batch.
const REQUESTS_MAX: usize = 10_000;

/// What a node has asked for since the last batch.
#[derive(Debug, Default)]
struct Pending {
    subscribe: BTreeMap<GroupId, bool>,
    publish: BTreeMap<GroupId, bool>,
    /// Groups whose numbers it has to be told.
    named: Vec<GroupId>,
    requests: Vec<u32>,
}

/// A member on its way out of a region.
#[derive(Debug, Clone, Copy)]
struct Leave {
    /// The view that marks it as leaving.
    since: ViewNumber,
    /// Everybody who may send to the region has that view.
    settled: bool,
}

/// A node in its present life.
#[derive(Debug)]
struct Node {
    origin: Origin,
    name: String,
    address: SocketAddr,
    /// On a second network, if it is on two.
    second: Option<SocketAddr>,
    /// The groups it receives, ascending; the same allocation as its region's.
    groups: Arc<[GroupId]>,
    signature: Signature,
    publishes: BTreeSet<GroupId>,
    /// The region it is an active member of.
    home: Option<RegionId>,
    /// Regions it is leaving.
    leaving: BTreeMap<RegionId, Leave>,
    /// Regions that concern it no more, but for what it may have sent there; and their views then.
    parting: BTreeMap<RegionId, ViewNumber>,
    /// Regions it is told of.
    concerned: BTreeSet<RegionId>,
    /// It is, or has been, a publisher of something.
    published: bool,
    /// Regions it may have sent to in this life; if it dies their members must know.
    streams: BTreeSet<RegionId>,
    pending: Pending,
    /// Its change waits until it is out of a region it would move back to.
    blocked: bool,
}

/// The cluster's membership.
#[derive(Debug)]
pub(crate) struct Registry {
    limits: ServiceLimits,
    drain_max: Duration,
    key: SignatureKey,
    groups: GroupTable,
    regions: RegionTable,
    nodes: BTreeMap<NodeId, Node>,
    /// Nodes with pending changes that can be applied.
    dirty: BTreeSet<NodeId>,
    /// Nodes that must be told everything again, with the views they say they have.
    resync: BTreeMap<NodeId, BTreeMap<RegionId, ViewNumber>>,
    /// Deaths that nodes with new sessions must be told of; each of them is in `resync`.
    unheard_deaths: BTreeMap<NodeId, Vec<Origin>>,
    /// Nodes whose life is over, until the next batch says so.
    dead: BTreeSet<Origin>,
    /// Lives that ended where this service could not see it.
    strangers: BTreeSet<Origin>,
    /// Of each node the last life that ended here: whom that concerns has been told.
    buried: BTreeMap<NodeId, Incarnation>,
    /// Members of a former service's views who did not report.
    absent: Vec<(RegionId, Origin)>,
    /// Regions taken over from a former service that have had no view since.
    inherited: Vec<RegionId>,
    /// Members that such a view shows as active although they have moved on.
    stale: Vec<(RegionId, Origin)>,
    settling: Settling,
    /// Views that everybody has, until the next batch tells those who leave with them.
    settled: BTreeSet<(RegionId, ViewNumber)>,
    /// Views of a former service of which it is not known who has them.
    resettle: BTreeSet<(RegionId, ViewNumber)>,
    drained: BTreeSet<(RegionId, NodeId)>,
    drain_deadlines: BTreeSet<(Instant, RegionId, NodeId)>,
    pub(crate) stats: ServiceStats,
}

impl Node {
    fn as_sender(&self) -> Sender {
        Sender {
            origin: self.origin,
            address: self.address,
        }
    }
}

impl Registry {
    pub(crate) fn new(config: &ServiceConfig, random: &mut Random) -> Self {
        let plan = AddressPlan::new(config.plan, config.cluster_number(), &[config.discovery]);
        Self {
            limits: config.limits,
            drain_max: config.drain_max,
            key: SignatureKey::new(random),
            groups: GroupTable::default(),
            regions: RegionTable::new(plan),
            nodes: BTreeMap::new(),
            dirty: BTreeSet::new(),
            resync: BTreeMap::new(),
            unheard_deaths: BTreeMap::new(),
            dead: BTreeSet::new(),
            strangers: BTreeSet::new(),
            buried: BTreeMap::new(),
            absent: Vec::new(),
            inherited: Vec::new(),
            stale: Vec::new(),
            settling: Settling::default(),
            settled: BTreeSet::new(),
            resettle: BTreeSet::new(),
            drained: BTreeSet::new(),
            drain_deadlines: BTreeSet::new(),
            stats: ServiceStats::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// A node's present life.
    pub(crate) fn origin(&self, node: NodeId) -> Option<Origin> {
        let origin = self.nodes.get(&node)?.origin;
        (!self.dead.contains(&origin)).then_some(origin)
    }

    /// Whether a life of this node ends with the next batch.
    pub(crate) fn is_dying(&self, node: NodeId) -> bool {
        let node = self.nodes.get(&node);
        node.is_some_and(|node| self.dead.contains(&node.origin))
    }

    pub(crate) fn address(&self, node: NodeId) -> Option<SocketAddr> {
        Some(self.nodes.get(&node)?.address)
    }

    /// Whether a batch would do something.
    pub(crate) fn has_changes(&self) -> bool {
        !(self.dirty.is_empty()
            && self.resync.is_empty()
            && self.dead.is_empty()
            && self.strangers.is_empty()
            && self.absent.is_empty()
            && self.settled.is_empty()
            && self.drained.is_empty())
    }

    /// All that a node has been told up to this batch has arrived there.
    pub(crate) fn confirmed(&mut self, node: NodeId, batch: u64) {
        self.settled.extend(self.settling.confirm(node, batch));
    }

    /// When a leaving member's time to drain is over.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.drain_deadlines.first().map(|(at, ..)| *at)
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, region, node)) = self.drain_deadlines.first() {
            if at > now {
                return;
            }
            self.drain_deadlines.pop_first();
            let owes = |node: &Node| {
                node.leaving.contains_key(&region) || node.parting.contains_key(&region)
            };
            if self.nodes.get(&node).is_some_and(owes) {
                self.stats.drains_expired += 1;
                self.drained.insert((region, node));
            }
        }
    }

    /// Lets a node in, in a new life. The caller has removed its former one and checked the
    /// limit.
    pub(crate) fn admit(
        &mut self,
        origin: Origin,
        name: String,
        (address, second): (SocketAddr, Option<SocketAddr>),
    ) {
        self.nodes.insert(
            origin.node,
            Node {
                origin,
                name,
                address,
                second,
                groups: Arc::new([]),
                signature: 0,
                publishes: BTreeSet::new(),
                home: None,
                leaving: BTreeMap::new(),
                parting: BTreeMap::new(),
                published: false,
                concerned: BTreeSet::new(),
                streams: BTreeSet::new(),
                pending: Pending::default(),
                blocked: false,
            },
        );
        self.stats.admitted += 1;
    }

    /// A node's life ends, with the next batch for the others.
    pub(crate) fn remove(&mut self, node: NodeId) -> Option<Origin> {
        let origin = self.origin(node)?;
        self.dead.insert(origin);
        self.dirty.remove(&node);
        self.resync.remove(&node);
        self.unheard_deaths.remove(&node);
        Some(origin)
    }

    /// A life of a node is over. If this service has never seen it, nor its end, whoever has
    /// streams of it must know.
    pub(crate) fn mourn(&mut self, origin: Origin) {
        if self.buried.get(&origin.node) != Some(&origin.incarnation) {
            self.strangers.insert(origin);
        }
    }

    /// A node that is known has a new session: all it has been told may be lost.
    pub(crate) fn resync(&mut self, node: NodeId, reported: BTreeMap<RegionId, ViewNumber>) {
        if self.nodes.contains_key(&node) {
            self.resync.insert(node, reported);
        }
    }

    /// A node with a new session may not have heard that some of these are dead.
    pub(crate) fn tell_of_dead(&mut self, node: NodeId, senders: &[Origin]) {
        let dead = |sender: &&Origin| self.origin(sender.node) != Some(**sender);
        let dead: Vec<Origin> = senders.iter().filter(dead).copied().collect();
        if !dead.is_empty() {
            self.unheard_deaths.insert(node, dead);
        }
    }

    /// A node takes up a role in groups. Request 0 is not answered.
    pub(crate) fn enter(
        &mut self,
        now: Instant,
        node: NodeId,
        (request, role): (u32, Role),
        names: &[String],
    ) -> Result<(), String> {
        let Some(entry) = self.nodes.get_mut(&node) else {
            return Err("the node is not admitted; say hello first".to_owned());
        };
        names.iter().try_for_each(|name| check_name(name))?;
        check_room(entry, names.len(), self.limits.roles_per_node)?;
        if self.groups.len() + names.len() > self.limits.groups {
            let fresh = names.iter().filter(|name| self.groups.find(name).is_none());
            let count = fresh.count();
            if self.groups.len() + count > self.limits.groups {
                return Err(format!(
                    "{count} new groups exceed the service's limit of {} groups; \
                     raise it or reuse groups",
                    self.limits.groups
                ));
            }
        }
        for name in names {
            let id = self.groups.intern(now, name);
            entry.pending.named.push(id);
            if entry.pending.roles(role).insert(id, true).is_some() {
                self.groups.release(id);
            }
        }
        entry.pending.request(request);
        self.dirty.insert(node);
        Ok(())
    }

    /// A node gives up a role in groups.
    pub(crate) fn exit(
        &mut self,
        node: NodeId,
        (request, role): (u32, Role),
        names: &[String],
    ) -> Result<(), String> {
        let Some(entry) = self.nodes.get_mut(&node) else {
            return Err("the node is not admitted; say hello first".to_owned());
        };
        check_room(entry, 0, self.limits.roles_per_node)?;
        for name in names {
            let Some(id) = self.groups.find(name) else {
                continue;
            };
            if entry.pending.roles(role).insert(id, false).is_none() {
                self.groups.hold(id);
            }
        }
        entry.pending.request(request);
        self.dirty.insert(node);
        Ok(())
    }

    /// A leaving member has everything of the region it left; or a former publisher owes nothing.
    pub(crate) fn drained(&mut self, node: NodeId, region: RegionId, view: ViewNumber) {
        let Some(entry) = self.nodes.get(&node) else {
            return;
        };
        let leaving = entry.leaving.get(&region).map(|leave| leave.since);
        let since = leaving.or_else(|| entry.parting.get(&region).copied());
        if since.is_some_and(|since| since <= view) {
            self.drained.insert((region, node));
        }
    }
}

fn check_room(node: &Node, names: usize, roles_max: usize) -> Result<(), String> {
    let held = node.groups.len() + node.publishes.len();
    let changes = node.pending.subscribe.len() + node.pending.publish.len();
    let pending = changes.max(node.pending.named.len());
    if held + pending + names > roles_max {
        return Err(format!(
            "the node has {} roles in groups, and {names} more exceed the limit of {roles_max}; \
             exit some first",
            held + pending
        ));
    }
    if node.pending.requests.len() >= REQUESTS_MAX {
        return Err(format!(
            "{REQUESTS_MAX} requests wait for the next batch already; try again later"
        ));
    }
    Ok(())
}

impl Pending {
    fn roles(&mut self, role: Role) -> &mut BTreeMap<GroupId, bool> {
        match role {
            Role::Subscriber => &mut self.subscribe,
            Role::Publisher => &mut self.publish,
        }
    }

    fn request(&mut self, request: u32) {
        if request != 0 {
            self.requests.push(request);
        }
    }
}
