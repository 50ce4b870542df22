//! Nodes that come from another service or another address, and lives of which others have spoken.

use qsm_wire::membership::{AwayReason, ToService};

use super::reports::{forget_missing, hello, rebuild};
use super::*;
use crate::registry::command::{Command, EndCause, Updates};

const REGION: RegionId = RegionId(5);
const VIEW: ViewNumber = ViewNumber(10);

fn subscribed(group: u32, name: &str) -> GroupReport {
    GroupReport {
        group: Some(GroupId(group)),
        name: name.to_owned(),
        role: Role::Subscriber,
    }
}

fn place(node: u64) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, u8::try_from(node).unwrap()], 1))
}

fn entry(node: u64) -> Member {
    Member {
        origin: origin(node),
        address: place(node),
        joined: ViewNumber(2),
        left: None,
        away: None,
    }
}

/// A region with these members.
fn region_of(members: impl IntoIterator<Item = u64>) -> RegionReport {
    RegionReport {
        region: REGION,
        view: VIEW,
        channel: qsm_wire::ChannelId(6),
        address: SocketAddr::from(([239, 192, 1, 1], 4484)),
        members: members.into_iter().map(entry).collect(),
        groups: Vec::new(),
        merged: false,
    }
}

/// A member of that region, which has group 3 alone.
fn member_hello(node: u64, region: &RegionReport) -> Hello {
    Hello {
        name: format!("n{node}"),
        address: place(node),
        groups: vec![subscribed(3, "g3")],
        regions: vec![region.clone()],
        region_last: REGION,
        channel_last: qsm_wire::ChannelId(6),
        ..hello()
    }
}

/// A service in term 2 to which these members of a region of nodes 0 to 3 have reported.
fn opened(reported: impl IntoIterator<Item = u64>) -> (Registry, Updates) {
    let region = region_of(0..4);
    let hellos = reported.into_iter();
    let hellos = hellos.map(|node| (NodeId(node), member_hello(node, &region)));
    let hellos = hellos.collect();
    let mut registry = registry(40);
    let updates = registry.apply(NOW, Command::Open { hellos, era: 3 });
    registry.batch(NOW);
    check(&registry);
    (registry, updates)
}

fn greet(registry: &mut Registry, node: u64, hello: Hello) -> Updates {
    let node = NodeId(node);
    registry.apply(NOW, Command::Greet { node, hello })
}

fn goes_on(updates: &Updates, node: u64) -> bool {
    updates.welcomed == [origin(node)] && updates.admitted.is_empty()
}

fn begins_anew(updates: &Updates, node: u64) -> bool {
    let [admission] = &updates.admitted[..] else {
        return false;
    };
    let lives = admission.origin;
    lives.node == NodeId(node) && lives.incarnation > origin(node).incarnation
}

fn away(registry: &Registry, region: RegionId) -> Vec<(u64, AwayReason)> {
    let members = registry.regions.get(region).unwrap().members.iter();
    let away = members.filter_map(|member| Some((member.origin.node.0, member.away?)));
    away.collect()
}

fn dead(batch: &Batch, node: u64) -> Vec<Origin> {
    let dead = updates(batch, node).iter();
    let dead = dead.filter_map(|update| match update {
        Update::Dead { origin } => Some(*origin),
        _ => None,
    });
    dead.collect()
}

// Rules R-VIEW-16, R-MEM-6.
#[test]
fn what_a_member_of_a_merged_region_reports_late_to_have_there_it_has_had_all_the_time() {
    let merged = |groups: &[u32]| RegionReport {
        groups: groups.iter().copied().map(GroupId).collect(),
        merged: true,
        ..region_of(0..2)
    };
    // Nobody who reports in time knows of group 4.
    let hellos = BTreeMap::from([(NodeId(0), member_hello(0, &merged(&[3])))]);
    let mut registry = registry(40);
    registry.apply(NOW, Command::Open { hellos, era: 3 });
    registry.batch(NOW);
    check(&registry);
    let mut late = member_hello(1, &merged(&[3, 4]));
    late.groups.push(subscribed(4, "g4"));
    let updates = greet(&mut registry, 1, late);
    assert!(goes_on(&updates, 1));
    registry.batch(NOW);
    check(&registry);
    let stay = &registry.regions.get(REGION).unwrap().stays[&NodeId(1)];
    assert_eq!(*stay.groups, [GroupId(3), GroupId(4)]);
    assert_eq!((stay.since.len(), stay.assumed), (0, false));
}

