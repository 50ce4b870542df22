//! A service's guard and nodes' guards that hear each other without loss.

use qsm_identity::{Claims, ClusterRoot, NodeKey, NodePublic, RevokedParts, Role, Roles, Serial};
use qsm_proto::ring::CALL;
use qsm_seal::Cipher;
use qsm_wire::{
    Beacon, ChannelId, Coverage, DataHeader, Frame, FrameHead, HOP_AT, Hop, Incarnation, RegionId,
    TokenHead, TokenWriter, ViewNumber, seal,
};

use super::*;
use crate::admission::gate::{Gate, GateLink, GateNews, GateOrder, Leaves};
use crate::admission::identity::unix_now;

const CLUSTER: &str = "plant";
const SERVICE: NodeId = NodeId(1000);
/// Each core thread has a number of its own; these are of the first ones of two nodes.
const ONE: NodeId = NodeId(64);
const TWO: NodeId = NodeId(128);

fn identity(root: &ClusterRoot, role: Role) -> Identity {
    let key = NodeKey::generate().unwrap();
    let now = unix_now();
    let all = || vec!["**".parse().unwrap()];
    let claims = Claims {
        cluster: CLUSTER.to_owned(),
        serial: Serial::random().unwrap(),
        name: "**".parse().unwrap(),
        node_key: Some(key.public()),
        roles: Roles::NONE.with(role),
        not_before: now,
        expires: now + 600,
        publish: Vec::new(),
        subscribe: if role == Role::Subscribe {
            all()
        } else {
            Vec::new()
        },
    };
    let token = root.issue(claims).unwrap();
    Identity::new(key, token, root.public())
}

fn header(node: NodeId) -> Header {
    Header {
        cluster: cluster_number(CLUSTER),
        origin: Origin {
            node,
            incarnation: Incarnation(1),
        },
        ..Header::default()
    }
}

fn address(node: NodeId) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], u16::try_from(node.0).unwrap()))
}

fn frame(node: NodeId) -> Vec<u8> {
    let head = FrameHead {
        session: 1,
        number: 1,
        heard_upto: 0,
        more: false,
    };
    let mut packet = Vec::new();
    let content = b"hello";
    Frame { head, content }.encode(&header(node), &mut packet);
    seal(&mut packet, Coverage::Whole);
    packet
}

fn data(node: NodeId) -> Vec<u8> {
    let head = DataHeader {
        channel: ChannelId(9),
        view: ViewNumber(1),
        sequence: 1,
        view_age: 0,
    };
    let mut packet = Vec::new();
    head.encode(&header(node), &mut packet);
    packet.extend_from_slice(&[0; 9]);
    seal(&mut packet, Coverage::Head);
    packet
}

fn beacon() -> Vec<u8> {
    let beacon = Beacon {
        address: address(SERVICE),
        second: None,
        term: 1,
        embedded: false,
    };
    let mut packet = Vec::new();
    beacon.encode(&header(SERVICE), &mut packet);
    seal(&mut packet, Coverage::Whole);
    packet
}

/// A service and nodes, whose guards hear each other without loss.
struct Room {
    gate: Gate,
    link: Arc<GateLink>,
    /// Key of the service.
    service: NodePublic,
    entries: Vec<(NodeId, Entry)>,
    now: Instant,
    /// Nodes that were given something, but for what is the guards' own.
    given: Vec<NodeId>,
}

impl Room {
    fn new(root: &ClusterRoot, nodes: &[NodeId]) -> Self {
        let link = Arc::<GateLink>::default();
        let service = identity(root, Role::Service);
        let gate = Gate::new(&service, CLUSTER, Cipher::default(), Arc::clone(&link)).unwrap();
        let entries = nodes.iter().map(|&node| {
            let entrant = Entrant {
                cluster: CLUSTER.to_owned(),
                node,
                name: Some(format!("node-{}", node.0)),
            };
            let identity = identity(root, Role::Subscribe);
            (
                node,
                Entry::new(&identity, entrant, Arc::default()).unwrap(),
            )
        });
        let entries = entries.collect();
        Self {
            gate,
            link,
            service: service.public(),
            entries,
            now: Instant::now(),
            given: Vec::new(),
        }
    }

