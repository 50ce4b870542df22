//! Numbers and texts of a packet between an attached process and the engine.

use std::sync::Arc;
use std::time::Duration;

use qsm_proto::Deafness;
use qsm_wire::{Incarnation, NodeId, Origin, RegionId};

use crate::error::Unconfirmed;

/// Longest text of an error.
const TEXT_BYTES_MAX: usize = 2000;

/// A packet being written.
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn new(kind: u8) -> Self {
        Self(vec![kind])
    }

    pub(super) fn origin(self, origin: Origin) -> Self {
        self.u64(origin.node.0).u32(origin.incarnation.0)
    }

    pub(super) fn deafness(self, deafness: &Deafness) -> Self {
        let peer = deafness.peer.map(|peer| peer.to_string());
        self.u32(deafness.region.0)
            .u32(u32::from(deafness.here))
            .origin(deafness.listener)
            .origin(deafness.speaker)
            .cut(&deafness.address.to_string())
            .cut(&peer.unwrap_or_default())
    }

    pub(super) fn u32(mut self, value: u32) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn u64(mut self, value: u64) -> Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    pub(super) fn duration(self, value: Duration) -> Self {
        self.u64(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX))
    }

    /// A text, cut where it is longer than any that is of use.
    pub(super) fn cut(mut self, text: &str) -> Self {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.text(&text[..end]);
        self
    }

    pub(super) fn unconfirmed(self, messages: &Unconfirmed) -> Self {
        let packet = self.u32(messages.incarnation.0);
        packet
            .u64(messages.first)
            .u64(messages.last)
            .cut(&messages.group)
    }

    pub(super) fn text(&mut self, text: &str) {
        // A name of a group longer than that is refused by the node, and so it may be cut.
        let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.0.extend(length.to_le_bytes());
        self.0.extend(&text.as_bytes()[..usize::from(length)]);
    }
}

/// What is left of a packet being read.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl<'a> Rest<'a> {
    pub(super) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    pub(super) fn unconfirmed(&mut self) -> Option<Unconfirmed> {
        Some(Unconfirmed {
            incarnation: Incarnation(self.u32()?),
            first: self.u64()?,
            last: self.u64()?,
            group: Arc::from(self.text()?),
        })
    }

    pub(super) fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    pub(super) fn origin(&mut self) -> Option<Origin> {
        Some(Origin {
            node: NodeId(self.u64()?),
            incarnation: Incarnation(self.u32()?),
        })
    }

    pub(super) fn deafness(&mut self) -> Option<Deafness> {
        let (region, here) = (RegionId(self.u32()?), self.u32()? != 0);
        let (listener, speaker) = (self.origin()?, self.origin()?);
        Some(Deafness {
            region,
            address: self.text()?.parse().ok()?,
            listener,
            speaker,
            peer: match self.text()? {
                "" => None,
                peer => Some(peer.parse().ok()?),
            },
            here,
        })
    }

    pub(super) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(super) fn duration(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_nanos)
    }

    pub(super) fn text(&mut self) -> Option<&'a str> {
        let length = usize::from(u16::from_le_bytes(self.take()?));
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        core::str::from_utf8(text).ok()
    }
}
