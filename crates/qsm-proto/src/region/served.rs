//! Receivers that vanish from a region while they are not known to have what this node sent them.
//!
//! Acknowledgements are the region's: they say what all members have, and who of them has more is
//! not known. So what is not stable when a member vanishes counts as not received by it. A member
//! that is leaving is passed over: it is taken out when it has said that it has everything.

use std::sync::Arc;

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
    /// Found at the latest view, and not reported yet.
    unserved: Vec<Unserved>,
}

impl Served {
    /// Looks at an acknowledgement, before the stream takes it and forgets the packets.
    pub(super) fn note_ack(&mut self, ack: &Ack, stream: &SendStream) {
        if ack.view > stream.view() && ack.stable_upto > stream.stable_upto() {
            self.released_in = ack.view;
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
        let (Some(before), Some(stream)) = (before, stream) else {
            return;
        };
        if let Some(upto) = stream.last_before(view.number()) {
            let gone = |origin| view.index_of(origin).is_none();
            self.unserved = self.unserved_in(&before, me, stream, upto, gone);
        }
        if view.number() >= self.released_in {
            self.released = UnconfirmedNumbers::default();
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
        if idle && self.released.is_empty() {
            return all;
        }
        let members = view.members().iter();
        let members = members.filter(|member| member.origin != me && !member.leaving());
        for member in members.filter(|member| gone(member.origin)) {
            // What was sent before it joined was not for it.
            let joined = stream.last_before(member.joined).unwrap_or(0);
            let after = joined.max(stable);
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
