//! Who publishes and subscribes: a node of this process, or the shared engine of another.

use std::path::Path;
use std::time::Duration;

use qsm::attach::{self, Attached};
use qsm::{Embedded, Events, Node, Publisher, RequestError, SendError};
use qsm_console::failure::Failure;
use qsm_console::options::{AttachOptions, NodeOptions};

/// A node, or an attachment.
#[derive(Debug)]
pub(crate) enum Member {
    Node(Node),
    Attached(Attached),
}

/// A publisher of either.
#[derive(Debug)]
pub(crate) enum Speaker {
    Node(Publisher),
    Attached(attach::Publisher),
}

impl Member {
    /// Starts a node, or attaches.
    ///
    /// # Errors
    /// The node does not start, or there is no engine.
    pub(crate) fn start(node: &NodeOptions, attach: &AttachOptions) -> Result<Self, Failure> {
        Ok(match attach.attach.as_deref().map(Path::new) {
            Some(path) => Self::Attached(Attached::connect(path)?),
            None => Self::Node(node.builder(Embedded::IfNoneFound).start()?),
        })
    }

    pub(crate) fn events(&self) -> Events {
        match self {
            Self::Node(node) => node.events(),
            Self::Attached(engine) => engine.events(),
        }
    }

    pub(crate) fn publishers(&self, groups: &[String]) -> Result<Vec<Speaker>, RequestError> {
        Ok(match self {
            Self::Node(node) => {
                let made = node.publishers(groups)?;
                made.into_iter().map(Speaker::Node).collect()
            }
            Self::Attached(engine) => {
                let made = engine.publishers(groups)?;
                made.into_iter().map(Speaker::Attached).collect()
            }
        })
    }

    pub(crate) fn flush(&self, timeout: Duration) -> Result<(), RequestError> {
        match self {
            Self::Node(node) => node.flush(timeout),
            Self::Attached(engine) => engine.flush(timeout),
        }
    }

    /// Ends it; a goodbye that nobody heard changes nothing.
    pub(crate) fn shut_down(&self, timeout: Duration) {
        match self {
            Self::Node(node) => drop(node.shutdown(timeout)),
            // The engine needs no goodbye, and takes what was sent.
            Self::Attached(_) => {}
        }
    }

    /// Says on stderr what was counted.
    pub(crate) fn report(&self) {
        match self {
            Self::Node(node) => {
                if let Ok(stats) = node.stats() {
                    eprintln!("{stats}");
                }
            }
            Self::Attached(engine) => {
                if let Ok(row) = engine.stats() {
                    eprintln!("{row:?}");
                }
            }
        }
    }
}

impl Speaker {
    pub(crate) fn group(&self) -> &str {
        match self {
            Self::Node(publisher) => publisher.group(),
            Self::Attached(publisher) => publisher.group(),
        }
    }

    pub(crate) fn send(&self, message: &[u8]) -> Result<(), SendError> {
        match self {
            Self::Node(publisher) => publisher.send(message),
            Self::Attached(publisher) => publisher.send(message),
        }
    }

    pub(crate) fn members(&self) -> Result<u32, RequestError> {
        match self {
            Self::Node(publisher) => publisher.members(),
            Self::Attached(publisher) => publisher.members(),
        }
    }

    pub(crate) fn wait_for_members(
        &self,
        count: u32,
        timeout: Duration,
    ) -> Result<(), RequestError> {
        match self {
            Self::Node(publisher) => publisher.wait_for_members(count, timeout),
            Self::Attached(publisher) => publisher.wait_for_members(count, timeout),
        }
    }
}
