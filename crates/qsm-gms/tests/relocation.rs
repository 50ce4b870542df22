//! A node whose host has got another address, as the service reports it.

use std::net::SocketAddr;

use qsm_gms::{Service, ServiceConfig, ServiceEvent};
use qsm_proto::session::{Session, SessionPeer, frame_bytes};
use qsm_proto::{Instant, Outbox, Seed};
use qsm_wire::membership::{Hello, ToService, ToldLimit};
use qsm_wire::{ChannelId, GroupId, HeaderTemplate, Incarnation, NodeId, Origin, RegionId};

const NODE: NodeId = NodeId(7);

fn service(now: Instant) -> Service {
    let config = ServiceConfig::new(NodeId(1), SocketAddr::from(([10, 0, 0, 1], 1)));
    Service::new(config, Seed(1), now).unwrap()
}

fn hello(address: SocketAddr, life: Option<(Origin, u64)>) -> Hello {
    Hello {
        name: "roamer".to_owned(),
        address,
        second: None,
        incarnation: life.map_or(Incarnation(0), |(origin, _)| origin.incarnation),
        term: life.map_or(0, |(_, term)| term),
        groups: Vec::new(),
        regions: Vec::new(),
        region_last: RegionId(0),
        channel_last: ChannelId(0),
        group_end: GroupId(0),
        incarnation_last: Incarnation(0),
        dead: Vec::new(),
        senders: Vec::new(),
        published: false,
        repairs: ToldLimit::default(),
    }
}

/// Says hello in a new session of this number.
fn greet(service: &mut Service, now: Instant, session: u64, hello: Hello) {
    let from = hello.address;
    let cluster = ServiceConfig::new(NodeId(1), from).cluster_number();
    let header = HeaderTemplate::new(cluster).header(Origin {
        node: NODE,
        incarnation: hello.incarnation,
    });
    let mut bytes = Vec::new();
    ToService::Hello(hello).encode(&mut bytes);
    let mut session = Session::new(session, frame_bytes(1472));
    session.send(&bytes).unwrap();
    let peer = SessionPeer { header, to: from };
    let mut outbox = Outbox::new();
    session.transmit(now, &peer, &mut outbox);
    while let Some(transmit) = outbox.pop() {
        let datagram = transmit.bytes.to_vec();
        service.handle_datagram(now, from, &datagram);
    }
}

// Rule R-MEM-17.
#[test]
fn a_node_that_says_hello_at_another_address_has_moved() {
    let places = [2, 3].map(|host| SocketAddr::from(([10, 0, 0, host], 5)));
    let at = |ms: u64| Instant(ms * 1_000_000);
    let mut service = service(at(0));
    greet(&mut service, at(1), 1, hello(places[0], None));
    service.handle_timeout(at(600));
    let row = service.rows().nodes[0].clone();
    assert_eq!(row.address, places[0]);
    while service.poll_event().is_some() {}

    let life = (row.origin, service.term());
    greet(&mut service, at(700), 2, hello(places[1], Some(life)));
    let moved = ServiceEvent::Moved {
        origin: row.origin,
        name: "roamer".to_owned(),
        from: places[0],
        to: places[1],
    };
    assert_eq!(service.poll_event(), Some(moved));
    assert_eq!(service.poll_event(), None);
    assert_eq!(service.rows().nodes[0].address, places[1]);
    assert_eq!(service.rows().nodes[0].origin, row.origin);
    let stats = service.stats();
    assert_eq!((stats.relocated, stats.admitted, stats.excluded), (1, 1, 0));
}
