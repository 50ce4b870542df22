//! The application's commands: entering groups, publishing, closing.

use qsm_wire::membership::{QueryKind, Role};
use qsm_wire::{GroupId, Opening, StreamId};

use super::core::Core;
use super::{Closing, Endpoint};
use crate::region::Region;
use crate::send::{Message, Past, PushError, SendConfig, SendStream};
use crate::{Deliver, Delivery, Event, Instant, PublishError};

/// How long a closing node waits for its messages to become stable.
const CLOSE_PATIENCE: core::time::Duration = core::time::Duration::from_secs(10);

impl Endpoint {
    /// Takes up a role in these groups, all in one request. [`Event::Done`] or
    /// [`Event::Refused`] will bear the returned number.
    pub fn enter(&mut self, now: Instant, role: Role, names: Vec<String>) -> u32 {
        let now = self.advance(now);
        let asked = (role == Role::Publisher).then(|| names.clone());
        let request = self
            .membership
            .enter(now, role, names, &mut self.core.outbox);
        if let Some(names) = asked {
            self.publishing.insert(request, names);
        }
        request
    }

    /// Gives up a role in these groups. From now on nothing of them is published or delivered.
    pub fn exit(&mut self, now: Instant, role: Role, names: Vec<String>) -> u32 {
        let now = self.advance(now);
        let given_up = (role == Role::Subscriber).then(|| names.clone());
        if role == Role::Publisher {
            for group in names.iter().filter_map(|name| self.membership.group(name)) {
                self.routes.enter(group, false);
            }
        }
        let request = self
            .membership
            .exit(now, role, names, &mut self.core.outbox);
        if let Some(names) = given_up {
            self.exiting.insert(request, names);
            self.subscribe();
        }
        request
    }

    /// Asks the membership service for a list; an event will bear the returned number.
    pub fn query(&mut self, now: Instant, kind: QueryKind) -> u32 {
        let now = self.advance(now);
        self.membership.query(now, kind, &mut self.core.outbox)
    }

