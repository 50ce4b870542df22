use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use qsm_net::IoReport;
use qsm_proto::account::{GroupAccount, MessageAccount};
use qsm_wire::membership::{
    AnswerRows, DESCRIPTION_BYTES_MAX, GroupRow, NodeRow, QueryKind, RegionRow, is_description,
};
use qsm_wire::{NodeId, Origin};

use crate::attach::client::Attached;
use crate::attach::error::AttachError;
use crate::attach::tally::ClientRow;
use crate::error::{CloseReason, Flushed, RequestError, StartError};
use crate::handle::back::NodeBack;
use crate::handle::builder::Builder;
use crate::handle::events::Events;
use crate::handle::group::{Group, Groups};
use crate::handle::own::OwnNode;
use crate::handle::publisher::Publisher;
use crate::handle::subscription::Subscription;
use crate::report::CoreReport;
use crate::runtime::core::{probe, start};
use crate::snapshot::Snapshot;

/// A member of a cluster.
///
/// A program has one node, and subscribes and publishes by it. A core thread does the node's work,
/// or several do ([`Builder::cores`]); a `Node` is a handle of them, cheap to clone, for any thread.
///
/// [`Node::builder`] starts a node in this process. [`Node::attach`] takes the one that another
/// process of this host shares: with the same subscriptions, publishers and events, while what is
/// the sharing process's own affair is refused by [`RequestError::NotAttached`].
///
/// There are three kinds of methods:
///
/// | kind | methods | waits for |
/// |---|---|---|
/// | requests | [`subscribe`], [`publisher`], [`leave`], [`list_nodes`] and the other lists; those of [`Group`] and [`Groups`], which have options | the membership service, at most [`Builder::request_timeout`] |
/// | waits | [`wait_admitted`], [`flush`], [`shutdown`] | the cluster or the receivers, at most the time given |
/// | looks | [`events`], [`stats`], [`closed`], [`id`] and the like | a turn of the core thread at most |
///
/// Calls that wait for a core thread cannot be made on one of the same node, that is, in upcalls
/// and feeds: they return [`RequestError::OnCoreThread`] there.
///
/// The life of a node:
///
/// 1. [`Builder::start`] opens the sockets and returns; the node looks for a membership service
///    meanwhile, and starts one if there is none ([`Embedded`](crate::Embedded)).
/// 2. The first request waits until the service has admitted the node.
/// 3. While the service is away, messages go on, and requests wait.
/// 4. A node that the cluster took for dead enters again by itself, in a new life. Its
///    subscriptions and publishers stay, and are told what is missing.
/// 5. It ends with [`shutdown`], or with its last handle, which waits for receivers
///    for half a second and tells nobody how that went. Then its subscriptions and publishers report
///    [`CloseReason::ShutDown`].
///
/// [`subscribe`]: Node::subscribe
/// [`publisher`]: Node::publisher
/// [`leave`]: Node::leave
/// [`list_nodes`]: Node::list_nodes
/// [`wait_admitted`]: Node::wait_admitted
/// [`flush`]: Node::flush
/// [`shutdown`]: Node::shutdown
/// [`events`]: Node::events
/// [`stats`]: Node::stats
/// [`closed`]: Node::closed
/// [`id`]: Node::id
///
/// ```
/// use std::time::Duration;
/// use qsm::Node;
///
/// let node = Node::builder()
///     .name("desk")
/// #   .cluster(format!("doc-node-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
///     .interface("lo")
///     .start()?;
/// let orders = node.subscribe(["orders"])?;
/// node.publisher("orders")?.send(b"100 at 1.0842")?;
/// let order = orders.recv()?.into_message().expect("nothing is missing");
/// assert_eq!(order.bytes(), b"100 at 1.0842");
/// node.shutdown(Duration::from_secs(5))?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Node {
    pub(crate) back: NodeBack,
}

