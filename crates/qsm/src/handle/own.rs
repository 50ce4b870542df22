//! The node of this process: its core threads, and what they are asked for. A back-end of the
//! handles.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use qsm_admin::{AdminSocket, Answer as AdminAnswer, Question};
use qsm_exporter::Exporter;
use qsm_metrics::prometheus::Page;
use qsm_proto::account::{GroupAccount, MessageAccount};
use qsm_proto::send::Batching;
use qsm_wire::membership::{AnswerRows, QueryKind};
use qsm_wire::{NodeId, Origin};

use crate::error::{CloseReason, Flushed, RecvError, RequestError, StartError};
use crate::handle::admin::{Names as NodeNames, group_state, message_state, node_state};
use crate::handle::cores::{Cores, Membership};
use crate::handle::events::Events;
use crate::handle::names::Names;
use crate::handle::own_publisher::OwnPublisher;
use crate::handle::subscription::{Entry, QueuedSubscription};
use crate::handoff::command::{Command, FLUSHING, MessageQuestion};
use crate::handoff::inbox::Inbox;
use crate::handoff::latest::Turn;
use crate::handoff::mailbox::Mailbox;
use crate::handoff::message::{Capacity, Overflow};
use crate::handoff::mode::DeliveryMode;
use crate::handoff::outlet::Outlet;
use crate::handoff::received::{Delivery, Received};
use crate::handoff::reply::Answer;
use crate::handoff::sink::{ForeignQueue, Sink};
use crate::handoff::void::{Told, ToldUpto};
use crate::runtime::engine::{Engine, Engines};
use crate::shard::Share as CoreShare;
use crate::snapshot::Snapshot;

/// Time for the membership service to tell the names of nodes; without them there are ids.
const NAMES: Duration = Duration::from_secs(2);

/// A core's answer about queues for publishers.
type Outlets<'a> = Answer<'a, Vec<Arc<Outlet>>>;

/// A node of this process.
#[derive(Clone)]
pub(crate) struct OwnNode {
    engines: Arc<Engines>,
    pub(crate) cores: Cores,
    pub(crate) names: Arc<Names>,
    /// Ends with the last handle.
    exporter: Option<Arc<Exporter>>,
    /// Likewise.
    admin: Option<Arc<AdminSocket>>,
}

impl OwnNode {
    pub(crate) fn new(engines: Engines) -> Self {
        let cores = engines.iter().map(|engine| Arc::clone(&engine.shared));
        Self {
            cores: Cores(cores.collect()),
            engines: Arc::new(engines),
            names: Arc::default(),
            exporter: None,
            admin: None,
        }
    }

    /// Serves the metrics of all core threads. Who asks does not keep the node alive.
    pub(crate) fn serve_metrics(&mut self, address: SocketAddr) -> Result<(), StartError> {
        let engines = Arc::downgrade(&self.engines);
        let page = move || {
            let ended = || "the node has ended".to_owned();
            let engines = engines.upgrade().ok_or_else(ended)?;
            let snapshots = snapshots(&engines).map_err(|error| error.to_string())?;
            let mut page = Page::new();
            for snapshot in snapshots {
                snapshot.add_to(&mut page, &[]);
            }
            Ok(page.to_open_metrics())
        };
        let exporter = Exporter::start(address, page).map_err(StartError::Metrics)?;
        self.exporter = Some(Arc::new(exporter));
        Ok(())
    }

    /// Opens the local socket that operators ask, if the system gives one. Who asks does not keep
    /// the node alive.
    pub(crate) fn open_admin(&mut self) {
        let engines = Arc::downgrade(&self.engines);
        let (cores, names) = (self.cores.clone(), Arc::clone(&self.names));
        let answer = move |question| {
            let engines = engines.upgrade().ok_or("the node has ended")?;
            let node = Self {
                engines,
                cores: cores.clone(),
                names: Arc::clone(&names),
                exporter: None,
                admin: None,
            };
            node.answer(question)
        };
        self.admin = AdminSocket::open(answer).ok().map(Arc::new);
    }

