//! A subscription with a history, over a node.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use qsm::{
    GroupOptions, Node, Pattern, Publisher, Received, RecvError, RequestError, Subscription,
};

use crate::bounds::JoinLimits;
use crate::error::HistoryError;
use crate::joiner::{JoinStats, JoinerCore};
use crate::missing::Item;
use crate::position::{Position, Start};
use crate::word::Address;

/// Cores are told the time so often while they wait for something.
const TICK: Duration = Duration::from_millis(5);
/// The same, while they do not.
const IDLE: Duration = Duration::from_millis(100);
/// Messages that are taken at once.
const RUN: usize = 256;

/// Options of a subscription with a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct JoinOptions {
    /// Limits of what is held, of each group.
    pub limits: JoinLimits,
    /// Queue of the live subscription. Its messages come in order whatever is asked for here.
    pub queue: GroupOptions,
}

impl JoinOptions {
    /// The same with these limits.
    #[must_use]
    pub fn limits(self, limits: JoinLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same with this queue.
    #[must_use]
    pub fn queue(self, queue: GroupOptions) -> Self {
        Self { queue, ..self }
    }
}

/// Subscription to groups with what was sent to them before. It works while it is read: messages wait in the queue of the
/// live subscription otherwise. Beside a group G, the group `G/history` is published to, and `G/history/ADDRESS` entered.
#[derive(Debug)]
pub struct History {
    live: Arc<Subscription>,
    /// Words of keepers; none if no keeper is to be asked.
    words: Option<Subscription>,
    groups: BTreeMap<Arc<str>, Joining>,
    /// Groups by the names at which keepers answer.
    inboxes: BTreeMap<String, Arc<str>>,
    /// Position at the beginning.
    position: Position,
    origin: Instant,
    ticked: Option<Instant>,
}

#[derive(Debug)]
struct Joining {
    core: JoinerCore,
    asks: Option<Publisher>,
}

/// Name of the group in which keepers of a group are asked.
pub(crate) fn question_group(group: &str) -> String {
    format!("{group}/history")
}

/// Name of the group in which a subscriber is answered.
pub(crate) fn inbox(group: &str, address: Address) -> String {
    format!("{group}/history/{:016x}", address.0)
}

/// Names of groups, each once.
///
/// # Errors
/// One of them is a pattern, or no name at all.
pub(crate) fn names(
    groups: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Vec<Arc<str>>, HistoryError> {
    let mut names: Vec<Arc<str>> = Vec::new();
    for group in groups {
        let name = group.as_ref();
        let pattern: Pattern = name.parse().map_err(RequestError::from)?;
        if !pattern.is_name() {
            return Err(HistoryError::Request(RequestError::Pattern {
                pattern: name.to_owned(),
                purpose: "what was sent before",
            }));
        }
        if !names.iter().any(|other| **other == *name) {
            names.push(name.into());
        }
    }
    Ok(names)
}

/// Number drawn by chance.
pub(crate) fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl History {
    /// Enters these groups, whose messages begin there, and begins to ask keepers.
    ///
    /// # Errors
    /// A group's name is a pattern, or the node refuses it.
    pub fn subscribe<I>(
        node: &Node,
        groups: I,
        start: Start,
        options: JoinOptions,
    ) -> Result<Self, HistoryError>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        let names = names(groups)?;
        let asking = start != Start::Now;
        let (mut members, mut inboxes) = (BTreeMap::new(), BTreeMap::new());
        for name in &names {
            let core = JoinerCore::new(name, start.clone(), options.limits, seed());
            inboxes.insert(inbox(name, core.address()), Arc::clone(name));
            members.insert(Arc::clone(name), Joining { core, asks: None });
        }
        let words = match asking {
            true => Some(node.subscribe(inboxes.keys())?),
            false => None,
        };
        for (name, joining) in members.iter_mut().filter(|_| asking) {
            joining.asks = Some(node.publisher(question_group(name))?);
        }
        // Messages are held from here on, and only then keepers are asked: at once, before what they have goes.
        let queue = options.queue.delivery(qsm::DeliveryMode::Ordered);
        let live = Arc::new(node.groups(&names).options(queue).subscribe()?);
        let position = match start {
            Start::Resume(position) => position,
            Start::Now | Start::Last(_) => Position::default(),
        };
        Ok(Self {
            live,
            words,
            groups: members,
            inboxes,
            position,
            origin: Instant::now(),
            ticked: None,
        })
    }

    /// Waits for the next item.
    ///
    /// # Errors
    /// The subscription has ended.
    pub fn recv(&mut self) -> Result<Item, HistoryError> {
        loop {
            if let Some(item) = self.recv_timeout(Duration::from_secs(3600))? {
                return Ok(item);
            }
        }
    }

    /// As [`History::recv`], at most this long; `None` when nothing came.
    ///
    /// # Errors
    /// As [`History::recv`].
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Option<Item>, HistoryError> {
        let until = Instant::now() + timeout;
        loop {
            if let Some(item) = self.take() {
                return Ok(Some(item));
            }
            let now = Instant::now();
            self.turn(now)?;
            if let Some(item) = self.take() {
                return Ok(Some(item));
            }
            let left = until.saturating_duration_since(now);
            let wait = self.due(now).map_or(left, |due| left.min(due));
            let mut received = self.live.recv_timeout(wait)?;
            if received.is_none() && left.is_zero() {
                return Ok(None);
            }
            let mut taken = 0;
            while let Some(item) = received.take() {
                self.hear(item);
                taken += 1;
                if taken < RUN {
                    received = self.live.try_recv()?;
                }
            }
        }
    }

    /// Has a waker woken when something comes live. Tells after what time [`History::recv_timeout`] is to be called all
    /// the same: at once if there is something to receive, or the end to be told; `None`: not before.
    ///
    /// For programs that wait for several things; others have [`History::recv`].
    pub fn wake(&mut self, waker: &Waker) -> Option<Duration> {
        for _ in 0..RUN {
            if self.ready() > 0 {
                return Some(Duration::ZERO);
            }
            match poll_live(&self.live, waker) {
                Poll::Pending => return self.due(Instant::now()),
                Poll::Ready(Ok(received)) => self.hear(received),
                // It is told again.
                Poll::Ready(Err(_)) => return Some(Duration::ZERO),
            }
        }
        Some(Duration::ZERO)
    }

    /// The live subscription, of which the queue can be asked. What it is read by is missing here.
    #[must_use]
    pub fn live(&self) -> &Arc<Subscription> {
        &self.live
    }

    /// Number of items that were taken out of the live queue, or fetched, and can be received without waiting.
    #[must_use]
    pub fn ready(&self) -> usize {
        let groups = self.groups.values();
        groups.map(|joining| joining.core.items()).sum()
    }

    /// Tells whether of all groups what was asked for has come or is missing.
    #[must_use]
    pub fn is_joined(&self) -> bool {
        self.groups.values().all(|joining| joining.core.is_joined())
    }

    /// Counters, of all groups together.
    #[must_use]
    pub fn stats(&self) -> JoinStats {
        let mut all = JoinStats::default();
        for joining in self.groups.values() {
            all += joining.core.stats();
        }
        all
    }

    /// Position behind the items that were received, to go on from in another process ([`Start::Resume`]). It has all
    /// that the position has that this subscription began with; under [`Start::Now`] nothing.
    #[must_use]
    pub fn position(&self) -> Position {
        let mut position = self.position.clone();
        for joining in self.groups.values() {
            joining.core.note(&mut position);
        }
        position
    }

    fn take(&mut self) -> Option<Item> {
        let mut cores = self.groups.values_mut();
        cores.find_map(|joining| joining.core.take_item())
    }

    /// Time after which something is due even if nothing comes.
    fn due(&self, now: Instant) -> Option<Duration> {
        self.words.as_ref()?;
        let time = now.duration_since(self.origin);
        let mut cores = self.groups.values().map(|joining| &joining.core);
        if cores.clone().any(JoinerCore::is_waiting) {
            return Some(TICK);
        }
        cores.any(|core| !core.is_settled(time)).then_some(IDLE)
    }

    /// Does what is due.
    fn turn(&mut self, now: Instant) -> Result<(), HistoryError> {
        let Some(words) = &self.words else {
            return Ok(());
        };
        let since = self.ticked.map(|ticked| now.duration_since(ticked));
        if since.is_some_and(|since| since < TICK) {
            return Ok(());
        }
        let time = now.duration_since(self.origin);
        while let Some(received) = words.try_recv()? {
            if let Received::Message(message) = received
                && let Some(group) = self.inboxes.get(message.group())
                && let Some(joining) = self.groups.get_mut(group)
            {
                joining.core.word(message.bytes(), time);
            }
        }
        for joining in self.groups.values_mut() {
            let Some(asks) = &joining.asks else {
                continue;
            };
            let keepers = asks.members()?;
            joining.core.tick(Some(keepers), time);
            while let Some(word) = joining.core.take_word() {
                // What finds no room is asked again.
                drop(asks.try_send_owned(word));
            }
        }
        self.ticked = Some(now);
        Ok(())
    }

    fn hear(&mut self, received: Received) {
        match received {
            Received::Message(message) => {
                if let Some(joining) = self.groups.get_mut(message.group()) {
                    joining.core.live(message);
                }
            }
            Received::Lost(lost) => {
                if let Some(joining) = self.groups.get_mut(&*lost.group) {
                    joining.core.lost(lost);
                }
            }
            // Of which group it is, is not known: all take note, and one tells.
            told => {
                let broken = match &told {
                    Received::Excluded(_) => Some(None),
                    Received::LostPackets(lost) => Some(Some(lost.sender)),
                    _ => None,
                };
                for joining in self.groups.values_mut() {
                    if let Some(sender) = broken {
                        joining.core.broken(sender);
                    }
                }
                if let Some(joining) = self.groups.values_mut().next() {
                    joining.core.told(told);
                }
            }
        }
    }
}

/// Takes what has come live, or has the waker woken when something does.
fn poll_live(live: &Subscription, waker: &Waker) -> Poll<Result<Received, RecvError>> {
    let receiving = pin!(live.recv_async());
    receiving.poll(&mut Context::from_waker(waker))
}
