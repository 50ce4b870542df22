//! Receivers that vanish from a region while they are not known to have what this node sent them.
//!
//! Acknowledgements are the region's: they say what all members have, and who of them has more is
//! not known. So what is not stable when a member vanishes counts as not received by it. A member
//! that is leaving is taken out when it has said that it has everything, or when it dies: the word
//! of its death, which comes after the view, tells which.
//!
//! Acknowledgements do not speak for members that are away. They have what was stable when they
//! went, and nothing is known of the rest until they are live again. What was freed meanwhile for
//! want of room they have from others, or lack for good: then they ask for its numbers.

use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::membership::{AwayReason, Member};
use qsm_wire::{Ack, GroupId, Origin, ViewNumber};

use super::filters::Filters;
use crate::publication::Routes;
use crate::send::{FreedMessage, SendStream};
use crate::unconfirmed::UnconfirmedNumbers;
use crate::view::RegionView;
use crate::{Instant, UnservedCause};

/// Ranges of messages that an event about vanished receivers names; the rest is counted.
pub(super) const UNSERVED_RANGES_MAX: usize = 64;
/// Receivers that it names.
pub(super) const UNSERVED_RECEIVERS_MAX: usize = 256;

/// Receivers that vanished together, and the packets that they are not known to have: those above
/// `after`, up to `upto`.
#[derive(Debug)]
pub(crate) struct Unserved {
    pub(crate) receivers: Vec<Origin>,
    pub(crate) after: u64,
    pub(crate) upto: u64,
    /// Messages of packets before, with the low 32 bits of their numbers.
    pub(crate) released: UnconfirmedNumbers,
    /// Why.
    pub(crate) cause: UnservedCause,
}

/// A member that is away.
#[derive(Debug)]
pub(super) struct AwayReceiver {
    /// The view in which it joined: who leaves and comes back is owed something else.
    joined: ViewNumber,
    /// How far the stream was stable when it went.
    pub(super) stable: u64,
    /// The last packet that it has, or that was not for it.
    pub(super) after: u64,
    /// The last packet that is for it.
    pub(super) upto: u64,
    /// When this node learnt of it.
    pub(super) since: Instant,
    /// The first message of each group that it is not known to have.
    pub(super) firsts: BTreeMap<GroupId, u64>,
    /// Messages of packets that are not kept for it any more, by the low 32 bits of their numbers.
    pub(super) freed: UnconfirmedNumbers,
    /// It has asked for the numbers of messages that it has given up, and may give up more without
    /// another question.
    gives_up: bool,
    /// It was slow, and gives up what it misses, whether that is kept or not (R-RATE-12).
    demoted: bool,
    /// The last packet of those that it was named as lacking then.
    named: u64,
}

/// A member that was away and is live again. What was let go of meanwhile it may have from others.
#[derive(Debug)]
struct ReturnedReceiver {
    /// The first view in which it is live: acknowledgements of older ones do not speak for it.
    view: ViewNumber,
    /// Its state when it was away. Its `stable` grows as acknowledgements speak for it again.
    was: AwayReceiver,
}

impl AwayReceiver {
    /// Tells whether it is not known to have all packets up to here.
    fn lacks(&self, stable: u64) -> bool {
        self.stable < stable
    }

    /// Tells whether it may miss, or has given up, what is not kept for it any more.
    pub(super) fn misses_freed(&self) -> bool {
        self.gives_up || !self.freed.is_empty()
    }
}

impl ReturnedReceiver {
    /// Those live in that view, which is not newer than the newest, have everything up to there.
    fn note_ack(&mut self, view: ViewNumber, stable_upto: u64) {
        if view >= self.view {
            self.was.stable = self.was.stable.max(stable_upto);
            self.was.after = self.was.after.max(stable_upto);
        }
    }

