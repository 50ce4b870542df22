//! One region as one node sees it: its views, its token ring, and the streams that run through
//! its channel, this node's own among them.
//!
//! An input that concerns a region ends in a method of `RegionCx`, which sees the region and
//! what all regions share. What concerns several is the `RegionSet`'s, and the order between them
//! the `RegionTable`'s.
//!
//! | file | decides |
//! |---|---|
//! | `data` | packets and heartbeats: which streams there are, and what becomes of them |
//! | `requests` | what is asked for, of whom, and what is lost |
//! | `tokens` | what a ring makes of a token, and what follows for streams |
//! | `queries` | where streams begin, and who is asked for that |
//! | `parity` | sums of blocks, instead of many packets |
//! | `numbers` | which messages were in packets that are lost, as their sender says |
//! | `origin` | whose packets are believed, and what is told of forged ones |
//! | `marks` | which messages each receiver is owed |
//! | `filters`, `shares` | members that do not receive all groups, and what follows |
//! | `views` | a new view of one region |
//! | `absence` | the way back of a member that nobody waits for |
//! | `passed` | streams of which nothing is missing here, and nothing is received |
//! | `hearing` | multicast that does not arrive |
//! | `served` | receivers that vanish without having acknowledged |
//! | `lacking` | receivers that are there and have not acknowledged |
//! | `strain` | who holds the region, by its own word |
//! | `set` | updates of the membership service, in the order in which they take effect |
//! | `leaving` | what a node that leaves still owes and still needs |

mod absence;
mod answers;
mod batch;
mod copies;
mod data;
mod departures;
mod filters;
mod hearing;
mod lacking;
mod leaving;
mod marks;
mod numbers;
mod origin;
mod parity;
mod passed;
mod queries;
mod requests;
mod served;
mod set;
mod shares;
mod strain;
mod streams;
mod table;
mod tokens;
mod views;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::membership::GroupLifetime;
use qsm_wire::{ChannelId, GroupId, Opening, Origin, RegionId, StreamId};

pub(crate) use self::queries::extent_asked_for;
pub(crate) use self::set::RegionSet;
pub(crate) use self::table::{ReadyStream, RegionTable};

use self::absence::Absence;
pub use self::absence::CaughtUpWord;
use self::copies::CopyRecipients;
use self::filters::Filters;
use self::hearing::Earshot;
pub use self::lacking::Lacking;
use self::leaving::{Leaving, Settled};
use self::marks::NumberMarks;
use self::passed::PassedStreams;
use self::queries::Query;
use self::served::{Served, Unserved};
use self::strain::StrainMeter;
use crate::history::History;
use crate::lifetimes::Lifetimes;
use crate::membership::Membership;
use crate::node::{Backlog, NodeState};
use crate::publication::Routes;
use crate::receive::{PacketStore, ReceiveStream};
use crate::repair::{BlockRequests, RequestBackoff};
use crate::ring::{RegionRing, RingConfig};
use crate::send::{BlockPool, Past, SendConfig, SendStream};
use crate::signers::RegionProof;
use crate::stats::RingStats;
use crate::view::RegionView;
use crate::{Config, Instant, Path, Stats};

