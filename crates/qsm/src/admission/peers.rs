//! The sessions of a service, by key, node and address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Instant;

use qsm_seal::KeyId;
use qsm_wire::NodeId;
use zeroize::Zeroizing;

use super::doorman::Guest;
use super::introduction::{IN_A_WORD, Introduction, MemberKeys, encode};
use super::lists::ListWords;
use super::session::Session;

/// Most sessions; who comes beyond them is not answered.
const PEERS_MAX: usize = 20_000;

/// A node with a session.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) guest: Guest,
    pub(super) session: Session,
    /// An epoch is active whose key it was ordered.
    pub(super) keyed: bool,
    /// The list of revocations that it is being told.
    pub(super) list: ListWords,
    /// When it goes: it has left, and what it still says is answered until then.
    pub(super) leaves_at: Option<Instant>,
}

impl Peer {
    /// True if the service hears what it says: it can read what that brings it.
    pub(super) fn may_speak(&self) -> bool {
        self.keyed || self.guest.resumes || self.guest.observes
    }

    /// What other members are told of it, if it is a member.
    pub(super) fn introduction(&self) -> Option<Introduction> {
        let pair = self.guest.pair_key.filter(|_| !self.guest.observes)?;
        let signs = self.guest.key;
        Some(Introduction {
            node: self.guest.node,
            keys: MemberKeys { pair, signs },
            address: self.session.address,
        })
    }

    /// Tells it who these members are. Returns whether there is something to say.
    fn hear_of(&mut self, members: &[Introduction]) -> bool {
        let others: Vec<Introduction> = members
            .iter()
            .copied()
            .filter(|one| one.node != self.guest.node)
            .collect();
        let mut said = false;
        for part in others.chunks(IN_A_WORD) {
            // Who is told no more asks for it.
            said |= self.session.words.say(Zeroizing::new(encode(part)));
        }
        said
    }

    /// Queues the next part of a list when nothing else waits for a receipt. Returns whether there was one.
    pub(super) fn go_on_with_list(&mut self) -> bool {
        if !self.session.words.is_idle() {
            return false;
        }
        let part = self.list.next();
        part.is_some_and(|part| self.session.words.say(part))
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct Peers {
    /// Most sessions with which all are introduced to each other.
    introduced_max: usize,
    by_key: BTreeMap<u32, Peer>,
    by_node: BTreeMap<NodeId, u32>,
    by_address: BTreeMap<SocketAddr, u32>,
}

impl Peers {
    pub(super) fn new(introduced_max: usize) -> Self {
        Self {
            introduced_max,
            by_key: BTreeMap::new(),
            by_node: BTreeMap::new(),
            by_address: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }

    pub(super) fn get_mut(&mut self, key: u32) -> Option<&mut Peer> {
        self.by_key.get_mut(&key)
    }

    pub(super) fn key_of(&self, node: NodeId) -> Option<u32> {
        self.by_node.get(&node).copied()
    }

    pub(super) fn of_node(&mut self, node: NodeId) -> Option<&mut Peer> {
        let key = self.by_node.get(&node)?;
        self.by_key.get_mut(key)
    }

    /// The session by which packets to this address go, if they go by one.
    pub(super) fn key_at(&self, address: SocketAddr) -> Option<u32> {
        let key = self.by_address.get(&address)?;
        let peer = self.by_key.get(key)?;
        peer.may_speak().then_some(*key)
    }

    /// Adds one, in the place of a former session of the same member. `None`: there is no room.
    pub(super) fn add(&mut self, peer: Peer) -> Option<u32> {
        let KeyId(key) = peer.session.key();
        if self.by_key.len() >= PEERS_MAX || self.by_key.contains_key(&key) {
            return None;
        }
        if !peer.guest.observes {
            if let Some(former) = self.by_node.get(&peer.guest.node).copied() {
                self.remove(former);
            }
            self.by_node.insert(peer.guest.node, key);
        }
        self.by_address.insert(peer.session.address, key);
        self.by_key.insert(key, peer);
        Some(key)
    }

    /// A peer was heard from another address than before.
    pub(super) fn relocate(&mut self, key: u32, address: SocketAddr) {
        let Some(peer) = self.by_key.get_mut(&key) else {
            return;
        };
        let former = core::mem::replace(&mut peer.session.address, address);
        if self.by_address.get(&former) == Some(&key) {
            self.by_address.remove(&former);
        }
        self.by_address.insert(address, key);
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<Peer> {
        let peer = self.by_key.remove(&key)?;
        if self.by_node.get(&peer.guest.node) == Some(&key) {
            self.by_node.remove(&peer.guest.node);
        }
        if self.by_address.get(&peer.session.address) == Some(&key) {
            self.by_address.remove(&peer.session.address);
        }
        Some(peer)
    }

    /// Those who have just got their first key, and all others, are told who they are, if they are few. Returns the
    /// keys of those who are told something. Rule R-SEC-16.
    pub(super) fn introduce(&mut self, newcomers: &BTreeSet<u32>) -> BTreeSet<u32> {
        if newcomers.is_empty() || self.by_key.len() > self.introduced_max {
            return BTreeSet::new();
        }
        let keyed = || self.by_key.iter().filter(|(_, peer)| peer.keyed);
        let all: Vec<Introduction> = keyed()
            .filter_map(|(_, peer)| peer.introduction())
            .collect();
        let fresh = keyed().filter(|(key, _)| newcomers.contains(key));
        let fresh: Vec<Introduction> = fresh.filter_map(|(_, peer)| peer.introduction()).collect();
        let mut told = BTreeSet::new();
        for (key, peer) in self.by_key.iter_mut().filter(|(_, peer)| peer.keyed) {
            let news = if newcomers.contains(key) {
                &all
            } else {
                &fresh
            };
            if peer.hear_of(news) {
                told.insert(*key);
            }
        }
        told
    }

    /// Keys of those of whom this holds.
    pub(super) fn keys_where(&self, mut holds: impl FnMut(&Peer) -> bool) -> Vec<u32> {
        let peers = self.by_key.iter().filter(|(_, peer)| holds(peer));
        peers.map(|(key, _)| *key).collect()
    }
}
