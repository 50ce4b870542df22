//! From a delivered message to the subscriptions of its group: one look into a table indexed by
//! the group's number, then one copy for each queue, one for all attached processes together, and
//! none for upcalls (R128).

mod fullness;
mod shared;
#[cfg(test)]
mod tests;
mod waits;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use qsm_net::Waker;
use qsm_proto::{Deliver, Endpoint, FullReaders, Instant, LossCause, Miss, Promptness, Run};
use qsm_wire::GroupId;

use self::fullness::Fullness;
use self::waits::ReaderWait;
use crate::error::{CloseReason, RecvError};
use crate::handoff::message::{Message, MessageRef};
use crate::handoff::received::{Back, Delivery, Excluded, Lost, LostCause, LostPackets, Received};
use crate::handoff::sink::Sink;
use crate::relayed::RelayedOnce;
use crate::snapshot::SubscriptionRow;
use crate::stats::{RuntimeStats, SubscriptionStats};

/// Largest group number that the table has room for; the membership service numbers densely.
const GROUPS_MAX: usize = 1 << 22;
/// How often it is looked whether a foreign queue has room for notices.
const CATCH_UP: Duration = Duration::from_millis(100);

struct Subscriber {
    key: u64,
    names: Arc<[Arc<str>]>,
    sink: Sink,
    /// In which way it wants messages, if not in order.
    mode: Option<Promptness>,
    /// Something was queued in this turn.
    touched: bool,
    /// Times in which its queue was full and held senders up.
    full: Fullness,
    wait: ReaderWait,
}

impl Subscriber {
    /// Messages that wait in its queue, if that is one of this process.
    fn waiting(&self) -> Option<u64> {
        match &self.sink {
            Sink::Queue(inbox) => Some(inbox.messages() as u64),
            Sink::Upcall(_) | Sink::Foreign(_) => None,
        }
    }
}

struct Name {
    group: Option<GroupId>,
    audience: Audience,
    /// The ways that the endpoint was told of.
    wished: BTreeSet<Promptness>,
}

struct Bound {
    name: Arc<str>,
    /// By which the numbers of relayed messages know it.
    relayed: u64,
    audience: Audience,
}

/// Places of the subscribers of a group.
#[derive(Clone, Default)]
struct Audience {
    ordered: Vec<usize>,
    /// Those that want messages in another way than in order.
    prompt: Vec<PromptPlace>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct PromptPlace {
    mode: Promptness,
    place: usize,
}

impl Audience {
    /// A group named twice is delivered once.
    fn add(&mut self, place: usize, mode: Option<Promptness>) {
        if self.all().any(|other| other == place) {
            return;
        }
        match mode {
            None => self.ordered.push(place),
            Some(mode) => self.prompt.push(PromptPlace { mode, place }),
        }
    }

    fn retain(&mut self, keep: impl Fn(usize) -> bool) {
        self.ordered.retain(|place| keep(*place));
        self.prompt.retain(|prompt| keep(prompt.place));
    }

    fn all(&self) -> impl Iterator<Item = usize> + '_ {
        let prompt = self.prompt.iter().map(|prompt| prompt.place);
        self.ordered.iter().copied().chain(prompt)
    }

    fn is_empty(&self) -> bool {
        self.ordered.is_empty() && self.prompt.is_empty()
    }

    /// The places of those that want messages in this way.
    fn of(&self, mode: Promptness) -> Vec<usize> {
        let prompt = self.prompt.iter().filter(|prompt| prompt.mode == mode);
        prompt.map(|prompt| prompt.place).collect()
    }
}

/// Queues that are full and hold senders up.
struct FullQueues {
    /// Places of their subscribers, as the protocol was told.
    full: Vec<usize>,
    /// The protocol was told that there are none.
    none: bool,
    /// Subscribers or numbers of groups are others than when it was told.
    changed: bool,
}

impl Default for FullQueues {
    fn default() -> Self {
        Self {
            full: Vec::new(),
            none: true,
            changed: false,
        }
    }
}

