use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{fmt, sync::Mutex, sync::PoisonError};

use qsm_net::IoReport;
use qsm_wire::NodeId;
use qsm_wire::membership::{GroupRow, NodeRow, QueryKind, RegionRow};

use crate::builder::Builder;
use crate::error::{CloseReason, RequestError};
use crate::event::Events;
use crate::inbox::{Capacity, Inbox};
use crate::publisher::Publisher;
use crate::shared::{Command, Rows, Shared, Sink, Subscribe};
use crate::snapshot::Snapshot;
use crate::subscription::{
    Delivery, Membership, Overflow, SubscribeOptions, Subscription, Upcalls,
};

/// How long dropping the last handle of a node may take.
const DROP_TIMEOUT: Duration = Duration::from_millis(500);

/// A member of a cluster: a handle of the core thread that does all its work.
///
/// Handles are cheap to clone and may be used from any thread. The node ends with
/// [`Node::shutdown`], or when its last handle is dropped; then its subscriptions and publishers
/// report [`CloseReason::ShutDown`].
///
/// Calls that wait for the core thread cannot be made on it, that is, in upcalls and feeds; they
/// return [`RequestError::OnCoreThread`] there.
#[derive(Clone)]
pub struct Node {
    pub(crate) handle: Arc<Handle>,
}

pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: Mutex<Option<JoinHandle<()>>>,
    pub(crate) id: NodeId,
}

