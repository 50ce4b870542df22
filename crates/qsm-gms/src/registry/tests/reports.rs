use qsm_wire::membership::ToldLimit;

use super::*;
use crate::registry::command::Updates;
use crate::registry::unreported::FormerLives;

/// A node in its first life that knows nothing.
pub(in super::super) fn hello() -> Hello {
    Hello {
        name: String::new(),
        address: SocketAddr::from(([10, 0, 0, 1], 1)),
        second: None,
        incarnation: Incarnation(1),
        term: 1,
        groups: Vec::new(),
        regions: Vec::new(),
        region_last: RegionId(0),
        channel_last: qsm_wire::ChannelId(0),
        group_end: GroupId(0),
        incarnation_last: Incarnation(1),
        dead: Vec::new(),
        senders: Vec::new(),
        published: false,
        repairs: ToldLimit::default(),
    }
}

/// What is said of a region whose only member is node 0.
pub(in super::super) fn region_of_node_0() -> RegionReport {
    let member = Member {
        origin: origin(0),
        address: SocketAddr::from(([10, 0, 0, 1], 1)),
        joined: ViewNumber(2),
        left: None,
        away: None,
    };
    RegionReport {
        region: RegionId(5),
        view: ViewNumber(4),
        channel: qsm_wire::ChannelId(6),
        address: SocketAddr::from(([239, 192, 1, 1], 4484)),
        members: vec![member],
        groups: Vec::new(),
        merged: false,
    }
}

/// A service that begins without memory hears these.
pub(super) fn rebuild(registry: &mut Registry, reports: BTreeMap<NodeId, Hello>) -> Updates {
    let mut updates = Updates::default();
    registry.rebuild(NOW, reports, &FormerLives::default(), &mut updates);
    updates
}

/// Nobody of those that a new service waits for has come in time.
pub(super) fn forget_missing(registry: &mut Registry) {
    registry.expire_senders(NOW.after(registry.gone_after));
    let missing = registry.nodes.values().filter(|node| node.unreported);
    let missing: Vec<NodeId> = missing.map(|node| node.origin.node).collect();
    for node in missing {
        registry.end(node);
    }
}

// Rule R-MEM-6.
#[test]
fn a_role_that_others_know_to_be_granted_is_taken_up_although_its_node_has_not_heard() {
    let mut registry = registry(21);
    let report = |group, role| GroupReport {
        group,
        name: "g".to_owned(),
        role,
    };
    let region = region_of_node_0();
    let member = region.members[0];
    let address = member.address;
    let ignorant = (0, report(None, Role::Subscriber), vec![]);
    let sender = (1, report(Some(GroupId(3)), Role::Publisher), vec![region]);
    let reports = [ignorant, sender].map(|(node, group, regions)| {
        let hello = Hello {
            address,
            groups: vec![group],
            regions,
            senders: vec![origin(1), origin(7)],
            published: node == 1,
            ..hello()
        };
        (NodeId(node), hello)
    });
    rebuild(&mut registry, reports.into());
    let batch = registry.batch(NOW);
    check(&registry);
    assert_eq!(registry.nodes[&NodeId(0)].home, Some(RegionId(5)));
    let told = updates(&batch, 0);
    let name = "g".to_owned();
    let group = GroupId(3);
    assert_eq!(told[0], Update::Named { group, name });
    assert!(told.iter().any(
        |update| matches!(update, Update::View(ViewStep { view, added, .. })
            if *view > ViewNumber(4) && *added == [member])
    ));
    let dead = |update: &&Update| matches!(update, Update::Dead { .. });
    assert_eq!(told.iter().filter(dead).count(), 0, "it may come yet");
    forget_missing(&mut registry);
    let batch = registry.batch(NOW);
    let told = updates(&batch, 0);
    let dead: Vec<&Update> = told.iter().filter(dead).collect();
    let origin = origin(7);
    assert_eq!(
        dead,
        [&Update::Dead { origin }],
        "a sender that is not there"
    );
    // In a new session a node is told of deaths that it may not have heard of.
    registry.resume(NodeId(1), BTreeMap::new(), &[self::origin(0), origin]);
    let batch = registry.batch(NOW);
    assert!(updates(&batch, 1).contains(&Update::Dead { origin }));
    assert!(updates(&batch, 0).is_empty());
}

