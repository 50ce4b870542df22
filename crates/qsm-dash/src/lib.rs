//! A dashboard in the browser, of whatever a [`Source`] sees of a cluster.
//!
//! ```text
//!  Source ── Look, once a second ──► State ── what differs ──► browsers, by server-sent events
//!    ▲                                                             │
//!    └──────────────── explain a node or a group ◄─────────────────┘
//! ```
//!
//! The crate knows rows with a name, a health and fields; it knows neither sockets of nodes nor the
//! membership service. It does not change anything: it only shows.
//!
//! A look is taken while a browser watches, at most once a second, and so that looking takes at most
//! a fifth of the time. Browsers get everything once, then what differs.
//!
//! Names are input of strangers. The page makes text nodes out of them and never HTML; its content
//! security policy allows no script but the three of the program, no inline script, and no other host.
//!
//! What may cost something has a limit: [`CONNECTIONS_MAX`], [`ROWS_MAX`], [`HEADER_TIME`].

#![forbid(unsafe_code)]

mod answer;
mod assets;
mod cluster;
mod gate;
mod paths;
mod server;
mod stream;

pub use cluster::{
    Cluster, Dash, Explanation, Health, HerePoint, INTERVAL, Look, Point, ROWS_MAX, Row, Section,
    Source, Subject,
};
pub use gate::Token;
pub use server::{CONNECTIONS_MAX, Config, HEADER_TIME};
