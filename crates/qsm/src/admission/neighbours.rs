//! Members that a node speaks to: who is at an address, and with which key it makes a pair (R-SEC-16).
//!
//! ```text
//!  node                            member at an address
//!  Asks   | 8 | random (8) |  ──►                        sealed by the epoch
//!         ◄── Answers | 9 | the same (8) |               by its header: who it is
//!  node                            service
//!  Who    | 6 | node (8) |    ──►                        in its session, if it does not have the key
//!         ◄── Key | 7 | node (8) | key (32) |
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use qsm_net::OwnDatagram;
use qsm_seal::{PAIR_KEY_BYTES, PairKey, PairPeer};
use qsm_wire::NodeId;

/// Most addresses, and most keys, that are known; where there are more, all are forgotten and asked for again.
const KNOWN_MAX: usize = 4096;
/// Packets that wait until it is known who is at an address; the oldest makes room.
const HELD_MAX: usize = 64;
/// Pause before a question is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// A member that has not been heard at its address for so long is asked whether it is still there.
const FRESH: Duration = Duration::from_secs(1);

/// A word to the service: which key has this node?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who(pub(super) NodeId);

/// Its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(pub(super) PairPeer);

/// A word from member to member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contact {
    /// Asks who is there.
    Asks([u8; 8]),
    /// The one that my header names.
    Answers([u8; 8]),
}

const WHO: u8 = 6;
const KEY: u8 = 7;
const ASKS: u8 = 8;
const ANSWERS: u8 = 9;

impl Who {
    pub(super) fn encode(self) -> Vec<u8> {
        [&[WHO][..], &self.0.0.to_le_bytes()].concat()
    }

    /// `None` for what is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let node = bytes.strip_prefix(&[WHO])?.try_into().ok()?;
        Some(Self(NodeId(u64::from_le_bytes(node))))
    }
}

impl Key {
    pub(super) fn encode(self) -> Vec<u8> {
        let Self(PairPeer { node, public }) = self;
        [&[KEY][..], &node.0.to_le_bytes(), &public].concat()
    }

    /// `None` for what is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (node, public) = bytes.strip_prefix(&[KEY])?.split_first_chunk::<8>()?;
        let public: [u8; PAIR_KEY_BYTES] = public.try_into().ok()?;
        let node = NodeId(u64::from_le_bytes(*node));
        Some(Self(PairPeer { node, public }))
    }
}

impl Contact {
    pub(super) fn encode(self) -> Vec<u8> {
        match self {
            Self::Asks(random) => [&[ASKS][..], &random].concat(),
            Self::Answers(random) => [&[ANSWERS][..], &random].concat(),
        }
    }

    /// `None` for what is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let (kind, random) = bytes.split_first()?;
        let random = random.try_into().ok()?;
        match *kind {
            ASKS => Some(Self::Asks(random)),
            ANSWERS => Some(Self::Answers(random)),
            _ => None,
        }
    }
}

/// An address, and who is there.
#[derive(Debug, Default)]
struct Place {
    node: Option<NodeId>,
    /// When that was shown last.
    shown_at: Option<Instant>,
    /// Question that has no answer yet.
    random: [u8; 8],
    asked_at: Option<Instant>,
}

/// Account of a node's key.
#[derive(Debug)]
struct Known {
    public: Option<[u8; PAIR_KEY_BYTES]>,
    asked_at: Instant,
}

/// All of them, and what waits for them.
#[derive(Debug)]
pub(super) struct Neighbours {
    pub(super) own: PairKey,
    places: BTreeMap<SocketAddr, Place>,
    keys: BTreeMap<NodeId, Known>,
    held: VecDeque<OwnDatagram>,
}

fn is_past(at: Option<Instant>, pause: Duration, now: Instant) -> bool {
    at.is_none_or(|at| now >= at + pause)
}

impl Neighbours {
    pub(super) fn new(own: PairKey) -> Self {
        Self {
            own,
            places: BTreeMap::new(),
            keys: BTreeMap::new(),
            held: VecDeque::new(),
        }
    }

    /// The member there, if its key is known.
    pub(super) fn at(&self, address: SocketAddr) -> Option<PairPeer> {
        self.peer(self.places.get(&address)?.node?)
    }

    /// A node whose key is known.
    pub(super) fn peer(&self, node: NodeId) -> Option<PairPeer> {
        let public = self.keys.get(&node)?.public?;
        Some(PairPeer { node, public })
    }

    /// A packet is to go there: the question to ask there first, if it is not known who that is, or not for sure any more.
    pub(super) fn question(&mut self, now: Instant, to: SocketAddr) -> Option<Contact> {
        if self.places.len() >= KNOWN_MAX && !self.places.contains_key(&to) {
            self.places.clear();
        }
        let place = self.places.entry(to).or_default();
        let pause = if place.node.is_some() { FRESH } else { AGAIN };
        if !is_past(place.shown_at, FRESH, now) || !is_past(place.asked_at, pause, now) {
            return None;
        }
        // An answer that is under way is to be of use.
        if place.asked_at.is_none() || place.node.is_some() {
            place.random = PairKey::challenge().ok()?;
        }
        place.asked_at = Some(now);
        Some(Contact::Asks(place.random))
    }

