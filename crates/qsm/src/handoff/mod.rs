//! Queues and signals between application threads and core threads. Both sides know them; they know
//! neither.

pub(crate) mod aside;
pub(crate) mod command;
pub(crate) mod feed;
pub(crate) mod gate;
pub(crate) mod inbox;
pub(crate) mod latest;
pub(crate) mod mailbox;
pub(crate) mod message;
pub(crate) mod mode;
pub(crate) mod outlet;
pub(crate) mod received;
pub(crate) mod reply;
pub(crate) mod room;
pub(crate) mod shared;
pub(crate) mod signal;
pub(crate) mod sink;
pub(crate) mod sleepers;
pub(crate) mod void;