/// Who gets what.
#[derive(Default)]
pub(super) struct Routes {
    table: Vec<Option<Bound>>,
    names: HashMap<Arc<str>, Name>,
    /// Places are used again.
    subscribers: Vec<Option<Subscriber>>,
    /// Subscribers with something new for their readers.
    touched: Vec<usize>,
    /// Subscribers whose queue has no room for all notices.
    behind: Vec<usize>,
    catch_up_at: Instant,
    readers: FullQueues,
    relayed: RelayedOnce,
    /// Messages handed out so far.
    deliveries: u64,
    /// When the turn began, of a node with a latency budget.
    moment: Option<Instant>,
    stats: RuntimeStats,
}

impl Routes {
    pub(super) fn add(
        &mut self,
        key: u64,
        names: &Arc<[Arc<str>]>,
        sink: Sink,
        mode: Option<Promptness>,
    ) {
        let subscriber = Subscriber {
            key,
            names: Arc::clone(names),
            sink,
            mode,
            touched: false,
            full: Fullness::default(),
            wait: ReaderWait::default(),
        };
        self.readers.changed = true;
        let free = self.subscribers.iter().position(Option::is_none);
        let place = free.unwrap_or(self.subscribers.len());
        if place == self.subscribers.len() {
            self.subscribers.push(None);
        }
        self.subscribers[place] = Some(subscriber);
        for name in names.iter() {
            let entry = self.names.entry(Arc::clone(name)).or_insert_with(|| Name {
                group: None,
                audience: Audience::default(),
                wished: BTreeSet::new(),
            });
            entry.audience.add(place, mode);
            if let Some(bound) = entry
                .group
                .and_then(|group| self.table[index(group)].as_mut())
            {
                bound.audience.clone_from(&entry.audience);
            }
        }
    }

    /// The groups of a subscription that are delivered to it in another way than in order.
    pub(super) fn names_of(&self, key: u64) -> Arc<[Arc<str>]> {
        let place = self.place_of(key);
        let subscriber = place.and_then(|place| self.subscribers[place].as_ref());
        let prompt = subscriber.filter(|subscriber| subscriber.mode.is_some());
        prompt.map_or_else(|| Arc::from([]), |prompt| Arc::clone(&prompt.names))
    }

    /// In which ways a group is wanted beside its order, if that has changed since it was asked
    /// for last.
    pub(super) fn take_wishes(&mut self, name: &str) -> Option<Vec<Promptness>> {
        let Some(entry) = self.names.get_mut(name) else {
            return Some(Vec::new());
        };
        let prompt = entry.audience.prompt.iter();
        let wished = prompt.map(|prompt| prompt.mode).collect();
        if entry.wished == wished {
            return None;
        }
        entry.wished = wished;
        Some(entry.wished.iter().copied().collect())
    }

    /// Ends a subscription. Returns the groups that none is left for.
    pub(super) fn remove(&mut self, key: u64) -> Vec<String> {
        let Some(place) = self.place_of(key) else {
            return Vec::new();
        };
        let names = self.subscribers[place]
            .take()
            .map(|subscriber| subscriber.names);
        self.touched.retain(|other| *other != place);
        self.behind.retain(|other| *other != place);
        self.readers.changed = true;
        let names = names.iter().flat_map(|names| names.iter());
        let gone = names.filter(|name| self.unlink(name, |other| other != place));
        gone.map(|name| name.to_string()).collect::<Vec<_>>()
    }

    /// Ends the delivery of a group to all subscriptions; true if there were any.
    pub(super) fn leave(&mut self, name: &str) -> bool {
        self.names.contains_key(name) && self.unlink(name, |_| false)
    }

    /// Group numbers are void: the node has begun a new life.
    fn forget_numbers(&mut self) {
        self.readers.changed = true;
        self.table.clear();
        self.names.values_mut().for_each(|name| name.group = None);
    }

    /// Learns the numbers of these groups that are known already; others come by
    /// [`Deliver::name_group`].
    pub(super) fn bind(&mut self, endpoint: &Endpoint, names: &[Arc<str>]) {
        for name in names {
            if let Some(group) = endpoint.group(name) {
                self.bind_one(group, name);
            }
        }
    }

