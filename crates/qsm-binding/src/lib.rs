//! Parts that the interfaces for other languages share.
//!
//! A call from another language costs more than a message does, and no thread of ours may run the
//! language's own code: it could stand still there, for a collector or an interpreter's lock. So a
//! runtime takes what has come by itself, many messages at a call ([`Reader::take`]), and waits in
//! its own loop for a descriptor ([`Reader::descriptor`]). A reader that stands still fills its own
//! queue and harms nobody.
//!
//! ```text
//!   core thread ──► queue of the subscription ──► Reader::take ──► a batch ──► C, Python, Java
//!                             │
//!                             └──► Bell: readable while something is there
//! ```
//!
//! With a past ([`Reader::with_past`]) a batch has what keepers have of what was sent before, too; the same descriptor has the
//! runtime call while keepers are to be asked, so that no thread is needed for that either.
//!
//! A live object tells its changes in the same way ([`Changes`]).
//!
//! Settings come as text by name ([`Settings`]), so that one list serves all languages.
//!
//! ```
//! use std::time::Duration;
//! use qsm_binding::{Reader, Settings};
//!
//! # let cluster = format!("doc-binding-{}", std::process::id());
//! let mut settings = Settings::default();
//! settings.set("interface", "lo")?;
//! settings.set("cluster", &cluster)?;
//! settings.set("embedded", "always")?;
//! let node = settings.start()?;
//! let news = Reader::new(node.subscribe(["news"])?);
//! node.publisher("news")?.send(b"something new")?;
//! let batch = news.take(1000, Some(Duration::from_secs(5)))?;
//! assert_eq!(batch.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod alarm;
mod bell;
mod event;
mod frame;
mod inlet;
mod live;
mod object;
mod past;
mod reader;
mod sending;
mod settings;

pub use bell::Bell;
pub use event::event_kind;
pub use inlet::Inlet;
pub use object::{Changes, await_live, join_log, join_map};
pub use reader::Reader;
pub use sending::send_within;
pub use settings::{SETTINGS, Setting, SettingError, Settings};
