use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use qsm_net::IoReport;
use qsm_wire::NodeId;
use qsm_wire::membership::{GroupRow, NodeRow, QueryKind, RegionRow};

use crate::error::{CloseReason, RecvError, RequestError, StartError};
use crate::handle::builder::Builder;
use crate::handle::events::Events;
use crate::handle::publisher::Publisher;
use crate::handle::subscription::{Membership, SubscribeOptions, Subscription, Upcalls};
use crate::handoff::command::{Command, Rows, Subscribe};
use crate::handoff::mailbox::Mailbox;
use crate::handoff::received::Delivery;
use crate::handoff::reply::Answer;
use crate::handoff::sink::Sink;
use crate::report::CoreReport;
use crate::runtime::core::{probe, start};
use crate::runtime::engine::Engines;
use crate::shard::Share as CoreShare;
use crate::snapshot::Snapshot;

/// A member of a cluster: a handle of the core thread, or the core threads
/// ([`Builder::cores`]), that do all its work.
///
/// Handles are cheap to clone and may be used from any thread. The node ends with
/// [`Node::shutdown`], or when its last handle is dropped; then its subscriptions and publishers
/// report [`CloseReason::ShutDown`].
///
/// Calls that wait for a core thread cannot be made on one of the same node, that is, in upcalls
/// and feeds; they return [`RequestError::OnCoreThread`] there.
#[derive(Clone)]
pub struct Node {
    pub(crate) engines: Arc<Engines>,
}

