//! Receivers that are there and are not known to have what this node sent them.
//!
//! Acknowledgements are the region's, so of live receivers all are named that share one: one of
//! them lacks the messages. Of those that are away nothing is known since they went; what they lack
//! are the messages from there on, whose numbers need no look at the packets.

use std::sync::Arc;

use qsm_wire::{GroupId, Origin, RegionId};

use super::Region;
use super::served::{AwayReceiver, UNSERVED_RANGES_MAX, UNSERVED_RECEIVERS_MAX};
use crate::publication::Routes;
use crate::unconfirmed::UnconfirmedNumbers;
use crate::{Instant, MessageRange};

/// Receivers of one region and the messages of this node that they are not known to have.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lacking {
    /// The region.
    pub region: RegionId,
    /// When this node learnt that they are away; `None`: they are waited for.
    pub away: Option<Instant>,
    /// Who.
    pub receivers: Vec<Origin>,
    /// Number of further ones.
    pub receivers_more: u64,
    /// Which messages, by group.
    pub messages: Vec<MessageRange>,
    /// Number of messages in further ranges.
    pub messages_more: u64,
    /// This node still has all of these messages. Of those that it has not, receivers that are away
    /// get what live members have kept.
    pub kept: bool,
}

impl Region {
    /// Those of this region.
    pub(super) fn lacking(
        &self,
        me: Origin,
        routes: &Routes,
        name: &impl Fn(GroupId) -> Option<Arc<str>>,
    ) -> Vec<Lacking> {
        let live = self.lacking_live(me, routes, name);
        live.into_iter()
            .chain(self.lacking_away(routes, name))
            .collect()
    }

    fn lacking_live(
        &self,
        me: Origin,
        routes: &Routes,
        name: impl Fn(GroupId) -> Option<Arc<str>>,
    ) -> Vec<Lacking> {
        let Some(stream) = self.sender.as_ref().filter(|stream| !stream.is_idle()) else {
            return Vec::new();
        };
        let members = self.history.newest().live_members().iter();
        let members = members.filter(|member| member.origin != me && !member.leaving());
        let receivers: Vec<Origin> = members.map(|member| member.origin).collect();
        let mut all: Vec<(Vec<Origin>, UnconfirmedNumbers)> = Vec::new();
        for receiver in receivers {
            match all.first_mut().filter(|_| !self.has_filter(receiver)) {
                Some((others, _)) if !self.has_filter(others[0]) => others.push(receiver),
                _ => {
                    let owed = self.owed_in(receiver, stream.stable_upto(), u64::MAX, routes);
                    let one = (vec![receiver], owed);
                    // Those who receive everything are the first.
                    let at = if self.has_filter(receiver) {
                        all.len()
                    } else {
                        0
                    };
                    all.insert(at, one);
                }
            }
        }
        all.retain(|(_, numbers)| !numbers.is_empty());
        let named = all.into_iter().map(|(receivers, numbers)| {
            let (messages, messages_more) = numbers.ranges(UNSERVED_RANGES_MAX, &name);
            self.named(receivers, messages, messages_more)
        });
        named.collect()
    }

    /// Those that went at the same time lack the same.
    fn lacking_away(
        &self,
        routes: &Routes,
        name: impl Fn(GroupId) -> Option<Arc<str>>,
    ) -> Vec<Lacking> {
        let freed = self.sender.as_ref().map_or(0, |stream| stream.freed_upto());
        let mut all: Vec<Lacking> = Vec::new();
        let view = self.history.newest();
        let member = |origin| view.index_of(origin).and_then(|at| view.member(at));
        for (origin, away) in self.served.away() {
            let numbers = match member(*origin) {
                Some(member) if member.leaving() => {
                    self.lacks_before_leaving(*origin, away, routes)
                }
                Some(_) => lacks_since(away, routes),
                None => continue,
            };
            if numbers.is_empty() {
                continue;
            }
            let (messages, messages_more) = numbers.ranges(UNSERVED_RANGES_MAX, &name);
            let alike = |one: &&mut Lacking| {
                (one.away, &one.messages, one.messages_more)
                    == (Some(away.since), &messages, messages_more)
            };
            match all.iter_mut().find(alike) {
                Some(one) if one.receivers.len() < UNSERVED_RECEIVERS_MAX => {
                    one.receivers.push(*origin);
                }
                Some(one) => one.receivers_more += 1,
                None => all.push(Lacking {
                    away: Some(away.since),
                    kept: freed <= away.stable,
                    ..self.named(vec![*origin], messages, messages_more)
                }),
            }
        }
        all
    }

    /// What a member lacks that is leaving: it gets nothing that is sent from then on.
    fn lacks_before_leaving(
        &self,
        member: Origin,
        away: &AwayReceiver,
        routes: &Routes,
    ) -> UnconfirmedNumbers {
        let mut freed = away.freed.clone();
        freed.retain(|group| self.takes(member, group));
        let mut numbers = self.owed_in(member, away.after, away.upto, routes);
        numbers.add_low(freed, routes);
        numbers
    }

    fn named(
        &self,
        mut receivers: Vec<Origin>,
        messages: Vec<MessageRange>,
        messages_more: u64,
    ) -> Lacking {
        let receivers_more = receivers.len().saturating_sub(UNSERVED_RECEIVERS_MAX) as u64;
        receivers.truncate(UNSERVED_RECEIVERS_MAX);
        Lacking {
            region: self.id(),
            away: None,
            receivers,
            receivers_more,
            messages,
            messages_more,
            kept: true,
        }
    }
}

/// All messages from the first on that a member lacks.
fn lacks_since(away: &AwayReceiver, routes: &Routes) -> UnconfirmedNumbers {
    let mut numbers = UnconfirmedNumbers::default();
    for (group, first) in &away.firsts {
        let next = routes.next_number(*group);
        if *first < next {
            numbers.note_run(*group, *first, next - 1);
        }
    }
    numbers
}
