//! The numbers in front of an object.

use crate::error::ObjectError;
use crate::varint;

/// The longest header, bytes.
pub const HEADER_BYTES_MAX: usize = 8;

/// Type and version of an object.
///
/// ```
/// use qsm_object::Header;
///
/// let mut message = Vec::new();
/// Header { kind: 17, version: 2 }.append(&mut message);
/// message.extend_from_slice(b"body");
/// let (header, body) = Header::split(&message)?;
/// assert_eq!((header.kind, header.version, body), (17, 2, &b"body"[..]));
/// # Ok::<(), qsm_object::ObjectError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Header {
    /// Number of the type.
    pub kind: u32,
    /// Version of the type.
    pub version: u16,
}

impl Header {
    /// Appends it: 2 to 8 bytes.
    pub fn append(self, to: &mut Vec<u8>) {
        varint::append(u64::from(self.kind), to);
        varint::append(u64::from(self.version), to);
    }

    /// The header of a message, and the rest of it.
    ///
    /// # Errors
    /// [`ObjectError::NoObject`].
    pub fn split(message: &[u8]) -> Result<(Self, &[u8]), ObjectError> {
        let mut left = message;
        let mut take = |bits| varint::take(&mut left, bits).map_err(|_| ObjectError::NoObject);
        let (kind, version) = (take(32)?, take(16)?);
        // As many bits as were taken.
        let (kind, version) = (kind as u32, version as u16);
        Ok((Self { kind, version }, left))
    }

    /// Refuses an object of another type or version than this one, whose name is given.
    pub(crate) fn admit(self, found: Self, name: &str) -> Result<(), ObjectError> {
        if found.kind != self.kind {
            let (found, known) = (found.kind, vec![self.kind]);
            return Err(ObjectError::UnknownType { found, known });
        }
        if found.version != self.version {
            return Err(ObjectError::UnknownVersion {
                name: name.to_owned(),
                found: found.version,
                known: vec![self.version],
            });
        }
        Ok(())
    }
}

/// The last part of a type's path, for errors.
pub(crate) fn short_name<T: ?Sized>() -> &'static str {
    let path = std::any::type_name::<T>();
    let plain = path.split('<').next().unwrap_or(path);
    plain.rsplit("::").next().unwrap_or(plain)
}
