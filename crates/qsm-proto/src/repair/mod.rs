//! The fast plane: whom to ask for a gap, whom to answer, within budgets (algorithms (b)).
//!
//! ```text
//!  gap ── guard ──► NAK ── the cacher has it ──► repair to all who wait for it
//!                    │ lacks it: adds itself to `tried`, passes the NAK on along its ring
//!                    ▼
//!               next cacher ... ── all live cachers tried ──► the sender
//!                                                              │ dead, or has freed it
//!                                                              ▼
//!                                                           Absent ──► LOST
//! ```
//!
//! The walk along `tried` keeps the rule of S2 §2.3 exactly: the sender is asked only for what
//! its whole caching partition is known to miss (R079, R080). Around a member that is silent
//! requests go another way after a few retries. None goes to a node that its maker would not talk
//! to anyway.

mod answer;
mod backoff;
mod budget;
mod collect;
mod limit;
mod missing;
mod parity;
mod plan;
mod recent;
mod route;
mod send;
mod urgency;
mod window;

pub(crate) use answer::Answering;
pub use backoff::RequestBackoff;
pub use budget::RateBudget;
pub(crate) use collect::BlockRequests;
pub use limit::RepairGate;
pub(crate) use missing::{leave_to_cachers, missing_everywhere, missing_parts, note_missing};
pub(crate) use parity::{BlockContent, ParityShelf, Restored, WholeBlock};
pub(crate) use plan::bit;
pub use plan::{PlannedRequest, REQUEST_COST, RequestAllowance, RequestPlanner, RequestTarget};
pub use recent::{RecentRepairs, RepairRecipient};
pub(crate) use route::{awaits_away, others_away, others_who_cache};
pub use send::{Repair, RepairSender};
pub use urgency::RequestUrgency;
pub use window::RequestWindow;
