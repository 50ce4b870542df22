use core::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use super::error::{ShareError, ShareEvent};
use super::requests::RING_BYTES_MIN;

/// Largest ring, and largest log, bytes.
const RING_BYTES_MAX: usize = 1 << 30;

/// What the application wants to be called with.
type Tell = Arc<dyn Fn(&ShareEvent) + Send + Sync>;

/// How a node is shared. Every field is a limit that is documented with its default.
#[derive(Clone)]
#[must_use = "options do nothing before `Node::share_with`"]
pub struct ShareOptions {
    pub(super) path: PathBuf,
    pub(super) mode: u32,
    pub(super) clients_max: usize,
    pub(super) groups_max: usize,
    pub(super) publish_ring_bytes: usize,
    pub(super) ring_bytes_max: usize,
    pub(super) client_bytes_max: usize,
    pub(super) log_bytes: usize,
    pub(super) on_event: Option<Tell>,
}

impl ShareOptions {
    /// Default of [`ShareOptions::clients_max`].
    pub const CLIENTS_MAX: usize = 64;
    /// Default of [`ShareOptions::groups_max`].
    pub const GROUPS_MAX: usize = 1 << 16;
    /// Default of [`ShareOptions::publish_ring`].
    pub const PUBLISH_RING_BYTES: usize = 4 << 20;
    /// Ring of a subscription that does not ask for another, if that may be as much. A message takes
    /// its length and 32 bytes, so that it holds about 30,000 of 100 bytes.
    pub const RING_BYTES: usize = 4 << 20;
    /// Default of [`ShareOptions::ring_bytes_max`].
    pub const RING_BYTES_MAX: usize = 64 << 20;
    /// Default of [`ShareOptions::client_bytes_max`].
    pub const CLIENT_BYTES_MAX: usize = 256 << 20;
    /// Default of [`ShareOptions::log`].
    pub const LOG_BYTES: usize = 64 << 20;

    /// At this path, of at most 107 bytes. What an engine that was killed left there is removed;
    /// an empty file `PATH.lock` stays beside it.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            mode: 0o600,
            clients_max: Self::CLIENTS_MAX,
            groups_max: Self::GROUPS_MAX,
            publish_ring_bytes: Self::PUBLISH_RING_BYTES,
            ring_bytes_max: Self::RING_BYTES_MAX,
            client_bytes_max: Self::CLIENT_BYTES_MAX,
            log_bytes: Self::LOG_BYTES,
            on_event: None,
        }
    }

    /// Permissions of the file, 0600 if not given. Whatever they are, only processes of the
    /// engine's user and of root are let in.
    pub fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// Most processes attached at a time. Each costs the engine two threads and two descriptors.
    pub fn clients_max(mut self, clients: usize) -> Self {
        self.clients_max = clients;
        self
    }

    /// Most groups of one process, counted with each subscription and publisher.
    pub fn groups_max(mut self, groups: usize) -> Self {
        self.groups_max = groups;
        self
    }

    /// Bytes of the ring by which each process publishes, a power of two. A message must fit into
    /// it, with 8 bytes of its own; a longer one is [`SendError::TooLarge`](crate::SendError).
    pub fn publish_ring(mut self, bytes: usize) -> Self {
        self.publish_ring_bytes = bytes;
        self
    }

    /// Largest rings of a subscription together, bytes, a power of two.
    pub fn ring_bytes_max(mut self, bytes: usize) -> Self {
        self.ring_bytes_max = bytes;
        self
    }

    /// Most bytes of rings of all subscriptions of one process. Memory is taken when it is used
    /// for the first time, and kept until the subscription ends. As much may be kept for those of its
    /// subscriptions that hold senders up ([`Overflow::Hold`](crate::Overflow::Hold)), beyond their
    /// rings; one that would need more ends.
    pub fn client_bytes_max(mut self, bytes: usize) -> Self {
        self.client_bytes_max = bytes;
        self
    }

    /// Bytes of the log in which messages lie for all processes, for each core thread, a power of two.
    /// Each subscription may hold its share of it, the log divided by their number and one more: for
    /// one that lags further behind, and of a message that is longer, copies are made. A log shorter
    /// than a block, 64 KiB, holds nothing. Memory is taken when it is used for the first time, and
    /// kept until the share ends.
    pub fn log(mut self, bytes: usize) -> Self {
        self.log_bytes = bytes;
        self
    }

    /// Is called when processes come and go, on threads of the engine that have nothing to do
    /// with messages.
    pub fn on_event(mut self, tell: impl Fn(&ShareEvent) + Send + Sync + 'static) -> Self {
        self.on_event = Some(Arc::new(tell));
        self
    }

    pub(super) fn check(&self) -> Result<(), ShareError> {
        let (publish, rings) = (self.publish_ring_bytes, self.ring_bytes_max);
        for bytes in [publish, rings, self.log_bytes] {
            if !bytes.is_power_of_two() || !(RING_BYTES_MIN..=RING_BYTES_MAX).contains(&bytes) {
                return Err(ShareError::RingBytes { bytes });
            }
        }
        Ok(())
    }
}

impl fmt::Debug for ShareOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShareOptions")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}
