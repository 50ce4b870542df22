//! Pages in the browser: a dashboard of whatever a [`Source`] sees of a cluster ([`Dash`]), and a live object as it
//! changes ([`ObjectPage`]).
//!
//! ```text
//!  cluster: Source ── Look ──► State ─┐
//!                                     ├── what differs ──► browsers, by server-sent events
//!  object:  program ─ Change ─► Board ┘
//! ```
//!
//! The crate knows rows with a name, a health and fields, and values as text; it knows neither sockets of nodes, nor
//! the membership service, nor objects. It does not change anything: it only shows.
//!
//! A look is taken while a browser watches, at most once a second, and so that looking takes at most
//! a fifth of the time. Browsers get everything once, then what differs.
//!
//! Names and values are input of strangers. The pages make text nodes out of them and never HTML; their content
//! security policy allows no script but those of the program, no inline script, and no other host.
//!
//! What may cost something has a limit: [`CONNECTIONS_MAX`], [`HEADER_TIME`]; of a cluster [`ROWS_MAX`], of an object
//! [`OBJECT_ROWS_MAX`], [`BYTES_MAX`], [`REMOVED_MAX`], [`VALUE_BYTES_MAX`] and [`TEXT_BYTES_MAX`].

#![forbid(unsafe_code)]

mod answer;
mod assets;
mod cluster;
mod gate;
mod object;
mod paths;
mod server;
mod stream;

pub use cluster::{
    Cluster, Dash, Explanation, Health, HerePoint, INTERVAL, Look, Point, ROWS_MAX, Row, Section,
    Source, Subject,
};
pub use gate::Token;
pub use object::{
    BYTES_MAX, Change, Content, Line, OBJECT_ROWS_MAX, Object, ObjectKind, ObjectPage, REMOVED_MAX,
    TEXT_BYTES_MAX, VALUE_BYTES_MAX,
};
pub use server::{CONNECTIONS_MAX, Config, HEADER_TIME};
