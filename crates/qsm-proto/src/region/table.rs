//! All regions of a node, and the order between them: of one sender, what it sent in a region
//! that this node has left comes before what it sent elsewhere.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::ops::Bound;
use std::sync::Arc;

use qsm_wire::{ChannelId, Origin, RegionId};

use super::Region;
use super::copies::CopyRecipients;
use crate::lifetimes::Lifetimes;
use crate::node::NodeState;
use crate::send::{BlockPool, PastStreams, SendConfig, SendStream};
use crate::view::RegionView;
use crate::{Config, Deliver, Destination, Instant};

/// The regions that concern a node, by number and by channel.
#[derive(Debug, Default)]
pub(crate) struct RegionTable {
    regions: BTreeMap<RegionId, Region>,
    channels: BTreeMap<ChannelId, RegionId>,
    /// Some region is being left: streams may be held for what is still to come from there.
    moving: bool,
    /// Where the round of regions with data to send goes on.
    turn: RegionId,
}

/// A stream of this node that may send now.
#[derive(Debug)]
pub(crate) struct ReadyStream<'a> {
    /// Region of its receivers.
    pub(crate) region: RegionId,
    /// Sends its packets.
    pub(crate) stream: &'a mut SendStream,
    /// Where they go.
    pub(crate) to: Destination,
    /// This node receives what is sent there.
    pub(crate) member: bool,
    /// Members that get copies by unicast.
    pub(crate) recipients: &'a CopyRecipients,
    /// The region's newest view.
    pub(crate) view: &'a RegionView,
    /// Which of its packets expire, if any do.
    pub(crate) lifetimes: Option<&'a mut Lifetimes>,
}

impl RegionTable {
    /// The region of a channel.
    pub(crate) fn of_channel(&self, channel: ChannelId) -> Option<RegionId> {
        self.channels.get(&channel).copied()
    }

    pub(crate) fn get(&self, id: RegionId) -> Option<&Region> {
        self.regions.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: RegionId) -> Option<&mut Region> {
        self.regions.get_mut(&id)
    }

