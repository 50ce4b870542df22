//! Keys change while packets are sent, lost and repaired: nothing is lost by it, and who has gone reads nothing more.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use qsm_seal::{
    ACTIVATE_AFTER, Cipher, Epoch, EpochIssuer, EpochOrder, EpochReceipt, Epochs, FORMER_FOR,
    Leaving, OpenError, SPACING, SealError, Silent, Told,
};
use qsm_wire::{HOP_AT, NodeId};

const FIRST: Epoch = Epoch(1);

fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

/// A data packet with its number as content.
fn data(node: NodeId, sequence: u64) -> Vec<u8> {
    support::data(node.0, sequence, &sequence.to_le_bytes())
}

fn question(node: NodeId) -> Vec<u8> {
    support::question(node.0)
}

fn sealed(epochs: &mut Epochs, packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    epochs.seal(packet, &mut bytes).unwrap();
    bytes
}

fn opened(epochs: &mut Epochs, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut bytes = sealed.to_vec();
    let length = epochs.open(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

/// A service and members whose orders and receipts take no time.
struct Cluster {
    issuer: EpochIssuer,
    members: BTreeMap<NodeId, Epochs>,
    /// Members that take orders and send no receipts.
    mute: BTreeSet<NodeId>,
    now: Duration,
}

impl Cluster {
    fn new(members: u64) -> Self {
        let mut cluster = Self {
            issuer: EpochIssuer::new(ms(0), Cipher::default(), FIRST).unwrap(),
            members: BTreeMap::new(),
            mute: BTreeSet::new(),
            now: ms(0),
        };
        for node in 1..=members {
            cluster.join(NodeId(node));
        }
        cluster
    }

    fn join(&mut self, node: NodeId) {
        self.members.insert(node, Epochs::new());
        self.issuer.join(self.now, node).unwrap();
        self.wait(ms(100));
    }

    fn leave(&mut self, node: NodeId, why: Leaving) -> Epochs {
        let gone = self.members.remove(&node).unwrap();
        self.issuer.leave(self.now, node, why).unwrap();
        self.pass();
        gone
    }

    fn pass(&mut self) {
        while let Some(Told { node, order }) = self.issuer.poll_order() {
            let bytes = order.encode();
            let order = EpochOrder::decode(&bytes).unwrap();
            let Some(member) = self.members.get_mut(&node) else {
                continue;
            };
            let receipt = member.take(self.now, order);
            if let Some(receipt) = receipt.filter(|_| !self.mute.contains(&node)) {
                let receipt = EpochReceipt::decode(&receipt.encode()).unwrap();
                self.issuer.take(self.now, node, receipt).unwrap();
            }
        }
    }

    /// Lets so much time pass.
    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        self.pass();
        while let Some(at) = self.issuer.next_tick().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            self.issuer.tick(self.now).unwrap();
            self.pass();
        }
        self.now = end;
        for member in self.members.values_mut() {
            member.tick(end);
        }
    }

    fn member(&mut self, node: u64) -> &mut Epochs {
        self.members.get_mut(&NodeId(node)).unwrap()
    }

    fn actives(&self) -> BTreeSet<Option<Epoch>> {
        self.members.values().map(Epochs::active).collect()
    }
}

// Rule R-SEC-9.
#[test]
fn who_joins_reads_what_comes_and_nothing_of_before() {
    let mut cluster = Cluster::new(2);
    let before = sealed(cluster.member(1), &data(NodeId(1), 1));
    cluster.join(NodeId(3));
    let after = sealed(cluster.member(1), &data(NodeId(1), 2));
    for node in [2, 3] {
        assert_eq!(opened(cluster.member(node), &after), Ok(data(NodeId(1), 2)));
    }
    assert_eq!(opened(cluster.member(2), &before), Ok(data(NodeId(1), 1)));
    assert!(matches!(
        opened(cluster.member(3), &before),
        Err(OpenError::OtherKey(_))
    ));
    assert_eq!(cluster.actives().len(), 1);
}