    fn answer(&self, question: Question) -> Result<AdminAnswer, String> {
        let failed = |error: RequestError| error.to_string();
        match question {
            Question::Node => Ok(AdminAnswer::Node(node_state(self.stats().map_err(failed)?))),
            Question::Counters => {
                let text = self.stats().map_err(failed)?.to_json();
                AdminAnswer::counters(&text).map_err(|error| error.to_string())
            }
            Question::Group { name } => {
                let account = self.account(&name).map_err(failed)?;
                let state = |account| group_state(name, &account, &self.node_names());
                Ok(AdminAnswer::Group(account.map(state)))
            }
            Question::Message {
                group,
                sender,
                number,
            } => {
                let names = self.node_names();
                let sender = names.origin(&sender)?;
                let account = self.message_account(&group, sender, number);
                let state = |account| message_state(group, &account, &names);
                Ok(AdminAnswer::Message(account.map_err(failed)?.map(state)))
            }
            _ => Err("this version of the node does not know the question".to_owned()),
        }
    }

    /// The names of all nodes, if the membership service tells them.
    fn node_names(&self) -> NodeNames {
        match self.cores.query_within(QueryKind::Nodes, Some(NAMES)) {
            Ok(AnswerRows::Nodes(rows)) => NodeNames::new(rows),
            _ => NodeNames::default(),
        }
    }

    pub(crate) fn admin_socket(&self) -> Option<&str> {
        self.admin.as_ref().map(|admin| admin.name())
    }

    pub(crate) fn metrics_address(&self) -> Option<SocketAddr> {
        self.exporter.as_ref().map(|exporter| exporter.address())
    }

