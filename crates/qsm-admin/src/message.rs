use serde::{Deserialize, Serialize};

/// A message, as a node sees it by the packets that it has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageState {
    /// Its group.
    pub group: String,
    /// Its sender's name, or its id where the membership service does not tell.
    pub sender: String,
    /// The sender's id and life.
    pub origin: String,
    /// Its number among the sender's messages to the group.
    pub number: u64,
    /// Where it stands.
    pub standing: Standing,
    /// The number of the sender's message that is delivered here next; `None`: none has come, or the sender is the node.
    pub next: Option<u64>,
    /// The sender's streams that may carry it.
    pub streams: Vec<MessageStreamState>,
}

/// Place of a message on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Standing {
    /// The node has not published so many.
    Unpublished,
    /// It is published, and not sent.
    Unsent,
    /// It is sent, and not all live receivers are known to have it.
    Unacknowledged,
    /// All live receivers have it.
    Acknowledged,
    /// The node does not receive the group.
    NotReceived,
    /// Nothing of the sender to the group has come.
    Unheard,
    /// It was delivered, or the application was told that it is lost.
    Past,
    /// It is here, and waits for packets before it.
    Waits,
    /// A part of it is here.
    Partial,
    /// It is not here, and packets are missing that may have it.
    Missing,
    /// It is not here, and no packet is known to be missing; or there are more packets than are looked through.
    Unknown,
}

/// A stream that may carry a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageStreamState {
    /// The region's number.
    pub region: u32,
    /// The number of its channel.
    pub channel: u32,
    /// Packets known to exist.
    pub packets: u64,
    /// All packets up to this number have come, or are lost; of the node's own stream: were sent.
    pub contiguous: u64,
    /// All live members have packets up to this number, as far as is known.
    pub stable_upto: u64,
    /// Packets here with parts of the message.
    pub parts: Option<PartsState>,
    /// There were more packets than are looked through.
    pub cut_short: bool,
    /// The sender is gone.
    pub dead: bool,
    /// Packets that are missing.
    pub missing: u64,
    /// The oldest of them.
    pub gaps: Vec<GapState>,
}

/// Packets with parts of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartsState {
    /// The first of them.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Number of them that are here.
    pub packets: u64,
    /// The view that the first was sent in.
    pub view: u32,
    /// How the first came here.
    pub came: Came,
    /// All of the message is in them.
    pub complete: bool,
}

/// Way by which a packet came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Came {
    /// From its sender, for the first time.
    Direct,
    /// From its sender, once more.
    SenderRepair,
    /// From another receiver that was asked.
    CacherRepair,
    /// From another receiver, unasked.
    Push,
    /// From another receiver that was asked in a round of tokens.
    PullRepair,
    /// From its sender, as a copy by unicast.
    Copy,
}

/// Packets that are missing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GapState {
    /// The first.
    pub first: u64,
    /// The last.
    pub last: u64,
    /// Microseconds since they were found missing.
    pub age_micros: u64,
    /// Requests made.
    pub requests: u8,
    /// The name of the node that was asked last.
    pub asked: Option<String>,
    /// They wait until fewer packets are asked for at a time.
    pub put_off: bool,
}