// Rule R-SEC-9.
#[test]
fn members_derive_the_key_of_a_join_and_are_given_that_of_a_leave() {
    let mut cluster = Cluster::new(3);
    cluster.issuer.join(cluster.now, NodeId(4)).unwrap();
    let told: Vec<_> = std::iter::from_fn(|| cluster.issuer.poll_order()).collect();
    let derived = |told: &Told| matches!(told.order, EpochOrder::Ratchet { .. });
    assert_eq!(
        told.iter().map(derived).collect::<Vec<_>>(),
        [true, true, true, false]
    );
    let mut cluster = Cluster::new(3);
    cluster
        .issuer
        .leave(cluster.now, NodeId(3), Leaving::Left)
        .unwrap();
    let told: Vec<_> = std::iter::from_fn(|| cluster.issuer.poll_order()).collect();
    assert_eq!(told.len(), 2);
    assert!(!told.iter().any(derived));
}

// Rule R-SEC-9.
#[test]
fn who_is_expelled_opens_nothing_that_is_sealed_after_the_activation() {
    for why in [Leaving::Expelled, Leaving::Crashed, Leaving::Left] {
        let mut cluster = Cluster::new(3);
        cluster.wait(ms(2000));
        let before = sealed(cluster.member(1), &data(NodeId(1), 1));
        let mut gone = cluster.leave(NodeId(3), why);
        cluster.wait(ms(30));
        let after = sealed(cluster.member(1), &data(NodeId(1), 2));
        let control = sealed(cluster.member(1), &question(NodeId(1)));
        assert_eq!(opened(&mut gone, &before), Ok(data(NodeId(1), 1)));
        for bytes in [&after, &control] {
            assert!(matches!(
                opened(&mut gone, bytes),
                Err(OpenError::OtherKey(_))
            ));
            assert!(opened(cluster.member(2), bytes).is_ok());
        }
    }
}

// Rule R-SEC-9.
#[test]
fn a_key_that_the_expelled_was_offered_is_never_used() {
    let mut cluster = Cluster::new(3);
    cluster.wait(ms(2000));
    // Somebody does not answer, so that the next epoch is not active at once.
    cluster.mute.insert(NodeId(2));
    cluster.issuer.renew(cluster.now).unwrap();
    cluster.pass();
    let before = cluster.issuer.active();
    let mut expelled = cluster.leave(NodeId(3), Leaving::Expelled);
    cluster.wait(ms(1000));
    assert_eq!(cluster.issuer.active(), Epoch(before.0 + 2));
    let packet = sealed(cluster.member(1), &data(NodeId(1), 1));
    // Also not if it activates what it has.
    let offered = Epoch(before.0 + 1);
    expelled.take(cluster.now, EpochOrder::Activate { epoch: offered });
    assert_eq!(expelled.active(), Some(offered));
    assert!(matches!(
        opened(&mut expelled, &packet),
        Err(OpenError::OtherKey(_))
    ));
    assert_eq!(opened(cluster.member(2), &packet), Ok(data(NodeId(1), 1)));
    // And who stayed has given up that key.
    let held: Vec<Epoch> = cluster.member(2).held().collect();
    assert!(!held.contains(&offered), "{held:?}");
}

// Rule R-SEC-9.
#[test]
fn a_member_that_does_not_answer_is_named_and_holds_up_nobody_for_long() {
    let mut cluster = Cluster::new(3);
    cluster.wait(ms(2000));
    cluster.mute.insert(NodeId(2));
    let before = cluster.issuer.active();
    cluster.leave(NodeId(3), Leaving::Crashed);
    cluster.wait(ACTIVATE_AFTER - ms(1));
    assert_eq!(cluster.issuer.active(), before);
    assert_eq!(cluster.issuer.poll_silent(), None);
    cluster.wait(ms(1));
    let epoch = Epoch(before.0 + 1);
    assert_eq!(cluster.issuer.active(), epoch);
    let silent = Silent {
        node: NodeId(2),
        epoch,
    };
    assert_eq!(cluster.issuer.poll_silent(), Some(silent));
    // Once for an epoch.
    cluster.wait(ms(5000));
    assert_eq!(cluster.issuer.poll_silent(), None);
}

