//! Live objects: a map, a log and a text that several programs have alike, each with the state machine that keeps it.
//!
//! None needs a total order: a map's entry is that of its last writer by a hybrid clock, a log has its entries in the
//! order of that clock, and a text is merged by its letters. So updates commute, and come twice without harm; a writer
//! applies its own at once.

mod arrivals;
mod error;
mod list;
mod map;
mod open;
mod stamp;
#[cfg(feature = "text")]
mod text;
mod uri;
mod watched;

pub use self::arrivals::Cursor;
pub use self::error::LiveError;
pub use self::list::{LiveLog, LogBounds, LogEvent, LogState, LogWatch};
pub use self::map::{KEY_BYTES_MAX, LiveMap, MapBounds, MapChange, MapState, MapWatch};
pub use self::stamp::Stamp;
#[cfg(feature = "text")]
pub use self::text::{LiveText, TextBounds, TextState, TextWatch};
pub use self::uri::{Kind, Uri, UriError};
pub use self::watched::Watched;
