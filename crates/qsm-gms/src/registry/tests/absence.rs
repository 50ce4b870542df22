//! Members that are away, in the views that nodes are told.

use qsm_proto::view::{Layout, RegionView};
use qsm_wire::membership::{AwayReason, ToService};

use super::machine::{Input, Output, drawn_before};
use super::*;
use crate::registry::command::{Command, Updates};

fn set_away(registry: &mut Registry, node: u64, reason: AwayReason) -> Updates {
    let node = NodeId(node);
    registry.apply(NOW, Command::SetAway { node, reason })
}

fn caught_up(registry: &mut Registry, at: Instant, node: u64, region: RegionId, view: ViewNumber) {
    let said = registry.request(at, NodeId(node), ToService::CaughtUp { region, view });
    assert_eq!(said, None);
}

/// Three nodes in one region, which is returned.
fn three(registry: &mut Registry) -> RegionId {
    for node in 0..3 {
        admit(registry, node);
        enter(registry, node, [1]);
    }
    settle(registry);
    registry.nodes[&NodeId(0)].home.unwrap()
}

fn view(registry: &Registry, region: RegionId) -> ViewNumber {
    registry.regions.get(region).unwrap().view
}

/// Members of a region in order, those that are away with the reason.
fn members(registry: &Registry, region: RegionId) -> Vec<(u64, Option<AwayReason>)> {
    let members = registry.regions.get(region).unwrap().members.iter();
    members
        .map(|member| (member.origin.node.0, member.away))
        .collect()
}

// Rule R-MEM-15.
#[test]
fn a_member_that_is_away_comes_last_until_it_has_caught_up_with_the_view_that_says_so() {
    let mut registry = registry(30);
    let region = three(&mut registry);
    let before = view(&registry, region);
    let said = set_away(&mut registry, 1, AwayReason::Silent);
    assert_eq!(said.away, [(origin(1), AwayReason::Silent)]);
    let again = set_away(&mut registry, 1, AwayReason::Silent);
    assert_eq!(again, Updates::default());
    let batch = registry.batch(NOW);
    let [Update::View(step)] = updates(&batch, 0) else {
        panic!("{batch:?}");
    };
    assert_eq!(step.changed.len(), 1);
    assert_eq!(
        (step.added.len(), step.removed.len(), step.leaving.len()),
        (0, 0, 0)
    );
    let silent = Some(AwayReason::Silent);
    let expected = [(0, None), (2, None), (1, silent)];
    assert_eq!(members(&registry, region), expected);
    check(&registry);
    assert_eq!(registry.node_rows()[1].away, silent);

    caught_up(&mut registry, NOW, 1, region, before);
    let now = view(&registry, region);
    caught_up(&mut registry, NOW, 0, region, now);
    caught_up(&mut registry, NOW, 1, RegionId(77), now);
    assert!(!registry.has_changes(), "not with an older view");
    caught_up(&mut registry, NOW, 1, region, now);
    caught_up(&mut registry, NOW, 1, region, now);
    let batch = registry.batch(NOW);
    assert_eq!(batch.back, [origin(1)]);
    assert_eq!(
        members(&registry, region),
        [(0, None), (2, None), (1, None)]
    );
    check(&registry);
    assert_eq!(
        (registry.stats.away, registry.stats.returned),
        (1, 1),
        "counted once"
    );
    caught_up(&mut registry, NOW, 1, region, now);
    assert!(!registry.has_changes());
}

// Rule R-MEM-15.
#[test]
fn the_last_word_before_a_batch_counts() {
    let mut registry = registry(31);
    let region = three(&mut registry);
    set_away(&mut registry, 1, AwayReason::Silent);
    registry.batch(NOW);
    let now = view(&registry, region);
    caught_up(&mut registry, NOW, 1, region, now);
    set_away(&mut registry, 1, AwayReason::Silent);
    let batch = registry.batch(NOW);
    assert_eq!(batch.back, []);
    assert_eq!(members(&registry, region)[2].1, Some(AwayReason::Silent));
    // Another reason begins another absence, of which the former word says nothing.
    let updates = set_away(&mut registry, 1, AwayReason::Unreachable);
    assert_eq!(updates.away, [(origin(1), AwayReason::Unreachable)]);
    let now = view(&registry, region);
    caught_up(&mut registry, NOW, 1, region, now);
    registry.batch(NOW);
    let unreachable = Some(AwayReason::Unreachable);
    assert_eq!(members(&registry, region)[2].1, unreachable);
    check(&registry);
}

