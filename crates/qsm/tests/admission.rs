//! A cluster that takes tokens, from end to end: who has one is in, with its rights, and nobody else; keys change under
//! traffic, and services begin anew.

mod certificates;
mod common;

use std::fs;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{PATIENCE, Place, Site, expect_numbers, pattern, wait_for};
use qsm::{
    Builder, CloseReason, Embedded, Event, Identity, NetworkOptions, Node, Observer, Publisher,
    RequestError, Service, ServiceEvent, StrangerCause, Subscription,
};
use qsm_identity::{
    Claims, ClusterRoot, NodeKey, NodePublic, RevokedParts, Role, Roles, Serial, Token,
};
use qsm_net::{PortConfig, Ports};
use qsm_wire::{Coverage, Kind, VERSION, seal, sealed_by};

/// Waits until the service has expelled a node that was revoked, for that reason, and the node knows it.
fn wait_shut_out(service: &Service, traitor: &Node, theirs: &Subscription, why: &str) {
    loop {
        let event = service.next_event_timeout(PATIENCE).unwrap().unwrap();
        if let ServiceEvent::Expelled { reason, .. } = event {
            assert!(reason.contains(why), "{reason}");
            break;
        }
    }
    let end = loop {
        if let Some(reason) = traitor.closed() {
            break reason;
        }
        // It reads on until it hears that it is shut out.
        theirs.recv_timeout(PATIENCE).ok();
    };
    assert!(
        matches!(&end, CloseReason::Refused { reason } if reason.contains("was revoked")),
        "{end}"
    );
}

/// A cluster with a root.
struct Plant {
    site: Site,
    root: ClusterRoot,
    list: Place,
}

impl Plant {
    fn new() -> Self {
        let this = Self {
            site: Site::new(),
            root: ClusterRoot::generate().unwrap(),
            list: Place::new(),
        };
        this.revoke(1, Vec::new());
        this
    }

    fn claims(&self, key: &NodeKey) -> Claims {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_secs();
        Claims {
            cluster: self.site.cluster().to_owned(),
            serial: Serial::random().unwrap(),
            name: "**".parse().unwrap(),
            node_key: Some(key.public()),
            roles: Roles::NONE.with(Role::Publish).with(Role::Subscribe),
            not_before: now,
            expires: now + 3600,
            publish: vec!["**".parse().unwrap()],
            subscribe: vec!["**".parse().unwrap()],
        }
    }

    fn identity(&self, change: impl FnOnce(&mut Claims)) -> Identity {
        let key = NodeKey::generate().unwrap();
        let token = self.token(&key, change);
        Identity::new(key, token, self.root.public())
    }

    fn token(&self, key: &NodeKey, change: impl FnOnce(&mut Claims)) -> Token {
        let mut claims = self.claims(key);
        change(&mut claims);
        self.root.issue(claims).unwrap()
    }

    fn network(&self, identity: Identity) -> NetworkOptions {
        self.site.network().identity(identity)
    }

    fn service_identity(&self) -> Identity {
        self.identity(|claims| {
            claims.roles = Roles::NONE.with(Role::Service);
            claims.publish.clear();
            claims.subscribe.clear();
        })
    }

    /// A service at this port, or any.
    fn service(&self, port: u16) -> Service {
        let identity = self.service_identity();
        let network = self.network(identity).unicast_port(port);
        let service = self.site.service().network(network);
        service.revocations(self.list.path()).start().unwrap()
    }

    fn builder(&self, name: &str, identity: Identity) -> Builder {
        self.site.builder(name).network(self.network(identity))
    }

    fn node(&self, name: &str) -> Node {
        common::admitted(self.builder(name, self.identity(|_| ())))
    }

    fn nodes<const N: usize>(&self) -> [Node; N] {
        let mut number = 0;
        [(); N].map(|()| {
            number += 1;
            self.node(&format!("node-{number}"))
        })
    }