impl Node {
    /// Begins to describe a node. Every setting has a default.
    ///
    /// ```
    /// use qsm::Node;
    ///
    /// let node = Node::builder()
    ///     .name("recorder")
    ///     .cluster("floor-2")
    /// #   .cluster(format!("doc-builder-{}", std::process::id()))
    ///     .interface("lo")
    ///     .start()?;
    /// assert_eq!(node.closed(), None);
    /// # Ok::<(), qsm::StartError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Attaches to the node that another process of this host has shared at this path
    /// ([`Node::share`]), in place of starting one; see [`attach`](crate::attach).
    ///
    /// ```no_run
    /// use qsm::Node;
    ///
    /// // `qsm engine --at /run/qsm/engine` runs on this host.
    /// let node = Node::attach("/run/qsm/engine")?;
    /// for message in node.subscribe(["news"])?.messages() {
    ///     println!("{:?}", message?.bytes());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AttachError`], whose text says what to do.
    pub fn attach(path: impl AsRef<Path>) -> Result<Self, AttachError> {
        let back = NodeBack::Attached(Attached::connect(path.as_ref())?);
        Ok(Self { back })
    }

    /// Counters that the engine keeps of this process; `None` if this is no attached node.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn attachment(&self) -> Result<Option<ClientRow>, RequestError> {
        match &self.back {
            NodeBack::Own(_) => Ok(None),
            NodeBack::Attached(engine) => engine.stats().map(Some),
        }
    }

    /// The node's id, drawn at random at its start: that of its first core thread.
    #[must_use]
    pub fn id(&self) -> NodeId {
        match &self.back {
            NodeBack::Own(node) => node.id(),
            NodeBack::Attached(engine) => engine.id(),
        }
    }

    /// The id of each core thread. By these other nodes know the members that this node is, and
    /// [`Message::sender`](crate::Message::sender) is the one whose groups the message's is among.
    /// They follow each other. Attached, that of the engine.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> {
        let ids: Vec<NodeId> = match &self.back {
            NodeBack::Own(node) => node.ids().collect(),
            NodeBack::Attached(engine) => vec![engine.id()],
        };
        ids.into_iter()
    }

    /// The place of the core thread that has the group, from 0. It follows from the name and the
    /// number of cores, so that it is the same on all nodes with as many. Attached, 0: all upcalls
    /// of a subscription run on one thread of this process.
    #[must_use]
    pub fn core_of(&self, group: impl AsRef<str>) -> usize {
        match &self.back {
            NodeBack::Own(node) => node.core_of(group.as_ref()),
            NodeBack::Attached(_) => 0,
        }
    }

    /// A group, to receive from or to send to, with options of its own.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-group-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let orders = node.group("orders");
    /// let subscription = orders.clone().capacity_bytes(1 << 20).subscribe()?;
    /// orders.publisher()?.send(b"100 at 1.0842")?;
    /// assert!(subscription.recv()?.into_message().is_some());
    /// # Ok(())
    /// # }
    /// ```
    pub fn group(&self, name: impl AsRef<str>) -> Group {
        Group::new(&self.back, name.as_ref())
    }

    /// Several groups, to be entered in one request however many they are. A subscription to them
    /// has one queue.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-groups-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let prices = node.groups(["prices/eur", "prices/usd"]);
    /// let subscription = prices.subscribe()?;
    /// for publisher in prices.publishers()? {
    ///     publisher.send(b"1.0842")?;
    ///     let price = subscription.recv()?.into_message().expect("nothing is missing");
    ///     assert_eq!(price.group(), publisher.group());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn groups<I>(&self, names: I) -> Groups
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Groups::new(&self.back, names)
    }

    /// Receives the messages of these groups, with default options: short for
    /// [`Groups::subscribe`]. `"prices/*"` and `"prices/**"` are [patterns](Group#patterns).
    ///
    /// Returns when the membership service has confirmed: from then on, whatever a sender
    /// publishes that knows of this node is received.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-subscribe-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let prices = node.subscribe(["prices/*", "news"])?;
    /// assert!(prices.groups().eq(["prices/*", "news"]));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError`]: a name is refused, no membership service answers in time, or the node
    /// has ended.
    pub fn subscribe<I>(&self, groups: I) -> Result<Subscription, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.groups(groups).subscribe()
    }

    /// As [`Node::subscribe`], for tasks: yields to others while the membership service is asked. Any
    /// executor will do. A future dropped before its end has entered nothing.
    ///
    /// ```no_run
    /// # fn main() {
    /// # async fn run(node: qsm::Node) -> Result<(), Box<dyn std::error::Error>> {
    /// let news = node.subscribe_async(["news"]).await?;
    /// let publisher = node.publisher_async("news").await?;
    /// publisher.send_async(b"something new").await?;
    /// println!("{}", news.recv_async().await?);
    /// # Ok(())
    /// # }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Node::subscribe`].
    pub async fn subscribe_async<I>(&self, groups: I) -> Result<Subscription, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let groups = self.groups(groups);
        groups.subscribe_async().await
    }

    /// Stops receiving these groups, for all subscriptions of this node. Groups not subscribed
    /// are ignored. To give up one subscription, drop it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-leave-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let prices = node.subscribe(["prices/eur", "prices/usd"])?;
    /// node.leave(["prices/usd"])?;
    /// node.publisher("prices/usd")?.send(b"1.0000")?;
    /// node.publisher("prices/eur")?.send(b"1.0842")?;
    /// let first = prices.recv()?.into_message().expect("nothing is missing");
    /// assert_eq!(first.group(), "prices/eur");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError`]: no membership service answers in time, or the node has ended.
    pub fn leave<I>(&self, groups: I) -> Result<(), RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        match &self.back {
            NodeBack::Own(node) => node.leave(self.groups(groups).plain("leaving")?),
            NodeBack::Attached(_) => Err(RequestError::NotAttached {
                what: "leaving groups that others may subscribe to",
                remedy: "drop the subscriptions",
            }),
        }
    }

    /// Prepares to send to a group; the node need not be a member of it. Short for
    /// [`Group::publisher`].
    ///
    /// Waits for the membership service's next batch, a tenth of a second or less: keep the publisher,
    /// in place of making one for each message.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-publisher-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let publisher = node.publisher("news")?;
    /// publisher.send(b"something new")?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError`]: the name is refused, no membership service answers in time, or the node
    /// has ended.
    pub fn publisher(&self, group: impl AsRef<str>) -> Result<Publisher, RequestError> {
        self.group(group).publisher()
    }

    /// As [`Node::publisher`], for tasks, as [`Node::subscribe_async`] is.
    ///
    /// # Errors
    /// As [`Node::publisher`].
    pub async fn publisher_async(&self, group: impl AsRef<str>) -> Result<Publisher, RequestError> {
        let group = self.group(group);
        group.publisher_async().await
    }

    /// Waits until the membership service has admitted this node. Not needed before other calls:
    /// they wait by themselves.
    ///
    /// # Errors
    /// [`RequestError`]: timeout, or the node has ended.
    pub fn wait_admitted(&self, timeout: Duration) -> Result<(), RequestError> {
        match &self.back {
            NodeBack::Own(node) => node.wait_admitted(timeout),
            NodeBack::Attached(_) => Err(RequestError::NotAttached {
                what: "waiting for the engine to be admitted",
                remedy: "subscribe or publish, which waits by itself",
            }),
        }
    }

    /// Waits until everything accepted before this call is stable: every live member of its
    /// groups has it, and nobody needs to keep it. A group without members has nobody to wait for.
    ///
    /// [`Flushed`] names receivers that are away now, with what is kept for them, and those that left
    /// or died meanwhile, or since the flush before, without being known to have everything. It does
    /// not wait for those that are away, unless all are.
    ///
    /// Members are nodes: a program may still have to read what its node has
    /// ([`Overflow`](crate::Overflow) says what becomes of it if it does not). Attached, it waits for
    /// all that the engine has accepted, and tells of the groups that this process has published to
    /// ([`Flushed::of_engine`]).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-flush-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use std::time::Duration;
    ///
    /// node.publisher("news")?.send(b"something new")?;
    /// node.flush(Duration::from_secs(5))?;
    /// // Now every live receiver of the group has it.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError`]: timeout (what was accepted is still being delivered;
    /// [`Outstanding::lacking`](crate::Outstanding::lacking) says who lacks what), the node has ended,
    /// or [`RequestError::Unconfirmed`]: the node was excluded since the last flush, and these
    /// messages may be missing at receivers.
    pub fn flush(&self, timeout: Duration) -> Result<Flushed, RequestError> {
        match &self.back {
            NodeBack::Own(node) => node.flush(timeout),
            NodeBack::Attached(engine) => engine.flush(timeout),
        }
    }

    /// A reader of all events from now on.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-events-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use std::time::Duration;
    /// use qsm::Event;
    ///
    /// let mut events = node.events();
    /// node.subscribe(["news"])?;
    /// node.shutdown(Duration::from_secs(5))?;
    /// assert!(events.any(|event| matches!(event, Event::Closed { .. })));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn events(&self) -> Events {
        match &self.back {
            NodeBack::Own(node) => node.events(),
            NodeBack::Attached(engine) => engine.events(),
        }
    }

    /// Counters, queues and sockets, now; of a node that has ended, at its end. Of a node with
    /// several core threads, the sum; see [`Node::core_stats`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-stats-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// node.publisher("news")?.send(b"something new")?;
    /// node.flush(std::time::Duration::from_secs(5))?;
    /// assert_eq!(node.stats()?.protocol.messages_published, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError`]: called on a core thread, or the node ended before it could tell.
    pub fn stats(&self) -> Result<Snapshot, RequestError> {
        match &self.back {
            NodeBack::Own(node) => node.stats(),
            NodeBack::Attached(_) => Err(counters()),
        }
    }

    /// The same of each core thread, in order: whether they share the work evenly.
    ///
    /// # Errors
    /// As [`Node::stats`].
    pub fn core_stats(&self) -> Result<Vec<Snapshot>, RequestError> {
        match &self.back {
            NodeBack::Own(node) => node.core_stats(),
            NodeBack::Attached(_) => Err(counters()),
        }
    }

    /// Where the node's metrics are served, if [`Builder::metrics`] asked for that.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-metrics-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// let node = builder.metrics("127.0.0.1:0".parse()?).start()?;
    /// let address = node.metrics_address().expect("it was asked for");
    /// println!("curl http://{address}/metrics");
    /// # assert_ne!(address.port(), 0);
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        match &self.back {
            NodeBack::Own(node) => node.metrics_address(),
            NodeBack::Attached(_) => None,
        }
    }

    /// The name of the local socket that the node is asked by ([`Builder::admin`]); `None`: it has
    /// none.
    #[must_use]
    pub fn admin_socket(&self) -> Option<&str> {
        match &self.back {
            NodeBack::Own(node) => node.admin_socket(),
            NodeBack::Attached(_) => None,
        }
    }

    /// The choices and grants of the sockets, with reasons; of the first core thread, which those of
    /// the others are like.
    ///
    /// # Errors
    /// As [`Node::stats`].
    pub fn io_report(&self) -> Result<IoReport, RequestError> {
        self.stats().map(|snapshot| snapshot.io)
    }

    /// All nodes of the cluster, as the membership service knows them: one for each core thread of
    /// a node. The first is called as the node, the others `name/2`, `name/3` and so on.
    ///
    /// A program that only wants to look need not join: [`Observer`](crate::Observer).
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-nodes-{}", std::process::id());
    /// # let builder = qsm::Node::builder().name("desk").cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// for row in node.list_nodes()? {
    ///     println!("{} at {}", row.name, row.address);
    /// #   assert_eq!(row.name, "desk");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError`]: no membership service answers in time, or the node has ended.
    pub fn list_nodes(&self) -> Result<Vec<NodeRow>, RequestError> {
        match self.query(QueryKind::Nodes)? {
            AnswerRows::Nodes(rows) => Ok(rows),
            AnswerRows::None | AnswerRows::Groups(_) | AnswerRows::Regions(_) => {
                Err(RequestError::mixed_up())
            }
        }
    }

    /// Describes this node for lists: others read it in [`NodeRow::description`], as the node's own word. It
    /// replaces the one before; an empty text ends it. Of a node with several core threads, the first has it. It is
    /// told to the membership service when it has changed, every 2 s at most, and kept for as long as the node lives.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-describe-{}", std::process::id());
    /// # let builder = qsm::Node::builder().name("desk").cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// node.describe("trading floor, third row")?;
    /// node.wait_admitted(std::time::Duration::from_secs(5))?;
    /// # while node.list_nodes()?[0].description.is_none() {}
    /// let described = |row: &qsm::NodeRow| row.description.as_deref() == Some("trading floor, third row");
    /// assert!(node.list_nodes()?.iter().any(described));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError::Refused`]: more than [`DESCRIPTION_BYTES_MAX`](crate::DESCRIPTION_BYTES_MAX) bytes, or control
    /// characters. [`RequestError::NotAttached`].
    pub fn describe(&self, text: impl Into<String>) -> Result<(), RequestError> {
        let text = text.into();
        if !is_description(&text) {
            return Err(RequestError::Refused {
                reason: format!(
                    "a node's description has at most {DESCRIPTION_BYTES_MAX} bytes and no control characters, and \
                     this one has {} bytes: give a shorter one, of one line",
                    text.len()
                ),
            });
        }
        match &self.back {
            NodeBack::Own(node) => {
                node.describe(text);
                Ok(())
            }
            NodeBack::Attached(_) => Err(RequestError::NotAttached {
                what: "describing the engine's node",
                remedy: "have its own process do it",
            }),
        }
    }

    /// All groups of the cluster.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-list-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let publisher = node.publisher("news")?;
    /// let groups = node.list_groups()?;
    /// assert!(groups.iter().any(|group| group.name == "news" && group.publishers == 1));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Node::list_nodes`].
    pub fn list_groups(&self) -> Result<Vec<GroupRow>, RequestError> {
        match self.query(QueryKind::Groups)? {
            AnswerRows::Groups(rows) => Ok(rows),
            AnswerRows::None | AnswerRows::Nodes(_) | AnswerRows::Regions(_) => {
                Err(RequestError::mixed_up())
            }
        }
    }

    /// All regions of the cluster: nodes with the same groups.
    ///
    /// # Errors
    /// As [`Node::list_nodes`].
    pub fn list_regions(&self) -> Result<Vec<RegionRow>, RequestError> {
        match self.query(QueryKind::Regions)? {
            AnswerRows::Regions(rows) => Ok(rows),
            AnswerRows::None | AnswerRows::Nodes(_) | AnswerRows::Groups(_) => {
                Err(RequestError::mixed_up())
            }
        }
    }

    /// Tells where a group's messages go, on which paths, and who has them, as this node sees it; `None`:
    /// it neither publishes to the group nor receives it. A publisher sees all regions of the group,
    /// a receiver its own.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-explain-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let publisher = node.publisher("news")?;
    /// let news = node.explain("news")?.expect("it publishes to it");
    /// assert_eq!((news.published, news.receives, news.regions.len()), (0, false, 0));
    /// assert_eq!(node.explain("weather")?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Node::stats`].
    pub fn explain(&self, group: impl AsRef<str>) -> Result<Option<GroupAccount>, RequestError> {
        match &self.back {
            NodeBack::Own(node) => node.account(group.as_ref()),
            NodeBack::Attached(_) => Err(counters()),
        }
    }

    /// Tells where a message stands, as this node sees it by the packets that it has: group, sender, number; `None`:
    /// it neither publishes to the group nor receives it. Nothing is kept for each message, so of one that was
    /// delivered here, and is not kept for others, no more is known than that its turn is past.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-message-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use qsm::Standing;
    ///
    /// let news = node.subscribe(["news"])?;
    /// node.publisher("news")?.send(b"hello")?;
    /// let message = news.recv()?.into_message().expect("nothing is lost");
    /// let account = node.explain_message("news", message.sender(), message.number())?;
    /// assert_eq!(account.expect("it receives it").standing, Standing::Acknowledged);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Node::stats`].
    pub fn explain_message(
        &self,
        group: impl AsRef<str>,
        sender: Origin,
        number: u64,
    ) -> Result<Option<MessageAccount>, RequestError> {
        match &self.back {
            NodeBack::Own(node) => node.message_account(group.as_ref(), sender, number),
            NodeBack::Attached(_) => Err(counters()),
        }
    }

    /// The reason why the node has ended, if it has.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        match &self.back {
            NodeBack::Own(node) => node.closed(),
            NodeBack::Attached(engine) => engine.closed(),
        }
    }

    /// Ends the node: accepts nothing more, waits until everything accepted is stable, says
    /// goodbye to the cluster, and stops the core thread and the embedded service, if any. Attached,
    /// it waits until everything that this process has sent is stable, and detaches.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-shutdown-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use std::time::Duration;
    /// use qsm::RequestError;
    ///
    /// match node.shutdown(Duration::from_secs(5)) {
    ///     Ok(flushed) if flushed.is_complete() => println!("every receiver has everything"),
    ///     // Some are away, and get it later; some are gone, and may not have had everything before.
    ///     Ok(flushed) => println!("{:?} {:?}", flushed.away, flushed.unserved),
    ///     // The text says who lacks what.
    ///     Err(error @ RequestError::Timeout { .. }) => eprintln!("{}: {error}", error.code()),
    ///     Err(error) => return Err(error.into()),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RequestError::Timeout`]: the node has ended, but some receivers may lack messages, or
    /// some peers the goodbye. [`RequestError::Unconfirmed`]: likewise, and these are the messages
    /// that no flush has told of before. [`RequestError::Closed`]: it had ended before, for another reason.
    pub fn shutdown(&self, timeout: Duration) -> Result<Flushed, RequestError> {
        match &self.back {
            NodeBack::Own(node) => node.shutdown(timeout),
            NodeBack::Attached(engine) => engine.shutdown(timeout),
        }
    }

    fn query(&self, kind: QueryKind) -> Result<AnswerRows, RequestError> {
        match &self.back {
            NodeBack::Own(node) => node.cores.query(kind),
            NodeBack::Attached(engine) => engine.client().query(kind),
        }
    }
}

