//! One engine for several processes of a host, so that a packet wakes one of them.
//!
//! A host with ten programs that each run a [`Node`](crate::Node) receives each multicast packet
//! ten times and wakes all ten. Here one of them runs the node and [shares](crate::Node::share)
//! it; the others [attach](crate::Node::attach): they have no sockets to the network and no protocol state,
//! and the engine wakes those who subscribe to what has come, once per batch.
//!
//! ```text
//!   network ──► core thread ──► log: each message once ───────┐ read where it lies
//!               of the engine ─► ring of a subscription: ─────┴──► attached process
//!               ▲                 what is there for it
//!               └─ publishers ◄─ a thread per process ◄─ ring of a process ◄─ attached process
//!
//!   requests, answers, events: a local socket, which also says when either side is gone
//! ```
//!
//! What it does not do: the engine is no broker and stores nothing. Processes trust the engine,
//! as they would trust a node of their own; the engine trusts none of them.
//!
//! ```no_run
//! use qsm::Node;
//!
//! // In one process:
//! let node = Node::builder().start()?;
//! let share = node.share("/run/user/1000/qsm")?;
//!
//! // In others:
//! let node = Node::attach("/run/user/1000/qsm")?;
//! let prices = node.subscribe(["prices/eur"])?;
//! node.publisher("prices/eur")?.send(b"1.0842")?;
//! println!("{:?}", prices.recv()?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The contract:
//! 1. Order, numbers and losses are those of the engine's node, by the way that each subscription
//!    chooses ([`DeliveryMode`](crate::DeliveryMode)); each process is told of losses of its own
//!    groups. All processes of an engine are one sender to the cluster, and one receiver.
//! 2. A message is copied once into shared memory, for all processes; upcalls get it where it lies
//!    there, a subscription that is read by threads takes a copy out. One that lags far behind the
//!    others gets copies into a ring of its own meanwhile.
//! 3. A full ring of a subscription drops the newest, counts and tells, ends the subscription, or makes
//!    senders wait ([`Overflow`](crate::Overflow)); the engine itself waits for none. A full ring to the engine
//!    makes [`Publisher::send`](crate::Publisher::send) wait, and so a group whose receivers are slow holds up all groups
//!    of that process; of no other.
//! 4. What a process was told is accepted is sent even if it is killed then. Everything else of it
//!    is released at once. When the engine ends, all handles say why, at once.
//! 5. A process that writes nonsense, by fault or on purpose, is cut off; that is counted and told
//!    ([`ShareEvent::CutOff`]). None can write to the log.
//! 6. The border is the file at which processes attach: whoever is let in may subscribe to any group,
//!    and can read all messages in the log, which are those that some process subscribes to.
//!
//! Limits are fields of [`ShareOptions`].

mod backlog;
mod bell;
pub(crate) mod client;
pub(crate) mod error;
mod extra;
pub(crate) mod funnel;
mod lane;
mod line;
mod link;
mod log;
mod options;
mod outcome;
mod packet;
mod published;
pub(crate) mod publisher;
mod record;
mod requests;
mod ring;
mod room;
mod rows;
mod session;
mod share;
mod sink;
pub(crate) mod subscription;
pub(crate) mod tally;
mod watch;

pub use error::{AttachError, CutReason, ShareError, ShareEvent};
pub use options::ShareOptions;
pub use share::Share;
pub use tally::{ClientRow, ClientStats, ShareStats};
