//! A host whose interface gets another address, under a node that also runs the membership service.

mod common;

use std::net::SocketAddr;

use common::{PATIENCE, admitted, next};
use lab::{HostId, Lab};
use qsm::{Embedded, Event, Events, Node};

fn lab() -> Option<(Lab, HostId, HostId)> {
    if !lab::ready() {
        return None;
    }
    let mut lab = Lab::new().unwrap();
    let (one, other) = (lab.add_host().unwrap(), lab.add_host().unwrap());
    Some((lab, one, other))
}

fn node(lab: &Lab, host: HostId, embedded: Embedded) -> Node {
    let _inside = lab.enter(host).unwrap();
    let builder = Node::builder().cluster("moving").interface("eth0");
    admitted(builder.request_timeout(PATIENCE).embedded_service(embedded))
}

#[track_caller]
fn ip(lab: &Lab, host: HostId, words: &str) {
    let mut command = lab.command(host, "ip");
    let status = command.args(words.split(' ')).status().unwrap();
    assert!(status.success(), "ip {words}: {status}");
}

/// Waits for an event of which this makes something.
#[track_caller]
fn wait_for<T>(events: &Events, wanted: impl Fn(&Event) -> Option<T>) -> T {
    loop {
        let event = events.recv_timeout(PATIENCE).unwrap();
        if let Some(found) = event.as_ref().and_then(&wanted) {
            return found;
        }
    }
}

fn moved(event: &Event) -> Option<(SocketAddr, SocketAddr)> {
    match event {
        Event::Moved { from, to } => Some((*from, *to)),
        _ => None,
    }
}

/// A service found at an address that begins so.
fn found(event: &Event, address: &str) -> Option<()> {
    let Event::ServiceFound { address: at } = event else {
        return None;
    };
    at.to_string().starts_with(address).then_some(())
}

#[test]
fn a_node_moves_together_with_the_service_that_it_runs() {
    let Some((lab, host, other)) = lab() else {
        return;
    };
    let first = node(&lab, host, Embedded::Always);
    let second = node(&lab, other, Embedded::Never);
    let events = [first.events(), second.events()];
    let subscription = second.subscribe(["before"]).unwrap();
    let publisher = first.publisher("before").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    ip(&lab, host, "addr del 10.78.0.1/16 dev eth0");
    publisher.send(b"on the way").unwrap();
    ip(&lab, host, "addr add 10.78.9.1/16 dev eth0");
    let (from, to) = wait_for(&events[0], moved);
    assert_eq!(from.ip().to_string(), "10.78.0.1");
    assert_eq!(to.ip().to_string(), "10.78.9.1");
    for events in &events {
        wait_for(events, |event| found(event, "10.78.9.1"));
    }
    assert_eq!(next(&subscription).bytes(), b"on the way");
    // Only a service can let it in.
    let subscription = first.subscribe(["after"]).unwrap();
    let publisher = second.publisher("after").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"arrived").unwrap();
    assert_eq!(next(&subscription).bytes(), b"arrived");
    for node in [&first, &second] {
        assert_eq!(node.list_nodes().unwrap().len(), 2);
    }
}
