//! Objects by serde.

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Cause, ObjectError};
use crate::header::{HEADER_BYTES_MAX, Header, short_name};

/// A type whose objects are messages, in postcard's format.
///
/// A number stands for one type for ever, in all groups of a cluster that share a schema. What
/// changes the fields changes the version: readers refuse versions that they do not know.
pub trait Typed: Serialize + DeserializeOwned {
    /// Its number.
    const TYPE: u32;
    /// Its version; 1 if not given.
    const VERSION: u16 = 1;
}

fn header<T: Typed>() -> Header {
    let (kind, version) = (T::TYPE, T::VERSION);
    Header { kind, version }
}

/// The message for an object: hand it to `Publisher::send_owned`, which does not copy it.
///
/// # Errors
/// [`ObjectError::Unwritable`].
pub fn encode<T: Typed>(object: &T) -> Result<Vec<u8>, ObjectError> {
    let mut message = Vec::with_capacity(HEADER_BYTES_MAX);
    header::<T>().append(&mut message);
    postcard::to_extend(object, message).map_err(|error| ObjectError::Unwritable {
        reason: error.to_string(),
    })
}

/// The object in a message.
///
/// # Errors
/// [`ObjectError`]: of another type or version, or not what the type says. All of the body must be
/// used.
pub fn decode<T: Typed>(message: &[u8]) -> Result<T, ObjectError> {
    let (found, body) = Header::split(message)?;
    header::<T>().admit(found, short_name::<T>())?;
    let fault = |cause| ObjectError::Body {
        place: short_name::<T>().to_owned(),
        cause,
    };
    match postcard::take_from_bytes(body) {
        Ok((object, [])) => Ok(object),
        Ok((_, rest)) => Err(fault(Cause::Long { bytes: rest.len() })),
        Err(postcard::Error::DeserializeUnexpectedEnd) => Err(fault(Cause::Short)),
        Err(error) => Err(fault(Cause::Other(error.to_string()))),
    }
}
