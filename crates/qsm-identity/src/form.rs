//! The one form of tokens and lists in bytes: numbers with the highest byte first, texts behind their length.

use core::fmt;

use crate::pattern::{Pattern, PatternError};
use crate::time::{self, utc};

/// Longest name of a cluster, bytes.
pub const CLUSTER_BYTES_MAX: usize = 64;
/// Longest name of a node, and pattern of such names, bytes.
pub const NODE_NAME_BYTES_MAX: usize = 64;
/// Longest name of a group, and pattern of such names, bytes.
pub const GROUP_BYTES_MAX: usize = 255;

/// Reason for which bytes are no token and no list, or there can be none of this content.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Malformed {
    /// There are too few bytes.
    Truncated,
    /// There are more bytes than its content has: this many.
    Trailing(usize),
    /// It has more bytes than are allowed.
    TooLong {
        /// Bytes of it.
        length: usize,
        /// Bytes that are allowed.
        max: usize,
    },
    /// It is of another version.
    Version(u8),
    /// A text is empty, too long, not UTF-8, or has control characters.
    Name {
        /// Which.
        of: &'static str,
    },
    /// A text is neither a name nor a pattern.
    Pattern(PatternError),
    /// A list is not in ascending order, or has something twice.
    Unsorted {
        /// Which.
        of: &'static str,
    },
    /// A list has more entries than are allowed.
    TooMany {
        /// Which.
        of: &'static str,
        /// Entries that are allowed.
        max: usize,
    },
    /// The byte that says whether a key follows says something else.
    KeyFlag(u8),
    /// Roles that are not known: these bits.
    Roles(u8),
    /// There is no role, so that it allows nothing.
    NoRole,
    /// A role for groups comes without groups, or groups without their role.
    GroupsWithoutRole {
        /// The role.
        role: &'static str,
    },
    /// The number is 0.
    NoNumber,
    /// It ends before it begins, or after the year 9999.
    Period {
        /// When it begins to hold.
        not_before: u64,
        /// When it ends to hold.
        expires: u64,
    },
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => f.write_str("its end is missing"),
            Self::Trailing(more) => write!(f, "{more} bytes follow its end"),
            Self::TooLong { length, max } => {
                write!(f, "it has {length} bytes, and {max} are allowed")
            }
            Self::Version(version) => write!(
                f,
                "it is of version {version}, which this version of qsm does not know"
            ),
            Self::Name { of } => write!(
                f,
                "{of} is empty, too long, or has characters that cannot be printed"
            ),
            Self::Pattern(error) => error.fmt(f),
            Self::Unsorted { of } => write!(f, "{of} are not in order, or not unique"),
            Self::TooMany { of, max } => write!(f, "there are too many {of}: {max} are allowed"),
            Self::KeyFlag(flag) => write!(f, "{flag} stands where a key is announced or not"),
            Self::Roles(bits) => write!(
                f,
                "it has roles that this version of qsm does not know (bits {bits:#04x})"
            ),
            Self::NoRole => f.write_str("it has no role"),
            Self::GroupsWithoutRole { role } => write!(
                f,
                "the role {role} and the groups to {role} go together, and one is missing"
            ),
            Self::NoNumber => f.write_str("its number is 0"),
            Self::Period {
                not_before,
                expires,
            } => write!(
                f,
                "it cannot hold from {} to {}",
                utc(*not_before),
                utc(*expires)
            ),
        }
    }
}

impl core::error::Error for Malformed {}

impl From<PatternError> for Malformed {
    fn from(error: PatternError) -> Self {
        Self::Pattern(error)
    }
}

/// Bytes that have not been read yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (head, rest) = self.0.split_first_chunk().ok_or(Malformed::Truncated)?;
        self.0 = rest;
        Ok(*head)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn count(&mut self) -> Result<usize, Malformed> {
        self.array().map(u16::from_be_bytes).map(usize::from)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A name of 1 to so many bytes.
    pub(crate) fn name(&mut self, of: &'static str, max: usize) -> Result<&'a str, Malformed> {
        let length = usize::from(self.byte()?);
        let head = self.0.split_at_checked(length);
        let (name, rest) = head.ok_or(Malformed::Truncated)?;
        let name = core::str::from_utf8(name).map_err(|_| Malformed::Name { of })?;
        check_name(of, name, max)?;
        self.0 = rest;
        Ok(name)
    }

    pub(crate) fn pattern(&mut self, of: &'static str, max: usize) -> Result<Pattern, Malformed> {
        Ok(self.name(of, max)?.parse()?)
    }

    /// Checks that nothing is left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        match self.0.len() {
            0 => Ok(()),
            more => Err(Malformed::Trailing(more)),
        }
    }
}

/// Writes a name behind its length.
///
/// # Errors
/// [`Malformed::Name`]: it has no byte, more than so many, or control characters.
pub(crate) fn put_name(
    out: &mut Vec<u8>,
    of: &'static str,
    name: &str,
    max: usize,
) -> Result<(), Malformed> {
    check_name(of, name, max)?;
    let length = u8::try_from(name.len()).map_err(|_| Malformed::Name { of })?;
    out.push(length);
    out.extend_from_slice(name.as_bytes());
    Ok(())
}

/// Checks a text that is no pattern's alone: its length, and that it has no control characters.
pub(crate) fn check_name(of: &'static str, name: &str, max: usize) -> Result<(), Malformed> {
    let good = (1..=max).contains(&name.len()) && !name.chars().any(char::is_control);
    good.then_some(()).ok_or(Malformed::Name { of })
}

/// Writes a count of entries.
pub(crate) fn put_count(
    out: &mut Vec<u8>,
    of: &'static str,
    count: usize,
    max: usize,
) -> Result<(), Malformed> {
    let counted = u16::try_from(count).ok().filter(|_| count <= max);
    let counted = counted.ok_or(Malformed::TooMany { of, max })?;
    out.extend_from_slice(&counted.to_be_bytes());
    Ok(())
}

/// Checks that each entry is greater than the one before.
pub(crate) fn check_order<T: Ord>(of: &'static str, list: &[T]) -> Result<(), Malformed> {
    let ascending = list.windows(2).all(|pair| pair[0] < pair[1]);
    ascending.then_some(()).ok_or(Malformed::Unsorted { of })
}

/// Checks the time for which something holds.
pub(crate) fn check_period(not_before: u64, expires: u64) -> Result<(), Malformed> {
    let good = not_before < expires && expires <= time::LAST;
    good.then_some(()).ok_or(Malformed::Period {
        not_before,
        expires,
    })
}
