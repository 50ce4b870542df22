//! Words that replicas say to each other, and how they are written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::order::Order;

/// A replica as others reach it, for as long as its process keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address(pub u64);

/// A replica as a source of updates, until it binds anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub(crate) struct Source(pub(crate) u64);

/// A line of states, each made of the one before by an update. Where two meet, the greater stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct History {
    /// Times that the state was founded anew on what a replica had kept.
    pub generation: u32,
    /// Drawn by the founder.
    pub id: u64,
}

/// Number of the last update applied, of each source.
pub(crate) type Cut = BTreeMap<Source, u64>;

/// An update on its way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Update {
    pub(crate) history: History,
    pub(crate) source: Source,
    /// 1, 2, 3, … of this source.
    pub(crate) number: u64,
    #[serde(with = "serde_bytes")]
    pub(crate) content: Vec<u8>,
}

/// Number of a sequencer's time in a history: 1, 2, 3, …
pub(crate) type Term = u64;

/// Place in the sequence of a history: 1, 2, 3, …
pub(crate) type Position = u64;

/// A replica whose log counts: what a majority of voters has is in the sequence for good. It is one until it binds
/// anew, which forgets its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Voter {
    pub(crate) address: Address,
    pub(crate) life: Source,
}

/// An update by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) source: Source,
    pub(crate) number: u64,
}

/// Step of the sequence.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Step {
    /// This update is applied.
    Update(Place),
    /// These are the voters from here on.
    Voters(Vec<Voter>),
    /// This source is gone, and its number is not kept any more.
    Forget(Source),
}

/// Steps of one term: `count` updates of a source from this one on, or one other step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Item {
    pub(crate) term: Term,
    pub(crate) step: Step,
    pub(crate) count: u32,
}

/// A part of the sequence, of its sequencer, to all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) history: History,
    pub(crate) term: Term,
    pub(crate) sequencer: Voter,
    /// Position and term of the entry before the first item.
    pub(crate) behind: Position,
    pub(crate) behind_term: Term,
    pub(crate) items: Vec<Item>,
    /// Up to here the sequence is what it will be.
    pub(crate) agreed: Position,
    /// Entries up to here are not kept by the sequencer.
    pub(crate) base: Position,
}

/// Confirmation that a replica has what the sequencer of this term has, up to a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ack {
    pub(crate) history: History,
    pub(crate) term: Term,
    pub(crate) life: Source,
    pub(crate) reached: Position,
    /// It needs the entries from there on once more.
    pub(crate) lacks: bool,
}

/// A replica's question whether it may be the sequencer of a term.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub(crate) history: History,
    pub(crate) term: Term,
    pub(crate) life: Source,
    /// Term and position of the last entry of its log.
    pub(crate) end: (Term, Position),
    /// It asks only what the answer would be.
    pub(crate) trial: bool,
}

/// Answer yes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) history: History,
    pub(crate) term: Term,
    pub(crate) life: Source,
    pub(crate) to: Source,
    pub(crate) trial: bool,
}

/// Where the log of a replica begins that has a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    pub(crate) position: Position,
    pub(crate) term: Term,
    pub(crate) voters: Vec<Voter>,
}

/// Words of replicas beside updates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Word {
    Beat(Beat),
    Fetch(Fetch),
    Chunk(Chunk),
    Record(Record),
    Ack(Ack),
    Ask(Ask),
    Grant(Grant),
    /// It ends: nobody need wait for it.
    Leave(Source),
}

/// The state of a replica, told to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) from: Address,
    pub(crate) life: Source,
    pub(crate) order: Order,
    pub(crate) standing: Standing,
    /// Which founder it stands for, with the time at which that one asked.
    pub(crate) vote: Option<Vote>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Standing {
    /// It has no state, or one with a hole.
    Binding {
        kept: Kept,
        /// Milliseconds of its own clock.
        asked: u64,
    },
    Live {
        history: History,
        updates: u64,
        /// Of its cut.
        digest: u64,
        /// Of its state, if that can be compared now.
        state: Option<u64>,
        /// It has published: others are asked first.
        publishes: bool,
        /// It gives snapshots: its state follows, under a sequencer if there is to be one.
        serves: bool,
    },
}

/// State that a replica without a valid one still has: the greatest is founded upon if nobody is live.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub(crate) generation: u32,
    pub(crate) updates: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Vote {
    pub(crate) founder: Address,
    pub(crate) asked: u64,
}

/// A question for chunks of a snapshot, which the donor takes at the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Fetch {
    pub(crate) from: Address,
    pub(crate) to: Address,
    pub(crate) transfer: u64,
    pub(crate) first: u32,
}

/// A piece of a snapshot, to the joiner alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chunk {
    pub(crate) from: Address,
    pub(crate) transfer: u64,
    /// Hash of the whole snapshot with its cut.
    pub(crate) whole: u128,
    pub(crate) chunks: u32,
    pub(crate) index: u32,
    /// Hash of this piece.
    pub(crate) hash: u64,
    #[serde(with = "serde_bytes")]
    pub(crate) content: Vec<u8>,
}

/// Front of a snapshot: where it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) history: History,
    /// Applied so far, in all histories that led here.
    pub(crate) updates: u64,
    pub(crate) cut: Cut,
    /// Of the sequence, where there is a total order.
    pub(crate) anchor: Option<Anchor>,
}

/// Writing these types into memory cannot fail: they have known lengths.
pub(crate) fn write<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap_or_default()
}

/// `None` for nonsense.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_one_piece_are_written_as_a_sequence_of_them_is() {
        let content: Vec<u8> = (0..=255).collect();
        let update = Update {
            history: History {
                generation: 1,
                id: 7,
            },
            source: Source(3),
            number: 5,
            content: content.clone(),
        };
        let written = write(&update);
        let by_one = write(&(update.history, update.source, update.number, content));
        assert_eq!(written, by_one);
        assert_eq!(read(&written), Some(update));
    }
}
