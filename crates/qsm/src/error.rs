use core::any::Any;
use core::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use qsm_exporter::ExporterError;
use qsm_gms::ServiceConfigError;
use qsm_net::{Interface, InterfaceError, PortError, ThreadError};
use qsm_proto::{ConfigError, UnservedCause};
use qsm_record::OpenError as RecordingError;
use qsm_wire::Origin;

use crate::admission::IdentityError;
use crate::counted::Counted;
use crate::receivers::{Lacking, Receivers};
use crate::shard::CORES_MAX;
use crate::unconfirmed::RANGES_SHOWN;
pub use crate::unconfirmed::Unconfirmed;

/// Why a node or a service could not be started. Each text ends with the remedy.
#[derive(Debug)]
#[non_exhaustive]
pub enum StartError {
    /// The protocol's configuration cannot work.
    Config(ConfigError),
    /// Not a number of core threads.
    Cores {
        /// The number of core threads asked for.
        cores: usize,
    },
    /// Hints demand proof of origin, and there is no identity: nobody would have a key to prove it by.
    OriginWithoutTokens,
    /// More or fewer CPUs than core threads.
    Cpus {
        /// CPUs given.
        cpus: usize,
        /// Core threads.
        cores: usize,
    },
    /// The given address is of one family, the interface's address of the other. The
    /// nodes of a cluster send to each other, so all use IPv4, or all IPv6.
    Families {
        /// The text that was given.
        given: String,
        /// The interface.
        interface: Interface,
    },
    /// The identity cannot be used.
    Identity(IdentityError),
    /// No network interface could be chosen.
    Interface(InterfaceError),
    /// The metrics cannot be served where they should be.
    Metrics(ExporterError),
    /// A name is empty, too long, or has control characters.
    Name {
        /// Owner of the name: `node` or `cluster`.
        of: &'static str,
        /// Its length, bytes.
        length: usize,
        /// The longest allowed, bytes.
        max: usize,
    },
    /// A node without multicast does not look for a membership service, and none is named.
    NoService,
    /// The sockets could not be opened.
    Port(PortError),
    /// The file that the node was to be recorded to cannot be made.
    Recording(RecordingError),
    /// The membership service's configuration cannot work.
    Service(ServiceConfigError),
    /// The operating system refused a thread.
    System {
        /// The attempt, in words.
        doing: &'static str,
        /// The system's answer.
        source: io::Error,
    },
    /// A core thread cannot run as it should.
    Thread(ThreadError),
    /// More interfaces than two.
    TooManyInterfaces {
        /// The number that was given.
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
            Self::OriginWithoutTokens => f.write_str(
                "the hints demand proof of origin, which takes a cluster that takes tokens: give this service, and all \
                 others and all nodes, an identity and a token (`qsm init` makes some), or remove the `origin` lines",
            ),
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
            Self::Identity(error) => error.fmt(f),
            Self::Interface(error) => error.fmt(f),
            Self::Metrics(error) => error.fmt(f),
            Self::Name { of, length, max } => write!(
                f,
                "{of} name of {length} bytes is not usable; give it 1 to {max} bytes without \
                 control characters"
            ),
            Self::NoService => write!(
                f,
                "a node without multicast cannot look for a membership service; start one with \
                 `qsm gms`, and say where it is (--service HOST:PORT)"
            ),
            Self::Port(error) => error.fmt(f),
            Self::Recording(error) => error.fmt(f),
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
            Self::Identity(error) => Some(error),
            Self::Interface(error) => Some(error),
            Self::Metrics(error) => Some(error),
            Self::Cores { .. }
            | Self::Cpus { .. }
            | Self::Families { .. }
            | Self::Name { .. }
            | Self::NoService
            | Self::OriginWithoutTokens
            | Self::TooManyInterfaces { .. }
            | Self::UnicastPorts { .. } => None,
            Self::Port(error) => Some(error),
            Self::Recording(error) => Some(error),
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

impl From<RecordingError> for StartError {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
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
        /// Its words, or what was seen of it.
        cause: String,
    },
    /// The operating system failed in a way that does not pass.
    Io {
        /// The failure, in words.
        cause: String,
    },
    /// An upcall or a feed of the application panicked, or the node itself did. It ends all core
    /// threads.
    Panicked {
        /// The panic's message.
        message: String,
    },
    /// The membership service does not let it in, or has shut it out
    /// ([`NetworkOptions::identity`](crate::NetworkOptions::identity)).
    Refused {
        /// The service's reason, and what to do.
        reason: String,
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
            Self::Refused { reason } => {
                write!(f, "the membership service refuses this node: {reason}")
            }
            Self::ShutDown => f.write_str("the node was shut down"),
        }
    }
}

