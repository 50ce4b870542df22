//! Quicksilver for Python: the part of the package `qsm` that is not written in Python.
//!
//! It has what costs time (batches, messages, waiting) and nothing that decides; what a loop over a
//! subscription does about losses, and everything about tasks, is in `python/qsm`.
//!
//! No thread of the library runs Python code or takes the interpreter's lock: the caller takes what
//! has come, a batch at a time, and lets go of the lock while it waits.

mod batch;
mod buffer;
mod error;
mod event;
mod keeper;
mod log;
mod map;
mod node;
mod notice;
mod object;
mod position;
mod publisher;
mod reader;
mod wait;

/// The native module, `qsm._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::batch::{Batch, Message, Messages};
    #[pymodule_export]
    use crate::event::{Event, Events};
    #[pymodule_export]
    use crate::keeper::Keeper;
    #[pymodule_export]
    use crate::log::{LiveLog, LogEvents};
    #[pymodule_export]
    use crate::map::{Changes, LiveMap};
    #[pymodule_export]
    use crate::node::{Flushed, Node, attach, settings, start};
    #[pymodule_export]
    use crate::notice::{Back, Dropped, Excluded, Joined, Lost, LostPackets, NotKept};
    #[pymodule_export]
    use crate::position::Position;
    #[pymodule_export]
    use crate::publisher::Publisher;
    #[pymodule_export]
    use crate::reader::Reader;

    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
