//! Nodes.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use qsm::{DeliveryMode, GroupOptions, Overflow, PublishOptions};
use qsm_binding::{Reader as Source, SETTINGS, Settings, join_log, join_map};
use qsm_history::{Bounds, Start};

use crate::error::Raised as _;
use crate::event::Events;
use crate::keeper::Keeper;
use crate::log::LiveLog;
use crate::map::LiveMap;
use crate::position::Position;
use crate::publisher::Publisher;
use crate::reader::Reader;
use crate::wait::limit;

/// A node, of this process or attached to that of an engine.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Node(qsm::Node);

/// State of the receivers, as a flush found it.
#[pyclass(frozen, module = "qsm")]
#[derive(Debug)]
pub(crate) struct Flushed(qsm::Flushed);

/// Names and meanings of all settings.
#[pyfunction]
pub(crate) fn settings() -> Vec<(&'static str, &'static str)> {
    let pair = |setting: &qsm_binding::Setting| (setting.name, setting.meaning);
    SETTINGS.iter().map(pair).collect()
}

/// Starts a node with settings, each a name and a text.
#[pyfunction]
pub(crate) fn start(py: Python<'_>, given: Vec<(String, String)>) -> PyResult<Node> {
    let mut settings = Settings::default();
    for (name, text) in given {
        settings.set(&name, &text).raised(py)?;
    }
    py.detach(|| settings.start()).raised(py).map(Node)
}

/// Attaches to the engine at a path.
#[pyfunction]
pub(crate) fn attach(py: Python<'_>, path: std::path::PathBuf) -> PyResult<Node> {
    py.detach(|| qsm::Node::attach(path)).raised(py).map(Node)
}