// Rules R-VIEW-16, R-MEM-6.
#[test]
fn what_a_member_of_a_merged_region_has_only_asked_for_begins_with_the_next_view() {
    let merged = |groups: &[u32]| RegionReport {
        groups: groups.iter().copied().map(GroupId).collect(),
        merged: true,
        ..region_of(0..2)
    };
    let both = |node, region| {
        let mut hello = member_hello(node, region);
        hello.groups.push(subscribed(4, "g4"));
        (NodeId(node), hello)
    };
    let hellos = [both(0, &merged(&[3])), both(1, &merged(&[3, 4]))];
    let mut registry = registry(40);
    let hellos = BTreeMap::from(hellos);
    registry.apply(NOW, Command::Open { hellos, era: 3 });
    registry.batch(NOW);
    check(&registry);
    let region = registry.regions.get(REGION).unwrap();
    let since = |node| region.stays[&NodeId(node)].since.clone();
    assert_eq!(since(0), BTreeMap::from([(GroupId(4), region.view)]));
    assert_eq!(since(1), BTreeMap::new());
    assert_eq!(
        *region.groups_of(NodeId(0)).clone(),
        [GroupId(3), GroupId(4)]
    );
}

// Rule R-MEM-6.
#[test]
fn a_member_that_has_not_reported_is_a_node_that_is_away_and_goes_on_when_it_says_hello() {
    let (mut registry, updates) = opened([0, 1]);
    let unreported = AwayReason::Unreported;
    let missing = [(origin(2), unreported), (origin(3), unreported)];
    assert_eq!(updates.away, missing);
    assert_eq!(updates.opened.map(|start| start.absent), Some(2));
    assert_eq!(away(&registry, REGION), [(2, unreported), (3, unreported)]);
    let row = &registry.node_rows()[2];
    assert_eq!((row.name.as_str(), row.address), ("", place(2)));
    assert_eq!((row.away, row.subscriptions), (Some(unreported), 1));
    assert_eq!(registry.origin(NodeId(2)), Some(origin(2)));

    // Meanwhile it has asked for another group, and published.
    let mut late = member_hello(2, &region_of(0..4));
    late.groups.push(GroupReport {
        role: Role::Publisher,
        ..subscribed(9, "g9")
    });
    late.published = true;
    let updates = greet(&mut registry, 2, late);
    assert!(goes_on(&updates, 2));
    let batch = registry.batch(NOW);
    check(&registry);
    assert_eq!(registry.nodes[&NodeId(2)].home, Some(REGION));
    assert_eq!(registry.groups.find("g9"), Some(GroupId(9)));
    let row = &registry.node_rows()[2];
    assert_eq!((row.name.as_str(), row.publications), ("n2", 1));
    let views = super::updates(&batch, 2).iter();
    let whole = |update: &&Update| {
        matches!(update, Update::View(step)
            if step.base == ViewNumber(0) && step.view > VIEW && step.added.len() == 4)
    };
    assert_eq!(views.filter(whole).count(), 1);
    assert!(
        super::updates(&batch, 0).is_empty(),
        "nothing has changed yet"
    );
    let (region, view) = (REGION, registry.regions.get(REGION).unwrap().view);
    registry.request(NOW, NodeId(2), ToService::CaughtUp { region, view });
    assert_eq!(registry.batch(NOW).back, [origin(2)]);
    assert_eq!(away(&registry, REGION), [(3, unreported)]);

    // Of the other one everybody is told who may have to do with it: that is not known.
    registry.end(NodeId(3));
    let batch = registry.batch(NOW);
    for node in 0..3 {
        assert_eq!(dead(&batch, node), [origin(3)]);
    }
    check(&registry);
}