// Rule R-SEC-10.
#[test]
fn a_former_epoch_is_open_for_five_seconds_and_until_its_views_are_drained() {
    for drained_late in [false, true] {
        let mut cluster = Cluster::new(2);
        let old = sealed(cluster.member(1), &data(NodeId(1), 1));
        let number = cluster.issuer.active();
        cluster.issuer.renew(cluster.now).unwrap();
        cluster.wait(ms(50));
        assert_eq!(cluster.issuer.active(), Epoch(number.0 + 1));
        let opens = |cluster: &mut Cluster| opened(cluster.member(2), &old).is_ok();
        let drain = |cluster: &mut Cluster| {
            let active = cluster.issuer.active();
            cluster.member(2).drained(active);
        };
        if !drained_late {
            drain(&mut cluster);
        }
        cluster.wait(FORMER_FOR - ms(51));
        assert!(opens(&mut cluster));
        cluster.wait(ms(100));
        if drained_late {
            cluster.wait(ms(60_000));
            assert!(opens(&mut cluster));
            drain(&mut cluster);
            cluster.wait(ms(0));
        }
        assert!(!opens(&mut cluster));
    }
}

// Rule R-SEC-11.
#[test]
fn a_repair_has_the_bytes_of_the_epoch_that_its_packet_was_sent_in() {
    let mut cluster = Cluster::new(3);
    let mut sent = Vec::new();
    for sequence in 1..=20 {
        let packet = data(NodeId(1), sequence);
        let bytes = sealed(cluster.member(1), &packet);
        assert_eq!(opened(cluster.member(2), &bytes).unwrap(), packet);
        sent.push(bytes);
        cluster.issuer.renew(cluster.now).unwrap();
        cluster.wait(SPACING);
    }
    let epochs: BTreeSet<&[u8]> = sent.iter().map(|bytes| &bytes[20..24]).collect();
    assert_eq!(epochs.len(), sent.len());
    for (sequence, bytes) in (1..).zip(&sent) {
        for node in [1, 2] {
            let again = sealed(cluster.member(node), &data(NodeId(1), sequence));
            assert_eq!(again, *bytes, "of {sequence} by {node}");
        }
        assert!(opened(cluster.member(3), bytes).is_ok());
    }
    // When its epoch is over it is sealed in a later one: others have given up the old key, too.
    cluster.wait(FORMER_FOR);
    let active = cluster.issuer.active();
    for node in 1..=3 {
        cluster.member(node).drained(active);
    }
    cluster.wait(ms(1));
    let again = sealed(cluster.member(2), &data(NodeId(1), 1));
    assert_ne!(again, sent[0]);
    assert_eq!(opened(cluster.member(3), &again), Ok(data(NodeId(1), 1)));
}

#[test]
fn without_a_key_nothing_is_sealed_or_opened() {
    let mut epochs = Epochs::new();
    let packet = data(NodeId(1), 1);
    assert_eq!(epochs.seal(&packet, &mut Vec::new()), Err(SealError::NoKey));
    assert_eq!(opened(&mut epochs, &packet), Err(OpenError::Plain));
    assert_eq!(opened(&mut epochs, &[]), Err(OpenError::Short));
    let epoch = Epoch(4);
    assert_eq!(
        epochs.take(ms(0), EpochOrder::Ratchet { epoch, of: FIRST }),
        None
    );
    assert_eq!(epochs.take(ms(0), EpochOrder::Activate { epoch }), None);
    assert_eq!(epochs.active(), None);
}

#[test]
fn receipts_of_what_was_never_made_change_nothing() {
    let mut cluster = Cluster::new(2);
    cluster.wait(ms(2000));
    cluster.mute.insert(NodeId(2));
    cluster.issuer.renew(cluster.now).unwrap();
    cluster.pass();
    for epoch in [Epoch(1), Epoch(u64::MAX)] {
        let receipt = EpochReceipt { epoch };
        for node in [2, 99] {
            cluster
                .issuer
                .take(cluster.now, NodeId(node), receipt)
                .unwrap();
        }
    }
    assert!(cluster.issuer.is_changing());
}

