//! A member that leaves a region takes part in its recovery until it has all that was sent before.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_wire::membership::Sender;
use qsm_wire::{Origin, ViewNumber};

use super::{Query, Region, RegionCx};
use crate::Instant;
use crate::node::NodeState;
use crate::receive::ReceiveStream;
use crate::send::SendStream;

/// How long a leaving node waits without any token before it trusts that no stream is unknown.
const QUIET: core::time::Duration = core::time::Duration::from_millis(300);
/// Most senders remembered as silent; more are asked again.
const SILENT_MAX: usize = 1024;

/// What this node has left behind in a region that it leaves.
#[derive(Debug, Clone, Copy)]
pub(super) struct Leaving {
    /// The view that marks it as leaving.
    pub(super) view: ViewNumber,
    /// Grows with each region that this node leaves while it is still leaving others.
    pub(super) turn: u64,
    /// When the last token or summary of the region passed.
    pub(super) last_token: Instant,
    /// Tokens that have passed since.
    pub(super) tokens: u32,
    /// The membership service has been told that all is received.
    pub(super) reported: bool,
}

/// The word of the membership service that everybody who may send to a region has a view of it.
#[derive(Debug, Clone)]
pub(super) struct Settled {
    /// The view.
    pub(super) view: ViewNumber,
    /// Who may have sent something in a view before, and where they are.
    pub(super) senders: BTreeMap<Origin, SocketAddr>,
}

impl Region {
    /// Whether this node is leaving.
    pub(super) fn leaving(&self) -> bool {
        self.leaving.is_some()
    }

    /// Where this region stands among those whose messages this node delivers one after the
    /// other: regions being left in the order in which they were left, then the others.
    pub(super) fn turn(&self) -> u64 {
        self.leaving.map_or(u64::MAX, |leaving| leaving.turn)
    }

    /// The view that marks this node as leaving, once the membership service has been told that
    /// it has everything.
    pub(crate) fn reported_as_left(&self) -> Option<ViewNumber> {
        let leaving = self.leaving.filter(|leaving| leaving.reported);
        leaving.map(|leaving| leaving.view)
    }

    /// Everybody who may send here has that view; these may have sent something before. Whoever is
    /// not among them has said that everybody has what it sent, and will say nothing of the view.
    pub(crate) fn settle(&mut self, view: ViewNumber, senders: &[Sender]) {
        let senders = senders.iter();
        let senders = senders.map(|sender| (sender.origin, sender.address));
        let senders: BTreeMap<Origin, SocketAddr> = senders.collect();
        for (origin, stream) in &mut self.streams {
            if !senders.contains_key(origin) {
                stream.ended_as_known();
            }
        }
        self.settled = Some(Settled { view, senders });
    }

    /// A sender is dead: nothing more will be heard of it.
    pub(crate) fn sender_died(&mut self, now: Instant, sender: Origin) {
        match self.queries.get_mut(&sender) {
            // It has heard how far the stream goes, and others know where it begins.
            Some(query) if self.absence.is_some() => (query.due, query.attempts) = (now, 0),
            _ => _ = self.queries.remove(&sender),
        }
        if let Some(settled) = &mut self.settled {
            settled.senders.remove(&sender);
        }
        if let Some(stream) = self.streams.get_mut(&sender) {
            stream.sender_died(now);
        }
    }

    /// Ends all streams of others.
    pub(crate) fn release(&mut self, node: &mut NodeState) {
        node.streams -= self.streams.len();
        for stream in self.streams.values_mut() {
            stream.release(&mut node.store);
        }
        self.streams.clear();
    }

    /// When there is something to tell the membership service; `None` while streams are not
    /// drained: only a datagram can change that, and it is asked again after each.
    pub(crate) fn leave_timeout(&self, now: Instant) -> Option<Instant> {
        let parting = self.can_part().then_some(now);
        let leaving = self.leaving.as_ref().filter(|leaving| !leaving.reported);
        let leaving = leaving.filter(|_| self.drained(Instant::NEVER));
        let leaving = leaving.map(|leaving| match self.has_looked(leaving) {
            true => leaving.last_token,
            false => leaving.last_token.after(QUIET),
        });
        parting.into_iter().chain(leaving).min()
    }

    /// A view has come; `over`: it shows this node as leaving, which ended long ago. If it shows
    /// it as a receiver, it begins anew: what it had before is gone. Rule R-VIEW-11.
    pub(super) fn note_departed(&mut self, over: bool) {
        self.departed |= over;
        if self.departed && self.history.left().is_none() {
            self.departed = false;
            self.history.join_now();
        }
    }

