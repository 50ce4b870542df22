//! Protection of a cluster's packets: who has the cluster's key reads and writes them, and nobody
//! else (algorithms of RFC 5116, 5869, 8439, AEGIS of draft-irtf-cfrg-aegis-aead; nonces by sender as in RFC 6054).
//!
//! ```text
//!  key file ──► ClusterKey ──► for each maker, by HKDF: a key for data, a key for control
//!                                        │
//!  datagram ── Sealer::seal ──► sealed bytes ── network ──► Opener::open ──► datagram, in place
//! ```
//!
//! A packet's header stays readable, and nobody can change it: it is authenticated with the rest. The hop, which
//! changes on the way, is not. The nonce of a data packet is its channel and number, which never repeat in a life
//! of its maker; so whoever repairs it makes the same bytes again, without having kept them. Other packets carry a
//! counter, and one that comes twice is dropped.
//!
//! A key may change while the cluster runs: a service makes a key for each epoch ([`EpochIssuer`]), its members hold
//! those that are in use ([`Epochs`]). How their orders and receipts get to each other is not known here, but it must
//! be by protected sessions that keep them whole and in order.
//!
//! Packets of a member for one other are sealed by a key of that pair ([`PairKey`]), which nobody else has. Packets for
//! all that are not data are signed by their maker ([`Epochs::seal_signed`]).
//!
//! Streams by relays are sealed from end to end by a key that relays have not ([`ContentSealer`]).
//!
//! This crate knows bytes and keys: no socket, no file, and no clock but the time that it is given.
//!
//! ```
//! use qsm_seal::{Cipher, ClusterKey, Opener, Sealer};
//! use qsm_wire::{Header, Incarnation, NodeId, Origin, ChannelId, StreamQuery, seal, Coverage};
//!
//! let key = ClusterKey::generate(Cipher::Aes256Gcm)?;
//! let origin = Origin { node: NodeId(7), incarnation: Incarnation(1) };
//! let mut packet = Vec::new();
//! let header = Header { origin, ..Header::default() };
//! StreamQuery { channel: ChannelId(3), stream: origin }.encode(&header, &mut packet);
//! seal(&mut packet, Coverage::Head);
//!
//! let mut sealed = Vec::new();
//! Sealer::new(&key).seal(&packet, &mut sealed)?;
//! let mut opener = Opener::new(&key);
//! let length = opener.open(&mut sealed)?;
//! assert_eq!(sealed[..length], packet);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod aead;
mod content;
mod epochs;
mod issuer;
mod key;
mod layout;
mod maker;
mod open;
mod order;
mod pairs;
mod seal;
mod signed;
mod streams;
mod window;

pub use content::{CONTENT_GROWTH, ContentError, ContentOpener, ContentSealer};
pub use epochs::{EPOCHS_MAX, Epochs, FORMER_FOR};
pub use issuer::{
    ACTIVATE_AFTER, EpochIssuer, LEAVES_APART, Leaving, PERIOD, SPACING, Silent, Told,
};
pub use key::{Cipher, ClusterKey, KeyError, KeyId};
pub use open::{OpenError, Opener};
pub use order::{Epoch, EpochOrder, EpochReceipt};
pub use pairs::{PAIR_KEY_BYTES, PairKey, PairPeer};
pub use seal::{SealError, Sealer};
pub use signed::Unproven;
