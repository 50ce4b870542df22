//! What a node and the membership service say to each other, inside a reliable session.
//!
//! These messages are rare and may be large (a join of thousands of groups is one message), so
//! they decode into owned values. A message is at most [`MESSAGE_BYTES_MAX`] long; lists are
//! bounded by that.
//!
//! Requests and answers share a number. What changes for a node comes as [`Update`]s, in batches.

mod answer;
mod decision;
mod field;
mod member;
mod request;
mod update;

pub use self::answer::{Answer, AnswerRows, FromService, GroupRow, NodeRow, RegionKind, RegionRow};
pub use self::decision::{
    GroupAnswer, GroupDecision, GroupWay, NearRegion, PlanLimits, RegionDecision, RegionHints,
};
pub use self::member::{AwayReason, Member, Sender};
pub use self::request::{
    About, DESCRIPTION_BYTES_MAX, GroupRate, GroupRates, GroupReport, Hello, NOTHING_OWED_MAX,
    QueryKind, Rates, RegionReport, Role, Strain, ToService, is_description,
};
pub use self::update::{
    GroupLifetime, GroupStart, MemberFilter, OriginDemand, RepairLimit, Signer, ToldLimit, Update,
    ViewStep,
};

/// Largest membership message, bytes. 100,000 group names of 40 bytes fit.
pub const MESSAGE_BYTES_MAX: usize = 8 << 20;
/// Largest group name, bytes of UTF-8; control characters are not allowed.
pub const GROUP_NAME_BYTES_MAX: usize = 255;
