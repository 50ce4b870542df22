use core::fmt;
use core::hash::Hash;
use std::sync::Arc;

use crate::attach::client::Attached;
use crate::attach::funnel::Funnel;
use crate::attach::subscription::{AttachedSubscription, AttachedUpcalls};
use crate::error::RequestError;
use crate::handle::back::NodeBack;
use crate::handle::errand::Errand;
use crate::handle::feed::FeedHandle;
use crate::handle::follow::{Follower, Source};
use crate::handle::latest::Latest;
use crate::handle::options::{GroupOptions, PublishOptions};
use crate::handle::pattern::Patterns;
use crate::handle::publisher::Publisher;
use crate::handle::subscription::{
    Entry, QueuedSubscription, Subscription, SubscriptionBack, Upcalls,
};
use crate::handoff::feed::Feed;
use crate::handoff::latest::Poster;
use crate::handoff::mailbox::Mailbox;
use crate::handoff::message::{MessageRef, Overflow};
use crate::handoff::mode::DeliveryMode;
use crate::handoff::received::Delivery;

/// A group of a node, with options: to receive from it and to send to it. Made by
/// [`Node::group`](crate::Node::group).
///
/// It is cheap to make and to clone, and asks nothing of anybody: a node enters a group by
/// [`Group::subscribe`] or [`Group::publisher`].
///
/// ```
/// use qsm::{Node, Overflow};
///
/// let node = Node::builder()
/// #   .cluster(format!("doc-a-group-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
///     .interface("lo")
///     .start()?;
/// // A reader of prices wants the newest ones, and no more than a thousand.
/// let prices = node
///     .group("prices/eur")
///     .capacity_messages(1000)
///     .overflow(Overflow::DropOldest)
///     .subscribe()?;
/// let publisher = node.group("prices/eur").publisher()?;
/// publisher.send(b"1.0842")?;
/// println!("{}", prices.recv()?);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Patterns
///
/// Slashes divide names into segments. In a [`Pattern`](crate::Pattern) a segment `*` stands for any
/// one segment, and `**` for any number of them: `"prices/*"`, `"prices/*/eur"`, `"prices/**"`.
/// [`Group::subscribe`] to a pattern receives from all groups so named, those that appear later
/// included. Everything else refuses a pattern with [`RequestError::Pattern`]. No name has a star: one
/// beside other characters is [`RequestError::BadPattern`].
///
/// ```
/// # let node = qsm::Node::builder()
/// #   .cluster(format!("doc-pattern-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
/// #   .interface("lo")
/// #   .start()?;
/// let _eur = node.publisher("prices/eur")?;
/// let prices = node.group("prices/*").subscribe()?;
/// assert_eq!(prices.followed().map(|followed| followed.groups), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A thread of the subscription asks the membership service for new groups, 0.25 to 2 seconds after
/// its last answer; longer if that took long. What is sent before a group was found is missed:
/// a publisher that matters waits for its receivers
/// ([`Publisher::wait_for_members`](crate::Publisher::wait_for_members)). At most
/// [`GroupOptions::groups_max`] groups are followed; those followed stay entered until the
/// subscription is dropped.
///
/// Attached, each time that new groups are found takes a ring of the engine's default size, and a
/// thread that reads it into the subscription's queue. 64 rings fit into the default of
/// [`client_bytes_max`](crate::attach::ShareOptions::client_bytes_max).
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

    /// As [`GroupOptions::delivery`].
    pub fn delivery(mut self, delivery: DeliveryMode) -> Self {
        self.groups.options = self.groups.options.delivery(delivery);
        self
    }

    /// As [`PublishOptions`], all at once, for [`Group::publisher`] and [`Group::feed`].
    pub fn publish_options(mut self, options: PublishOptions) -> Self {
        self.groups.publish = options;
        self
    }

    /// Receives the messages into a queue, to be read from any thread or task.
    ///
    /// Returns when the membership service has confirmed: from then on, whatever a sender
    /// publishes that knows of this node is received.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-g-subscribe-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use qsm::Received;
    ///
    /// let news = node.group("news").subscribe()?;
    /// # node.publisher("news")?.send(b"something new")?;
    /// match news.recv()? {
    ///     Received::Message(message) => println!("{:?}", message.bytes()),
    ///     missing => println!("{missing}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError`]: the name is refused, no membership service answers in time, or the node
    /// has ended.
    pub fn subscribe(&self) -> Result<Subscription, RequestError> {
        self.groups.subscribe()
    }

    /// As [`Group::subscribe`], for tasks: yields to others while the membership service is asked.
    /// Any executor will do. A future dropped before its end has entered nothing.
    ///
    /// Attached, or with a [pattern](Group#patterns), a thread of the library asks meanwhile.
    ///
    /// ```no_run
    /// # fn main() {
    /// # async fn run(node: qsm::Node) -> Result<(), qsm::RequestError> {
    /// let news = node.group("news").capacity_messages(1000).subscribe_async().await?;
    /// # Ok(())
    /// # }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub async fn subscribe_async(&self) -> Result<Subscription, RequestError> {
        self.groups.subscribe_async().await
    }

    /// Receives the messages by upcalls: hands each message, and what is missing before it, to
    /// `upcall` on the core thread, at the moment it is delivered, and without copying it.
    ///
    /// The upcall must be short: while it runs, this node neither receives, sends nor
    /// acknowledges. It must not panic; if it does, the node ends with
    /// [`CloseReason::Panicked`](crate::CloseReason::Panicked).
    ///
    /// Attached, it runs on a thread for this subscription, and may take its time: the queue, which
    /// the options are for, fills up meanwhile, and nobody waits but with
    /// [`Overflow::Hold`](crate::Overflow::Hold). Otherwise there is none, and options have no effect.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-g-upcalls-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use std::sync::mpsc::channel;
    /// use qsm::Delivery;
    ///
    /// let (tell, told) = channel();
    /// let upcalls = node.group("news").subscribe_with(move |delivery| match delivery {
    ///     Delivery::Message(message) => drop(tell.send(message.bytes.len())),
    ///     missing => eprintln!("{missing:?}"),
    /// })?;
    /// node.publisher("news")?.send(b"something new")?;
    /// assert_eq!(told.recv()?, 13);
    /// drop(upcalls); // leaves the group
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub fn subscribe_with(
        &self,
        upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Upcalls, RequestError> {
        self.groups.subscribe_with(upcall)
    }

    /// Receives the newest message of each key, for readers who want the present state: a message
    /// takes the place of an older one with its key that has not been read. See [`Latest`].
    ///
    /// `key_of` runs on the core thread for each message, and must be short, as an upcall.
    ///
    /// The options limit what waits, of keys here, as that of [`Group::subscribe`]; if messages
    /// grow, those that have waited longest go. Beside that memory the node keeps as many keys as
    /// wait, and as many more, 1024 at least. Attached, `key_of` runs on a thread for this
    /// subscription, which empties the ring.
    ///
    /// # Errors
    /// As [`Group::subscribe`]; [`RequestError::Pattern`] of a pattern.
    pub fn latest_by<K>(
        &self,
        key_of: impl Fn(MessageRef<'_>) -> K + Send + Sync + 'static,
    ) -> Result<Latest, RequestError>
    where
        K: Eq + Hash + Send + 'static,
    {
        self.groups.latest_by(key_of)
    }

    /// Prepares to send to the group; the node need not be a member of it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-g-publisher-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let publisher = node.group("news").publisher()?;
    /// publisher.send(b"something new")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub fn publisher(&self) -> Result<Publisher, RequestError> {
        only(self.groups.publishers()?)
    }

    /// As [`Group::publisher`], for tasks, as [`Group::subscribe_async`] is.
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub async fn publisher_async(&self) -> Result<Publisher, RequestError> {
        only(self.groups.publishers_async().await?)
    }

    /// Lets the core thread pull messages from a feed of the application: short for
    /// [`Publisher::feed`] of a publisher that is used for nothing else.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-g-feed-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use qsm::Pull;
    ///
    /// # let squares = node.subscribe(["squares"])?;
    /// let mut number: u32 = 0;
    /// let feed = node.group("squares").feed(move |message: &mut Vec<u8>| {
    ///     if number == 3 {
    ///         return Pull::End;
    ///     }
    ///     number += 1;
    ///     message.extend_from_slice(&(number * number).to_le_bytes());
    ///     Pull::Message
    /// })?;
    /// # for square in [1_u32, 4, 9] {
    /// #     let message = squares.recv()?.into_message().expect("nothing is missing");
    /// #     assert_eq!(message.bytes(), square.to_le_bytes());
    /// # }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Group::publisher`] and [`Publisher::feed`].
    pub fn feed(&self, feed: impl Feed + 'static) -> Result<FeedHandle, RequestError> {
        self.publisher()?.feed(feed)
    }
}

