//! The planner: knows who wants what, keeps a plan, and improves it in slices.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use qsm_wire::{GroupId, Instant, NodeId, Random, RegionId};

use crate::census::{Census, Unit};
use crate::cluster::Model;
use crate::commons::CommonSets;
use crate::hints::Hints;
use crate::job::{Job, Outside, Remains, View};
use crate::plan::{
    Alternative, Path, Plan, PlannedChannel, PlannedGroup, PlannedRegion, Way, Why, WhyRegion,
};
use crate::rates::Rates;
use crate::reach::{Cover, Part, Reach};
use crate::region::{Seeker, Table};
use crate::settings::{Settings, SettingsError};
use crate::shared::{SharedLimits, SharedRegion, shared};
use crate::signature::SignatureKey;
use crate::sketch::Hashes;
use crate::work::Work;

/// Units of work of a slice: one to two milliseconds of a CPU of 2020.
pub const SLICE: u64 = 250_000;
/// Units of work of a group of a node that is placed.
const PLACE_UNITS: usize = 24;

/// A plan that cannot be made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// There are more pinned channels than addresses.
    Addresses {
        /// Channels that hints pin.
        pins: usize,
        /// Addresses that there are.
        addresses: usize,
    },
    /// The subscribers of a pinned channel are of more than one security domain.
    PinAcrossDomains {
        /// The channel's name.
        pin: String,
        /// The line of the hints that pins it.
        line: usize,
    },
}

impl core::fmt::Display for PlanError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Addresses { pins, addresses } => write!(
                f,
                "the hints pin {pins} channels, and there are {addresses} addresses; give more \
                 addresses, or pin fewer channels"
            ),
            Self::PinAcrossDomains { pin, line } => write!(
                f,
                "line {line}: channel {pin} has subscribers in more than one security domain, and \
                 domains share no channel; pin the groups of each domain to a channel of its own"
            ),
        }
    }
}

impl core::error::Error for PlanError {}

/// Progress of planning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is nothing to do.
    Idle,
    /// There is more to do; what it is doing.
    Busy(&'static str),
    /// The new plan is in force.
    Done,
}

/// A node's new place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placement {
    /// Its former region.
    pub from: Option<RegionId>,
    /// Its present region.
    pub to: Option<RegionId>,
}

/// Plans regions, channels and paths, and keeps the plan while nodes come and go.
///
/// A function of its inputs: it sees no clock, and the same inputs in the same order give the same
/// plan everywhere.
#[derive(Debug)]
pub struct Planner {
    settings: Settings,
    hints: Hints,
    rates: Rates,
    hashes: Hashes,
    census: Census,
    table: Table,
    reach: Reach,
    wanting: BTreeMap<RegionId, Instant>,
    region_next: u32,
    channel_next: u32,
    job: Option<Job>,
    /// Nodes that changed since the job began, or have no place yet.
    changed: BTreeSet<NodeId>,
    remains: Remains,
    /// Hints changed: what they forbid must not stay.
    forced: bool,
}

impl Planner {
    /// A planner without nodes. What is drawn makes signatures unpredictable and decides nothing.
    ///
    /// # Errors
    /// The settings cannot work.
    pub fn new(
        settings: Settings,
        hints: Hints,
        random: &mut Random,
    ) -> Result<Self, SettingsError> {
        settings.check()?;
        Ok(Self {
            settings,
            hints,
            rates: Rates::default(),
            hashes: Hashes::default(),
            census: Census::new(SignatureKey::new(random)),
            table: Table::default(),
            reach: Reach::default(),
            wanting: BTreeMap::new(),
            region_next: 0,
            channel_next: 0,
            job: None,
            changed: BTreeSet::new(),
            remains: Remains::default(),
            forced: false,
        })
    }

    /// Puts a node into a security domain before it is taken up; 0: the common one. Regions never have
    /// nodes of two domains.
    pub fn set_domain(&mut self, node: NodeId, domain: u32) {
        self.hints.put(node, domain);
    }

    /// Takes a node up without looking for its place: the next plan has it. For many nodes at
    /// once, before the first plan.
    pub fn load(&mut self, node: NodeId, mut groups: Vec<GroupId>) {
        if !groups.is_sorted() {
            groups.sort_unstable();
        }
        groups.dedup();
        if let Some(last) = groups.last() {
            self.hashes.know(*last, &self.rates);
        }
        self.census
            .set(node, self.hints.domain(node), groups.into());
        self.changed.insert(node);
    }

    /// A node enters and leaves groups, and is placed at once: where it was, in a similar region,
    /// or in one of its own.
    pub fn join(&mut self, node: NodeId, enter: &[GroupId], leave: &[GroupId]) -> Placement {
        if let Some(last) = enter.iter().max() {
            self.hashes.know(*last, &self.rates);
        }
        if self.census.groups(node).is_none() {
            let none: Arc<[GroupId]> = Arc::from([]);
            self.census.set(node, self.hints.domain(node), none);
        }
        self.census.change(node, enter, leave);
        self.replace(node)
    }