    /// The sender's word that it has sent nothing here. It counts only once this node has left:
    /// until then the sender may still begin.
    pub(super) fn note_silent(&mut self, sender: Origin) {
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
    pub(super) fn drained_of(&self, sender: Origin) -> Option<bool> {
        let left = self.history.left()?;
        match self.streams.get(&sender) {
            Some(stream) => Some(stream.drained(left)),
            None if self.silent.contains(&sender) => Some(true),
            None => None,
        }
    }

    /// True once tokens have named all streams that others know of. None come where nobody else is.
    fn has_looked(&self, leaving: &Leaving) -> bool {
        leaving.tokens >= 2 || self.history.size() == 1
    }

    /// Whether this leaving node has received all that it must: nobody sends to it any more, all
    /// who might have done so have said how far they went, every known stream is drained, and the
    /// token has had the time to bring up those of the dead.
    fn drained(&self, now: Instant) -> bool {
        let (Some(leaving), Some(left)) = (&self.leaving, self.history.left()) else {
            return false;
        };
        let looked = self.has_looked(leaving) || now.since(leaving.last_token) >= QUIET;
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

    /// Whether this sender still has to say how far it went before this node left. Until the
    /// membership service has said who may have sent anything, everybody may.
    pub(super) fn awaits(&self, sender: Origin) -> bool {
        let left = self.history.left();
        let settled = self.settled.as_ref();
        let may_have_sent = match settled.filter(|settled| Some(settled.view) >= left) {
            Some(settled) => settled.senders.contains_key(&sender),
            None => self.leaving(),
        };
        may_have_sent && !self.has_word_of(sender)
    }

    /// Asks all who may have sent something before this node left, and have not said how much.
    fn ask_senders(&mut self, now: Instant, me: Origin) {
        let Some(mut settled) = self.settled.take() else {
            return;
        };
        settled
            .senders
            .retain(|sender, _| *sender != me && !self.has_word_of(*sender));
        for (sender, address) in &settled.senders {
            let query = || Query::new(now, Some(*address));
            let asked = self.queries.entry(*sender).or_insert_with(query);
            if asked.address.is_none() {
                *asked = query();
            }
        }
        self.settled = Some(settled);
    }

    /// Whether this node, which has nothing to do with this region any more, owes it nothing.
    fn can_part(&self) -> bool {
        let idle = self.sender.as_ref().is_none_or(SendStream::is_idle);
        // What it has sent may be kept for members that are away (R-VIEW-13).
        let kept = self.sender.as_ref().is_some_and(SendStream::retains);
        let keeps = self.others_away || kept;
        !self.parted && !self.member() && self.groups.is_empty() && idle && !keeps
    }
}

impl RegionCx<'_> {
    /// Tells the membership service once that this node has everything of a region that it has
    /// left. Rule R-VIEW-5.
    pub(crate) fn leave_drained(&mut self) {
        if !self.region.drained(self.node.now) {
            return;
        }
        let leaving = self.region.leaving.as_mut();
        if let Some(leaving) = leaving.filter(|leaving| !leaving.reported) {
            leaving.reported = true;
            let view = leaving.view;
            self.tell_drained(view);
        }
    }

    /// Tells the membership service once that everybody has what this node has sent to a region
    /// that does not concern it any more. Rule R-VIEW-10.
    pub(crate) fn part(&mut self) {
        if self.region.can_part() {
            self.region.parted = true;
            let view = self.region.history.newest().number();
            self.tell_drained(view);
        }
    }

    /// A token or summary of the region has passed.
    pub(super) fn note_token(&mut self) {
        if let Some(leaving) = &mut self.region.leaving {
            leaving.last_token = self.node.now;
            leaving.tokens += 1;
        }
    }

    /// Begins or ends leaving as the newest view shows it; `turn`: after all regions that are
    /// being left already.
    pub(crate) fn follow_departure(&mut self, turn: u64) {
        let now = self.node.now;
        match self.region.history.left() {
            Some(view) if self.region.departed => self.tell_drained(view),
            Some(view) if self.region.leaving.is_none() => {
                self.region.leaving = Some(Leaving {
                    view,
                    turn,
                    last_token: now,
                    tokens: 0,
                    reported: false,
                });
            }
            Some(_) => {}
            None => {
                if self.region.leaving.take().is_some() {
                    let streams = self.region.streams.values_mut();
                    streams.for_each(ReceiveStream::goes_on);
                }
                self.region.settled = None;
                self.region.silent.clear();
            }
        }
        self.region.ask_senders(now, self.node.origin);
        if !self.region.member() {
            self.leave();
        }
    }

    /// Forgets what only a member needs.
    fn leave(&mut self) {
        self.region.leaving = None;
        self.region.settled = None;
        self.region.release(self.node);
        self.region.queries.clear();
        self.region.silent.clear();
    }

    fn tell_drained(&mut self, view: ViewNumber) {
        let (now, id) = (self.node.now, self.region.id());
        self.membership
            .drained(now, id, view, &mut self.node.outbox);
    }
}