// Rule R-MEM-6.
#[test]
fn a_life_that_somebody_knows_to_be_over_is_not_waited_for() {
    let region = region_of(0..4);
    let mut knows = member_hello(0, &region);
    knows.dead = vec![origin(3)];
    let mut again = member_hello(2, &region);
    (again.term, again.incarnation) = (0, Incarnation(0));
    let hellos = [(NodeId(0), knows), (NodeId(2), again)].into();
    let mut registry = registry(41);
    let updates = registry.apply(NOW, Command::Open { hellos, era: 3 });
    assert!(updates.batches.is_empty());
    assert_eq!(
        updates.away,
        [(origin(1), AwayReason::Unreported)],
        "of node 2 another process runs"
    );
    let batch = registry.batch(NOW);
    assert_eq!(dead(&batch, 0), [origin(2), origin(3)]);
    check(&registry);
}

// Rule R-MEM-6.
#[test]
fn who_missed_one_service_goes_on_with_the_next() {
    // Nodes 0 and 1 have been with a service in term 2, to which node 2 was away.
    let mut region = region_of(0..3);
    region.members[2].away = Some(AwayReason::Unreported);
    let hellos = (0..3).map(|node| {
        let mut hello = member_hello(node, &region);
        if node == 2 {
            hello.regions = vec![RegionReport {
                view: ViewNumber(7),
                ..region_of(0..3)
            }];
        } else {
            hello.term = 2;
        }
        (NodeId(node), hello)
    });
    let hellos = hellos.collect();
    let mut registry = registry(42);
    let updates = registry.apply(NOW, Command::Open { hellos, era: 3 });
    let start = updates.opened.unwrap();
    assert_eq!((start.term, start.resumed, start.absent), (3, 2, 1));
    assert_eq!(updates.welcomed, [origin(0), origin(1), origin(2)]);
    assert!(updates.admitted.is_empty() && updates.batches.is_empty());
    registry.batch(NOW);
    check(&registry);
    assert_eq!(away(&registry, REGION), [(2, AwayReason::Unreported)]);
}

// Rule R-MEM-6: two services that divided a cluster have numbered its views alike.
#[test]
fn a_view_of_another_service_is_not_taken_for_one_of_this_with_the_same_number() {
    let (mut registry, _) = opened([0, 1]);
    let here = registry.regions.get(REGION).unwrap().view;
    for (node, ahead) in [(2, 0), (3, 7)] {
        let mut there = region_of(0..4);
        there.view = ViewNumber(here.0 + ahead);
        let mut late = member_hello(node, &there);
        late.term = registry.term();
        let updates = greet(&mut registry, node, late);
        assert!(goes_on(&updates, node));
    }
    // What node 3 says of a view of the other service says nothing of one of this.
    let (region, view) = (REGION, ViewNumber(here.0 + 7));
    registry.request(NOW, NodeId(3), ToService::CaughtUp { region, view });
    let batch = registry.batch(NOW);
    check(&registry);
    let now = registry.regions.get(REGION).unwrap().view;
    assert!(now.0 > here.0 + 7 + 4000, "{now} after {here}");
    for node in [2, 3] {
        let told = updates(&batch, node).iter();
        let whole = |update: &&Update| matches!(update, Update::View(step) if step.base == ViewNumber(0) && step.view == now);
        assert_eq!(told.filter(whole).count(), 1);
    }
    let unreported = AwayReason::Unreported;
    assert_eq!(away(&registry, REGION), [(2, unreported), (3, unreported)]);
    let view = now;
    registry.request(NOW, NodeId(3), ToService::CaughtUp { region, view });
    registry.batch(NOW);
    assert_eq!(away(&registry, REGION), [(2, unreported)]);
}

// Rule R-MEM-6.
#[test]
fn reports_of_one_number_and_different_members_are_not_believed_to_be_one_view() {
    let hellos = [(0, region_of(0..3)), (1, region_of(1..4))];
    let hellos = hellos.map(|(node, region)| (NodeId(node), member_hello(node, &region)));
    let mut registry = registry(43);
    rebuild(&mut registry, hellos.into());
    let batch = registry.batch(NOW);
    let base = |node| {
        let told = updates(&batch, node).iter();
        let base = |update: &Update| match update {
            Update::View(step) if step.region == REGION => Some(step.base),
            _ => None,
        };
        told.filter_map(base).collect::<Vec<_>>()
    };
    assert_eq!(base(0), [VIEW]);
    assert_eq!(base(1), [ViewNumber(0)]);
    check(&registry);
}

