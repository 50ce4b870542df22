//! Stable numbers of errors.

use core::fmt;

use qsm_net::PortError;

use crate::attach::{AttachError, ShareError};
use crate::error::{CloseReason, RecvError, RequestError, SendError, StartError};
use crate::handle::subscription::MessagesError;

/// One declaration gives the enum, the list, and the columns of the table in the manual.
macro_rules! codes {
    ($($name:ident = $number:literal, $meaning:literal, $remedy:literal;)+) => {
        /// Stable number of a kind of error: the same in every version, for programs that decide by
        /// it and people who look it up. Its text is `QSM-` and the number; `docs/reference/errors.md`
        /// lists them all.
        ///
        /// ```
        /// use qsm::{ErrorCode, SendError};
        ///
        /// let code = SendError::Full.code();
        /// assert_eq!(code, ErrorCode::SendFull);
        /// assert_eq!((code.number(), code.to_string()), (1302, "QSM-1302".to_owned()));
        /// ```
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u16)]
        pub enum ErrorCode {
            $(#[doc = $meaning] $name = $number,)+
        }

        impl ErrorCode {
            /// All of them, ascending.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The meaning, in a sentence.
            #[must_use]
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$name => $meaning,)+
                }
            }

            /// The usual remedy; the error's own text may know a better one.
            #[must_use]
            pub fn remedy(self) -> &'static str {
                match self {
                    $(Self::$name => $remedy,)+
                }
            }
        }
    };
}

