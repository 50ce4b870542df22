//! Subscriptions that are read in batches.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use qsm::{GroupOptions, Node, RecvError, Subscription};
use qsm_history::{HistoryError, Item, Position, Start};

use crate::live::LiveReader;
use crate::past::PastReader;

/// A subscription, taken in batches by one thread at a time.
///
/// ```
/// # use qsm_binding::{Reader, Settings};
/// # let mut settings = Settings::default();
/// # settings.set("interface", "lo")?;
/// # settings.set("cluster", &format!("doc-reader-{}", std::process::id()))?;
/// # settings.set("embedded", "always")?;
/// # let node = settings.start()?;
/// use std::time::Duration;
///
/// let news = Reader::new(node.subscribe(["news"])?);
/// assert!(news.take(10, Some(Duration::ZERO))?.is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Reader(Source);

#[derive(Debug)]
enum Source {
    Live(LiveReader),
    /// Boxed, since it is the larger one and the rarer.
    Past(Box<PastReader>),
}

impl Reader {
    /// Reads this subscription from now on.
    #[must_use]
    pub fn new(subscription: Subscription) -> Self {
        Self(Source::Live(LiveReader::new(subscription)))
    }

    /// Subscribes to groups with what was sent before, as far as keepers have it. While that comes, so many bytes of live
    /// messages are held for each group; 0 for the default, 64 MiB.
    ///
    /// # Errors
    /// As of [`History::subscribe`](qsm_history::History::subscribe).
    pub fn with_past<I>(
        node: &Node,
        groups: I,
        start: Start,
        queue: GroupOptions,
        held_bytes: usize,
    ) -> Result<Self, HistoryError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let made = PastReader::new(node, groups, start, queue, held_bytes)?;
        Ok(Self(Source::Past(Box::new(made))))
    }

    /// The subscription: its groups, what waits in its queue, and what that had no room for.
    #[must_use]
    pub fn subscription(&self) -> &Subscription {
        match &self.0 {
            Source::Live(live) => live.subscription(),
            Source::Past(past) => past.subscription(),
        }
    }

    /// Takes what has come, in order, at most `most` items; if there is nothing, waits so long for
    /// the first, or for ever. Empty when nothing came in time, or `most` is 0.
    ///
    /// # Errors
    /// [`RecvError`], after everything queued was taken, when no more will come.
    pub fn take(&self, most: usize, wait: Option<Duration>) -> Result<Vec<Item>, RecvError> {
        match &self.0 {
            Source::Live(live) => live.take(most, wait),
            Source::Past(past) => past.take(most, wait),
        }
    }

    /// Position behind what was taken but for these items, the last ones of it, in order. `None` without a past. It waits
    /// while another thread takes.
    #[must_use]
    pub fn position<'a>(
        &self,
        unread: impl DoubleEndedIterator<Item = &'a Item>,
    ) -> Option<Position> {
        match &self.0 {
            Source::Live(_) => None,
            Source::Past(past) => Some(past.position(unread)),
        }
    }

    /// A descriptor for `poll`, `epoll` or a runtime's own loop. It is readable while there is
    /// something to take, the end included, and is not to be read from: [`Reader::take`] makes it
    /// unreadable when it has taken everything. It lives as long as the reader.
    ///
    /// With a past it is readable now and then without anything to take, too: keepers are asked, and their answers heard,
    /// while the reader is called. That is every 5 ms while something is awaited from them, ten times a second for half a
    /// minute after it, and then no more.
    ///
    /// # Errors
    /// The process has no descriptor left (`ulimit -n`).
    pub fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        match &self.0 {
            Source::Live(live) => live.descriptor(),
            Source::Past(past) => past.descriptor(),
        }
    }
}