// Rule R-MEM-6.
#[test]
fn a_node_that_this_service_knows_goes_on_after_it_was_with_another_one() {
    let (mut registry, _) = opened(0..4);
    let (node, reason) = (NodeId(2), AwayReason::Silent);
    make_common(&mut registry, 8);
    registry.batch(NOW);
    registry.apply(NOW, Command::SetAway { node, reason });
    enter(&mut registry, 2, [8]);
    registry.batch(NOW);
    let home = registry.nodes[&node].home.unwrap();
    assert_ne!(home, REGION);
    // The other service has let it into group 7, and not heard of group 8.
    let mut back = member_hello(2, &region_of(0..4));
    back.term = registry.term() + 1;
    back.groups.push(subscribed(70, "g70"));
    let updates = greet(&mut registry, 2, back);
    assert!(goes_on(&updates, 2));
    settle(&mut registry);
    // As long as it is away it is beside the others, since it was leaving their region.
    assert_ne!(registry.nodes[&node].home, Some(REGION));
    let member_of: Vec<RegionId> = registry.nodes[&node].member_of().collect();
    for region in member_of {
        let view = registry.regions.get(region).unwrap().view;
        registry.request(NOW, node, ToService::CaughtUp { region, view });
    }
    settle(&mut registry);
    let nodes = |name: &str| classes(&registry)[&BTreeSet::from([name.to_owned()])].clone();
    assert_eq!(nodes("g3"), (0..4).collect());
    assert_eq!(nodes("g70"), [2].into());
    assert_eq!(nodes("g8"), [108].into());
    assert_eq!(registry.stats.resumed, 1);
}

/// Node 2 is a member of another region as well.
fn also_in(hello: &mut Hello, region: RegionId) {
    let channel = qsm_wire::ChannelId(region.0 + 1);
    let report = RegionReport {
        region,
        channel,
        ..region_of([2])
    };
    hello.regions.push(report);
}

// Rule R-MEM-6.
#[test]
fn a_report_that_contradicts_begins_a_new_life() {
    let late = |change: fn(&mut Hello, &Registry)| {
        let (mut registry, _) = opened([0, 1]);
        admit(&mut registry, 20);
        enter(&mut registry, 20, [20]);
        registry.batch(NOW);
        let mut late = member_hello(2, &region_of(0..4));
        change(&mut late, &registry);
        let updates = greet(&mut registry, 2, late);
        settle(&mut registry);
        (goes_on(&updates, 2), begins_anew(&updates, 2))
    };
    let (on, anew) = ((true, false), (false, true));
    assert_eq!(late(|_, _| {}), on);
    // Its number is another group's here, or its name has another number.
    assert_eq!(late(|hello, _| hello.groups[0].name = "z".to_owned()), anew);
    assert_eq!(
        late(|hello, _| hello.groups[0].group = Some(GroupId(8))),
        anew
    );
    // This service has made another region of that number; one that it has not heard of is fine.
    assert_eq!(
        late(|hello, registry| {
            let home = registry.nodes[&NodeId(20)].home.unwrap();
            also_in(hello, home);
        }),
        anew
    );
    assert_eq!(late(|hello, _| also_in(hello, RegionId(99))), on);
    // It has been told that a node is dead that lives here.
    assert_eq!(late(|hello, _| hello.dead = vec![origin(0)]), anew);
    assert_eq!(late(|hello, _| hello.dead = vec![origin(7)]), on);
    // Another life, or none before.
    assert_eq!(late(|hello, _| hello.incarnation = Incarnation(9)), anew);
    assert_eq!(late(|hello, _| hello.term = 0), anew);
}

