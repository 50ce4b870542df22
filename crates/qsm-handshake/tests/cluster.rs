//! A cluster out of handshakes, sessions and epochs: who is in reads, who is not is told why, and who is put out reads
//! nothing more.

#[path = "support/word.rs"]
mod word;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use qsm_handshake::{Admission, Client, Event, Failure, Identity, Now, Refused, Secrets, Server};
use qsm_seal::{
    Cipher, ClusterKey, Epoch, EpochIssuer, EpochOrder, EpochReceipt, Epochs, Leaving, OpenError,
    Opener, Sealer, Told,
};
use qsm_wire::{
    ChannelId, Coverage, DataHeader, Frame, FrameHead, Header, Incarnation, NodeId, Origin, Packet,
    ViewNumber, seal,
};
use word::{SERVICE, UNIX, Word};

const SERVICE_NODE: NodeId = NodeId(1000);

fn header(node: NodeId) -> Header {
    Header {
        cluster: 77,
        origin: Origin {
            node,
            incarnation: Incarnation(1),
        },
        ..Header::default()
    }
}

/// Credentials with a time in them, as `name until`.
#[derive(Debug, Clone)]
struct Tokens;

impl Admission for Tokens {
    type Grant = String;

    fn admit(&self, _key: &[u8; 32], credential: &[u8], now: u64) -> Result<String, Refused> {
        let text = core::str::from_utf8(credential).unwrap_or_default();
        let (name, until) = text
            .split_once(' ')
            .ok_or_else(|| Refused::new("it is no token"))?;
        let until: u64 = until.parse().map_err(|_| Refused::new("it has no time"))?;
        if until < now {
            return Err(Refused::new(format!(
                "its token expired {} s ago",
                now - until
            )));
        }
        Ok(name.to_owned())
    }
}

/// One end of a session: frames that only the other end reads.
struct End {
    me: NodeId,
    number: u64,
    sealer: Sealer,
    opener: Opener,
}

impl End {
    fn new(me: NodeId, says: [u8; 32], hears: [u8; 32]) -> Self {
        let key = |secret| ClusterKey::from_secret(Cipher::default(), secret);
        Self {
            me,
            number: 0,
            sealer: Sealer::new(&key(says)),
            opener: Opener::new(&key(hears)),
        }
    }

    fn say(&mut self, message: &[u8]) -> Vec<u8> {
        self.number += 1;
        let head = FrameHead {
            session: 1,
            number: self.number,
            heard_upto: 0,
            more: false,
        };
        let mut packet = Vec::new();
        let frame = Frame {
            head,
            content: message,
        };
        frame.encode(&header(self.me), &mut packet);
        seal(&mut packet, Coverage::Head);
        let mut sealed = Vec::new();
        self.sealer.seal(&packet, &mut sealed).unwrap();
        sealed
    }

    fn hear(&mut self, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let mut bytes = sealed.to_vec();
        let length = self.opener.open(&mut bytes)?;
        let packet = Packet::open(&bytes[..length]).unwrap();
        match packet.body {
            qsm_wire::Body::Session(frame) => Ok(frame.content.to_vec()),
            other => panic!("{other:?}"),
        }
    }
}

struct Member {
    service: End,
    node: End,
    epochs: Epochs,
    sequence: u64,
}

struct Cluster {
    server: Server<Tokens>,
    issuer: EpochIssuer,
    members: BTreeMap<NodeId, Member>,
    now: Now,
    /// All that went over the network but handshakes.
    tapped: Vec<Vec<u8>>,
}

impl Cluster {
    fn new() -> Self {
        let identity = Identity::generate().unwrap();
        Self {
            server: Server::new(&identity, SERVICE.word, Tokens).unwrap(),
            issuer: EpochIssuer::new(Duration::ZERO, Cipher::default(), Epoch(1)).unwrap(),
            members: BTreeMap::new(),
            now: Now {
                elapsed: Duration::ZERO,
                unix: UNIX,
            },
            tapped: Vec::new(),
        }
    }

    fn shake(&mut self, from: SocketAddr, token: &str) -> Result<Client<Word>, Failure> {
        let identity = Identity::generate().unwrap();
        let token = token.as_bytes();
        let mut client = Client::new(self.now, &identity, token, SERVICE).unwrap();
        while client.outcome().is_none() {
            while let Some(datagram) = client.poll_transmit() {
                self.server.receive(self.now, from, &datagram);
            }
            while let Some((_, datagram)) = self.server.poll_transmit() {
                client.receive(self.now, &datagram);
            }
        }
        let outcome = client.outcome().cloned().unwrap();
        if let Err(Failure::Refused(told)) = &outcome {
            let event = self.server.poll_event();
            assert!(matches!(event, Some(Event::Refused { refused, .. }) if refused == *told));
        }
        outcome.map(|()| client)
    }