    /// Tells whether acknowledgements speak for it as for the others, and it has nothing to ask for.
    fn is_done(&self, stable: u64) -> bool {
        !self.was.lacks(stable) && self.was.freed.is_empty()
    }
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
    /// How far the stream was stable before they acknowledged anything; `None`: they have not.
    stable_before: Option<u64>,
    /// Messages of packets that they have made this node let go: members may be away in that view. By
    /// the first packet of the view that each was sent in.
    freed_before: BTreeMap<u64, UnconfirmedNumbers>,
    /// Members that are away.
    away: BTreeMap<Origin, AwayReceiver>,
    /// Members that were away and are live again.
    returned: BTreeMap<Origin, ReturnedReceiver>,
    /// Messages of packets that were passed over and let go, though live members may lack them
    /// (R-RATE-10). By the low 32 bits of their numbers.
    let_go: UnconfirmedNumbers,
    /// Live members that have given some of them up, with what was let go since they were named.
    laggards: BTreeMap<Origin, UnconfirmedNumbers>,
    /// Members that have been told, or are to be, which messages were in packets up to these: they may
    /// give up more of these without another question.
    answered: BTreeMap<Origin, u64>,
    /// Found at the latest view, and not reported yet.
    unserved: Vec<Unserved>,
    /// Members that were leaving and are not in the latest view any more: they lack something if
    /// they are dead.
    leavers: Vec<Unserved>,
}

impl Served {
    /// Looks at an acknowledgement, before the stream takes it and forgets the packets.
    pub(super) fn note_ack(&mut self, ack: &Ack, stream: &SendStream) {
        if ack.view > stream.view() && ack.stable_upto > stream.stable_upto() {
            self.released_in = self.released_in.max(ack.view);
            let before = || stream.stable_upto();
            self.stable_before.get_or_insert_with(before);
            let packets = stream.unstable(stream.stable_upto(), ack.stable_upto);
            packets.for_each(|(group, low)| self.released.note(group, low.into()));
        }
    }

    /// Looks at an acknowledgement that the stream has taken.
    pub(super) fn note_taken(&mut self, ack: &Ack, stream: &SendStream) {
        self.forget_let_go(stream);
        let stable = stream.stable_upto();
        self.answered.retain(|_, upto| *upto > stable);
        if ack.view > stream.view() || self.returned.is_empty() {
            return;
        }
        for returned in self.returned.values_mut() {
            returned.note_ack(ack.view, ack.stable_upto.min(stable));
        }
        self.returned
            .retain(|_, returned| !returned.is_done(stable));
    }

    /// Live members have what was let go, if those of the views that are known have said so: of a later
    /// view it is not known who is away in it.
    fn forget_let_go(&mut self, stream: &SendStream) {
        let all = self.knows_views() && stream.stable_upto() >= stream.overrun();
        if all && !self.let_go.is_empty() {
            self.let_go = UnconfirmedNumbers::default();
            self.laggards.clear();
        }
    }

    /// Notes what is not kept any more for members that are, or were, away, or may be in a view that
    /// this node does not know yet.
    pub(super) fn note_freed(&mut self, freed: &[FreedMessage], stream: &SendStream) {
        let passed = stream.stable_upto() + 1..=stream.passed_upto();
        for one in freed.iter().filter(|one| passed.contains(&one.sequence)) {
            let laggards = self.laggards.values_mut();
            for numbers in laggards.chain([&mut self.let_go]) {
                numbers.note(one.group, one.low.into());
            }
        }
        let returned = self.returned.values_mut().map(|returned| &mut returned.was);
        for away in self.away.values_mut().chain(returned) {
            let for_it = away.after + 1..=away.upto;
            let lacks = freed.iter().filter(|one| for_it.contains(&one.sequence));
            lacks.for_each(|one| away.freed.note(one.group, one.low.into()));
        }
        if self.view.as_ref().is_none_or(|view| !self.knows(view)) {
            let before = self.stable_before.unwrap_or(0);
            for one in freed.iter().filter(|one| one.sequence > before) {
                let sent_in = self.freed_before.entry(stream.view_start(one.sequence));
                sent_in.or_default().note(one.group, one.low.into());
            }
        }
    }

    /// A member asks which messages were in packets that it has given up (R-DATA-11): it lacks what
    /// was let go. It is told of packets up to this one, the last that has been sent.
    pub(super) fn note_question(&mut self, asker: Origin, highest: u64) {
        self.answered.insert(asker, highest);
        self.name_demoted(asker, highest);
        self.name_lacking(asker);
    }

