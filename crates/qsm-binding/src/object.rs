//! Live objects, whose changes are taken in batches.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::task::Context;
use std::time::Duration;

use qsm::Node;
use qsm_replica::{
    Cursor, Limits, LiveLog, LiveMap, LogBounds, LogState, MapBounds, MapState, Replica,
    ReplicaError, Watched,
};

use crate::bell::Bell;

/// More than a replica takes until it is live or says why not.
const PATIENCE: Duration = Duration::from_secs(90);

/// Enters the map of a group, with these bounds if it turns out to be the first; bounds of 0 are the defaults. Its state
/// comes later: [`await_live`].
///
/// # Errors
/// As of [`Replica::join`].
pub fn join_map(
    node: &Node,
    group: &str,
    bytes: usize,
    removed: usize,
) -> Result<Arc<LiveMap>, ReplicaError> {
    let mut bounds = MapBounds::default();
    if bytes > 0 {
        bounds = bounds.bytes(bytes);
    }
    if removed > 0 {
        bounds = bounds.removed(removed);
    }
    Replica::join(node, group, MapState::new(bounds), Limits::default()).map(Arc::new)
}

/// Enters the log of a group, likewise.
///
/// # Errors
/// As of [`Replica::join`].
pub fn join_log(
    node: &Node,
    group: &str,
    entries: usize,
    bytes: usize,
) -> Result<Arc<LiveLog>, ReplicaError> {
    let mut bounds = LogBounds::default();
    if entries > 0 {
        bounds = bounds.entries(entries);
    }
    if bytes > 0 {
        bounds = bounds.bytes(bytes);
    }
    Replica::join(node, group, LogState::new(bounds), Limits::default()).map(Arc::new)
}

/// Waits so long until an object is live, or, without a limit, until it is or says why not.
///
/// # Errors
/// [`ReplicaError::NotLive`] after this time, or what it ended by.
pub fn await_live<S: Watched + Send + 'static>(
    object: &Replica<S>,
    wait: Option<Duration>,
) -> Result<(), ReplicaError> {
    object.wait_live(wait.unwrap_or(PATIENCE))
}

/// Changes of a live object, taken in batches by one thread at a time: what is there first, then what changes. Who does not
/// take them harms nobody, and costs no memory: of several changes to a part the last one is told.
///
/// ```
/// # use qsm_binding::Settings;
/// # let mut settings = Settings::default();
/// # settings.set("interface", "lo")?;
/// # settings.set("cluster", &format!("doc-changes-{}", std::process::id()))?;
/// # settings.set("embedded", "always")?;
/// # let node = settings.start()?;
/// use std::time::Duration;
/// use qsm_binding::{Changes, await_live, join_map};
///
/// let prices = join_map(&node, "prices", 0, 0)?;
/// await_live(&prices, None)?;
/// let changes = Changes::new(&prices);
/// prices.set("eur", b"1.08")?;
/// prices.set("eur", b"1.09")?;
/// let taken = changes.take(10, Some(Duration::ZERO))?;
/// assert_eq!(taken.map(|taken| taken.len()), Some(1));
/// drop(prices);
/// assert_eq!(changes.take(10, None)?, None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Changes<S> {
    /// So that nobody who follows an object keeps it from being closed.
    object: Weak<Replica<S>>,
    cursor: Mutex<Cursor>,
    bell: OnceLock<Bell>,
}

impl<S: Watched + Send + 'static> Changes<S> {
    /// Follows this object from its beginning.
    #[must_use]
    pub fn new(object: &Arc<Replica<S>>) -> Self {
        Self {
            object: Arc::downgrade(object),
            cursor: Mutex::new(object.read(S::begin)),
            bell: OnceLock::new(),
        }
    }

    /// Takes changes, at most `most` and at least one of them; if there are none, waits so long for the first, or for ever.
    /// Empty when none came in time; `None` once the object was dropped.
    ///
    /// # Errors
    /// The object has ended, and everything was taken.
    pub fn take(
        &self,
        most: usize,
        wait: Option<Duration>,
    ) -> Result<Option<Vec<S::Change>>, ReplicaError> {
        let Some(object) = self.object.upgrade() else {
            return Ok(None);
        };
        let mut cursor = self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
        let most = most.max(1);
        let next = |state: &S| state.changes(&mut cursor, most);
        let taken = object.wait_for(wait.unwrap_or(Duration::MAX), next);
        self.arm(&object, *cursor);
        Ok(Some(taken?.unwrap_or_default()))
    }

    /// A descriptor for `poll`, `epoll` or a runtime's own loop. It is readable while there is something to take, the end
    /// included, and now and then without; it is not to be read from: [`Changes::take`] makes it unreadable when it has
    /// taken everything. It lives as long as this.
    ///
    /// # Errors
    /// The process has no descriptor left (`ulimit -n`).
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(bell) = self.bell.get() {
            return Ok(bell.descriptor());
        }
        let new = Bell::new()?;
        let bell = self.bell.get_or_init(|| new);
        match self.object.upgrade() {
            Some(object) => {
                let cursor = *self.cursor.lock().unwrap_or_else(PoisonError::into_inner);
                self.arm(&object, cursor);
            }
            None => bell.ring(),
        }
        Ok(bell.descriptor())
    }

    /// Has the bell ring when there is something behind this place, or now if it is there. It is silenced before the object
    /// is asked, so that what comes meanwhile rings.
    fn arm(&self, object: &Replica<S>, mut cursor: Cursor) {
        let Some(bell) = self.bell.get() else {
            return;
        };
        bell.silence();
        let waker = bell.waker();
        let context = Context::from_waker(&waker);
        let there = object.poll_for(&context, |state| state.change(&mut cursor));
        if there.is_ready() {
            bell.ring();
        }
    }
}