    /// As one of so many that the service introduces nobody.
    fn crowded(root: &ClusterRoot, nodes: &[NodeId]) -> Self {
        let mut room = Self::new(root, nodes);
        room.gate.introduce_nobody();
        room
    }

    /// The service tells all where it is.
    fn announce(&mut self) {
        let mut here = Vec::new();
        let group = SocketAddr::from(([239, 1, 1, 1], 1));
        assert!(self.gate.seal(group, &beacon(), &mut here));
        for (_, entry) in &mut self.entries {
            let opened = entry.open(address(SERVICE), &mut here.clone());
            assert_eq!(opened, Ok(Opened::Own));
        }
    }

    /// Carries what guards say until they are silent.
    fn carry(&mut self) {
        while self.carry_to_service() | self.carry_to_nodes() {}
    }

    fn carry_to_service(&mut self) -> bool {
        let mut carried = false;
        for (node, entry) in &mut self.entries {
            while let Some(mut own) = entry.poll_transmit() {
                carried = true;
                self.gate.open(address(*node), &mut own.bytes).ok();
            }
        }
        carried
    }

    fn carry_to_nodes(&mut self) -> bool {
        let mut carried = false;
        while let Some(mut own) = self.gate.poll_transmit() {
            carried = true;
            let mut entries = self.entries.iter_mut();
            let Some((node, entry)) = entries.find(|(node, _)| address(*node) == own.to) else {
                continue;
            };
            let opened = entry.open(address(SERVICE), &mut own.bytes);
            if matches!(opened, Ok(Opened::Datagram(_))) {
                self.given.push(*node);
            }
        }
        carried
    }

    /// Until all have a key.
    fn settle(&mut self) {
        self.announce();
        self.carry();
        for _ in 0..10 {
            self.now += Duration::from_millis(200);
            self.gate.tick(self.now);
            self.carry();
        }
        assert!(
            self.entries
                .iter()
                .all(|(_, entry)| entry.epochs.active().is_some())
        );
    }

    fn for_service(&mut self, at: usize, packet: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = Vec::new();
        let entry = &mut self.entries[at].1;
        entry
            .seal(address(SERVICE), packet, &mut sealed)
            .then_some(sealed)
    }

    /// Reads the gate's news: true if a session has ended.
    fn has_ended(&self) -> bool {
        let mut news = std::iter::from_fn(|| self.link.news.pop());
        news.any(|news| matches!(news, GateNews::Ended { .. }))
    }
}

// Rule R-SEC-13: its rights are its own until then.
#[test]
fn the_session_of_who_has_left_ends_later_and_is_told_of() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::new(&root, &[ONE]);
    room.settle();
    let (node, how) = (ONE, Leaves::Orderly);
    room.link.orders.push(GateOrder::Gone { node, how });
    room.gate.tick(room.now);
    assert!(!room.has_ended());
    let mut sealed = room.for_service(0, &frame(node)).unwrap();
    assert!(room.gate.open(address(node), &mut sealed).is_ok());
    room.gate.tick(room.now + Duration::from_secs(3));
    assert!(room.has_ended());
}

// Rules R-SEC-12, R-SEC-14.
#[test]
fn what_a_node_says_waits_until_it_has_a_key() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::new(&root, &[ONE, TWO]);
    room.announce();
    assert_eq!(room.for_service(0, &frame(ONE)), None);
    room.carry();
    assert!(room.given.is_empty() && room.entries[0].1.epochs.active().is_none());
    room.settle();
    // The service has told them where it is, sealed.
    assert_eq!(room.given.len(), 2);
    assert!(room.entries[0].1.held.is_empty());
    let mut sealed = room.for_service(0, &frame(ONE)).unwrap();
    let opened = room.gate.open(address(ONE), &mut sealed);
    assert_eq!(opened, Ok(Opened::Datagram(frame(ONE).len())));

    let mut packet = Vec::new();
    let [(_, one), (_, other)] = &mut room.entries[..] else {
        panic!("there are two");
    };
    assert!(one.seal(address(TWO), &data(ONE), &mut packet));
    let opened = other.open(address(ONE), &mut packet);
    assert_eq!(opened, Ok(Opened::Datagram(data(ONE).len())));
}

