//! Notices of what is missing between messages, as Python sees it.

use pyo3::prelude::*;
use qsm::Received;
use qsm_history::{Item, MissingCause};

/// Text of a sender: a node in one of its lives, as `34a45c19b27e9e00.7`.
pub(crate) fn sender(origin: qsm::Origin) -> String {
    origin.to_string()
}

/// Why messages are lost, in a word.
fn cause(cause: qsm::LostCause) -> &'static str {
    match cause {
        qsm::LostCause::Excluded => "excluded",
        qsm::LostCause::Overdue => "overdue",
        qsm::LostCause::Expired => "expired",
        _ => "gone",
    }
}

/// Why messages of the past do not come, in a word.
fn cause_of_missing(cause: MissingCause) -> &'static str {
    match cause {
        MissingCause::NoKeeper => "no-keeper",
        MissingCause::Held => "held",
        _ => "gone",
    }
}

macro_rules! notices {
    ($($(#[$doc:meta])* $name:ident($inner:ty) { $($(#[$field_doc:meta])* $field:ident: $kind:ty = $read:expr,)* } missing $missing:expr;)+) => {
        $(
            $(#[$doc])*
            #[pyclass(frozen, module = "qsm")]
            #[derive(Debug, Clone)]
            pub(crate) struct $name(pub(crate) $inner);

            #[pymethods]
            impl $name {
                $(
                    $(#[$field_doc])*
                    #[getter]
                    fn $field(&self) -> $kind {
                        let read: fn(&$inner) -> $kind = $read;
                        read(&self.0)
                    }
                )*

                /// Messages missing here, as far as known; of lost packets, the packets.
                #[getter]
                fn missing(&self) -> u64 {
                    let missing: fn(&$inner) -> u64 = $missing;
                    missing(&self.0)
                }

                fn __str__(&self) -> String {
                    self.0.to_string()
                }

                fn __repr__(&self) -> String {
                    format!("<qsm.{}: {}>", stringify!($name), self.0)
                }
            }
        )+
    };
}

notices! {
    /// Messages that will never come: `first` to `last` of a sender in a group.
    Lost(qsm::Lost) {
        /// The group's name.
        group: String = |lost| lost.group.to_string(),
        /// The sender.
        sender: String = |lost| sender(lost.sender),
        /// The first message lost.
        first: u64 = |lost| lost.first,
        /// The last.
        last: u64 = |lost| lost.last,
        /// Why: `gone`, `excluded`, `overdue` or `expired`.
        cause: &'static str = |lost| cause(lost.cause),
    } missing qsm::Lost::messages;
    /// Packets of a sender that is gone; which messages were in them is not known.
    LostPackets(qsm::LostPackets) {
        /// The sender.
        sender: String = |lost| sender(lost.sender),
        /// The number of packets.
        packets: u64 = |lost| lost.packets,
    } missing |lost| lost.packets;
    /// Messages that this subscription's queue had no room for: its reader is too slow.
    Dropped(qsm::Dropped) {
        /// The number of messages.
        messages: u64 = |dropped| dropped.messages,
    } missing |dropped| dropped.messages;
    /// This node was away for a while, and has caught up: nothing is missing.
    Back(qsm::Back) {
        /// Seconds since the node was heard last.
        away: f64 = |back| back.away.as_secs_f64(),
    } missing |_| 0;
    /// This node was away for too long and has begun a new life: something may be missing.
    Excluded(qsm::Excluded) {
        /// The life that has ended.
        incarnation: u64 = |excluded| u64::from(excluded.incarnation.0),
    } missing |_| 0;
    /// Messages of the past that come neither way: `first` to `last` of a sender in a group.
    NotKept(qsm_history::Missing) {
        /// The group's name.
        group: String = |missing| missing.group.to_string(),
        /// The sender.
        sender: String = |missing| sender(missing.sender),
        /// The first message missing.
        first: u64 = |missing| missing.first,
        /// The last.
        last: u64 = |missing| missing.last,
        /// Why: `gone`, `no-keeper` or `held`.
        cause: &'static str = |missing| cause_of_missing(missing.cause),
    } missing qsm_history::Missing::messages;
    /// The past of a group has come, or is missing, which was told before: nothing is missing here.
    Joined(qsm_history::Joined) {
        /// The group's name.
        group: String = |joined| joined.group.to_string(),
        /// Keepers that answer.
        keepers: usize = |joined| joined.keepers,
        /// Messages that came from them.
        kept: u64 = |joined| joined.kept,
        /// Messages that were missing.
        not_kept: u64 = |joined| joined.missing,
    } missing |_| 0;
}

/// The notice as an object; `None` of a message.
pub(crate) fn notice(py: Python<'_>, item: &Item) -> PyResult<Option<Py<PyAny>>> {
    let object = match item {
        Item::Kept(_) | Item::Message(_) | Item::Told(Received::Message(_)) => return Ok(None),
        Item::Told(Received::Lost(lost)) => Py::new(py, Lost(lost.clone()))?.into_any(),
        Item::Told(Received::LostPackets(lost)) => Py::new(py, LostPackets(*lost))?.into_any(),
        Item::Told(Received::Dropped(dropped)) => Py::new(py, Dropped(*dropped))?.into_any(),
        Item::Told(Received::Back(back)) => Py::new(py, Back(*back))?.into_any(),
        Item::Told(Received::Excluded(excluded)) => Py::new(py, Excluded(*excluded))?.into_any(),
        Item::Missing(missing) => Py::new(py, NotKept(missing.clone()))?.into_any(),
        Item::Joined(joined) => Py::new(py, Joined(joined.clone()))?.into_any(),
        // A notice that this version has no class for is not left out.
        other => {
            let text = format!("a notice that this package does not know: {other:?}");
            return Err(pyo3::exceptions::PyNotImplementedError::new_err(text));
        }
    };
    Ok(Some(object))
}