    /// A member that is demoted, or was, lacks what was sent since it went or was named last, as far as is
    /// known.
    fn name_demoted(&mut self, asker: Origin, highest: u64) {
        let returned = self
            .returned
            .get_mut(&asker)
            .map(|returned| &mut returned.was);
        let away = self.away.get_mut(&asker).or(returned);
        let Some(away) = away.filter(|away| away.demoted) else {
            return;
        };
        let (after, upto) = (away.after.max(away.named), highest.min(away.upto));
        away.named = away.named.max(upto);
        let released = core::mem::take(&mut away.freed);
        if after < upto || !released.is_empty() {
            self.unserved.push(Unserved {
                receivers: vec![asker],
                after,
                upto: upto.max(after),
                released,
                cause: UnservedCause::Demoted,
            });
        }
    }

    fn name_lacking(&mut self, asker: Origin) {
        let away = self.away.get_mut(&asker);
        let freed = away.map(|away| {
            away.gives_up = true;
            core::mem::take(&mut away.freed)
        });
        let returned = || {
            let returned = self.returned.get_mut(&asker)?;
            Some(core::mem::take(&mut returned.was.freed))
        };
        let freed = freed.or_else(returned);
        let freed = freed.or_else(|| self.take_let_go(asker));
        self.unserved
            .extend(freed.and_then(|freed| overrun(asker, freed)));
    }

    /// Messages that were let go since a live member was named last, which gives up what it lacks.
    fn take_let_go(&mut self, asker: Origin) -> Option<UnconfirmedNumbers> {
        if self.let_go.is_empty() {
            return None;
        }
        let known = self.laggards.get_mut(&asker).map(core::mem::take);
        let all = || {
            self.laggards.insert(asker, UnconfirmedNumbers::default());
            self.let_go.clone()
        };
        Some(known.unwrap_or_else(all))
    }

    /// Messages let go that a live member may lack.
    fn lacked(&self, member: Origin) -> UnconfirmedNumbers {
        let known = self.laggards.get(&member);
        known.unwrap_or(&self.let_go).clone()
    }

    /// A member is told that what it asks for was let go. One that has given up some gives up that,
    /// too, and need not ask which messages those were.
    pub(super) fn note_refusal(&mut self, asker: Origin) {
        let gives_up = self.away.get(&asker).is_some_and(|away| away.gives_up);
        if gives_up || self.laggards.contains_key(&asker) || self.answered.contains_key(&asker) {
            self.name_lacking(asker);
        }
    }

    /// Takes the next view, which the stream has opened already. `me` sends.
    pub(super) fn follow(
        &mut self,
        view: &Arc<RegionView>,
        now: Instant,
        me: Origin,
        stream: Option<&SendStream>,
    ) {
        let before = self.view.replace(Arc::clone(view));
        self.leavers.clear();
        self.unserved = self.given_up(view, before.as_deref());
        self.follow_away(view, now, stream);
        let (Some(before), Some(stream)) = (before, stream) else {
            return;
        };
        if let Some(upto) = stream.last_before(view.number()) {
            let gone = |origin| view.index_of(origin).is_none();
            let unserved = self.unserved_in(&before, me, stream, upto, gone);
            self.unserved.extend(unserved);
            self.leavers = self.leavers_in(&before, me, stream, gone);
        }
        let stays = |origin: &Origin| view.index_of(*origin).is_some();
        self.away.retain(|origin, _| stays(origin));
        self.laggards.retain(|origin, _| stays(origin));
        self.answered.retain(|origin, _| stays(origin));
        self.returned.retain(|origin, _| stays(origin));
        if view.number() >= self.released_in {
            self.released = UnconfirmedNumbers::default();
            self.stable_before = None;
            self.freed_before.clear();
            self.forget_let_go(stream);
        }
    }

    /// Members that are live again, or have left in order, and have given up what was let go.
    fn given_up(&mut self, view: &RegionView, before: Option<&RegionView>) -> Vec<Unserved> {
        let live = |origin: Origin| view.index_of(origin).is_some_and(|at| view.is_live(at));
        let left = |origin: Origin| {
            let member = before.and_then(|view| view.member(view.index_of(origin)?));
            let now = view.index_of(origin).and_then(|at| view.member(at));
            let stays = |was: &Member| now.is_some_and(|now| now.joined == was.joined);
            member.is_some_and(|member| member.leaving() && !stays(member))
        };
        let away = self.away.iter_mut();
        let back =
            away.filter(|(origin, away)| away.gives_up && (live(**origin) || left(**origin)));
        let lacking = back.filter_map(|(origin, away)| {
            let freed = core::mem::take(&mut away.freed);
            overrun(*origin, freed)
        });
        lacking.collect()
    }

