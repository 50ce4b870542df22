//! A subscription with its past, read in batches.

use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use qsm::{GroupOptions, Node, RecvError, Subscription};
use qsm_history::{History, HistoryError, Item, JoinLimits, JoinOptions, Position, Start};

use crate::alarm::Alarm;

/// Subscription that begins in the past and is taken in batches, as [`Reader`](crate::Reader) has it.
#[derive(Debug)]
pub(crate) struct PastReader {
    live: Arc<Subscription>,
    history: Mutex<History>,
    alarm: OnceLock<Alarm>,
}

impl PastReader {
    pub(crate) fn new<I>(
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
        let mut limits = JoinLimits::default();
        if held_bytes > 0 {
            limits = limits.held_bytes(held_bytes);
        }
        let options = JoinOptions::default().limits(limits).queue(queue);
        let history = History::subscribe(node, groups, start, options)?;
        Ok(Self {
            live: Arc::clone(history.live()),
            history: Mutex::new(history),
            alarm: OnceLock::new(),
        })
    }

    pub(crate) fn subscription(&self) -> &Subscription {
        &self.live
    }

    pub(crate) fn take(&self, most: usize, wait: Option<Duration>) -> Result<Vec<Item>, RecvError> {
        let mut batch = Vec::new();
        if most == 0 {
            return Ok(batch);
        }
        let mut history = self.history();
        let first = match wait {
            Some(wait) => history.recv_timeout(wait),
            None => history.recv().map(Some),
        };
        match first {
            Ok(first) => batch.extend(first),
            Err(end) => {
                self.ring();
                return Err(end.into_end());
            }
        }
        while !batch.is_empty() && batch.len() < most {
            match history.recv_timeout(Duration::ZERO) {
                Ok(Some(item)) => batch.push(item),
                // The end comes again, alone.
                Ok(None) | Err(_) => break,
            }
        }
        if batch.len() < most {
            self.arm(&mut history);
        } else {
            self.ring();
        }
        Ok(batch)
    }

    pub(crate) fn position<'a>(
        &self,
        unread: impl DoubleEndedIterator<Item = &'a Item>,
    ) -> Position {
        let mut position = self.history().position();
        for item in unread.rev() {
            position.go_back(item);
        }
        position
    }

    pub(crate) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        if let Some(alarm) = self.alarm.get() {
            return Ok(alarm.descriptor());
        }
        let new = Alarm::new()?;
        let alarm = self.alarm.get_or_init(|| new);
        self.arm(&mut self.history());
        Ok(alarm.descriptor())
    }

    /// Has the alarm ring when something comes or is due, or now. It is set before the subscription is asked, so that what
    /// comes meanwhile rings.
    fn arm(&self, history: &mut History) {
        let Some(alarm) = self.alarm.get() else {
            return;
        };
        let waker = alarm.waker();
        let mut set = None;
        loop {
            alarm.set(set);
            let due = history.wake(&waker);
            if due == set {
                return;
            }
            set = due;
            if due == Some(Duration::ZERO) {
                return alarm.ring();
            }
        }
    }

    fn ring(&self) {
        if let Some(alarm) = self.alarm.get() {
            alarm.ring();
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        // Valid after any panic.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
