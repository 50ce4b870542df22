use core::any::Any;
use core::fmt;
use std::io;
use std::time::Duration;

use qsm_gms::ServiceConfigError;
use qsm_net::{Interface, InterfaceError, PortError, ThreadError};
use qsm_proto::ConfigError;

use crate::shard::CORES_MAX;

/// Why a node or a service could not be started. Each text ends with the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The protocol's configuration cannot work.
    Config(ConfigError),
    /// Not a number of core threads.
    Cores {
        /// What was given.
        cores: usize,
    },
    /// More or fewer CPUs than core threads.
    Cpus {
        /// CPUs given.
        cpus: usize,
        /// Core threads.
        cores: usize,
    },
    /// What was given is of one family of addresses, the interface's address of the other. The
    /// nodes of a cluster send to each other, so all use IPv4, or all IPv6.
    Families {
        /// What was given.
        given: String,
        /// The interface.
        interface: Interface,
    },
    /// No network interface could be chosen.
    Interface(InterfaceError),
    /// A name is empty, too long, or has control characters.
    Name {
        /// Whose name it is: `node` or `cluster`.
        of: &'static str,
        /// Its length, bytes.
        length: usize,
        /// The longest allowed, bytes.
        max: usize,
    },
    /// The sockets could not be opened.
    Port(PortError),
    /// The membership service's configuration cannot work.
    Service(ServiceConfigError),
    /// The operating system refused a thread.
    System {
        /// What was tried.
        doing: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A core thread cannot run as it should.
    Thread(ThreadError),
    /// More interfaces than two.
    TooManyInterfaces {
        /// How many were given.
        given: usize,
    },
    /// There are not so many port numbers after the first.
    UnicastPorts {
        /// Port of the first core thread.
        first: u16,
    },
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Config(error) => write!(f, "configuration: {error}"),
            Self::Cores { cores } => write!(
                f,
                "a node cannot have {cores} core threads; give it 1 to {CORES_MAX}"
            ),
            Self::Cpus { cpus, cores } => write!(
                f,
                "core threads: {cores}, but CPUs to pin them to: {cpus}; give one for each"
            ),
            Self::Families { given, interface } => write!(
                f,
                "{given} cannot be used from interface {interface}, which is of the other family; \
                 all nodes of a cluster use IPv4, or all IPv6: choose an interface by an address \
                 of the right family, or change the other"
            ),
            Self::Interface(error) => error.fmt(f),
            Self::Name { of, length, max } => write!(
                f,
                "{of} name of {length} bytes is not usable; give it 1 to {max} bytes without \
                 control characters"
            ),
            Self::Port(error) => error.fmt(f),
            Self::Service(error) => write!(f, "membership service: {error}"),
            Self::System { doing, source } => write!(
                f,
                "cannot {doing}: {source}; check the limits of this process with `ulimit -a`"
            ),
            Self::Thread(error) => error.fmt(f),
            Self::TooManyInterfaces { given } => write!(
                f,
                "{given} interfaces are too many; give one, or two on two networks that are to carry \
                 the same"
            ),
            Self::UnicastPorts { first } => write!(
                f,
                "each core thread has a port, and after {first} there are too few; choose a lower \
                 one, or 0 for any"
            ),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Config(error) => Some(error),
            Self::Interface(error) => Some(error),
            Self::Cores { .. }
            | Self::Cpus { .. }
            | Self::Families { .. }
            | Self::Name { .. }
            | Self::TooManyInterfaces { .. }
            | Self::UnicastPorts { .. } => None,
            Self::Port(error) => Some(error),
            Self::Service(error) => Some(error),
            Self::System { source, .. } => Some(source),
            Self::Thread(error) => Some(error),
        }
    }
}

