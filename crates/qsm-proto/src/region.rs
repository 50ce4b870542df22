//! One region as one node sees it: its views, its token ring, and the streams that run through
//! its channel, this node's own among them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::{ChannelId, GroupId, Opening, Origin, RegionId, SeqRange, ViewNumber};

use crate::history::History;
use crate::receive::{ReceiveStream, Store};
use crate::repair::Backoff;
use crate::ring::{RegionRing, Report, RingConfig, Streams};
use crate::send::SendStream;
use crate::view::RegionView;
use crate::{Config, Instant};

/// A question to a sender where the views of its stream begin.
#[derive(Debug, Clone, Copy)]
pub struct Query {
    /// Where the sender is, if that is known.
    pub address: Option<SocketAddr>,
    /// When to ask next.
    pub due: Instant,
    /// How often it has been asked.
    pub attempts: u32,
}

/// What this node has left behind in a region that it leaves.
#[derive(Debug, Clone, Copy)]
pub struct Leaving {
    /// The view that marks it as leaving.
    pub view: ViewNumber,
    /// Grows with each region that this node leaves while it is still leaving others.
    pub turn: u64,
    /// When it learned that.
    pub since: Instant,
    /// When the last token or summary of the region passed.
    pub last_token: Instant,
    /// Tokens that have passed since.
    pub tokens: u32,
    /// The membership service has been told that all is received.
    pub told: bool,
}

/// The word of the membership service that everybody who may send to a region has a view of it.
#[derive(Debug, Clone)]
pub struct Settled {
    /// The view.
    pub view: ViewNumber,
    /// Who may have sent something in a view before, and where they are.
    pub senders: BTreeMap<Origin, SocketAddr>,
}

/// A region this node is in, is leaving, or publishes to.
#[derive(Debug)]
pub struct Region {
    /// Its views.
    pub history: History,
    /// Its groups that concern this node.
    pub groups: Vec<GroupId>,
    /// The token plane; runs while this node is a member.
    pub ring: RegionRing,
    /// Streams of others.
    pub streams: BTreeMap<Origin, ReceiveStream>,
    /// This node's stream, once it has published something here.
    pub sender: Option<SendStream>,
    /// Where those are who may send to it and are not members, if its address is source-specific.
    pub sources: Vec<SocketAddr>,
    /// Senders whose streams cannot be placed yet.
    pub queries: BTreeMap<Origin, Query>,
    /// Senders that have said, since this node left, that they have sent nothing here.
    pub silent: Vec<Origin>,
    /// Set while this node is leaving.
    pub leaving: Option<Leaving>,
    /// This node has left with everything before, and is only said to be still leaving.
    pub departed: bool,
    /// What everybody who may send here knows.
    pub settled: Option<Settled>,
    /// The membership service has been told that all that this node has sent here has arrived.
    pub parted: bool,
    /// Members of the current view that receive, other than this node.
    pub receivers: usize,
    /// How widespread losses are.
    pub backoff: Backoff,
}

/// Most senders remembered as silent; more are asked again.
const SILENT_MAX: usize = 1024;

