//! Reliable multicast to thousands of overlapping groups, without a broker.
//!
//! Every live subscriber of a group gets every message published to it, once, in the order of its
//! sender, or is told in its place what is missing.
//!
//! What it does not do: messages are not stored for those who join later, unless the crate
//! `qsm-history` keeps the last ones in memory, the order of messages of different senders may
//! differ from receiver to receiver, and nothing is encrypted unless the cluster takes tokens or
//! certificates ([`Identity`]) or has a key ([`ClusterKey`]).
//!
//! ```text
//!  Publisher::send ──► queue of the publisher ─┐   ┌───────────────┐
//!  Feed::pull ◄────────────────────────────────┴─► │  core thread  │ ◄──► sockets
//!  Subscription ◄── queue of the subscription ◄─┬─ │ one of a Node │
//!  upcalls ◄────────────────────────────────────┘  └───────────────┘
//! ```
//!
//! ```no_run
//! use std::time::Duration;
//! use qsm::Node;
//!
//! let node = Node::builder().name("ticker").start()?;
//! let prices = node.subscribe(["prices/eur", "prices/usd"])?;
//! let publisher = node.publisher("prices/eur")?;
//! publisher.send(b"1.0842")?;
//! for message in prices.messages().take(1) {
//!     let message = message?;
//!     let price = str::from_utf8(message.bytes())?;
//!     println!("{} #{}: {price}", message.group(), message.number());
//! }
//! node.shutdown(Duration::from_secs(5))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Where to begin:
//! - [`Node`]: a member of the cluster, of this process or attached to that of another one.
//! - [`Group`] and [`Groups`]: by [`Node::group`], with [`GroupOptions`]; names, or patterns such
//!   as `prices/*`.
//! - [`Subscription`]: what comes, and what is missing, in order; for threads and tasks. [`Upcalls`]
//!   have no queue.
//! - [`Publisher`]: what is sent. A [`Feed`] makes messages when there is room for them.
//! - [`Events`]: what happens to the node.
//! - [`Service`]: the membership service as a program of its own.
//! - [`Observer`]: lists of the cluster for those who are not in it.
//!
//! The contract:
//! 1. One core thread does all the work of a [`Node`], or several, each for its share of the groups
//!    ([`Builder::cores`]). Handles only queue and wait, so they may be used from any thread.
//!    Upcalls and feeds run on the core thread of their group.
//! 2. Every queue is bounded. A full publisher's queue makes [`Publisher::send`] wait; a full
//!    subscription's queue drops by a declared policy ([`Overflow`]), counts, and tells where
//!    ([`Received::Dropped`]).
//! 3. No message is delivered twice to a subscription, none is invented, and messages of one
//!    sender to one group come in order. What cannot be delivered is told in its place, by
//!    [`Received::Lost`] and its like, to each subscription that it was for, and by no queue ever
//!    dropped.
//! 4. A node goes on without membership service with those it knows; joining and leaving wait.
//! 5. Errors name the cause and the remedy, and have a stable [`ErrorCode`]. After the end of a
//!    node, all handles say why.
//! 6. A subscription to a pattern enters groups as it finds them, within seconds and up to a limit
//!    ([`Group`](Group#patterns)); from then on they are like others.
//!
//! Without anything else running, the first node of a network starts a membership service by
//! itself ([`Embedded`]); for a cluster to outlive its first node, run one as a program of its
//! own: [`Service`].

mod admission;
pub mod attach;
mod code;
mod counted;
mod error;
mod event;
mod handle;
mod handoff;
mod key;
mod latency;
mod receivers;
mod relayed;
mod report;
mod runtime;
mod shard;
mod snapshot;
mod stats;
mod unconfirmed;