// Rules R-MEM-1, R-MEM-6.
#[test]
fn who_is_away_here_and_dead_elsewhere_is_dead() {
    let (mut registry, _) = opened(0..3);
    let (node, reason) = (NodeId(1), AwayReason::Silent);
    registry.apply(NOW, Command::SetAway { node, reason });
    let mut back = member_hello(0, &region_of(0..4));
    back.dead = vec![origin(1), origin(3)];
    back.term = registry.term() + 1;
    let updates = greet(&mut registry, 0, back);
    assert!(goes_on(&updates, 0));
    let elsewhere = EndCause::Elsewhere;
    assert_eq!(
        updates.ended,
        [(origin(1), elsewhere), (origin(3), elsewhere)]
    );
    registry.batch(NOW);
    assert_eq!(registry.region_rows()[0].members.len(), 2);
    check(&registry);
    // One that comes now, and that node 2 did not know to be over, is another one.
    let updates = greet(&mut registry, 1, member_hello(1, &region_of(0..4)));
    assert!(begins_anew(&updates, 1));
}

// Rules R-MEM-1, R-MEM-6.
#[test]
fn a_sender_that_has_not_reported_keeps_its_life_if_it_comes_in_time() {
    let receives = |senders: &[u64]| {
        let mut hello = member_hello(0, &region_of([0]));
        hello.senders = senders.iter().copied().map(origin).collect();
        hello
    };
    let publisher = || Hello {
        address: place(7),
        groups: vec![GroupReport {
            role: Role::Publisher,
            ..subscribed(3, "g3")
        }],
        regions: vec![region_of([0])],
        published: true,
        ..hello()
    };
    let mut registry = registry(44);
    rebuild(&mut registry, [(NodeId(0), receives(&[7, 8]))].into());
    registry.term = 2;
    assert_eq!(dead(&registry.batch(NOW), 0), []);
    let updates = greet(&mut registry, 7, publisher());
    assert!(goes_on(&updates, 7));
    let batch = registry.batch(NOW);
    check(&registry);
    let told = super::updates(&batch, 7);
    assert!(told.iter().any(
        |update| matches!(update, Update::Region { region, groups, .. }
        if *region == REGION && *groups == [GroupId(3)])
    ));
    assert_eq!(
        registry.next_timeout(),
        Some(NOW.after(registry.gone_after))
    );
    forget_missing(&mut registry);
    let batch = registry.batch(NOW);
    assert_eq!(dead(&batch, 0), [origin(8)]);
    assert_eq!(registry.next_timeout(), None);
    // A node of another service names one that is late, and one that is known to be dead.
    registry.end(NodeId(7));
    registry.batch(NOW);
    let mut again = receives(&[7, 9]);
    again.term = 5;
    assert!(goes_on(&greet(&mut registry, 0, again), 0));
    assert_eq!(dead(&registry.batch(NOW), 0), [origin(7)]);
    let late = Origin {
        node: NodeId(9),
        ..origin(9)
    };
    assert!(registry.late.contains(late));
}

// Rules R-MEM-1, R-MEM-6.
#[test]
fn a_life_that_nobody_speaks_of_goes_on_unless_it_is_over() {
    let stranger = |incarnation: u32| {
        let mut stranger = member_hello(8, &region_of([8]));
        (stranger.regions, stranger.groups) = (Vec::new(), Vec::new());
        stranger.incarnation = Incarnation(incarnation);
        stranger
    };
    let life = |incarnation| Origin {
        node: NodeId(8),
        incarnation: Incarnation(incarnation),
    };
    let lives = |registry: &mut Registry, incarnation| {
        greet(registry, 8, stranger(incarnation)).welcomed == [life(incarnation)]
    };
    assert!(lives(&mut opened([0, 1]).0, 5));
    // Somebody who has reported knew its end, or somebody who came later.
    let mut knows = member_hello(0, &region_of([0]));
    knows.dead = vec![life(5)];
    let hellos = [(NodeId(0), knows.clone())].into();
    let mut registry = registry(46);
    registry.apply(NOW, Command::Open { hellos, era: 3 });
    assert!(!lives(&mut registry, 5));
    let (mut registry, _) = opened([1, 2]);
    greet(&mut registry, 0, knows);
    assert!(!lives(&mut registry, 4), "older than one that is over");
    // It has been waited for, and was too late; another life of it is no excuse.
    let (mut registry, _) = opened([0, 1]);
    let mut receives = member_hello(2, &region_of(0..4));
    receives.senders = vec![life(5)];
    greet(&mut registry, 2, receives);
    let mut late = registry.clone();
    late.expire_senders(NOW.after(late.gone_after));
    assert!(!lives(&mut late, 5));
    assert!(!lives(&mut registry.clone(), 4));
    assert!(lives(&mut registry.clone(), 5));
    assert!(lives(&mut registry, 6));
    assert_eq!(dead(&registry.batch(NOW), 2), [life(5)]);
    check(&registry);
}

