use core::fmt;

/// Why bytes are not a packet we understand. Counted by the receiver under these names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum DecodeError {
    /// An address family other than IPv4 or IPv6.
    BadAddress,
    /// A count or length field contradicts the others or the packet's length.
    BadLength,
    /// An empty range, or one that runs past the largest sequence number.
    BadRange,
    /// Text that is not UTF-8.
    BadText,
    /// A field holds a value outside its set.
    BadValue,
    /// The checksum does not match: damaged or cut short on its way.
    Damaged,
    /// Protected by a key that this node does not have.
    Sealed,
    /// Bytes after the end of the message.
    TrailingBytes,
    /// The packet ends before its fields do.
    Truncated,
    /// A packet type this version does not know.
    UnknownKind,
    /// A version this node does not speak.
    UnknownVersion,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BadAddress => "unknown address family",
            Self::BadLength => "length field out of bounds",
            Self::BadRange => "empty or overflowing range",
            Self::BadText => "text is not UTF-8",
            Self::BadValue => "field value out of bounds",
            Self::Damaged => "checksum does not match: damaged or cut short on its way",
            Self::Sealed => "protected by a key",
            Self::TrailingBytes => "bytes after the end of the message",
            Self::Truncated => "packet ends too early",
            Self::UnknownKind => "unknown packet type",
            Self::UnknownVersion => "unknown protocol version",
        })
    }
}

impl core::error::Error for DecodeError {}
