//! A keeper over a node: a thread that keeps what comes, and one that answers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use qsm::{GroupOptions, Message, Node, Overflow, Publisher, Received, RequestError, Subscription};

use crate::bounds::Bounds;
use crate::error::HistoryError;
use crate::history::{inbox, names, question_group, seed};
use crate::keeper::{KeeperCore, KeeperStats};
use crate::word::Address;

/// Interval in which answers are sent while there are some.
const TICK: Duration = Duration::from_millis(5);
/// Interval in which the end is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// Messages that are taken before the lock is given away.
const RUN: usize = 256;
/// A subscriber that nothing was sent to for so long is done.
const INBOX_IDLE: Duration = Duration::from_secs(10);
/// Subscribers that a keeper is ready to send to, of each group; of more, those that wait longest are forgotten.
const INBOXES_MAX: usize = 1024;

/// Keeper of some groups at a node. It enters each group G, and `G/history`, and keeps what comes while it lives;
/// dropping it leaves them and forgets all.
#[derive(Debug)]
pub struct Keeper {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    cores: Mutex<BTreeMap<Arc<str>, KeeperCore>>,
    end: Mutex<Option<HistoryError>>,
    stop: AtomicBool,
    origin: Instant,
}

/// Outcome of a turn of a thread.
type Turned = Result<(), HistoryError>;

