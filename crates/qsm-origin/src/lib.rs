//! Proof of origin: a member of a cluster has the keys that others seal by, and could send in their name; what it
//! sends so is found here, and named by its number.
//!
//! ```text
//!  sender     packets 1 2 3 ──► Sealer: digests ──► packet 4: a seal, signed by the node's key
//!                                                        │
//!  receiver   packets 1 x 3 ──► Verifier ◄───────────────┘
//!                                  └──► 1 proven, 2 forged, 3 proven, 4 proven
//! ```
//!
//! A seal is the only chunk of a data packet, so it can be numbered, cached and repaired as any other. It has digests
//! of the packets right before it, and a signature over them and the head of its own packet: cluster, node, life,
//! channel, view and number. A seal that is lost is made good by a repair, and packets that come after their seal are
//! judged at once.
//!
//! A stream that is to be sealed from some packet on says so by a seal without digests, which names the packets before it
//! that no seal is for.
//!
//! This crate knows bytes and keys: no socket, and no clock but the time that it is given. The same packets and the same
//! key give the same seal.
//!
//! ```
//! use core::time::Duration;
//! use qsm_identity::NodeKey;
//! use qsm_origin::{SEAL_GROUP, Sealer, Verdict, Verifier};
//! use qsm_wire::{ChannelId, Chunk, DataHeader, Header, Part, StreamId, ViewNumber};
//!
//! let key = NodeKey::generate()?;
//! let header = Header::default();
//! let stream = StreamId { origin: header.origin, channel: ChannelId(3) };
//! let head = |sequence| DataHeader { channel: stream.channel, view: ViewNumber(1), sequence, view_age: 0 };
//!
//! let mut sealer = Sealer::new(stream, 1400)?;
//! let mut packet = Vec::new();
//! head(1).encode(&header, &mut packet);
//! sealer.note(Duration::ZERO, &packet)?;
//! let content = sealer.seal(&key, &header, &head(2))?;
//! let mut seal = Vec::new();
//! head(2).encode(&header, &mut seal);
//! Chunk { group: SEAL_GROUP, message: 0, part: Part::Whole, content: &content }.encode(&mut seal);
//!
//! let mut verifier = Verifier::new(header.cluster, stream, key.public());
//! let mut findings = Vec::new();
//! assert_eq!(verifier.take(&packet, &mut findings), Verdict::Waits);
//! assert_eq!(verifier.take(&seal, &mut findings), Verdict::Proven);
//! assert_eq!((findings[0].sequence, findings[0].verdict), (1, Verdict::Proven));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod batch;
mod digest;
mod seal;
mod sealer;
mod verifier;

pub use digest::{DIGEST_BYTES, Digest};
pub use seal::{PACKETS_MAX, ProvenSeal, SEAL_GROUP, Seal, SealError};
pub use sealer::{SEAL_AFTER, Sealer, SealerError};
pub use verifier::{Finding, Verdict, Verifier, WINDOW_PACKETS};