    /// Wakes the readers of queues that got something. Once per turn.
    pub(super) fn wake(&mut self) {
        for place in self.touched.drain(..) {
            if let Some(subscriber) = &mut self.subscribers[place] {
                subscriber.touched = false;
                match &mut subscriber.sink {
                    Sink::Queue(inbox) => inbox.wake(),
                    Sink::Foreign(queue) => queue.wake(),
                    Sink::Upcall(_) => {}
                }
            }
        }
    }

    /// Lets queues that had no room for notices try again.
    pub(super) fn catch_up(&mut self, now: Instant) {
        if self.behind.is_empty() || now < self.catch_up_at {
            return;
        }
        for place in core::mem::take(&mut self.behind) {
            let Some(Sink::Foreign(queue)) = self.sink(place) else {
                continue;
            };
            if !queue.catch_up() {
                self.behind.push(place);
            }
            self.touch(place);
        }
        self.catch_up_at = now.after(CATCH_UP);
    }

    /// When [`Routes::catch_up`] has something to do.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        (!self.behind.is_empty()).then_some(self.catch_up_at)
    }

    /// Looks which queues are full that hold senders up ([`Overflow::Hold`]). Returns the groups whose
    /// readers take no more, if that may have changed. Once per turn, before [`Routes::wake`].
    ///
    /// [`Overflow::Hold`]: crate::Overflow::Hold
    pub(super) fn follow_readers(&mut self, now: Instant, core: &Waker) -> Option<FullReaders> {
        let mut changed = core::mem::take(&mut self.readers.changed);
        if self.readers.none && !changed && self.touched.is_empty() {
            return None;
        }
        let places = self.touched.iter().chain(&self.readers.full);
        for place in places {
            if let Some(Some(subscriber)) = self.subscribers.get_mut(*place)
                && let Some(full) = subscriber.sink.is_full(core)
            {
                let before = subscriber.full.is_full();
                if let Sink::Foreign(queue) = &mut subscriber.sink
                    && (full || before)
                {
                    queue.wake();
                    // Its reader may not say that it has made room.
                    let more = full && !self.behind.contains(place);
                    self.behind.extend(more.then_some(*place));
                }
                self.stats.readers_full += u64::from(full && !before);
                changed |= full != before;
                subscriber.full.note(now, full);
            }
        }
        changed.then(|| self.full_readers()).flatten()
    }

    /// Groups whose readers take no more; `None`: there were none before, and are none.
    fn full_readers(&mut self) -> Option<FullReaders> {
        let subscribers = &self.subscribers;
        let full = |subscriber: &Subscriber| subscriber.full.is_full();
        let is_full = |place: &usize| subscribers[*place].as_ref().is_some_and(full);
        self.readers.full = (0..subscribers.len()).filter(is_full).collect();
        let none = self.readers.full.is_empty();
        if core::mem::replace(&mut self.readers.none, none) && none {
            return None;
        }
        if subscribers.iter().flatten().all(full) {
            return Some(match none {
                true => FullReaders::None,
                false => FullReaders::All,
            });
        }
        let full = subscribers.iter().flatten().filter(|it| full(it));
        let names = full.flat_map(|subscriber| subscriber.names.iter());
        let groups = names.filter_map(|name| self.names.get(name)?.group);
        Some(FullReaders::of(groups.collect()))
    }

    /// A turn begins of a node with a latency budget.
    pub(super) fn begin_turn(&mut self, now: Instant) {
        self.moment = Some(now);
    }

    /// The longest time for which a message waits for its reader, if that is more than it may.
    pub(super) fn overdue(&mut self, now: Instant, share: Duration) -> Duration {
        let mut longest = Duration::ZERO;
        for subscriber in self.subscribers.iter_mut().flatten() {
            if let Some(waiting) = subscriber.waiting() {
                let took = subscriber.wait.overdue(now, share, waiting);
                longest = longest.max(took.unwrap_or_default());
            }
        }
        longest
    }

    /// Since when a message waits for its reader of which nothing has been said.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let subscribers = self.subscribers.iter().flatten();
        let since = |subscriber: &Subscriber| subscriber.wait.since(subscriber.waiting()?);
        subscribers.filter_map(since).min()
    }

    fn sink(&mut self, place: usize) -> Option<&mut Sink> {
        let subscriber = self.subscribers.get_mut(place)?.as_mut()?;
        Some(&mut subscriber.sink)
    }

    /// Its reader is woken at the end of the turn.
    fn touch(&mut self, place: usize) {
        if let Some(Some(subscriber)) = self.subscribers.get_mut(place)
            && !subscriber.touched
        {
            subscriber.touched = true;
            self.touched.push(place);
        }
    }

    /// Tells a subscriber what is missing.
    fn tell(&mut self, place: usize, notice: Received) {
        match self.sink(place) {
            None => return,
            Some(Sink::Queue(inbox)) => inbox.tell(notice),
            Some(Sink::Upcall(upcall)) => return upcall(Delivery::from(&notice)),
            Some(Sink::Foreign(queue)) => {
                queue.tell(notice);
                if !queue.catch_up() && !self.behind.contains(&place) {
                    self.behind.push(place);
                }
            }
        }
        self.touch(place);
    }

    /// This node was away so long in the region with these groups, and has caught up.
    pub(super) fn back(&mut self, groups: &[GroupId], away: Duration) {
        for place in self.subscribers_of(groups) {
            self.tell(place, Received::Back(Back { away }));
        }
    }

    /// These messages will not come, to those who want them in this way; `None`: in order.
    fn lose(&mut self, mode: Option<Promptness>, missing: Miss<'_>) {
        let (group, sender, first, last, cause) = match missing {
            Miss::Messages {
                group,
                sender,
                first,
                last,
                cause,
            } => (group, sender, first, last, cause_of(cause)),
            Miss::Absence {
                group,
                sender,
                first,
                last,
            } => (group, sender, first, last, LostCause::Excluded),
            Miss::Packets { .. } | Miss::Life { .. } => return,
        };
        let Some(Some(bound)) = self.table.get(index(group)) else {
            return;
        };
        let lost = Lost {
            group: Arc::clone(&bound.name),
            sender,
            first,
            last,
            cause,
        };
        let places = match mode {
            None => bound.audience.ordered.clone(),
            Some(mode) => bound.audience.of(mode),
        };
        for place in places {
            self.tell(place, Received::Lost(lost.clone()));
        }
    }

    /// Hands a message to a subscriber of its group, if there is one in this place.
    fn hand(&mut self, place: usize, message: qsm_proto::Delivery<'_>) {
        let Some(Some(bound)) = self.table.get(index(message.group)) else {
            return;
        };
        let Some(subscriber) = &mut self.subscribers[place] else {
            return;
        };
        self.deliveries += 1;
        let offered = match &mut subscriber.sink {
            Sink::Upcall(upcall) => {
                self.stats.upcalls += 1;
                return upcall(Delivery::Message(lend(bound, message)));
            }
            Sink::Queue(inbox) => {
                let own = || Received::Message(own(bound, message));
                inbox.offer(message.bytes.len(), own)
            }
            Sink::Foreign(queue) => queue.offer(self.deliveries, lend(bound, message)),
        };
        if offered.kept
            && let Some(now) = self.moment
        {
            subscriber.wait.keep(now);
        }
        self.stats.slow_consumer_drops += offered.dropped;
        self.stats.messages_queued += u64::from(offered.kept);
        // Readers are to hear of what was dropped, too.
        if offered.kept || offered.dropped > 0 {
            self.touch(place);
        }
    }

    /// One of those that want a group in another way than in order.
    fn prompt_place(&self, group: GroupId, at: usize) -> Option<PromptPlace> {
        let bound = self.table.get(index(group))?.as_ref()?;
        bound.audience.prompt.get(at).copied()
    }

    /// The subscribers of any of these groups, each once.
    fn subscribers_of(&self, groups: &[GroupId]) -> Vec<usize> {
        let bound = groups
            .iter()
            .filter_map(|group| self.table.get(index(*group))?.as_ref());
        let mut places: Vec<usize> = bound.flat_map(|bound| bound.audience.all()).collect();
        places.sort_unstable();
        places.dedup();
        places
    }

    /// Ends all subscriptions.
    pub(super) fn close(&self, reason: &CloseReason) {
        for subscriber in self.subscribers.iter().flatten() {
            let why = RecvError::Closed(reason.clone());
            match &subscriber.sink {
                Sink::Queue(inbox) => inbox.close(why),
                Sink::Foreign(queue) => queue.close(why),
                Sink::Upcall(_) => {}
            }
        }
    }

    /// Counters of the ways of messages to subscribers.
    pub(super) fn stats(&self) -> RuntimeStats {
        self.stats
    }

    pub(super) fn rows(&self, now: Instant) -> Vec<SubscriptionRow> {
        let row = |subscriber: &Subscriber| {
            let mut stats = SubscriptionStats {
                full: subscriber.full.total(now),
                full_for: subscriber.full.spell(now),
                ..SubscriptionStats::default()
            };
            let mut process = None;
            match &subscriber.sink {
                Sink::Queue(inbox) => {
                    stats.queued_messages = inbox.messages() as u64;
                    stats.queued_bytes = inbox.bytes() as u64;
                    stats.dropped = inbox.dropped();
                }
                Sink::Foreign(queue) => {
                    stats.queued_bytes = queue.queued_bytes() as u64;
                    stats.dropped = queue.dropped();
                    process = queue.process();
                }
                Sink::Upcall(_) => {}
            }
            SubscriptionRow {
                groups: Arc::clone(&subscriber.names),
                process,
                upcall: matches!(subscriber.sink, Sink::Upcall(_)),
                stats,
            }
        };
        self.subscribers.iter().flatten().map(row).collect()
    }

    fn place_of(&self, key: u64) -> Option<usize> {
        let matches = |slot: &Option<Subscriber>| slot.as_ref().is_some_and(|sub| sub.key == key);
        self.subscribers.iter().position(matches)
    }

    /// Keeps those subscribers of a group; true if there were some and none is left.
    fn unlink(&mut self, name: &str, keep: impl Fn(usize) -> bool) -> bool {
        let Some(entry) = self.names.get_mut(name) else {
            return false;
        };
        entry.audience.retain(keep);
        let empty = entry.audience.is_empty();
        if let Some(group) = entry.group {
            let slot = &mut self.table[index(group)];
            match slot {
                Some(bound) if !empty => bound.audience.clone_from(&entry.audience),
                _ => *slot = None,
            }
        }
        if empty {
            self.names.remove(name);
        }
        empty
    }

    /// Notes a group's number if somebody here subscribes to it.
    fn bind_one(&mut self, group: GroupId, name: &str) {
        let known = self.names.get_key_value(name);
        let Some(name) = known.map(|(name, _)| Arc::clone(name)) else {
            return;
        };
        if index(group) >= GROUPS_MAX {
            return;
        }
        self.readers.changed = true;
        self.unbind(group);
        let Some(entry) = self.names.get_mut(&name) else {
            return;
        };
        if let Some(old) = entry.group.replace(group) {
            self.table[index(old)] = None;
        }
        if self.table.len() <= index(group) {
            self.table.resize_with(index(group) + 1, || None);
        }
        self.table[index(group)] = Some(Bound {
            relayed: self.relayed.group(&name),
            name,
            audience: entry.audience.clone(),
        });
    }

    /// No group has this number any more.
    fn unbind(&mut self, group: GroupId) {
        let bound = self.table.get_mut(index(group)).and_then(Option::take);
        if let Some(entry) = bound.and_then(|bound| self.names.get_mut(&bound.name)) {
            entry.group = None;
        }
    }
}

