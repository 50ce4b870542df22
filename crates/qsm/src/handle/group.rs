use core::fmt;
use std::sync::Arc;

use crate::error::RequestError;
use crate::handle::back::NodeBack;
use crate::handle::feed::FeedHandle;
use crate::handle::options::GroupOptions;
use crate::handle::publisher::Publisher;
use crate::handle::subscription::{Subscription, SubscriptionBack, Upcalls};
use crate::handoff::feed::Feed;
use crate::handoff::message::Overflow;
use crate::handoff::received::Delivery;

/// A group of a node, with options: to receive from it and to send to it. Made by
/// [`Node::group`](crate::Node::group).
///
/// It is cheap to make and to clone, and asks nothing of anybody: a node enters a group by
/// [`Group::subscribe`] or [`Group::publisher`].
#[derive(Clone)]
#[must_use = "a group does nothing before it is subscribed or published to"]
pub struct Group {
    /// Just one.
    groups: Groups,
}

impl Group {
    pub(crate) fn new(node: &NodeBack, name: &str) -> Self {
        let groups = Groups::new(node, [name]);
        Self { groups }
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.groups.names[0]
    }

    /// All options at once, in place of what was set before.
    pub fn options(mut self, options: GroupOptions) -> Self {
        self.groups.options = options;
        self
    }

    /// As [`GroupOptions::capacity_messages`].
    pub fn capacity_messages(mut self, messages: usize) -> Self {
        self.groups.options = self.groups.options.capacity_messages(messages);
        self
    }

    /// As [`GroupOptions::capacity_bytes`].
    pub fn capacity_bytes(mut self, bytes: usize) -> Self {
        self.groups.options = self.groups.options.capacity_bytes(bytes);
        self
    }

    /// As [`GroupOptions::overflow`].
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.groups.options = self.groups.options.overflow(overflow);
        self
    }

    /// Receives the messages into a queue, to be read from any thread or task.
    ///
    /// Returns when the membership service has confirmed: from then on, whatever a sender
    /// publishes that knows of this node is received.
    ///
    /// # Errors
    /// [`RequestError`]: the name is refused, no membership service answers in time, or the node
    /// has ended.
    pub fn subscribe(&self) -> Result<Subscription, RequestError> {
        self.groups.subscribe()
    }

    /// Receives the messages by upcalls: hands each message, and what is missing before it, to
    /// `upcall` on the core thread, at the moment it is delivered, and without copying it.
    ///
    /// The upcall must be short: while it runs, this node neither receives, sends nor
    /// acknowledges. It must not panic; if it does, the node ends with
    /// [`CloseReason::Panicked`](crate::CloseReason::Panicked).
    ///
    /// Attached, it runs on a thread for this subscription, and may take its time: the queue fills
    /// up meanwhile, and nothing else waits.
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub fn subscribe_with(
        &self,
        upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Upcalls, RequestError> {
        self.groups.subscribe_with(upcall)
    }

    /// Prepares to send to the group; the node need not be a member of it.
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub fn publisher(&self) -> Result<Publisher, RequestError> {
        let mut publishers = self.groups.publishers()?;
        // One name, one publisher.
        publishers.pop().ok_or_else(|| RequestError::Refused {
            reason: "the node made no publisher; this is a fault of the library".to_owned(),
        })
    }

    /// Lets the core thread pull messages from a feed of the application: short for
    /// [`Publisher::feed`] of a publisher that is used for nothing else.
    ///
    /// # Errors
    /// As [`Group::publisher`] and [`Publisher::feed`].
    pub fn feed(&self, feed: impl Feed + 'static) -> Result<FeedHandle, RequestError> {
        self.publisher()?.feed(feed)
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("name", &self.name())
            .field("options", &self.groups.options)
            .finish_non_exhaustive()
    }
}

/// Several groups of a node, entered in one request however many they are; made by
/// [`Node::groups`](crate::Node::groups). A subscription to them has one queue.
#[derive(Clone)]
#[must_use = "groups do nothing before they are subscribed or published to"]
pub struct Groups {
    node: NodeBack,
    names: Vec<Arc<str>>,
    options: GroupOptions,
}

impl Groups {
    pub(crate) fn new<I>(node: &NodeBack, names: I) -> Self
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let names = names.into_iter().map(|name| Arc::from(name.as_ref()));
        Self {
            node: node.clone(),
            names: names.collect(),
            options: GroupOptions::default(),
        }
    }

    /// All options at once, in place of what was set before.
    pub fn options(mut self, options: GroupOptions) -> Self {
        self.options = options;
        self
    }

    /// As [`Group::subscribe`].
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub fn subscribe(&self) -> Result<Subscription, RequestError> {
        let names = self.names.clone();
        let back = match &self.node {
            NodeBack::Own(node) => {
                let (capacity, overflow) = self.options.queue();
                SubscriptionBack::Own(node.subscribe(names, capacity, overflow)?)
            }
            NodeBack::Attached(engine) => {
                let (bytes, overflow) = self.options.ring();
                SubscriptionBack::Attached(engine.subscribe(names, bytes, overflow)?)
            }
        };
        Ok(Subscription { back, ended: false })
    }

    /// As [`Group::subscribe_with`], on one core thread. For groups that lie on several, see
    /// [`Groups::subscribe_per_core`].
    ///
    /// # Errors
    /// As [`Group::subscribe`]; [`RequestError::Refused`] if the groups lie on several core threads.
    pub fn subscribe_with(
        &self,
        upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Upcalls, RequestError> {
        let names = self.names.clone();
        Ok(match &self.node {
            NodeBack::Own(node) => Upcalls::own(node.subscribe_with(names, upcall)?),
            NodeBack::Attached(engine) => Upcalls::attached(engine.subscribe_with(names, upcall)?),
        })
    }

    /// As [`Group::subscribe_with`], with an upcall for each core thread that has some of the
    /// groups: `make` is called here, with the place of each
    /// ([`Node::core_of`](crate::Node::core_of)), and what it returns runs on that one only. So
    /// upcalls of several cores run at the same time.
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub fn subscribe_per_core<U>(
        &self,
        mut make: impl FnMut(usize) -> U,
    ) -> Result<Upcalls, RequestError>
    where
        U: FnMut(Delivery<'_>) + Send + 'static,
    {
        let names = self.names.clone();
        Ok(match &self.node {
            NodeBack::Own(node) => Upcalls::own(node.subscribe_per_core(names, make)?),
            NodeBack::Attached(engine) => Upcalls::attached(engine.subscribe_with(names, make(0))?),
        })
    }

    /// Prepares to send to each group; publishers come in the order of the names.
    ///
    /// # Errors
    /// As [`Group::publisher`].
    pub fn publishers(&self) -> Result<Vec<Publisher>, RequestError> {
        Ok(match &self.node {
            NodeBack::Own(node) => {
                let made = node.publishers(&self.names)?;
                made.into_iter().map(Publisher::own).collect()
            }
            NodeBack::Attached(engine) => {
                let made = engine.publishers(self.names.clone())?;
                made.into_iter().map(Publisher::attached).collect()
            }
        })
    }
}

impl fmt::Debug for Groups {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Groups")
            .field("names", &self.names)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
