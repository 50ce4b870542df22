//! Commands of application threads, or of the node's other cores, to a core.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use qsm_proto::account::{GroupAccount, MessageAccount};
use qsm_proto::send::Batching;
use qsm_wire::Origin;
use qsm_wire::membership::{AnswerRows, QueryKind};

use crate::error::{CloseReason, Flushed};
use crate::event::Event;
use crate::handoff::feed::Feed;
use crate::handoff::inbox::Inbox;
use crate::handoff::mode::DeliveryMode;
use crate::handoff::outlet::Outlet;
use crate::handoff::reply::Reply;
use crate::handoff::signal::Signal;
use crate::handoff::sink::Sink;
use crate::handoff::void::Told;
use crate::snapshot::Snapshot;

/// What a flush waits for, and the remedy.
pub(crate) const FLUSHING: &str = "waiting for all receivers to have everything; allow more time, \
                                   or find out which receiver is slow";

/// A feed's place in the core's table of sources.
pub(crate) struct FeedPlace {
    pub(crate) slot: u32,
    pub(crate) signal: Arc<Signal>,
}

/// Question after a message; the answer is `None` where the core knows nothing of the group.
pub(crate) struct MessageQuestion {
    /// Its group.
    pub(crate) name: String,
    pub(crate) sender: Origin,
    pub(crate) number: u64,
    pub(crate) reply: Reply<Option<MessageAccount>>,
}

/// What application threads, or the node's other cores, want of a core, beside sending.
pub(crate) enum Command {
    /// Account of a group; `None`: the core knows nothing of it.
    Account {
        name: String,
        reply: Reply<Option<GroupAccount>>,
    },
    /// This text is the node's description from now on.
    Describe {
        text: String,
    },
    MessageAccount(MessageQuestion),
    /// A core of this node finds no membership service: start one, or say where it is.
    Embed,
    Events {
        inbox: Arc<Inbox<Event>>,
    },
    Feed {
        name: Arc<str>,
        feed: Box<dyn Feed>,
        batching: Option<Batching>,
        reply: Reply<FeedPlace>,
    },
    Flush {
        deadline: Instant,
        /// Ranges that the one who flushes has been told of.
        told: Told,
        reply: Reply<Flushed>,
    },
    Leave {
        names: Vec<Arc<str>>,
        deadline: Instant,
        reply: Reply<()>,
    },
    Members {
        name: Arc<str>,
        reply: Reply<u32>,
    },
    Publish {
        names: Vec<Arc<str>>,
        batching: Option<Batching>,
        deadline: Instant,
        reply: Reply<Vec<Arc<Outlet>>>,
    },
    Query {
        kind: QueryKind,
        deadline: Instant,
        reply: Reply<AnswerRows>,
    },
    Retire {
        slot: u32,
    },
    /// The membership service is there.
    Service {
        address: SocketAddr,
    },
    /// The node's own service is there now.
    ServiceMoved {
        address: SocketAddr,
    },
    ServiceYielded,
    Shutdown {
        deadline: Instant,
        /// What handles will be told.
        reason: CloseReason,
        reply: Option<Reply<Flushed>>,
    },
    Snapshot {
        reply: Reply<Snapshot>,
    },
    Subscribe(Subscribe),
    Unsubscribe {
        key: u64,
    },
    WaitAdmitted {
        deadline: Instant,
        reply: Reply<Flushed>,
    },
    WaitMembers {
        name: Arc<str>,
        count: u32,
        deadline: Instant,
        reply: Reply<Flushed>,
    },
}

pub(crate) struct Subscribe {
    pub(crate) key: u64,
    pub(crate) names: Arc<[Arc<str>]>,
    pub(crate) sink: Sink,
    pub(crate) delivery: DeliveryMode,
    pub(crate) deadline: Instant,
    pub(crate) reply: Reply<()>,
}