    /// A node is gone.
    pub fn leave(&mut self, node: NodeId) -> Placement {
        self.census.remove(node);
        self.replace(node)
    }

    /// Notes a group's rate, in messages per 1000 seconds. The next plan follows it.
    pub fn set_rate(&mut self, group: GroupId, rate: u32) {
        if self.rates.of(group) == rate {
            return;
        }
        self.rates.set(group, rate);
        self.hashes.change(group, &self.rates);
    }

    /// Replaces the hints. The next plan honours them, whatever it costs.
    pub fn set_hints(&mut self, hints: Hints) {
        let nodes = self.table.homes().keys();
        let moved = nodes.filter(|node| self.census.domain(**node) != hints.domain(**node));
        let moved: Vec<NodeId> = moved.copied().collect();
        self.hints = hints;
        self.forced = true;
        for node in moved {
            let groups = self.census.groups(node).map(Arc::clone).unwrap_or_default();
            self.census.set(node, self.hints.domain(node), groups);
        }
        // A job that began with other hints would bring back what these forbid.
        self.job = None;
    }

    /// Begins to plan anew, from what is known now. A plan that is being made is given up.
    ///
    /// # Errors
    /// Hints cannot be followed.
    pub fn start(&mut self, now: Instant) -> Result<(), PlanError> {
        let units = self.census.units(&self.hints);
        self.check_pins(&units)?;
        let placed = |node: &NodeId| self.table.home(*node).is_some();
        self.changed.retain(|node| !placed(node));
        let groups = self.census.groups_end();
        let homes = self.table.homes();
        // A first plan has all nodes: what is not placed yet is in it.
        if homes.is_empty() {
            self.changed.clear();
        }
        self.job = Some(Job::new(
            now,
            self.forced,
            units,
            homes,
            &self.reach,
            groups,
        ));
        Ok(())
    }

    fn check_pins(&self, units: &[Unit]) -> Result<(), PlanError> {
        let (pins, addresses) = (self.hints.pins().len(), self.settings.addresses);
        if pins > addresses {
            return Err(PlanError::Addresses { pins, addresses });
        }
        for pin in self.hints.pins() {
            let mut domains = BTreeSet::new();
            for unit in units {
                let wants = |group: &GroupId| unit.groups.binary_search(group).is_ok();
                if pin.groups.iter().any(wants) {
                    domains.insert(unit.domain);
                }
            }
            if domains.len() > 1 {
                let pin_name = pin.name.clone();
                let line = pin.line;
                return Err(PlanError::PinAcrossDomains {
                    pin: pin_name,
                    line,
                });
            }
        }
        Ok(())
    }

    /// Goes on planning for so many units of work; [`SLICE`] is one to two milliseconds. Nodes may
    /// join and leave between slices.
    pub fn step(&mut self, units: u64) -> Progress {
        let mut work = Work::new(units);
        let freed = self.remains.free(&mut work);
        let Some(mut job) = self.job.take() else {
            return Progress::Idle;
        };
        if !freed {
            let doing = job.doing();
            self.job = Some(job);
            return Progress::Busy(doing);
        }
        let view = View {
            model: Model {
                settings: &self.settings,
                rates: &self.rates,
            },
            hashes: &self.hashes,
            hints: &self.hints,
        };
        let mut outside = Outside {
            wanting: &mut self.wanting,
            region_next: &mut self.region_next,
            channel_next: &mut self.channel_next,
        };
        let done = job.step(&view, &mut outside, &mut work);
        if !(done && self.catch_up(&mut job, &mut work)) {
            let doing = job.doing();
            self.job = Some(job);
            return Progress::Busy(doing);
        }
        let (table, reach, mut remains) = job.outcome();
        remains.table = core::mem::replace(&mut self.table, table);
        self.reach = reach;
        self.remains = remains;
        self.forced = false;
        Progress::Done
    }

    /// Plans to the end.
    pub fn finish(&mut self) {
        while matches!(self.step(SLICE), Progress::Busy(_)) {}
    }

    /// Places the nodes that changed while the job ran into its outcome. `true`: all of them.
    fn catch_up(&mut self, job: &mut Job, work: &mut Work) -> bool {
        let (mut table, mut reach) = job.take_outcome();
        while !work.is_spent()
            && let Some(node) = self.changed.pop_first()
        {
            self.place_in(node, &mut table, &mut reach);
            let groups = self.census.groups(node).map_or(0, |groups| groups.len());
            work.spend((groups + 1) * PLACE_UNITS);
        }
        job.set_outcome(table, reach);
        self.changed.is_empty()
    }

