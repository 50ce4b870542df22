//! Nodes: of this process, or attached to that of an engine.

use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::ptr::null_mut;

use qsm::{Flushed, Node};
use qsm_binding::Settings;

use crate::error::{Code, Failure, c_string};
use crate::guard::{at, at_mut, call, free, give};
use crate::settings::QsmSettings;
use crate::text;

/// A node.
#[derive(Debug)]
pub struct QsmNode(pub(crate) Node);

/// What receivers have, as [`qsm_flush`] found it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub struct QsmFlushed {
    /// Entries about receivers that are gone and not known to have everything.
    pub unserved: u64,
    /// Further such receivers, of whom nothing exact is kept.
    pub more: u64,
    /// Entries about receivers that are away and lack something that is kept for them.
    pub away: u64,
}

/// Starts a node. Without settings (null) all are defaults. The settings may be used again.
///
/// # Safety
/// `settings` is null or of this library; `node` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_start(settings: *const QsmSettings, node: *mut *mut QsmNode) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let given = unsafe { settings.as_ref() };
        let settings = given.map_or_else(Settings::default, |settings| settings.0.clone());
        // SAFETY: as above.
        unsafe { open(node, || Ok(settings.start()?)) }
    })
}

/// Attaches to the shared engine at a path (`qsm engine --at PATH`).
///
/// # Safety
/// `path` is a text; `node` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_attach(path: *const c_char, node: *mut *mut QsmNode) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let path = unsafe { text::read(path, "path") }?;
        // SAFETY: as above.
        unsafe { open(node, || Ok(Node::attach(path)?)) }
    })
}

/// # Safety
/// `node` is null or may be written to.
unsafe fn open(
    node: *mut *mut QsmNode,
    make: impl FnOnce() -> Result<Node, Failure>,
) -> Result<(), Failure> {
    // Before there is something that would be lost; null if it fails.
    // SAFETY: the caller promises it.
    *unsafe { at_mut(node, "node") }? = null_mut();
    // SAFETY: as above.
    unsafe { give(node, QsmNode(make()?), "node") }
}

/// Waits so many milliseconds until the node is a member of its cluster (negative: for ever).
///
/// # Safety
/// `node` is of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_wait_admitted(node: *const QsmNode, milliseconds: i64) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let node = unsafe { at(node, "node") }?;
        Ok(node.0.wait_admitted(text::limit(milliseconds))?)
    })
}

/// Waits until all live receivers have what the node was given to send, at most so many milliseconds
/// (negative: for ever). `flushed`, if not null, says who has not.
///
/// # Safety
/// `node` is of this library; `flushed` is null or may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_flush(
    node: *const QsmNode,
    milliseconds: i64,
    flushed: *mut QsmFlushed,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let node = unsafe { at(node, "node") }?;
        let found = node.0.flush(text::limit(milliseconds))?;
        // SAFETY: as above.
        unsafe { tell(&found, flushed) };
        Ok(())
    })
}

/// Sends what is left, at most so many milliseconds long, and ends the node: all its handles say so
/// from then on. `flushed` as in [`qsm_flush`].
///
/// # Safety
/// As of [`qsm_flush`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_shutdown(
    node: *const QsmNode,
    milliseconds: i64,
    flushed: *mut QsmFlushed,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let node = unsafe { at(node, "node") }?;
        let found = node.0.shutdown(text::limit(milliseconds))?;
        // SAFETY: as above.
        unsafe { tell(&found, flushed) };
        Ok(())
    })
}

thread_local! {
    static LACKING: RefCell<CString> = RefCell::default();
}

/// Receivers that the last [`qsm_flush`] or [`qsm_shutdown`] of this thread found to lack something:
/// a line for each entry, first those that are gone, then those that are away; empty without any. It
/// lasts until the thread's next one.
#[unsafe(no_mangle)]
pub extern "C" fn qsm_lacking() -> *const c_char {
    LACKING.with_borrow(|lacking| lacking.as_ptr())
}

/// The node's number in its cluster; 0 of null.
///
/// # Safety
/// `node` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_node_id(node: *const QsmNode) -> u64 {
    // SAFETY: the caller promises it.
    let node = unsafe { node.as_ref() };
    node.map_or(0, |node| node.0.id().0)
}

/// Why the node has ended: the length of the reason in bytes, without the nul; writes as much of it
/// as `size` bytes hold, and a nul. 0 while it runs.
///
/// # Safety
/// `node` is null or of this library; `place` points to `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_closed(
    node: *const QsmNode,
    place: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller promises it.
    let node = unsafe { node.as_ref() };
    let reason = node.and_then(|node| node.0.closed());
    let reason = reason.map(|reason| reason.to_string()).unwrap_or_default();
    // SAFETY: as above.
    unsafe { text::write(&reason, place, size) };
    reason.len()
}

/// # Safety
/// `place` is null or may be written to.
unsafe fn tell(found: &Flushed, place: *mut QsmFlushed) {
    let gone = found.unserved.iter().map(ToString::to_string);
    let away = found.away.iter().map(ToString::to_string);
    let lines: Vec<String> = gone.chain(away).collect();
    LACKING.with_borrow_mut(|lacking| *lacking = c_string(&lines.join("\n")));
    // SAFETY: the caller promises it.
    if let Some(place) = unsafe { place.as_mut() } {
        *place = QsmFlushed {
            unserved: found.unserved.len() as u64,
            more: found.more,
            away: found.away.len() as u64,
        };
    }
}

/// Gives up the handle. The node ends when its last handle does: subscriptions, publishers and
/// readers of events are handles too. What it was given to send before is sent if
/// [`qsm_shutdown`] was called.
///
/// # Safety
/// `node` is null, or of this library and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_node_free(node: *mut QsmNode) {
    // SAFETY: the caller promises it.
    unsafe { free(node) }
}
