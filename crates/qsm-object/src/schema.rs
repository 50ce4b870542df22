//! Meanings of the numbers.

use serde_json::Value;

use crate::error::{Cause, ObjectError, SchemaError};
use crate::form::Forms;
use crate::header::Header;
use crate::parse;
use crate::read::Body;

/// The types of messages that a text describes:
///
/// ```text
/// # Prices of the floor.
/// type Quote = 17 v2 {
///     symbol: string,
///     bid:    f64,
///     levels: [Level],
///     note:   string?,
///     side:   Side,
/// }
/// struct Level { price: f64, size: u32 }
/// enum Side { Buy, Sell, Limit(f64) }
/// ```
///
/// A `type` is a message: its number, and its version, 1 if not given; versions of a type stand
/// side by side. A `struct` and an `enum` are parts of it. Forms are `bool`, `u8` to `u128`, `i8` to
/// `i128`, `f32`, `f64`, `string`, `bytes`, `T?`, `[T]`, `{K: V}` and names. A variant may have one
/// content. The bytes are those of postcard for Rust's types of the same fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schema(Forms);

/// An object, read by a schema.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Decoded<'a> {
    /// Name of its type.
    pub name: &'a str,
    /// Its version.
    pub version: u16,
    /// Its fields. Variants are their name, or an object of the name and the content; bytes are
    /// numbers in hexadecimal; numbers that JSON lacks (`NaN`, infinities, more than 64 bits) are
    /// text.
    pub value: Value,
}

impl Schema {
    /// Reads the text of a schema.
    ///
    /// # Errors
    /// [`SchemaError`] names the line.
    pub fn parse(text: &str) -> Result<Self, SchemaError> {
        parse::forms(text).map(Self)
    }

    /// Types, by number and version: their names.
    pub fn types(&self) -> impl Iterator<Item = (Header, &str)> {
        self.0
            .types
            .iter()
            .map(|(header, kind)| (*header, &*kind.name))
    }

    /// Reads a message.
    ///
    /// # Errors
    /// [`ObjectError`]: it is of no type of the schema, or not what that says.
    pub fn read(&self, message: &[u8]) -> Result<Decoded<'_>, ObjectError> {
        let (header, bytes) = Header::split(message)?;
        let kind = self.0.types.get(&header);
        let kind = kind.ok_or_else(|| self.unknown(header))?;
        let mut body = Body::new(&self.0, bytes);
        let value = body.fields(&kind.fields);
        let fault = |cause, path: &str| ObjectError::Body {
            place: format!("{} v{}{path}", kind.name, header.version),
            cause,
        };
        let value = value.map_err(|cause| fault(cause, &body.path()))?;
        match body.left() {
            0 => Ok(Decoded {
                name: &kind.name,
                version: header.version,
                value,
            }),
            bytes => Err(fault(Cause::Long { bytes }, "")),
        }
    }

    fn unknown(&self, found: Header) -> ObjectError {
        let same: Vec<_> = self
            .types()
            .filter(|(known, _)| known.kind == found.kind)
            .collect();
        let Some((_, name)) = same.first() else {
            let mut known: Vec<_> = self.0.types.keys().map(|header| header.kind).collect();
            known.dedup();
            let found = found.kind;
            return ObjectError::UnknownType { found, known };
        };
        ObjectError::UnknownVersion {
            name: (*name).to_owned(),
            found: found.version,
            known: same.iter().map(|(known, _)| known.version).collect(),
        }
    }
}