/// One name, one publisher.
fn only(mut publishers: Vec<Publisher>) -> Result<Publisher, RequestError> {
    publishers.pop().ok_or_else(|| RequestError::Refused {
        reason: "the node made no publisher; this is a fault of the library".to_owned(),
    })
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
///
/// ```
/// use qsm::{GroupOptions, Node};
///
/// let node = Node::builder()
/// #   .cluster(format!("doc-some-groups-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
///     .interface("lo")
///     .start()?;
/// let options = GroupOptions::default().capacity_bytes(1 << 20);
/// let prices = node.groups(["prices/eur", "prices/usd"]).options(options).subscribe()?;
/// let [eur, usd] = &node.groups(["prices/eur", "prices/usd"]).publishers()?[..] else {
///     unreachable!("a publisher for each group");
/// };
/// eur.send(b"1.0842")?;
/// usd.send(b"0.9223")?;
/// # assert!(prices.recv()?.into_message().is_some());
/// # assert!(prices.recv()?.into_message().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[must_use = "groups do nothing before they are subscribed or published to"]
pub struct Groups {
    node: NodeBack,
    names: Vec<Arc<str>>,
    options: GroupOptions,
    publish: PublishOptions,
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
            publish: PublishOptions::default(),
        }
    }

    /// All options at once, in place of what was set before.
    pub fn options(mut self, options: GroupOptions) -> Self {
        self.options = options;
        self
    }

    /// As [`Group::publish_options`], for the publishers of all.
    pub fn publish_options(mut self, options: PublishOptions) -> Self {
        self.publish = options;
        self
    }

    /// As [`Group::subscribe`].
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub fn subscribe(&self) -> Result<Subscription, RequestError> {
        let names = self.names.clone();
        let back = match &self.node {
            _ if self.has_stars() => SubscriptionBack::Queue(self.follow()?),
            NodeBack::Own(node) => {
                let (capacity, overflow) = self.options.queue();
                SubscriptionBack::Queue(node.subscribe(
                    names,
                    self.options.delivery,
                    capacity,
                    overflow,
                )?)
            }
            NodeBack::Attached(engine) => {
                SubscriptionBack::Ring(self.subscribe_ring(engine, names)?)
            }
        };
        Ok(Subscription { back, ended: false })
    }

    /// As [`Group::subscribe_async`].
    ///
    /// # Errors
    /// As [`Group::subscribe`].
    pub async fn subscribe_async(&self) -> Result<Subscription, RequestError> {
        match &self.node {
            NodeBack::Own(node) if !self.has_stars() => {
                let (capacity, overflow) = self.options.queue();
                let names = self.names.clone();
                let delivery = self.options.delivery;
                let queue = node.subscribe_async(names, delivery, capacity, overflow);
                let queue = queue.await?;
                let back = SubscriptionBack::Queue(queue);
                Ok(Subscription { back, ended: false })
            }
            NodeBack::Own(_) | NodeBack::Attached(_) => {
                let groups = self.clone();
                Errand::start(move || groups.subscribe())?.result().await
            }
        }
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
        let names = self.plain("upcalls")?.to_vec();
        Ok(match &self.node {
            NodeBack::Own(node) => {
                Upcalls::own(node.subscribe_with(names, self.options.delivery, upcall)?)
            }
            NodeBack::Attached(engine) => {
                let ring = self.subscribe_ring(engine, names)?;
                Upcalls::attached(AttachedUpcalls::start(ring, upcall)?)
            }
        })
    }

    /// As [`Group::subscribe_with`], with an upcall for each core thread that has some of the
    /// groups: `make` is called here, with the place of each
    /// ([`Node::core_of`](crate::Node::core_of)), and what it returns runs on that one only. So
    /// upcalls of several cores run at the same time.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # use qsm::{Delivery, Node};
    /// let node = Node::builder().cores(2).start()?;
    /// let prices = node.groups((0..1000).map(|number| format!("prices/{number}")));
    /// let upcalls = prices.subscribe_per_core(|core| {
    ///     let mut count = 0; // of this core alone: no lock
    ///     move |delivery: Delivery<'_>| {
    ///         count += u64::from(delivery.message().is_some());
    ///         if count % 1000 == 0 {
    ///             println!("core {core}: {count}");
    ///         }
    ///     }
    /// })?;
    /// # Ok(())
    /// # }
    /// ```
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
        let names = self.plain("upcalls")?.to_vec();
        Ok(match &self.node {
            NodeBack::Own(node) => {
                let delivery = self.options.delivery;
                Upcalls::own(node.subscribe_per_core(names, delivery, make)?)
            }
            NodeBack::Attached(engine) => {
                let ring = self.subscribe_ring(engine, names)?;
                Upcalls::attached(AttachedUpcalls::start(ring, make(0))?)
            }
        })
    }

    /// As [`Group::latest_by`]. The key has to have the group in it, unless messages
    /// of one group may take the place of those of another; those that lie on different core threads
    /// ([`Node::core_of`](crate::Node::core_of)) do not.
    ///
    /// # Errors
    /// As [`Group::latest_by`].
    pub fn latest_by<K>(
        &self,
        key_of: impl Fn(MessageRef<'_>) -> K + Send + Sync + 'static,
    ) -> Result<Latest, RequestError>
    where
        K: Eq + Hash + Send + 'static,
    {
        let names = self.plain("the newest message of each key")?.to_vec();
        let delivery = self.options.delivery;
        if delivery == DeliveryMode::Arrival {
            return Err(RequestError::Refused {
                reason: "the newest message of each key is not known in the order of arrival; \
                         choose `DeliveryMode::Ordered` or `DeliveryMode::Within`"
                    .to_owned(),
            });
        }
        let (capacity, overflow) = self.options.queue();
        if overflow == Overflow::Hold {
            return Err(RequestError::Refused {
                reason:
                    "who wants the newest message of each key holds up no senders; choose another \
                         `Overflow`, or receive all with `subscribe`"
                        .to_owned(),
            });
        }
        let (key_of, replaced) = (Arc::new(key_of), Arc::default());
        let poster = |inbox: &_| Poster::new(inbox, &key_of, &replaced);
        let (mailbox, entry) = match &self.node {
            NodeBack::Own(node) => {
                let (mailbox, membership) =
                    node.post(names, delivery, capacity, overflow, poster)?;
                (mailbox, Upcalls::own(membership))
            }
            NodeBack::Attached(engine) => {
                let ring = self.subscribe_ring(engine, names)?;
                let mailbox = Mailbox::new(1, capacity, overflow);
                let posted = AttachedUpcalls::post(ring, poster(mailbox.first()))?;
                (mailbox, Upcalls::attached(posted))
            }
        };
        Ok(Latest::new(mailbox, replaced, entry))
    }

    /// Prepares to send to each group; publishers come in the order of the names.
    ///
    /// # Errors
    /// As [`Group::publisher`].
    pub fn publishers(&self) -> Result<Vec<Publisher>, RequestError> {
        let names = self.plain("a publisher")?;
        Ok(match &self.node {
            NodeBack::Own(node) => {
                let made = node.publishers(names, self.publish.batching())?;
                made.into_iter().map(Publisher::own).collect()
            }
            NodeBack::Attached(engine) => {
                self.check_publishing()?;
                let made = engine.publishers(names.to_vec())?;
                made.into_iter().map(Publisher::attached).collect()
            }
        })
    }

    /// As [`Groups::publishers`], for tasks, as [`Group::subscribe_async`] is.
    ///
    /// # Errors
    /// As [`Group::publisher`].
    pub async fn publishers_async(&self) -> Result<Vec<Publisher>, RequestError> {
        match &self.node {
            NodeBack::Own(node) => {
                let names = self.plain("a publisher")?;
                let made = node
                    .publishers_async(names, self.publish.batching())
                    .await?;
                Ok(made.into_iter().map(Publisher::own).collect())
            }
            NodeBack::Attached(_) => {
                let groups = self.clone();
                Errand::start(move || groups.publishers())?.result().await
            }
        }
    }

    fn subscribe_ring(
        &self,
        engine: &Attached,
        names: Vec<Arc<str>>,
    ) -> Result<AttachedSubscription, RequestError> {
        let (bytes, overflow) = self.options.ring();
        let delivery = self.options.delivery;
        engine.client().subscribe(names, bytes, overflow, delivery)
    }

    /// An engine packs messages of all processes by its own limits.
    fn check_publishing(&self) -> Result<(), RequestError> {
        match self.publish == PublishOptions::default() {
            true => Ok(()),
            false => Err(RequestError::NotAttached {
                what: "limiting the wait of messages for others",
                remedy: "publish with a node of this process, or without these options",
            }),
        }
    }

    /// The names, for what patterns cannot be used for.
    pub(crate) fn plain(&self, purpose: &'static str) -> Result<&[Arc<str>], RequestError> {
        if !self.has_stars() {
            return Ok(&self.names);
        }
        match Patterns::of(&self.names)?.first() {
            None => Ok(&self.names),
            Some(pattern) => Err(RequestError::Pattern {
                pattern: pattern.to_string(),
                purpose,
            }),
        }
    }

    /// Some are patterns, or wrong.
    fn has_stars(&self) -> bool {
        self.names.iter().any(|name| name.contains('*'))
    }

    /// Into one queue of this process.
    fn follow(&self) -> Result<QueuedSubscription, RequestError> {
        let (capacity, overflow) = self.options.queue();
        let (mailbox, source) = match &self.node {
            NodeBack::Own(node) => {
                let mailbox = Mailbox::new(node.cores.count(), capacity, overflow);
                let inboxes = mailbox.inboxes().map(Arc::clone).collect();
                let cores = node.cores.clone();
                let delivery = self.options.delivery;
                let source = Source::Own {
                    cores,
                    inboxes,
                    delivery,
                };
                (mailbox, source)
            }
            NodeBack::Attached(engine) => {
                let mailbox = Mailbox::new(1, capacity, overflow);
                let funnel = Arc::new(Funnel::new(Arc::clone(mailbox.first())));
                let source = Source::Attached {
                    client: engine.client().clone(),
                    funnel,
                    delivery: self.options.delivery,
                };
                (mailbox, source)
            }
        };
        let follower = Follower::start(source, &self.names, self.options.groups_max)?;
        let entry = Entry::Followed(follower);
        Ok(QueuedSubscription { mailbox, entry })
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