    /// Nodes that speak to each other.
    fn talk<const N: usize>(&self) -> Talk<N> {
        let nodes: [Node; N] = self.nodes();
        let subscriptions = subscriptions(&nodes);
        let publisher = nodes[0].publisher("x").unwrap();
        let others = u32::try_from(N - 1).unwrap();
        publisher.wait_for_members(others, PATIENCE).unwrap();
        Talk {
            nodes,
            subscriptions,
            publisher,
        }
    }

    /// Writes a list of revocations, as `qsm token revoke` does.
    fn revoke(&self, number: u64, serials: Vec<Serial>) {
        self.write_list(number, serials, Vec::new());
    }

    fn write_list(&self, number: u64, serials: Vec<Serial>, keys: Vec<NodePublic>) {
        let list = self.root.revoke(RevokedParts {
            cluster: self.site.cluster().to_owned(),
            number,
            serials,
            keys,
        });
        let next = self.list.path().with_extension("next");
        fs::write(&next, list.unwrap().to_string()).unwrap();
        fs::rename(&next, self.list.path()).unwrap();
    }
}

/// Nodes that receive "x", and the first one's publisher to it.
struct Talk<const N: usize> {
    nodes: [Node; N],
    subscriptions: [Subscription; N],
    publisher: Publisher,
}

#[track_caller]
fn refused(node: &Node) -> String {
    match node.wait_admitted(PATIENCE) {
        Err(RequestError::Closed(CloseReason::Refused { reason })) => reason,
        other => panic!("{other:?}"),
    }
}

fn subscriptions<const N: usize>(nodes: &[Node; N]) -> [Subscription; N] {
    nodes.each_ref().map(|node| node.subscribe(["x"]).unwrap())
}

/// All packets were read, and none was taken for another.
fn assert_clean(node: &Node) {
    let stats = node.stats().unwrap();
    let protocol = &stats.protocol;
    assert_eq!(
        (
            protocol.discard_damaged,
            protocol.discard_malformed,
            protocol.messages_lost
        ),
        (0, 0, 0)
    );
}

// Rules R-SEC-7, R-SEC-9, R-SEC-12, R-SEC-14.
#[test]
fn nodes_with_tokens_hear_each_other_and_who_has_none_is_not_in() {
    let plant = Plant::new();
    let service = plant.service(0);
    let Talk {
        nodes,
        subscriptions,
        publisher,
    } = plant.talk::<3>();
    for number in 1..=2000 {
        publisher.send(&pattern(number, 500)).unwrap();
    }
    for subscription in &subscriptions {
        expect_numbers(subscription, 1..=2000, |number| pattern(number, 500));
    }
    nodes[0].flush(PATIENCE).unwrap();

    // Without an identity.
    let stranger = plant.site.builder("stranger").start().unwrap();
    let events = stranger.events();
    wait_for(&events, |event| matches!(event, Event::Stranger(_)));
    assert!(stranger.wait_admitted(Duration::ZERO).is_err());
    // Of another root: to it the service is none, and it shows nobody its token.
    let other = Plant {
        site: plant.site.twin(),
        ..Plant::new()
    };
    let foreign = other.builder("foreign", other.identity(|_| ()));
    let foreign = foreign.start().unwrap();
    let events = foreign.events();
    wait_for(
        &events,
        |event| matches!(event, Event::Stranger(it) if it.cause == StrangerCause::Impostor),
    );
    assert!(foreign.wait_admitted(Duration::ZERO).is_err());
    assert_eq!(nodes[1].list_nodes().unwrap().len(), 3);
    nodes.iter().for_each(assert_clean);
    let counted = service.snapshot().unwrap().admission;
    assert_eq!((counted.admitted, counted.expelled), (3, 0));
}