    /// All regions, by number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Region> + Clone {
        self.regions.values()
    }

    /// All regions, by number.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Region> {
        self.regions.values_mut()
    }

    /// The numbers of all regions.
    pub(crate) fn ids(&self) -> Vec<RegionId> {
        self.regions.keys().copied().collect()
    }

    /// All regions, for those who find their own by number.
    pub(crate) fn by_id(&mut self) -> &mut BTreeMap<RegionId, Region> {
        &mut self.regions
    }

    /// Takes a region's next view into its history. If it is the first, the region is new, and
    /// the numbers of this node's stream go on where they ended.
    pub(crate) fn push_view(
        &mut self,
        view: &Arc<RegionView>,
        node: &NodeState,
        pasts: &mut PastStreams,
    ) {
        match self.regions.entry(view.region()) {
            Entry::Occupied(entry) => {
                let region = entry.into_mut();
                self.channels.remove(&region.channel());
                region.history.push(view.clone());
            }
            Entry::Vacant(entry) => {
                let region = entry.insert(Region::new(&node.config, node.origin, view.clone()));
                if let Some(past) = pasts.take(view.channel()) {
                    region.resume(node, past);
                }
            }
        }
        self.channels.insert(view.channel(), view.region());
    }

    /// Addresses of those that get copies of what is multicast to this one. Regions may share one.
    pub(crate) fn recipients_at(&self, to: SocketAddr) -> impl Iterator<Item = SocketAddr> + '_ {
        let regions = self.regions.values();
        let copied = regions.filter(|region| !region.recipients.is_empty());
        let here = copied.filter(move |region| region.address() == to);
        here.flat_map(|region| region.recipients.addresses())
    }

    /// Addresses of all other members of the regions with this address.
    pub(crate) fn others_at(
        &self,
        to: SocketAddr,
        me: Origin,
    ) -> impl Iterator<Item = SocketAddr> + '_ {
        let regions = self.regions.values();
        let here = regions.filter(move |region| region.address() == to);
        here.flat_map(move |region| region.history.newest().others(me))
    }

    /// Takes a region out.
    pub(crate) fn remove(&mut self, id: RegionId) -> Option<Region> {
        let region = self.regions.remove(&id)?;
        self.channels.remove(&region.channel());
        self.note_moving();
        Some(region)
    }

    /// The longest message that the streams of all these regions have room for, bytes; each has a
    /// copy of its own.
    pub(crate) fn room_bytes(&self, ids: &[RegionId], pool: &BlockPool, config: &Config) -> usize {
        let regions = ids.iter().filter_map(|id| self.get(*id));
        let regions = regions.filter(|region| region.receivers() > 0);
        let share = pool.free_blocks() / regions.clone().count().max(1);
        let fresh = SendConfig::new(config).message_bytes_max(share);
        let rooms = regions.map(|region| match region.own_stream() {
            Some(stream) => stream.room_bytes(share),
            None => fresh,
        });
        let room = rooms.min().unwrap_or(usize::MAX);
        room.min(config.limits.message_bytes)
    }

    /// Whether some region is being left.
    pub(crate) fn moving(&self) -> bool {
        self.moving
    }

    /// Regions have been left, or have been left with everything.
    pub(crate) fn note_moving(&mut self) {
        self.moving = self.regions.values().any(Region::leaving);
    }

    /// The turn of a region that is left now: after all that are being left already.
    pub(crate) fn next_turn(&self) -> u64 {
        let leaving = self.regions.values().filter(|region| region.leaving());
        leaving.map(|region| region.turn() + 1).max().unwrap_or(0)
    }

    /// Tells whether a stream may send now.
    pub(crate) fn has_ready(&mut self, now: Instant) -> bool {
        self.regions.values_mut().any(|region| region.can_send(now))
    }

    /// The stream that may send now of the next region in turn that has one.
    pub(crate) fn next_to_send(&mut self, now: Instant) -> Option<ReadyStream<'_>> {
        let ready = |(id, region): (&RegionId, &mut Region)| region.can_send(now).then_some(*id);
        let last = self.turn;
        let after = (Bound::Excluded(last), Bound::Unbounded);
        let next = self.regions.range_mut(after).find_map(ready);
        let next = next.or_else(|| self.regions.range_mut(..=last).find_map(ready))?;
        self.turn = next;
        let region = self.regions.get_mut(&next)?;
        Some(ReadyStream {
            region: next,
            to: region.path().destination(),
            member: region.member(),
            recipients: &region.recipients,
            view: region.history.newest(),
            stream: region.sender.as_mut()?,
            lifetimes: region.lifetimes.as_deref_mut(),
        })
    }

    /// Whether what this sender sends in a region must wait, because not all of what it sent in a
    /// region that this node left before has been delivered (per-sender order over moves);
    /// `from`: where the sender is, if the packet says so. Rule R-VIEW-7.
    pub(crate) fn held(
        &mut self,
        now: Instant,
        id: RegionId,
        sender: Origin,
        from: Option<SocketAddr>,
    ) -> bool {
        // A repair does not say it. In a region of its own this node has nobody else to ask.
        let heard = |region: &Region| region.address_of(sender);
        let from = from.or_else(|| self.regions.get(&id).and_then(heard));
        let mut held = false;
        let turn = self.regions.get(&id).map_or(u64::MAX, Region::turn);
        for (other, region) in &mut self.regions {
            if *other == id || !region.leaving() || region.turn() > turn {
                continue;
            }
            match region.drained_of(sender) {
                Some(drained) => held |= !drained,
                None => {
                    held = true;
                    region.ask_later(now, from, sender);
                }
            }
        }
        held
    }

    /// Delivers what this sender's streams in other regions were held for, after progress in a
    /// region that is being left.
    pub(crate) fn progress(
        &mut self,
        node: &mut NodeState,
        changed: RegionId,
        sender: Origin,
        out: &mut dyn Deliver,
    ) {
        if !self.regions.get(&changed).is_some_and(Region::leaving) {
            return;
        }
        for id in self.in_turn() {
            if id != changed {
                self.deliver_waiting(node, id, sender, out);
            }
        }
    }

    /// Goes on where delivery was interrupted.
    pub(crate) fn go_on_delivering(&mut self, node: &mut NodeState, out: &mut dyn Deliver) {
        let mut resumed = Vec::new();
        for (id, region) in &mut self.regions {
            for (sender, stream) in &mut region.streams {
                if stream.interrupted() <= node.now {
                    stream.resume();
                    resumed.push((*id, *sender));
                }
            }
        }
        for (id, sender) in resumed {
            self.deliver_waiting(node, id, sender, out);
            self.progress(node, id, sender, out);
        }
        for region in self.regions.values_mut() {
            region.hurry(node, out);
        }
    }

    /// Delivers what waits in all streams and is not held any more.
    pub(crate) fn deliver_all(&mut self, node: &mut NodeState, out: &mut dyn Deliver) {
        for id in self.in_turn() {
            let region = self.regions.get(&id).into_iter();
            let streams = region.flat_map(|region| &region.streams);
            let waiting = streams.filter(|(_, stream)| stream.undelivered());
            let waiting: Vec<Origin> = waiting.map(|(sender, _)| *sender).collect();
            for sender in waiting {
                self.deliver_waiting(node, id, sender, out);
            }
        }
    }

    /// Delivers what waits in a stream if nothing holds it any more.
    pub(crate) fn deliver_waiting(
        &mut self,
        node: &mut NodeState,
        id: RegionId,
        sender: Origin,
        out: &mut dyn Deliver,
    ) {
        let region = self.regions.get(&id);
        let Some(stream) = region.and_then(|region| region.streams.get(&sender)) else {
            return;
        };
        let address = stream.sender_address();
        if !stream.undelivered() {
            return;
        }
        let held = self.held(node.now, id, sender, address);
        if let Some(region) = self.regions.get_mut(&id) {
            match held {
                true => region.settle_held(node, sender, out),
                false => region.deliver(node, sender, out),
            }
        }
    }

    /// All regions in the order in which their messages are delivered (R-VIEW-7).
    fn in_turn(&self) -> Vec<RegionId> {
        let mut ids = self.ids();
        ids.sort_by_key(|id| self.regions.get(id).map(Region::turn));
        ids
    }
}
