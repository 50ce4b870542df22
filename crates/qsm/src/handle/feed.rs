use core::fmt;
use std::sync::Arc;

use crate::handoff::command::Command;
use crate::handoff::outlet::Signal;
use crate::handoff::shared::Shared;

/// A feed's place in the core. Dropping it drops the feed.
pub struct FeedHandle {
    pub(crate) slot: u32,
    pub(crate) signal: Arc<Signal>,
    pub(crate) shared: Arc<Shared>,
}

impl FeedHandle {
    /// The feed has messages again. From any thread, as often as one likes: calls while the core
    /// has yet to look cost next to nothing.
    pub fn wake(&self) {
        if self.signal.raise() {
            self.shared.announce(self.slot);
        }
    }
}

impl fmt::Debug for FeedHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FeedHandle")
            .field("idle", &self.signal.is_idle())
            .finish_non_exhaustive()
    }
}

impl Drop for FeedHandle {
    fn drop(&mut self) {
        self.shared.tell(Command::Retire { slot: self.slot });
    }
}