// Rule R-SEC-13.
#[test]
fn rights_are_those_of_the_token_and_the_reason_is_told() {
    let plant = Plant::new();
    let _service = plant.service(0);
    let identity = plant.identity(|claims| {
        claims.name = "reader/*".parse().unwrap();
        claims.roles = Roles::NONE.with(Role::Subscribe);
        claims.publish.clear();
        claims.subscribe = vec!["prices/*".parse().unwrap()];
    });
    let misnamed = plant.builder("writer", identity.clone()).start();
    assert!(
        misnamed
            .unwrap_err()
            .to_string()
            .contains("does not allow the name")
    );
    let node = common::admitted(plant.builder("reader/1", identity.clone()));
    let _prices = node.subscribe(["prices/eur"]).unwrap();
    let Err(RequestError::Refused { reason }) = node.subscribe(["orders"]) else {
        panic!("it may not receive them");
    };
    assert!(reason.contains("receive the group \"orders\""), "{reason}");
    let Err(RequestError::Refused { reason }) = node.publisher("prices/eur") else {
        panic!("it may not publish");
    };
    assert!(reason.contains("publish to the group"), "{reason}");

    // Who has a token may look; it says who has which rights.
    let observer = Observer::builder()
        .cluster(plant.site.cluster())
        .network(plant.network(identity));
    let rows = observer.open().unwrap().list_nodes().unwrap();
    let grant = rows[0].grant.as_deref().unwrap();
    assert!(
        grant.contains("receives prices/*") && !grant.contains("publishes"),
        "{grant}"
    );
}

#[test]
fn what_is_wrong_with_a_token_is_said_before_a_node_starts() {
    let plant = Plant::new();
    let start = |identity| {
        plant
            .builder("a", identity)
            .start()
            .unwrap_err()
            .to_string()
    };
    let expired = plant.identity(|claims| (claims.not_before, claims.expires) = (1, 2));
    assert!(start(expired).contains("the token expired at"));
    let early = plant.identity(|claims| {
        claims.not_before += 86_400;
        claims.expires += 86_400;
    });
    assert!(start(early).contains("is the clock right?"));
    let elsewhere = plant.identity(|claims| claims.cluster = "farm".to_owned());
    assert!(start(elsewhere).contains("for the cluster \"farm\""));
    let node = plant.builder("a", plant.identity(|_| ()));
    let serving = node.embedded_service(Embedded::Always).start();
    let error = serving.unwrap_err().to_string();
    assert!(error.contains("not one of a membership service"), "{error}");
    let list = plant.site.builder("a").revocations(plant.list.path());
    let error = list.start().unwrap_err().to_string();
    assert!(error.contains("has no identity"), "{error}");
    let key = qsm::ClusterKey::generate(qsm::Cipher::default()).unwrap();
    let network = plant.network(plant.identity(|_| ())).key(key);
    let both = plant.site.builder("a").network(network).start();
    assert!(both.unwrap_err().to_string().contains("both are given"));
    let network = plant.network(plant.identity(|_| ()));
    let no_service = plant.site.service().network(network).start();
    assert!(
        no_service
            .unwrap_err()
            .to_string()
            .contains("not one of a membership service")
    );
}

#[test]
fn two_nodes_with_one_key_are_told_so_and_one_may_follow_the_other() {
    let plant = Plant::new();
    let _service = plant.service(0);
    let identity = plant.identity(|_| ());
    let first = common::admitted(plant.builder("first", identity.clone()));
    let second = plant.builder("second", identity.clone()).start().unwrap();
    let reason = refused(&second);
    assert!(reason.contains("two nodes have one key"), "{reason}");
    first.shutdown(PATIENCE).unwrap();
    common::admitted(plant.builder("third", identity));
}

