//! From a delivered message to the subscriptions of its group: one look into a table indexed by
//! the group's number, then one copy for each queue, and none for upcalls (R128).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use qsm_proto::{Deliver, Endpoint, Instant, Run};
use qsm_wire::{GroupId, Origin};

use crate::error::{CloseReason, RecvError};
use crate::event::Event;
use crate::handoff::message::{Delivery, Message};
use crate::handoff::sink::Sink;
use crate::snapshot::{RuntimeStats, SubscriptionRow};

/// Largest group number that the table has room for; the membership service numbers densely.
const GROUPS_MAX: usize = 1 << 22;
/// Messages that may wait, within one call of the protocol, for the names of their groups.
const STASH_MESSAGES_MAX: usize = 1024;
/// How often one subscription's drops are told.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);

struct Subscriber {
    key: u64,
    names: Arc<[Arc<str>]>,
    sink: Sink,
    /// Something was queued in this turn.
    touched: bool,
    told_dropped: u64,
    tell_again: Instant,
}

struct Name {
    group: Option<GroupId>,
    /// Places of its subscribers.
    subscribers: Vec<usize>,
}

struct Bound {
    name: Arc<str>,
    subscribers: Vec<usize>,
}

struct Stashed {
    group: GroupId,
    sender: Origin,
    number: u64,
    bytes: Vec<u8>,
}

/// Who gets what.
#[derive(Default)]
pub(super) struct Routes {
    table: Vec<Option<Bound>>,
    names: HashMap<Arc<str>, Name>,
    /// Places are used again.
    subscribers: Vec<Option<Subscriber>>,
    /// Messages of groups whose number is not known here yet.
    stash: Vec<Stashed>,
    /// Subscribers with something new for their readers.
    touched: Vec<usize>,
    /// Subscribers with drops that were not told yet.
    slow: Vec<usize>,
    pub(super) stats: RouteStats,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RouteStats {
    queued: u64,
    upcalls: u64,
    drops: u64,
    unwanted: u64,
}

impl RouteStats {
    pub(super) fn add_to(&self, stats: &mut RuntimeStats) {
        stats.messages_queued = self.queued;
        stats.upcalls = self.upcalls;
        stats.slow_consumer_drops = self.drops;
        stats.messages_unwanted = self.unwanted;
    }
}

impl Routes {
    pub(super) fn add(&mut self, key: u64, names: &Arc<[Arc<str>]>, sink: Sink) {
        let subscriber = Subscriber {
            key,
            names: Arc::clone(names),
            sink,
            touched: false,
            told_dropped: 0,
            tell_again: Instant(0),
        };
        let free = self.subscribers.iter().position(Option::is_none);
        let place = free.unwrap_or(self.subscribers.len());
        if place == self.subscribers.len() {
            self.subscribers.push(None);
        }
        self.subscribers[place] = Some(subscriber);
        for name in names.iter() {
            let entry = self.names.entry(Arc::clone(name)).or_insert_with(|| Name {
                group: None,
                subscribers: Vec::new(),
            });
            // A group named twice is delivered once.
            if !entry.subscribers.contains(&place) {
                entry.subscribers.push(place);
            }
            if let Some(bound) = entry
                .group
                .and_then(|group| self.table[index(group)].as_mut())
            {
                bound.subscribers.clone_from(&entry.subscribers);
            }
        }
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
        self.slow.retain(|other| *other != place);
        let names = names.iter().flat_map(|names| names.iter());
        let gone = names.filter(|name| self.unlink(name, |other| other != place));
        gone.map(|name| name.to_string()).collect::<Vec<_>>()
    }

    /// Ends the delivery of a group to all subscriptions; true if there were any.
    pub(super) fn leave(&mut self, name: &str) -> bool {
        self.names.contains_key(name) && self.unlink(name, |_| false)
    }

    /// Group numbers are void: the node has begun a new life.
    pub(super) fn forget_numbers(&mut self) {
        self.table.clear();
        self.names.values_mut().for_each(|name| name.group = None);
    }

    /// Learns the numbers of these groups.
    pub(super) fn bind(&mut self, endpoint: &Endpoint, names: &[Arc<str>]) {
        for name in names {
            if let Some(group) = endpoint.group(name) {
                self.bind_one(group, name);
            }
        }
    }

    /// Delivers what came before its group's number was known here. To be called after each call
    /// of the endpoint that delivers.
    pub(super) fn settle(&mut self, endpoint: &Endpoint) {
        if self.stash.is_empty() {
            return;
        }
        for stashed in core::mem::take(&mut self.stash) {
            let bound = endpoint
                .group_name(stashed.group)
                .is_some_and(|name| self.bind_one(stashed.group, name));
            if bound {
                self.deliver(qsm_proto::Delivery {
                    group: stashed.group,
                    sender: stashed.sender,
                    number: stashed.number,
                    bytes: &stashed.bytes,
                });
            } else {
                self.stats.unwanted += 1;
            }
        }
    }

    pub(super) fn name(&self, group: GroupId) -> Option<&Arc<str>> {
        let bound = self.table.get(index(group))?.as_ref()?;
        Some(&bound.name)
    }

    /// Wakes the readers of queues that got something. Once per turn.
    pub(super) fn wake(&mut self) {
        for place in self.touched.drain(..) {
            if let Some(subscriber) = &mut self.subscribers[place] {
                subscriber.touched = false;
                match &subscriber.sink {
                    Sink::Queue(inbox) => inbox.wake(),
                    Sink::Foreign(queue) => queue.wake(),
                    Sink::Upcall(_) => {}
                }
            }
        }
    }

