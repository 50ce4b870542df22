//! Messages of this node on their way into streams: a group's regions, and the numbers of its
//! messages.

mod routes;

use std::collections::BTreeMap;

use qsm_wire::{GroupId, RegionId};

pub(crate) use self::routes::{Numbering, Routes};

use crate::node::NodeState;
use crate::region::Region;
use crate::ring::RegionRing;
use crate::send::{Batching, BlockPool, Message, PushError, SendConfig, SendStream};
use crate::{Deliver, Delivery, Instant, Promptness, PublishError};

/// A group that is open for messages. What they have in common has been looked up: with a message
/// of a hundred bytes that is more work than the message itself.
#[derive(Debug)]
pub struct Publication<'a> {
    pub(crate) now: Instant,
    pub(crate) group: GroupId,
    pub(crate) numbering: &'a mut Numbering,
    /// This node receives the group itself, and what it publishes there.
    pub(crate) subscribed: bool,
    /// Messages of this length and longer ones are not taken; none is while its own readers take no more.
    pub(crate) too_long: usize,
    pub(crate) way: PublicationLanes<'a>,
    pub(crate) pool: &'a mut BlockPool,
    pub(crate) node: &'a mut NodeState,
}

/// The streams that a group's messages go on.
#[derive(Debug)]
pub(crate) enum PublicationLanes<'a> {
    /// No other node receives the group.
    Nowhere,
    /// That of its only region.
    One(StreamLane<'a>),
    /// The same, with limits to the wait for other messages.
    Within(StreamLane<'a>, Batching),
    /// Those of several regions.
    Several(StreamLanes<'a>),
}

/// A region's stream, and its ring if this node is a member.
#[derive(Debug)]
pub(crate) struct StreamLane<'a> {
    region: RegionId,
    stream: &'a mut SendStream,
    ring: Option<&'a mut RegionRing>,
}

#[derive(Debug)]
pub(crate) struct StreamLanes<'a> {
    ids: &'a [RegionId],
    regions: &'a mut BTreeMap<RegionId, Region>,
    forgotten: u64,
    batching: Option<Batching>,
}

impl Publication<'_> {
    /// Limits the wait of the messages that follow for others in their packet, in the place of what
    /// the node's configuration says (R-DATA-15).
    #[must_use]
    pub fn within(mut self, batching: Batching) -> Self {
        self.way = match self.way {
            PublicationLanes::Nowhere => PublicationLanes::Nowhere,
            PublicationLanes::One(lane) | PublicationLanes::Within(lane, _) => {
                PublicationLanes::Within(lane, batching)
            }
            PublicationLanes::Several(lanes) => PublicationLanes::Several(StreamLanes {
                batching: Some(batching),
                ..lanes
            }),
        };
        self
    }

    /// Multicasts a message; as [`Endpoint::publish`](crate::Endpoint::publish).
    ///
    /// # Errors
    /// The message has not been taken, and why.
    #[inline]
    pub fn push(&mut self, payload: &[u8], out: &mut dyn Deliver) -> Result<u64, PublishError> {
        if payload.len() >= self.too_long {
            return Err(self.refuse(payload.len()));
        }
        let number = self.numbering.next();
        let message = Message {
            group: self.group,
            number,
            payload,
        };
        match &mut self.way {
            PublicationLanes::Nowhere => {}
            PublicationLanes::One(lane) => lane.push(self.now, self.pool, message)?,
            PublicationLanes::Within(lane, batching) => {
                lane.push_within(self.now, self.pool, message, *batching)?;
            }
            PublicationLanes::Several(lanes) => {
                lanes.push(self.now, self.pool, self.node, message)?;
            }
        }
        self.numbering.count();
        self.node.stats.messages_published += 1;
        if self.subscribed {
            self.deliver(number, payload, out);
        }
        Ok(number)
    }

    #[cold]
    fn refuse(&self, length: usize) -> PublishError {
        let max = self.node.config.limits.message_bytes;
        match length > max {
            true => PublishError::TooLarge { length, max },
            false => PublishError::ReadersFull,
        }
    }

    /// Apart from what each message goes through: most publishers do not receive what they send.
    #[inline(never)]
    fn deliver(&mut self, number: u64, bytes: &[u8], out: &mut dyn Deliver) {
        self.node.stats.messages_delivered += 1;
        self.node.stats.bytes_delivered += bytes.len() as u64;
        let message = Delivery {
            group: self.group,
            sender: self.node.origin,
            number,
            bytes,
        };
        out.deliver(message);
        if self.node.cursors.is_special() {
            let modes = self.node.cursors.prompt().of(self.group);
            deliver_promptly(modes, message, out);
        }
    }
}

