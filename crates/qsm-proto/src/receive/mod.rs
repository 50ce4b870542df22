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
//! A packet that arrives in order is delivered out of the receive buffer. If it must be cached it
//! stays there where that is possible, and is never copied.

mod context;
mod cursor;
mod datagram;
mod early;
mod gaps;
mod overtaken;
mod prompt;
mod reassembly;
mod run;
mod store;
mod stream;

pub use context::{DeliveryContext, RequestTiming, StreamContext};
pub(crate) use cursor::extend;
pub use cursor::{Cursors, Verdict};
pub use datagram::{Datagram, Incoming, SEQUENCE_MAX};
pub use gaps::{Gap, Gaps, RetryInterval, Waiters};
pub use overtaken::OvertakenRequests;
pub(crate) use prompt::HandedOut;
use prompt::{AheadMessage, Before};
pub use prompt::{PromptGroups, Promptness};
pub use run::Run;
pub use store::{PacketPlace, PacketStore};
pub(crate) use stream::AnswerWorth;
pub use stream::{Arrival, ReceiveStream, StreamMarks};