impl Node {
    /// Begins to describe a node.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// The node's id, drawn at random at its start: that of its first core thread.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.engines.0[0].id
    }

    /// The id of each core thread. By these other nodes know the members that this node is, and
    /// [`Message::sender`](crate::Message::sender) is the one whose groups the message's is among.
    /// They follow each other.
    pub fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.engines.iter().map(|engine| engine.id)
    }

    /// The place of the core thread that has the group, from 0. It follows from the name and the
    /// number of cores, so that it is the same on all nodes with as many.
    #[must_use]
    pub fn core_of(&self, group: impl AsRef<str>) -> usize {
        self.engines.shards().of(group.as_ref())
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
        let names = names(groups);
        let shares = self.engines.shards().split(&names);
        let mailbox = Mailbox::new(shares.len(), options.capacity, options.overflow);
        let sinks = mailbox.inboxes().map(Arc::clone).map(Sink::Queue);
        let membership = self.enter(names, shares.into_iter().zip(sinks))?;
        Ok(Subscription {
            mailbox,
            membership,
            ended: false,
        })
    }

    /// As [`Node::subscribe`], but each message, and what is missing before it, is handed to
    /// `upcall` on the core thread, at the moment it is delivered, and without being copied.
    ///
    /// The upcall must be short: while it runs, this node neither receives, sends nor
    /// acknowledges. It must not panic; if it does, the node ends with
    /// [`CloseReason::Panicked`].
    ///
    /// It runs on one core thread. For groups that lie on several, see
    /// [`Node::subscribe_per_core`].
    ///
    /// # Errors
    /// As [`Node::subscribe`]; [`RequestError::Refused`] if the groups lie on several core threads.
    pub fn subscribe_with<I>(
        &self,
        groups: I,
        upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Upcalls, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let names = names(groups);
        let shares = self.engines.shards().split(&names);
        if shares.len() > 1 {
            return Err(several_cores(&shares));
        }
        let sink = Sink::Upcall(Box::new(upcall));
        let membership = self.enter(names, shares.into_iter().zip([sink]))?;
        Ok(Upcalls { membership })
    }

    /// As [`Node::subscribe_with`], with an upcall for each core thread that has some of the
    /// groups: `make` is called here, with the place of each ([`Node::core_of`]), and what it
    /// returns runs on that one only. So upcalls of several cores run at the same time.
    ///
    /// # Errors
    /// As [`Node::subscribe`].
    pub fn subscribe_per_core<I, U>(
        &self,
        groups: I,
        mut make: impl FnMut(usize) -> U,
    ) -> Result<Upcalls, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
        U: FnMut(Delivery<'_>) + Send + 'static,
    {
        let names = names(groups);
        let shares = self.engines.shards().split(&names);
        let shares = shares.into_iter().map(|share| {
            let sink = Sink::Upcall(Box::new(make(share.core)));
            (share, sink)
        });
        let membership = self.enter(names, shares)?;
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
        let mut answers = Vec::new();
        for CoreShare { core, names } in self.engines.shards().split(&names(groups)) {
            let shared = &self.engines.at(core).shared;
            let leave = |reply, deadline| Command::Leave {
                names,
                deadline,
                reply,
            };
            answers.push(shared.request("leaving groups", None, leave)?);
        }
        answers.into_iter().try_for_each(Answer::wait)
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
        let (names, shards) = (names(groups), self.engines.shards());
        let doing = "entering groups; is a membership service running and reachable?";
        let (mut cores, mut answers) = (Vec::new(), Vec::new());
        for CoreShare { core, names } in shards.split(&names) {
            let engine = self.engines.at(core);
            cores.push(core);
            let publish = |reply, deadline| Command::Publish {
                names,
                deadline,
                reply,
            };
            answers.push((engine, engine.shared.request(doing, None, publish)?));
        }
        let made = answers.into_iter().map(|(engine, answer)| {
            let publisher = |outlet| Publisher {
                outlet,
                shared: Arc::clone(&engine.shared),
                loan: Arc::clone(&engine.loan),
            };
            Ok(answer.wait()?.into_iter().map(publisher).collect())
        });
        // All are waited for, so that what some have made is given up if another fails.
        let made: Vec<Result<VecDeque<Publisher>, _>> = made.collect();
        let mut made = made.into_iter().collect::<Result<Vec<_>, _>>()?;
        let made_for = |name: &Arc<str>| {
            let place = cores.iter().position(|core| *core == shards.of(name))?;
            made[place].pop_front()
        };
        Ok(names.iter().filter_map(made_for).collect())
    }

    /// Waits until the membership service has admitted this node. Not needed before other calls:
    /// they wait by themselves.
    ///
    /// # Errors
    /// [`RequestError`]: timeout, or the node has ended.
    pub fn wait_admitted(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "waiting to be admitted; is a membership service running and reachable?";
        let admitted = |reply, deadline| Command::WaitAdmitted { deadline, reply };
        self.engines
            .ask_all(doing, Some(timeout), admitted)
            .map(drop)
    }

    /// Waits until everything accepted before this call is stable: every live member of its
    /// groups has it, and nobody needs to keep it.
    ///
    /// # Errors
    /// [`RequestError`]: timeout (what was accepted is still being delivered), or the node has
    /// ended.
    pub fn flush(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "waiting for all receivers to have everything";
        let flush = |reply, deadline| Command::Flush { deadline, reply };
        self.engines.ask_all(doing, Some(timeout), flush).map(drop)
    }

    /// A reader of all events from now on.
    #[must_use]
    pub fn events(&self) -> Events {
        let events = Events::new(self.engines.0.len());
        for (engine, inbox) in self.engines.iter().zip(events.mailbox.inboxes()) {
            let shared = &engine.shared;
            shared.tell(Command::Events {
                inbox: Arc::clone(inbox),
            });
            // One that has ended reads no commands.
            if let Some(reason) = shared.closed() {
                inbox.close(RecvError::Closed(reason.clone()));
            }
        }
        // An end before this is none of the events from now on.
        let ended = self.engines.closed().is_some();
        events.ended.store(ended, Ordering::Relaxed);
        events
    }

    /// Counters, queues and sockets, now; of a node that has ended, at its end. Of a node with
    /// several core threads, the sum; see [`Node::core_stats`].
    ///
    /// # Errors
    /// [`RequestError`]: called on a core thread, or the node ended before it could tell.
    pub fn stats(&self) -> Result<Snapshot, RequestError> {
        let cores = self.core_stats()?.into_iter();
        // There is at least one core.
        let sum = cores.reduce(Snapshot::add);
        sum.ok_or(RequestError::Closed(CloseReason::ShutDown))
    }

    /// The same of each core thread, in order: whether they share the work evenly.
    ///
    /// # Errors
    /// As [`Node::stats`].
    pub fn core_stats(&self) -> Result<Vec<Snapshot>, RequestError> {
        let snapshot = |reply, _| Command::Snapshot { reply };
        let answers = self.engines.iter().map(|engine| {
            let answer = engine.shared.ask("reading counters", None, snapshot);
            match answer {
                Err(RequestError::Closed(reason)) => {
                    let last = engine.shared.last_snapshot();
                    last.ok_or(RequestError::Closed(reason))
                }
                other => other,
            }
        });
        answers.collect()
    }

    /// What the sockets chose and were granted, and why; of the first core thread, which those of
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
        self.engines.closed().cloned()
    }

    /// Ends the node: accepts nothing more, waits until everything accepted is stable, says
    /// goodbye to the cluster, and stops the core thread and the embedded service, if any.
    ///
    /// # Errors
    /// [`RequestError::Timeout`]: the node has ended, but some receivers may lack messages, or
    /// some peers the goodbye. [`RequestError::Closed`]: it had ended before, for another reason.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "delivering everything before the end";
        let shut_down = |reply, deadline| Command::Shutdown {
            deadline,
            reason: CloseReason::ShutDown,
            reply: Some(reply),
        };
        let answer = self.engines.ask_all(doing, Some(timeout), shut_down);
        if answer != Err(RequestError::OnCoreThread) {
            self.engines.join();
        }
        match answer {
            Ok(_) | Err(RequestError::Closed(CloseReason::ShutDown)) => Ok(()),
            Err(other) => Err(other),
        }
    }

    /// As [`Node::flush`], but gives up when nobody wants to know any more.
    pub(crate) fn flush_unless(
        &self,
        timeout: Duration,
        over: impl Fn() -> bool,
    ) -> Result<(), RequestError> {
        let doing = "waiting for all receivers to have everything";
        let flush = |reply, deadline| Command::Flush { deadline, reply };
        let requests = self
            .engines
            .iter()
            .map(|engine| engine.shared.request(doing, Some(timeout), flush));
        let answers = requests.collect::<Result<Vec<_>, _>>()?;
        let mut answers = answers.into_iter();
        answers.try_for_each(|answer| answer.wait_unless(&over))
    }

    /// The groups of each core that has some of these.
    pub(crate) fn shares(&self, names: &[Arc<str>]) -> Vec<CoreShare> {
        self.engines.shards().split(names)
    }

    /// Lets those who wait for room in publishers' queues look again.
    pub(crate) fn wake_publishers(&self) {
        for engine in self.engines.iter() {
            engine.shared.gate.sleepers.wake();
        }
    }

    pub(crate) fn message_bytes_max(&self) -> usize {
        self.engines.first().message_bytes_max
    }

    /// Subscribes at each core that has some of the groups.
    pub(crate) fn enter(
        &self,
        names: Vec<Arc<str>>,
        shares: impl Iterator<Item = (CoreShare, Sink)>,
    ) -> Result<Membership, RequestError> {
        // Made before the requests: if one fails, dropping this withdraws them all.
        let mut membership = Membership {
            places: Vec::new(),
            names: names.into(),
        };
        let doing = "entering groups; is a membership service running and reachable?";
        let mut answers = Vec::new();
        for (share, sink) in shares {
            let shared = &self.engines.at(share.core).shared;
            let (key, names) = (shared.key(), share.names.into());
            membership.places.push((Arc::clone(shared), key));
            let subscribe = |reply, deadline| {
                Command::Subscribe(Subscribe {
                    key,
                    names,
                    sink,
                    deadline,
                    reply,
                })
            };
            answers.push(shared.request(doing, None, subscribe)?);
        }
        answers.into_iter().try_for_each(Answer::wait)?;
        Ok(membership)
    }

    fn query(&self, kind: QueryKind) -> Result<Rows, RequestError> {
        let doing = "asking the membership service; is one running and reachable?";
        let query = |reply, deadline| Command::Query {
            kind,
            deadline,
            reply,
        };
        self.engines.first().ask(doing, None, query)
    }
}

impl Builder {
    /// Opens the sockets and starts the core threads. Does not wait for the cluster; see
    /// [`Node::wait_admitted`].
    ///
    /// # Errors
    /// [`StartError`], whose text says what to do.
    pub fn start(self) -> Result<Node, StartError> {
        let engines = Arc::new(start(self.settings)?);
        Ok(Node { engines })
    }

    /// What each core thread would be granted: opens the sockets and starts the threads as
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
            .field("cores", &self.engines.0.len())
            .field("closed", &self.engines.closed())
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

fn several_cores(shares: &[CoreShare]) -> RequestError {
    let example = |share: &CoreShare| format!("{} on core {}", share.names[0], share.core);
    let examples: Vec<String> = shares.iter().take(2).map(example).collect();
    RequestError::Refused {
        reason: format!(
            "an upcall runs on one core thread, and these groups lie on {} ({}); give each core \
             its own with `Node::subscribe_per_core`, or subscribe them apart",
            shares.len(),
            examples.join(", ")
        ),
    }
}

fn mixed_up() -> RequestError {
    RequestError::Refused {
        reason: "the membership service answered another question; is it of the same version?"
            .to_owned(),
    }
}
