//! The page of a live object, or of the messages of a group.
//!
//! ```text
//!  program ── Change ──► Board ── what is new behind its place ──► each browser
//! ```
//!
//! The board keeps the newest rows, and each browser has a place in the order in which they changed. So a browser
//! that reads slowly costs nothing but its place: it gets the newest state of a row, and not those between.

mod board;
mod browser;
mod change;
mod content;
mod page;
mod router;
mod rows;
mod text;

pub use self::change::{Change, Line, Object, ObjectKind};
pub use self::content::{Content, VALUE_BYTES_MAX};
pub use self::page::ObjectPage;
pub use self::rows::{BYTES_MAX, OBJECT_ROWS_MAX, REMOVED_MAX};
pub use self::text::TEXT_BYTES_MAX;
