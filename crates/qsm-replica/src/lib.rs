//! Replicated state: the same [`StateMachine`] at each member of a group, kept equal by updates that
//! Quicksilver multicasts.
//!
//! A replica *binds*: it enters the group, holds the updates that come, fetches a snapshot of the state from a live
//! replica together with the number of the last update of each source in it, applies what it held beyond, and is
//! *live*. A live replica that misses an update binds anew: none goes on with a hole.
//!
//! Updates of one replica are applied in its order everywhere. Those of several come in another order at each replica,
//! so they must commute: counters, sets, entries that one replica alone writes. Under [`Order::Total`] all replicas
//! apply all updates in one sequence, a round trip later, and updates may be anything.
//!
//! ```no_run
//! use std::time::Duration;
//! use qsm_replica::{Limits, Replica, RestoreError, StateMachine};
//!
//! #[derive(Default)]
//! struct Counter(u64);
//!
//! impl StateMachine for Counter {
//!     fn apply(&mut self, update: &[u8]) {
//!         self.0 += update.len() as u64;
//!     }
//!     fn snapshot(&self, out: &mut Vec<u8>) {
//!         out.extend_from_slice(&self.0.to_le_bytes());
//!     }
//!     fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
//!         self.0 = u64::from_le_bytes(snapshot.try_into().map_err(|_| RestoreError)?);
//!         Ok(())
//!     }
//! }
//!
//! let node = qsm::Node::builder().start()?;
//! let counter = Replica::join(&node, "visits", Counter::default(), Limits::default())?;
//! counter.wait_live(Duration::from_secs(30))?;
//! counter.update(b"+")?;
//! println!("{}", counter.read(|state| state.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`LiveMap`], [`LiveLog`] and `LiveText` (with the feature `text`) are replicas of states that are here already; any
//! program binds to them by an address, such as `qsm://floor/prices?type=map`.
//!
//! [`Core`] is the same without threads and sockets, for other ways to carry its words.

mod bind;
mod core;
mod election;
mod held;
mod limits;
mod live;
mod machine;
mod notice;
mod order;
mod random;
mod replica;
mod sequence;
mod stats;
mod transfer;
mod word;

pub use crate::core::{Core, Output};
pub use crate::limits::Limits;
pub use crate::live::{
    Cursor, KEY_BYTES_MAX, Kind, LiveError, LiveLog, LiveMap, LogBounds, LogEvent, LogState,
    LogWatch, MapBounds, MapChange, MapState, MapWatch, Stamp, Uri, UriError, Watched,
};
#[cfg(feature = "text")]
pub use crate::live::{LiveText, TextBounds, TextState, TextWatch};
pub use crate::machine::{RestoreError, StateMachine};
pub use crate::notice::{BindError, Cause, Notice};
pub use crate::order::Order;
pub use crate::replica::{Replica, ReplicaError};
pub use crate::stats::ReplicaStats;
pub use crate::word::{Address, History};
