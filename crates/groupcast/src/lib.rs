//! One payload to thousands of UDP recipients in one call.

mod backend;
mod calibrate;
mod capability;
pub mod capi;
mod clone;
mod error;
mod group;
mod message;
mod recipient;
mod sender;
mod socket;
pub mod wire;

pub use backend::{BackEnd, Unavailable};
pub use calibrate::{Choice, Cost};
pub use clone::Discard;
pub use error::{Errno, Error};
pub use group::{Group, GroupError};
pub use message::{DATAGRAM_V4_MAX, DATAGRAM_V6_MAX, Message, TRAIN_MAX};
pub use recipient::{RECIPIENTS_MAX, Recipient, Via};
pub use sender::{Sender, Stats};
