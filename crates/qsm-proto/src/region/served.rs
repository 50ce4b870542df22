//! Receivers that vanish from a region while they are not known to have what this node sent them.
//!
//! Acknowledgements are the region's: they say what all members have, and who of them has more is
//! not known. So what is not stable when a member vanishes counts as not received by it. A member
//! that is leaving is passed over: it is taken out when it has said that it has everything.
//!
//! Acknowledgements do not speak for members that are away. They have what was stable when they
//! went, and nothing is known of the rest until they are live again.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::membership::Member;
use qsm_wire::{Ack, Origin, ViewNumber};

use crate::send::SendStream;
use crate::unconfirmed::UnconfirmedNumbers;
use crate::view::RegionView;

/// Receivers that vanished together, and the packets that they are not known to have: those above
/// `after`, up to `upto`.
#[derive(Debug)]
pub(crate) struct Unserved {
    pub(crate) receivers: Vec<Origin>,
    pub(crate) after: u64,
    pub(crate) upto: u64,
    /// Messages of packets before, with the low 32 bits of their numbers.
    pub(crate) released: UnconfirmedNumbers,
}

/// The receivers of a region, view by view.
#[derive(Debug, Default)]
pub(super) struct Served {
    view: Option<Arc<RegionView>>,
    /// Messages that members of a later view have acknowledged, before this node knows that view:
    /// who is not in it may lack them. By the low 32 bits of their numbers.
    released: UnconfirmedNumbers,
    /// That view.
    released_in: ViewNumber,
    /// How far the stream was stable before they acknowledged anything.
    stable_before: u64,
    /// Members that are away, and how far the stream was stable when they went.
    away: BTreeMap<Origin, u64>,
    /// Found at the latest view, and not reported yet.
    unserved: Vec<Unserved>,
}

impl Served {
    /// Looks at an acknowledgement, before the stream takes it and forgets the packets.
    pub(super) fn note_ack(&mut self, ack: &Ack, stream: &SendStream) {
        if ack.view > stream.view() && ack.stable_upto > stream.stable_upto() {
            self.released_in = ack.view;
            if self.released.is_empty() {
                self.stable_before = stream.stable_upto();
            }
            let packets = stream.unstable(stream.stable_upto(), ack.stable_upto);
            packets.for_each(|(group, low)| self.released.note(group, low.into()));
        }
    }

    /// Takes the next view, which the stream has opened already. `me` sends.
    pub(super) fn follow(
        &mut self,
        view: &Arc<RegionView>,
        me: Origin,
        stream: Option<&SendStream>,
    ) {
        let before = self.view.replace(Arc::clone(view));
        self.follow_away(view, stream);
        let (Some(before), Some(stream)) = (before, stream) else {
            return;
        };
        if let Some(upto) = stream.last_before(view.number()) {
            let gone = |origin| view.index_of(origin).is_none();
            self.unserved = self.unserved_in(&before, me, stream, upto, gone);
        }
        self.away
            .retain(|origin, _| view.index_of(*origin).is_some());
        if view.number() >= self.released_in {
            self.released = UnconfirmedNumbers::default();
        }
    }

    /// Notes who is away now. Who is not in the view any more is looked at after this.
    fn follow_away(&mut self, view: &RegionView, stream: Option<&SendStream>) {
        let live = |origin: &Origin| view.index_of(*origin).is_some_and(|at| view.is_live(at));
        self.away.retain(|origin, _| !live(origin));
        let stable = match self.released.is_empty() {
            true => stream.map_or(0, SendStream::stable_upto),
            false => self.stable_before,
        };
        for member in view.away_members() {
            self.away.entry(member.origin).or_insert(stable);
        }
    }

    /// Takes the end of this node's life: members that are away will not get anything of it from
    /// here any more.
    pub(super) fn leave(&mut self, me: Origin, stream: &SendStream) {
        if let Some(view) = self.view.take() {
            let away = |origin| self.away.contains_key(&origin);
            self.unserved = self.unserved_in(&view, me, stream, u64::MAX, away);
        }
    }

    /// Takes the end of the region: all its receivers are gone.
    pub(super) fn end(&mut self, me: Origin, stream: &SendStream) {
        if let Some(before) = self.view.take() {
            self.unserved = self.unserved_in(&before, me, stream, u64::MAX, |_| true);
        }
    }

    /// Whether the views of all who have acknowledged something are known.
    pub(super) fn knows_views(&self) -> bool {
        self.released.is_empty()
    }

    /// Whether nobody of a later view than this has acknowledged anything. Members may be away in
    /// that view, and need what the others have acknowledged.
    pub(super) fn knows(&self, view: &RegionView) -> bool {
        view.number() >= self.released_in
    }

    /// Hands out the receivers found.
    pub(super) fn take(&mut self) -> Vec<Unserved> {
        core::mem::take(&mut self.unserved)
    }

    /// The receivers of a view that are `gone`, by the packet after which they lack something.
    fn unserved_in(
        &self,
        view: &RegionView,
        me: Origin,
        stream: &SendStream,
        upto: u64,
        gone: impl Fn(Origin) -> bool,
    ) -> Vec<Unserved> {
        let mut all: Vec<Unserved> = Vec::new();
        let stable = stream.stable_upto();
        let idle = stream.is_idle() || upto <= stable;
        let idle = idle && self.released.is_empty();
        if idle && self.away.is_empty() {
            return all;
        }
        let members = view.members().iter();
        let members = members.filter(|member| member.origin != me && !member.leaving());
        let lacks = |member: &&Member| !idle || self.away.contains_key(&member.origin);
        for member in members.filter(|member| gone(member.origin)).filter(lacks) {
            // What was sent before it joined was not for it.
            let joined = stream.last_before(member.joined).unwrap_or(0);
            let has = self.away.get(&member.origin).copied();
            let after = joined.max(has.unwrap_or(stable));
            match all.iter_mut().find(|unserved| unserved.after == after) {
                Some(unserved) => unserved.receivers.push(member.origin),
                None => all.push(Unserved {
                    receivers: vec![member.origin],
                    after,
                    upto,
                    released: self.released.clone(),
                }),
            }
        }
        all
    }
}