#[test]
fn who_is_revoked_in_mid_stream_is_shut_out_and_told_why() {
    let plant = Plant::new();
    let service = plant.service(0);
    let nodes: [Node; 2] = plant.nodes();
    let key = NodeKey::generate().unwrap();
    let token = plant.token(&key, |_| ());
    let serial = token.claims().serial;
    let identity = Identity::new(key, token, plant.root.public());
    let traitor = common::admitted(plant.builder("traitor", identity.clone()));
    let subscriptions = subscriptions(&nodes);
    let theirs = traitor.subscribe(["x"]).unwrap();
    let publisher = nodes[0].publisher("x").unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    let send = |numbers: std::ops::RangeInclusive<u64>| {
        numbers.for_each(|number| publisher.send(&pattern(number, 100)).unwrap());
    };
    send(1..=100);
    expect_numbers(&theirs, 1..=100, |number| pattern(number, 100));

    plant.revoke(2, vec![serial]);
    wait_shut_out(&service, &traitor, &theirs, "was revoked");
    send(101..=200);
    for subscription in &subscriptions {
        expect_numbers(subscription, 1..=200, |number| pattern(number, 100));
    }
    nodes[0].flush(PATIENCE).unwrap();
    let again = plant.builder("traitor", identity).start().unwrap();
    let reason = refused(&again);
    assert!(reason.contains("was revoked"), "{reason}");
    let counted = service.snapshot().unwrap().admission;
    assert_eq!((counted.expelled, counted.refused), (1, 1));
    assert_eq!(nodes[0].list_nodes().unwrap().len(), 2);

    // An older list changes nothing, and is named.
    plant.revoke(1, Vec::new());
    loop {
        let event = service.next_event_timeout(PATIENCE).unwrap().unwrap();
        if let ServiceEvent::ListRefused { reason } = event {
            assert!(reason.contains("number 2 is known"), "{reason}");
            break;
        }
    }
}

// Rule R-SEC-13.
#[test]
fn core_threads_are_one_node_with_one_key_and_go_together() {
    let plant = Plant::new();
    let service = plant.service(0);
    let key = NodeKey::generate().unwrap();
    // A name for the node is one for its core threads.
    let token = plant.token(&key, |claims| claims.name = "two".parse().unwrap());
    let serial = token.claims().serial;
    let identity = Identity::new(key, token, plant.root.public());
    let one = plant.builder("one", plant.identity(|_| ())).cores(3);
    let one = common::admitted(one);
    let two = common::admitted(plant.builder("two", identity.clone()).cores(3));
    let groups: Vec<String> = (0..12).map(|number| format!("group/{number:02}")).collect();
    let subscription = two.subscribe(groups.iter().map(String::as_str)).unwrap();
    let publishers = groups.iter().map(|group| one.publisher(group).unwrap());
    let publishers: Vec<Publisher> = publishers.collect();
    for (publisher, group) in publishers.iter().zip(&groups) {
        publisher.wait_for_members(1, PATIENCE).unwrap();
        publisher.send(group.as_bytes()).unwrap();
    }
    let received = groups.iter().map(|_| common::next(&subscription));
    let mut received: Vec<Vec<u8>> = received.map(|it| it.bytes().to_vec()).collect();
    received.sort();
    assert!(received.iter().eq(groups.iter().map(String::as_bytes)));
    let mut names: Vec<String> = one
        .list_nodes()
        .unwrap()
        .into_iter()
        .map(|row| row.name)
        .collect();
    names.sort();
    assert_eq!(names, ["one", "one/2", "one/3", "two", "two/2", "two/3"]);

    let other = plant.builder("two", identity).start().unwrap();
    let reason = refused(&other);
    assert!(reason.contains("two nodes have one key"), "{reason}");
    plant.revoke(2, vec![serial]);
    let end = loop {
        if let Some(reason) = two.closed() {
            break reason;
        }
        subscription.recv_timeout(PATIENCE).ok();
    };
    assert!(matches!(end, CloseReason::Refused { .. }), "{end}");
    let mut expelled = 0;
    while expelled < 3 {
        let event = service.next_event_timeout(PATIENCE).unwrap().unwrap();
        expelled += u32::from(matches!(event, ServiceEvent::Expelled { .. }));
    }
    assert_eq!(one.list_nodes().unwrap().len(), 3);
}

