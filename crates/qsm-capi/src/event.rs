//! What happens to a node.

use std::ffi::{CString, c_char};
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

use qsm::{Event, Events};
use qsm_binding::event_kind;

use crate::error::{Code, c_string};
use crate::guard::{at, at_mut, call, free, give};
use crate::node::QsmNode;
use crate::text;

/// A reader of a node's events.
#[derive(Debug)]
pub struct QsmEvents {
    events: Events,
    latest: Mutex<Latest>,
}

/// Texts of the latest event.
#[derive(Debug, Default)]
struct Latest {
    name: String,
    text: CString,
}

impl QsmEvents {
    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kind of an event; the library's manual has them all (`qsm::Event`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum EventKind {
    /// None came in time.
    None = 0,
    /// An interface has no address any more, or is down.
    AddressLost = 1,
    /// The node is a member.
    Admitted = 2,
    /// A region does not wait for the node any more.
    Away = 3,
    /// It has caught up, and is waited for again.
    Back = 4,
    /// Damaged datagrams came.
    Damaged = 5,
    /// The node has ended. The last event.
    Closed = 6,
    /// Multicast does not reach a member.
    Deaf = 7,
    /// It does again.
    Hears = 8,
    /// Events that were not read in time.
    Dropped = 9,
    /// The cluster took the node for dead; it begins a new life.
    Excluded = 10,
    /// It has another address.
    Moved = 11,
    /// A multicast address cannot be received.
    NotListening = 12,
    /// A region has a new view.
    RegionView = 13,
    /// The node runs a membership service.
    ServiceEmbedded = 14,
    /// A membership service answers.
    ServiceFound = 15,
    /// It does not.
    ServiceLost = 16,
    /// The node's own service could not start.
    ServiceNotEmbedded = 17,
    /// It has given way to another.
    ServiceYielded = 18,
    /// Messages that were accepted are not sent any more.
    Unconfirmed = 19,
    /// Receivers are gone that are not known to have everything.
    Unserved = 20,
    /// Something that this version of the interface has no name for; its text says it.
    Other = 21,
}

/// An event.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct QsmEvent {
    /// The kind.
    pub kind: EventKind,
    /// One line for people, which lasts until the reader's next event; null without an event.
    pub text: *const c_char,
}

impl From<&Event> for EventKind {
    fn from(event: &Event) -> Self {
        match event {
            Event::AddressLost { .. } => Self::AddressLost,
            Event::Admitted { .. } => Self::Admitted,
            Event::Away { .. } => Self::Away,
            Event::Back { .. } => Self::Back,
            Event::Damaged(_) => Self::Damaged,
            Event::Closed { .. } => Self::Closed,
            Event::Deaf(_) => Self::Deaf,
            Event::Hears(_) => Self::Hears,
            Event::Dropped { .. } => Self::Dropped,
            Event::Excluded => Self::Excluded,
            Event::Moved { .. } => Self::Moved,
            Event::NotListening { .. } => Self::NotListening,
            Event::RegionView { .. } => Self::RegionView,
            Event::ServiceEmbedded { .. } => Self::ServiceEmbedded,
            Event::ServiceFound { .. } => Self::ServiceFound,
            Event::ServiceLost => Self::ServiceLost,
            Event::ServiceNotEmbedded { .. } => Self::ServiceNotEmbedded,
            Event::ServiceYielded => Self::ServiceYielded,
            Event::Unconfirmed { .. } => Self::Unconfirmed,
            Event::Unserved(_) => Self::Unserved,
            _ => Self::Other,
        }
    }
}

/// Begins to read the events of a node: those that come from now on.
///
/// # Safety
/// `node` is of this library; `events` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_events_new(node: *const QsmNode, events: *mut *mut QsmEvents) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let node = unsafe {
            *at_mut(events, "events")? = null_mut();
            at(node, "node")?
        };
        let made = QsmEvents {
            events: node.0.events(),
            latest: Mutex::default(),
        };
        // SAFETY: as above.
        unsafe { give(events, made, "events") }
    })
}

/// The next event; waits so many milliseconds for it, or for ever if negative. An error says that no
/// more will come.
///
/// # Safety
/// `events` is of this library; `event` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_next_event(
    events: *const QsmEvents,
    milliseconds: i64,
    event: *mut QsmEvent,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (reader, place) = unsafe { (at(events, "events")?, at_mut(event, "event")?) };
        *place = QsmEvent {
            kind: EventKind::None,
            text: null(),
        };
        if let Some(event) = reader.events.recv_timeout(text::limit(milliseconds))? {
            let mut latest = reader.latest();
            *latest = Latest {
                name: event_kind(&event),
                text: c_string(&event.to_string()),
            };
            *place = QsmEvent {
                kind: EventKind::from(&event),
                text: latest.text.as_ptr(),
            };
        }
        Ok(())
    })
}

/// Name of the latest event's kind, such as `Admitted`, also of one without a number of its own: its
/// length in bytes, without the nul; writes as much of it as `size` bytes hold, and a nul. 0 before the
/// first.
///
/// # Safety
/// `events` is null or of this library; `place` points to `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_event_name(
    events: *const QsmEvents,
    place: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller promises it.
    let events = unsafe { events.as_ref() };
    let latest = events.map(|events| events.latest());
    let name = latest.map(|latest| latest.name.clone()).unwrap_or_default();
    // SAFETY: as above.
    unsafe { text::write(&name, place, size) };
    name.len()
}

/// Gives up the handle.
///
/// # Safety
/// `events` is null, or of this library and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_events_free(events: *mut QsmEvents) {
    // SAFETY: the caller promises it.
    unsafe { free(events) }
}
