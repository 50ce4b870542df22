//! Changes of an object, as the program tells them.

use std::time::SystemTime;

use super::content::Content;

/// Kind of what a page shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    /// A map.
    Map,
    /// A log.
    Log,
    /// A text.
    Text,
    /// Messages of a group.
    Messages,
}

impl ObjectKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Map => "map",
            Self::Log => "log",
            Self::Text => "text",
            Self::Messages => "messages",
        }
    }
}

/// Object of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Kind.
    pub kind: ObjectKind,
    /// Name of its cluster.
    pub cluster: String,
    /// Name of its group. It may be hostile.
    pub group: String,
}

/// A change of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An entry of a map has this value.
    Set {
        /// Its key.
        key: String,
        /// Time at which it was written.
        written: SystemTime,
        /// Its value.
        value: Content,
    },
    /// An entry of a map is gone.
    Removed {
        /// Its key.
        key: String,
    },
    /// All entries of a map are gone; those that follow are all there are.
    Restart,
    /// An entry of a log, or a message, has come.
    Line(Line),
    /// The text is now this one.
    Text(String),
}

/// An entry of a log, or a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Time at which it was written or came. Lines are shown in this order.
    pub time: SystemTime,
    /// Its sender.
    pub sender: Option<String>,
    /// Its number among those of its sender.
    pub number: Option<u64>,
    /// Its content.
    pub content: Content,
}
