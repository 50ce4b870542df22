//! The handshakes that a server knows, each for a bounded time.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use crate::budget::Prefix;
use crate::engine::Engine;
use crate::frame::Attempt;

/// Longest time of a handshake.
pub const OPEN_FOR: Duration = Duration::from_secs(10);
/// Time for which a server can repeat its last word.
pub const LINGER: Duration = Duration::from_secs(5);
/// Most repetitions of one answer. A client asks for fewer before it gives up.
const REPEATS_MAX: u8 = 16;
/// Handshakes whose last word is kept; the oldest are forgotten first.
const DONE_MAX: usize = 16_384;

/// One handshake of one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    pub(crate) from: SocketAddr,
    pub(crate) attempt: Attempt,
}

/// Handshake as a server knows it.
#[derive(Debug)]
pub(crate) enum Entry {
    Open(Open),
    Done(Done),
}

#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) engine: Box<Engine>,
    pub(crate) prefix: Prefix,
    /// The client's fragments below this number have been answered.
    pub(crate) answered: u8,
    pub(crate) repeats: Repeats,
}

/// Most times that the words for one client are said again: who sees a client's packets could ask for them in its name.
#[derive(Debug)]
pub(crate) struct Repeats(u8);

impl Default for Repeats {
    fn default() -> Self {
        Self(REPEATS_MAX)
    }
}

impl Repeats {
    /// True if they may be said once more.
    pub(crate) fn take(&mut self) -> bool {
        let left = self.0.checked_sub(1);
        self.0 = left.unwrap_or_default();
        left.is_some()
    }
}

/// The last word of one that is decided.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) answered: u8,
    pub(crate) repeats: Repeats,
    pub(crate) flight: Vec<Vec<u8>>,
}

#[derive(Debug, Clone, Copy)]
struct Deadline {
    at: Duration,
    id: Id,
    /// True for the time to be done in.
    open: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    entries: BTreeMap<Id, Entry>,
    opened: VecDeque<Deadline>,
    done: VecDeque<Deadline>,
}

impl Table {
    pub(crate) fn get(&mut self, id: Id) -> Option<&mut Entry> {
        self.entries.get_mut(&id)
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn open(&mut self, now: Duration, id: Id, open: Open) {
        self.entries.insert(id, Entry::Open(open));
        self.opened.push_back(Deadline {
            at: now + OPEN_FOR,
            id,
            open: true,
        });
    }

    /// One is decided.
    pub(crate) fn close(&mut self, now: Duration, id: Id, done: Done) {
        self.entries.insert(id, Entry::Done(done));
        self.done.push_back(Deadline {
            at: now + LINGER,
            id,
            open: false,
        });
        if self.done.len() > DONE_MAX
            && let Some(oldest) = self.done.pop_front()
        {
            self.entries.remove(&oldest.id);
        }
    }

    /// One cannot go on.
    pub(crate) fn remove(&mut self, id: Id) {
        self.entries.remove(&id);
    }

    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        let first = |queue: &VecDeque<Deadline>| queue.front().map(|deadline| deadline.at);
        [first(&self.opened), first(&self.done)]
            .into_iter()
            .flatten()
            .min()
    }

    /// Forgets one whose time is over; the address whose place is free then, if it was not done.
    pub(crate) fn expire(&mut self, now: Duration) -> Option<Expired> {
        for queue in [&mut self.opened, &mut self.done] {
            let due = queue.front().filter(|deadline| deadline.at <= now);
            let Some(deadline) = due.copied() else {
                continue;
            };
            queue.pop_front();
            let entry = self.entries.get(&deadline.id);
            let (over, prefix) = match entry {
                Some(Entry::Open(open)) => (deadline.open, Some(open.prefix)),
                Some(Entry::Done(_)) => (!deadline.open, None),
                None => (false, None),
            };
            if over {
                self.entries.remove(&deadline.id);
            }
            return Some(Expired {
                prefix: prefix.filter(|_| over),
            });
        }
        None
    }
}

/// Handshakes that were forgotten.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expired {
    pub(crate) prefix: Option<Prefix>,
}
