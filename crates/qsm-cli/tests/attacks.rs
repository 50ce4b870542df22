//! Attacks on a cluster that takes tokens, as processes: each that ends the traffic of an open one has no effect but on
//! counters.

mod attack;
mod plant;
mod support;

use std::collections::BTreeSet;
use std::io::Write;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use attack::forgeries::{Attack, Known};
use attack::{Insider, Listener, data_number};
use plant::Plant;
use qsm::{NodeRow, Observer, Origin};
use qsm_identity::NodeKey;
use qsm_origin::{SEAL_GROUP, Sealer};
use qsm_wire::{
    ChannelId, Chunk, Coverage, DataHeader, GroupId, Header, Kind, Part, StreamId, cluster_number,
    seal, sealed_by,
};
use support::{Lines, Running, assert_code, stderr};

const PATIENCE: Duration = Duration::from_secs(60);
/// Messages after each attack.
const MESSAGES: u64 = 20;

/// A cluster under attack: a sender, two receivers, and who looks.
struct Target {
    plant: Plant,
    receivers: Vec<(Running, Lines)>,
    sender: Running,
    observer: Observer,
    sent: u64,
}

impl Target {
    fn new() -> Self {
        Self::of(Plant::new())
    }

    fn of(plant: Plant) -> Self {
        Self::receiving(plant, &["news"])
    }

    /// With receivers of these groups.
    fn receiving(plant: Plant, groups: &[&str]) -> Self {
        let key = plant.member("sender", &["--publish", "**"]);
        let words = ["pub", "news", "--wait-members", "2", "--name", "sender"];
        let sender = plant.start_writing(&words, &key);
        let mut observer = plant.observer(&key);
        // It is in the list of names that the receivers get when they come.
        let deadline = Instant::now() + PATIENCE;
        while observer.list_nodes().unwrap().is_empty() {
            assert!(Instant::now() < deadline, "the sender does not come");
            thread::sleep(Duration::from_millis(10));
        }
        let receivers = ["receiver-1", "receiver-2"].map(|name| {
            let key = plant.member(name, &["--subscribe", "**"]);
            let words = [&["sub", "--name", name, "-v"], groups].concat();
            let mut sub = plant.start(&words, &key);
            let lines = Lines::of_stdout(&mut sub.0);
            (sub, lines)
        });
        Self {
            plant,
            receivers: receivers.into(),
            sender,
            observer,
            sent: 0,
        }
    }

    /// Sends messages, which both receivers get, in order and nothing else.
    fn send(&mut self, after: &str) {
        let numbers = self.sent + 1..=self.sent + MESSAGES;
        let input = self.sender.0.stdin.as_mut().unwrap();
        for number in numbers.clone() {
            writeln!(input, "message {number}").unwrap();
        }
        for (_, lines) in &self.receivers {
            for number in numbers.clone() {
                let line = lines.wait(&format!("message {number} after {after}"), |_| true);
                assert_eq!(line, format!("message {number}"), "after {after}");
            }
        }
        self.sent += MESSAGES;
    }

    /// Nodes that are in.
    fn members(&mut self) -> Vec<NodeRow> {
        self.observer.list_nodes().unwrap()
    }

    /// Knowledge of it that a listener can have.
    fn known(&mut self, listener: &mut Listener) -> Known {
        let nodes = self.members();
        let find = |name: &str| -> Vec<Origin> {
            let found = nodes.iter().filter(|row| row.name.starts_with(name));
            found.map(|row| row.origin).collect()
        };
        let regions = self.observer.list_regions().unwrap();
        let region = regions.iter().find(|region| region.members.len() == 2);
        let region = region.unwrap();
        let sender = find("sender")[0];
        let deadline = Instant::now() + PATIENCE;
        let (packet, last) = loop {
            self.send("nothing");
            listener.listen();
            let of_sender = listener.heard.iter().filter_map(|packet| {
                let (stream, number) = data_number(packet)?;
                let own = stream[..8] == sender.node.0.to_le_bytes();
                own.then_some((packet, number))
            });
            if let Some((packet, last)) = of_sender.max_by_key(|(_, number)| *number) {
                break (packet.clone(), last);
            }
            assert!(Instant::now() < deadline, "no data is heard");
        };
        Known {
            cluster: cluster_number(self.plant.cluster.option("--cluster")),
            sender,
            receivers: find("receiver"),
            region: region.region,
            view: region.view,
            channel: ChannelId(u32::from_le_bytes(packet[24..28].try_into().unwrap())),
            last,
            key: sealed_by(&packet).unwrap(),
            rogue: listener.ports.local_addr(),
        }
    }

