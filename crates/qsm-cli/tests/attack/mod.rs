//! Attackers of a cluster: a listener without keys, and a member that keeps what it has learnt, whatever the program
//! would do.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod forgeries;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use qsm::KeyId;
use qsm_handshake::{Admission, Client, Identity, Now, Refused};
use qsm_identity::{NodeKey, Token};
use qsm_net::{PortConfig, Ports};
use qsm_seal::{Cipher, ClusterKey, EpochOrder, Epochs, Opener, PairKey, PairPeer, Sealer};
use qsm_wire::{
    AdmissionFrame, AdmissionStage, Body, CHECKSUM_AT, Coverage, Header, Incarnation, Kind, NodeId,
    Origin, Packet, cluster_number, origin_of, seal, sealed_by,
};

use crate::plant::Plant;

/// One pause while nothing comes.
const LOOK: Duration = Duration::from_millis(10);

/// Hears all multicast of the cluster, and sends to whom it likes.
pub(crate) struct Listener {
    pub(crate) ports: Ports,
    /// Packets that have come, as they were on the wire.
    pub(crate) heard: Vec<Vec<u8>>,
}

impl Listener {
    /// At these addresses.
    pub(crate) fn new(groups: &[SocketAddr]) -> Self {
        let (interface, _) = qsm_net::choose_interface(Some("lo"), None).unwrap();
        let config = PortConfig {
            receive_buffer_bytes: 4 << 20,
            ..PortConfig::new(interface)
        };
        let mut ports = Ports::open(config, None).unwrap();
        for group in groups {
            ports.join(*group).unwrap();
        }
        let heard = Vec::new();
        Self { ports, heard }
    }

    /// Takes what has come.
    pub(crate) fn listen(&mut self) {
        self.ports.wait(Some(LOOK)).unwrap();
        while self.ports.receive().unwrap() > 0 {
            let datagrams = self.ports.datagrams();
            self.heard
                .extend(datagrams.map(|datagram| datagram.bytes.to_vec()));
        }
    }

    pub(crate) fn send(&mut self, to: SocketAddr, packet: &[u8]) {
        while self.ports.send(to, packet, packet.len()).is_err() {
            self.ports.wait(Some(LOOK)).unwrap();
        }
    }
}

/// A member that shakes hands and takes keys of epochs as nodes do, and gives none up.
pub(crate) struct Insider {
    pub(crate) listener: Listener,
    service: SocketAddr,
    header: Header,
    says: Sealer,
    hears: Opener,
    heard: u32,
    said: u32,
    last_word: Vec<u8>,
    started: Instant,
    epochs: Epochs,
    key: NodeKey,
    /// Orders that it was given.
    orders: Vec<Vec<u8>>,
    /// What it makes in the names of others, and their names.
    posed: BTreeMap<NodeId, Posed>,
    /// Members that the service has told it of.
    pub(crate) members: Vec<PairPeer>,
    /// Why it was shut out, once it was.
    pub(crate) shut_out: Option<String>,
}

/// Keys by which an insider makes packets in another's name: a sealer seals for one.
struct Posed {
    by_epoch: Epochs,
    signed: Epochs,
    by_pair: Epochs,
    pair_key: PairKey,
}

/// Packets that it has said more than who it poses for: none of its counters is one that was heard.
const AHEAD: usize = 3000;

/// Trusts every service.
struct Anybody;

impl Admission for Anybody {
    type Grant = ();

    fn admit(&self, _key: &[u8; 32], _credential: &[u8], _now: u64) -> Result<(), Refused> {
        Ok(())
    }
}

fn moment(started: Instant) -> Now {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    Now {
        elapsed: started.elapsed(),
        unix: since.as_secs(),
    }
}

fn admission(header: &Header, stage: AdmissionStage, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    AdmissionFrame { stage, content }.encode(header, &mut out);
    seal(&mut out, Coverage::Whole);
    out
}

/// The part of a packet that is the guards' own, if it is in clear.
fn frame_of(packet: &[u8]) -> Option<AdmissionFrame<'_>> {
    match Packet::open(packet).ok()?.body {
        Body::Admission(frame) => Some(frame),
        _ => None,
    }
}

