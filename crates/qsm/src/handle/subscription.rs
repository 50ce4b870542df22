use core::fmt;
use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_core::Stream;

use crate::attach::subscription::{AttachedSubscription, AttachedUpcalls};
use crate::error::{CloseReason, RecvError};
use crate::handle::cores::Membership;
use crate::handle::follow::{Followed, Follower};
use crate::handoff::mailbox::Mailbox;
use crate::handoff::message::Message;
use crate::handoff::received::Received;

/// Messages of some groups, and what is missing between them, queued for the application's own
/// threads or tasks. Made by [`Node::subscribe`](crate::Node::subscribe) and
/// [`Group::subscribe`](crate::Group::subscribe); dropping it leaves those groups that no other
/// subscription of the node holds.
///
/// Within a group, messages of one sender come in the order of their numbers, also of a node with
/// several core threads: a group lies on one. What was lost, and what this subscription's own
/// queue had no room for, is told in its place: see [`Received`]. It can be read from several
/// threads at once; each message, and each notice, goes to one of them.
///
/// Three ways to read: [`recv`](Subscription::recv) and its like for those who handle losses,
/// [`messages`](Subscription::messages) for those to whom a loss is an error, and
/// [`recv_async`](Subscription::recv_async) or [`Stream`] for tasks.
///
/// ```
/// use qsm::{Node, Received};
///
/// let node = Node::builder()
/// #   .cluster(format!("doc-subscription-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
///     .interface("lo")
///     .start()?;
/// let news = node.subscribe(["news"])?;
/// # node.publisher("news")?.send(b"something new")?;
/// match news.recv()? {
///     Received::Message(message) => println!("{:?}", message.bytes()),
///     Received::Lost(lost) => println!("never to come: {lost}"),
///     Received::Dropped(dropped) => println!("read too slowly for {}", dropped.messages),
///     // It was away for a while, and has caught up.
///     Received::Back(back) => println!("{back}"),
///     other => println!("{other}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Subscription {
    pub(crate) back: SubscriptionBack,
    /// The stream has told the end.
    pub(crate) ended: bool,
}

/// Where it is queued.
#[derive(Debug)]
pub(crate) enum SubscriptionBack {
    Queue(QueuedSubscription),
    Ring(AttachedSubscription),
}

/// In a queue of this process.
#[derive(Debug)]
pub(crate) struct QueuedSubscription {
    pub(crate) mailbox: Mailbox<Received>,
    pub(crate) entry: Entry,
}

/// Entered groups; dropping it leaves them.
#[derive(Debug)]
pub(crate) enum Entry {
    Named(Membership),
    Followed(Follower),
}

impl Drop for QueuedSubscription {
    fn drop(&mut self) {
        self.mailbox.leave();
    }
}

impl Subscription {
    /// Waits for what comes next: a message, or what is missing before it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-s-recv-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use std::time::Duration;
    /// use qsm::{CloseReason, RecvError};
    ///
    /// let news = node.subscribe(["news"])?;
    /// node.publisher("news")?.send(b"something new")?;
    /// assert!(news.recv()?.into_message().is_some());
    /// node.shutdown(Duration::from_secs(5))?;
    /// assert_eq!(news.recv(), Err(RecvError::Closed(CloseReason::ShutDown)));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RecvError`], after everything queued was taken, when no more will come.
    pub fn recv(&self) -> Result<Received, RecvError> {
        loop {
            // Without a deadline a wait ends with something or an error.
            if let Some(received) = self.wait(None)? {
                return Ok(received);
            }
        }
    }

