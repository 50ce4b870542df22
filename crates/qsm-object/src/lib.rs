//! Typed messages: objects with the number of their type in front.
//!
//! ```text
//!   type      varint of a u32, 1 to 5 bytes
//!   version   varint of a u16, 1 to 3 bytes
//!   body      the object, in postcard's format or in one of its own
//! ```
//!
//! So an object costs at most eight bytes beside its content, and no name is sent (S2, section 2.5).
//! Whoever does not know the number or the version is told so by name, not by nonsense.
//!
//! Three ways to have types:
//! - [`Typed`], with serde: the simple one.
//! - [`Layout`], for those who lay out bytes themselves: a header of their own and pieces that are
//!   written where they belong without being joined first.
//! - [`Schema`], a text that says what each number means, for programs that have no such types:
//!   `qsm sub --decode`.
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use qsm_object::{Schema, Typed, decode, encode};
//!
//! #[derive(Debug, PartialEq, Serialize, Deserialize)]
//! struct Quote {
//!     symbol: String,
//!     bid: f64,
//! }
//! impl Typed for Quote {
//!     const TYPE: u32 = 17;
//!     const VERSION: u16 = 2;
//! }
//!
//! let quote = Quote { symbol: "EUR".to_owned(), bid: 1.0842 };
//! let message = encode(&quote)?;
//! assert_eq!(message.len(), 2 + 4 + 8);
//! assert_eq!(decode::<Quote>(&message)?, quote);
//!
//! let schema = Schema::parse("type Quote = 17 v2 { symbol: string, bid: f64 }")?;
//! let read = schema.read(&message)?;
//! assert_eq!(read.name, "Quote");
//! assert_eq!(read.value.to_string(), r#"{"bid":1.0842,"symbol":"EUR"}"#);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod error;
mod form;
mod header;
mod layout;
mod parse;
mod read;
mod schema;
mod token;
mod typed;
mod varint;

pub use error::{Cause, ObjectError, SchemaError};
pub use header::{HEADER_BYTES_MAX, Header};
pub use layout::{Layout, Pieces, from_layout, read_layout};
pub use schema::{Decoded, Schema};
pub use typed::{Typed, decode, encode};