    /// A node's groups have changed.
    fn replace(&mut self, node: NodeId) -> Placement {
        let mut table = core::mem::take(&mut self.table);
        let mut reach = core::mem::take(&mut self.reach);
        let placement = self.place_in(node, &mut table, &mut reach);
        (self.table, self.reach) = (table, reach);
        if self.job.is_some() {
            self.changed.insert(node);
        } else {
            self.changed.remove(&node);
        }
        placement
    }

    fn place_in(&mut self, node: NodeId, table: &mut Table, reach: &mut Reach) -> Placement {
        let groups = self.census.groups(node).map(Arc::clone).unwrap_or_default();
        let shared = groups
            .iter()
            .copied()
            .filter(|group| self.census.is_shared(*group));
        let seeker = Seeker {
            node,
            sketch: self.hashes.sketch(shared),
            domain: self.hints.domain(node),
            apart: self.hints.apart_of(node).to_vec(),
            together: self.hints.companions(node),
            groups,
        };
        let model = Model {
            settings: &self.settings,
            rates: &self.rates,
        };
        let next = RegionId(self.region_next + 1);
        let placed = table.place(seeker, next, &model);
        if placed.to == Some(next) {
            self.region_next += 1;
        }
        if placed.from != placed.to {
            if let Some(from) = placed.from {
                reach.resize(from, false);
            }
            if let Some(to) = placed.to {
                reach.resize(to, true);
            }
        }
        if let Some(from) = placed.from.filter(|_| placed.closed) {
            reach.close(from);
        }
        let (from, to) = (placed.from, placed.to);
        Placement { from, to }
    }

    /// Returns whether a plan is being made.
    #[must_use]
    pub fn is_planning(&self) -> bool {
        self.job.is_some()
    }

    /// Nodes known.
    #[must_use]
    pub fn nodes(&self) -> usize {
        self.census.len()
    }

