//! Nodes that a former service has moved to where nobody knows.

use qsm_wire::membership::AwayReason;

use super::reports::{forget_missing, hello};
use super::*;
use crate::registry::command::Command;

const REGION: RegionId = RegionId(5);
/// The view in which nodes 0 and 3 are leaving, which they have not heard of.
const VIEW: ViewNumber = ViewNumber(10);

fn report(view: ViewNumber, left: Option<ViewNumber>) -> RegionReport {
    let members = [(0, left), (1, None), (2, None), (3, left)];
    let members = members.map(|(node, left)| Member {
        origin: origin(node),
        address: SocketAddr::from(([10, 0, 0, u8::try_from(node).unwrap()], 1)),
        joined: ViewNumber(2),
        left,
        away: None,
    });
    RegionReport {
        region: REGION,
        view,
        channel: qsm_wire::ChannelId(6),
        address: SocketAddr::from(([239, 192, 1, 1], 4484)),
        members: members.to_vec(),
        groups: Vec::new(),
        merged: false,
    }
}

fn hello_of(node: u64, report: RegionReport) -> Hello {
    let address = report.members[usize::try_from(node).unwrap()].address;
    let group = GroupReport {
        group: Some(GroupId(3)),
        name: "g3".to_owned(),
        role: Role::Subscriber,
    };
    Hello {
        name: format!("n{node}"),
        address,
        groups: vec![group],
        regions: vec![report],
        region_last: REGION,
        channel_last: qsm_wire::ChannelId(6),
        ..hello()
    }
}

/// Node 0 or 3, by its own word.
fn ignorant(node: u64) -> (NodeId, Hello) {
    (NodeId(node), hello_of(node, report(ViewNumber(9), None)))
}

/// A service to which nodes 1 and 2 have reported that nodes 0 and 3 are leaving, and these too.
fn opened(others: impl IntoIterator<Item = (NodeId, Hello)>) -> Registry {
    let known = |node| (NodeId(node), hello_of(node, report(VIEW, Some(VIEW))));
    let hellos = others.into_iter().chain([known(1), known(2)]).collect();
    let mut registry = registry(40);
    registry.apply(NOW, Command::Open { hellos, era: 3 });
    registry.batch(NOW);
    check(&registry);
    registry
}

/// The region that nodes 0 and 3 are in instead of that one, of the same groups.
fn shelter(registry: &Registry) -> RegionId {
    let [node, other] = [0, 3].map(|node| &registry.nodes[&NodeId(node)]);
    assert!(node.is_leaving(REGION) && other.is_leaving(REGION));
    assert_eq!(node.home, other.home);
    let shelter = node.home.unwrap();
    assert_ne!(shelter, REGION);
    let groups = |region| &registry.regions.get(region).unwrap().groups;
    assert_eq!(groups(shelter), groups(REGION));
    shelter
}

// Rule R-MEM-6.
#[test]
fn a_node_that_is_leaving_for_where_nobody_knows_is_elsewhere_until_it_may_come_back() {
    let mut registry = opened([0, 3].map(ignorant));
    let shelter = shelter(&registry);
    assert!(!registry.has_changes(), "it is out of the region first");

    for node in [0, 3] {
        registry.drained(NodeId(node), REGION, VIEW);
    }
    settle(&mut registry);
    for node in [0, 3] {
        assert_eq!(registry.nodes[&NodeId(node)].home, Some(REGION));
    }
    assert!(registry.regions.get(shelter).is_none());
}

// Rule R-MEM-6.
#[test]
fn a_node_that_has_not_reported_is_elsewhere_too_and_stays_there_when_it_does() {
    let mut registry = opened([]);
    let unheard = shelter(&registry);
    let members = &registry.regions.get(unheard).unwrap().members;
    assert!(
        members
            .iter()
            .all(|member| member.away == Some(AwayReason::Unreported))
    );

    let (node, hello) = ignorant(0);
    let updates = registry.apply(NOW, Command::Greet { node, hello });
    assert_eq!(updates.welcomed, [origin(0)]);
    registry.batch(NOW);
    check(&registry);
    assert_eq!(shelter(&registry), unheard);
}

// Rule R-MEM-6.
#[test]
fn a_departure_is_settled_although_nobody_has_to_be_told_anything_more() {
    let mut registry = opened([0, 3].map(ignorant));
    let batch = registry.batch;
    (0..4).for_each(|node| registry.confirm(NodeId(node), batch));
    let early = registry.batch(NOW);
    assert_eq!(updates(&early, 0), [], "others may report yet");

    let over = NOW.after(registry.gone_after);
    registry.expire_unsettled(over);
    let batch = registry.batch(over);
    assert!(batch.updates.is_empty());
    let all: BTreeSet<NodeId> = (0..4).map(NodeId).collect();
    assert_eq!(batch.awaited, all);
    for node in all {
        registry.confirm(node, batch.number);
    }
    let batch = registry.batch(over);
    let settled = |update: &Update| matches!(update, Update::Settled { view: VIEW, .. });
    assert!(updates(&batch, 0).iter().any(settled));
}

/// All that nodes 0 to 3 have been told has arrived there.
fn confirm_all(registry: &mut Registry) {
    let batch = registry.batch;
    (0..4).for_each(|node| registry.confirm(NodeId(node), batch));
}

// Rule R-MEM-6.
#[test]
fn a_departure_is_not_settled_while_somebody_is_waited_for_who_has_not_reported() {
    let mut registry = opened([ignorant(0)]);
    confirm_all(&mut registry);
    registry.batch(NOW);
    let over = NOW.after(registry.gone_after);
    registry.expire_unsettled(over);
    assert!(!registry.has_changes());
    let next = registry.unsettled.next_timeout();
    assert!(next.is_some_and(|next| next > over));

    forget_missing(&mut registry);
    registry.batch(over);
    let later = next.unwrap();
    registry.expire_unsettled(later);
    assert!(registry.has_changes());
    assert_eq!(registry.unsettled.next_timeout(), None);
}

/// Node 9, which publishes to the region, and has not reported to this service.
fn unknown_publisher() -> Command {
    let mut hello = hello_of(1, report(ViewNumber(9), None));
    hello.groups[0].role = Role::Publisher;
    hello.published = true;
    hello.incarnation = Incarnation(1);
    hello.address = SocketAddr::from(([10, 0, 0, 9], 1));
    let node = NodeId(9);
    Command::Greet { node, hello }
}

// Rule R-MEM-6.
#[test]
fn who_may_have_sent_to_members_that_have_left_begins_a_new_life() {
    let mut registry = opened([0, 3].map(ignorant));
    let mut early = registry.clone();
    let updates = early.apply(NOW, unknown_publisher());
    assert!(updates.admitted.is_empty(), "members wait for it");
    assert_eq!(updates.welcomed, [origin(9)]);

    confirm_all(&mut registry);
    registry.batch(NOW);
    let over = NOW.after(registry.gone_after);
    registry.expire_unsettled(over);
    registry.batch(over);
    confirm_all(&mut registry);
    registry.batch(over);
    let updates = registry.apply(over, unknown_publisher());
    assert_eq!(updates.admitted.len(), 1);
    let batch = registry.batch(over);
    let dead = Update::Dead { origin: origin(9) };
    assert!((0..4).all(|node| super::updates(&batch, node).contains(&dead)));
}
