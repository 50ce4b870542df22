//! The sender's side: digests of what is sent, until they are sealed.

use core::fmt;
use core::time::Duration;

use qsm_identity::NodeKey;
use qsm_wire::{Data, DataHeader, Header, StreamId, origin_of};

use crate::batch::Batch;
use crate::digest::DIGEST_BYTES;
use crate::seal::{packets_max, statement};

/// Longest time from a packet until its seal is due.
pub const SEAL_AFTER: Duration = Duration::from_millis(5);

/// Digests of one stream's packets since its last seal: 16 bytes for each, and copies of the last of them, 16 at most, which
/// are digested together.
#[derive(Debug)]
pub struct Sealer {
    stream: StreamId,
    packets_max: usize,
    digests: Vec<u8>,
    /// Packets behind those.
    batch: Batch,
    /// Number of the last packet, or of the last seal; 0 before the first.
    last: u64,
    /// When the first packet since the last seal was noted.
    since: Option<Duration>,
}

impl Sealer {
    /// A sealer of a stream whose packets have at most so many bytes.
    ///
    /// # Errors
    /// [`SealerError::NoRoom`]: no seal would fit in a packet.
    pub fn new(stream: StreamId, packet_bytes: usize) -> Result<Self, SealerError> {
        let packets_max = packets_max(packet_bytes);
        if packets_max == 0 {
            return Err(SealerError::NoRoom { packet_bytes });
        }
        Ok(Self {
            stream,
            packets_max,
            digests: Vec::new(),
            batch: Batch::default(),
            last: 0,
            since: None,
        })
    }

    /// Puts no more packets between two seals than so many, at least one.
    #[must_use]
    pub fn at_most(mut self, packets: usize) -> Self {
        self.packets_max = self.packets_max.min(packets.max(1));
        self
    }

    /// Most packets between two seals: as many full ones as are 512 KiB, or fewer where more digests do not fit in a packet, or
    /// [`Self::at_most`] says so.
    #[must_use]
    pub fn packets_max(&self) -> usize {
        self.packets_max
    }

    /// Takes note of a packet that is sent, as its maker made it, at a time since any fixed one. The first may have any
    /// number; those that follow come in order, and none is left out.
    ///
    /// # Errors
    /// [`SealerError::OtherStream`], [`SealerError::NotNext`], or [`SealerError::Full`] if a seal has to be next.
    /// Nothing has changed then.
    pub fn note(&mut self, now: Duration, datagram: &[u8]) -> Result<(), SealerError> {
        let data = Data::read_again(datagram).ok_or(SealerError::OtherStream)?;
        let origin = origin_of(datagram).ok_or(SealerError::OtherStream)?;
        self.expect(origin == self.stream.origin, &data.head)?;
        if self.is_full() {
            return Err(SealerError::Full);
        }
        self.batch.add(datagram);
        if self.batch.is_full() {
            self.digest();
        }
        self.last = data.head.sequence;
        self.since.get_or_insert(now);
        Ok(())
    }

    fn digest(&mut self) {
        for digest in self.batch.digests() {
            self.digests.extend_from_slice(digest.as_bytes());
        }
    }

    fn expect(&self, own: bool, head: &DataHeader) -> Result<(), SealerError> {
        let expected = self.last.saturating_add(1);
        if !own || head.channel != self.stream.channel {
            return Err(SealerError::OtherStream);
        }
        if self.last != 0 && head.sequence != expected {
            let got = head.sequence;
            return Err(SealerError::NotNext { expected, got });
        }
        Ok(())
    }

    /// Tells whether as many packets have been noted as a seal is for.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.noted() >= self.packets_max
    }

    /// When a seal is due: 5 ms after the first packet that it is for, and at once when there are as many as it is for.
    /// `None`: nothing is to be sealed. A stream that goes idle may be sealed before.
    #[must_use]
    pub fn due_at(&self) -> Option<Duration> {
        let since = self.since?;
        Some(match self.is_full() {
            true => since,
            false => since.saturating_add(SEAL_AFTER),
        })
    }

    /// Forgets what has not been sealed: nobody is there any more who could ask for a proof.
    pub fn forget(&mut self) {
        self.digests.clear();
        self.batch.clear();
        self.since = None;
    }

    /// Number of packets that the next seal is for, as far as they have been noted.
    #[must_use]
    pub fn noted(&self) -> usize {
        self.digests.len() / DIGEST_BYTES + self.batch.packets()
    }

    /// Content of a seal with which a stream begins to be sealed: of the packets from `unsealed` on, up to the one before
    /// the seal, nobody can prove whose they are. It has to be sent as other seals.
    ///
    /// # Errors
    /// [`SealerError::OtherStream`], [`SealerError::NotNext`]: also where packets have been noted. Nothing has changed then.
    pub fn begin(
        &mut self,
        key: &NodeKey,
        header: &Header,
        head: &DataHeader,
        unsealed: u64,
    ) -> Result<Vec<u8>, SealerError> {
        if self.noted() > 0 {
            let (expected, got) = (self.last.saturating_add(1), head.sequence);
            return Err(SealerError::NotNext { expected, got });
        }
        self.expect(header.origin == self.stream.origin, head)?;
        let mut content = unsealed.to_le_bytes().to_vec();
        content.extend_from_slice(&key.sign(&statement(header, head, &content)));
        self.last = head.sequence;
        Ok(content)
    }

    /// Content of the seal of all packets since the last one. It has to be sent as the only chunk of the packet with
    /// this header and this head, which is the next of the stream, without padding, with 0 for the message's number.
    ///
    /// # Errors
    /// [`SealerError::Nothing`], [`SealerError::OtherStream`], [`SealerError::NotNext`]. Nothing has changed then.
    pub fn seal(
        &mut self,
        key: &NodeKey,
        header: &Header,
        head: &DataHeader,
    ) -> Result<Vec<u8>, SealerError> {
        if self.noted() == 0 {
            return Err(SealerError::Nothing);
        }
        self.expect(header.origin == self.stream.origin, head)?;
        self.digest();
        let signature = key.sign(&statement(header, head, &self.digests));
        let mut content = core::mem::take(&mut self.digests);
        content.extend_from_slice(&signature);
        self.last = head.sequence;
        self.since = None;
        Ok(content)
    }
}

/// Reason for which a sealer does not take a packet, or makes no seal: each but [`Self::Full`] and [`Self::NoRoom`]
/// would be a fault of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SealerError {
    /// Packets of so many bytes are too short for a seal.
    NoRoom {
        /// Longest packet, bytes.
        packet_bytes: usize,
    },
    /// The packet is none of the stream's.
    OtherStream,
    /// The packet is not the next one.
    NotNext {
        /// The number that the next one has.
        expected: u64,
        /// The number that this one has.
        got: u64,
    },
    /// A seal has to be sent first.
    Full,
    /// There is nothing to seal.
    Nothing,
}

impl fmt::Display for SealerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoom { packet_bytes } => write!(
                f,
                "packets of {packet_bytes} bytes are too short for a seal: let them have 134 or more"
            ),
            Self::OtherStream => f.write_str("the packet is of another stream"),
            Self::NotNext { expected, got } => {
                write!(f, "packet {expected} is next, and this is {got}")
            }
            Self::Full => f.write_str("a seal has to be sent before more packets"),
            Self::Nothing => f.write_str("nothing was sent since the last seal"),
        }
    }
}

impl core::error::Error for SealerError {}