pub use admission::{AdmissionStats, Identity, IdentityError};
pub use code::ErrorCode;
pub use error::{
    CloseReason, Flushed, Outstanding, RecvError, RequestError, SendError, StartError, Unconfirmed,
    Unsent, Unserved,
};
pub use event::{Event, Forged, NotPermitted, Stranger, StrangerCause};
pub use handle::builder::Builder;
pub use handle::events::Events;
pub use handle::feed::FeedHandle;
pub use handle::follow::Followed;
pub use handle::group::{Group, Groups};
pub use handle::latest::Latest;
pub use handle::node::Node;
pub use handle::observer::{Observer, ObserverBuilder};
pub use handle::options::{GroupOptions, PublishOptions};
pub use handle::publisher::Publisher;
pub use handle::reservation::Reservation;
pub use handle::service::{SERVICE_PORT, Service, ServiceBuilder, measure_plan_costs};
pub use handle::subscription::{Messages, MessagesError, Subscription, Upcalls};
pub use handoff::feed::{Feed, Pull};
pub use handoff::message::{Message, MessageRef, Overflow};
pub use handoff::mode::DeliveryMode;
pub use handoff::received::{
    Back, Delivery, Dropped, Excluded, Lost, LostCause, LostPackets, Received,
};
pub use key::{KeyFileCause, KeyFileError, read_key, read_secret, write_key, write_secret};
pub use latency::{BudgetError, LatencyBudget, OverBudget, Stage};
pub use receivers::{Lacking, Receiver, Receivers};
pub use relayed::{Relayed, RelayedNumbers, RelayedOrder};
pub use report::CoreReport;
pub use runtime::network::{ChannelOptions, DATA_PORT, NetworkOptions};
pub use runtime::service::ServiceSnapshot;
pub use runtime::settings::{Embedded, NAME_BYTES_MAX};
pub use runtime::tap::{Direction, Tapped};
pub use shard::CORES_MAX;
pub use snapshot::{PublisherRow, Snapshot, SubscriptionRow};
pub use stats::{
    ClusterStats, LatencyStats, Memory, PublisherStats, RuntimeStats, SubscriptionStats, TimerStats,
};

/// State of a node, as operators see it, and its local socket.
pub use qsm_admin as admin;
/// Metrics in general: rows, JSON, and the text that Prometheus reads.
pub use qsm_exporter::{Exporter, ExporterError};
#[cfg(feature = "otlp")]
pub use qsm_exporter::{Pusher, PusherError};
pub use qsm_metrics as metrics;

pub use qsm_gms::{
    Costs as PlanCosts, DISCOVERY_V4, DISCOVERY_V6, GroupPace, HintError, HintList, LaggardFate,
    OriginDemand, ServiceEvent, ServiceHints, ServiceStats,
};
pub use qsm_identity::{Pattern, PatternError};
pub use qsm_net::{
    Affinity, BusyPoll, Cloning, Family, FaultConfig, FaultCounters, Interface, InterfaceError,
    IoReport, Medium, Offload, PortCounters, PortError, ReceiveCounters, SendCounters,
    SendErrorCounters, Strategy, ThreadError, ThreadReport, choose_interface, interfaces,
};
pub use qsm_proto::account::{
    GapAccount, GroupAccount, MemberAccount, MessageAccount, MessageStream, Parts, Reached,
    ReceivingAccount, RegionAccount, SendingAccount, Standing,
};
pub use qsm_proto::view::Layout;
pub use qsm_proto::{
    ConfigError, Damage, Deafness, Limits, Pace, Recovery, Stats, Times, UnconfirmedCause,
    UnservedCause,
};
pub use qsm_record::{OpenError as RecordingError, Stopped as RecordingEnd};
pub use qsm_seal::{Cipher, ClusterKey, KeyError, KeyId};
pub use qsm_wire::membership::{
    About, AwayReason, DESCRIPTION_BYTES_MAX, GROUP_NAME_BYTES_MAX, GroupDecision, GroupRow,
    GroupWay, Member, NearRegion, NodeRow, PlanLimits, Rates, RegionDecision, RegionHints,
    RegionKind, RegionRow, RepairLimit,
};
pub use qsm_wire::{
    ChannelId, DATA_HEADER_BYTES, GroupId, Hop, Incarnation, NodeId, Origin, RegionId, ViewNumber,
};
