//! Items that a subscriber gets: messages, and what is missing between them.

use std::fmt;
use std::sync::Arc;

use qsm::{Message, Origin, Received};

/// Item of a subscription with a history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Item {
    /// A message out of a keeper's memory.
    Kept(Message),
    /// A message that came live.
    Message(Message),
    /// Messages that come neither way, in their place.
    Missing(Missing),
    /// All that was asked for of a group has come or is missing. Messages go on live.
    Joined(Joined),
    /// Something else that the live subscription says. Of messages dropped or lost that it tells of without numbers,
    /// some may have come from keepers.
    Told(Received),
}

/// Messages `first..=last` of a sender that were asked for and do not come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Missing {
    /// The group's name.
    pub group: Arc<str>,
    /// The sender.
    pub sender: Origin,
    /// First message missing.
    pub first: u64,
    /// Last message missing.
    pub last: u64,
    /// Why.
    pub cause: MissingCause,
}

/// Why messages do not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MissingCause {
    /// The keepers have none of them, or none any more.
    Gone,
    /// The group has no keeper, or none that answers.
    NoKeeper,
    /// More came live than there was room to hold meanwhile.
    Held,
}

/// End of a group's history.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Joined {
    /// The group's name.
    pub group: Arc<str>,
    /// Keepers that answer.
    pub keepers: usize,
    /// Messages that came from keepers.
    pub kept: u64,
    /// Messages missing.
    pub missing: u64,
}

impl From<Received> for Item {
    /// An item of a subscription without a past.
    fn from(received: Received) -> Self {
        match received {
            Received::Message(message) => Self::Message(message),
            told => Self::Told(told),
        }
    }
}

impl Missing {
    /// Number of messages.
    #[must_use]
    pub fn messages(&self) -> u64 {
        self.last.saturating_sub(self.first).saturating_add(1)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            sender,
            first,
            last,
            cause,
        } = self;
        write!(
            f,
            "messages {first}..={last} of sender {sender} in group {group:?} are missing: {cause}"
        )
    }
}

impl fmt::Display for MissingCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Gone => "no keeper has them, or none any more; have keepers keep more",
            Self::NoKeeper => "nobody keeps the group, or no keeper answers; run `qsm keep`",
            Self::Held => {
                "more came live than there was room for while they were fetched; raise `held_bytes`, or --queue"
            }
        })
    }
}

impl fmt::Display for Joined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            group,
            keepers,
            kept,
            missing,
        } = self;
        write!(
            f,
            "group {group:?} is live: {kept} kept, {missing} missing, keepers that answer: {keepers}"
        )
    }
}