    pub(crate) fn id(&self) -> NodeId {
        self.engines.0[0].id
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = NodeId> {
        self.engines.iter().map(|engine| engine.id)
    }

    pub(crate) fn core_of(&self, group: &str) -> usize {
        self.cores.shards().of(group)
    }

    pub(crate) fn subscribe(
        &self,
        names: Vec<Arc<str>>,
        delivery: DeliveryMode,
        capacity: Capacity,
        overflow: Overflow,
    ) -> Result<QueuedSubscription, RequestError> {
        let (mailbox, shares) = self.queue(&names, capacity, overflow);
        let membership = self.cores.enter(names, delivery, shares)?;
        Ok(QueuedSubscription {
            mailbox,
            entry: Entry::Named(membership),
        })
    }

    pub(crate) async fn subscribe_async(
        &self,
        names: Vec<Arc<str>>,
        delivery: DeliveryMode,
        capacity: Capacity,
        overflow: Overflow,
    ) -> Result<QueuedSubscription, RequestError> {
        let (mailbox, shares) = self.queue(&names, capacity, overflow);
        let membership = self.cores.enter_async(names, delivery, shares).await?;
        Ok(QueuedSubscription {
            mailbox,
            entry: Entry::Named(membership),
        })
    }

    /// A queue for the groups, and what each core that has some of them is to put in there.
    fn queue(
        &self,
        names: &[Arc<str>],
        capacity: Capacity,
        overflow: Overflow,
    ) -> (
        Mailbox<Received>,
        impl Iterator<Item = (CoreShare, Sink)> + use<>,
    ) {
        let shares = self.cores.shards().split(names);
        let mailbox = Mailbox::new(shares.len(), capacity, overflow);
        let sinks: Vec<_> = mailbox.inboxes().map(Arc::clone).map(Sink::Queue).collect();
        (mailbox, shares.into_iter().zip(sinks))
    }

    pub(crate) fn subscribe_with(
        &self,
        names: Vec<Arc<str>>,
        delivery: DeliveryMode,
        upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Membership, RequestError> {
        let shares = self.cores.shards().split(&names);
        if shares.len() > 1 {
            return Err(several_cores(&shares));
        }
        let sink = Sink::Upcall(Box::new(upcall));
        let shares = shares.into_iter().zip([sink]);
        self.cores.enter(names, delivery, shares)
    }

    pub(crate) fn subscribe_per_core<U>(
        &self,
        names: Vec<Arc<str>>,
        delivery: DeliveryMode,
        mut make: impl FnMut(usize) -> U,
    ) -> Result<Membership, RequestError>
    where
        U: FnMut(Delivery<'_>) + Send + 'static,
    {
        let shares = self.cores.shards().split(&names).into_iter().map(|share| {
            let sink = Sink::Upcall(Box::new(make(share.core)));
            (share, sink)
        });
        self.cores.enter(names, delivery, shares)
    }

    /// Has messages written to an inbox of each core that has some of the groups.
    pub(crate) fn post<Q: ForeignQueue + 'static>(
        &self,
        names: Vec<Arc<str>>,
        delivery: DeliveryMode,
        capacity: Capacity,
        overflow: Overflow,
        make: impl Fn(&Arc<Inbox<Turn>>) -> Q,
    ) -> Result<(Mailbox<Turn>, Membership), RequestError> {
        let shares = self.cores.shards().split(&names);
        let mailbox = Mailbox::new(shares.len(), capacity, overflow);
        let inboxes = mailbox.inboxes();
        let sinks: Vec<_> = inboxes
            .map(|inbox| Sink::Foreign(Box::new(make(inbox))))
            .collect();
        let shares = shares.into_iter().zip(sinks);
        let membership = self.cores.enter(names, delivery, shares)?;
        Ok((mailbox, membership))
    }

    pub(crate) fn leave(&self, names: &[Arc<str>]) -> Result<(), RequestError> {
        let mut answers = Vec::new();
        for CoreShare { core, names } in self.cores.shards().split(names) {
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

    /// Publishers come in the order of the names.
    pub(crate) fn publishers(
        &self,
        names: &[Arc<str>],
        batching: Option<Batching>,
    ) -> Result<Vec<OwnPublisher>, RequestError> {
        let asked = self.ask_to_publish(names, batching)?;
        let made = asked.into_iter().map(|(engine, answer)| {
            let outlets = answer.wait();
            outlets.map(|outlets| self.publishers_at(engine, outlets))
        });
        // All are waited for, so that what some have made is given up if another fails.
        let made: Vec<Result<_, _>> = made.collect();
        Ok(self.in_order(names, made.into_iter().collect::<Result<_, _>>()?))
    }

    pub(crate) async fn publishers_async(
        &self,
        names: &[Arc<str>],
        batching: Option<Batching>,
    ) -> Result<Vec<OwnPublisher>, RequestError> {
        let mut made = Vec::new();
        for (engine, answer) in self.ask_to_publish(names, batching)? {
            // Answers that are not waited for any more are refused, and what they bring given up.
            made.push(self.publishers_at(engine, answer.arrive().await?));
        }
        Ok(self.in_order(names, made))
    }

    /// Asks each core that has some of the groups.
    fn ask_to_publish(
        &self,
        names: &[Arc<str>],
        batching: Option<Batching>,
    ) -> Result<Vec<(&Engine, Outlets<'_>)>, RequestError> {
        let doing = "entering groups; is a membership service running and reachable?";
        let shares = self.engines.shards().split(names);
        let ask = |CoreShare { core, names }| {
            let engine = self.engines.at(core);
            let publish = |reply, deadline| Command::Publish {
                names,
                batching,
                deadline,
                reply,
            };
            Ok((engine, engine.shared.request(doing, None, publish)?))
        };
        shares.into_iter().map(ask).collect()
    }

    fn publishers_at(&self, engine: &Engine, outlets: Vec<Arc<Outlet>>) -> VecDeque<OwnPublisher> {
        let publisher = |outlet| OwnPublisher {
            outlet,
            shared: Arc::clone(&engine.shared),
            loan: Arc::clone(&engine.loan),
            cores: self.cores.clone(),
            names: Arc::clone(&self.names),
        };
        outlets.into_iter().map(publisher).collect()
    }

    /// What the cores have made, each in its order, in the order of the names.
    fn in_order(
        &self,
        names: &[Arc<str>],
        mut made: Vec<VecDeque<OwnPublisher>>,
    ) -> Vec<OwnPublisher> {
        let shards = self.engines.shards();
        let shares = shards.split(names).into_iter();
        let cores: Vec<usize> = shares.map(|share| share.core).collect();
        let made_for = |name: &Arc<str>| {
            let place = cores.iter().position(|core| *core == shards.of(name))?;
            made[place].pop_front()
        };
        names.iter().filter_map(made_for).collect()
    }

    pub(crate) fn describe(&self, text: String) {
        self.engines.at(0).shared.tell(Command::Describe { text });
    }

    pub(crate) fn wait_admitted(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "waiting to be admitted; is a membership service running and reachable?";
        let admitted = |reply, deadline| Command::WaitAdmitted { deadline, reply };
        self.engines
            .ask_all(doing, Some(timeout), admitted)
            .map(drop)
    }

    pub(crate) fn flush(&self, timeout: Duration) -> Result<Flushed, RequestError> {
        let told = self
            .engines
            .iter()
            .map(|engine| Arc::clone(&engine.shared.told));
        self.flush_unless(timeout, &told.collect::<Vec<_>>(), || false)
    }

    pub(crate) fn events(&self) -> Events {
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

    pub(crate) fn stats(&self) -> Result<Snapshot, RequestError> {
        let cores = self.core_stats()?.into_iter();
        // There is at least one core.
        let sum = cores.reduce(Snapshot::add);
        sum.ok_or(RequestError::Closed(CloseReason::ShutDown))
    }

    pub(crate) fn core_stats(&self) -> Result<Vec<Snapshot>, RequestError> {
        snapshots(&self.engines)
    }

    pub(crate) fn account(&self, group: &str) -> Result<Option<GroupAccount>, RequestError> {
        let core = &self.cores.0[self.core_of(group)];
        let name = group.to_owned();
        core.ask("reading a group", None, |reply, _| Command::Account {
            name,
            reply,
        })
    }

    pub(crate) fn message_account(
        &self,
        group: &str,
        sender: Origin,
        number: u64,
    ) -> Result<Option<MessageAccount>, RequestError> {
        let core = &self.cores.0[self.core_of(group)];
        let name = group.to_owned();
        core.ask("reading a message", None, |reply, _| {
            Command::MessageAccount(MessageQuestion {
                name,
                sender,
                number,
                reply,
            })
        })
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.engines.closed().cloned()
    }

    pub(crate) fn shutdown(&self, timeout: Duration) -> Result<Flushed, RequestError> {
        let doing = "delivering everything before the end; some receivers may lack messages";
        let shut_down = |reply, deadline| Command::Shutdown {
            deadline,
            reason: CloseReason::ShutDown,
            reply: Some(reply),
        };
        let answer = self.engines.ask_all(doing, Some(timeout), shut_down);
        if !matches!(answer, Err(RequestError::OnCoreThread)) {
            self.engines.join();
        }
        // The service cannot be asked any more.
        match self.names.add(answer.map(Flushed::join), &self.cores) {
            Ok(flushed) => Ok(flushed),
            Err(RequestError::Closed(CloseReason::ShutDown)) => Ok(Flushed::default()),
            Err(other) => Err(other),
        }
    }

    /// As [`OwnNode::flush`], for one who has been told so much by each core; gives up when nobody
    /// wants to know any more.
    pub(crate) fn flush_unless(
        &self,
        timeout: Duration,
        told: &[Told],
        over: impl Fn() -> bool,
    ) -> Result<Flushed, RequestError> {
        let requests = self.engines.iter().zip(told).map(|(engine, told)| {
            let told = Arc::clone(told);
            let flush = |reply, deadline| Command::Flush {
                deadline,
                told,
                reply,
            };
            engine.shared.request(FLUSHING, Some(timeout), flush)
        });
        let answers = requests.collect::<Result<Vec<_>, _>>()?;
        let answers = answers.into_iter().map(|answer| answer.wait_unless(&over));
        let flushed = RequestError::join(answers).map(Flushed::join);
        self.names.add(flushed, &self.cores)
    }

    /// What one who flushes from now on need not be told of, for each core.
    pub(crate) fn told(&self) -> Vec<Told> {
        let voids = |engine: &Engine| engine.shared.voids.load(Ordering::SeqCst);
        let engines = self.engines.iter();
        engines.map(|engine| ToldUpto::all(voids(engine))).collect()
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
}

fn several_cores(shares: &[CoreShare]) -> RequestError {
    let example = |share: &CoreShare| format!("{} on core {}", share.names[0], share.core);
    let examples: Vec<String> = shares.iter().take(2).map(example).collect();
    RequestError::Refused {
        reason: format!(
            "an upcall runs on one core thread, and these groups lie on {} ({}); give each core \
             its own with `Groups::subscribe_per_core`, or subscribe them apart",
            shares.len(),
            examples.join(", ")
        ),
    }
}

/// Counters of each core thread; of one that has ended, at its end.
fn snapshots(engines: &Engines) -> Result<Vec<Snapshot>, RequestError> {
    let snapshot = |reply, _| Command::Snapshot { reply };
    let answers = engines.iter().map(|engine| {
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
