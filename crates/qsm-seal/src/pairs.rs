//! Packets of one member for one other: nobody else makes them, nor reads them (R-SEC-15).

use core::fmt;
use std::collections::HashMap;

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, Salt};
use aws_lc_rs::rand;
use qsm_wire::{CHECKSUM_AT, Coverage, FLAGS_AT, HEADER_BYTES, NodeId, SEALED, seal};
use zeroize::Zeroizing;

use crate::aead::PacketKey;
use crate::key::{ClusterKey, KeyError, KeyId, SECRET_BYTES, expand};
use crate::layout::{COUNTER_BYTES, Form, authenticated, control_nonce, counter_of};
use crate::maker::maker_of;
use crate::open::OpenError;
use crate::seal::SealError;
use crate::window::Windows;

/// Bytes of a public key for pairs.
pub const PAIR_KEY_BYTES: usize = 32;
/// Pairs whose keys are kept in an epoch; where there are more, those of the longest idle one are derived again. What it
/// has heard is not forgotten.
const PAIRS_MAX: usize = 4096;
/// Separates this use of HKDF from any other of the same secrets.
const SALT: &[u8] = b"quicksilver pair key 1";

/// A member's secret for its pairs, of X25519 (RFC 7748); wiped from memory when it is dropped.
pub struct PairKey {
    node: NodeId,
    secret: PrivateKey,
    public: [u8; PAIR_KEY_BYTES],
}

impl PairKey {
    /// A new secret of this member, drawn by the system's generator.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn generate(node: NodeId) -> Result<Self, KeyError> {
        let secret = PrivateKey::generate(&X25519).map_err(|_| KeyError::Random)?;
        let public = secret.compute_public_key().map_err(|_| KeyError::Random)?;
        let public = public.as_ref().try_into().map_err(|_| KeyError::Random)?;
        Ok(Self {
            node,
            secret,
            public,
        })
    }

    /// Random bytes for a question that one who does not hear it cannot answer.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn challenge() -> Result<[u8; 8], KeyError> {
        let mut bytes = [0; 8];
        rand::fill(&mut bytes).map_err(|_| KeyError::Random)?;
        Ok(bytes)
    }

    /// The public part, for the others.
    #[must_use]
    pub fn public(&self) -> [u8; PAIR_KEY_BYTES] {
        self.public
    }
}

/// Without the secret.
impl fmt::Debug for PairKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PairKey({})", self.node)
    }
}

/// The other member of a pair, and its public key. That both belong together is another's word: the service's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PairPeer {
    /// Its number.
    pub node: NodeId,
    /// Its key.
    pub public: [u8; PAIR_KEY_BYTES],
}

/// A member's pairs in one epoch. The counter is one of all of them, so that it never repeats if keys are derived again.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    known: HashMap<PairPeer, Pair>,
    windows: Windows,
    counter: u64,
    /// Uses of all pairs.
    uses: u64,
}

struct Pair {
    says: PacketKey,
    hears: PacketKey,
    /// Number of its latest use.
    used: u64,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pair")
    }
}

impl Pair {
    /// `None`: the other's key is none, of which no secret comes.
    fn new(epoch: &ClusterKey, own: &PairKey, peer: &PairPeer) -> Option<Self> {
        let public = UnparsedPublicKey::new(&X25519, peer.public);
        let both = agree(&own.secret, public, (), |shared| {
            let mut both = Zeroizing::new(Vec::with_capacity(2 * SECRET_BYTES));
            both.extend_from_slice(shared);
            both.extend_from_slice(epoch.secret());
            Ok(both)
        });
        let secret = Salt::new(HKDF_SHA256, SALT).extract(&both.ok()?);
        let key = |from: NodeId, to: NodeId| {
            let (from, to) = (from.0.to_le_bytes(), to.0.to_le_bytes());
            let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
            expand(&secret, &[&from, &to], &mut *bytes)?;
            PacketKey::new(epoch.cipher(), &bytes)
        };
        Some(Self {
            says: key(own.node, peer.node)?,
            hears: key(peer.node, own.node)?,
            used: 0,
        })
    }

