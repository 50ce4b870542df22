//! The node of a command: one of its own, or that of an engine.

use std::path::Path;
use std::time::Duration;

use qsm::{Builder, Cloning, Embedded, Flushed, Node, RequestError};
use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_console::options::{AttachOptions, Multicast, NodeOptions, RecordingOptions};
use qsm_console::solitude::Doubts;
use qsm_console::{loopback, unicast};

/// Starts a node, or attaches. Warns if the node reaches this host alone and nobody asked for that.
///
/// # Errors
/// The node does not start, or there is no engine.
pub(crate) fn start(
    node: &NodeOptions,
    attach: &AttachOptions,
    recording: &RecordingOptions,
) -> Result<Node, Failure> {
    match attach.attach.as_deref().map(Path::new) {
        Some(_) if recording.record.is_some() => Err(Failure::usage(
            "an attached process has no node of its own to record",
            "record the engine's: qsm engine --record FILE",
        )),
        Some(path) => Ok(Node::attach(path)?),
        None => start_own(node, Embedded::IfNoneFound, |builder| {
            recording.apply(builder)
        }),
    }
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
    let Ok(report) = node.io_report() else {
        return Ok(node);
    };
    let unasked = options.network.interface.is_empty();
    if let Some(line) = loopback::warning(&report.interface).filter(|_| unasked) {
        Note::warn("loopback", &line).say();
    }
    let unsaid = options.network.multicast == Multicast::Auto;
    if let Some(line) = unicast::notice(&report.interface).filter(|_| unsaid) {
        Note::warn("unicast", &line).say();
    }
    let mut strategies = report.strategies().into_iter();
    if let Cloning::Refused(_) = report.cloning
        && let Some(refused) = strategies.find(|one| one.name == Cloning::NAME)
    {
        let line = format!("copies go one by one: {}", refused.reason);
        Note::warn("not-cloned", &line).say();
    }
    Ok(node)
}

/// A failure to enter groups. Where no membership service has answered, it says where one was looked
/// for.
pub(crate) fn not_entered(
    error: RequestError,
    node: &Node,
    options: &NodeOptions,
    attach: &AttachOptions,
) -> Failure {
    let timeout = matches!(error, RequestError::Timeout { .. });
    let failure = Failure::from(error);
    let service = node.stats().ok().and_then(|snapshot| snapshot.service);
    if !timeout || attach.attach.is_some() || service.is_some() {
        return failure;
    }
    let looked = match options.services_tried() {
        Some(places) => format!("at {places} (--service), nor by multicast"),
        None => "to multicast".to_owned(),
    };
    let doubts = Doubts::of(node);
    let doubt = doubts.sentence().map(|sentence| format!("; {sentence}"));
    Failure {
        cause: format!(
            "{}: no membership service of this cluster ({}) answered {looked}{}",
            failure.cause,
            doubts.option(),
            doubt.unwrap_or_default()
        ),
        remedy:
            "see that `qsm gms` or a node with a service of its own runs, at that address and in \
                 that cluster, and that a firewall lets UDP through, both ways"
                .to_owned(),
        ..failure
    }
}

/// Ends it; a goodbye that nobody heard changes nothing. Returns what the node knew of its receivers
/// then; `None` if it could not tell.
pub(crate) fn shut_down(node: &Node, timeout: Duration) -> Option<Flushed> {
    node.shutdown(timeout).ok()
}