/// A region this node is in, is leaving, or publishes to.
#[derive(Debug)]
pub struct Region {
    history: History,
    /// Its groups that concern this node.
    groups: Vec<GroupId>,
    /// Members that do not receive all groups.
    filters: Filters,
    /// Groups whose messages have a lifetime; `None`: none has.
    lifetimes: Option<Box<Lifetimes>>,
    /// Demand on those who send here; `None`: nothing.
    proof: Option<Box<RegionProof>>,
    /// Packets per second below which no receiver holds a sender; 0: none (R-RATE-10).
    minimum_rate: u32,
    /// The token plane; runs while this node is a member.
    ring: RegionRing,
    /// Streams of others.
    streams: BTreeMap<Origin, ReceiveStream>,
    /// This node's stream, once it has published something here.
    sender: Option<SendStream>,
    /// Where those are who may send to it and are not members, if its address is source-specific.
    sources: Vec<SocketAddr>,
    /// Senders whose streams cannot be placed yet.
    queries: BTreeMap<Origin, Query>,
    /// Those that are not received here, and lack nothing.
    passed: PassedStreams,
    /// Senders that have said, since this node left, that they have sent nothing here.
    silent: Vec<Origin>,
    /// Speakers that are heard by multicast, or not.
    earshot: Earshot,
    /// Members that do not hear this node.
    recipients: CopyRecipients,
    /// Set while this node is away.
    absence: Option<Absence>,
    /// Its last word that it has caught up.
    said_caught_up: Option<CaughtUpWord>,
    /// Others are away, for whom packets are kept.
    others_away: bool,
    /// Set while this node is leaving.
    leaving: Option<Leaving>,
    /// This node has left with everything before, and is only said to be still leaving.
    departed: bool,
    /// Knowledge of those who may send here, as the membership service tells it.
    settled: Option<Settled>,
    /// The membership service has been told that all that this node has sent here has arrived.
    parted: bool,
    /// Members of the current view that receive, other than this node.
    receivers: usize,
    /// How widespread losses are.
    backoff: RequestBackoff,
    /// Requests that wait for others.
    blocks: BlockRequests,
    /// Whether somebody waits here.
    strain: StrainMeter,
    /// Time in which senders waited for this node's readers.
    readers: Backlog,
    /// Receivers of this node's stream.
    served: Served,
    /// Which messages they are owed.
    marks: NumberMarks,
}

/// State that a decision of one region may see and change. Made once per input.
#[derive(Debug)]
pub(crate) struct RegionCx<'a> {
    pub(crate) region: &'a mut Region,
    pub(crate) node: &'a mut NodeState,
    pub(crate) membership: &'a mut Membership,
    pub(crate) pool: &'a mut BlockPool,
}

impl Region {
    /// A region whose first known view is this.
    #[must_use]
    pub fn new(config: &Config, me: Origin, view: Arc<RegionView>) -> Self {
        Self {
            ring: RegionRing::new(RingConfig::new(config)),
            history: History::new(me, view),
            groups: Vec::new(),
            filters: Filters::default(),
            lifetimes: None,
            proof: None,
            minimum_rate: 0,
            streams: BTreeMap::new(),
            sender: None,
            sources: Vec::new(),
            queries: BTreeMap::new(),
            passed: PassedStreams::default(),
            silent: Vec::new(),
            earshot: Earshot::default(),
            recipients: CopyRecipients::default(),
            absence: None,
            said_caught_up: None,
            others_away: false,
            leaving: None,
            departed: false,
            settled: None,
            parted: false,
            receivers: 0,
            backoff: RequestBackoff::default(),
            blocks: BlockRequests::default(),
            strain: StrainMeter::default(),
            readers: Backlog::default(),
            served: Served::default(),
            marks: NumberMarks::default(),
        }
    }

    /// Which region.
    #[must_use]
    pub fn id(&self) -> RegionId {
        self.history.newest().region()
    }

    /// Its channel.
    #[must_use]
    pub fn channel(&self) -> ChannelId {
        self.history.newest().channel()
    }

    /// Path of its channel's packets to its members.
    pub(crate) fn path(&self) -> Path {
        self.history.newest().path()
    }