// Rule R-MEM-6.
#[test]
fn a_region_of_which_no_member_has_reported_waits_as_its_senders_know_it() {
    let groups = [subscribed(3, "g3"), subscribed(4, "g4")];
    let region = RegionReport {
        groups: vec![GroupId(3)],
        ..region_of(0..2)
    };
    let publisher = Hello {
        address: place(9),
        groups: vec![GroupReport {
            role: Role::Publisher,
            ..groups[0].clone()
        }],
        regions: vec![region],
        region_last: REGION,
        channel_last: qsm_wire::ChannelId(6),
        published: true,
        ..hello()
    };
    let mut registry = registry(45);
    let hellos = [(NodeId(9), publisher)].into();
    registry.apply(NOW, Command::Open { hellos, era: 3 });
    let batch = registry.batch(NOW);
    check(&registry);
    let list = |batch: &Batch| {
        let told = updates(batch, 9).iter();
        let list = |update: &Update| match update {
            Update::Region { region, groups, .. } => Some((*region, groups.clone())),
            _ => None,
        };
        told.filter_map(list).collect::<Vec<_>>()
    };
    assert_eq!(list(&batch), [(REGION, vec![GroupId(3)])]);
    assert_eq!(away(&registry, REGION).len(), 2);
    // Who takes up that one group is of another region: its groups may not be all.
    admit(&mut registry, 20);
    enter(&mut registry, 20, [3]);
    registry.batch(NOW);
    check(&registry);
    assert_ne!(registry.nodes[&NodeId(20)].home, Some(REGION));
    // The first member says which groups it has.
    let mut late = member_hello(0, &region_of(0..2));
    late.groups = groups.to_vec();
    assert!(goes_on(&greet(&mut registry, 0, late), 0));
    registry.batch(NOW);
    check(&registry);
    let region = registry.regions.get(REGION).unwrap();
    assert_eq!(*region.groups, [GroupId(3), GroupId(4)]);
    assert_eq!((region.members.len(), region.active), (2, 2));
    assert_eq!(registry.nodes[&NodeId(1)].groups, region.groups);
    forget_missing(&mut registry);
    settle(&mut registry);
    assert_eq!(classes(&registry).len(), 2);
}

// Rule R-MEM-6.
#[test]
fn a_region_that_only_a_late_node_reports_is_taken_up_with_it() {
    let (mut registry, _) = opened([0, 1]);
    let mut late = member_hello(2, &region_of(0..4));
    let (region, channel) = (RegionId(4), qsm_wire::ChannelId(4));
    let own = RegionReport {
        region,
        channel,
        ..region_of([2, 7])
    };
    // It has moved there, and those who have reported have not heard of it.
    late.regions = vec![own];
    late.groups = vec![subscribed(8, "g8")];
    assert!(goes_on(&greet(&mut registry, 2, late), 2));
    let batch = registry.batch(NOW);
    check(&registry);
    assert_eq!(registry.nodes[&NodeId(2)].home, Some(region));
    assert_eq!(away(&registry, region), [(7, AwayReason::Unreported)]);
    // Where it was before it is not any more, by its own word.
    let members = registry.regions.get(REGION).unwrap().members.iter();
    let members: Vec<u64> = members.map(|member| member.origin.node.0).collect();
    assert_eq!(members, [0, 1, 3]);
    assert_eq!(dead(&batch, 0), []);
    // A region that has been taken up and closed does not come again.
    registry.end(NodeId(2));
    registry.end(NodeId(7));
    registry.batch(NOW);
    assert!(registry.regions.get(region).is_none());
    assert!(!registry.regions.may_adopt(region));
}