// Rules R-SEC-1, R-SEC-13.
#[test]
fn members_cannot_speak_for_the_service_nor_in_sessions_of_others() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::new(&root, &[ONE, TWO]);
    room.settle();
    let from = address(TWO);
    // As the service, by the key that all members have.
    for posed in [frame(SERVICE), beacon()] {
        let mut sealed = Vec::new();
        room.entries[1].1.epochs.seal(&posed, &mut sealed).unwrap();
        let entry = &mut room.entries[0].1;
        assert_eq!(entry.open(from, &mut sealed), Err(Refusal::Forged));
    }
    // In another's name, in its own session.
    let mut sealed = room.for_service(1, &frame(TWO)).unwrap();
    sealed[8] = 64;
    let opened = room.gate.open(from, &mut sealed);
    assert_eq!(opened, Err(Refusal::Forged));
    // In clear, and again as it was.
    let entry = &mut room.entries[0].1;
    assert_eq!(entry.open(from, &mut beacon()), Err(Refusal::Plain));
    let mut sealed = room.for_service(0, &frame(ONE)).unwrap();
    let mut again = sealed.clone();
    let from = address(ONE);
    assert!(room.gate.open(from, &mut sealed).is_ok());
    assert_eq!(room.gate.open(from, &mut again), Err(Refusal::Replayed));
}

// Rule R-SEC-12.
#[test]
fn nodes_hear_of_revocations_from_their_service_and_leave_one_that_is_among_them() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::new(&root, &[ONE, TWO]);
    room.settle();
    let revoke = |number, keys| RevokedParts {
        cluster: CLUSTER.to_owned(),
        number,
        serials: (1..=500).map(Serial).collect(),
        keys,
    };
    let tell = |room: &mut Room, parts| {
        let list = root.revoke(parts).unwrap();
        room.link.orders.push(GateOrder::Revoke(list));
        room.gate.tick(room.now);
        room.carry();
    };
    tell(&mut room, revoke(1, Vec::new()));
    let trusted = |room: &Room| -> Vec<usize> {
        let entries = room.entries.iter();
        entries.map(|(_, entry)| entry.sessions.len()).collect()
    };
    assert_eq!(trusted(&room), [1, 1]);
    // Its own, in the second of several parts.
    let key = room.service;
    tell(&mut room, revoke(2, vec![key]));
    assert_eq!(trusted(&room), [0, 0]);
    // Nobody shakes hands with it again.
    room.announce();
    room.carry();
    assert_eq!(trusted(&room), [0, 0]);
    for (_, entry) in &room.entries {
        let news = std::iter::from_fn(|| entry.news.pop());
        let untrusted = news.filter(|news| matches!(news, EntryNews::Untrusted { .. }));
        assert_eq!(untrusted.count(), 2);
    }
}

/// The packet with each byte changed, cut at each length, and with more behind it.
fn changed(packet: &[u8]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    // The hop is anybody's to change.
    for at in (0..packet.len()).filter(|at| *at != HOP_AT) {
        for bit in 0..8 {
            let mut changed = packet.to_vec();
            changed[at] ^= 1 << bit;
            all.push(changed);
        }
        all.push(packet[..at].to_vec());
    }
    all.push([packet, &[0]].concat());
    all
}

// Rules R-SEC-1, R-SEC-2.
#[test]
fn no_changed_packet_of_a_session_or_an_epoch_is_believed() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::new(&root, &[ONE, TWO]);
    room.settle();
    let mut to_service = room.for_service(0, &frame(ONE)).unwrap();
    for mut packet in changed(&to_service) {
        assert!(room.gate.open(address(ONE), &mut packet).is_err());
    }
    assert!(room.gate.open(address(ONE), &mut to_service).is_ok());

    let (mut to_node, mut to_member) = (Vec::new(), Vec::new());
    assert!(room.gate.seal(address(ONE), &beacon(), &mut to_node));
    let two = &mut room.entries[1].1;
    assert!(two.seal(address(ONE), &data(TWO), &mut to_member));
    for (from, sealed) in [(SERVICE, to_node), (TWO, to_member)] {
        let one = &mut room.entries[0].1;
        for mut packet in changed(&sealed) {
            assert!(one.open(address(from), &mut packet).is_err());
        }
        let opened = one.open(address(from), &mut sealed.clone());
        assert!(matches!(opened, Ok(Opened::Datagram(_))));
    }
}