/// Receivers that are not known to have messages that this node had sent them, and do not get them from
/// it any more: they left or died, were away when it ended, or were away for longer than is kept for
/// them. Other receivers may have them.
///
/// Of some of them it may be that they have everything: acknowledgements are for all receivers of a
/// group together. [`Node::list_nodes`](crate::Node::list_nodes) has names of those who are there.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unserved {
    /// The receivers, each in its life; of many at once the first.
    pub receivers: Vec<Origin>,
    /// Number of further ones.
    pub receivers_more: u64,
    /// Which messages they may lack, by group; of many ranges the first.
    pub messages: Vec<Unconfirmed>,
    /// Number of messages in further ranges.
    pub messages_more: u64,
    /// Why they do not get them.
    pub cause: UnservedCause,
}

impl Unserved {
    /// Number of messages that each of them may lack.
    #[must_use]
    pub fn messages(&self) -> u64 {
        let named = self.messages.iter().map(Unconfirmed::messages);
        named.sum::<u64>() + self.messages_more
    }

    /// Number of receivers.
    #[must_use]
    pub fn receivers(&self) -> u64 {
        self.receivers.len() as u64 + self.receivers_more
    }
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.receivers.iter().map(Origin::to_string);
        write!(
            f,
            "{} {} without having acknowledged {}: {}",
            Counted(self.receivers(), "receiver"),
            match (self.cause, self.receivers()) {
                (UnservedCause::Away, 1) => "is away",
                (UnservedCause::Away, _) => "are away",
                (UnservedCause::Ended, 1) => "is left behind by the end of this node",
                (UnservedCause::Ended, _) => "are left behind by the end of this node",
                (UnservedCause::Overrun, 1) => "was away for longer than is kept for it,",
                (UnservedCause::Overrun, _) => "were away for longer than is kept for them,",
                (UnservedCause::Demoted, 1) => "was slower than the others, and has gone on",
                (UnservedCause::Demoted, _) => "were slower than the others, and have gone on",
                _ => "left",
            },
            Counted(self.messages(), "message"),
            names.take(RANGES_SHOWN).collect::<Vec<_>>().join(", ")
        )
    }
}

/// The outcome of [`Node::flush`](crate::Node::flush) and
/// [`Node::shutdown`](crate::Node::shutdown): every receiver that is waited for has everything. Who is
/// away now and lacks something is named, and so is who has left or died since the flush before
/// without being known to have everything.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Flushed {
    /// Receivers that are gone.
    pub unserved: Vec<Unserved>,
    /// Number of receivers gone earlier, of whom nothing exact is kept: there were too many.
    pub more: u64,
    /// Receivers that are away, with what is kept for them. They have it when they are back, or are
    /// named in `unserved` by a later flush when they are gone. After
    /// [`Node::shutdown`](crate::Node::shutdown) live receivers keep it for them, and nobody tells
    /// this program any more.
    pub away: Vec<Lacking>,
    /// Attached: messages are numbered by the engine, for all its processes together. Only groups that
    /// this process has published to are named; if other processes publish to them too, theirs are
    /// counted with its own.
    pub of_engine: bool,
}

impl Flushed {
    /// Whether every receiver is known to have everything, those that are away or gone included.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unserved.is_empty() && self.more == 0 && self.away.is_empty()
    }

    /// Of several cores.
    pub(crate) fn join(all: Vec<Self>) -> Self {
        let mut joined = Self::default();
        for flushed in all {
            joined.unserved.extend(flushed.unserved);
            joined.more += flushed.more;
            joined.away.extend(flushed.away);
            joined.of_engine |= flushed.of_engine;
        }
        joined
    }
}

