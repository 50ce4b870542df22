//! Streams this node receives.
//!
//! ```text
//!   packet ─► Window: seen before? ─► in order ──────────► messages ─► Cursors ─► deliver
//!                    │                    ▲                                          
//!                    ├─ ahead: keep ──────┘ when the gap before it is closed
//!                    ├─ gap: Gaps, asked for by the repair plane
//!                    └─ cacher of it: keep until stable
//! ```
//!
//! A packet that arrives in order at a node that need not cache it is delivered out of the
//! receive buffer and never copied.

mod cursor;
mod gaps;
mod reassembly;
mod store;
mod stream;

pub use cursor::{Cursors, Verdict};
pub use gaps::{Gap, Gaps, Waiters};
pub use store::{Place, Store};
pub use stream::{Arrival, Desk, Inbox, ReceiveStream};