    /// The address that packets for all of its members are sent to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.history.newest().address()
    }

    /// Its current view.
    #[must_use]
    pub fn view(&self) -> &RegionView {
        self.history.newest()
    }

    /// Its last views.
    #[must_use]
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Its groups that concern this node, ascending.
    #[must_use]
    pub fn groups(&self) -> &[GroupId] {
        &self.groups
    }

    /// Groups of the region whose messages have a lifetime, ascending (R-DATA-14).
    pub fn lifetimes(&self) -> impl Iterator<Item = (GroupId, Duration)> {
        let lifetimes = self.lifetimes.as_deref().into_iter();
        lifetimes.flat_map(Lifetimes::groups)
    }

    /// A sender's stream, as received here.
    #[must_use]
    pub fn stream(&self, sender: Origin) -> Option<&ReceiveStream> {
        self.streams.get(&sender)
    }

    /// The streams of others that are received here, by sender.
    pub fn streams(&self) -> impl Iterator<Item = &ReceiveStream> {
        self.streams.values()
    }

    /// This node's own stream, once it has published something here.
    #[must_use]
    pub fn own_stream(&self) -> Option<&SendStream> {
        self.sender.as_ref()
    }

    pub(crate) fn own_stream_mut(&mut self) -> Option<&mut SendStream> {
        self.sender.as_mut()
    }

    /// Tells whether a member gets copies of what this node multicasts (R-REACH-4).
    #[must_use]
    pub fn copies_to(&self, member: Origin) -> bool {
        self.recipients.contains(member)
    }

    /// Since when it is known that the multicast of that node does not come here (R-REACH-3).
    #[must_use]
    pub fn unheard_since(&self, sender: Origin) -> Option<Instant> {
        self.earshot.unheard_since(sender)
    }

    /// The last word of this node that it has caught up (R-VIEW-14).
    #[must_use]
    pub fn said_caught_up(&self) -> Option<CaughtUpWord> {
        self.said_caught_up
    }

    /// Counters of its token ring.
    #[must_use]
    pub fn ring_stats(&self) -> RingStats {
        self.ring.stats()
    }

    /// Packets of that stream up to here are known to be in the region.
    #[must_use]
    pub fn cutoff(&self, sender: Origin) -> u64 {
        self.ring.cutoff(sender)
    }

    /// Packets of that stream up to here are known to be stable.
    #[must_use]
    pub fn stable_upto(&self, sender: Origin) -> u64 {
        self.ring.watermarks(sender).0
    }

    /// Tells whether senders wait for readers of this node that take no more (R-DATA-13).
    #[must_use]
    pub fn waits_for_readers(&self) -> bool {
        self.readers.is_waiting()
    }

    /// Whether this node takes part in its recovery.
    #[must_use]
    pub fn member(&self) -> bool {
        self.history.me().is_some() && !self.departed
    }

    /// Whether messages to its groups are delivered here.
    #[must_use]
    pub fn receiver(&self) -> bool {
        self.member() && self.leaving.is_none()
    }

    /// Members that receive, other than this node.
    pub(crate) fn receivers(&self) -> usize {
        self.receivers
    }

    /// Tells whether this node has that packet's bytes, and knows them to be its sender's where it waits for proof.
    pub(crate) fn holds(&self, sender: Origin, sequence: u64, store: &PacketStore) -> bool {
        let own = self.sender.as_ref();
        let own = own.filter(|own| own.id().origin == sender);
        let kept = self.streams.get(&sender);
        own.is_some_and(|own| own.packet(sequence).is_some())
            || kept.is_some_and(|kept| kept.has(sequence, store))
    }

    /// Tells whether this node has bytes by that number, proven or not.
    pub(crate) fn keeps(&self, sender: Origin, sequence: u64, store: &PacketStore) -> bool {
        let kept = self.streams.get(&sender);
        self.holds(sender, sequence, store)
            || kept.is_some_and(|kept| kept.packet(sequence, store).is_some())
    }

    /// Lends this node's stream, which begins behind `forgotten` if there is none yet; and the
    /// ring, if this node is a member.
    pub(crate) fn sending(
        &mut self,
        node: &NodeState,
        forgotten: u64,
    ) -> (&mut SendStream, Option<&mut RegionRing>) {
        let member = self.history.me().is_some();
        let newest = self.history.newest();
        let (retains, minimum) = (self.others_away, self.minimum_rate);
        let key = self.signing_key(node);
        let stream = self.sender.get_or_insert_with(|| {
            let opening = Opening {
                view: newest.number(),
                start: forgotten + 1,
            };
            let past = Past {
                highest: forgotten,
                openings: vec![opening],
                sealed: 0,
            };
            let mut stream = resumed(node, newest.channel(), past, retains);
            stream.set_minimum(node.now, minimum);
            stream.seal_by(node.now, key);
            stream
        });
        (stream, member.then_some(&mut self.ring))
    }

    /// Goes on with this node's stream where it ended.
    pub(crate) fn resume(&mut self, node: &NodeState, past: Past) {
        let mut stream = resumed(node, self.channel(), past, self.others_away);
        stream.set_minimum(node.now, self.minimum_rate);
        stream.seal_by(node.now, self.signing_key(node));
        self.sender = Some(stream);
    }

    /// Takes the rate below which no receiver holds a sender, packets per second; 0: none. Rule R-RATE-10.
    pub(crate) fn set_minimum_rate(&mut self, now: Instant, packets_per_second: u32) {
        if self.minimum_rate == packets_per_second {
            return;
        }
        self.minimum_rate = packets_per_second;
        if let Some(sender) = &mut self.sender {
            sender.set_minimum(now, packets_per_second);
        }
    }

    /// The rate below which no receiver holds a sender, packets per second; 0: none.
    #[must_use]
    pub fn minimum_rate(&self) -> u32 {
        self.minimum_rate
    }

    /// Takes which of its groups have a lifetime. What has been sent is as old as that at least: its
    /// stream may not be heard of again. Rule R-DATA-14.
    pub(crate) fn set_lifetimes(&mut self, now: Instant, told: &[GroupLifetime]) {
        let former = self.lifetimes.as_deref_mut();
        let lifetimes = Lifetimes::new(told).map(|new| new.resume(former));
        self.lifetimes = lifetimes.map(Box::new);
        let Some(lifetimes) = &mut self.lifetimes else {
            return;
        };
        for (sender, stream) in &self.streams {
            lifetimes.note(now, *sender, stream.sent());
        }
        if let Some(own) = &self.sender {
            lifetimes.note(now, own.id().origin, own.highest());
        }
    }

    /// Notes how far a stream is known to go, if packets of this region may expire.
    pub(crate) fn note_age(&mut self, now: Instant, me: Origin, sender: Origin) {
        let Some(lifetimes) = &mut self.lifetimes else {
            return;
        };
        let highest = match sender == me {
            true => self.sender.as_ref().map(SendStream::highest),
            false => self.streams.get(&sender).map(ReceiveStream::sent),
        };
        if let Some(highest) = highest {
            lifetimes.note(now, sender, highest);
        }
    }

    /// The same where a word of others may be what says that a packet exists which is here and waits for its proof.
    pub(super) fn note_unproven_age(&mut self, now: Instant, me: Origin, sender: Origin) {
        if self.proof.is_some() {
            self.note_age(now, me, sender);
        }
    }

    /// Whether something is ready to be sent on this node's stream.
    pub(crate) fn can_send(&mut self, now: Instant) -> bool {
        let sender = self.sender.as_mut();
        sender.is_some_and(|sender| sender.unsent_bytes() > 0 && sender.can_send(now))
    }

    /// Nothing more will be published, and this node is about to go.
    pub(crate) fn finish(&mut self, now: Instant) {
        if let Some(sender) = &mut self.sender {
            sender.finish(now);
        }
        self.streams.values_mut().for_each(ReceiveStream::close);
    }

    /// Whether senders know what this node had received when it began to close, as far as it can
    /// tell them: one that is no member any more has done so.
    pub(crate) fn receipted(&self) -> bool {
        !self.member() || self.streams().all(ReceiveStream::receipted)
    }

    /// Ends this node's stream.
    pub(crate) fn end_sending(&mut self, pool: &mut BlockPool) -> Option<Past> {
        self.sender.take().map(|sender| sender.end(pool))
    }

    /// The region ends for this node, `me`: nobody of it will acknowledge any more.
    pub(crate) fn end_serving(&mut self, me: Origin) {
        if let Some(sender) = &self.sender {
            self.served.end(me, sender);
        }
    }

    /// This node's life ends in order, while members may be away.
    pub(crate) fn leave_absent(&mut self, me: Origin) {
        if let Some(sender) = &self.sender {
            self.served.leave(me, sender);
        }
    }

    /// Notes which messages members lack first that have gone away.
    pub(crate) fn note_away(&mut self, routes: &Routes) {
        let (stream, groups) = (self.sender.as_ref(), &self.groups);
        self.served
            .note_firsts(stream, groups, &self.filters, routes);
    }

    /// Takes the word that a receiver has died, after the view without it.
    pub(crate) fn receiver_died(&mut self, receiver: Origin) {
        self.served.note_death(receiver);
    }

    /// Takes the word that a member has given packets of this node up.
    pub(crate) fn note_question(&mut self, asker: Origin) {
        self.note_let_go();
        let highest = self.sender.as_ref().map_or(0, SendStream::highest);
        self.served.note_question(asker, highest);
    }

    /// Takes the word that a member is told that packets of this node are gone.
    pub(crate) fn note_refusal(&mut self, asker: Origin) {
        self.note_let_go();
        self.served.note_refusal(asker);
    }

    /// Notes the messages that this node's stream has let go since that was looked at last.
    fn note_let_go(&mut self) {
        let Some(sender) = &mut self.sender else {
            return;
        };
        let freed = sender.take_freed();
        if !freed.is_empty() {
            self.served.note_freed(&freed, sender);
        }
    }

    /// Receivers found that are not known to have everything, and do not get it any more.
    pub(crate) fn take_unserved(&mut self) -> Vec<Unserved> {
        self.served.take()
    }

    /// Whether all that this node has published here has been received by all.
    pub(crate) fn stable(&self) -> bool {
        self.sender.as_ref().is_none_or(SendStream::is_idle) && self.knows_receivers()
    }

    /// Whether the views are known here in which this node's packets were acknowledged, and who was
    /// away has confirmed them since its return. If not, it is still to come who has vanished without
    /// them.
    #[must_use]
    pub fn knows_receivers(&self) -> bool {
        let sender = self.sender.as_ref();
        self.served.knows_views() && !sender.is_some_and(SendStream::confirms)
    }

    /// Names those who may send here without being members.
    pub(crate) fn set_sources(&mut self, sources: Vec<SocketAddr>) {
        self.sources = sources;
    }

    /// Where everybody is who may send here.
    pub(crate) fn senders(&self) -> impl Iterator<Item = SocketAddr> {
        let members = self.history.newest().members().iter();
        members
            .map(|member| member.address)
            .chain(self.sources.iter().copied())
    }

    /// Where a sender was last heard from, or where the view says it is.
    pub(super) fn address_of(&self, sender: Origin) -> Option<SocketAddr> {
        let view = self.history.newest();
        let member = view.index_of(sender).and_then(|at| view.member(at));
        let stream = self
            .streams
            .get(&sender)
            .filter(|stream| !stream.sender_dead());
        stream
            .and_then(ReceiveStream::sender_address)
            .or_else(|| member.map(|member| member.address))
    }

    /// A group that the application has given up is not delivered any more.
    pub(crate) fn give_up_group(&mut self, group: GroupId) {
        self.history.give_up(group);
    }

    /// Readers may have room now: goes on with what waits for them.
    pub(crate) fn retry_readers(&mut self, now: Instant) {
        let streams = self.streams.values_mut();
        streams.for_each(|stream| stream.retry_readers(now));
    }

    /// This node has a group from now on, and not here if it is leaving: what comes of it here was sent to
    /// others of a merged region, unless it has not heard of its stay here until now.
    pub(crate) fn begin_elsewhere(&mut self, group: GroupId) {
        if self.leaving() && self.history.has_received() {
            self.history.give_up(group);
        }
    }

    /// Of a merged region's groups this node receives no others here than those of its share: others
    /// that it has are among `all`, and come by another region.
    pub(crate) fn leave_to_others(&mut self, all: &BTreeSet<GroupId>) {
        let others: BTreeSet<GroupId> = match self.filters.is_merged() {
            true => {
                let own: BTreeSet<GroupId> = self.received().collect();
                all.difference(&own).copied().collect()
            }
            false => BTreeSet::new(),
        };
        self.history.leave_to_others(others);
    }

    /// Groups that the application has again here are delivered from now on. One that it has again
    /// in another region stays given up: what comes late belongs to the stay that is over.
    pub(crate) fn take_up_groups(&mut self, has: impl Fn(GroupId) -> bool) {
        let received: BTreeSet<GroupId> = self.received().collect();
        let here = |group: GroupId| received.contains(&group);
        self.history.take_up(|group| has(group) && here(group));
    }

    /// When something in here is due; [`Instant::NEVER`] if nothing is. Requests are made from
    /// `requests_from` on; nothing new leaves before `trains_from`.
    #[must_use]
    pub(crate) fn next_timeout(&self, requests_from: Instant, trains_from: Instant) -> Instant {
        // Asked after every input: plain loops, since most regions have little of anything.
        let mut next = self.ring.next_timeout().unwrap_or(Instant::NEVER);
        for stream in self.streams.values() {
            let request = stream.due().max(requests_from);
            next = next.min(request).min(stream.interrupted());
            next = next.min(stream.numbers_due()).min(stream.prompt_due());
            next = next.min(stream.unproven_due());
        }
        for query in self.queries.values() {
            next = next.min(query.due);
        }
        if let Some(absence) = &self.absence {
            next = next.min(absence.due());
        }
        next = next.min(self.earshot.due()).min(self.recipients.due());
        next = next.min(self.blocks.due());
        let sender = self.sender.as_ref();
        let sender = sender.and_then(|sender| sender.next_timeout_from(trains_from));
        sender.map_or(next, |at| next.min(at))
    }

    /// Adds what its parts count themselves.
    pub(crate) fn add_counters(&self, stats: &mut Stats) {
        stats.ring += self.ring.stats();
        stats.reader_waits += self.readers.counted();
        if let Some(sender) = &self.sender {
            stats.data_sent += sender.counters().packets;
            stats.seals_sent += sender.seals();
            stats.last_resort += sender.counters().last_resort;
            let minimum = sender.minimum_counters();
            stats.sent_beyond_window += minimum.beyond_window;
            stats.passed_over += minimum.passed_over;
            stats.heartbeats_sent += sender.counters().heartbeats;
            stats.pending_messages += sender.pending_messages();
            stats.pending_bytes += sender.pending_bytes() as u64;
            stats.unsent_messages += sender.unsent_messages();
            stats.unsent_bytes += sender.unsent_bytes() as u64;
        }
    }

    /// Panics if the state contradicts itself.
    pub(crate) fn check_invariants(&self) {
        for stream in self.streams.values() {
            stream.check_invariants();
        }
        if let Some(sender) = &self.sender {
            sender.check_invariants();
        }
    }
}

impl RegionCx<'_> {
    /// The stream of a sender in this region.
    fn stream_id(&self, origin: Origin) -> StreamId {
        StreamId {
            origin,
            channel: self.region.channel(),
        }
    }

    /// Sends what this node's stream owes: a heartbeat, or its oldest packets once more.
    pub(crate) fn handle_sender_timeout(&mut self) {
        let (now, to) = (self.node.now, self.region.path().destination());
        if let Some(sender) = &mut self.region.sender
            && sender.handle_timeout(now, to, &mut self.node.outbox)
        {
            self.tell_some();
        }
    }
}

fn resumed(node: &NodeState, channel: ChannelId, past: Past, retains: bool) -> SendStream {
    let id = StreamId {
        origin: node.origin,
        channel,
    };
    let mut stream = SendStream::resume(SendConfig::new(&node.config), node.header(), id, past);
    if retains {
        stream.begin_retaining();
    }
    if node.config.times_packets {
        stream.time_packets();
    }
    stream
}