/// Entries about receivers that a text shows; the rest is counted.
const LACKING_SHOWN: usize = 4;

/// Why a request to a node failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestError {
    /// The node has ended.
    Closed(CloseReason),
    /// An attached node cannot do this, because the node is in another process.
    NotAttached {
        /// The call that was refused.
        what: &'static str,
        /// The remedy.
        remedy: &'static str,
    },
    /// The call would wait for the core thread, and was made on it: from an upcall or a feed.
    OnCoreThread,
    /// A star beside other characters of a segment: neither a name nor a [`Pattern`](crate::Pattern).
    BadPattern {
        /// The whole text.
        pattern: String,
        /// The segment.
        segment: String,
    },
    /// A pattern such as `prices/*` where groups must be named.
    Pattern {
        /// The pattern.
        pattern: String,
        /// The use that was refused.
        purpose: &'static str,
    },
    /// The membership service, or this node, refused; the text says why and what to do.
    Refused {
        /// Why.
        reason: String,
    },
    /// It took too long. A request to enter groups has been withdrawn.
    Timeout {
        /// The condition waited for, and the remedy.
        doing: &'static str,
        /// The time that was allowed.
        after: Duration,
        /// Of a flush or a shutdown: what receivers were not known to have.
        outstanding: Option<Box<Outstanding>>,
    },
    /// The group had too few receivers until the time was over.
    TooFewReceivers {
        /// The group.
        group: Arc<str>,
        /// The number that was waited for.
        wanted: u32,
        /// The time that was allowed.
        after: Duration,
        /// Those that are known: who is there, and who of them is away.
        receivers: Box<Receivers>,
    },
    /// The cluster took this node for dead, and it came back in a new life. Its old streams are
    /// void, so these messages, accepted before, are not sent any more, and not all receivers are
    /// known to have them. What was accepted since has arrived. Told once: the next flush is about
    /// what comes after.
    Unconfirmed {
        /// Which messages; of each group and life in ascending order.
        ranges: Vec<Unconfirmed>,
        /// Further messages of which nothing exact is kept: there were too many ranges.
        more: u64,
    },
}

impl RequestError {
    /// The answer to another question.
    pub(crate) fn mixed_up() -> Self {
        Self::Refused {
            reason: "the membership service answered another question; is it of the same version?"
                .to_owned(),
        }
    }

