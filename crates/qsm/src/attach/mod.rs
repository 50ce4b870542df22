//! One engine for several processes of a host, so that a packet wakes one of them.
//!
//! A host with ten programs that each run a [`Node`](crate::Node) receives each multicast packet
//! ten times and wakes all ten. Here one of them runs the node and [shares](crate::Node::share)
//! it; the others [attach](crate::Node::attach): they have no sockets to the network and no protocol state,
//! and the engine wakes those who subscribe to what has come, once per batch.
//!
//! ```text
//!   network ──► core thread ──► ring of a subscription ──► attached process
//!               of the engine   (shared memory)            reads it in place of a queue
//!               ▲
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
//! 1. Order, numbers and losses are those of the engine's node; each process is told of losses of
//!    its own groups. All processes of an engine are one sender to the cluster, and one receiver.
//! 2. A message goes through shared memory by one copy into a ring and one out of it.
//! 3. A full ring of a subscription drops the newest, counts and tells, or ends the subscription
//!    ([`Overflow`](crate::Overflow)); it never holds up the engine. A full ring to the engine
//!    makes [`Publisher::send`](crate::Publisher::send) wait, and so a group whose receivers are slow holds up all groups
//!    of that process; of no other.
//! 4. What a process was told is accepted is sent even if it is killed then. Everything else of it
//!    is released at once. When the engine ends, all handles say why, at once.
//! 5. A process that writes nonsense, by fault or on purpose, is cut off; that is counted and told
//!    ([`ShareEvent::CutOff`]).
//!
//! Limits are fields of [`ShareOptions`].

mod bell;
pub(crate) mod client;
pub(crate) mod error;
pub(crate) mod funnel;
mod line;
mod link;
mod options;
mod outcome;
mod packet;
mod published;
pub(crate) mod publisher;
mod record;
mod requests;
mod ring;
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