/// Members that leave cost an epoch a second, however many they are; joins in between are let in with them.
#[test]
fn churn_is_taken_together() {
    let mut cluster = Cluster::new(50);
    cluster.wait(ms(2000));
    let before = cluster.issuer.active();
    for node in 1..=40 {
        cluster.leave(NodeId(node), Leaving::Left);
        cluster.wait(ms(50));
    }
    cluster.wait(ms(1000));
    let made = cluster.issuer.active().0 - before.0;
    assert!((3..=4).contains(&made), "{made} epochs");
}

// Drawn runs.

/// Draws numbers (`splitmix64`, Steele and others 2014).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % bound
    }

    /// 5 % loss.
    fn lost(&mut self) -> bool {
        self.below(100) < 5
    }
}

/// Session: all in order and whole; what is lost is sent again 30 ms later.
struct Session {
    last: Duration,
}

impl Session {
    fn arrival(&mut self, now: Duration, draws: &mut Draws) -> Duration {
        let mut at = now + ms(1) + Duration::from_micros(draws.below(19_000));
        while draws.lost() {
            at += ms(30);
        }
        self.last = self.last.max(at);
        self.last
    }
}

enum Arrival {
    Order(Told),
    Receipt(NodeId, EpochReceipt),
    Packet(NodeId, usize),
}

struct Node {
    epochs: Epochs,
    down: Session,
    up: Session,
    sequence: u64,
    /// The epoch with whose activation the first view comes that it is in.
    since: Option<Epoch>,
}

struct Packet {
    plain: Vec<u8>,
    bytes: Vec<u8>,
    wanted_by: BTreeSet<NodeId>,
    had_by: Vec<NodeId>,
    sent_at: Duration,
    epoch: Epoch,
}

/// Members that send, lose and repair while the key changes.
struct Model {
    draws: Draws,
    issuer: EpochIssuer,
    nodes: BTreeMap<NodeId, Node>,
    expelled: Vec<(Epochs, Epoch)>,
    flying: BTreeMap<(Duration, u64), Arrival>,
    packets: BTreeMap<usize, Packet>,
    numbers: u64,
    sent: usize,
    now: Duration,
    repaired: u64,
    repaired_in_former: u64,
    unreadable: u64,
    most_held: usize,
}

impl Model {
    fn new(nodes: u64, seed: u64) -> Self {
        let mut model = Self {
            draws: Draws(seed),
            issuer: EpochIssuer::new(ms(0), Cipher::default(), FIRST).unwrap(),
            nodes: BTreeMap::new(),
            expelled: Vec::new(),
            flying: BTreeMap::new(),
            packets: BTreeMap::new(),
            numbers: 0,
            sent: 0,
            now: ms(0),
            repaired: 0,
            repaired_in_former: 0,
            unreadable: 0,
            most_held: 0,
        };
        for _ in 0..nodes {
            model.join();
        }
        model
    }

    fn fly(&mut self, at: Duration, arrival: Arrival) {
        self.numbers += 1;
        self.flying.insert((at, self.numbers), arrival);
    }

    fn join(&mut self) {
        self.numbers += 1;
        let node = Node {
            epochs: Epochs::new(),
            down: Session { last: ms(0) },
            up: Session { last: ms(0) },
            sequence: 0,
            since: None,
        };
        let id = NodeId(self.numbers);
        self.nodes.insert(id, node);
        self.issuer.join(self.now, id).unwrap();
    }

    fn some_node(&mut self) -> NodeId {
        let at = usize::try_from(self.draws.below(self.nodes.len() as u64)).unwrap();
        *self.nodes.keys().nth(at).unwrap()
    }

    fn leave(&mut self, why: Leaving) {
        let id = self.some_node();
        let node = self.nodes.remove(&id).unwrap();
        for packet in self.packets.values_mut() {
            packet.wanted_by.remove(&id);
            packet.had_by.retain(|had| *had != id);
        }
        let newest = node.epochs.held().last().unwrap_or_default();
        if why == Leaving::Expelled {
            self.expelled.push((node.epochs, newest));
            if self.expelled.len() > 3 {
                self.expelled.remove(0);
            }
        }
        self.issuer.leave(self.now, id, why).unwrap();
    }