// Rule R-MEM-6.
#[test]
fn of_nodes_that_two_services_have_numbered_groups_for_the_fewer_begin_new_lives() {
    let said = |group, name: &str| GroupReport {
        group: Some(GroupId(group)),
        name: name.to_owned(),
        role: Role::Subscriber,
    };
    let hellos = [["a", "b"], ["b", "a"], ["b", "a"]].map(|names| {
        let [first, second] = names;
        Hello {
            groups: vec![said(0, first), said(1, second)],
            ..hello()
        }
    });
    let hellos = (0..).map(NodeId).zip(hellos).collect();
    let mut registry = registry(25);
    let mut updates = Updates::default();
    registry.open_term(NOW, hellos, 0, &mut updates);
    settle(&mut registry);
    let admitted = updates.admitted.iter().map(|admission| admission.origin);
    let admitted: Vec<NodeId> = admitted.map(|origin| origin.node).collect();
    assert_eq!(admitted, [NodeId(0)]);
    assert_eq!(registry.origin(NodeId(1)), Some(origin(1)));
    assert_eq!(registry.groups.find("b"), Some(GroupId(0)));
    let names = ["a", "b"].map(str::to_owned);
    assert_eq!(
        classes(&registry),
        [(names.into(), [0, 1, 2].into())].into()
    );
}

// Rule R-MEM-6.
#[test]
fn a_member_that_sleeps_gets_messages_although_all_others_are_leaving() {
    let group = GroupId(3);
    let role = |role| GroupReport {
        group: Some(group),
        name: "g".to_owned(),
        role,
    };
    let staying = region_of_node_0();
    let sleeper = staying.members[0];
    let member = |left| Member {
        origin: origin(1),
        left,
        ..sleeper
    };
    // Either the one that leaves knows it, or only another node does.
    for knows in [true, false] {
        let region = |left: Option<ViewNumber>, groups| RegionReport {
            view: ViewNumber(4 + u32::from(left.is_some())),
            members: vec![sleeper, member(left)],
            groups,
            ..staying.clone()
        };
        let left = Some(ViewNumber(5));
        let leaver = match knows {
            true => region(left, vec![group]),
            false => region(None, vec![]),
        };
        let roles = vec![role(Role::Subscriber), role(Role::Publisher)];
        let reports = [(1, roles, leaver), (2, vec![], region(left, vec![]))];
        let reports = reports.map(|(node, groups, region)| {
            let hello = Hello {
                address: sleeper.address,
                groups,
                regions: vec![region],
                published: true,
                ..hello()
            };
            (NodeId(node), hello)
        });
        let mut registry = registry(23);
        rebuild(&mut registry, reports.into());
        let batch = registry.batch(NOW);
        check(&registry);
        assert_eq!(registry.nodes[&NodeId(0)].home, Some(staying.region));
        let told = updates(&batch, 1);
        let sends = |update: &&Update| {
            matches!(update, Update::Region { region, groups, .. }
                if *region == staying.region && *groups == [group])
        };
        assert!(
            told.iter().any(|update| sends(&update)),
            "{knows}: {told:?}"
        );
    }
}