/// Packets that go to one member, of this one.
fn for_one(node: NodeId) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for kind in Kind::ALL {
        let mut packet = Vec::new();
        header(node).encode(*kind, &mut packet);
        packet.extend_from_slice(&[0; 40]);
        seal(&mut packet, Coverage::Whole);
        if Way::of_plain(&packet) == Way::Member {
            all.push(packet);
        }
    }
    all
}

impl Room {
    /// Carries what members say to each other, and all that follows.
    fn introduce(&mut self) {
        loop {
            let mut said = Vec::new();
            for (node, entry) in &mut self.entries {
                while let Some(own) = entry.poll_transmit() {
                    said.push((*node, own));
                }
            }
            if said.is_empty() && !self.carry_to_nodes() {
                return;
            }
            for (from, own) in said {
                self.bring(from, own);
            }
        }
    }

    /// Brings what a node says to where it is for.
    fn bring(&mut self, from: NodeId, mut own: OwnDatagram) {
        let mut entries = self.entries.iter_mut();
        let Some((node, entry)) = entries.find(|(node, _)| address(*node) == own.to) else {
            self.gate.open(address(from), &mut own.bytes).ok();
            return;
        };
        let opened = entry.open(address(from), &mut own.bytes);
        if matches!(opened, Ok(Opened::Datagram(_))) {
            self.given.push(*node);
        }
    }

    /// Packet that a node seals for another one at once.
    fn for_member(&mut self, at: usize, to: NodeId, packet: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = Vec::new();
        let entry = &mut self.entries[at].1;
        let leaves = entry.seal(address(to), packet, &mut sealed);
        leaves.then_some(sealed)
    }
}

// Rules R-SEC-15, R-SEC-16.
#[test]
fn what_goes_to_one_member_waits_for_its_key_and_is_not_lost() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::crowded(&root, &[ONE, TWO]);
    room.settle();
    room.given.clear();
    let packets = for_one(ONE);
    for packet in &packets {
        assert_eq!(room.for_member(0, TWO, packet), None);
    }
    room.introduce();
    assert_eq!(room.given, vec![TWO; packets.len()]);
    // From now on at once, in both directions, and in as many bytes as by the epoch.
    for (at, from, to) in [(0, ONE, TWO), (1, TWO, ONE)] {
        for packet in for_one(from) {
            room.for_member(at, to, &packet);
            room.introduce();
            let mut sealed = room.for_member(at, to, &packet).unwrap();
            let grown = packet.len() + TAIL_BYTES;
            assert_eq!(sealed.len(), grown);
            let entry = &mut room.entries[1 - at].1;
            let opened = entry.open(address(from), &mut sealed.clone());
            assert_eq!(opened, Ok(Opened::Datagram(packet.len())));
            let opened = entry.open(address(from), &mut sealed);
            assert_eq!(opened, Err(Refusal::Replayed));
        }
    }
}

// Rule R-SEC-15.
#[test]
fn a_member_says_nothing_to_one_in_anothers_name() {
    const THREE: NodeId = NodeId(192);
    let root = ClusterRoot::generate().unwrap();
    // Of the fourth one the insider has the keys alone: a sealer seals for one maker.
    let mut room = Room::new(&root, &[ONE, TWO, THREE, NodeId(256)]);
    room.settle();
    for _ in 0..100 {
        let heard_before = for_one(ONE).swap_remove(0);
        let fourth = &mut room.entries[3].1;
        fourth.epochs.seal(&heard_before, &mut Vec::new()).unwrap();
    }
    for (at, from, to) in [(0, ONE, TWO), (2, THREE, TWO), (2, THREE, ONE)] {
        room.for_member(at, to, &for_one(from)[0]);
        room.introduce();
    }
    // No counter of the insider's is one that was heard of who it poses for.
    for _ in 0..100 {
        room.for_member(2, TWO, &for_one(THREE)[0]).unwrap();
    }
    for (posed, own) in for_one(ONE).iter().zip(for_one(THREE)) {
        // The insider's own is taken.
        let mut honest = room.for_member(2, TWO, &own).unwrap();
        // By the key of all, by its own pair, and by its pair with who is posed for.
        let mut by_epoch = Vec::new();
        room.entries[3].1.epochs.seal(posed, &mut by_epoch).unwrap();
        let mut by_pair = room.for_member(2, TWO, &own).unwrap();
        by_pair[8..16].copy_from_slice(&ONE.0.to_le_bytes());
        let mut with_one = room.for_member(2, ONE, &own).unwrap();
        with_one[8..16].copy_from_slice(&ONE.0.to_le_bytes());
        let mut renamed = by_epoch.clone();
        for byte in &mut renamed[20..24] {
            *byte = !*byte;
        }
        let two = &mut room.entries[1].1;
        for forged in [&mut by_epoch, &mut by_pair, &mut with_one, &mut renamed] {
            let opened = two.open(address(ONE), forged);
            assert_eq!(opened, Err(Refusal::Forged));
        }
        let opened = two.open(address(THREE), &mut honest);
        assert_eq!(opened, Ok(Opened::Datagram(own.len())));
    }
}