impl Deliver for Routes {
    fn deliver_run(&mut self, run: &mut Run<'_, '_>) {
        if let Some(Some(bound)) = self.table.get(index(run.group()))
            && let [place] = bound.audience.ordered[..]
            && let Some(subscriber) = &mut self.subscribers[place]
            && let Sink::Upcall(upcall) = &mut subscriber.sink
        {
            for message in run {
                if !self.relayed.takes(bound.relayed, message.bytes) {
                    self.stats.relayed_again += 1;
                    continue;
                }
                self.stats.upcalls += 1;
                upcall(Delivery::Message(lend(bound, message)));
            }
        } else if self.is_shared(run.group()) {
            self.deliver_shared(run);
        } else {
            run.for_each(|message| self.deliver(message));
        }
    }

    fn deliver(&mut self, message: qsm_proto::Delivery<'_>) {
        let Some(Some(bound)) = self.table.get(index(message.group)) else {
            self.stats.messages_unwanted += 1;
            return;
        };
        if !self.relayed.takes(bound.relayed, message.bytes) {
            self.stats.relayed_again += 1;
            return;
        }
        self.deliveries += 1;
        for place in &bound.audience.ordered {
            let Some(subscriber) = &mut self.subscribers[*place] else {
                continue;
            };
            let offered = match &mut subscriber.sink {
                Sink::Upcall(upcall) => {
                    self.stats.upcalls += 1;
                    upcall(Delivery::Message(lend(bound, message)));
                    continue;
                }
                Sink::Queue(inbox) => {
                    let own = || Received::Message(own(bound, message));
                    inbox.offer(message.bytes.len(), own)
                }
                Sink::Foreign(queue) => queue.offer(self.deliveries, lend(bound, message)),
            };
            if offered.kept
                && let Some(now) = self.moment
            {
                subscriber.wait.keep(now);
            }
            self.stats.slow_consumer_drops += offered.dropped;
            self.stats.messages_queued += u64::from(offered.kept);
            // Readers are to hear of what was dropped, too.
            if (offered.kept || offered.dropped > 0) && !subscriber.touched {
                subscriber.touched = true;
                self.touched.push(*place);
            }
        }
    }