codes! {
    StartConfig = 1001, "The protocol's configuration cannot work.",
        "Change the setting that the text names.";
    StartCores = 1002, "A node cannot have so many core threads.",
        "Give it 1 to 64.";
    StartCpus = 1003, "There are more or fewer CPUs to pin to than core threads.",
        "Give one CPU for each core thread.";
    StartFamilies = 1004, "An address is of the other family than the interface.",
        "Use IPv4, or IPv6, for all addresses of a cluster.";
    StartInterface = 1005, "No network interface could be chosen.",
        "Choose one of those that the text lists.";
    StartName = 1006, "The name of a node or a cluster is empty, too long, or not printable.",
        "Give it 1 to 64 bytes without control characters.";
    StartPort = 1007, "The sockets could not be opened.",
        "Do as the text says; it names the address and the system's reason.";
    StartPortInUse = 1008, "Another process has the port.",
        "Choose another port, or stop that process.";
    StartService = 1009, "The membership service's configuration cannot work.",
        "Change the setting that the text names.";
    StartSystem = 1010, "The operating system refused a thread.",
        "Raise the limits of the process (`ulimit -a`).";
    StartThread = 1011, "A core thread cannot run as it should.",
        "Choose CPUs that exist; real time takes a privilege.";
    StartTooManyInterfaces = 1012, "There are more interfaces than two.",
        "Give one, or two on two networks.";
    StartUnicastPorts = 1013, "There are too few port numbers after the first.",
        "Choose a lower first port, or 0.";
    StartMetrics = 1014, "The metrics cannot be served at the address.",
        "Choose an address of this host, and a port that no other program has.";
    StartNoService = 1015, "A node without multicast has not been told where the membership service is.",
        "Start `qsm gms` on a host, and name it (`--service`, `Builder::service`).";
    StartRecording = 1016, "The file that the node was to be recorded to cannot be made.",
        "Name a place where this user may write.";
    StartIdentity = 1017, "The identity of a node or a service cannot be used.",
        "Do as the text says; `qsm token inspect` shows what a token says.";
    StartOrigin = 1018, "Hints demand proof of origin in a cluster that takes no tokens.",
        "Give nodes and services identities and tokens, or remove the `origin` lines.";
    ClosedEngineGone = 1101, "The shared engine has ended, or has cut this process off.",
        "Attach again when the engine runs again.";
    ClosedIo = 1102, "The operating system failed in a way that does not pass.",
        "Mend what the text names, and start the node again.";
    ClosedPanicked = 1103, "An upcall, a feed or the node itself panicked.",
        "Mend the upcall or the feed, and start the node again.";
    ClosedShutDown = 1104, "The node was shut down.",
        "Keep a handle of the node as long as others are used.";
    ClosedRefused = 1105, "The membership service does not let the node in, or has shut it out.",
        "Ask who has the cluster's root for a token; the text has the reason.";
    RequestOnCoreThread = 1201, "A call that waits for the core thread was made on it.",
        "Hand the call from the upcall or the feed to another thread.";
    RequestRefused = 1202, "The membership service, or the node, refused.",
        "Do as the text says.";
    RequestTimeout = 1203, "It took too long.",
        "Check that a membership service runs and that the others are reachable; allow more time.";
    RequestUnconfirmed = 1204, "The node was excluded, and messages that it had accepted before may be missing at receivers.",
        "Send the named messages again if receivers can bear to get them twice.";
    RequestNotAttached = 1205, "An attached node cannot do this, because the node is in another process.",
        "Do as the text says.";
    RequestPattern = 1206, "A pattern such as `prices/*` was used where groups must be named.",
        "Name each group; to receive from all, use `subscribe`.";
    RequestTooFewReceivers = 1207, "The group had too few receivers until the time was over.",
        "Start receivers, check with `qsm nodes` that they are seen, or allow more time.";
    RequestBadPattern = 1208, "A star stands beside other characters in a group's name or pattern.",
        "Write `*` for any one segment between slashes, `**` for any number.";
    SendTooLarge = 1301, "The message is longer than the limit.",
        "Cut it, or raise `Limits::message_bytes` and `Limits::send_bytes`.";
    SendFull = 1302, "The publisher's queue is full.",
        "Send later, or use a call that waits.";
    SendOnCoreThread = 1303, "The queue is full, and the core thread would wait for itself.",
        "Use `try_send` in upcalls.";
    RecvOverflow = 1401, "The subscription ended because its queue was full.",
        "Read faster, enlarge the queue, or choose another `Overflow`.";
    RecvMissing = 1402, "Something is missing before the next message.",
        "Take the next message to go on, or read with `skipping_losses` or `recv`.";
    ShareInUse = 1501, "Another process shares its node at the path.",
        "Attach to it, stop it, or choose another path.";
    ShareIo = 1502, "The path cannot be listened at, or a thread cannot be started.",
        "Do as the text says.";
    ShareNotASocket = 1503, "There is something at the path that is no socket.",
        "Remove it, or choose another path.";
    ShareRingBytes = 1504, "A ring cannot have that size.",
        "Give it a power of two from 4096 to 1073741824 bytes.";
    ShareAttached = 1505, "An attached node cannot be shared.",
        "Attach to the engine that it is attached to.";
    AttachIo = 1601, "The path or the memory of the engine cannot be opened.",
        "Check `ulimit -n`, and that it is the path of an engine.";
    AttachNoEngine = 1602, "There is no engine at the path.",
        "Start one with `qsm engine --at PATH` or `Node::share`.";
    AttachPermission = 1603, "This user may not open the path.",
        "Run as the engine's user, or give the file another mode.";
    AttachRefused = 1604, "The engine refuses.",
        "Do as its text says.";
    AttachSilent = 1605, "Nobody answers at the path.",
        "Check that it is an engine's, and that the engine runs.";
    AttachVersion = 1606, "The engine is of another version.",
        "Run both with the same version of qsm.";
    ReplicaNotLive = 1801, "The replica has no state that follows, or none yet.",
        "Wait until it is live, and write again.";
    ReplicaBind = 1802, "The replica could not get the state of the others, and has ended.",
        "Do as the text says, and join again.";
    ReplicaOther = 1803, "The group has a state of another kind, or another order of updates.",
        "Give the kind and the order that the others have, or another group.";
    ObjectFull = 1804, "The object would become larger than its bound.",
        "Remove something, or found it with a larger bound.";
    ObjectKey = 1805, "A key is longer than allowed.",
        "Give one of at most 1024 bytes.";
    ObjectPlace = 1806, "A place is beyond the end of the text.",
        "Look again; another may have made it shorter.";
    ObjectClock = 1807, "Somebody wrote at a time that nobody can be after.",
        "End all replicas, and found the object anew.";
    ObjectAddress = 1808, "The text is no address of the object that is asked for.",
        "Do as the text says.";
}