// Rule R-MEM-6.
#[test]
fn a_region_that_only_a_late_publisher_reports_is_taken_up_while_somebody_is_waited_for_there() {
    let report = |members: [u64; 2]| {
        let (mut registry, _) = opened([0, 1]);
        let region = RegionReport {
            region: RegionId(4),
            channel: qsm_wire::ChannelId(4),
            groups: vec![GroupId(8)],
            ..region_of(members)
        };
        let mut late = member_hello(2, &region_of(0..4));
        late.groups.push(GroupReport {
            role: Role::Publisher,
            ..subscribed(8, "g8")
        });
        late.regions.push(region);
        let updates = greet(&mut registry, 2, late);
        assert!(goes_on(&updates, 2));
        let batch = registry.batch(NOW);
        check(&registry);
        let told = super::updates(&batch, 2).to_vec();
        (registry, updates.away, told)
    };
    let region = RegionId(4);
    let publishes = |update: &Update| matches!(update, Update::Region { region, groups, .. } if *region == RegionId(4) && *groups == [GroupId(8)]);
    // Of one that has reported it is known that it is a member elsewhere.
    let (registry, expected, told) = report([0, 7]);
    assert_eq!(expected, [(origin(7), AwayReason::Unreported)]);
    assert_eq!(away(&registry, region), [(7, AwayReason::Unreported)]);
    assert!(told.iter().any(publishes), "{told:?}");
    let (registry, expected, told) = report([0, 1]);
    assert_eq!(expected, []);
    assert!(registry.regions.get(region).is_none());
    assert!(!told.iter().any(publishes), "{told:?}");
}

// Rules R-MEM-6, R-VIEW-17.
#[test]
fn who_has_not_reported_is_where_only_publishers_name_it_too_with_no_group_in_two() {
    let beside = RegionReport {
        region: RegionId(7),
        channel: qsm_wire::ChannelId(8),
        ..region_of([1])
    };
    let publisher = |node: u64, group: u32| {
        let role = Role::Publisher;
        let reported = subscribed(group, &format!("g{group}"));
        let region = RegionReport {
            groups: vec![GroupId(group)],
            ..beside.clone()
        };
        Hello {
            groups: vec![GroupReport { role, ..reported }],
            published: true,
            region_last: RegionId(7),
            channel_last: qsm_wire::ChannelId(8),
            ..member_hello(node, &region)
        }
    };
    let member = member_hello(0, &region_of([0, 1]));
    let hellos = [(NodeId(0), member), (NodeId(9), publisher(9, 4))].into();
    let mut registry = registry(46);
    registry.apply(NOW, Command::Open { hellos, era: 3 });
    let batch = registry.batch(NOW);
    check(&registry);
    let missing = &registry.nodes[&NodeId(1)];
    assert_eq!(*missing.groups, [GroupId(3), GroupId(4)]);
    assert_eq!(away(&registry, RegionId(7)), [(1, AwayReason::Unreported)]);
    let told = updates(&batch, 9).iter();
    let mut lists = told.filter_map(|update| match update {
        Update::Region { region, groups, .. } => Some((*region, groups.clone())),
        _ => None,
    });
    assert_eq!(lists.next(), Some((RegionId(7), vec![GroupId(4)])));

    // It has had group 3 there, and has it elsewhere as others know.
    assert!(goes_on(&greet(&mut registry, 8, publisher(8, 3)), 8));
    registry.batch(NOW);
    check(&registry);
    let missing = &registry.nodes[&NodeId(1)];
    assert_eq!(*missing.groups, [GroupId(3)]);
    assert!(missing.is_leaving(RegionId(7)) && missing.home == Some(REGION));
    forget_missing(&mut registry);
    settle(&mut registry);
    assert_eq!(classes(&registry).len(), 1);
}