    /// A member has answered. Returns the address at which it was asked. Nobody else knows the random number.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        by: NodeId,
        random: [u8; 8],
    ) -> Option<SocketAddr> {
        let mut places = self.places.iter_mut();
        let asked = |place: &Place| place.asked_at.is_some() && place.random == random;
        let (address, place) = places.find(|(_, place)| asked(place))?;
        place.node = Some(by);
        place.shown_at = Some(now);
        Some(*address)
    }

    /// A member was heard from there, by the key of its pair.
    pub(super) fn heard(&mut self, now: Instant, from: SocketAddr, node: NodeId) {
        if let Some(place) = self.places.get_mut(&from) {
            place.node = Some(node);
            place.shown_at = Some(now);
        }
    }

    /// The service is to be asked for the key of this node, if it is not known and was not asked for just now.
    pub(super) fn asks_key(&mut self, now: Instant, node: NodeId) -> bool {
        if let Some(known) = self.keys.get_mut(&node) {
            let asks = known.public.is_none() && now >= known.asked_at + AGAIN;
            if asks {
                known.asked_at = now;
            }
            return asks;
        }
        if self.keys.len() >= KNOWN_MAX {
            self.keys.clear();
        }
        let (public, asked_at) = (None, now);
        self.keys.insert(node, Known { public, asked_at });
        true
    }

    /// The service has told the key of a node that it was asked for.
    pub(super) fn learn(&mut self, key: &Key) {
        if let Some(known) = self.keys.get_mut(&key.0.node) {
            known.public = Some(key.0.public);
        }
    }

    /// The node at an address, if that is known, whether its key is or not.
    pub(super) fn node_at(&self, address: SocketAddr) -> Option<NodeId> {
        self.places.get(&address)?.node
    }

    /// Keeps a packet until it is known for whom it is.
    pub(super) fn hold(&mut self, to: SocketAddr, datagram: &[u8]) {
        if self.held.len() >= HELD_MAX {
            self.held.pop_front();
        }
        let bytes = datagram.to_vec();
        self.held.push_back(OwnDatagram { to, bytes });
    }

    /// Takes out what has waited for this node.
    pub(super) fn take_held(&mut self, node: NodeId) -> Vec<OwnDatagram> {
        let places = &self.places;
        let is_there = |held: &OwnDatagram| {
            let place = places.get(&held.to);
            place.is_some_and(|place| place.node == Some(node))
        };
        let (ready, rest): (Vec<_>, Vec<_>) = self.held.drain(..).partition(is_there);
        self.held = rest.into();
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn neighbours() -> Neighbours {
        Neighbours::new(PairKey::generate(NodeId(1)).unwrap())
    }

    #[test]
    fn words_are_read_back_whole_or_not_at_all() {
        let node = NodeId(77);
        let public = [7; PAIR_KEY_BYTES];
        let key = Key(PairPeer { node, public });
        assert_eq!(Who::decode(&Who(node).encode()), Some(Who(node)));
        assert_eq!(Key::decode(&key.encode()), Some(key));
        for contact in [Contact::Asks([1; 8]), Contact::Answers([2; 8])] {
            let bytes = contact.encode();
            assert_eq!(Contact::decode(&bytes), Some(contact));
            assert_eq!((Who::decode(&bytes), Key::decode(&bytes)), (None, None));
        }
        let (who, key) = (Who(node).encode(), key.encode());
        assert!((0..who.len()).all(|length| Who::decode(&who[..length]).is_none()));
        assert!((0..key.len()).all(|length| Key::decode(&key[..length]).is_none()));
        assert_eq!((Contact::decode(&who), Contact::decode(&key)), (None, None));
    }

    // Rule R-SEC-16.
    #[test]
    fn an_answer_counts_for_the_question_alone_and_questions_are_few() {
        let (mut here, now) = (neighbours(), Instant::now());
        let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
        let Some(Contact::Asks(random)) = here.question(now, to) else {
            panic!("nobody is asked")
        };
        assert_eq!(here.question(now, to), None);
        assert_eq!(here.answered(now, NodeId(3), [0; 8]), None);
        assert_eq!(here.answered(now, NodeId(2), random), Some(to));
        assert_eq!((here.node_at(to), here.at(to)), (Some(NodeId(2)), None));
        assert!(here.asks_key(now, NodeId(2)) && !here.asks_key(now, NodeId(2)));
        let public = [7; PAIR_KEY_BYTES];
        let peer = |node| Key(PairPeer { node, public });
        here.learn(&peer(NodeId(3)));
        assert_eq!(here.peer(NodeId(3)), None, "it was not asked for");
        here.learn(&peer(NodeId(2)));
        assert_eq!(here.at(to), Some(peer(NodeId(2)).0));
        assert_eq!(here.question(now, to), None);
        // Who was not heard for a second is asked again, and another one may be there by then.
        let later = now + FRESH;
        let Some(Contact::Asks(other)) = here.question(later, to) else {
            panic!("nobody is asked")
        };
        assert_ne!(other, random);
        assert_eq!(here.answered(later, NodeId(2), random), None);
        assert_eq!(here.answered(later, NodeId(4), other), Some(to));
        assert_eq!((here.node_at(to), here.at(to)), (Some(NodeId(4)), None));
    }

    #[test]
    fn no_more_packets_wait_and_no_more_is_known_than_there_is_room_for() {
        let (mut here, now) = (neighbours(), Instant::now());
        for port in 0..u16::MAX {
            let to = SocketAddr::from(([127, 0, 0, 1], port));
            here.question(now, to);
            here.hold(to, &[1]);
            here.asks_key(now, NodeId(u64::from(port)));
        }
        assert_eq!(here.held.len(), HELD_MAX);
        assert!(here.places.len() <= KNOWN_MAX && here.keys.len() <= KNOWN_MAX);
    }
}
