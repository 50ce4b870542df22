//! The node of a command: one of its own, or that of an engine.

use std::path::Path;
use std::time::Duration;

use qsm::{Builder, Embedded, Flushed, Node};
use qsm_console::failure::Failure;
use qsm_console::loopback;
use qsm_console::options::{AttachOptions, NodeOptions};

/// Starts a node, or attaches. Warns if the node reaches this host alone and nobody asked for that.
///
/// # Errors
/// The node does not start, or there is no engine.
pub(crate) fn start(node: &NodeOptions, attach: &AttachOptions) -> Result<Node, Failure> {
    Ok(match attach.attach.as_deref().map(Path::new) {
        Some(path) => Node::attach(path)?,
        None => start_own(node, Embedded::IfNoneFound, |builder| builder)?,
    })
}

/// Starts a node of this process, with what `more` adds and the same warning.
///
/// # Errors
/// It does not start.
pub(crate) fn start_own(
    options: &NodeOptions,
    embedded: Embedded,
    more: impl Fn(Builder) -> Builder,
) -> Result<Node, Failure> {
    let node = options.start(embedded, more)?;
    let unasked = options.network.interface.is_empty();
    if let Some(report) = node.io_report().ok().filter(|_| unasked)
        && let Some(line) = loopback::warning(&report.interface)
    {
        eprintln!("qsm: {line}");
    }
    Ok(node)
}

/// Ends it; a goodbye that nobody heard changes nothing. Returns what the node knew of its receivers
/// then; `None` if it could not tell.
pub(crate) fn shut_down(node: &Node, timeout: Duration) -> Option<Flushed> {
    node.shutdown(timeout).ok()
}
