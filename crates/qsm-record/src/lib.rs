//! Records what goes into a node's state machine, and gives it to a fresh one later.
//!
//! [`Endpoint`](qsm_proto::Endpoint) is a function of its configuration, its seed and its inputs. So a
//! file with these is the node's whole past: [`replay`] gives the same outputs byte for byte, and
//! names the first input after which they differ.
//!
//! ```text
//!   core thread                              thread            later, anywhere
//!   inputs ──► Recorded ──► Endpoint         ┌──────┐          Recording ──► replay ──► Endpoint
//!                 └──► Journal ── blocks ──► │ Disk │──► file ──► blocks     │ compare  │
//!                        └ digests of outputs└──────┘                        └──────────┘
//! ```
//!
//! | module | what it knows |
//! |---|---|
//! | `fields` | numbers, texts and addresses as bytes |
//! | `setup` | a node's start: configuration, seed, time |
//! | `input` | what a state machine is given |
//! | `entry` | what stands in a block: inputs, lent buffers, digests of outputs |
//! | `outputs` | the digest of what came out |
//! | `block` | entries with a length and a checksum |
//! | `journal`, `disk` | the way of entries into the file |
//! | `recorded` | an endpoint whose inputs are recorded, or are not |
//! | `recording` | the file, read |
//! | `player` | an endpoint that is given what was recorded |
//! | `observed` | what is seen of the cluster meanwhile |

#![forbid(unsafe_code)]

mod block;
mod disk;
mod entry;
mod error;
mod fields;
mod input;
mod journal;
mod observed;
mod outputs;
mod player;
mod recorded;
mod recording;
mod setup;
mod witness;

pub use error::{Ending, OpenError, ReadError, Stopped};
pub use input::Input;
pub use journal::{Journal, JournalOptions, LIMIT_BYTES};
pub use observed::{Observed, ObservedFlow};
pub use outputs::Outputs;
pub use player::{Audience, Difference, Played, replay};
pub use recorded::{Recorded, RecordedPublication};
pub use recording::Recording;
pub use setup::Setup;

pub use qsm_proto::{CopiesLeft, Deliver, Delivery, Destination, Instant, Miss, Transmit};

/// The format of the files; those of other numbers are not read.
pub const FORMAT: u16 = 2;