    /// Addresses that its packets go to.
    fn addresses(&mut self) -> Vec<SocketAddr> {
        let regions = self.observer.list_regions().unwrap();
        let multicast = regions.into_iter().map(|region| region.address);
        let discovery = self.plant.cluster.option("--discovery").parse().unwrap();
        let multicast = multicast.filter(|at| at.ip().is_multicast());
        multicast.chain([discovery]).collect()
    }

    /// Ends it: all came whole, and these counters say that something was refused.
    fn finish(mut self, counters: &[&str]) {
        drop(self.sender.0.stdin.take());
        assert_code(&self.sender.output(), 0);
        for (sub, _) in self.receivers {
            sub.terminate();
            let output = sub.output();
            assert_code(&output, 0);
            let said = stderr(&output);
            for counter in counters {
                assert!(said.contains(counter), "no {counter}: {said}");
            }
            for lost in ["messages_lost", "discard_malformed", "discard_damaged"] {
                assert!(!said.contains(lost), "{said}");
            }
        }
    }
}

fn lives(nodes: &[NodeRow]) -> BTreeSet<(u64, u32, SocketAddr)> {
    let life = |row: &NodeRow| (row.origin.node.0, row.origin.incarnation.0, row.address);
    nodes.iter().map(life).collect()
}

#[test]
fn each_attack_on_an_open_cluster_has_no_effect_on_a_protected_one() {
    let mut target = Target::new();
    target.send("nothing");
    let groups = target.addresses();
    let mut listener = Listener::new(&groups);
    let known = target.known(&mut listener);
    assert_eq!(known.receivers.len(), 2);
    let members = target.members();
    let service = target.plant.service_address();
    let nodes = members.iter().map(|row| row.address).chain([service]);
    let places: Vec<_> = nodes.chain(groups).collect();

    for Attack { name, packets } in known.attacks() {
        listener.listen();
        let seen = listener.heard.iter().filter_map(|it| data_number(it));
        let seen: BTreeSet<_> = seen.collect();
        listener.heard.clear();
        for packet in &packets {
            places.iter().for_each(|to| listener.send(*to, packet));
        }
        target.send(name);
        assert_eq!(lives(&target.members()), lives(&members), "after {name}");
        // Nothing was repeated for who asked, or made others ask.
        listener.listen();
        let own: BTreeSet<_> = packets.iter().collect();
        let heard = listener.heard.iter().filter(|it| !own.contains(it));
        let again = heard.filter_map(|it| data_number(it));
        let again: Vec<_> = again.filter(|it| seen.contains(it)).collect();
        assert!(again.is_empty(), "repeated after {name}: {again:?}");
    }

    target.finish(&["refused_plain", "refused_forged"]);
}

/// Kinds that members send to each other, but for data.
const OF_MEMBERS: [Kind; 15] = [
    Kind::Heartbeat,
    Kind::Nak,
    Kind::Pull,
    Kind::Token,
    Kind::TokenAck,
    Kind::Summary,
    Kind::Ack,
    Kind::StreamQuery,
    Kind::Absent,
    Kind::CatchUp,
    Kind::Reach,
    Kind::ReachReply,
    Kind::NumbersQuery,
    Kind::Numbers,
    Kind::Parity,
];

/// A member with a token of its own that knows all others.
fn insider_of(target: &Target, groups: &[SocketAddr]) -> Insider {
    let key = target.plant.member("insider", &["--subscribe", "**"]);
    let mut insider = Insider::join(&target.plant, &key, groups);
    let deadline = Instant::now() + PATIENCE;
    while insider.members.len() < 3 {
        insider.listen();
        assert!(Instant::now() < deadline, "{:?}", insider.members);
    }
    insider
}

// Rules R-SEC-15, R-SEC-17.
#[test]
fn a_member_that_forges_each_kind_in_others_names_has_no_effect() {
    let mut target = Target::new();
    target.send("nothing");
    let groups = target.addresses();
    let mut insider = insider_of(&target, &groups);
    let known = target.known(&mut insider.listener);
    let members = target.members();
    let nodes = members.iter().map(|row| row.address);
    let places: Vec<_> = nodes.chain(groups).collect();

    let mut forged = BTreeSet::new();
    for Attack { name, packets } in known.of_members() {
        insider.listen();
        insider.listener.heard.clear();
        for packet in &packets {
            forged.extend(Kind::peek(packet));
            for packet in insider.forge(packet) {
                places
                    .iter()
                    .for_each(|to| insider.listener.send(*to, &packet));
            }
        }
        target.send(name);
        assert_eq!(lives(&target.members()), lives(&members), "after {name}");
    }
    assert!(OF_MEMBERS.iter().all(|kind| forged.contains(kind)));
    target.finish(&["refused_forged"]);
}

