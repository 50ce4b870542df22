//! What a sender sends to the groups of a layout, beside the common ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use qsm::{FeedHandle, Node, Publisher, Pull};
use qsm_console::failure::Failure;

use crate::layout::LayoutOptions;
use crate::message::{self, Noise};
use crate::names;
use crate::options::LoadOptions;

/// The groups of a layout that somebody has; none without a layout.
///
/// Each has a feed that gives as many messages as it may. That follows what the common groups have
/// got, so that shares are kept at any rate.
pub(crate) struct Others {
    layout: LayoutOptions,
    payload: usize,
    groups: Vec<Other>,
    /// Messages of all groups together that may be given,
    allowed: u64,
    /// and at the end will have been, if that is fixed.
    total: Option<u64>,
}

struct Other {
    group: u32,
    publisher: Publisher,
    feed: Option<FeedHandle>,
    allowance: Arc<Allowance>,
}

/// How far a feed may go, and has gone. Only the core thread counts what it gives, only the main
/// thread allows, so there are no read-modify-write operations.
#[derive(Debug, Default)]
struct Allowance {
    allowed: AtomicU64,
    given: AtomicU64,
    over: AtomicBool,
}

impl Others {
    /// The groups of a layout among so many receivers. Returns when `wait` has seen all receivers
    /// of each group.
    ///
    /// # Errors
    /// The node cannot publish there, or what `wait` says.
    pub(crate) fn new<F>(
        node: &Node,
        layout: LayoutOptions,
        receivers: u32,
        load: &LoadOptions,
        wait: F,
    ) -> Result<Self, Failure>
    where
        F: Fn(&Publisher, u32) -> Result<(), Failure>,
    {
        let audience = layout.layout.map(|layout| layout.audience(receivers));
        let audience = audience.unwrap_or_default();
        let names = audience.keys().map(|&group| names::of_layout(group));
        let names: Vec<String> = names.collect();
        let publishers = match names.is_empty() {
            true => Vec::new(),
            false => node.groups(&names).publishers()?,
        };
        let mut groups = Vec::new();
        for (publisher, (group, receivers)) in publishers.into_iter().zip(audience) {
            wait(&publisher, receivers)?;
            groups.push(Other {
                group,
                publisher,
                feed: None,
                allowance: Arc::default(),
            });
        }
        let total = load.messages.map(|messages| layout.part_of(messages));
        Ok(Self {
            layout,
            payload: load.payload,
            total: total.filter(|_| !groups.is_empty()),
            groups,
            allowed: 0,
        })
    }

    /// Makes the feeds.
    ///
    /// # Errors
    /// The node cannot take them.
    pub(crate) fn register(&mut self, node: &Node, noise: &Arc<Noise>) -> Result<(), Failure> {
        let ids: Vec<_> = node.ids().collect();
        for other in &mut self.groups {
            let id = ids[node.core_of(other.publisher.group())];
            let salt = Noise::salt(id, names::layout_index(other.group));
            let (noise, allowance) = (Arc::clone(noise), Arc::clone(&other.allowance));
            let payload = self.payload;
            let feed =
                other
                    .publisher
                    .feed(move |message: &mut Vec<u8>| match allowance.take() {
                        Ok(number) => {
                            noise.write_plain(message, salt, number, payload);
                            Pull::Message
                        }
                        Err(without) => without,
                    })?;
            other.feed = Some(feed);
        }
        Ok(())
    }

    /// Whether there are none.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Of so many messages, those that go here.
    #[must_use]
    pub(crate) fn part_of(&self, messages: u64) -> u64 {
        match self.groups.is_empty() {
            true => 0,
            false => self.layout.part_of(messages),
        }
    }

    /// The common groups have got so many, and if `over` they get no more: these groups get their
    /// share, in turn.
    pub(crate) fn follow(&mut self, common: u64, over: bool) {
        let count = self.groups.len() as u64;
        if count == 0 {
            return;
        }
        let share = self.layout.beside(common);
        let target = match self.total {
            Some(total) if over => total,
            Some(total) => share.min(total),
            None => share,
        };
        let more = target.saturating_sub(self.allowed);
        let (first, each, rest) = (self.allowed % count, more / count, more % count);
        for (at, other) in (0..).zip(&self.groups) {
            let turn = (at + count - first) % count;
            let more = each + u64::from(turn < rest);
            if more > 0 {
                other.allow(more);
            }
        }
        self.allowed += more;
    }

    /// Whether everything that was allowed has been given.
    #[must_use]
    pub(crate) fn is_over(&self) -> bool {
        self.sent() == self.allowed
    }

    /// Nothing more is given.
    pub(crate) fn stop(&self) {
        for other in &self.groups {
            other.allowance.over.store(true, Ordering::Release);
        }
    }

    /// Messages given.
    #[must_use]
    pub(crate) fn sent(&self) -> u64 {
        self.groups.iter().map(Other::given).sum()
    }

    /// Says to each group how much was sent to it, after everything; how much that was together.
    ///
    /// # Errors
    /// The node has ended.
    pub(crate) fn end(&mut self) -> Result<u64, Failure> {
        for other in &mut self.groups {
            // What it gave comes before the end.
            other.feed = None;
            let given = other.given();
            other.publisher.send(&message::last(given + 1, given))?;
        }
        Ok(self.sent())
    }
}

impl Other {
    fn allow(&self, more: u64) {
        let allowed = self.allowance.allowed.load(Ordering::Relaxed);
        self.allowance
            .allowed
            .store(allowed + more, Ordering::Release);
        if let Some(feed) = &self.feed {
            feed.wake();
        }
    }

    fn given(&self) -> u64 {
        self.allowance.given.load(Ordering::Acquire)
    }
}

impl Allowance {
    /// Allows one message; its number.
    ///
    /// # Errors
    /// None is allowed now: what a feed is to answer.
    fn take(&self) -> Result<u64, Pull> {
        let given = self.given.load(Ordering::Relaxed);
        if self.over.load(Ordering::Acquire) {
            return Err(Pull::End);
        }
        if given >= self.allowed.load(Ordering::Acquire) {
            return Err(Pull::Idle);
        }
        self.given.store(given + 1, Ordering::Release);
        Ok(given + 1)
    }
}