// Rule R-MEM-15.
#[test]
fn a_node_that_moves_while_it_is_away_is_away_in_both_regions() {
    let mut registry = registry(32);
    let old = three(&mut registry);
    make_common(&mut registry, 2);
    registry.batch(NOW);
    set_away(&mut registry, 0, AwayReason::Silent);
    enter(&mut registry, 0, [2]);
    registry.batch(NOW);
    check(&registry);
    let home = registry.nodes[&NodeId(0)].home.unwrap();
    let silent = Some(AwayReason::Silent);
    assert_eq!(members(&registry, home), [(0, silent)]);
    assert_eq!(members(&registry, old)[2], (0, silent));
    // It catches up in each of them, and is back with the last.
    let now = view(&registry, home);
    caught_up(&mut registry, NOW, 0, home, now);
    let batch = registry.batch(NOW);
    assert_eq!(batch.back, []);
    assert_eq!(members(&registry, home), [(0, None)]);
    assert_eq!(members(&registry, old)[2], (0, silent));
    let now = view(&registry, old);
    caught_up(&mut registry, NOW, 0, old, now);
    assert_eq!(registry.batch(NOW).back, [origin(0)]);
    check(&registry);
    settle(&mut registry);
}

// Rule R-MEM-15.
#[test]
fn a_node_that_its_last_region_let_go_stays_away_until_it_asks_for_something() {
    let mut registry = registry(33);
    let region = three(&mut registry);
    set_away(&mut registry, 0, AwayReason::Silent);
    exit(&mut registry, 0, [1]);
    registry.batch(NOW);
    let later = NOW.after(registry.drain_max);
    registry.expire_drains(later);
    assert_eq!(registry.batch(later).back, []);
    check(&registry);
    assert!(!registry.nodes[&NodeId(0)].is_leaving(region));
    enter(&mut registry, 0, [1]);
    assert_eq!(registry.batch(later).back, [origin(0)]);
    assert!(
        members(&registry, region)
            .iter()
            .all(|(_, away)| away.is_none())
    );
    check(&registry);
    // Who is a member of nothing is not away: nobody waits for it.
    admit(&mut registry, 9);
    publish(&mut registry, 9, [1]);
    settle(&mut registry);
    let updates = set_away(&mut registry, 9, AwayReason::Silent);
    assert_eq!(updates, Updates::default());
    assert!(!registry.has_changes());
}

// Rule R-MEM-15.
#[test]
fn a_node_that_has_drained_its_last_region_is_back() {
    let mut registry = registry(33);
    let region = three(&mut registry);
    make_common(&mut registry, 2);
    registry.batch(NOW);
    set_away(&mut registry, 0, AwayReason::Silent);
    enter(&mut registry, 0, [2]);
    registry.batch(NOW);
    let home = registry.nodes[&NodeId(0)].home.unwrap();
    let now = view(&registry, home);
    caught_up(&mut registry, NOW, 0, home, now);
    assert_eq!(registry.batch(NOW).back, [], "one region still marks it");
    let now = view(&registry, region);
    registry.drained(NodeId(0), region, now);
    assert_eq!(registry.batch(NOW).back, [origin(0)]);
    assert!(!registry.nodes[&NodeId(0)].is_leaving(region));
    check(&registry);
}

// Rule R-MEM-15.
#[test]
fn a_node_that_is_away_leaves_and_dies_like_any_other() {
    let mut registry = registry(34);
    let region = three(&mut registry);
    set_away(&mut registry, 0, AwayReason::Silent);
    set_away(&mut registry, 1, AwayReason::Unreachable);
    registry.end(NodeId(0)).unwrap();
    registry.batch(NOW);
    let unreachable = Some(AwayReason::Unreachable);
    assert_eq!(members(&registry, region), [(2, None), (1, unreachable)]);
    // A region of which all change alike keeps its marks.
    for node in [1, 2] {
        enter(&mut registry, node, [2]);
    }
    registry.batch(NOW);
    assert_eq!(members(&registry, region), [(2, None), (1, unreachable)]);
    assert_eq!(registry.stats.regions_regrouped, 1);
    check(&registry);
    exit(&mut registry, 1, [1, 2]);
    settle(&mut registry);
    assert_eq!(members(&registry, region), [(2, None)]);
    // The word of one that is over counts for nothing.
    set_away(&mut registry, 2, AwayReason::Silent);
    registry.batch(NOW);
    let now = view(&registry, region);
    registry.end(NodeId(2)).unwrap();
    caught_up(&mut registry, NOW, 2, region, now);
    registry.batch(NOW);
    check(&registry);
    assert_eq!(registry.regions.len(), 0);
}