    /// As [`Subscription::recv`], at most this long; `None` when nothing came.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-s-timeout-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use std::time::Duration;
    ///
    /// let news = node.subscribe(["news"])?;
    /// assert_eq!(news.recv_timeout(Duration::from_millis(1))?, None);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Received>, RecvError> {
        self.wait(Instant::now().checked_add(timeout))
    }

    /// As [`Subscription::recv`], without waiting; `None` when nothing is there.
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub fn try_recv(&self) -> Result<Option<Received>, RecvError> {
        match &self.back {
            SubscriptionBack::Queue(queue) => queue.mailbox.try_recv(),
            SubscriptionBack::Ring(ring) => ring.try_recv(),
        }
    }

    /// As [`Subscription::recv`], for tasks: yields to others while nothing is there. Any executor
    /// will do. A future dropped before its end has taken nothing.
    ///
    /// ```no_run
    /// # fn main() {
    /// # async fn run(news: qsm::Subscription) -> Result<(), qsm::RecvError> {
    /// loop {
    ///     match news.recv_async().await? {
    ///         qsm::Received::Message(message) => println!("{:?}", message.bytes()),
    ///         other => println!("{other}"),
    ///     }
    /// }
    /// # #[allow(unreachable_code)]
    /// # Ok(())
    /// # }
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub async fn recv_async(&self) -> Result<Received, RecvError> {
        poll_fn(|context| self.poll_recv(context)).await
    }

    /// Waits for messages, for those to whom anything missing is an error:
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-messages-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// # let subscription = node.subscribe(["prices/eur"])?;
    /// # node.publisher("prices/eur")?.send(b"1.0842")?;
    /// # node.shutdown(std::time::Duration::from_secs(5))?;
    /// for message in subscription.messages() {
    ///     println!("{:?}", message?.bytes());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A pause of the node that cost nothing ([`Received::Back`]) is passed over. It ends when this
    /// process has shut the node down. Any other end, and whatever is missing,
    /// comes as an error; after what is missing it can go on, and with
    /// [`Messages::skipping_losses`] it does by itself.
    pub fn messages(&self) -> Messages<'_> {
        Messages {
            subscription: self,
            skip: false,
            skipped: 0,
            ended: false,
        }
    }

    /// The groups subscribed, names and patterns as they were given.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let names = match &self.back {
            SubscriptionBack::Queue(queue) => match &queue.entry {
                Entry::Named(membership) => &*membership.names,
                Entry::Followed(follower) => &*follower.names,
            },
            SubscriptionBack::Ring(ring) => ring.names(),
        };
        names.iter().map(|name| &**name)
    }

    /// The groups that patterns have found so far; `None` if all groups were named.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-s-followed-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// let prices = node.subscribe(["prices/*"])?;
    /// let followed = prices.followed().expect("there is a pattern");
    /// assert_eq!((followed.groups, followed.left_out), (0, 0));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn followed(&self) -> Option<Followed> {
        match &self.back {
            SubscriptionBack::Queue(queue) => match &queue.entry {
                Entry::Named(_) => None,
                Entry::Followed(follower) => Some(follower.followed()),
            },
            SubscriptionBack::Ring(_) => None,
        }
    }

    /// Messages that wait to be read; attached, see [`Subscription::queued_bytes`].
    #[must_use]
    pub fn queued(&self) -> usize {
        match &self.back {
            SubscriptionBack::Queue(queue) => queue.mailbox.messages(),
            SubscriptionBack::Ring(ring) => usize::from(ring.queued_bytes() > 0),
        }
    }

    /// Their bytes; attached, what each takes beside its length included.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        match &self.back {
            SubscriptionBack::Queue(queue) => queue.mailbox.bytes(),
            SubscriptionBack::Ring(ring) => ring.queued_bytes(),
        }
    }

    /// Whether the queue is full and its node takes no more of these groups until it has been read
    /// ([`Overflow::Hold`](crate::Overflow::Hold)): then senders wait, or soon will.
    #[must_use]
    pub fn holds(&self) -> bool {
        match &self.back {
            SubscriptionBack::Queue(queue) => queue.mailbox.holds(),
            SubscriptionBack::Ring(ring) => ring.holds(),
        }
    }

    /// Messages dropped because the queue was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        match &self.back {
            SubscriptionBack::Queue(queue) => queue.mailbox.dropped(),
            SubscriptionBack::Ring(ring) => ring.dropped(),
        }
    }

    fn poll_recv(&self, context: &Context<'_>) -> Poll<Result<Received, RecvError>> {
        match &self.back {
            SubscriptionBack::Queue(queue) => queue.mailbox.poll_recv(context),
            SubscriptionBack::Ring(ring) => ring.poll_recv(context),
        }
    }

    fn wait(&self, deadline: Option<Instant>) -> Result<Option<Received>, RecvError> {
        match &self.back {
            SubscriptionBack::Queue(queue) => queue.mailbox.recv(deadline),
            SubscriptionBack::Ring(ring) => ring.wait(deadline),
        }
    }
}