#[pymethods]
impl Node {
    /// Subscribes to groups, by name or by patterns; with a past by name.
    #[pyo3(signature = (groups, queue_bytes=None, queue_messages=None, overflow="drop-newest",
        order="sender", within=None, last=None, resume=None, held_bytes=None))]
    #[expect(clippy::too_many_arguments, reason = "keywords of Python")]
    fn subscribe(
        &self,
        py: Python<'_>,
        groups: Vec<String>,
        queue_bytes: Option<usize>,
        queue_messages: Option<usize>,
        overflow: &str,
        order: &str,
        within: Option<f64>,
        last: Option<u64>,
        resume: Option<PyRef<'_, Position>>,
        held_bytes: Option<usize>,
    ) -> PyResult<Reader> {
        let delivery = delivery(order, within)?;
        let start = start_of(last, resume.as_deref(), held_bytes)?;
        if start.is_some() && delivery != DeliveryMode::Ordered {
            let text =
                "with a past messages come in each sender's order; leave `order` and `within` out";
            return Err(PyValueError::new_err(text));
        }
        let mut options = GroupOptions::default()
            .overflow(policy(overflow)?)
            .delivery(delivery);
        if let Some(bytes) = queue_bytes {
            options = options.capacity_bytes(bytes);
        }
        if let Some(messages) = queue_messages {
            options = options.capacity_messages(messages);
        }
        let node = &self.0;
        let made = match start {
            Some(start) => {
                let held = held_bytes.unwrap_or(0);
                let subscribe = || Source::with_past(node, groups, start, options, held);
                py.detach(subscribe).raised(py)?
            }
            None => {
                let subscribe = || node.groups(groups).options(options).subscribe();
                Source::new(py.detach(subscribe).raised(py)?)
            }
        };
        Ok(Reader::new(made))
    }

    /// Keeps the last messages of groups, by name, for those who join later.
    #[pyo3(signature = (groups, messages=None, bytes=None, age=None, bytes_per_second=None))]
    fn keep(
        &self,
        py: Python<'_>,
        groups: Vec<String>,
        messages: Option<usize>,
        bytes: Option<usize>,
        age: Option<f64>,
        bytes_per_second: Option<u64>,
    ) -> PyResult<Keeper> {
        let mut bounds = Bounds::default();
        if let Some(messages) = messages {
            bounds = bounds.messages(messages);
        }
        if let Some(bytes) = bytes {
            bounds = bounds.bytes(bytes);
        }
        if let Some(seconds) = age {
            bounds = bounds.age(limit(Some(seconds))?);
        }
        if let Some(rate) = bytes_per_second {
            bounds = bounds.bytes_per_second(rate);
        }
        let keep = || qsm_history::Keeper::start(&self.0, groups, bounds);
        py.detach(keep).raised(py).map(Keeper::new)
    }

    /// Enters the map of a group.
    #[pyo3(signature = (group, bytes=None, removed=None))]
    fn live_map(
        &self,
        py: Python<'_>,
        group: &str,
        bytes: Option<usize>,
        removed: Option<usize>,
    ) -> PyResult<LiveMap> {
        let join = || join_map(&self.0, group, bytes.unwrap_or(0), removed.unwrap_or(0));
        py.detach(join).raised(py).map(LiveMap::new)
    }

    /// Enters the log of a group.
    #[pyo3(signature = (group, entries=None, bytes=None))]
    fn live_log(
        &self,
        py: Python<'_>,
        group: &str,
        entries: Option<usize>,
        bytes: Option<usize>,
    ) -> PyResult<LiveLog> {
        let join = || join_log(&self.0, group, entries.unwrap_or(0), bytes.unwrap_or(0));
        py.detach(join).raised(py).map(LiveLog::new)
    }

    /// Makes a publisher to a group.
    #[pyo3(signature = (group, batch_delay=None, batch_bytes=None))]
    fn publisher(
        &self,
        py: Python<'_>,
        group: &str,
        batch_delay: Option<f64>,
        batch_bytes: Option<usize>,
    ) -> PyResult<Publisher> {
        let options = batching(batch_delay, batch_bytes)?;
        let group = self.0.group(group).publish_options(options);
        py.detach(|| group.publisher()).raised(py).map(Publisher)
    }

    /// Waits until the node is a member of its cluster.
    #[pyo3(signature = (timeout=None))]
    fn wait_admitted(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<()> {
        let limit = limit(timeout)?;
        py.detach(|| self.0.wait_admitted(limit)).raised(py)
    }

    /// Waits until all live receivers have everything; who has not.
    #[pyo3(signature = (timeout=None))]
    fn flush(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Flushed> {
        let limit = limit(timeout)?;
        py.detach(|| self.0.flush(limit)).raised(py).map(Flushed)
    }

    /// Sends what is left, and ends the node.
    #[pyo3(signature = (timeout=None))]
    fn shutdown(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Flushed> {
        let limit = limit(timeout)?;
        py.detach(|| self.0.shutdown(limit)).raised(py).map(Flushed)
    }

    /// Begins to read events: those that come from now on.
    fn events(&self) -> Events {
        Events(self.0.events())
    }

    /// The node's number in its cluster, as text.
    #[getter]
    fn id(&self) -> String {
        format!("{:x}", self.0.id().0)
    }

    /// Why it has ended; `None` while it runs.
    #[getter]
    fn closed(&self) -> Option<String> {
        self.0.closed().map(|reason| reason.to_string())
    }
}

/// Place from which messages begin; `None` without a past.
fn start_of(
    last: Option<u64>,
    resume: Option<&Position>,
    held_bytes: Option<usize>,
) -> PyResult<Option<Start>> {
    match (resume, last) {
        (Some(Position(position)), _) => Ok(Some(Start::Resume(position.clone()))),
        (None, Some(last)) => Ok(Some(Start::Last(last))),
        (None, None) if held_bytes.is_some() => {
            let text = "nothing is held without a past; give `last` or `resume`, too";
            Err(PyValueError::new_err(text))
        }
        (None, None) => Ok(None),
    }
}

fn batching(delay: Option<f64>, bytes: Option<usize>) -> PyResult<PublishOptions> {
    let mut options = PublishOptions::default();
    match delay {
        Some(seconds) => options = options.batch_delay(limit(Some(seconds))?),
        None if bytes.is_some() => {
            let text = "a packet waits for no length without a time; give `batch_delay`, too";
            return Err(PyValueError::new_err(text));
        }
        None => {}
    }
    Ok(match bytes {
        Some(bytes) => options.batch_bytes(bytes),
        None => options,
    })
}

fn policy(name: &str) -> PyResult<Overflow> {
    match name {
        "drop-newest" => Ok(Overflow::DropNewest),
        "drop-oldest" => Ok(Overflow::DropOldest),
        "disconnect" => Ok(Overflow::Disconnect),
        "hold" => Ok(Overflow::Hold),
        _ => {
            let takes = "drop-newest, drop-oldest, disconnect or hold";
            let text = format!("{name:?} is no policy of a full queue; give {takes}");
            Err(PyValueError::new_err(text))
        }
    }
}

fn delivery(order: &str, within: Option<f64>) -> PyResult<DeliveryMode> {
    let within = within.map(|seconds| limit(Some(seconds))).transpose()?;
    match (order, within) {
        ("sender", None) => Ok(DeliveryMode::Ordered),
        ("sender", Some(time)) => Ok(DeliveryMode::Within(time)),
        ("arrival", None) => Ok(DeliveryMode::Arrival),
        ("arrival", Some(_)) => {
            let text = "who takes messages as they arrive waits for none; leave `within` out";
            Err(PyValueError::new_err(text))
        }
        _ => {
            let text = format!("{order:?} is no order of messages; give sender or arrival");
            Err(PyValueError::new_err(text))
        }
    }
}

#[pymethods]
impl Flushed {
    /// True if every receiver is known to have everything.
    #[getter]
    fn complete(&self) -> bool {
        self.0.is_complete()
    }

    /// Receivers that are gone and not known to have everything, a line each.
    #[getter]
    fn unserved(&self) -> Vec<String> {
        self.0.unserved.iter().map(ToString::to_string).collect()
    }

    /// Further such receivers, of whom nothing exact is kept.
    #[getter]
    fn more(&self) -> u64 {
        self.0.more
    }

    /// Receivers that are away and lack something that is kept for them, a line each.
    #[getter]
    fn away(&self) -> Vec<String> {
        self.0.away.iter().map(ToString::to_string).collect()
    }

    fn __bool__(&self) -> bool {
        self.complete()
    }

    fn __repr__(&self) -> String {
        let (unserved, more, away) = (self.0.unserved.len(), self.0.more, self.0.away.len());
        format!("<qsm.Flushed: {unserved} unserved, {more} more, {away} away>")
    }
}