/// Delivers an own message to those who want its group in another way.
#[cold]
fn deliver_promptly(modes: &[Promptness], message: Delivery<'_>, out: &mut dyn Deliver) {
    modes
        .iter()
        .for_each(|mode| out.deliver_promptly(*mode, message));
}

impl<'a> PublicationLanes<'a> {
    /// The way of a group of these regions. `forgotten`: the highest number of streams that have
    /// been forgotten.
    pub(crate) fn new(
        ids: &'a [RegionId],
        regions: &'a mut BTreeMap<RegionId, Region>,
        node: &NodeState,
        forgotten: u64,
    ) -> Self {
        match ids {
            [] => Self::Nowhere,
            [id] => match regions.get_mut(id).filter(|region| region.receivers() > 0) {
                Some(region) => Self::One(StreamLane::new(*id, region, node, forgotten)),
                None => Self::Nowhere,
            },
            _ => Self::Several(StreamLanes {
                ids,
                regions,
                forgotten,
                batching: None,
            }),
        }
    }
}

impl<'a> StreamLane<'a> {
    /// With this node's stream in the region, opened behind `forgotten` if there is none yet.
    fn new(id: RegionId, region: &'a mut Region, node: &NodeState, forgotten: u64) -> Self {
        let (stream, ring) = region.sending(node, forgotten);
        Self {
            region: id,
            stream,
            ring,
        }
    }

    #[inline]
    fn push(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        message: Message<'_>,
    ) -> Result<(), PublishError> {
        let length = message.payload.len();
        let pushed = self.stream.push(now, pool, message);
        self.pushed(now, length, pushed)
    }

    /// With these limits to the wait for other messages (R-DATA-15).
    #[inline(never)]
    fn push_within(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        message: Message<'_>,
        batching: Batching,
    ) -> Result<(), PublishError> {
        let length = message.payload.len();
        let pushed = self.stream.push_within(now, pool, message, batching);
        self.pushed(now, length, pushed)
    }

    /// A message of this length has been put on the stream, or not.
    #[inline]
    fn pushed(
        &mut self,
        now: Instant,
        length: usize,
        pushed: Result<(), PushError>,
    ) -> Result<(), PublishError> {
        pushed.map_err(|error| match error {
            PushError::TooLarge { max } => PublishError::TooLarge { length, max },
            _ => PublishError::WindowFull {
                region: self.region,
            },
        })?;
        if let Some(ring) = &mut self.ring {
            ring.note_traffic(now, length);
        }
        Ok(())
    }
}

impl StreamLanes<'_> {
    /// Puts a message on the streams of all regions, or on none.
    fn push(
        &mut self,
        now: Instant,
        pool: &mut BlockPool,
        node: &NodeState,
        message: Message<'_>,
    ) -> Result<(), PublishError> {
        self.check_rooms(pool, node, message.payload.len())?;
        for id in self.ids {
            let batching = self.batching;
            match (self.lane(*id, node), batching) {
                (Some(mut lane), None) => lane.push(now, pool, message)?,
                (Some(mut lane), Some(limits)) => lane.push_within(now, pool, message, limits)?,
                (None, _) => {}
            }
        }
        Ok(())
    }

    /// Whether all regions have room for a message of this length, each for a copy of its own.
    fn check_rooms(
        &mut self,
        pool: &BlockPool,
        node: &NodeState,
        length: usize,
    ) -> Result<(), PublishError> {
        let (mut count, mut needed) = (0, Some(0));
        for id in self.ids {
            let Some(lane) = self.lane(*id, node) else {
                continue;
            };
            count += 1;
            needed = needed
                .zip(lane.stream.blocks_needed(length))
                .map(|(all, more)| all + more);
        }
        let share = pool.limit_blocks() / count.max(1);
        let max = SendConfig::new(&node.config).message_bytes_max(share);
        if count > 1 && length > max {
            return Err(PublishError::TooLarge { length, max });
        }
        if count > 1 && needed.is_none_or(|needed| needed > pool.free_blocks()) {
            let region = self.ids.first().copied().unwrap_or_default();
            return Err(PublishError::WindowFull { region });
        }
        Ok(())
    }

    /// The region's, if somebody else receives there.
    fn lane(&mut self, id: RegionId, node: &NodeState) -> Option<StreamLane<'_>> {
        let region = self.regions.get_mut(&id)?;
        (region.receivers() > 0).then(|| StreamLane::new(id, region, node, self.forgotten))
    }
}