// Rule R-MEM-15.
#[test]
fn a_word_too_soon_after_a_return_is_not_believed_yet() {
    let mut registry = registry(35);
    let region = three(&mut registry);
    let at = |ms: u64| Instant(ms * 1_000_000);
    let mut returns = |away: u64, word: u64| {
        let (node, reason) = (NodeId(1), AwayReason::Unreachable);
        registry.apply(at(away), Command::SetAway { node, reason });
        registry.batch(at(away));
        let now = view(&registry, region);
        caught_up(&mut registry, at(word), 1, region, now);
        !registry.batch(at(word)).back.is_empty()
    };
    assert!(returns(0, 500));
    assert!(!returns(1000, 1999));
    assert!(returns(1000, 2000));
    assert!(!returns(3000, 4999));
    assert!(returns(3000, 5000));
    assert!(returns(66_000, 66_000), "a minute later all is forgotten");
    assert_eq!(registry.stats.returns_too_soon, 2);
}

/// What a node knows of its regions, by updates alone.
#[derive(Debug, Default)]
struct Client {
    views: BTreeMap<RegionId, RegionView>,
}

fn region_view(id: RegionId, number: ViewNumber, members: Vec<Member>) -> RegionView {
    let channel = (
        qsm_wire::ChannelId(id.0),
        SocketAddr::from(([239, 1, 1, 1], 1)),
    );
    RegionView::new(id, number, channel, members, Layout::default())
}

impl Client {
    fn greet(&mut self, hello: &Hello) {
        let reports = hello.regions.iter();
        let views = reports.map(|report| {
            let view = region_view(report.region, report.view, report.members.clone());
            (report.region, view)
        });
        self.views = views.collect();
    }

    fn take(&mut self, update: &Update) {
        match update {
            Update::View(step) => self.take_step(step),
            Update::Closed { region } => {
                self.views.remove(region);
            }
            _ => {}
        }
    }

    /// As a node does it.
    fn take_step(&mut self, step: &ViewStep) {
        let mut members = match step.base {
            ViewNumber(0) => Vec::new(),
            base => {
                let view = &self.views[&step.region];
                assert_eq!(view.number(), base);
                view.members().to_vec()
            }
        };
        members.retain(|member| !step.removed.contains(&member.origin));
        for member in &mut members {
            if step.leaving.contains(&member.origin) {
                member.left.get_or_insert(step.view);
            }
            let mut changed = step.changed.iter();
            if let Some(entry) = changed.find(|entry| entry.origin == member.origin) {
                *member = *entry;
            }
        }
        members.extend(&step.added);
        let view = region_view(step.region, step.view, members);
        self.views.insert(step.region, view);
    }
}

/// Nodes whose model follows what the registry tells them.
#[derive(Debug, Default)]
struct Clients(BTreeMap<NodeId, Client>);

impl Clients {
    fn follow(&mut self, input: &Input, output: &Output) {
        match input {
            Input::Command(Command::Greet { node, hello }) => {
                self.0.entry(*node).or_default().greet(hello);
            }
            Input::Command(Command::Open { hellos, .. }) => {
                for (node, hello) in hellos {
                    self.0.entry(*node).or_default().greet(hello);
                }
            }
            _ => {}
        }
        let batches = output.0.batches.iter();
        for (node, updates) in batches.flat_map(|batch| &batch.updates) {
            let client = self.0.entry(*node).or_default();
            updates.iter().for_each(|update| client.take(update));
        }
    }

    /// All who have been told of a region's present view know its members in its order.
    fn check(&self, registry: &Registry) -> usize {
        let mut away = 0;
        for (id, region) in registry.regions.iter() {
            for (node, known) in &region.audience {
                if known.view != region.view || registry.nodes[node].life != Life::Synced {
                    continue;
                }
                let view = &self.0[node].views[&id];
                assert_eq!(view.number(), region.view);
                assert_eq!(view.members(), region.members);
                away += view.away_members().len();
            }
        }
        away
    }
}

// Rules R-VIEW-1, R-MEM-15: positions decide who caches what.
#[test]
fn nodes_and_service_order_the_members_of_every_view_alike() {
    let mut away = 0;
    for seed in 0..1000 {
        let mut clients = Clients::default();
        let (mut registry, ..) = drawn_before(seed, |registry, input, output| {
            clients.follow(input, output);
            if !output.0.batches.is_empty() {
                away += clients.check(registry);
            }
        });
        settle(&mut registry);
    }
    assert!(away > 10_000, "{away}");
}

#[test]
fn a_node_that_has_ended_is_listed_no_more_although_the_others_are_told_by_the_next_batch() {
    let mut registry = registry(1);
    for node in [1, 2] {
        admit(&mut registry, node);
        enter(&mut registry, node, [1]);
    }
    settle(&mut registry);
    let listed = |registry: &Registry| {
        let rows = registry.node_rows().into_iter();
        rows.map(|row| row.origin.node.0).collect::<Vec<_>>()
    };
    assert_eq!(listed(&registry), [1, 2]);
    registry.end(NodeId(2)).unwrap();
    assert_eq!(listed(&registry), [1]);
    assert!(registry.has_changes());
}