impl Region {
    /// A region whose first known view is this.
    #[must_use]
    pub fn new(config: &Config, me: Origin, view: Arc<RegionView>) -> Self {
        Self {
            ring: RegionRing::new(RingConfig::new(config)),
            history: History::new(me, view),
            groups: Vec::new(),
            streams: BTreeMap::new(),
            sender: None,
            sources: Vec::new(),
            queries: BTreeMap::new(),
            silent: Vec::new(),
            leaving: None,
            departed: false,
            settled: None,
            parted: false,
            receivers: 0,
            backoff: Backoff::default(),
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

    /// Its channel's address.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.history.newest().address()
    }

    /// Whether this node takes part in its recovery.
    #[must_use]
    pub fn member(&self) -> bool {
        self.history.me().is_some() && !self.departed
    }

    /// A view has come; `over`: it shows this node as leaving, which ended long ago. If it shows
    /// it as a receiver, it begins anew: what it had before is gone. Rule R-VIEW-11.
    pub fn note_departed(&mut self, over: bool) {
        self.departed |= over;
        if self.departed && self.history.left().is_none() {
            self.departed = false;
            self.history.join_now();
        }
    }

    /// Whether messages to its groups are delivered here.
    #[must_use]
    pub fn receiver(&self) -> bool {
        self.member() && self.leaving.is_none()
    }

    /// Where this region stands among those whose messages this node delivers one after the
    /// other: regions being left in the order in which they were left, then the others.
    #[must_use]
    pub fn turn(&self) -> u64 {
        self.leaving.map_or(u64::MAX, |leaving| leaving.turn)
    }

    /// Members that receive, other than this node.
    #[must_use]
    pub fn other_receivers(&self, me: Origin) -> usize {
        let members = self.history.newest().members().iter();
        members
            .filter(|member| !member.leaving() && member.origin != me)
            .count()
    }

    /// Where this node's part of a stream begins, judged by where its views begin; `None` if it
    /// begins in none of them yet. `openings` come newest first (R-VIEW-6).
    #[must_use]
    pub fn start_of(&self, openings: impl Iterator<Item = Opening>) -> Option<u64> {
        let joined = self.history.joined()?;
        openings
            .take_while(|opening| opening.view >= joined)
            .last()
            .map(|opening| opening.start)
    }

    /// The sender's word that it has sent nothing here. It counts only once this node has left:
    /// until then the sender may still begin.
    pub fn note_silent(&mut self, sender: Origin) {
        self.queries.remove(&sender);
        if self.history.left().is_none() {
            return;
        }
        if let Some(settled) = &mut self.settled {
            settled.senders.remove(&sender);
        }
        if self.silent.len() < SILENT_MAX && !self.silent.contains(&sender) {
            self.silent.push(sender);
        }
    }

    /// Whether everything that this sender sent here before this node left has been delivered;
    /// `None` if that cannot be told without asking the sender.
    #[must_use]
    pub fn drained_of(&self, sender: Origin) -> Option<bool> {
        let left = self.history.left()?;
        match self.streams.get(&sender) {
            Some(stream) => Some(stream.drained(left)),
            None if self.silent.contains(&sender) => Some(true),
            None => None,
        }
    }

    /// Whether this leaving node has received all that it must: nobody sends to it any more, all
    /// who might have done so have said how far they went, every known stream is drained, and the
    /// token has had the time to bring up those of the dead.
    #[must_use]
    pub fn drained(&self, now: Instant, quiet: core::time::Duration) -> bool {
        let (Some(leaving), Some(left)) = (&self.leaving, self.history.left()) else {
            return false;
        };
        let looked = leaving.tokens >= 2 || now.since(leaving.last_token) >= quiet;
        let settled = self.settled.as_ref().is_some_and(|settled| {
            let mut senders = settled.senders.keys();
            settled.view >= left && senders.all(|sender| self.has_word_of(*sender))
        });
        looked
            && settled
            && self.queries.is_empty()
            && self
                .streams
                .values()
                .all(|stream| stream.drained(left) && stream.handed_over(left))
    }

    /// Whether it is known how far this sender went before this node left.
    fn has_word_of(&self, sender: Origin) -> bool {
        let known = |left| match self.streams.get(&sender) {
            Some(stream) => stream.cut(left).is_some() || stream.drained(left),
            None => self.silent.contains(&sender),
        };
        self.history.left().is_some_and(known)
    }

    /// Whether this sender still has to say how far it went before this node left.
    #[must_use]
    pub fn awaits(&self, sender: Origin) -> bool {
        let settled = self.settled.as_ref();
        settled.is_some_and(|settled| settled.senders.contains_key(&sender))
            && !self.has_word_of(sender)
    }

    /// Asks all who may have sent something before this node left, and have not said how much.
    pub fn ask_senders(&mut self, now: Instant, me: Origin) {
        let Some(mut settled) = self.settled.take() else {
            return;
        };
        settled
            .senders
            .retain(|sender, _| *sender != me && !self.has_word_of(*sender));
        for (sender, address) in &settled.senders {
            let query = Query {
                address: Some(*address),
                due: now,
                attempts: 0,
            };
            let asked = self.queries.entry(*sender).or_insert(query);
            if asked.address.is_none() {
                *asked = query;
            }
        }
        self.settled = Some(settled);
    }

    /// Whether this node, which has nothing to do with this region any more, owes it nothing.
    #[must_use]
    pub fn can_part(&self) -> bool {
        let idle = self.sender.as_ref().is_none_or(SendStream::is_idle);
        !self.parted && !self.member() && self.groups.is_empty() && idle
    }

    /// When something in here is due; [`Instant::NEVER`] if nothing is. Requests are made from
    /// `requests_from` on.
    #[must_use]
    pub fn next_timeout(&self, requests_from: Instant) -> Instant {
        // Asked after every input: plain loops, since most regions have little of anything.
        let mut next = self.ring.next_timeout().unwrap_or(Instant::NEVER);
        for stream in self.streams.values() {
            let request = stream.due().max(requests_from);
            next = next.min(request).min(stream.interrupted());
        }
        for query in self.queries.values() {
            next = next.min(query.due);
        }
        let sender = self.sender.as_ref().and_then(SendStream::next_timeout);
        sender.map_or(next, |at| next.min(at))
    }

    /// Frees the memory of everything in here.
    pub fn release(&mut self, store: &mut Store) {
        for stream in self.streams.values_mut() {
            stream.release(store);
        }
    }
}

/// The receive side of a region, as the token sees it.
#[derive(Debug)]
pub struct RegionStreams<'a> {
    /// Its views.
    pub history: &'a History,
    /// Streams of others.
    pub streams: &'a BTreeMap<Origin, ReceiveStream>,
    /// This node's own stream.
    pub sender: Option<&'a SendStream>,
    /// This node.
    pub me: Origin,
    /// What it says of its receive rate, packets per second.
    pub rate_packets: u32,
    /// What it says of its receive buffer, bytes.
    pub credit_bytes: u32,
    /// Whether it can keep more than that. If not, what it has to keep behind a gap counts as if
    /// it had not arrived, and senders wait for the repair (R-RATE-4).
    pub has_room: bool,
}

impl Streams for RegionStreams<'_> {
    fn active(&self, into: &mut Vec<Origin>) {
        let own = self
            .sender
            .filter(|sender| !sender.is_idle())
            .map(|_| self.me);
        let others = self.streams.values().filter(|stream| !stream.settled());
        into.extend(others.map(|stream| stream.id().origin).chain(own));
        into.sort_unstable();
    }

    fn report(&self, sender: Origin) -> Option<Report> {
        if sender == self.me {
            let highest = self.sender?.highest();
            return Some(Report {
                highest,
                arrived: highest,
                contiguous: highest,
                cached: highest,
                missing: false,
            });
        }
        let mut report = self.streams.get(&sender)?.report(self.history);
        if !self.has_room {
            report.arrived = report.contiguous;
        }
        Some(report)
    }

    fn missing_own(&self, sender: Origin, cutoff: u64, into: &mut Vec<SeqRange>) -> bool {
        self.streams
            .get(&sender)
            .is_some_and(|stream| stream.missing_own(cutoff, self.history, into))
    }

    fn receive_rate(&self) -> u32 {
        self.rate_packets
    }

    fn credit_bytes(&self) -> u32 {
        self.credit_bytes
    }
}
