//! In which epoch each data packet was sealed, without a note for each (R-SEC-11).
//!
//! A maker's packets of one channel are sealed in epochs that never go back while their numbers rise. So the highest
//! number of each epoch is enough: a packet belongs to the first epoch whose highest number is not below its own.

use std::collections::HashMap;

use qsm_wire::Origin;

use crate::maker::maker_of;
use crate::order::Epoch;

/// Streams of which something is known; where there are more, all are forgotten. Repairs of theirs are then sealed in
/// the epoch that is active: not the same bytes, and as good.
const STREAMS_MAX: usize = 1 << 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Stream {
    maker: Origin,
    channel: u32,
}

/// The highest number of a stream in an epoch.
#[derive(Debug, Clone, Copy)]
struct Reach {
    epoch: Epoch,
    last: u64,
}

/// A data packet's place in its stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    stream: Stream,
    sequence: u64,
}

impl Place {
    /// Of a data packet whose header is whole.
    pub(crate) fn of(datagram: &[u8]) -> Self {
        let mut channel = [0; 4];
        channel.copy_from_slice(&datagram[24..28]);
        let mut sequence = [0; 8];
        sequence.copy_from_slice(&datagram[32..40]);
        Self {
            stream: Stream {
                maker: maker_of(datagram),
                channel: u32::from_le_bytes(channel),
            },
            sequence: u64::from_le_bytes(sequence),
        }
    }
}

/// The streams of all makers.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// Reaches in the order of epochs.
    reaches: HashMap<Stream, Vec<Reach>>,
}

impl Streams {
    /// The epoch in which the packet of this place was sealed, as far as that is known.
    pub(crate) fn epoch(&self, place: Place) -> Option<Epoch> {
        let reaches = self.reaches.get(&place.stream)?;
        let reach = reaches.iter().find(|reach| reach.last >= place.sequence);
        reach.map(|reach| reach.epoch)
    }

    /// The packet of this place is sealed in this epoch.
    pub(crate) fn note(&mut self, place: Place, epoch: Epoch) {
        if self.reaches.len() >= STREAMS_MAX && !self.reaches.contains_key(&place.stream) {
            self.reaches.clear();
        }
        let reaches = self.reaches.entry(place.stream).or_default();
        match reaches.binary_search_by_key(&epoch, |reach| reach.epoch) {
            Ok(at) => reaches[at].last = reaches[at].last.max(place.sequence),
            Err(at) => reaches.insert(
                at,
                Reach {
                    epoch,
                    last: place.sequence,
                },
            ),
        }
    }

    /// Nothing is sealed in this epoch any more.
    pub(crate) fn forget(&mut self, epoch: Epoch) {
        self.reaches.retain(|_, reaches| {
            reaches.retain(|reach| reach.epoch != epoch);
            !reaches.is_empty()
        });
    }
}
