//! An examination between hosts: what passes from each to each, and where it is lost.
//!
//! One doctor leads ([`lead`]), the others listen ([`listen`]). The leader tells each in turn, by TCP, to send
//! probes, and asks the others what came of them. What was seen is [`Evidence`], and [`judge`] is a function
//! of it.
//!
//! ```text
//!   leader ── TCP: orders, counts ──► listeners, and a listener of its own
//!                                       │  ▲
//!                      probes by UDP    ▼  │  sockets and taps count them
//!                                     network
//! ```
//!
//! Probes are counted at four places: taken by the sender's system, seen before its card, seen behind the
//! receiver's, received by the socket. The stretch that loses most is named. Cards are seen with
//! `CAP_NET_RAW` only.
//!
//! Anybody who reaches a listener can have it send probes: at most 8192 datagrams an order.

mod agent;
mod burst;
mod card;
mod evidence;
mod judge;
mod lead;
mod place;
mod probe;
mod report;
mod tally;
mod words;

pub use agent::listen;
pub use evidence::{Absent, Course, Evidence, Fault, Kind, Path, Peer};
pub use judge::judge;
pub use lead::{CONTROL_PORT, GROUP, LeadError, PEERS_MAX, Plan, lead};
pub use probe::Way;
pub use report::{HostFindings, PathFindings, PeersReport};