impl Plant {
    /// A node that may serve, and would at this time.
    fn serving(&self, name: &str, when: Embedded) -> Node {
        let identity = self.identity(|claims| claims.roles = claims.roles.with(Role::Service));
        let builder = self.builder(name, identity).embedded_service(when);
        common::admitted(builder.revocations(self.list.path()))
    }
}

// Rules R-SEC-12, R-MEM-7.
#[test]
fn services_that_nodes_embed_meet_and_one_of_them_goes_on() {
    let plant = Plant::new();
    let nodes = ["one", "two"].map(|name| plant.serving(name, Embedded::Always));
    let subscriptions = subscriptions(&nodes);
    // Each is alone with its service at first.
    for (node, other) in [(0, 1), (1, 0)] {
        let publisher = nodes[node].publisher("x").unwrap();
        publisher.wait_for_members(1, PATIENCE).unwrap();
        publisher.send(&pattern(1, 100)).unwrap();
        expect_numbers(&subscriptions[other], [1], |number| pattern(number, 100));
        expect_numbers(&subscriptions[node], [1], |number| pattern(number, 100));
    }
    assert_eq!(nodes[0].list_nodes().unwrap().len(), 2);
}

// Rules R-SEC-12, R-SEC-13.
#[test]
fn a_node_whose_token_is_one_of_a_service_serves_when_nobody_else_does() {
    let plant = Plant::new();
    let first = plant.serving("first", Embedded::IfNoneFound);
    let key = NodeKey::generate().unwrap();
    let token = plant.token(&key, |_| ());
    let serial = token.claims().serial;
    let identity = Identity::new(key, token, plant.root.public());
    let reader = common::admitted(plant.builder("reader", identity));
    let theirs = reader.subscribe(["x"]).unwrap();
    let second = plant.serving("second", Embedded::IfNoneFound);
    let publisher = second.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    first.shutdown(PATIENCE).unwrap();
    drop(first);
    // Somebody serves them: there is nobody left but the second one who could.
    let late = plant.node("late");
    let subscription = late.subscribe(["x"]).unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    publisher.send(&pattern(1, 100)).unwrap();
    for subscription in [&subscription, &theirs] {
        expect_numbers(subscription, [1], |number| pattern(number, 100));
    }
    // It has the list of revocations, too.
    plant.revoke(2, vec![serial]);
    let end = loop {
        if let Some(reason) = reader.closed() {
            break reason;
        }
        theirs.recv_timeout(PATIENCE).ok();
    };
    assert!(end.to_string().contains("was revoked"), "{end}");
}

/// Reads messages in their order until the last one; how many there were before.
fn read_to_end(subscription: &Subscription) -> u64 {
    let mut number = 0;
    loop {
        let message = common::next(subscription);
        if message.bytes() == b"end" {
            return number;
        }
        number += 1;
        assert_eq!(message.number(), number);
        assert_eq!(message.bytes(), pattern(number, 300));
    }
}

// Rules R-SEC-9 to R-SEC-11.
#[test]
fn keys_change_under_traffic_and_no_message_is_lost() {
    let plant = Plant::new();
    let service = plant.service(0);
    let Talk {
        nodes,
        subscriptions,
        publisher,
    } = plant.talk::<2>();
    let done = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| {
            let mut number = 0;
            while !done.load(Ordering::Relaxed) {
                number += 1;
                publisher.send(&pattern(number, 300)).unwrap();
                thread::yield_now();
            }
            number
        });
        let readers: Vec<_> = subscriptions
            .iter()
            .map(|subscription| scope.spawn(move || read_to_end(subscription)))
            .collect();
        for guest in 0..5 {
            let node = plant.node(&format!("guest-{guest}"));
            let subscription = node.subscribe(["x"]).unwrap();
            common::next(&subscription);
            drop(subscription);
            node.shutdown(PATIENCE).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        let sent: u64 = sender.join().unwrap();
        publisher.send(b"end").unwrap();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), sent);
        }
        sent
    });
    assert!(sent > 0);
    nodes[0].flush(PATIENCE).unwrap();
    nodes.iter().for_each(assert_clean);
    let counted = service.snapshot().unwrap().admission;
    // One for each that came at least.
    assert!(counted.epochs >= 6, "{counted}");
}