/// Iterator of [`Subscription::messages`].
#[derive(Debug)]
pub struct Messages<'a> {
    subscription: &'a Subscription,
    skip: bool,
    skipped: u64,
    ended: bool,
}

/// Why [`Messages`] has no message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessagesError {
    /// No more messages will come. The last item.
    Ended(RecvError),
    /// This is missing before the next message.
    Missing(Received),
}

impl fmt::Display for MessagesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(error) => error.fmt(f),
            Self::Missing(missing) => write!(
                f,
                "{missing}; take the next message to go on, or read with `skipping_losses` or `recv`"
            ),
        }
    }
}

impl std::error::Error for MessagesError {}

impl Messages<'_> {
    /// Goes on where something is missing, and only counts it.
    #[must_use]
    pub fn skipping_losses(mut self) -> Self {
        self.skip = true;
        self
    }

    /// Number of messages missing so far and skipped: see [`Received::missing`].
    #[must_use]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

impl Iterator for Messages<'_> {
    type Item = Result<Message, MessagesError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            match self.subscription.recv() {
                Ok(Received::Message(message)) => return Some(Ok(message)),
                // Nothing is missing there.
                Ok(Received::Back(_)) => {}
                Ok(missing) if self.skip => self.skipped += missing.missing(),
                Ok(missing) => return Some(Err(MessagesError::Missing(missing))),
                Err(end) => {
                    self.ended = true;
                    let asked_for = end == RecvError::Closed(CloseReason::ShutDown);
                    return (!asked_for).then_some(Err(MessagesError::Ended(end)));
                }
            }
        }
        None
    }
}

/// As [`Subscription::messages`].
impl<'a> IntoIterator for &'a Subscription {
    type Item = Result<Message, MessagesError>;
    type IntoIter = Messages<'a>;

    fn into_iter(self) -> Messages<'a> {
        self.messages()
    }
}

/// Needs no executor of its own: any will do. What is missing comes in its place; the end comes
/// once, as an error, and then `None`.
impl Stream for Subscription {
    type Item = Result<Received, RecvError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let received = self.poll_recv(context);
        self.ended = matches!(received, Poll::Ready(Err(_)));
        received.map(Some)
    }
}

/// Upcalls for some groups; made by [`Group::subscribe_with`](crate::Group::subscribe_with).
/// Dropping it leaves those groups that no subscription of the node holds; an upcall that runs
/// at that moment runs to its end, and a few more may follow before the core thread has heard.
#[derive(Debug)]
pub struct Upcalls {
    back: UpcallsBack,
}

#[derive(Debug)]
enum UpcallsBack {
    Own(Membership),
    Attached(AttachedUpcalls),
}

impl Upcalls {
    pub(crate) fn own(membership: Membership) -> Self {
        let back = UpcallsBack::Own(membership);
        Self { back }
    }

    pub(crate) fn attached(upcalls: AttachedUpcalls) -> Self {
        let back = UpcallsBack::Attached(upcalls);
        Self { back }
    }

    /// The groups subscribed.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        let names = match &self.back {
            UpcallsBack::Own(membership) => &*membership.names,
            UpcallsBack::Attached(upcalls) => upcalls.names(),
        };
        names.iter().map(|name| &**name)
    }
}
