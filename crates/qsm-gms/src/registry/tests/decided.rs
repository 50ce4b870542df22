//! Accounts of groups (R-MEM-18), held against layouts that can be reckoned by hand.

use qsm_plan::Costs;
use qsm_wire::membership::{GroupDecision, GroupWay, RegionKind};

use super::*;
use crate::plan::Zone;
use crate::registry::{Advice, CommonSet, PlanKnowledge};

fn decision(registry: &Registry, name: &str) -> GroupDecision {
    let knowledge = PlanKnowledge {
        limits: None,
        told: &|group| (group == GroupId(0)).then_some(7000),
        prior: 1000,
        costs: Costs::default(),
    };
    registry.decision(name, &knowledge).unwrap()
}

/// Kind, members, receivers, groups, and unwanted deliveries of each region.
fn regions(decision: &GroupDecision) -> Vec<(RegionKind, u32, u32, u32, u32)> {
    let regions = decision.regions.iter();
    let rows = regions.map(|region| {
        let (members, receivers) = (region.members, region.receivers);
        let (groups, unwanted) = (region.groups, region.unwanted_ppm);
        (region.kind, members, receivers, groups, unwanted)
    });
    rows.collect()
}

fn enter_all(registry: &mut Registry, wants: &[(u64, &[u64])]) {
    for (node, groups) in wants {
        admit(registry, *node);
        enter(registry, *node, groups.iter().copied());
    }
    settle(registry);
}

// Rules R-MEM-18, R-VIEW-18.
#[test]
fn hints_are_named_and_what_they_forbid_is_no_other_way() {
    let hints = "together: n1 n2\ndomain red: n3\n";
    let mut registry = hinted_registry(1, hints);
    let wants: [(u64, &[u64]); 6] = [
        (1, &[1, 2]),
        (2, &[1, 3]),
        (3, &[1]),
        (4, &[1]),
        (5, &[1, 7]),
        (6, &[2]),
    ];
    enter_all(&mut registry, &wants);
    let one = decision(&registry, "g1");
    assert_eq!(
        (one.receivers, one.packets, one.pin.as_deref()),
        (5, 3, None)
    );
    let (exact, merged) = (RegionKind::Exact, RegionKind::Merged);
    // Of the two that are together one does not want the second group.
    let mut told = regions(&one);
    told.sort_by_key(|(kind, members, ..)| (*kind == merged, *members));
    let expected = [
        (exact, 1, 1, 1, 0),
        (exact, 2, 2, 1, 0),
        (merged, 2, 2, 2, 250_000),
    ];
    assert_eq!(told, expected);
    for region in &one.regions {
        assert_eq!(region.hints.together, region.kind == merged);
        let red = region.members == 1;
        assert_eq!(region.hints.domain.as_deref(), red.then_some("red"));
        assert_eq!(region.hints.compartment > 0, red);
    }
    // Each is in a zone, or bound, by itself: there is nothing to join.
    assert!(
        matches!(
            one.ways[..],
            [
                GroupWay::Exact { packets: 3, .. },
                GroupWay::Copies { packets: 5, .. }
            ]
        ),
        "{:?}",
        one.ways
    );
    let alone = decision(&registry, "g7");
    assert_eq!(regions(&alone), [(RegionKind::Private, 1, 1, 1, 0)]);
    assert!(matches!(
        alone.ways[..],
        [GroupWay::Copies { packets: 1, .. }]
    ));
}

// Rules R-MEM-18, R-VIEW-18.
#[test]
fn a_pinned_group_has_the_channels_name_and_divides_no_other() {
    let mut registry = hinted_registry(4, "pin fast: g9\n");
    enter_all(&mut registry, &[(1, &[1, 9]), (2, &[1, 9]), (3, &[1])]);
    let pinned = decision(&registry, "g9");
    assert_eq!((pinned.pin.as_deref(), pinned.packets), (Some("fast"), 1));
    assert_eq!(regions(&pinned), [(RegionKind::Common, 2, 2, 1, 0)]);
    assert!(matches!(
        pinned.ways[..],
        [GroupWay::Copies { packets: 2, .. }]
    ));
    let other = decision(&registry, "g1");
    assert_eq!((other.pin, other.packets), (None, 1));
    assert!(matches!(other.ways[0], GroupWay::Exact { packets: 1, .. }));
}

// Rules R-MEM-18, R-VIEW-17.
#[test]
fn a_common_region_is_told_with_what_it_saves_and_what_would_be_without_it() {
    let mut registry = registry(2);
    // Group 1 has number 0, by which it has a rate.
    let wants: [(u64, &[u64]); 4] = [(1, &[1, 2]), (2, &[1, 3]), (3, &[1, 2]), (4, &[1, 3, 8])];
    enter_all(&mut registry, &wants);
    let before = decision(&registry, "g1");
    assert_eq!(
        (before.group, before.packets, before.rate),
        (GroupId(0), 2, Some(7000))
    );
    let near: Vec<_> = before.regions.iter().map(|region| region.nearest).collect();
    for (region, near) in [(1, near[0]), (0, near[1])] {
        let near = near.unwrap();
        // Four nodes with three groups, of which each has two.
        assert_eq!(near.region, before.regions[region].region);
        assert_eq!(near.unwanted_ppm, 333_333);
    }
    let groups = vec![GroupId(0)];
    let zone = Zone::default();
    let advice = Advice {
        commons: vec![CommonSet { zone, groups }],
        ..Advice::default()
    };
    registry.apply(NOW, Command::Advise(advice));
    settle(&mut registry);
    let after = decision(&registry, "g1");
    assert_eq!(regions(&after), [(RegionKind::Common, 4, 4, 1, 0)]);
    assert_eq!(
        (after.packets, after.cost_ns, after.regions[0].nearest),
        (1, 5000, None)
    );
    // Before and after: seven packets a second less, and a token of each of four in ten seconds.
    let (cost_ns, unwanted_ppm) = (5000, 333_333);
    let expected = [
        GroupWay::Exact {
            packets: 2,
            cost_ns: 10_000,
        },
        GroupWay::Copies {
            packets: 4,
            cost_ns: 24_000,
        },
        GroupWay::Common {
            packets: 1,
            cost_ns,
            groups: 1,
            saved: 7000,
            spent: 400,
        },
        GroupWay::Merged {
            packets: 1,
            cost_ns,
            unwanted_ppm,
        },
    ];
    assert_eq!(
        (&before.ways[..], &after.ways[..]),
        (&expected[..], &expected[..])
    );
}

#[test]
fn an_account_of_what_would_take_too_long_leaves_out_comparisons() {
    let mut registry = registry(3);
    // Two regions with more groups than are looked at.
    let many = 1..=60_000;
    admit(&mut registry, 1);
    admit(&mut registry, 2);
    enter(&mut registry, 1, many.clone());
    enter(&mut registry, 2, many.chain([70_000]));
    make_common(&mut registry, 70_000);
    settle(&mut registry);
    let account = decision(&registry, "g5");
    assert_eq!((account.receivers, account.packets), (2, 2));
    assert_eq!(account.regions.len(), 2);
    assert!(matches!(
        account.ways[1],
        GroupWay::Copies { packets: 2, .. }
    ));
    assert!(
        !account
            .ways
            .iter()
            .any(|way| matches!(way, GroupWay::Merged { .. }))
    );
}