    fn name_group(&mut self, group: GroupId, name: &str) {
        self.bind_one(group, name);
    }

    fn miss(&mut self, miss: Miss<'_>) {
        match miss {
            Miss::Messages { .. } | Miss::Absence { .. } => self.lose(None, miss),
            Miss::Packets {
                groups,
                sender,
                packets,
            } => {
                let lost = LostPackets { sender, packets };
                for place in self.subscribers_of(groups) {
                    self.tell(place, Received::LostPackets(lost));
                }
            }
            Miss::Life { incarnation } => {
                self.forget_numbers();
                for place in 0..self.subscribers.len() {
                    self.tell(place, Received::Excluded(Excluded { incarnation }));
                }
            }
        }
    }

    fn deliver_promptly(&mut self, mode: Promptness, message: qsm_proto::Delivery<'_>) {
        let mut at = 0;
        while let Some(prompt) = self.prompt_place(message.group, at) {
            if prompt.mode == mode {
                self.hand(prompt.place, message);
            }
            at += 1;
        }
    }

    fn miss_promptly(&mut self, mode: Promptness, miss: Miss<'_>) {
        match miss {
            Miss::Messages { .. } | Miss::Absence { .. } => self.lose(Some(mode), miss),
            Miss::Packets {
                groups,
                sender,
                packets,
            } => {
                let lost = LostPackets { sender, packets };
                let bound = groups
                    .iter()
                    .filter_map(|group| self.table.get(index(*group))?.as_ref());
                let places: BTreeSet<usize> =
                    bound.flat_map(|bound| bound.audience.of(mode)).collect();
                for place in places {
                    self.tell(place, Received::LostPackets(lost));
                }
            }
            // Said to all in order.
            Miss::Life { .. } => {}
        }
    }
}

fn cause_of(cause: LossCause) -> LostCause {
    match cause {
        LossCause::Overdue => LostCause::Overdue,
        LossCause::Expired => LostCause::Expired,
        _ => LostCause::Gone,
    }
}

/// Always made where it is used: written field by field and then moved elsewhere as a whole, it
/// would be read before the processor has put its parts together, which takes 5 ns.
#[inline(always)]
fn lend<'a>(bound: &'a Bound, message: qsm_proto::Delivery<'a>) -> MessageRef<'a> {
    MessageRef {
        group: &bound.name,
        group_id: message.group,
        sender: message.sender,
        number: message.number,
        bytes: message.bytes,
    }
}

fn own(bound: &Bound, message: qsm_proto::Delivery<'_>) -> Message {
    Message {
        group: Arc::clone(&bound.name),
        group_id: message.group,
        sender: message.sender,
        number: message.number,
        bytes: message.bytes.to_vec(),
    }
}

fn index(group: GroupId) -> usize {
    group.0 as usize
}
