use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::Instant;
use qsm_wire::membership::{GroupReport, Hello, Role};
use qsm_wire::{ChannelId, GroupId, Incarnation, NodeId, Origin, RegionId};

use super::command::{Admission, EndCause, TermStart, Updates};
use super::factions::largest_faction;
use super::life::Life;
use super::request::refusal;
use super::unreported::FormerLives;
use super::{NUMBER_MAX, Node, Registry};

/// Incarnations from which a term begins to count: nobody who is left may have heard of the
/// highest ones of the term before.
const INCARNATIONS_PER_TERM: u32 = 4096;

/// Incarnations between those that the first services of two clusters may begin with. When all
/// nodes have stopped nobody remembers, and the next cluster of the name begins somewhere else.
const INCARNATIONS_PER_ERA: u32 = 1 << 16;
/// How many such beginnings there are: all of them are far below [`NUMBER_MAX`].
pub(crate) const ERAS: u32 = 1 << 12;

/// The number before the first incarnation of a term, if this is the highest one heard of; 0:
/// nobody has heard of any, and the era decides. In the far future what nodes have heard of has
/// to do.
fn first_incarnations(term: u64, highest: u32, era: u32) -> u32 {
    if highest == 0 {
        return era % ERAS * INCARNATIONS_PER_ERA;
    }
    let era = highest / INCARNATIONS_PER_ERA * INCARNATIONS_PER_ERA;
    let terms_before = u32::try_from(term.saturating_sub(1)).unwrap_or(u32::MAX);
    let first = terms_before.checked_mul(INCARNATIONS_PER_TERM);
    let first = first.and_then(|first| first.checked_add(era));
    let first = first.filter(|first| *first <= NUMBER_MAX / 2);
    first.unwrap_or(0).max(highest)
}

/// The hellos before a term, sorted.
#[derive(Debug)]
struct Reports {
    /// The highest term.
    term: u64,
    region_last: RegionId,
    channel_last: ChannelId,
    group_end: GroupId,
    incarnation_last: Incarnation,
    /// Nodes that go on in their lives.
    resuming: BTreeMap<NodeId, Hello>,
    /// All others.
    fresh: BTreeMap<NodeId, Hello>,
    /// Lives that are over.
    former: FormerLives,
}

impl Reports {
    /// What the hellos say together.
    ///
    /// Nodes of an older term were absent when the last service began: it has waited for them, or
    /// they were dead. Dead are those of whose deaths others have been told (R046). Of those that
    /// contradict each other most go on (R-MEM-6). Numbers of groups are below `groups_max`.
    fn new(hellos: BTreeMap<NodeId, Hello>, groups_max: usize) -> Self {
        let all = hellos.values();
        let term = all.clone().map(|hello| hello.term).max().unwrap_or(0);
        let region_last = all.clone().map(|hello| hello.region_last).max();
        let channel_last = all.clone().map(|hello| hello.channel_last).max();
        let group_end = all.clone().map(|hello| hello.group_end).max();
        let incarnation_last = all.clone().map(|hello| hello.incarnation_last).max();
        let dead = all.flat_map(|hello| hello.dead.iter().copied());
        let dead: BTreeSet<Origin> = dead.collect();
        let resumes = |(node, hello): &(NodeId, Hello)| {
            let origin = Origin {
                node: *node,
                incarnation: hello.incarnation,
            };
            let known = hello.term > 0 && hello.incarnation != Incarnation(0);
            known && hello.term == term && !dead.contains(&origin)
        };
        let present = hellos.iter();
        let present = present.map(|(node, hello)| (*node, hello.incarnation));
        let former = FormerLives {
            present: present.collect(),
            dead: dead.clone(),
        };
        let (resuming, mut fresh): (BTreeMap<NodeId, Hello>, BTreeMap<NodeId, Hello>) =
            hellos.into_iter().partition(resumes);
        let agreeing = largest_faction(&resuming, groups_max);
        let agrees = |(node, _): &(NodeId, Hello)| agreeing.contains(node);
        let (resuming, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            resuming.into_iter().partition(agrees);
        fresh.extend(others);
        Self {
            term,
            region_last: region_last.unwrap_or_default(),
            channel_last: channel_last.unwrap_or_default(),
            group_end: group_end.unwrap_or_default(),
            incarnation_last: incarnation_last.unwrap_or_default(),
            resuming,
            fresh,
            former,
        }
    }
}

/// How nodes come in.
impl Registry {
    /// What was reported becomes the membership.
    pub(super) fn open_term(
        &mut self,
        at: Instant,
        hellos: BTreeMap<NodeId, Hello>,
        era: u32,
        updates: &mut Updates,
    ) {
        if self.term > 0 {
            return;
        }
        self.recall_repair_limit(hellos.values());
        let reports = Reports::new(hellos, self.group_numbers_max());
        self.term = reports.term + 1;
        let resumed = reports.resuming.len();
        self.reserve(reports.region_last, reports.channel_last);
        let highest = reports.incarnation_last.0;
        self.incarnation_last = first_incarnations(self.term, highest, era);
        if highest == 0 {
            // Who is away may remember regions all the same, and take new ones for them.
            let first = self.incarnation_last;
            self.reserve(RegionId(first), ChannelId(first));
        }
        for (node, hello) in &reports.resuming {
            self.incarnation_last = self.incarnation_last.max(hello.incarnation.0);
            updates.welcomed.push(Origin {
                node: *node,
                incarnation: hello.incarnation,
            });
        }
        self.note_dead(reports.former.dead.iter().copied());
        self.unsettled.begin(at, self.gone_after);
        self.groups
            .rest_before(at, reports.group_end, self.group_numbers_max());
        let absent = self.rebuild(at, reports.resuming, &reports.former, updates);
        updates.opened = Some(TermStart {
            term: self.term,
            resumed,
            absent,
        });
        for (node, hello) in reports.fresh {
            self.greet(at, node, hello, updates);
        }
    }

