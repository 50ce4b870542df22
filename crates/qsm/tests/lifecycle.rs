//! Joining, leaving, ending, and a membership service that comes and goes.

mod common;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use common::{PATIENCE, Site, admitted, expect_numbers, next, pattern, wait_for};
use qsm::{CloseReason, Embedded, Event, RecvError, RequestError, SendError};

#[test]
fn shutdown_delivers_what_was_accepted() {
    let site = Site::new();
    let receiving = site.first("a");
    let publishing = site.node("b");
    let subscription = receiving.subscribe(["x"]).unwrap();
    let publisher = publishing.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=20_000 {
        publisher.send(&pattern(number, 100)).unwrap();
    }
    publishing.shutdown(PATIENCE).unwrap();
    expect_numbers(&subscription, 1..=20_000, |number| pattern(number, 100));
    assert_eq!(
        publisher.send(b"late"),
        Err(SendError::Closed(CloseReason::ShutDown))
    );
    let nodes = receiving.list_nodes().unwrap();
    assert_eq!(nodes.len(), 1, "the other has said goodbye: {nodes:?}");
}

#[test]
fn flush_returns_when_all_receivers_have_everything() {
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let _subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for round in 1..=20 {
        for _ in 0..100 {
            publisher.send(&[0; 2000]).unwrap();
        }
        a.flush(PATIENCE).unwrap();
        assert_eq!(b.stats().unwrap().protocol.messages_delivered, round * 100);
    }
}

#[test]
fn after_the_end_all_handles_say_why() {
    let node = Site::new().first("a");
    let events = node.events();
    let subscription = node.subscribe(["x"]).unwrap();
    let publisher = node.publisher("x").unwrap();
    publisher.send(b"last").unwrap();
    node.shutdown(PATIENCE).unwrap();
    node.shutdown(PATIENCE).unwrap();
    let closed = RequestError::Closed(CloseReason::ShutDown);
    assert_eq!(next(&subscription).bytes(), b"last");
    assert_eq!(
        subscription.recv(),
        Err(RecvError::Closed(CloseReason::ShutDown))
    );
    assert_eq!(
        publisher.try_send(b""),
        Err(SendError::Closed(CloseReason::ShutDown))
    );
    assert_eq!(node.subscribe(["y"]).map(|_| ()), Err(closed.clone()));
    assert_eq!(node.flush(PATIENCE), Err(closed));
    assert_eq!(node.closed(), Some(CloseReason::ShutDown));
    assert_eq!(node.stats().unwrap().protocol.messages_published, 1);
    let reason = CloseReason::ShutDown;
    assert_eq!(events.last(), Some(Event::Closed { reason }));
    assert_eq!(node.events().count(), 0);
}

#[test]
fn dropping_the_last_handle_ends_the_node() {
    let node = Site::new().first("a");
    let subscription = node.subscribe(["x"]).unwrap();
    let other = node.clone();
    drop(node);
    other.publisher("x").unwrap().send(b"1").unwrap();
    assert_eq!(next(&subscription).bytes(), b"1");
    drop(other);
    assert_eq!(
        subscription.recv(),
        Err(RecvError::Closed(CloseReason::ShutDown))
    );
}

#[test]
fn groups_left_are_no_longer_received() {
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let subscription = b.subscribe(["x", "y"]).unwrap();
    let only = b.subscribe(["x"]).unwrap();
    let publishers = a.groups(["x", "y"]).publishers().unwrap();
    publishers[0].wait_for_members(1, PATIENCE).unwrap();
    b.leave(["x", "never entered"]).unwrap();
    publishers[0].send(b"unheard").unwrap();
    publishers[1].send(b"heard").unwrap();
    a.flush(PATIENCE).unwrap();
    assert_eq!(next(&subscription).group(), "y");
    drop(subscription);
    drop(only);
    // The membership service hears of it; nobody is left in any group.
    while b.list_groups().unwrap().iter().any(|row| row.members > 0) {}
    let again = b.subscribe(["x"]).unwrap();
    publishers[0].wait_for_members(1, PATIENCE).unwrap();
    publishers[0].send(b"again").unwrap();
    assert_eq!(next(&again).bytes(), b"again");
}

