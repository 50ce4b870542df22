//! Messages between the coordinator, which is the process of `qsm demo`, and the processes it
//! starts: one JSON object in each line, on their standard input and output.

use serde::{Deserialize, Serialize};

/// From the coordinator to a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum DemoCommand {
    /// To senders: wait for the receivers, then publish.
    Start,
    /// To senders: the receiver is back; when all groups have their members, note how far you are.
    Mark,
    /// To senders: publish no more, wait until everything is stable, and say what it was.
    Finish,
    /// To receivers: when you have received up to these numbers, say what you received.
    Report {
        /// Streams to be received.
        ends: Vec<End>,
        /// Time to wait for them, milliseconds.
        patience_ms: u64,
    },
    /// To senders: say the hashes of these messages.
    Hash {
        /// Which.
        ranges: Vec<Range>,
    },
    /// End.
    End,
}

/// From a process to the coordinator.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum DemoReport {
    /// A node is in its groups, as a receiver or as a publisher.
    Ready {
        /// The node in its life.
        origin: String,
    },
    /// A sender sees all receivers, and publishes from now on.
    Started,
    /// Progress; several times a second.
    Figures(Figures),
    /// Receivers of the cluster-wide group, when a sender sees their number change.
    Members(u32),
    /// The answer to [`DemoCommand::Mark`].
    Marked,
    /// The answer to [`DemoCommand::Finish`].
    Published {
        /// By group.
        groups: Vec<Published>,
        /// Members and groups of each region of the cluster that has an address of its own.
        regions: Vec<(usize, u32)>,
        /// Regions of one member's inbox.
        private_regions: usize,
    },
    /// The answer to [`DemoCommand::Report`].
    Received {
        /// By group and sender.
        streams: Vec<Stream>,
    },
    /// The answer to [`DemoCommand::Hash`], in the same order.
    Hashes(Vec<String>),
    /// Trouble, for people.
    Trouble(String),
}

/// The last message of one sender in one group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct End {
    /// The group's place in the plan.
    pub(crate) group: usize,
    /// The sender.
    pub(crate) sender: String,
    /// The number of its last message.
    pub(crate) last: u64,
}

/// Messages of one group of the sender that is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Range {
    /// The group's place in the plan.
    pub(crate) group: usize,
    /// The first.
    pub(crate) first: u64,
    /// The last.
    pub(crate) last: u64,
}

/// Counts of a sender in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Published {
    /// The group's place in the plan.
    pub(crate) group: usize,
    /// Messages.
    pub(crate) count: u64,
    /// Messages before [`DemoReport::Marked`].
    pub(crate) mark: u64,
}

/// Messages of one sender in one group, as received.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stream {
    /// The group's place in the plan.
    pub(crate) group: usize,
    /// The sender.
    pub(crate) sender: String,
    /// Number of the first message.
    pub(crate) first: u64,
    /// Number of the last message.
    pub(crate) last: u64,
    /// Messages.
    pub(crate) count: u64,
    /// SHA-256 over the SHA-256s of the messages.
    pub(crate) hash: String,
}

/// Progress of one process since its start.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Figures {
    /// Messages published, or received.
    pub(crate) messages: u64,
    /// Their bytes.
    pub(crate) bytes: u64,
    /// Groups.
    pub(crate) groups: u64,
    /// Members of its region; of the cluster-wide group for senders.
    pub(crate) members: u32,
    /// Data packets sent, without repairs.
    pub(crate) packets: u64,
    /// Datagrams lost on purpose.
    pub(crate) injected: u64,
    /// Datagrams dropped by the kernel because a buffer was full.
    pub(crate) kernel_drops: u64,
    /// Packets that came from a receiver that had kept them.
    pub(crate) from_receivers: u64,
    /// Packets that came from their sender again.
    pub(crate) from_sender: u64,
    /// Packets that came by unicast, because multicast does not.
    pub(crate) copies: u64,
    /// Messages given up.
    pub(crate) lost: u64,
    /// Median time of a repair, microseconds.
    pub repair_p50_us: u64,
}