    /// Different sets of groups.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.census.classes()
    }

    /// Regions of the present plan.
    #[must_use]
    pub fn regions(&self) -> usize {
        self.table.len()
    }

    /// The numbers of the regions of the present plan.
    pub fn region_ids(&self) -> impl Iterator<Item = RegionId> + '_ {
        self.table.iter().map(|(id, _)| id)
    }

    /// The region that a node is in.
    #[must_use]
    pub fn region_of(&self, node: NodeId) -> Option<RegionId> {
        self.table.home(node)
    }

    /// The groups of a node that not all nodes of its region want, ascending.
    #[must_use]
    pub fn odd_groups(&self, node: NodeId) -> Vec<GroupId> {
        let region = self.table.home(node).and_then(|home| self.table.get(home));
        let Some(region) = region else {
            return Vec::new();
        };
        let groups = region
            .members
            .get(&node)
            .into_iter()
            .flat_map(|groups| groups.iter());
        let odd = groups.filter(|group| region.cluster.count(**group) < region.cluster.size);
        odd.copied().collect()
    }

    /// The region of this number as it can be carried out within limits; `None`: there is none, or
    /// no two of its nodes can share one then.
    #[must_use]
    pub fn shared(&self, id: RegionId, limits: SharedLimits) -> Option<SharedRegion> {
        let region = self.table.get(id)?;
        let model = self.model();
        shared(region.members.clone(), limits, |size, count| {
            model.carries(size, count)
        })
    }

    /// The regions of the present plan from this number on, ascending.
    pub fn regions_from(&self, first: RegionId) -> impl Iterator<Item = RegionId> + '_ {
        self.table
            .iter()
            .map(|(id, _)| id)
            .filter(move |id| *id >= first)
    }

    /// The common sets that are worth a region of their own, since that saves at least so many packets
    /// in a second, by all regions that have been noted; the most worthwhile first.
    #[must_use]
    pub fn common_sets(&self, sets: CommonSets, least: u32) -> Vec<Vec<GroupId>> {
        sets.select(least, &self.model())
    }

    /// The nodes of the present plan from this one on, ascending.
    pub fn placed_from(&self, first: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        self.table.homes().range(first..).map(|(node, _)| *node)
    }

    /// A group's path in the present plan.
    #[must_use]
    pub fn path(&self, group: GroupId) -> Path {
        self.group(group, &self.parts(group)).path
    }

    fn model(&self) -> Model<'_> {
        Model {
            settings: &self.settings,
            rates: &self.rates,
        }
    }

    fn parts(&self, group: GroupId) -> Vec<Part> {
        let parts = self.table.iter().map(|(id, region)| Part {
            region: id,
            size: region.cluster.size,
            count: region.cluster.count(group),
        });
        parts.filter(|part| part.count > 0).collect()
    }

    fn group(&self, group: GroupId, parts: &[Part]) -> PlannedGroup {
        let cover = self.reach.cover(group, parts, &self.model());
        let mut residue: Vec<NodeId> = Vec::new();
        for region in cover.copies.iter().filter_map(|id| self.table.get(*id)) {
            let members = region.members.iter();
            let want = members.filter(|(_, groups)| groups.binary_search(&group).is_ok());
            residue.extend(want.map(|(node, _)| *node));
        }
        residue.sort_unstable();
        let subscribers = parts.iter().map(|part| u64::from(part.count)).sum();
        PlannedGroup {
            unwanted: self.unwanted(&cover, subscribers, residue.len() as u64),
            path: Path::new(self.ids(&cover), residue),
            subscribers,
            rate: self.rates.of(group),
            cost: cover.cost,
        }
    }

    fn ids(&self, cover: &Cover) -> Vec<qsm_wire::ChannelId> {
        let channels = cover.channels.iter();
        let mut ids: Vec<_> = channels.map(|at| self.reach.channels[*at].id).collect();
        ids.sort_unstable();
        ids
    }

    fn unwanted(&self, cover: &Cover, subscribers: u64, residue: u64) -> u64 {
        let sizes = cover
            .channels
            .iter()
            .map(|at| self.reach.channels[*at].size);
        sizes.sum::<u64>().saturating_sub(subscribers - residue)
    }

    /// The present plan.
    #[must_use]
    pub fn plan(&self) -> Plan {
        let mut plan = Plan::default();
        let mut parts: Vec<Vec<Part>> = vec![Vec::new(); self.census.groups_end()];
        for (id, region) in self.table.iter() {
            let size = region.cluster.size;
            let (mut carried, mut residue) = (0, 0);
            for (group, count) in region.cluster.entries() {
                let region = id;
                parts[group.0 as usize].push(Part {
                    region,
                    size,
                    count,
                });
                if self.model().carries(size, count) {
                    carried += 1;
                } else {
                    residue += count as usize;
                }
            }
            let planned = PlannedRegion {
                domain: region.domain,
                members: region.members.keys().copied().collect(),
                carried,
                residue,
                gained: region.gained,
                refused: region.refused,
            };
            plan.regions.insert(id, planned);
        }
        let listened = self.reach.channels.iter();
        for channel in listened.filter(|channel| !channel.regions.is_empty()) {
            let name = |pin: u32| self.hints.pins()[pin as usize].name.clone();
            let planned = PlannedChannel {
                regions: channel.regions.iter().copied().collect(),
                nodes: channel.size,
                pin: channel.pin.map(name),
            };
            plan.channels.insert(channel.id, planned);
        }
        plan.totals.nodes = self.census.len();
        plan.totals.classes = self.census.classes();
        plan.totals.cost = self.model().region() * self.table.len() as i128;
        for (at, parts) in (0..).zip(&parts) {
            if !parts.is_empty() {
                let group = self.group(GroupId(at), parts);
                plan.totals.add(&group);
                plan.groups.insert(GroupId(at), group);
            }
        }
        plan
    }

    /// Explains a group's path; `None`: nobody wants it.
    #[must_use]
    pub fn why(&self, group: GroupId) -> Option<Why> {
        let parts = self.parts(group);
        if parts.is_empty() {
            return None;
        }
        let model = self.model();
        let wanted: u64 = parts.iter().map(|part| u64::from(part.count)).sum();
        let nodes: u64 = parts.iter().map(|part| u64::from(part.size)).sum();
        let packet = u64::from(self.settings.costs.packet);
        let mut alternatives = vec![
            Alternative {
                way: Way::PerRegion,
                packets: parts.len() as u64,
                unwanted: nodes - wanted,
                cost: model.channel(nodes, wanted) + packet * (parts.len() as u64 - 1),
            },
            Alternative {
                way: Way::Copies,
                packets: wanted,
                unwanted: 0,
                cost: model.copies(wanted),
            },
        ];
        let whole = self.reach.channels.iter().filter(|channel| {
            let has = |part: &Part| channel.regions.contains(&part.region);
            channel.pin.is_none() && parts.iter().all(has)
        });
        if let Some(channel) = whole.min_by_key(|channel| channel.size) {
            alternatives.push(Alternative {
                way: Way::Channel(channel.id),
                packets: 1,
                unwanted: channel.size - wanted,
                cost: model.channel(channel.size, wanted),
            });
        }
        let regions = parts.iter().map(|part| WhyRegion {
            region: part.region,
            nodes: part.size,
            subscribers: part.count,
            carried: model.carries(part.size, part.count),
        });
        let pin = self
            .hints
            .pins()
            .iter()
            .find(|pin| pin.groups.contains(&group));
        Some(Why {
            chosen: self.group(group, &parts),
            regions: regions.collect(),
            alternatives,
            pin: pin.map(|pin| pin.name.clone()),
        })
    }
}
