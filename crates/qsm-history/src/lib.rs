//! Late join: a subscriber gets what a group's senders have sent before it came, as far as *keepers* have it.
//!
//! A keeper ([`Keeper`]) is a member that keeps the last messages of each sender of some groups in memory, within
//! [`Bounds`]. A subscriber ([`History`]) enters the group, says from where messages begin for it ([`Start`]), holds
//! what comes live, fetches what is before from keepers, and gives each sender's messages in the order of their
//! numbers, each once. What no keeper has is told in its place, with its numbers ([`Missing`]).
//!
//! ```no_run
//! use qsm_history::{Bounds, History, Item, JoinOptions, Keeper, Start};
//!
//! # let keeping_node = qsm::Node::builder().start()?;
//! let keeper = Keeper::start(&keeping_node, ["news"], Bounds::default().messages(1000))?;
//! # let node = qsm::Node::builder().start()?;
//! let mut news = History::subscribe(&node, ["news"], Start::Last(20), JoinOptions::default())?;
//! loop {
//!     match news.recv()? {
//!         Item::Kept(message) | Item::Message(message) => println!("{:?}", message.bytes()),
//!         Item::Missing(missing) => println!("{missing}"),
//!         Item::Joined(joined) => println!("{joined}"),
//!         Item::Told(told) => println!("{told}"),
//!         other => println!("{other:?}"),
//!     }
//! }
//! # #[allow(unreachable_code)]
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`JoinerCore`] and [`KeeperCore`] are the same without threads and sockets, for other ways to carry their words.

mod bounds;
mod error;
mod history;
mod joiner;
mod keeper;
mod missing;
mod pace;
mod position;
mod ring;
mod service;
mod track;
mod views;
mod word;

pub use crate::bounds::{Bounds, JoinLimits};
pub use crate::error::HistoryError;
pub use crate::history::{History, JoinOptions};
pub use crate::joiner::{JoinStats, JoinerCore};
pub use crate::keeper::{KeeperCore, KeeperStats};
pub use crate::missing::{Item, Joined, Missing, MissingCause};
pub use crate::position::{Position, PositionError, Start};
pub use crate::service::Keeper;
pub use crate::word::Address;