    /// Tells of drops that are due to be told.
    pub(super) fn tell_slow(&mut self, now: Instant, mut tell: impl FnMut(Event)) {
        let subscribers = &mut self.subscribers;
        self.slow.retain(|place| {
            let Some(subscriber) = &mut subscribers[*place] else {
                return false;
            };
            if subscriber.tell_again > now {
                return true;
            }
            let Sink::Queue(inbox) = &subscriber.sink else {
                return false;
            };
            let dropped_total = inbox.dropped();
            tell(Event::SlowConsumer {
                groups: Arc::clone(&subscriber.names),
                dropped: dropped_total - subscriber.told_dropped,
                dropped_total,
            });
            subscriber.told_dropped = dropped_total;
            subscriber.tell_again = now.after(SLOW_INTERVAL);
            false
        });
    }

    /// When [`Routes::tell_slow`] has something to tell.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let slow = self
            .slow
            .iter()
            .filter_map(|place| self.subscribers[*place].as_ref());
        slow.map(|subscriber| subscriber.tell_again).min()
    }

    /// Ends all subscriptions.
    pub(super) fn close(&self, reason: &CloseReason) {
        for subscriber in self.subscribers.iter().flatten() {
            if let Sink::Queue(inbox) = &subscriber.sink {
                inbox.close(RecvError::Closed(reason.clone()));
            }
        }
    }

    pub(super) fn rows(&self) -> Vec<SubscriptionRow> {
        let row = |subscriber: &Subscriber| {
            let (queued_messages, queued_bytes, dropped) = match &subscriber.sink {
                Sink::Queue(inbox) => (inbox.messages(), inbox.bytes(), inbox.dropped()),
                Sink::Foreign(queue) => (0, queue.queued_bytes(), queue.dropped()),
                Sink::Upcall(_) => (0, 0, 0),
            };
            SubscriptionRow {
                groups: Arc::clone(&subscriber.names),
                upcall: matches!(subscriber.sink, Sink::Upcall(_)),
                queued_messages,
                queued_bytes,
                dropped,
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
        entry.subscribers.retain(|place| keep(*place));
        let empty = entry.subscribers.is_empty();
        if let Some(group) = entry.group {
            let slot = &mut self.table[index(group)];
            match slot {
                Some(bound) if !empty => bound.subscribers.clone_from(&entry.subscribers),
                _ => *slot = None,
            }
        }
        if empty {
            self.names.remove(name);
        }
        empty
    }

    /// Notes a group's number; false if nobody here subscribes to it.
    fn bind_one(&mut self, group: GroupId, name: &str) -> bool {
        let Some((name, _)) = self.names.get_key_value(name) else {
            return false;
        };
        let name = Arc::clone(name);
        let Some(entry) = self
            .names
            .get_mut(&name)
            .filter(|_| index(group) < GROUPS_MAX)
        else {
            return false;
        };
        if let Some(old) = entry.group.filter(|old| *old != group) {
            self.table[index(old)] = None;
        }
        entry.group = Some(group);
        if self.table.len() <= index(group) {
            self.table.resize_with(index(group) + 1, || None);
        }
        self.table[index(group)] = Some(Bound {
            name,
            subscribers: entry.subscribers.clone(),
        });
        true
    }
}

impl Deliver for Routes {
    fn deliver_run(&mut self, run: &mut Run<'_, '_>) {
        if let Some(Some(bound)) = self.table.get(index(run.group()))
            && let [place] = bound.subscribers[..]
            && let Some(subscriber) = &mut self.subscribers[place]
            && let Sink::Upcall(upcall) = &mut subscriber.sink
        {
            for message in run {
                self.stats.upcalls += 1;
                upcall(lend(bound, message));
            }
        } else {
            run.for_each(|message| self.deliver(message));
        }
    }

    fn deliver(&mut self, message: qsm_proto::Delivery<'_>) {
        let Some(Some(bound)) = self.table.get(index(message.group)) else {
            if self.stash.len() < STASH_MESSAGES_MAX {
                self.stash.push(Stashed {
                    group: message.group,
                    sender: message.sender,
                    number: message.number,
                    bytes: message.bytes.to_vec(),
                });
            } else {
                self.stats.unwanted += 1;
            }
            return;
        };
        for place in &bound.subscribers {
            let Some(subscriber) = &mut self.subscribers[*place] else {
                continue;
            };
            let offered = match &mut subscriber.sink {
                Sink::Upcall(upcall) => {
                    self.stats.upcalls += 1;
                    upcall(lend(bound, message));
                    continue;
                }
                Sink::Queue(inbox) => {
                    let offered = inbox.offer(message.bytes.len(), || own(bound, message));
                    if offered.dropped > 0 && !self.slow.contains(place) {
                        self.slow.push(*place);
                    }
                    offered
                }
                Sink::Foreign(queue) => queue.offer(lend(bound, message)),
            };
            self.stats.drops += offered.dropped;
            if !offered.kept {
                continue;
            }
            self.stats.queued += 1;
            if !subscriber.touched {
                subscriber.touched = true;
                self.touched.push(*place);
            }
        }
    }
}

/// Always made where it is used: written field by field and then moved elsewhere as a whole, it
/// would be read before the processor has put its parts together, which takes 5 ns.
#[inline(always)]
fn lend<'a>(bound: &'a Bound, message: qsm_proto::Delivery<'a>) -> Delivery<'a> {
    Delivery {
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