impl ErrorCode {
    /// The number.
    #[must_use]
    pub fn number(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "QSM-{}", self.number())
    }
}

impl StartError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Config(_) => ErrorCode::StartConfig,
            Self::Cores { .. } => ErrorCode::StartCores,
            Self::Cpus { .. } => ErrorCode::StartCpus,
            Self::Families { .. } => ErrorCode::StartFamilies,
            Self::Identity(_) => ErrorCode::StartIdentity,
            Self::Interface(_) => ErrorCode::StartInterface,
            Self::Metrics(_) => ErrorCode::StartMetrics,
            Self::NoService => ErrorCode::StartNoService,
            Self::OriginWithoutTokens => ErrorCode::StartOrigin,
            Self::Recording(_) => ErrorCode::StartRecording,
            Self::Name { .. } => ErrorCode::StartName,
            Self::Port(PortError::AddressInUse { .. }) => ErrorCode::StartPortInUse,
            Self::Port(_) => ErrorCode::StartPort,
            Self::Service(_) => ErrorCode::StartService,
            Self::System { .. } => ErrorCode::StartSystem,
            Self::Thread(_) => ErrorCode::StartThread,
            Self::TooManyInterfaces { .. } => ErrorCode::StartTooManyInterfaces,
            Self::UnicastPorts { .. } => ErrorCode::StartUnicastPorts,
        }
    }
}

impl CloseReason {
    /// Its stable number, which errors of closed handles have too.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::EngineGone { .. } => ErrorCode::ClosedEngineGone,
            Self::Io { .. } => ErrorCode::ClosedIo,
            Self::Panicked { .. } => ErrorCode::ClosedPanicked,
            Self::Refused { .. } => ErrorCode::ClosedRefused,
            Self::ShutDown => ErrorCode::ClosedShutDown,
        }
    }
}

impl RequestError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Closed(reason) => reason.code(),
            Self::NotAttached { .. } => ErrorCode::RequestNotAttached,
            Self::OnCoreThread => ErrorCode::RequestOnCoreThread,
            Self::BadPattern { .. } => ErrorCode::RequestBadPattern,
            Self::Pattern { .. } => ErrorCode::RequestPattern,
            Self::Refused { .. } => ErrorCode::RequestRefused,
            Self::Timeout { .. } => ErrorCode::RequestTimeout,
            Self::TooFewReceivers { .. } => ErrorCode::RequestTooFewReceivers,
            Self::Unconfirmed { .. } => ErrorCode::RequestUnconfirmed,
        }
    }
}

impl SendError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Closed(reason) => reason.code(),
            Self::Full => ErrorCode::SendFull,
            Self::OnCoreThread => ErrorCode::SendOnCoreThread,
            Self::TooLarge { .. } => ErrorCode::SendTooLarge,
        }
    }
}

impl RecvError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Closed(reason) => reason.code(),
            Self::Overflow => ErrorCode::RecvOverflow,
        }
    }
}

impl MessagesError {
    /// Its stable number; of the end, that of its reason.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Ended(error) => error.code(),
            Self::Missing(_) => ErrorCode::RecvMissing,
        }
    }
}

impl ShareError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Attached => ErrorCode::ShareAttached,
            Self::InUse { .. } => ErrorCode::ShareInUse,
            Self::Io { .. } => ErrorCode::ShareIo,
            Self::NotASocket { .. } => ErrorCode::ShareNotASocket,
            Self::RingBytes { .. } => ErrorCode::ShareRingBytes,
        }
    }
}

impl AttachError {
    /// Its stable number.
    #[must_use]
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Io { .. } => ErrorCode::AttachIo,
            Self::NoEngine { .. } => ErrorCode::AttachNoEngine,
            Self::Permission { .. } => ErrorCode::AttachPermission,
            Self::Refused { .. } => ErrorCode::AttachRefused,
            Self::Silent { .. } => ErrorCode::AttachSilent,
            Self::Version { .. } => ErrorCode::AttachVersion,
        }
    }
}