    fn pass_orders(&mut self) {
        while let Some(told) = self.issuer.poll_order() {
            if let Some(node) = self.nodes.get_mut(&told.node) {
                if let EpochOrder::Activate { epoch } = told.order {
                    node.since.get_or_insert(epoch);
                }
                let at = node.down.arrival(self.now, &mut self.draws);
                self.fly(at, Arrival::Order(told));
            }
        }
    }

    /// A member sends a packet to all that its view has.
    fn send(&mut self) {
        let from = self.some_node();
        let node = self.nodes.get_mut(&from).unwrap();
        let Some(active) = node.epochs.active() else {
            return;
        };
        node.sequence += 1;
        let plain = data(from, node.sequence);
        let bytes = sealed(&mut node.epochs, &plain);
        for (epochs, newest) in &mut self.expelled {
            if active > *newest {
                assert!(matches!(
                    opened(epochs, &bytes),
                    Err(OpenError::OtherKey(_))
                ));
                self.unreadable += 1;
            }
        }
        let in_view = |node: &Node| node.since.is_some_and(|since| since <= active);
        let to = self.nodes.iter().filter(|(_, node)| in_view(node));
        let wanted_by: BTreeSet<NodeId> = to.map(|(to, _)| *to).filter(|to| *to != from).collect();
        self.sent += 1;
        for to in wanted_by.iter().copied() {
            let delay = ms(1) + Duration::from_micros(self.draws.below(19_000));
            // What is lost is repaired, sometimes seconds later.
            let delay = match self.draws.below(100) {
                0 => ms(4000 + 4000 * self.draws.below(2)),
                1..5 => ms(60),
                _ => delay,
            };
            self.fly(self.now + delay, Arrival::Packet(to, self.sent));
        }
        let packet = Packet {
            plain,
            bytes,
            wanted_by,
            had_by: vec![from],
            sent_at: self.now,
            epoch: active,
        };
        self.packets.insert(self.sent, packet);
    }

    /// Packets that come late come from somebody who has them, and seals them again.
    fn deliver(&mut self, to: NodeId, number: usize) {
        let Some(packet) = self.packets.get_mut(&number) else {
            return;
        };
        if !packet.wanted_by.contains(&to) {
            return;
        }
        let mut bytes = packet.bytes.clone();
        if self.now > packet.sent_at + ms(20) && !packet.had_by.is_empty() {
            let bound = packet.had_by.len() as u64;
            let at = usize::try_from(self.draws.below(bound)).unwrap();
            let repairer = self.nodes.get_mut(&packet.had_by[at]).unwrap();
            bytes = sealed(&mut repairer.epochs, &packet.plain);
            assert_eq!(bytes, packet.bytes);
            self.repaired += 1;
            // What it says itself is sealed in the active epoch.
            let own = sealed(&mut repairer.epochs, &question(packet.had_by[at]));
            self.repaired_in_former += u64::from(own[20..24] != bytes[20..24]);
        }
        let node = self.nodes.get_mut(&to).unwrap();
        // Neither too early for its key nor too late.
        assert_eq!(opened(&mut node.epochs, &bytes).as_ref(), Ok(&packet.plain));
        packet.wanted_by.remove(&to);
        packet.had_by.push(to);
    }

    fn arrive(&mut self, arrival: Arrival) {
        match arrival {
            Arrival::Packet(to, number) => self.deliver(to, number),
            Arrival::Receipt(from, receipt) => self.issuer.take(self.now, from, receipt).unwrap(),
            Arrival::Order(Told { node: id, order }) => {
                let Some(node) = self.nodes.get_mut(&id) else {
                    return;
                };
                if let Some(receipt) = node.epochs.take(self.now, order) {
                    let at = node.up.arrival(self.now, &mut self.draws);
                    self.fly(at, Arrival::Receipt(id, receipt));
                }
            }
        }
    }