/// Where all listen.
fn everybody() -> SocketAddr {
    SocketAddr::from(([239, 1, 1, 1], 1))
}

/// A call to a round.
fn call(node: NodeId) -> Vec<u8> {
    let header = header(node);
    let head = TokenHead {
        region: RegionId(1),
        view: ViewNumber(1),
        leader: header.origin,
        round: 1 << 40,
        level: CALL,
        ring: 0,
        visited: 0,
        rate_packets: u32::MAX,
        credit_bytes: u32::MAX,
    };
    let mut packet = Vec::new();
    TokenWriter::new(&header, &head, &[], 1400, &mut packet);
    seal(&mut packet, Coverage::Whole);
    packet
}

/// Packets that go to all, of this node: one of each kind that is no data.
fn for_all(node: NodeId) -> Vec<Vec<u8>> {
    let mut all = vec![call(node)];
    for kind in [
        Kind::Heartbeat,
        Kind::Summary,
        Kind::ReachReply,
        Kind::Parity,
    ] {
        let mut packet = Vec::new();
        header(node).encode(kind, &mut packet);
        packet.extend_from_slice(&[0; 40]);
        seal(&mut packet, Coverage::Whole);
        all.push(packet);
    }
    assert!(all.iter().all(|it| Way::of_plain(it) == Way::Signed));
    all
}

impl Room {
    /// Packet that a node seals for all.
    fn for_all(&mut self, at: usize, packet: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::new();
        let entry = &mut self.entries[at].1;
        assert!(entry.seal(everybody(), packet, &mut sealed));
        let growth = entry.growth(everybody(), packet);
        assert_eq!(sealed.len(), packet.len() + growth);
        sealed
    }
}

// Rule R-SEC-17.
#[test]
fn a_member_says_nothing_to_all_in_anothers_name() {
    const THREE: NodeId = NodeId(192);
    let root = ClusterRoot::generate().unwrap();
    // Of the last ones the insider has the keys alone: a sealer seals for one maker.
    let mut room = Room::new(&root, &[ONE, TWO, THREE, NodeId(256), NodeId(320)]);
    room.settle();
    // It says more in the other's name than that one does, and what it says moves no window.
    for (at, seals) in [(3, false), (4, true)] {
        for posed in for_all(ONE).iter().cycle().take(2000) {
            let mut sealed = Vec::new();
            let insider = &mut room.entries[at].1;
            let result = match seals {
                true => insider.epochs.seal(posed, &mut sealed),
                false => insider
                    .epochs
                    .seal_signed(&insider.signer, posed, &mut sealed),
            };
            result.unwrap();
            let two = &mut room.entries[1].1;
            let opened = two.open(address(ONE), &mut sealed);
            assert!(
                matches!(opened, Err(Refusal::Forged | Refusal::Unchecked)),
                "{opened:?}"
            );
        }
    }
    for (own, theirs) in for_all(ONE).iter().zip(for_all(THREE)) {
        let mut honest = room.for_all(0, own);
        let mut renamed = room.for_all(2, &theirs);
        renamed[8..16].copy_from_slice(&ONE.0.to_le_bytes());
        let two = &mut room.entries[1].1;
        let opened = two.open(address(THREE), &mut renamed);
        assert!(matches!(
            opened,
            Err(Refusal::Forged | Refusal::Unchecked | Refusal::Replayed)
        ));
        // From where it was never heard there may be too many checks; who was believed has its own.
        two.checks.believe(Instant::now(), ONE, address(ONE));
        let opened = two.open(address(ONE), &mut honest.clone());
        assert_eq!(opened, Ok(Opened::Datagram(own.len())));
        let opened = two.open(address(ONE), &mut honest);
        assert_eq!(opened, Err(Refusal::Replayed));
    }
}