impl Shared {
    fn cores(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, KeeperCore>> {
        self.cores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats a turn until it is told to end, or the turn fails.
    fn run(&self, mut turn: impl FnMut() -> Turned) {
        while !self.stop.load(Ordering::Relaxed) {
            if let Err(error) = turn() {
                let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
                end.get_or_insert(error);
                self.stop.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Keeper {
    /// Enters these groups, and keeps their messages within these bounds, of each group. A keeper that cannot follow
    /// loses messages and holds nobody up.
    ///
    /// # Errors
    /// A group's name is a pattern, the node refuses a group, or no thread can be started.
    pub fn start<I>(node: &Node, groups: I, bounds: Bounds) -> Result<Self, HistoryError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let names = names(groups)?;
        let cores = names.iter();
        let cores = cores.map(|name| (Arc::clone(name), KeeperCore::new(bounds, seed())));
        let shared = Arc::new(Shared {
            cores: Mutex::new(cores.collect()),
            end: Mutex::new(None),
            stop: AtomicBool::new(false),
            origin: Instant::now(),
        });
        let queue = GroupOptions::default().overflow(Overflow::DropNewest);
        let live = node.groups(&names).options(queue).subscribe()?;
        // Only who keeps is asked.
        let questions = names
            .iter()
            .map(|name| (question_group(name), Arc::clone(name)));
        let questions: BTreeMap<String, Arc<str>> = questions.collect();
        let words = node.subscribe(questions.keys())?;
        let mut answerer = Answerer {
            shared: Arc::clone(&shared),
            node: node.clone(),
            words,
            questions,
            inboxes: BTreeMap::new(),
        };
        let recorder = Arc::clone(&shared);
        let mut keeper = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        keeper.spawn("qsm-keep", move || {
            recorder.run(|| record(&recorder, &live));
        })?;
        keeper.spawn("qsm-keep-answer", move || {
            shared.run(|| answerer.turn());
        })?;
        Ok(keeper)
    }

    /// State of the keeper, of all groups together.
    #[must_use]
    pub fn stats(&self) -> KeeperStats {
        let cores = self.shared.cores();
        let mut all = KeeperStats::default();
        for core in cores.values() {
            all += core.stats();
        }
        all
    }

    /// Why it keeps no more; `None` while it does.
    #[must_use]
    pub fn ended(&self) -> Option<HistoryError> {
        let end = self.shared.end.lock();
        end.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> Result<(), HistoryError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run);
        let thread = thread.map_err(|_| HistoryError::Thread)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // A panic has been told where it happened.
            drop(thread.join());
        }
    }
}

/// Takes what has come.
fn record(shared: &Shared, live: &Subscription) -> Result<(), HistoryError> {
    let mut received = live.recv_timeout(LOOK)?;
    let now = shared.origin.elapsed();
    let mut cores = shared.cores();
    let mut taken = 0;
    while let Some(item) = received.take() {
        match item {
            Received::Message(message) => {
                if let Some(core) = cores.get_mut(message.group()) {
                    keep(core, message, now);
                }
            }
            Received::Lost(lost) => {
                if let Some(core) = cores.get_mut(&*lost.group) {
                    core.lost(lost.sender, lost.last);
                }
            }
            // The next number shows what it was.
            _ => {}
        }
        taken += 1;
        if taken < RUN {
            received = live.try_recv()?;
        }
    }
    Ok(())
}

fn keep(core: &mut KeeperCore, message: Message, now: Duration) {
    let (sender, group, number) = (message.sender(), message.group_id(), message.number());
    let mut trailer = Vec::new();
    if let Some(relayed) = message.relayed() {
        relayed.append(&mut trailer);
    }
    let mut bytes = message.into_bytes();
    bytes.append(&mut trailer);
    core.message(sender, group, number, bytes, now);
}

/// State of the thread that answers. It waits while the node makes a publisher; what comes meanwhile is kept.
struct Answerer {
    shared: Arc<Shared>,
    node: Node,
    words: Subscription,
    /// Groups by the names of those in which their keepers are asked.
    questions: BTreeMap<String, Arc<str>>,
    inboxes: BTreeMap<(Arc<str>, Address), Inbox>,
}

struct Inbox {
    publisher: Publisher,
    used: Duration,
}

impl Answerer {
    fn turn(&mut self) -> Result<(), HistoryError> {
        let idle = self.inboxes.is_empty();
        let mut received = self.words.recv_timeout(if idle { LOOK } else { TICK })?;
        let now = self.shared.origin.elapsed();
        let mut answers = Vec::new();
        {
            let mut cores = self.shared.cores();
            while let Some(item) = received.take() {
                if let Received::Message(message) = item
                    && let Some(group) = self.questions.get(message.group())
                    && let Some(core) = cores.get_mut(group)
                {
                    core.word(message.bytes(), now);
                }
                received = self.words.try_recv()?;
            }
            for (group, core) in cores.iter_mut() {
                core.tick(now);
                while let Some((to, word)) = core.take() {
                    answers.push((Arc::clone(group), to, word));
                }
            }
        }
        for (group, to, word) in answers {
            self.send(group, to, word, now)?;
        }
        self.inboxes
            .retain(|_, inbox| now.saturating_sub(inbox.used) < INBOX_IDLE);
        Ok(())
    }

    fn send(
        &mut self,
        group: Arc<str>,
        to: Address,
        word: Vec<u8>,
        now: Duration,
    ) -> Result<(), HistoryError> {
        let key = (group, to);
        if !self.inboxes.contains_key(&key) {
            if self.inboxes.len() >= INBOXES_MAX {
                let waits = self.inboxes.iter().min_by_key(|(_, inbox)| inbox.used);
                let waits = waits.map(|(key, _)| key.clone());
                waits.and_then(|key| self.inboxes.remove(&key));
            }
            let publisher = match self.node.publisher(inbox(&key.0, to)) {
                Ok(publisher) => publisher,
                Err(error @ RequestError::Closed(_)) => return Err(error.into()),
                // It asks again, or somebody else.
                Err(_) => return Ok(()),
            };
            let used = now;
            self.inboxes.insert(key.clone(), Inbox { publisher, used });
        }
        if let Some(inbox) = self.inboxes.get_mut(&key) {
            inbox.used = now;
            // What finds no room is asked for again: live messages go before kept ones.
            drop(inbox.publisher.try_send_owned(word));
        }
        Ok(())
    }
}
