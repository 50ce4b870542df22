//! Why an object cannot be read, and what is wrong with a schema.

use std::fmt;

/// Why an object cannot be written or read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ObjectError {
    /// The message is too short for a type and a version, or they are too large: it is no object.
    NoObject,
    /// The object is of another type than the one asked for, or of one that the schema does not
    /// have.
    UnknownType {
        /// The number in the message.
        found: u32,
        /// The types that are known.
        known: Vec<u32>,
    },
    /// The type is known, in other versions.
    UnknownVersion {
        /// The type.
        name: String,
        /// The version in the message.
        found: u16,
        /// The versions that are known.
        known: Vec<u16>,
    },
    /// The body is not what the type says.
    Body {
        /// The type, and the field within it as far as known.
        place: String,
        /// The reason.
        cause: Cause,
    },
    /// The value cannot be written: its own `Serialize` failed, or has a form that the format lacks.
    Unwritable {
        /// The text of that error.
        reason: String,
    },
}

/// The reason why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// It ends too early.
    Short,
    /// It goes on after its end.
    Long {
        /// So many bytes too many.
        bytes: usize,
    },
    /// A number has more bits than its type.
    TooLarge,
    /// A text is not UTF-8.
    Text,
    /// A byte that says yes or no says neither.
    Flag {
        /// The byte.
        found: u8,
    },
    /// An `enum` has no variant of that number.
    Variant {
        /// The number.
        found: u64,
    },
    /// Objects within objects are deeper than the limit.
    Deep,
    /// Another reason, of a body that is not read by a schema.
    Other(String),
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("the message ends too early"),
            Self::Long { bytes } => write!(f, "the message goes on for {bytes} bytes"),
            Self::TooLarge => f.write_str("a number has too many bits"),
            Self::Text => f.write_str("the text is not UTF-8"),
            Self::Flag { found } => write!(f, "{found} is neither yes (1) nor no (0)"),
            Self::Variant { found } => write!(f, "there is no variant {found}"),
            Self::Deep => f.write_str("objects within objects are too deep"),
            Self::Other(reason) => f.write_str(reason),
        }
    }
}

impl fmt::Display for ObjectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoObject => f.write_str(
                "no object: a typed message begins with the numbers of its type and version; its \
                 sender may send plain bytes",
            ),
            Self::UnknownType { found, known } => write!(
                f,
                "type {found} is not known, but {}; take a newer schema, or ask its sender",
                Listed(known)
            ),
            Self::UnknownVersion { name, found, known } => write!(
                f,
                "version {found} of {name} is not known, but {}; take a newer schema, or an older \
                 sender",
                Listed(known)
            ),
            Self::Body { place, cause } => write!(
                f,
                "{place}: {cause}; sender and reader have different ideas of this type: give what \
                 has changed a new version"
            ),
            Self::Unwritable { reason } => write!(f, "the value cannot be written: {reason}"),
        }
    }
}

impl std::error::Error for ObjectError {}

/// A fault in the text of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SchemaError {
    /// The line, from 1.
    pub line: usize,
    /// The fault, and what is expected.
    pub reason: String,
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {} of the schema: {}", self.line, self.reason)
    }
}

impl std::error::Error for SchemaError {}

/// Numbers for people.
struct Listed<'a, T>(&'a [T]);

impl<T: fmt::Display> fmt::Display for Listed<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        if self.0.is_empty() {
            return f.write_str("none");
        }
        for (place, number) in self.0.iter().take(SHOWN).enumerate() {
            let comma = if place == 0 { "" } else { ", " };
            write!(f, "{comma}{number}")?;
        }
        match self.0.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}