    /// A known node with a new session keeps its life and is told everything again; any other
    /// begins one, or goes on in one that another service knew.
    pub(super) fn greet(&mut self, at: Instant, node: NodeId, hello: Hello, updates: &mut Updates) {
        let incarnation = hello.incarnation;
        let same = Origin { node, incarnation };
        let told = |node: &Node| node.origin == same && !node.unreported;
        let here = self.nodes.get(&node).is_some_and(told) && self.origin(node).is_some();
        if !here || hello.term != self.term {
            self.greet_stranger(at, same, hello, updates);
            return;
        }
        let views = hello.regions.iter();
        let views = views.map(|report| (report.region, report.view)).collect();
        self.heed_repair_limit(hello.repairs);
        self.note_addresses(same, hello.address, hello.second, updates);
        self.resume(node, views, &hello.senders);
        let unnamed = hello.groups.iter().filter(|report| report.group.is_none());
        self.enter_again(at, node, unnamed, updates);
        updates.welcomed.push(same);
    }

    /// Begins a new life for a node; its groups are entered again.
    pub(super) fn begin_life(
        &mut self,
        at: Instant,
        node: NodeId,
        hello: Hello,
        updates: &mut Updates,
    ) {
        if let Some(origin) = self.end(node) {
            updates.ended.push((origin, EndCause::NewLife));
        }
        let former = self.nodes.get(&node).map(|node| node.life);
        if former == Some(Life::Ending) {
            // The former life has to end before the next one begins.
            updates.batches.push(self.batch(at));
        }
        self.end_late(node, None);
        if hello.incarnation != Incarnation(0) {
            let incarnation = hello.incarnation;
            self.end_elsewhere(Origin { node, incarnation });
        }
        if self.nodes.len() >= self.limits.nodes {
            updates.full.push(node);
            return;
        }
        self.incarnation_last = self.incarnation_last.max(hello.incarnation.0) + 1;
        let incarnation = Incarnation(self.incarnation_last);
        let origin = Origin { node, incarnation };
        let (name, address) = (hello.name, hello.address);
        self.admit(origin, name.clone(), address, hello.second);
        updates.admitted.push(Admission {
            origin,
            name,
            address,
        });
        updates.welcomed.push(origin);
        self.enter_again(at, node, hello.groups.iter(), updates);
    }

    /// Enters groups on the word of a hello; names and numbers are told with the next batch.
    fn enter_again<'a>(
        &mut self,
        at: Instant,
        node: NodeId,
        reports: impl Iterator<Item = &'a GroupReport> + Clone,
        updates: &mut Updates,
    ) {
        for role in [Role::Subscriber, Role::Publisher] {
            let of_role = reports.clone().filter(|report| report.role == role);
            let names: Vec<String> = of_role.map(|report| report.name.clone()).collect();
            let result = self.enter(at, node, 0, role, &names);
            let refused = refusal(0, result).map(|answer| (node, answer));
            updates.refused.extend(refused);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_term_begins_beyond_the_lives_of_the_one_before() {
        let first = |term, highest| first_incarnations(term, highest, 3);
        assert_eq!(first(2, 7), 4096);
        assert_eq!(first(3, 4097), 8192);
        assert_eq!(first(3, 9000), 9000);
        assert_eq!(first(2, (5 << 16) + 7), (5 << 16) + 4096);
        assert_eq!(first(u64::MAX, 77), 77);
        let believed = (0..1 << 20).map(|term| first(term, 1));
        assert!(believed.max().is_some_and(|first| first < NUMBER_MAX));
    }

    // Rule R-MEM-1.
    #[test]
    fn a_cluster_that_nobody_remembers_begins_anywhere() {
        let firsts: BTreeSet<u32> = (0..ERAS).map(|era| first_incarnations(1, 0, era)).collect();
        assert_eq!(firsts.len(), 4096);
        assert!(firsts.iter().all(|first| *first < NUMBER_MAX / 2));
    }
}