impl Insider {
    /// Shakes hands by this key and its token.
    pub(crate) fn join(plant: &Plant, key: &str, groups: &[SocketAddr]) -> Self {
        let started = Instant::now();
        let node = NodeId(0x7700 * 64);
        let header = Header {
            cluster: cluster_number(plant.cluster.option("--cluster")),
            origin: Origin {
                node,
                incarnation: Incarnation(1),
            },
            ..Header::default()
        };
        let mut listener = Listener::new(groups);
        let seed = qsm::read_secret(key).unwrap().parse::<NodeKey>().unwrap();
        let signer = Identity::from_seed(seed.seed()).unwrap();
        let token = fs::read_to_string(key.replace(".key", ".token")).unwrap();
        let pair_key = PairKey::generate(node).unwrap();
        let claim = claim(node, &pair_key, &token.parse::<Token>().unwrap());
        let mut client = Client::new(moment(started), &signer, &claim, Anybody).unwrap();
        let service = plant.service_address();
        let secrets = loop {
            while let Some(frame) = client.poll_transmit() {
                let packet = admission(&header, AdmissionStage::Handshake, &frame);
                listener.send(service, &packet);
            }
            if let Some(session) = client.take_session() {
                break session.secrets;
            }
            assert!(client.outcome().is_none(), "{:?}", client.outcome());
            listener.listen();
            for packet in listener.heard.drain(..) {
                if let Some(frame) = frame_of(&packet)
                    && frame.stage == AdmissionStage::Handshake
                {
                    client.receive(moment(started), frame.content);
                }
            }
            client.tick(moment(started));
        };
        let key = |secret: &[u8; 32]| ClusterKey::from_secret(Cipher::default(), *secret);
        Self {
            listener,
            service,
            header,
            says: Sealer::new(&key(&secrets.to_server)),
            hears: Opener::new(&key(&secrets.to_client)),
            heard: 0,
            said: 0,
            last_word: Vec::new(),
            started,
            epochs: Epochs::new(),
            key: seed,
            orders: Vec::new(),
            posed: BTreeMap::new(),
            members: Vec::new(),
            shut_out: None,
        }
    }

    /// Obeys what the service has said, and keeps all else that has come.
    pub(crate) fn listen(&mut self) {
        self.listener.listen();
        let mut words = Vec::new();
        let own = self.hears.key();
        self.listener.heard.retain(|packet| {
            let is_word = sealed_by(packet).map(KeyId) == Some(own);
            if is_word {
                words.push(packet.clone());
            }
            !is_word
        });
        for word in words {
            self.obey(word);
        }
    }

    fn obey(&mut self, mut packet: Vec<u8>) {
        let Ok(length) = self.hears.open(&mut packet) else {
            return;
        };
        let Some(frame) = frame_of(&packet[..length]) else {
            return;
        };
        let number = u32::from_le_bytes(frame.content[..4].try_into().unwrap());
        let word = &frame.content[8..];
        if number == self.heard + 1 {
            self.heard = number;
            if let [5, 2, reason @ ..] = word {
                self.shut_out = Some(String::from_utf8_lossy(reason).into_owned());
            } else if let Some(order) = EpochOrder::decode(word) {
                let now = self.started.elapsed();
                self.orders.push(word.to_vec());
                for posed in self.posed.values_mut() {
                    posed.obey(now, word);
                }
                if let Some(receipt) = self.epochs.take(now, order) {
                    self.said += 1;
                    self.last_word = receipt.encode().to_vec();
                }
            } else if let [7, members @ ..] = word {
                // Over IPv4 each takes 79 bytes.
                let told = members.as_chunks::<79>().0.iter().map(|member| PairPeer {
                    node: NodeId(u64::from_le_bytes(member[..8].try_into().unwrap())),
                    public: member[8..40].try_into().unwrap(),
                });
                self.members.extend(told);
            }
        }
        if number > 0 {
            self.answer();
        }
    }

    fn answer(&mut self) {
        let mut content = self.said.to_le_bytes().to_vec();
        content.extend_from_slice(&self.heard.to_le_bytes());
        content.extend_from_slice(&self.last_word);
        let word = admission(&self.header, AdmissionStage::Word, &content);
        let mut sealed = Vec::new();
        self.says.seal(&word, &mut sealed).unwrap();
        self.listener.send(self.service, &sealed);
    }