    /// A node comes, and is let in if its token is good.
    fn join(&mut self, node: u64, token: &str) -> Result<(), Failure> {
        let from = SocketAddr::from(([192, 0, 2, u8::try_from(node).unwrap()], 5000));
        let mut client = self.shake(from, token)?;
        let of_node: Secrets = client.take_session().unwrap().secrets;
        let Some(Event::Admitted { session, .. }) = self.server.poll_event() else {
            panic!("admitted at one end alone");
        };
        let of_service = session.secrets;
        let id = NodeId(node);
        let member = Member {
            service: End::new(SERVICE_NODE, of_service.to_client, of_service.to_server),
            node: End::new(id, of_node.to_server, of_node.to_client),
            epochs: Epochs::new(),
            sequence: 0,
        };
        self.members.insert(id, member);
        self.issuer.join(self.now.elapsed, id).unwrap();
        self.settle();
        Ok(())
    }

    fn expel(&mut self, node: u64) -> Member {
        let gone = self.members.remove(&NodeId(node)).unwrap();
        let why = Leaving::Expelled;
        self.issuer
            .leave(self.now.elapsed, NodeId(node), why)
            .unwrap();
        self.settle();
        gone
    }

    /// Carries orders and receipts by the sessions until all is done.
    fn settle(&mut self) {
        for _ in 0..10 {
            self.now.elapsed += Duration::from_millis(20);
            self.issuer.tick(self.now.elapsed).unwrap();
            while let Some(Told { node, order }) = self.issuer.poll_order() {
                self.carry(node, &order);
            }
        }
        assert!(!self.issuer.is_changing());
        assert_eq!(self.issuer.poll_silent(), None);
    }

    fn carry(&mut self, node: NodeId, order: &EpochOrder) {
        let member = self.members.get_mut(&node).unwrap();
        let down = member.service.say(&order.encode());
        let order = EpochOrder::decode(&member.node.hear(&down).unwrap()).unwrap();
        self.tapped.push(down);
        let Some(receipt) = member.epochs.take(self.now.elapsed, order) else {
            return;
        };
        let up = member.node.say(&receipt.encode());
        let receipt = EpochReceipt::decode(&member.service.hear(&up).unwrap()).unwrap();
        self.tapped.push(up);
        self.issuer.take(self.now.elapsed, node, receipt).unwrap();
    }

    fn publish(&mut self, node: u64, message: &[u8]) -> Vec<u8> {
        let id = NodeId(node);
        let member = self.members.get_mut(&id).unwrap();
        member.sequence += 1;
        let head = DataHeader {
            channel: ChannelId(9),
            view: ViewNumber(1),
            sequence: member.sequence,
            view_age: 0,
        };
        let mut packet = Vec::new();
        head.encode(&header(id), &mut packet);
        packet.extend_from_slice(message);
        seal(&mut packet, Coverage::Head);
        let mut sealed = Vec::new();
        member.epochs.seal(&packet, &mut sealed).unwrap();
        self.tapped.push(sealed.clone());
        sealed
    }
}

fn reads(member: &mut Member, sealed: &[u8], message: &[u8]) -> bool {
    let mut bytes = sealed.to_vec();
    match member.epochs.open(&mut bytes) {
        Ok(length) => bytes[..length].ends_with(message),
        Err(_) => false,
    }
}

// Rules R-SEC-7 and R-SEC-9.
#[test]
fn three_nodes_talk_a_stranger_is_told_why_not_and_the_expelled_reads_nothing_more() {
    let mut cluster = Cluster::new();
    for node in 1..=3 {
        cluster
            .join(node, &format!("node-{node} {}", UNIX + 3600))
            .unwrap();
    }
    let expired = format!("stranger {}", UNIX - 60);
    let told = Refused::new("its token expired 60 s ago");
    assert_eq!(cluster.join(4, &expired), Err(Failure::Refused(told)));
    assert_eq!(cluster.members.len(), 3);

    let before = cluster.publish(1, b"before");
    for node in [2, 3] {
        let member = cluster.members.get_mut(&NodeId(node)).unwrap();
        assert!(reads(member, &before, b"before"));
    }
    let mut expelled = cluster.expel(3);
    let after = cluster.publish(1, b"after");
    assert!(reads(
        cluster.members.get_mut(&NodeId(2)).unwrap(),
        &after,
        b"after"
    ));
    assert!(!reads(&mut expelled, &after, b"after"));
    // Also not by what the service said to others, all of which it has seen.
    for bytes in cluster.tapped.clone() {
        if let Ok(order) = expelled.node.hear(&bytes) {
            let order = EpochOrder::decode(&order).unwrap();
            expelled.epochs.take(cluster.now.elapsed, order);
        }
    }
    assert!(!reads(&mut expelled, &after, b"after"));
    // And its session ends nobody else's: a new node comes in.
    cluster.join(5, &format!("node-5 {}", UNIX + 3600)).unwrap();
    let late = cluster.publish(2, b"late");
    assert!(reads(
        cluster.members.get_mut(&NodeId(5)).unwrap(),
        &late,
        b"late"
    ));
}

#[test]
fn no_secret_is_seen_on_the_network() {
    let mut cluster = Cluster::new();
    for node in 1..=2 {
        cluster
            .join(node, &format!("node-{node} {}", UNIX + 3600))
            .unwrap();
    }
    let word = b"a message that nobody else reads";
    cluster.publish(1, word);
    let found = |bytes: &Vec<u8>| bytes.windows(word.len()).any(|part| part == word);
    assert!(cluster.tapped.len() > 8);
    assert!(!cluster.tapped.iter().any(found));
}