    /// The answers of several cores as one. What is unconfirmed at any of them comes first: it
    /// would not be told again.
    pub(crate) fn join<T>(
        answers: impl IntoIterator<Item = Result<T, Self>>,
    ) -> Result<Vec<T>, Self> {
        let (mut done, mut failed) = (Vec::new(), None);
        let (mut all, mut rest) = (Vec::new(), 0);
        for answer in answers {
            match answer {
                Ok(answer) => done.push(answer),
                Err(Self::Unconfirmed { ranges, more }) => {
                    all.extend(ranges);
                    rest += more;
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            _ if !all.is_empty() => Err(Self::Unconfirmed {
                ranges: all,
                more: rest,
            }),
            Some(error) => Err(error),
            None => Ok(done),
        }
    }
}

/// Messages that a node has accepted and its receivers are not known to have, as far as the node itself
/// knows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Outstanding {
    /// Messages that wait in queues of publishers.
    pub queued: u64,
    /// Messages that have left the queues, and that not all receivers have confirmed.
    pub unconfirmed: u64,
    /// Regions with unconfirmed messages.
    pub regions: u64,
    /// Groups that such messages may be of: some of them, by name.
    pub groups: Vec<Arc<str>>,
    /// Number of further groups.
    pub groups_more: u64,
    /// Receivers that lack something: live ones that are waited for, and those that are away.
    pub lacking: Vec<Lacking>,
}

impl Outstanding {
    /// `waiting …: slow lacks …; remedy`, of a text with cause and remedy.
    fn explain(&self, f: &mut fmt::Formatter<'_>, doing: &str) -> fmt::Result {
        let (cause, remedy) = doing.split_once("; ").unwrap_or((doing, ""));
        f.write_str(cause)?;
        let shown = self.lacking.iter().take(LACKING_SHOWN);
        for (at, lacking) in shown.clone().enumerate() {
            write!(f, "{}{lacking}", if at == 0 { ": " } else { ", and " })?;
        }
        match self.lacking.len() - shown.len() {
            0 => {}
            more => write!(f, ", and {more} more such receivers")?,
        }
        match remedy {
            "" => write!(f, " ({self})"),
            remedy => write!(f, "; {remedy} ({self})"),
        }
    }
}

impl fmt::Display for Outstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            queued,
            unconfirmed,
            regions,
            groups,
            groups_more,
            lacking: _,
        } = self;
        write!(
            f,
            "messages queued: {queued}, unconfirmed: {unconfirmed}, in regions: {regions}, groups: "
        )?;
        f.write_str(&groups.join(", "))?;
        match groups_more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
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
            Self::BadPattern { pattern, segment } => write!(
                f,
                "no group can match {pattern:?}, because `*` stands for a whole segment and {segment:?} \
                 is more than that; write `*` for any one segment between slashes, `**` for any number"
            ),
            Self::Pattern { pattern, purpose } => write!(
                f,
                "{pattern:?} stands for all groups so named and cannot be used for {purpose}; name \
                 each group, or receive with `subscribe`"
            ),
            Self::Refused { reason } => f.write_str(reason),
            Self::Timeout {
                doing,
                after,
                outstanding,
            } => {
                write!(f, "no success within {after:?}: ")?;
                match outstanding {
                    Some(outstanding) => outstanding.explain(f, doing),
                    None => f.write_str(doing),
                }
            }
            Self::TooFewReceivers {
                group,
                wanted,
                after,
                receivers,
            } => write!(
                f,
                "group {group} has {}, not {wanted}, after {after:?}: {receivers}; start \
                 receivers, check with `qsm nodes` that they are seen, or allow more time",
                Counted(receivers.count(), "receiver")
            ),
            Self::Unconfirmed { ranges, more } => {
                let messages: u64 = ranges.iter().map(Unconfirmed::messages).sum();
                let all = messages + more;
                let are = if all == 1 { "is" } else { "are" };
                write!(
                    f,
                    "this node was excluded from the cluster, and {} that it had accepted before {are} \
                     not known to have reached all receivers: ",
                    Counted(all, "message")
                )?;
                for (at, range) in ranges.iter().take(RANGES_SHOWN).enumerate() {
                    write!(f, "{}{range}", if at == 0 { "" } else { ", " })?;
                }
                let shown = ranges.iter().take(RANGES_SHOWN).map(Unconfirmed::messages);
                let hidden = messages + more - shown.sum::<u64>();
                if hidden > 0 {
                    write!(f, ", and {hidden} more messages")?;
                }
                f.write_str("; send them again if receivers can bear to get them twice")
            }
        }
    }
}

impl std::error::Error for RequestError {}

impl From<qsm_identity::PatternError> for RequestError {
    fn from(error: qsm_identity::PatternError) -> Self {
        let qsm_identity::PatternError { pattern, segment } = error;
        Self::BadPattern { pattern, segment }
    }
}

/// Why a message was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// The node has ended.
    Closed(CloseReason),
    /// The queue is full: receiving nodes, or the network, are slower than this publisher. Programs
    /// that read slowly fill no publisher's queue. Never returned by calls that wait.
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

/// A message that was not queued, and why.
#[derive(Clone, PartialEq, Eq)]
pub struct Unsent {
    /// The cause.
    pub error: SendError,
    /// The message, as it was.
    pub message: Vec<u8>,
}

impl fmt::Debug for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unsent")
            .field("error", &self.error)
            .field("length", &self.message.len())
            .finish()
    }
}

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl std::error::Error for Unsent {}

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