impl From<ThreadError> for StartError {
    fn from(error: ThreadError) -> Self {
        Self::Thread(error)
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> Self {
        Self::Config(error)
    }
}

impl From<InterfaceError> for StartError {
    fn from(error: InterfaceError) -> Self {
        Self::Interface(error)
    }
}

impl From<PortError> for StartError {
    fn from(error: PortError) -> Self {
        Self::Port(error)
    }
}

/// Why a node has ended. All its handles report the same.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CloseReason {
    /// The engine that this process was attached to has ended, or has cut it off.
    EngineGone {
        /// What it said, or what was seen of it.
        cause: String,
    },
    /// The operating system failed in a way that does not pass.
    Io {
        /// What happened.
        cause: String,
    },
    /// An upcall or a feed of the application panicked, or the node itself did. It ends all core
    /// threads.
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The application shut it down, or dropped the last [`Node`](crate::Node).
    ShutDown,
}

impl CloseReason {
    /// What was thrown says why.
    pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Self {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Self::Panicked {
            message: text.unwrap_or_else(|| "no message".to_owned()),
        }
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::EngineGone { cause } => write!(
                f,
                "the shared engine is gone: {cause}; attach again when it runs again"
            ),
            Self::Io { cause } => write!(f, "the node ended: {cause}"),
            Self::Panicked { message } => write!(
                f,
                "the node ended because its core thread panicked: {message}; if that came from an \
                 upcall or a feed, mend it there"
            ),
            Self::ShutDown => f.write_str("the node was shut down"),
        }
    }
}

/// Why a request to a node failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The node has ended.
    Closed(CloseReason),
    /// An attached node cannot do this, because the node is in another process.
    NotAttached {
        /// What was asked for.
        what: &'static str,
        /// What to do instead.
        remedy: &'static str,
    },
    /// The call would wait for the core thread, and was made on it: from an upcall or a feed.
    OnCoreThread,
    /// The membership service, or this node, refused; the text says why and what to do.
    Refused {
        /// Why.
        reason: String,
    },
    /// It took too long. A request to enter groups has been withdrawn.
    Timeout {
        /// What was waited for.
        doing: &'static str,
        /// How long.
        after: Duration,
    },
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(reason) => reason.fmt(f),
            Self::NotAttached { what, remedy } => {
                write!(f, "an attached node cannot do this: {what}; {remedy}")
            }
            Self::OnCoreThread => f.write_str(
                "this call waits for the core thread and so cannot be made on it; hand it to \
                 another thread",
            ),
            Self::Refused { reason } => f.write_str(reason),
            Self::Timeout { doing, after } => write!(f, "no success within {after:?}: {doing}"),
        }
    }
}

impl std::error::Error for RequestError {}

/// Why a message was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The node has ended.
    Closed(CloseReason),
    /// The queue is full: receivers, or the network, are slower than this publisher. Never
    /// returned by calls that wait.
    Full,
    /// The queue is full, and waiting for the core thread on itself would never end.
    OnCoreThread,
    /// The message is longer than [`Limits::message_bytes`](crate::Limits::message_bytes).
    TooLarge {
        /// Its length, bytes.
        length: usize,
        /// The limit, bytes.
        max: usize,
    },
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(reason) => reason.fmt(f),
            Self::Full => f.write_str("the queue is full; send later, or use a call that waits"),
            Self::OnCoreThread => f.write_str(
                "the queue is full and this is the core thread, which empties it; use `try_send` \
                 in upcalls",
            ),
            Self::TooLarge { length, max } => write!(
                f,
                "message of {length} bytes is longer than the limit of {max}; cut it, or raise \
                 `Limits::message_bytes` and `Limits::send_bytes`, which a group's regions share"
            ),
        }
    }
}

impl std::error::Error for SendError {}

/// Why no more messages, or events, will come.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecvError {
    /// The node has ended.
    Closed(CloseReason),
    /// The subscription was ended because its queue was full ([`Overflow::Disconnect`]).
    ///
    /// [`Overflow::Disconnect`]: crate::Overflow::Disconnect
    Overflow,
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed(reason) => reason.fmt(f),
            Self::Overflow => f.write_str(
                "the subscription was ended because its reader was too slow; read faster, enlarge \
                 its queue, or choose another `Overflow`",
            ),
        }
    }
}

impl std::error::Error for RecvError {}