    /// Notes who is away now. Who is not in the view any more is looked at after this.
    fn follow_away(&mut self, view: &RegionView, now: Instant, stream: Option<&SendStream>) {
        let live = |origin: &Origin| view.index_of(*origin).is_some_and(|at| view.is_live(at));
        let (back, away) = core::mem::take(&mut self.away)
            .into_iter()
            .partition::<BTreeMap<_, _>, _>(|(origin, _)| live(origin));
        self.away = away;
        let number = view.number();
        let back = back.into_iter().map(|(origin, was)| {
            let returned = ReturnedReceiver { view: number, was };
            (origin, returned)
        });
        self.returned.extend(back);
        let stable = stream.map_or(0, SendStream::stable_upto);
        let stable = self.stable_before.unwrap_or(stable);
        for member in view.away_members() {
            let last_before = |view| stream.and_then(|stream| stream.last_before(view));
            let joined = last_before(member.joined).unwrap_or(0);
            let upto = member.left.and_then(last_before).unwrap_or(u64::MAX);
            let lacked = self.lacked(member.origin);
            let gone = || AwayReceiver {
                joined: member.joined,
                stable,
                after: stable.max(joined),
                upto,
                since: now,
                firsts: BTreeMap::new(),
                freed: {
                    let mut freed = between(&self.freed_before, joined, upto);
                    freed.extend(lacked.clone());
                    freed
                },
                gives_up: false,
                demoted: member.away == Some(AwayReason::Demoted),
                named: 0,
            };
            // Who goes away again before it has what it lacked still lacks it.
            let again = self.returned.remove(&member.origin);
            let again = again.filter(|again| again.was.lacks(stable));
            let gone_again = again.map(|again| AwayReceiver {
                since: now,
                ..again.was
            });
            let away = self.away.entry(member.origin);
            let away = away.or_insert_with(|| gone_again.unwrap_or_else(gone));
            if away.joined != member.joined {
                *away = gone();
            }
            away.upto = away.upto.min(upto);
            away.demoted = member.away == Some(AwayReason::Demoted);
        }
    }

    /// Notes which messages to these groups are the first that members lack that have just gone
    /// away: of the groups known before those that are not stable, of others the next.
    pub(super) fn note_firsts(
        &mut self,
        stream: Option<&SendStream>,
        groups: &[GroupId],
        filters: &Filters,
        routes: &Routes,
    ) {
        for (origin, away) in &mut self.away {
            if away.firsts.is_empty() {
                let mut numbers = UnconfirmedNumbers::default();
                numbers.add_low(self.released.clone(), routes);
                numbers.add_low(away.freed.clone(), routes);
                if let Some(stream) = stream {
                    numbers.add_kept(stream, away.after, u64::MAX, routes);
                }
                away.firsts = numbers.firsts();
            }
            // What it does not receive it does not lack, also if it receives that later.
            away.firsts
                .retain(|group, _| filters.takes(*origin, *group));
            for group in groups
                .iter()
                .filter(|group| filters.takes(*origin, **group))
            {
                let next = || routes.next_number(*group);
                away.firsts.entry(*group).or_insert_with(next);
            }
        }
    }

    /// Members that are away.
    pub(super) fn away(&self) -> &BTreeMap<Origin, AwayReceiver> {
        &self.away
    }

    /// Tells whether a member was away, and not all acknowledgements speak for it again.
    pub(super) fn has_returned(&self, member: Origin) -> bool {
        self.returned.contains_key(&member)
    }

    /// Takes the word that a member has died: if it was leaving, it did not have everything.
    pub(super) fn note_death(&mut self, origin: Origin) {
        for leaver in &mut self.leavers {
            if leaver.receivers.contains(&origin) {
                leaver.receivers.retain(|receiver| *receiver != origin);
                self.unserved.push(Unserved {
                    receivers: vec![origin],
                    released: leaver.released.clone(),
                    ..*leaver
                });
            }
        }
    }