impl Builder {
    /// Opens the sockets and starts the core threads. Does not wait for the cluster; see
    /// [`Node::wait_admitted`].
    ///
    /// # Errors
    /// [`StartError`], whose text says what to do.
    pub fn start(self) -> Result<Node, StartError> {
        let admin = self.settings.admin;
        let service = self.settings.service;
        let engines = start(self.settings)?;
        let mut node = OwnNode::new(engines);
        if let (Some(service), Some(lookup)) = (service, self.lookup) {
            lookup.follow(service, node.events(), node.cores.clone());
        }
        if let Some(address) = self.metrics {
            node.serve_metrics(address)?;
        }
        if admin {
            node.open_admin();
        }
        let back = NodeBack::Own(node);
        Ok(Node { back })
    }

    /// Reports what each core thread would be granted: opens the sockets and starts the threads as
    /// [`Builder::start`] does, and ends them again without a word to the cluster.
    ///
    /// # Errors
    /// As [`Builder::start`].
    pub fn probe(self) -> Result<Vec<CoreReport>, StartError> {
        probe(self.settings)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("id", &format_args!("{:x}", self.id().0))
            .field("attached", &matches!(self.back, NodeBack::Attached(_)))
            .field("closed", &self.closed())
            .finish_non_exhaustive()
    }
}

fn counters() -> RequestError {
    RequestError::NotAttached {
        what: "reading the engine's counters",
        remedy: "ask its process, or read what it counted of this one with `Node::attachment`",
    }
}