impl Node {
    /// Begins to describe a node.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The node's id, drawn at random at its start.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.handle.id
    }

    /// Receives the messages of these groups, in one request however many they are.
    ///
    /// Returns when the membership service has confirmed: from then on, whatever a sender
    /// publishes that knows of this node is received.
    ///
    /// # Errors
    /// [`RequestError`]: a name is refused, no membership service answers in time, or the node
    /// has ended.
    pub fn subscribe<I>(&self, groups: I) -> Result<Subscription, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.subscribe_queued(groups, SubscribeOptions::default())
    }

    /// As [`Node::subscribe`], with a queue of one's own choice.
    ///
    /// # Errors
    /// As [`Node::subscribe`].
    pub fn subscribe_queued<I>(
        &self,
        groups: I,
        options: SubscribeOptions,
    ) -> Result<Subscription, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let inbox = Arc::new(Inbox::new(options.capacity, options.overflow));
        let membership = self.enter(groups, Sink::Queue(Arc::clone(&inbox)))?;
        Ok(Subscription { inbox, membership })
    }

    /// As [`Node::subscribe`], but each message is handed to `upcall` on the core thread, at the
    /// moment it is delivered, and without being copied (R128).
    ///
    /// The upcall must be short: while it runs, this node neither receives, sends nor
    /// acknowledges. It must not panic; if it does, the node ends with
    /// [`CloseReason::Panicked`].
    ///
    /// # Errors
    /// As [`Node::subscribe`].
    pub fn subscribe_with<I>(
        &self,
        groups: I,
        upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Upcalls, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let membership = self.enter(groups, Sink::Upcall(Box::new(upcall)))?;
        Ok(Upcalls { membership })
    }

    /// Stops receiving these groups, for all subscriptions of this node. Groups not subscribed
    /// are ignored.
    ///
    /// # Errors
    /// [`RequestError`]: no membership service answers in time, or the node has ended.
    pub fn leave<I>(&self, groups: I) -> Result<(), RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let names = names(groups);
        self.shared()
            .ask("leaving groups", None, |reply, deadline| Command::Leave {
                names,
                deadline,
                reply,
            })
    }

    /// Prepares to send to a group; the node need not be a member of it.
    ///
    /// # Errors
    /// [`RequestError`]: the name is refused, no membership service answers in time, or the node
    /// has ended.
    pub fn publisher(&self, group: impl AsRef<str>) -> Result<Publisher, RequestError> {
        let mut publishers = self.publishers([group])?;
        // One name, one publisher; an answer without it could only come from a node that ended.
        publishers
            .pop()
            .ok_or(RequestError::Closed(CloseReason::ShutDown))
    }

    /// Prepares to send to many groups, in one request; publishers come in the order of the
    /// names.
    ///
    /// # Errors
    /// As [`Node::publisher`].
    pub fn publishers<I>(&self, groups: I) -> Result<Vec<Publisher>, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let (names, shared) = (names(groups), self.shared());
        let doing = "entering groups; is a membership service running and reachable?";
        let outlets = shared.ask(doing, None, |reply, deadline| Command::Publish {
            names,
            deadline,
            reply,
        })?;
        let publisher = |outlet| Publisher {
            outlet,
            shared: Arc::clone(shared),
        };
        Ok(outlets.into_iter().map(publisher).collect())
    }

    /// Waits until the membership service has admitted this node. Not needed before other calls:
    /// they wait by themselves.
    ///
    /// # Errors
    /// [`RequestError`]: timeout, or the node has ended.
    pub fn wait_admitted(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "waiting to be admitted; is a membership service running and reachable?";
        self.shared().ask(doing, Some(timeout), |reply, deadline| {
            Command::WaitAdmitted { deadline, reply }
        })
    }

    /// Waits until everything accepted before this call is stable: every live member of its
    /// groups has it, and nobody needs to keep it.
    ///
    /// # Errors
    /// [`RequestError`]: timeout (what was accepted is still being delivered), or the node has
    /// ended.
    pub fn flush(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "waiting for all receivers to have everything";
        self.shared()
            .ask(doing, Some(timeout), |reply, deadline| Command::Flush {
                deadline,
                reply,
            })
    }

    /// A reader of all events from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        let (messages, bytes) = (Events::CAPACITY, usize::MAX);
        let capacity = Capacity { messages, bytes };
        let inbox = Arc::new(Inbox::new(capacity, Overflow::DropOldest));
        self.shared().tell(Command::Events {
            inbox: Arc::clone(&inbox),
        });
        // A node that has ended reads no commands.
        if let Some(reason) = self.shared().closed() {
            inbox.close(crate::error::RecvError::Closed(reason.clone()));
        }
        Events { inbox }
    }

    /// Counters, queues and sockets, now; of a node that has ended, at its end.
    ///
    /// # Errors
    /// [`RequestError`]: called on the core thread, or the node ended before it could tell.
    pub fn stats(&self) -> Result<Snapshot, RequestError> {
        let answer = self
            .shared()
            .ask("reading counters", None, |reply, _| Command::Snapshot {
                reply,
            });
        match answer {
            Err(RequestError::Closed(reason)) => {
                let last = self.shared().last_snapshot();
                last.ok_or(RequestError::Closed(reason))
            }
            other => other,
        }
    }

    /// What the sockets chose and were granted, and why.
    ///
    /// # Errors
    /// As [`Node::stats`].
    pub fn io_report(&self) -> Result<IoReport, RequestError> {
        self.stats().map(|snapshot| snapshot.io)
    }

    /// All nodes of the cluster, as the membership service knows them.
    ///
    /// # Errors
    /// [`RequestError`]: no membership service answers in time, or the node has ended.
    pub fn nodes(&self) -> Result<Vec<NodeRow>, RequestError> {
        match self.query(QueryKind::Nodes)? {
            Rows::Nodes(rows) => Ok(rows),
            Rows::Groups(_) | Rows::Regions(_) => Err(mixed_up()),
        }
    }

    /// All groups of the cluster.
    ///
    /// # Errors
    /// As [`Node::nodes`].
    pub fn groups(&self) -> Result<Vec<GroupRow>, RequestError> {
        match self.query(QueryKind::Groups)? {
            Rows::Groups(rows) => Ok(rows),
            Rows::Nodes(_) | Rows::Regions(_) => Err(mixed_up()),
        }
    }

    /// All regions of the cluster: nodes with the same groups.
    ///
    /// # Errors
    /// As [`Node::nodes`].
    pub fn regions(&self) -> Result<Vec<RegionRow>, RequestError> {
        match self.query(QueryKind::Regions)? {
            Rows::Regions(rows) => Ok(rows),
            Rows::Nodes(_) | Rows::Groups(_) => Err(mixed_up()),
        }
    }

    /// Why the node has ended, if it has.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        self.shared().closed().cloned()
    }

    /// Ends the node: accepts nothing more, waits until everything accepted is stable, says
    /// goodbye to the cluster, and stops the core thread and the embedded service, if any.
    ///
    /// # Errors
    /// [`RequestError::Timeout`]: the node has ended, but some receivers may lack messages, or
    /// some peers the goodbye. [`RequestError::Closed`]: it had ended before, for another reason.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "delivering everything before the end";
        let answer = self
            .shared()
            .ask(doing, Some(timeout), |reply, deadline| Command::Shutdown {
                deadline,
                reply: Some(reply),
            });
        if answer != Err(RequestError::OnCoreThread) {
            self.handle.join();
        }
        match answer {
            Err(RequestError::Closed(CloseReason::ShutDown)) => Ok(()),
            other => other,
        }
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.handle.shared
    }

    fn enter<I>(&self, groups: I, sink: Sink) -> Result<Membership, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let shared = Arc::clone(self.shared());
        let key = shared.key();
        let names: Arc<[Arc<str>]> = names(groups).into();
        // Made before the request: if that fails, dropping this withdraws it.
        let membership = Membership {
            shared,
            key,
            names: Arc::clone(&names),
        };
        let doing = "entering groups; is a membership service running and reachable?";
        membership.shared.ask(doing, None, |reply, deadline| {
            Command::Subscribe(Subscribe {
                key,
                names,
                sink,
                deadline,
                reply,
            })
        })?;
        Ok(membership)
    }

    fn query(&self, kind: QueryKind) -> Result<Rows, RequestError> {
        let doing = "asking the membership service; is one running and reachable?";
        self.shared()
            .ask(doing, None, |reply, deadline| Command::Query {
                kind,
                deadline,
                reply,
            })
    }
}

impl Handle {
    /// Waits for the core thread's end.
    fn join(&self) {
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // A panic of the core thread was caught and told within it.
            drop(thread.join());
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.shared.closed().is_none() {
            let deadline = Instant::now() + DROP_TIMEOUT;
            self.shared.tell(Command::Shutdown {
                deadline,
                reply: None,
            });
        }
        if !self.shared.on_core_thread() {
            self.join();
        }
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("id", &format_args!("{:x}", self.id().0))
            .field("closed", &self.shared().closed())
            .finish_non_exhaustive()
    }
}

fn names<I>(groups: I) -> Vec<Arc<str>>
where
    I: IntoIterator<Item: AsRef<str>>,
{
    groups
        .into_iter()
        .map(|name| Arc::from(name.as_ref()))
        .collect()
}

fn mixed_up() -> RequestError {
    RequestError::Refused {
        reason: "the membership service answered another question; is it of the same version?"
            .to_owned(),
    }
}
