//! Metrics: declared once, counted as plain fields, read as rows, text, JSON or Prometheus.
//!
//! [`metrics!`] takes a field's name, kind, unit and help text, and makes a plain struct of them.
//! Code that counts writes `stats.sent += 1`: no registry, no atomic, no lock, no allocation. The
//! same declaration gives the sum of two such structs, their rows as data, lines for people
//! (`Display`), [`json()`] and [`prometheus::Page`].
//!
//! ```text
//!   metrics! { ... } ──► struct ──► fields: u64, Duration, Histogram, further groups
//!                           ├─────► a += b
//!                           └─────► rows() ──► Display, json(), prometheus::Page
//! ```
//!
//! ```
//! qsm_metrics::metrics! {
//!     /// What a gate has done since it was opened.
//!     #[derive(Copy)]
//!     pub struct GateStats of "gate" {
//!         /// Visitors let in.
//!         visitors: counter(visitors),
//!         /// Bytes of their tickets.
//!         ticket_bytes: counter(bytes),
//!         /// Visitors inside now.
//!         inside: gauge(visitors),
//!         /// Longest time that a visitor has waited.
//!         wait_max: maximum(seconds),
//!     }
//! }
//!
//! use std::time::Duration;
//!
//! let mut north = GateStats::default();
//! north.visitors += 3;
//! north.ticket_bytes += 1200;
//! north.wait_max = Duration::from_millis(1500);
//! let south = GateStats { visitors: 1, wait_max: Duration::from_millis(20), ..GateStats::default() };
//!
//! let mut all = north;
//! all += south;
//! assert_eq!((all.visitors, all.wait_max), (4, Duration::from_millis(1500)));
//!
//! assert_eq!(all.rows()[1].name(), "ticket_bytes");
//! assert_eq!(
//!     qsm_metrics::json(&all),
//!     r#"{"visitors":4,"ticket_bytes":1200,"inside":0,"wait_max_seconds":1.5}"#
//! );
//!
//! let mut page = qsm_metrics::prometheus::Page::new();
//! page.add(&north, &[("side", "north")]);
//! page.add(&south, &[("side", "south")]);
//! let text = page.to_string();
//! let lines: Vec<&str> = text.lines().filter(|line| line.contains("visitors_total")).collect();
//! assert_eq!(lines[0], "# HELP qsm_gate_visitors_total Visitors let in.");
//! assert_eq!(lines[1], "# TYPE qsm_gate_visitors_total counter");
//! assert_eq!(lines[2], r#"qsm_gate_visitors_total{side="north"} 3"#);
//! assert_eq!(lines[3], r#"qsm_gate_visitors_total{side="south"} 1"#);
//! ```
//!
//! `page.to_open_metrics()` is the same in the format of OpenMetrics.
//!
//! # Declaring
//!
//! `struct NAME of "GROUP"` names the struct and the group that its Prometheus names begin with.
//! A field is `name: kind(unit)`:
//!
//! | kind | of two together | Prometheus |
//! |---|---|---|
//! | `counter` | sum; only grows | counter, `_total` |
//! | `gauge` | sum; rises and falls | gauge |
//! | `maximum` | the larger | gauge |
//! | `histogram(seconds)` | both counted together | histogram |
//! | `group(Type)` | as the group says | names begin with the field's |
//!
//! | unit | field | Prometheus |
//! |---|---|---|
//! | `bytes` | `u64` | bytes |
//! | `nanoseconds` | `u64`, for code that counts in them | seconds |
//! | `seconds` | `Duration` (`Histogram` for histograms) | seconds |
//! | any other word | `u64` of that thing | the number |
//!
//! `struct NAME of "GROUP", counted in COUNTS` also makes a struct `COUNTS` with a [`Count`] for each
//! field, for what several threads count; its `read()` gives the plain struct. All fields must be
//! `u64`.
//!
//! The struct derives `Debug`, `Clone`, `PartialEq`, `Eq` and `Default`; attributes above it may
//! add more, `Copy` for one where it has no histogram.

#![forbid(unsafe_code)]

mod count;
mod declare;
mod histogram;
mod json;
mod metric;
pub mod otlp;
pub mod prometheus;
mod seconds;

pub use count::Count;
pub use histogram::Histogram;
pub use json::{Object, json, quoted};
pub use metric::{Kind, Metric, Metrics, Path, Row, Unit, Value, rows};