/// A message in the sender's name as the packet of this number, by who has the keys of a member.
fn in_name(known: &Known, sequence: u64, message: u64) -> Vec<u8> {
    let header = Header {
        cluster: known.cluster,
        origin: known.sender,
        ..Header::default()
    };
    let head = DataHeader {
        channel: known.channel,
        view: known.view,
        sequence,
        view_age: 0,
    };
    let mut packet = Vec::new();
    head.encode(&header, &mut packet);
    let chunk = Chunk {
        group: GroupId(0),
        message: u32::try_from(message).unwrap(),
        part: Part::Whole,
        content: b"forged",
    };
    chunk.encode(&mut packet);
    seal(&mut packet, Coverage::Whole);
    packet
}

/// A member sends the next packets of another one, with its next messages.
fn forge_data(target: &mut Target) {
    target.send("nothing");
    let groups = target.addresses();
    let mut insider = insider_of(target, &groups);
    let known = target.known(&mut insider.listener);
    let nodes = target.members();
    let places = nodes.iter().map(|row| row.address);
    let places: Vec<_> = places.chain(groups).collect();
    insider.listen();
    for ahead in 1..=4 {
        let packet = in_name(&known, known.last + ahead, target.sent + ahead);
        let sealed = insider.forge_data(&packet);
        places
            .iter()
            .for_each(|to| insider.listener.send(*to, &sealed));
    }
}

const NAMED: [&str; 2] = ["packets_forged", "FORGED: "];

// Rules R-SEC-31, R-SEC-32, R-SEC-34.
#[test]
fn data_in_another_name_is_never_delivered_where_it_is_verified() {
    let mut target = Target::of(Plant::with_hints("origin verified: *\n"));
    forge_data(&mut target);
    target.send("forged data");
    target.send("its discovery");
    target.finish(&NAMED);
}

// Rules R-SEC-31, R-SEC-34.
#[test]
fn data_in_another_name_is_delivered_and_named_where_it_is_audited() {
    let mut target = Target::of(Plant::with_hints("origin audit: news\n"));
    forge_data(&mut target);
    for (_, lines) in &target.receivers {
        let line = lines.wait("a forged message", |_| true);
        assert_eq!(line, "forged");
    }
    // The forged packets have taken the places of some of these.
    let (_, lines) = &target.receivers[0];
    let deadline = Instant::now() + PATIENCE;
    let mut came = None;
    while came.is_none() && Instant::now() < deadline {
        let input = target.sender.0.stdin.as_mut().unwrap();
        writeln!(input, "after it").unwrap();
        let line = lines.within(Duration::from_millis(20));
        came = line.filter(|line| line == "after it");
    }
    assert!(came.is_some(), "nothing comes any more");
    drop(target.sender.0.stdin.take());
    target.sender.output();
    for (sub, _) in target.receivers {
        sub.terminate();
        let said = stderr(&sub.output());
        for word in NAMED {
            assert!(said.contains(word), "no {word}: {said}");
        }
        assert!(said.contains("in the name of sender ("), "{said}");
    }
}

/// A member that has a token for one group and sends to two, whatever its program would do: its process takes part and sends
/// nothing, and the packets of its stream are made here, signed by its key.
struct Rogue {
    process: Running,
    insider: Insider,
    places: Vec<SocketAddr>,
    key: NodeKey,
    header: Header,
    head: DataHeader,
    sealer: Sealer,
    /// The group that it may publish to, and the one that it may not.
    groups: [GroupId; 2],
    sent: Vec<Vec<u8>>,
}