    /// A group's number, known from [`Event::Done`] on.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupId> {
        self.membership.group(name)
    }

    /// Receivers of a group other than this node, as far as a publisher knows.
    #[must_use]
    pub fn members(&self, group: GroupId) -> u32 {
        let regions = self.routes.regions(group).iter();
        let receivers: usize = regions
            .filter_map(|id| self.regions.get(id))
            .map(|region| region.receivers)
            .sum();
        u32::try_from(receivers).unwrap_or(u32::MAX)
    }

    /// Multicasts a message to a group. It has been put into packets when this returns; returns
    /// its number among this node's messages to the group (R005, R053, R-DATA-3).
    ///
    /// # Errors
    /// The message has not been taken, and why.
    pub fn publish(
        &mut self,
        now: Instant,
        group: GroupId,
        payload: &[u8],
        out: &mut dyn Deliver,
    ) -> Result<u64, PublishError> {
        let now = self.advance(now);
        if self.closing.is_some() {
            return Err(PublishError::Closed);
        }
        let Some(number) = self.routes.next_number(group) else {
            return Err(PublishError::NotEntered);
        };
        let max = self.core.config.limits.message_bytes;
        if payload.len() > max {
            return Err(PublishError::TooLarge {
                length: payload.len(),
                max,
            });
        }
        self.push_to_regions(
            now,
            Message {
                group,
                number,
                payload,
            },
        )?;
        self.routes.count(group);
        self.core.stats.messages_published += 1;
        if self.core.cursors.subscribed(group) {
            self.core.stats.messages_delivered += 1;
            self.core.stats.bytes_delivered += payload.len() as u64;
            let sender = self.core.origin;
            out.deliver(Delivery {
                group,
                sender,
                number,
                bytes: payload,
            });
        }
        Ok(number)
    }

    /// The largest message that [`Endpoint::publish`] would take now, bytes.
    #[must_use]
    pub fn room_bytes(&self, group: GroupId) -> usize {
        let regions = self.routes.regions(group).iter();
        let regions = regions.filter_map(|id| self.regions.get(id));
        let regions = regions.filter(|region| region.receivers > 0);
        // Each has a copy of its own.
        let share = self.pool.free_blocks() / regions.clone().count().max(1);
        let fresh = SendConfig::new(&self.core.config).message_bytes_max(share);
        let rooms = regions.map(|region| match &region.sender {
            Some(sender) => sender.room_bytes(share),
            None => fresh,
        });
        rooms
            .min()
            .unwrap_or(usize::MAX)
            .min(self.core.config.limits.message_bytes)
    }

    /// Leaves the cluster once all that was published is stable, or after ten seconds.
    pub fn close(&mut self, now: Instant) {
        let now = self.advance(now);
        if self.closing.is_none() {
            self.closing = Some(Closing {
                until: now.after(CLOSE_PATIENCE),
                said: false,
            });
            for region in self.regions.values_mut() {
                if let Some(sender) = &mut region.sender {
                    sender.finish(now);
                }
            }
        }
    }

    /// Whether a closed node has said goodbye and nothing is left to do.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let gone = self.membership.is_gone(self.now);
        self.closing.is_some_and(|closing| closing.said) && gone && self.core.outbox.is_empty()
    }

    /// Whether all that was published has been received by all.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.regions
            .values()
            .filter_map(|region| region.sender.as_ref())
            .all(SendStream::is_idle)
    }

    pub(super) fn go_on_closing(&mut self, now: Instant) {
        let stable = self.is_stable();
        let Some(closing) = &mut self.closing else {
            return;
        };
        if !closing.said && (stable || now >= closing.until) {
            closing.said = true;
            self.membership.goodbye(now, &mut self.core.outbox);
        }
    }

    pub(super) fn done(&mut self, request: u32) {
        self.exiting.remove(&request);
        for name in self.publishing.remove(&request).into_iter().flatten() {
            let wanted = self.membership.wants(Role::Publisher, &name);
            if let Some(group) = self.membership.group(&name).filter(|_| wanted) {
                self.routes.enter(group, true);
            }
        }
        self.core.events.push(Event::Done { request });
    }

    /// Puts a message on the streams of all regions of its group, or on none.
    fn push_to_regions(&mut self, now: Instant, message: Message<'_>) -> Result<(), PublishError> {
        let ids = self.routes.regions(message.group);
        // One region judges for itself; several share the pool, and all of them must have room.
        if ids.len() > 1 {
            self.check_rooms(message)?;
        }
        for id in self.routes.regions(message.group) {
            let region = self.regions.get_mut(id);
            let Some(region) = region.filter(|region| region.receivers > 0) else {
                continue;
            };
            let sender = sending(region, &self.core, self.pasts.forgotten());
            sender
                .push(now, &mut self.pool, message)
                .map_err(|error| match error {
                    PushError::TooLarge { max } => PublishError::TooLarge {
                        length: message.payload.len(),
                        max,
                    },
                    _ => PublishError::WindowFull { region: *id },
                })?;
            if region.history.me().is_some() {
                region.ring.note_traffic(now, message.payload.len());
            }
        }
        Ok(())
    }

    /// Whether all regions of a group have room for a message, each for a copy of its own.
    fn check_rooms(&mut self, message: Message<'_>) -> Result<(), PublishError> {
        let length = message.payload.len();
        let ids = self.routes.regions(message.group);
        let (mut count, mut needed) = (0, Some(0));
        for id in ids {
            let region = self.regions.get_mut(id);
            let Some(region) = region.filter(|region| region.receivers > 0) else {
                continue;
            };
            let sender = sending(region, &self.core, self.pasts.forgotten());
            count += 1;
            needed = needed
                .zip(sender.blocks_needed(length))
                .map(|(all, more)| all + more);
        }
        let share = self.pool.limit_blocks() / count.max(1);
        let max = SendConfig::new(&self.core.config).message_bytes_max(share);
        if count > 1 && length > max {
            return Err(PublishError::TooLarge { length, max });
        }
        if count > 1 && needed.is_none_or(|needed| needed > self.pool.free_blocks()) {
            let region = ids.first().copied().unwrap_or_default();
            return Err(PublishError::WindowFull { region });
        }
        Ok(())
    }
}

/// This node's stream in a region, opened behind `highest`, the highest number of streams that
/// have been forgotten, if there is none yet.
fn sending<'r>(region: &'r mut Region, core: &Core, highest: u64) -> &'r mut SendStream {
    region.sender.get_or_insert_with(|| {
        let header = core.header();
        let newest = region.history.newest();
        let stream = StreamId {
            origin: header.origin,
            channel: newest.channel(),
        };
        let opening = Opening {
            view: newest.number(),
            start: highest + 1,
        };
        let openings = vec![opening];
        let past = Past { highest, openings };
        SendStream::resume(SendConfig::new(&core.config), header, stream, past)
    })
}
