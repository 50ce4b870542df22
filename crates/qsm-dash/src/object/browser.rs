//! A browser that watches an object.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use crate::stream::{Telling, Told};

use super::board::{Board, Heard};

/// Shortest time between what a browser is told, once it knows everything.
const PAUSE: Duration = Duration::from_millis(100);

/// A browser that watches, until it is dropped.
#[derive(Debug)]
pub(crate) struct Browser {
    board: Arc<Board>,
    bell: Receiver<()>,
    heard: Heard,
    /// Not to be told anything before.
    rested: Instant,
}

impl Browser {
    pub(crate) fn new(board: &Arc<Board>) -> Self {
        Self {
            board: Arc::clone(board),
            bell: board.bell(),
            heard: Heard::default(),
            rested: Instant::now(),
        }
    }
}

impl Telling for Browser {
    async fn next(&mut self) -> Option<Told> {
        loop {
            // Of what changes often it is told the newest state after a while.
            if !self.heard.more {
                sleep_until(self.rested).await;
            }
            // What changes from here on rings again.
            self.bell.mark_unchanged();
            if let Some(told) = self.board.news(&mut self.heard) {
                self.rested = Instant::now() + PAUSE;
                return Some(told);
            }
            self.bell.changed().await.ok()?;
        }
    }
}
