//! The node of a command: one of its own, or that of an engine.

use std::path::Path;
use std::time::Duration;

use qsm::{Embedded, Flushed, Node};
use qsm_console::failure::Failure;
use qsm_console::options::{AttachOptions, NodeOptions};

/// Starts a node, or attaches.
///
/// # Errors
/// The node does not start, or there is no engine.
pub(crate) fn start(node: &NodeOptions, attach: &AttachOptions) -> Result<Node, Failure> {
    Ok(match attach.attach.as_deref().map(Path::new) {
        Some(path) => Node::attach(path)?,
        None => node.builder(Embedded::IfNoneFound).start()?,
    })
}

/// Ends it; a goodbye that nobody heard changes nothing. Returns what the node knew of its receivers
/// then; `None` if it could not tell.
pub(crate) fn shut_down(node: &Node, timeout: Duration) -> Option<Flushed> {
    node.shutdown(timeout).ok()
}
