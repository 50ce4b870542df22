//! The page of a cluster: what a [`Source`] sees of it.
//!
//! ```text
//!  Source ── Look, once a second ──► State ── what differs ──► browsers
//!    ▲                                                             │
//!    └──────────────── explain a node or a group ◄─────────────────┘
//! ```

mod dash;
mod event;
mod explanation;
mod look;
mod lookout;
mod router;
mod state;

pub use self::dash::Dash;
pub use self::explanation::{Explanation, Section, Subject};
pub use self::look::{Cluster, Health, HerePoint, Look, Point, Row, Source};
pub use self::lookout::INTERVAL;
pub use self::state::ROWS_MAX;