// Rules R-MEM-6, R-VIEW-10.
#[test]
fn a_former_publisher_is_asked_by_a_service_that_starts_for_what_it_still_has_on_its_way() {
    let told = |published| {
        let mut registry = registry(22);
        let region = region_of_node_0();
        let address = region.members[0].address;
        let subscribed = GroupReport {
            group: Some(GroupId(3)),
            name: "g".to_owned(),
            role: Role::Subscriber,
        };
        let reports = [(0, vec![subscribed]), (1, vec![])].map(|(node, groups)| {
            let hello = Hello {
                address,
                groups,
                regions: vec![region.clone()],
                published: published && node == 1,
                ..hello()
            };
            (NodeId(node), hello)
        });
        rebuild(&mut registry, reports.into());
        let batch = registry.batch(NOW);
        check(&registry);
        updates(&batch, 1).to_vec()
    };
    let region = RegionId(5);
    let asks =
        |update: &Update| matches!(update, Update::Region { groups, .. } if groups.is_empty());
    let views = |update: &Update| matches!(update, Update::View(_));
    let asked = told(true);
    assert!(
        asked.iter().any(asks) && asked.iter().any(views),
        "{asked:?}"
    );
    assert_eq!(told(false), [Update::Closed { region }]);
}

#[test]
fn a_member_that_a_report_names_twice_is_a_member_once() {
    for active_first in [true, false] {
        let mut registry = registry(24);
        let mut region = region_of_node_0();
        let active = region.members[0];
        let left = Some(ViewNumber(3));
        region.members.push(Member { left, ..active });
        if !active_first {
            region.members.reverse();
        }
        let subscribed = GroupReport {
            group: Some(GroupId(3)),
            name: "g".to_owned(),
            role: Role::Subscriber,
        };
        let hello = Hello {
            address: active.address,
            groups: vec![subscribed],
            regions: vec![region],
            ..hello()
        };
        rebuild(&mut registry, [(NodeId(0), hello)].into());
        registry.batch(NOW);
        check(&registry);
        settle(&mut registry);
        let group = BTreeSet::from(["g".to_owned()]);
        assert_eq!(classes(&registry), [(group, [0].into())].into());
        assert_eq!(registry.region_rows()[0].members.len(), 1);
    }
}

#[test]
fn reports_that_contradict_each_other_still_make_one_consistent_membership() {
    use qsm_wire::ChannelId;

    for seed in 0..2000 {
        let mut random = Random::new(Seed(seed), "reports");
        let mut registry = registry(seed);
        let member = |node: u64, leaving: bool| Member {
            origin: origin(node),
            address: SocketAddr::from(([10, 0, 0, 1], 1)),
            joined: ViewNumber(1),
            left: leaving.then_some(ViewNumber(1)),
            away: None,
        };
        let mut reports = BTreeMap::new();
        for node in 0..5 {
            let groups = (0..random.below(4)).map(|_| GroupReport {
                group: u32::try_from(random.below(4))
                    .ok()
                    .map(GroupId)
                    .filter(|id| id.0 < 3),
                name: format!("g{}", random.below(3)),
                role: Role::Subscriber,
            });
            let groups = groups.collect();
            let regions = (0..random.below(3)).map(|_| {
                let region = 1 + u32::try_from(random.below(3)).unwrap();
                let among = (0..7).filter(|_| random.chance_ppm(500_000));
                let among: Vec<u64> = among.collect();
                let members = among
                    .iter()
                    .map(|node| member(*node, random.chance_ppm(300_000)));
                let members = members.collect();
                RegionReport {
                    region: RegionId(region),
                    view: ViewNumber(1 + u32::try_from(random.below(3)).unwrap()),
                    channel: ChannelId(region),
                    address: SocketAddr::from(([239, 192, 1, 1], 4484)),
                    members,
                    groups: (0..random.below(3)).map(|_| GroupId(1)).collect(),
                    merged: random.below(4) == 0,
                }
            });
            let regions = regions.collect();
            let hello = Hello {
                groups,
                regions,
                published: random.below(2) == 0,
                ..hello()
            };
            reports.insert(NodeId(node), hello);
        }
        rebuild(&mut registry, reports);
        settle(&mut registry);
        classes(&registry);
        // Nobody of those who were waited for has come.
        forget_missing(&mut registry);
        settle(&mut registry);
        classes(&registry);
        assert_eq!(registry.late.next_timeout(), None);
        assert!(registry.nodes.values().all(|node| !node.unreported));
    }
}