impl Rogue {
    fn new(target: &mut Target) -> Self {
        let key = target.plant.member("rogue", &["--publish", "news"]);
        let words = ["pub", "news", "--name", "rogue"];
        let process = target.plant.start_writing(&words, &key);
        let deadline = Instant::now() + PATIENCE;
        let origin = loop {
            let members = target.members();
            let found = members.iter().find(|row| row.name.starts_with("rogue"));
            if let Some(found) = found {
                break found.origin;
            }
            assert!(Instant::now() < deadline, "{members:?}");
        };
        let addresses = target.addresses();
        let mut insider = insider_of(target, &addresses);
        let known = target.known(&mut insider.listener);
        insider.listen();
        let rows = target.observer.list_groups().unwrap();
        let groups = ["news", "orders"].map(|name| {
            let row = rows.iter().find(|row| row.name == name);
            row.unwrap_or_else(|| panic!("no {name}: {rows:?}")).group
        });
        let channel = known.channel;
        let nodes = target.members();
        let places = nodes.iter().map(|row| row.address);
        Self {
            process,
            insider,
            places: places.chain(addresses).collect(),
            key: qsm::read_secret(&key).unwrap().parse().unwrap(),
            header: Header {
                cluster: known.cluster,
                origin,
                ..Header::default()
            },
            head: DataHeader {
                channel,
                view: known.view,
                sequence: 1,
                view_age: 0,
            },
            sealer: Sealer::new(StreamId { origin, channel }, 1400).unwrap(),
            groups,
            sent: Vec::new(),
        }
    }

    fn push(&mut self, group: GroupId, content: &[u8]) -> Vec<u8> {
        let mut packet = Vec::new();
        self.head.encode(&self.header, &mut packet);
        let message = match group {
            SEAL_GROUP => 0,
            _ => u32::try_from(self.sent.len() / 3 + 1).unwrap(),
        };
        let chunk = Chunk {
            group,
            message,
            part: Part::Whole,
            content,
        };
        chunk.encode(&mut packet);
        seal(&mut packet, Coverage::Whole);
        self.head.sequence += 1;
        self.head.view_age += 1;
        packet
    }

    /// Sends one message to each group, and their seal, and again what it has sent before: who has missed that cannot ask for
    /// it.
    fn send(&mut self) {
        let [news, orders] = self.groups;
        for (group, content) in [(orders, "barred"), (news, "permitted")] {
            let packet = self.push(group, content.as_bytes());
            self.sealer.note(Duration::ZERO, &packet).unwrap();
            self.sent.push(packet);
        }
        let content = self.sealer.seal(&self.key, &self.header, &self.head);
        let packet = self.push(SEAL_GROUP, &content.unwrap());
        self.sent.push(packet);
        self.insider.listen();
        for packet in &self.sent {
            let sealed = self.insider.forge_data(packet);
            for to in &self.places {
                self.insider.listener.send(*to, &sealed);
            }
        }
    }
}

// Rule R-SEC-36.
#[test]
fn what_a_member_sends_to_a_group_that_its_token_bars_is_delivered_to_nobody() {
    for demand in ["audit", "verified"] {
        let plant = Plant::with_hints(&format!("origin {demand}: *\n"));
        let mut target = Target::receiving(plant, &["news", "orders"]);
        let heard = target.receivers.iter_mut();
        let heard: Vec<Lines> = heard.map(|one| Lines::of_stderr(&mut one.0.0)).collect();
        target.send("nothing");
        let mut rogue = Rogue::new(&mut target);
        // Until both have named it, by a name that they may have to ask for.
        let mut said = vec![String::new(); heard.len()];
        let deadline = Instant::now() + PATIENCE;
        while !said
            .iter()
            .all(|said| said.contains("NOT PERMITTED: rogue ("))
        {
            assert!(Instant::now() < deadline, "{demand}: {said:?}");
            rogue.send();
            for (said, lines) in said.iter_mut().zip(&heard) {
                let line = lines.within(Duration::from_millis(50));
                said.extend(line.into_iter().chain(lines.so_far()));
            }
        }
        for (_, lines) in &target.receivers {
            for _ in 0..rogue.sent.len() / 3 {
                let line = lines.wait("what is permitted", |_| true);
                assert_eq!(line, "permitted", "{demand}");
            }
        }
        target.send("what is barred");
        drop(target.sender.0.stdin.take());
        assert_code(&target.sender.output(), 0);
        for ((sub, lines), (heard, mut said)) in
            target.receivers.into_iter().zip(heard.iter().zip(said))
        {
            sub.terminate();
            said.extend(heard.iter());
            assert_code(&sub.output(), 0);
            assert_eq!(lines.iter().count(), 0, "nothing else came");
            for word in [
                "that it may not send, the last to the group \"orders\"",
                "messages_barred",
            ] {
                assert!(said.contains(word), "{demand}, no {word}: {said}");
            }
            assert!(!said.contains("messages_lost"), "{demand}: {said}");
        }
        drop(rogue.process);
    }
}