#[test]
fn a_late_member_gets_what_follows_in_order() {
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let early = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=500 {
        publisher.send(&pattern(number, 200)).unwrap();
    }
    let c = site.node("c");
    let late = c.subscribe(["x"]).unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    for number in 501..=1000 {
        publisher.send(&pattern(number, 200)).unwrap();
    }
    expect_numbers(&early, 1..=1000, |number| pattern(number, 200));
    let first = next(&late).number();
    assert!(
        first <= 501,
        "message 501 was sent after the member was known"
    );
    expect_numbers(&late, first + 1..=1000, |number| pattern(number, 200));
}

#[test]
fn nodes_that_find_no_service_start_one_and_agree() {
    let site = Site::new();
    let build = |name| site.builder(name).embedded_service(Embedded::IfNoneFound);
    let nodes = ["a", "b"].map(|name| build(name).start().unwrap());
    let subscription = nodes[0].subscribe(["x"]).unwrap();
    let publisher = nodes[1].publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"found").unwrap();
    assert_eq!(next(&subscription).bytes(), b"found");
}

#[test]
fn messages_flow_while_the_service_is_away_and_a_new_one_takes_over() {
    let site = Site::new();
    let service = site.service().start().unwrap();
    let address = service.address();
    let build = |name| admitted(site.builder(name).service(address));
    let (a, b) = (build("a"), build("b"));
    let events = b.events();
    let subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"with").unwrap();
    assert_eq!(next(&subscription).bytes(), b"with");

    drop(service);
    wait_for(&events, |event| *event == Event::ServiceLost);
    publisher.send(b"without").unwrap();
    assert_eq!(next(&subscription).bytes(), b"without");

    let network = site.network().unicast_port(address.port());
    let service = site.service().network(network).start().unwrap();
    wait_for(&events, |event| matches!(event, Event::ServiceFound { .. }));
    let c = build("c");
    let other = c.subscribe(["x"]).unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    publisher.send(b"again").unwrap();
    assert_eq!(next(&other).bytes(), b"again");
    let message = next(&subscription);
    assert_eq!((message.bytes(), message.number()), (&b"again"[..], 3));
    assert_eq!(service.snapshot().unwrap().nodes.len(), 3);
}

#[test]
fn a_node_follows_its_service_to_where_a_name_leads() {
    let site = Site::new();
    let network = || site.network().multicast(false);
    let serve = || site.service().network(network().unicast_port(0)).start();
    let service = serve().unwrap();
    // Behind the first place nobody answers.
    let nobody = SocketAddr::from(([127, 0, 0, 1], 9));
    let places = Arc::new(Mutex::new(vec![nobody, service.address()]));
    let build = |name| {
        let places = Arc::clone(&places);
        let builder = site.builder(name).network(network());
        let builder = builder.service(service.address());
        admitted(builder.service_lookup(move || places.lock().unwrap().clone()))
    };
    let (a, b) = (build("a"), build("b"));
    let events = b.events();
    let subscription = b.subscribe(["x"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();

    let (before, moved) = (service.address(), serve().unwrap());
    assert_ne!(before, moved.address());
    *places.lock().unwrap() = vec![nobody, moved.address()];
    drop(service);
    let address = moved.address();
    wait_for(&events, |event| *event == Event::ServiceFound { address });
    publisher.send(b"meanwhile").unwrap();
    assert_eq!(next(&subscription).bytes(), b"meanwhile");
    let c = admitted(site.builder("c").network(network()).service(address));
    let other = c.subscribe(["x"]).unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    publisher.send(b"again").unwrap();
    assert_eq!(next(&other).bytes(), b"again");
    assert_eq!(next(&subscription).number(), 2);
}

#[test]
fn queries_show_the_cluster() {
    let site = Site::new();
    let (a, b) = (site.first("a"), site.node("b"));
    let _subscription = b.subscribe(["x", "y"]).unwrap();
    let publisher = a.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let mut names: Vec<String> = a
        .list_nodes()
        .unwrap()
        .into_iter()
        .map(|row| row.name)
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "b"]);
    let groups = a.list_groups().unwrap();
    let x = groups.iter().find(|row| row.name == "x").unwrap();
    assert_eq!((x.members, x.publishers), (1, 1));
    let regions = a.list_regions().unwrap();
    assert!(
        regions
            .iter()
            .any(|row| row.groups == 2 && row.members.len() == 1),
        "{regions:?}"
    );
    assert_eq!(publisher.members(), Ok(1));
    assert!(a.io_report().unwrap().to_string().contains("interface: lo"));
}