    /// Goes on to that time.
    fn run(&mut self, end: Duration) {
        loop {
            self.pass_orders();
            let arrival = self.flying.keys().next().map(|(at, _)| *at);
            let next = [arrival, self.issuer.next_tick()]
                .into_iter()
                .flatten()
                .min();
            let Some(next) = next.filter(|next| *next <= end) else {
                break;
            };
            self.now = self.now.max(next);
            if arrival == Some(next) {
                let (_, arrival) = self.flying.pop_first().unwrap();
                self.arrive(arrival);
            }
            self.issuer.tick(self.now).unwrap();
        }
        self.now = end;
        self.packets
            .retain(|_, packet| !packet.wanted_by.is_empty());
        // A view is drained when all has come that was sent in it.
        let waited_for = self.packets.values().map(|packet| packet.epoch).min();
        for node in self.nodes.values_mut() {
            let drained = waited_for.or_else(|| node.epochs.active());
            node.epochs.drained(drained.unwrap_or_default());
            node.epochs.tick(end);
            self.most_held = self.most_held.max(node.epochs.held().count());
        }
    }
}

// Rules R-SEC-9 to R-SEC-11.
#[test]
fn ten_thousand_epochs_under_loss_lose_no_packet() {
    let mut model = Model::new(5, 11);
    model.run(ms(5000));
    let first = model.issuer.active();
    let mut sent = 0_u64;
    while model.issuer.active().0 < first.0 + 10_000 {
        match model.draws.below(40) {
            0..4 if model.nodes.len() < 7 => model.join(),
            4..6 if model.nodes.len() > 4 => model.leave(Leaving::Left),
            6 if model.nodes.len() > 4 => model.leave(Leaving::Crashed),
            7..9 if model.nodes.len() > 4 => model.leave(Leaving::Expelled),
            9..19 => model.issuer.renew(model.now).unwrap(),
            _ => {}
        }
        model.send();
        sent += 1;
        let next = model.now + ms(1 + model.draws.below(50));
        model.run(next);
        assert_eq!(model.issuer.poll_silent(), None);
    }
    let end = model.now + ms(10_000);
    model.run(end);
    assert!(model.packets.is_empty());
    // Those of 5 s, and of the 8 s of the latest repairs.
    assert!(model.most_held < 128, "{} keys at a time", model.most_held);
    // The run has had what it is about.
    assert!(sent > 20_000, "{sent} sent");
    assert!(model.repaired > 1_000, "{} repaired", model.repaired);
    assert!(
        model.repaired_in_former > 500,
        "{}",
        model.repaired_in_former
    );
    assert!(model.unreadable > 1_000, "{}", model.unreadable);
}

// Rule R-SEC-9.
#[test]
fn a_thousand_nodes_have_a_new_key_within_half_a_second() {
    let mut model = Model::new(1000, 5);
    model.run(ms(5000));
    let mut times = Vec::new();
    for _ in 0..100 {
        let began = model.now;
        let before = model.issuer.active();
        model.leave(Leaving::Expelled);
        model.join();
        while model.issuer.active() == before {
            let next = model.now + ms(1);
            model.run(next);
        }
        times.push(model.now - began);
        // All of them, and not because the time was over.
        assert_eq!(model.issuer.poll_silent(), None);
        let settled = model.now + ms(1500);
        model.run(settled);
        let active = model.issuer.active();
        let all = model.nodes.values().map(|node| node.epochs.active());
        assert!(all.into_iter().all(|of_node| of_node == Some(active)));
    }
    times.sort();
    let p99 = times[98];
    println!("a key for 1,000 nodes: median {:?}, p99 {p99:?}", times[50]);
    assert!(p99 < ACTIVATE_AFTER);
}

#[test]
fn a_repair_differs_by_the_hop_alone() {
    let mut cluster = Cluster::new(2);
    let bytes = sealed(cluster.member(1), &data(NodeId(1), 1));
    let mut held = opened(cluster.member(2), &bytes).unwrap();
    held[HOP_AT] = 3;
    let mut again = sealed(cluster.member(2), &held);
    again[HOP_AT] = bytes[HOP_AT];
    assert_eq!(again, bytes);
}
