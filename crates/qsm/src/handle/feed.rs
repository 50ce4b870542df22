use core::fmt;

use crate::handle::own_publisher::OwnFeed;

/// A feed's place in the core. Dropping it drops the feed.
pub struct FeedHandle(pub(crate) OwnFeed);

impl FeedHandle {
    /// The feed has messages again. From any thread, as often as one likes: calls while the core
    /// has yet to look cost next to nothing.
    pub fn wake(&self) {
        self.0.wake();
    }
}

impl fmt::Debug for FeedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedHandle")
            .field("idle", &self.0.signal.is_idle())
            .finish_non_exhaustive()
    }
}