#[test]
fn nodes_go_on_when_a_service_begins_anew_and_others_come_in() {
    let plant = Plant::new();
    let service = plant.service(0);
    let port = service.address().port();
    let Talk {
        nodes,
        subscriptions,
        publisher,
    } = plant.talk::<2>();
    let send = |numbers: std::ops::RangeInclusive<u64>| {
        numbers.for_each(|number| publisher.send(&pattern(number, 100)).unwrap());
    };
    send(1..=100);
    drop(service);
    // Without it too.
    send(101..=200);
    let service = plant.service(port);
    send(201..=300);
    loop {
        let event = service.next_event_timeout(PATIENCE).unwrap().unwrap();
        if let ServiceEvent::Opened {
            resumed, absent, ..
        } = event
        {
            assert_eq!((resumed, absent), (2, 0));
            break;
        }
    }
    let late = plant.node("late");
    let theirs = late.subscribe(["x"]).unwrap();
    publisher.wait_for_members(2, PATIENCE).unwrap();
    send(301..=400);
    for subscription in &subscriptions {
        expect_numbers(subscription, 1..=400, |number| pattern(number, 100));
    }
    expect_numbers(&theirs, 301..=400, |number| pattern(number, 100));
    nodes[0].flush(PATIENCE).unwrap();
    nodes.iter().for_each(assert_clean);
    assert_eq!(service.snapshot().unwrap().nodes.len(), 3);
}

// Rule R-SEC-12.
#[test]
fn a_revoked_service_has_no_nodes_and_no_say_over_other_services() {
    let plant = Plant::new();
    let service = plant.service(0);
    let Talk {
        nodes,
        subscriptions,
        publisher,
    } = plant.talk::<2>();
    let stolen = plant.service_identity();
    plant.write_list(2, Vec::new(), vec![stolen.public()]);
    // The first list, and this one, to both.
    while service.snapshot().unwrap().admission.list_parts < 4 {
        service.next_event_timeout(Duration::from_millis(10)).ok();
    }
    for node in &nodes {
        // Behind the list on its way.
        assert_eq!(node.list_nodes().unwrap().len(), 2);
    }
    drop(service);
    let events = nodes.each_ref().map(Node::events);
    let network = plant.network(stolen);
    let bad = plant.site.service().network(network).start().unwrap();
    for events in &events {
        wait_for(
            events,
            |event| matches!(event, Event::Stranger(it) if it.cause == StrangerCause::Impostor),
        );
    }
    assert_eq!(bad.snapshot().unwrap().admission.admitted, 0);
    // Both run, and nodes take the one that is left.
    let service = plant.service(0);
    loop {
        let event = service.next_event_timeout(PATIENCE).unwrap().unwrap();
        if let ServiceEvent::Opened { resumed, .. } = event {
            assert_eq!(resumed, 2);
            break;
        }
    }
    for number in 1..=100 {
        publisher.send(&pattern(number, 100)).unwrap();
    }
    for subscription in &subscriptions {
        expect_numbers(subscription, 1..=100, |number| pattern(number, 100));
    }
    assert_eq!(service.snapshot().unwrap().nodes.len(), 2);
    assert_eq!(bad.snapshot().unwrap().admission.admitted, 0);
}

/// Somebody on the network without a token: hears all multicast of the cluster, and sends to whom it likes.
struct Attacker {
    ports: Ports,
    targets: Vec<SocketAddr>,
}

