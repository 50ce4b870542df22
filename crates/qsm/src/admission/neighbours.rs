//! Members that a node speaks to: who is at an address, and with which key it makes a pair (R-SEC-16).
//!
//! ```text
//!  node                            member at an address
//!  Asks   | 8 | random (8) |  ──►                        sealed by the epoch
//!         ◄── Answers | 9 | the same (8) |               by its header: who it is
//!  node                            service
//!  Who    | 6 | node (8) |    ──►                        in its session, if it does not have the key
//!         ◄── an introduction
//! ```
//!
//! In a small cluster the service introduces members to each other before they ask.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use qsm_identity::NodePublic;
use qsm_net::OwnDatagram;
use qsm_seal::{PairKey, PairPeer};
use qsm_wire::NodeId;

use super::introduction::{Introduction, MemberKeys};

/// Most addresses that are known; where there are more, all are forgotten and asked for again.
const PLACES_MAX: usize = 4096;
/// Most members whose keys are known; the one that was not needed for the longest time makes room, and is asked for again.
const KNOWN_MAX: usize = 4096;
/// Most members whose keys are asked for at a time: anybody in the cluster can name some that do not exist.
const ASKED_MAX: usize = 64;
/// Packets that wait until it is known who is at an address; the oldest makes room.
const HELD_MAX: usize = 64;
/// Pause before a question is asked again.
const AGAIN: Duration = Duration::from_millis(100);
/// A question without an answer for so long gives way to another one.
const UNANSWERED: Duration = Duration::from_secs(1);
/// A member that has not been heard at its address for so long is asked whether it is still there.
const FRESH: Duration = Duration::from_secs(1);

/// A word to the service: which key has this node?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Who(pub(super) NodeId);

/// A word from member to member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Contact {
    /// Asks who is there.
    Asks([u8; 8]),
    /// The one that my header names.
    Answers([u8; 8]),
}

const WHO: u8 = 6;
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

/// Keys of a node, and when they were needed.
#[derive(Debug)]
struct Known {
    keys: MemberKeys,
    /// Number of their latest use.
    used: u64,
}

/// A question for the keys of a node.
#[derive(Debug)]
struct Asked {
    since: Instant,
    asked_at: Instant,
}