    /// Takes the end of this node's life: members that are away, or have not acknowledged everything
    /// in time, will not get anything of it from here any more. Rule R-MEM-14.
    pub(super) fn leave(&mut self, me: Origin, stream: &SendStream) {
        let Some(view) = self.view.take() else {
            return;
        };
        let away = |origin: Origin| self.away.contains_key(&origin);
        let causes = [UnservedCause::Away, UnservedCause::Ended];
        let unserved = causes.into_iter().flat_map(|cause| {
            let left = |origin: Origin| away(origin) == (cause == UnservedCause::Away);
            let mut unserved = self.unserved_in(&view, me, stream, u64::MAX, left);
            unserved.extend(self.leavers_in(&view, me, stream, left));
            unserved
                .into_iter()
                .map(move |one| Unserved { cause, ..one })
        });
        self.unserved = unserved.collect();
    }

    /// Takes the end of the region: all its receivers are gone.
    pub(super) fn end(&mut self, me: Origin, stream: &SendStream) {
        if let Some(before) = self.view.take() {
            self.unserved = self.unserved_in(&before, me, stream, u64::MAX, |_| true);
        }
    }

    /// Whether the views of all who have acknowledged something are known.
    pub(super) fn knows_views(&self) -> bool {
        self.stable_before.is_none()
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

    /// State of a member that acknowledgements up to `stable` do not speak for.
    fn behind(&self, member: Origin, stable: u64) -> Option<&AwayReceiver> {
        let returned = || Some(&self.returned.get(&member)?.was).filter(|was| was.lacks(stable));
        self.away.get(&member).or_else(returned)
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
        let idle = idle && self.released.is_empty() && self.let_go.is_empty();
        if idle && self.away.is_empty() && self.returned.is_empty() {
            return all;
        }
        let members = view.members().iter();
        let members = members.filter(|member| member.origin != me && !member.leaving());
        let lacks = |member: &&Member| !idle || self.behind(member.origin, stable).is_some();
        for member in members.filter(|member| gone(member.origin)).filter(lacks) {
            // What was sent before it joined was not for it.
            let joined = stream.last_before(member.joined).unwrap_or(0);
            let away = self.behind(member.origin, stable);
            let after = joined.max(away.map_or(stable, |away| away.stable));
            let mut released = self.released.clone();
            let freed = away.map(|away| away.freed.clone());
            released.extend(freed.unwrap_or_else(|| self.lacked(member.origin)));
            let same = |one: &&mut Unserved| one.after == after && one.released == released;
            match all.iter_mut().find(same) {
                Some(unserved) => unserved.receivers.push(member.origin),
                None => all.push(Unserved {
                    receivers: vec![member.origin],
                    after,
                    upto,
                    released,
                    cause: UnservedCause::Gone,
                }),
            }
        }
        all
    }

    /// Members of a view that were leaving and are `gone`, with what is not stable of that which was
    /// sent before they left.
    fn leavers_in(
        &self,
        view: &RegionView,
        me: Origin,
        stream: &SendStream,
        gone: impl Fn(Origin) -> bool,
    ) -> Vec<Unserved> {
        let stable = self.stable_before.unwrap_or_else(|| stream.stable_upto());
        let members = view.members().iter();
        let members = members.filter(|member| member.origin != me && gone(member.origin));
        let lacking = members.filter_map(|member| {
            let upto = stream.last_before(member.left?)?;
            let joined = stream.last_before(member.joined).unwrap_or(0);
            let away = self.behind(member.origin, stable);
            let after = joined.max(away.map_or(stable, |away| away.stable));
            let mut released = self.released.clone();
            released.extend(away.map(|away| away.freed.clone()).unwrap_or_default());
            (upto > after).then(|| Unserved {
                receivers: vec![member.origin],
                after,
                upto,
                released,
                cause: UnservedCause::Gone,
            })
        });
        lacking.collect()
    }
}

/// Of messages by the first packet of the view that they were sent in, those of the views after a packet
/// up to another one.
fn between(
    sent_in: &BTreeMap<u64, UnconfirmedNumbers>,
    after: u64,
    upto: u64,
) -> UnconfirmedNumbers {
    let mut all = UnconfirmedNumbers::default();
    let views = sent_in.iter();
    let views = views.filter(|(start, _)| **start > after && **start <= upto);
    views.for_each(|(_, numbers)| all.extend(numbers.clone()));
    all
}

/// A member lacks what was let go.
fn overrun(receiver: Origin, freed: UnconfirmedNumbers) -> Option<Unserved> {
    (!freed.is_empty()).then(|| Unserved {
        receivers: vec![receiver],
        after: 0,
        upto: 0,
        released: freed,
        cause: UnservedCause::Overrun,
    })
}

#[cfg(test)]
mod tests;