    fn open(&self, datagram: &mut [u8]) -> Result<usize, OpenError> {
        let length = datagram.len() - Form::Control.tail_bytes();
        let nonce = control_nonce(counter_of(datagram));
        let (head, rest) = datagram.split_at_mut(HEADER_BYTES);
        let sealed = rest.len() - COUNTER_BYTES;
        let (known, known_bytes) = authenticated(head);
        let known = &known[..known_bytes];
        let opened = self.hears.open(nonce, known, &mut rest[..sealed]);
        opened.ok_or(OpenError::Forged)?;
        seal(&mut datagram[..length], Coverage::Head);
        Ok(length)
    }
}

impl Pairs {
    fn with(&mut self, epoch: &ClusterKey, own: &PairKey, peer: &PairPeer) -> Option<&mut Pair> {
        if !self.known.contains_key(peer) {
            let pair = Pair::new(epoch, own, peer)?;
            if self.known.len() >= PAIRS_MAX {
                self.forget_idle();
            }
            self.known.insert(*peer, pair);
        }
        self.uses += 1;
        let pair = self.known.get_mut(peer)?;
        pair.used = self.uses;
        Some(pair)
    }

    fn forget_idle(&mut self) {
        let idle = self.known.iter().min_by_key(|(_, pair)| pair.used);
        if let Some(idle) = idle.map(|(peer, _)| *peer) {
            self.known.remove(&idle);
        }
    }

    /// Appends a packet that is not data, sealed for the peer alone.
    pub(crate) fn seal(
        &mut self,
        epoch: &ClusterKey,
        own: &PairKey,
        peer: &PairPeer,
        packet: Outgoing<'_>,
    ) -> Result<(), SealError> {
        let Outgoing { datagram, key, out } = packet;
        if datagram.len() < HEADER_BYTES {
            return Err(SealError::Short);
        }
        let maker = maker_of(datagram).node;
        if maker != own.node {
            return Err(SealError::OtherMaker(maker));
        }
        let counter = self.counter;
        let pair = self.with(epoch, own, peer).ok_or(SealError::Refused)?;
        let begin = out.len();
        out.extend_from_slice(datagram);
        let (head, body) = out[begin..].split_at_mut(HEADER_BYTES);
        head[FLAGS_AT] = SEALED;
        head[CHECKSUM_AT].copy_from_slice(&key.0.to_le_bytes());
        let (known, length) = authenticated(head);
        let nonce = control_nonce(counter);
        let Some(tag) = pair.says.seal(nonce, &known[..length], body) else {
            out.truncate(begin);
            return Err(SealError::Refused);
        };
        out.extend_from_slice(&tag);
        out.extend_from_slice(&counter.to_le_bytes());
        self.counter += 1;
        Ok(())
    }

    /// Opens a packet that the peer has sealed for this member.
    pub(crate) fn open(
        &mut self,
        epoch: &ClusterKey,
        own: &PairKey,
        peer: &PairPeer,
        datagram: &mut [u8],
    ) -> Result<usize, OpenError> {
        if datagram.len() < HEADER_BYTES + Form::Control.tail_bytes() {
            return Err(OpenError::Short);
        }
        if maker_of(datagram).node != peer.node {
            return Err(OpenError::Forged);
        }
        let counter = counter_of(datagram);
        if !self.windows.is_new(peer.node, counter) {
            return Err(OpenError::Replayed);
        }
        let pair = self.with(epoch, own, peer).ok_or(OpenError::Forged)?;
        let length = pair.open(datagram)?;
        self.windows.note(peer.node, counter);
        Ok(length)
    }
}

/// A packet to seal, the number of its epoch's key, and where it goes.
pub(crate) struct Outgoing<'a> {
    pub(crate) datagram: &'a [u8],
    pub(crate) key: KeyId,
    pub(crate) out: &'a mut Vec<u8>,
}
