//! The fast plane: whom to ask for a gap, whom to answer, within budgets (algorithms (b)).
//!
//! ```text
//!  gap ── guard ──► NAK to one cacher ── has it ──► repair to all who wait for it
//!                        │ lacks it: adds itself to `tried`, passes the NAK on
//!                        ▼
//!                   next cacher ... ── all live cachers tried ──► the sender
//!                                                                  │ dead, or has freed it
//!                                                                  ▼
//!                                                               Absent ──► LOST
//! ```
//!
//! The walk along `tried` keeps the rule of S2 §2.3 exactly: the sender is asked only for what
//! its whole caching partition is known to miss (R079, R080). A cacher that is silent is passed
//! over after a few retries.

mod answer;
mod backoff;
mod budget;
mod missing;
mod plan;
mod recent;
mod send;
mod window;

pub(crate) use answer::Answering;
pub use backoff::RequestBackoff;
pub use budget::Budget;
pub(crate) use missing::{missing_everywhere, missing_parts, note_missing};
pub use plan::{PlannedRequest, REQUEST_COST, RequestAllowance, RequestPlanner, RequestTarget};
pub(crate) use plan::{bit, others_who_cache};
pub use recent::{RecentRepairs, RepairRecipient};
pub use send::{Repair, RepairSender};
pub use window::RequestWindow;