impl Attacker {
    fn of(plant: &Plant, service: &Service) -> Self {
        let (interface, _) = qsm_net::choose_interface(Some("lo"), None).unwrap();
        let mut ports = Ports::open(PortConfig::new(interface), None).unwrap();
        let known = service.snapshot().unwrap();
        let groups = known.regions.iter().map(|region| region.address);
        let groups: Vec<_> = groups.chain([plant.site.discovery()]).collect();
        for group in &groups {
            ports.join(*group).unwrap();
        }
        let nodes = known.nodes.iter().map(|node| node.address);
        let targets = nodes.chain(groups).chain([service.address()]);
        Self {
            targets: targets.collect(),
            ports,
        }
    }

    /// Packets that it has heard so far.
    fn recorded(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        while self.ports.receive().unwrap() > 0 {
            all.extend(
                self.ports
                    .datagrams()
                    .map(|datagram| datagram.bytes.to_vec()),
            );
        }
        all.truncate(200);
        all
    }

    fn send(&mut self, packet: &[u8]) {
        for to in &self.targets {
            while self.ports.send(*to, packet, packet.len()).is_err() {
                self.ports.wait(Some(PATIENCE)).unwrap();
            }
        }
    }
}

/// A packet of each kind in clear, in somebody's name; and each changed one of what was heard.
fn forged(heard: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for packet in heard.iter().take(20) {
        for kind in Kind::ALL {
            let mut plain = packet.clone();
            plain[..4].copy_from_slice(&[VERSION, *kind as u8, 0, 0]);
            seal(&mut plain, Coverage::Whole);
            assert_eq!(sealed_by(&plain), None);
            all.push(plain);
            let mut posed = packet.clone();
            posed[1] = *kind as u8;
            all.push(posed);
        }
        for at in 8..packet.len() {
            let mut changed = packet.clone();
            changed[at] ^= 0x40;
            all.push(changed);
        }
        all.push(packet[..packet.len() / 2].to_vec());
    }
    all
}

// Rules R-SEC-1, R-SEC-4, R-SEC-12.
#[test]
fn packets_of_strangers_have_no_effect_but_on_counters() {
    let plant = Plant::new();
    let service = plant.service(0);
    let Talk {
        nodes,
        subscriptions,
        publisher,
    } = plant.talk::<3>();
    let mut attacker = Attacker::of(&plant, &service);
    let send = |numbers: std::ops::RangeInclusive<u64>| {
        numbers.for_each(|number| publisher.send(&pattern(number, 200)).unwrap());
    };
    send(1..=300);
    for subscription in &subscriptions {
        expect_numbers(subscription, 1..=300, |number| pattern(number, 200));
    }
    nodes[0].flush(PATIENCE).unwrap();
    let heard = attacker.recorded();
    let clear = heard.iter().filter(|packet| sealed_by(packet).is_none());
    // Where the service is, and nothing else.
    assert!(
        clear
            .clone()
            .all(|packet| Kind::peek(packet) == Some(Kind::Admission))
    );
    assert!(
        heard
            .iter()
            .any(|packet| Kind::peek(packet) == Some(Kind::Data))
    );
    for packet in heard.iter().chain(&forged(&heard)) {
        attacker.send(packet);
    }
    send(301..=600);
    for subscription in &subscriptions {
        expect_numbers(subscription, 301..=600, |number| pattern(number, 200));
    }
    nodes[0].flush(PATIENCE).unwrap();
    let mut replayed = 0;
    for (node, subscription) in nodes.iter().zip(&subscriptions) {
        assert_eq!(subscription.try_recv().unwrap(), None);
        let refused = node.stats().unwrap().port.refused;
        assert!(refused.plain > 0 && refused.forged > 0, "{refused}");
        replayed += u32::from(refused.replayed > 0);
        assert_clean(node);
        assert_eq!(node.closed(), None);
    }
    // Who has signed a packet knows it for its own, and does not count it.
    assert!(replayed >= 2, "{replayed} nodes");
    let known = service.snapshot().unwrap();
    assert_eq!((known.nodes.len(), known.admission.expelled), (3, 0));
    assert_eq!(known.admission.admitted, 3);
    // And the door is open to who belongs.
    plant.node("late");
}