/// All of them, and what waits for them.
#[derive(Debug)]
pub(super) struct Neighbours {
    pub(super) own: PairKey,
    places: BTreeMap<SocketAddr, Place>,
    known: BTreeMap<NodeId, Known>,
    asked: BTreeMap<NodeId, Asked>,
    /// Uses of all keys.
    uses: u64,
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
            known: BTreeMap::new(),
            asked: BTreeMap::new(),
            uses: 0,
            held: VecDeque::new(),
        }
    }

    /// The member there, if its key is known.
    pub(super) fn at(&mut self, address: SocketAddr) -> Option<PairPeer> {
        self.peer(self.places.get(&address)?.node?)
    }

    /// A node whose key for pairs is known.
    pub(super) fn peer(&mut self, node: NodeId) -> Option<PairPeer> {
        let public = self.keys(node)?.pair;
        Some(PairPeer { node, public })
    }

    /// The key by which a node signs, if it is known.
    pub(super) fn signer(&mut self, node: NodeId) -> Option<NodePublic> {
        self.keys(node).map(|keys| keys.signs)
    }

    fn keys(&mut self, node: NodeId) -> Option<MemberKeys> {
        let known = self.known.get_mut(&node)?;
        self.uses += 1;
        known.used = self.uses;
        Some(known.keys)
    }

    /// A packet is to go there: the question to ask there first, if it is not known who that is, or not for sure any more.
    pub(super) fn question(&mut self, now: Instant, to: SocketAddr) -> Option<Contact> {
        if self.places.len() >= PLACES_MAX && !self.places.contains_key(&to) {
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

    /// The service is to be asked for the keys of this node, if they are not known and were not asked for just now.
    pub(super) fn asks_keys(&mut self, now: Instant, node: NodeId) -> bool {
        if self.known.contains_key(&node) {
            return false;
        }
        if let Some(asked) = self.asked.get_mut(&node) {
            let again = now >= asked.asked_at + AGAIN;
            if again {
                asked.asked_at = now;
            }
            return again;
        }
        if self.asked.len() >= ASKED_MAX {
            let oldest = self.asked.iter().min_by_key(|(_, asked)| asked.since);
            match oldest.map(|(node, asked)| (*node, asked.since)) {
                Some((oldest, since)) if now >= since + UNANSWERED => self.asked.remove(&oldest),
                _ => return false,
            };
        }
        let (since, asked_at) = (now, now);
        self.asked.insert(node, Asked { since, asked_at });
        true
    }

    /// The service has told who a node is.
    pub(super) fn learn(&mut self, now: Instant, member: &Introduction) {
        let Introduction {
            node,
            keys,
            address,
        } = *member;
        self.asked.remove(&node);
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&node) {
            let idle = self.known.iter().min_by_key(|(_, known)| known.used);
            if let Some(idle) = idle.map(|(node, _)| *node) {
                self.known.remove(&idle);
            }
        }
        self.uses += 1;
        let used = self.uses;
        self.known.insert(node, Known { keys, used });
        // Who has shown there that it is another one is believed.
        if self.places.len() < PLACES_MAX || self.places.contains_key(&address) {
            let place = self.places.entry(address).or_default();
            if place.node.is_none() {
                place.node = Some(node);
                place.shown_at = Some(now);
            }
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
    use crate::admission::introduction::tests::member;

    fn neighbours() -> Neighbours {
        Neighbours::new(PairKey::generate(NodeId(1)).unwrap())
    }

    #[test]
    fn words_are_read_back_whole_or_not_at_all() {
        let node = NodeId(77);
        assert_eq!(Who::decode(&Who(node).encode()), Some(Who(node)));
        for contact in [Contact::Asks([1; 8]), Contact::Answers([2; 8])] {
            let bytes = contact.encode();
            assert_eq!(Contact::decode(&bytes), Some(contact));
            assert_eq!(Who::decode(&bytes), None);
        }
        let who = Who(node).encode();
        assert!((0..who.len()).all(|length| Who::decode(&who[..length]).is_none()));
        assert_eq!(Contact::decode(&who), None);
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
        assert!(here.asks_keys(now, NodeId(2)) && !here.asks_keys(now, NodeId(2)));
        let told = member(2, "127.0.0.1:9");
        let (node, public) = (told.node, told.keys.pair);
        here.learn(now, &told);
        assert_eq!(here.at(to), Some(PairPeer { node, public }));
        assert_eq!(here.signer(node), Some(told.keys.signs));
        assert!(!here.asks_keys(now, node));
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
        // Whom the service knows there is not who has answered.
        here.learn(later, &told);
        assert_eq!(here.node_at(to), Some(NodeId(4)));
    }

    // Rule R-SEC-16.
    #[test]
    fn who_is_introduced_is_not_asked_for() {
        let (mut here, now) = (neighbours(), Instant::now());
        let to: SocketAddr = "127.0.0.1:9".parse().unwrap();
        here.learn(now, &member(2, "127.0.0.1:9"));
        assert!(here.at(to).is_some());
        assert_eq!(here.question(now, to), None);
        // Later it shows that it is still there, while packets go.
        assert!(here.question(now + FRESH, to).is_some());
        assert!(here.at(to).is_some());
    }

    #[test]
    fn no_more_packets_wait_and_no_more_is_known_than_there_is_room_for() {
        let (mut here, now) = (neighbours(), Instant::now());
        let first = member(1 << 20, "127.0.0.1:9");
        here.learn(now, &first);
        for port in 0..u16::MAX {
            let to = SocketAddr::from(([127, 0, 0, 1], port));
            here.question(now, to);
            here.hold(to, &[1]);
            here.learn(now, &member(u64::from(port), &format!("127.0.0.2:{port}")));
            assert!(
                here.signer(first.node).is_some(),
                "it is needed all the time"
            );
        }
        assert_eq!(here.held.len(), HELD_MAX);
        assert_eq!(here.known.len(), KNOWN_MAX);
        assert!(here.places.len() <= PLACES_MAX);
    }

    // Rule R-SEC-18.
    #[test]
    fn members_that_do_not_exist_are_asked_for_a_few_at_a_time() {
        let (mut here, mut now) = (neighbours(), Instant::now());
        let mut asked = 0;
        for node in 0..10_000 {
            asked += u32::from(here.asks_keys(now, NodeId(node)));
            now += Duration::from_millis(1);
        }
        assert!(
            (64 * 9..=64 * 11).contains(&asked),
            "{asked} in ten seconds"
        );
        assert_eq!(here.asked.len(), ASKED_MAX);
    }
}