// Rule R-SEC-17.
#[test]
fn a_token_that_calls_nobody_is_not_believed_of_all() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::new(&root, &[ONE, TWO]);
    room.settle();
    let mut tokens = for_one(ONE).into_iter();
    let token = tokens.find(|it| Kind::peek(it) == Some(Kind::Token));
    let mut sealed = Vec::new();
    let one = &mut room.entries[0].1;
    let result = one
        .epochs
        .seal_signed(&one.signer, &token.unwrap(), &mut sealed);
    result.unwrap();
    let two = &mut room.entries[1].1;
    assert_eq!(two.open(address(ONE), &mut sealed), Err(Refusal::Forged));
}

// Rule R-SEC-17.
#[test]
fn one_signature_is_made_for_all_copies_and_none_for_what_goes_to_one() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::new(&root, &[ONE, TWO]);
    room.settle();
    for packet in for_all(ONE) {
        let of_all = room.for_all(0, &packet);
        let mut copy = packet.clone();
        Hop::Copy.stamp(&mut copy);
        let mut copied = room.for_member(0, TWO, &copy).unwrap();
        assert_eq!(copied[HOP_AT + 1..], of_all[HOP_AT + 1..]);
        let again = room.for_member(0, TWO, &copy).unwrap();
        assert_ne!(again, copied, "it is said again");
        let mut to_one = room.for_member(0, TWO, &packet).unwrap();
        assert_eq!(to_one.len(), packet.len() + TAIL_BYTES);
        let two = &mut room.entries[1].1;
        let opened = two.open(address(ONE), &mut copied);
        assert_eq!(opened, Ok(Opened::Datagram(packet.len())));
        let opened = two.open(address(ONE), &mut of_all.clone());
        assert_eq!(opened, Err(Refusal::Replayed));
        let opened = two.open(address(ONE), &mut to_one);
        assert_eq!(opened, Ok(Opened::Datagram(packet.len())));
    }
}

// Rules R-SEC-16, R-SEC-17.
#[test]
fn who_is_heard_for_the_first_time_is_asked_for() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::crowded(&root, &[ONE, TWO]);
    room.settle();
    let packet = call(ONE);
    let mut first = room.for_all(0, &packet);
    let two = &mut room.entries[1].1;
    assert_eq!(two.open(address(ONE), &mut first), Err(Refusal::Unkeyed));
    room.introduce();
    let mut next = room.for_all(0, &packet);
    let two = &mut room.entries[1].1;
    let opened = two.open(address(ONE), &mut next);
    assert_eq!(opened, Ok(Opened::Datagram(packet.len())));
    // Its own multicast, which comes back, is nobody's news.
    let mut own = room.for_all(0, &packet);
    let one = &mut room.entries[0].1;
    assert_eq!(one.open(address(ONE), &mut own), Ok(Opened::Own));
}

// Rules R-SEC-6, R-SEC-14, R-SEC-16: round trips of first contact.
#[test]
fn a_node_is_in_after_three_round_trips_and_speaks_to_others_without_one_more() {
    let root = ClusterRoot::generate().unwrap();
    let mut room = Room::new(&root, &[ONE, TWO]);
    room.announce();
    let mut round_trips = 0;
    while room.entries[0].1.sessions.is_empty() {
        room.carry_to_service();
        room.carry_to_nodes();
        round_trips += 1;
        assert!(round_trips < 10);
    }
    assert_eq!(round_trips, 3);
    room.settle();
    for (at, from, to) in [(0, ONE, TWO), (1, TWO, ONE)] {
        for packet in for_one(from) {
            let mut sealed = room.for_member(at, to, &packet).unwrap();
            let entry = &mut room.entries[1 - at].1;
            let opened = entry.open(address(from), &mut sealed);
            assert_eq!(opened, Ok(Opened::Datagram(packet.len())));
        }
        let packet = call(from);
        let mut sealed = room.for_all(at, &packet);
        let entry = &mut room.entries[1 - at].1;
        let opened = entry.open(address(from), &mut sealed);
        assert_eq!(opened, Ok(Opened::Datagram(packet.len())));
    }
    assert!(room.entries.iter().all(|(_, entry)| entry.own.is_empty()));
}
