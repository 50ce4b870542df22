//! Words that replicas say to each other, and how they are written.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

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
    pub(crate) content: Vec<u8>,
}

/// Words of replicas beside updates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Word {
    Beat(Beat),
    Fetch(Fetch),
    Chunk(Chunk),
}

/// The state of a replica, told to all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Beat {
    pub(crate) from: Address,
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
    pub(crate) content: Vec<u8>,
}

/// Front of a snapshot: where it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Head {
    pub(crate) history: History,
    /// Applied so far, in all histories that led here.
    pub(crate) updates: u64,
    pub(crate) cut: Cut,
}

/// Writing these types into memory cannot fail: they have known lengths.
pub(crate) fn write<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).unwrap_or_default()
}

/// `None` for nonsense.
pub(crate) fn read<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Option<T> {
    postcard::from_bytes(bytes).ok()
}