    /// This packet, which is made in another's name, as the insider can seal it: by the key of all, signed by its own key,
    /// and by its own pair with each member that it knows.
    pub(crate) fn forge(&mut self, packet: &[u8]) -> Vec<Vec<u8>> {
        let name = origin_of(packet).unwrap().node;
        if !self.posed.contains_key(&name) {
            let posed = Posed::new(name, self, packet);
            self.posed.insert(name, posed);
        }
        let posed = self.posed.get_mut(&name).unwrap();
        let mut forged = vec![Vec::new(), Vec::new()];
        posed.by_epoch.seal(packet, &mut forged[0]).unwrap();
        let signed = &mut forged[1];
        posed.signed.seal_signed(&self.key, packet, signed).unwrap();
        for member in &self.members {
            let mut sealed = Vec::new();
            let key = &posed.pair_key;
            let result = posed.by_pair.seal_to(key, member, packet, &mut sealed);
            result.unwrap();
            forged.push(sealed);
        }
        forged
    }

    /// A data packet, which is made in another's name, sealed as members seal data: by the key of all.
    pub(crate) fn forge_data(&self, packet: &[u8]) -> Vec<u8> {
        let now = self.started.elapsed();
        let mut epochs = Epochs::new();
        for order in &self.orders {
            epochs.take(now, EpochOrder::decode(order).unwrap());
        }
        let mut sealed = Vec::new();
        epochs.seal(packet, &mut sealed).unwrap();
        sealed
    }

    /// Opens a packet by the key that it names, or any other that there is.
    pub(crate) fn opens(&mut self, packet: &[u8], others: &[u32]) -> Option<Vec<u8>> {
        let named = sealed_by(packet).into_iter();
        named.chain(others.iter().copied()).find_map(|key| {
            let mut packet = packet.to_vec();
            packet[CHECKSUM_AT].copy_from_slice(&key.to_le_bytes());
            let length = self.epochs.open(&mut packet).ok()?;
            packet.truncate(length);
            Some(packet)
        })
    }
}

impl Posed {
    fn new(name: NodeId, insider: &Insider, packet: &[u8]) -> Self {
        let now = insider.started.elapsed();
        let mut posed = Self {
            by_epoch: Epochs::new(),
            signed: Epochs::new(),
            by_pair: Epochs::new(),
            pair_key: PairKey::generate(name).unwrap(),
        };
        for order in &insider.orders {
            posed.obey(now, order);
        }
        let mut out = Vec::new();
        for _ in 0..AHEAD {
            out.clear();
            posed.by_epoch.seal(packet, &mut out).unwrap();
            let key = &insider.key;
            posed.signed.seal_signed(key, packet, &mut out).unwrap();
            if let Some(member) = insider.members.first() {
                let key = &posed.pair_key;
                let result = posed.by_pair.seal_to(key, member, packet, &mut out);
                result.unwrap();
            }
        }
        posed
    }

    fn obey(&mut self, now: Duration, order: &[u8]) {
        for epochs in [&mut self.by_epoch, &mut self.signed, &mut self.by_pair] {
            let order = EpochOrder::decode(order).unwrap();
            epochs.take(now, order);
        }
    }
}

/// A node's claim, which it shows in its handshake.
fn claim(node: NodeId, pair_key: &PairKey, token: &Token) -> Vec<u8> {
    let name = b"insider";
    let mut claim = vec![1, 4];
    claim.extend_from_slice(&node.0.to_le_bytes());
    claim.push(u8::try_from(name.len()).unwrap());
    claim.extend_from_slice(name);
    claim.extend_from_slice(&pair_key.public());
    claim.extend_from_slice(token.as_bytes());
    claim
}

/// The stream and the number of a data packet, which everybody sees.
pub(crate) fn data_number(packet: &[u8]) -> Option<(Vec<u8>, u64)> {
    if Kind::peek(packet) != Some(Kind::Data) {
        return None;
    }
    let number = u64::from_le_bytes(packet.get(32..40)?.try_into().ok()?);
    Some((packet[8..20].to_vec(), number))
}
