//! Receivers that are there and not known to have something, as the application is told.

use std::sync::Arc;

use qsm_proto::{Endpoint, Instant, MessageRange};
use qsm_wire::RegionId;

use crate::error::Unconfirmed;
use crate::receivers::{Lacking, Receiver, Receivers};

/// Receivers that an answer names; the others are counted.
const RECEIVERS_NAMED: usize = 64;
/// Ranges of messages likewise.
const RANGES_NAMED: usize = 32;
/// Sets of receivers that lack the same, likewise.
const ENTRIES: usize = 64;

/// Of these regions.
pub(super) fn lacking(
    now: Instant,
    endpoint: &Endpoint,
    concerns: impl Fn(RegionId) -> bool,
) -> Vec<Lacking> {
    let incarnation = endpoint.origin().incarnation;
    let range = |range: MessageRange| Unconfirmed {
        group: range.group,
        incarnation,
        first: range.first,
        last: range.last,
    };
    let all = endpoint.lacking().into_iter();
    let all = all.filter(|one| concerns(one.region)).take(ENTRIES);
    let named = all.map(|one| {
        let ranges = one.messages.len();
        let mut messages: Vec<_> = one.messages.into_iter().map(range).collect();
        let more = messages.split_off(ranges.min(RANGES_NAMED));
        let more: u64 = more.iter().map(Unconfirmed::messages).sum();
        let hidden = one.receivers.len().saturating_sub(RECEIVERS_NAMED) as u64;
        let receivers = one.receivers.into_iter().take(RECEIVERS_NAMED);
        Lacking {
            receivers: receivers.map(Receiver::of).collect(),
            receivers_more: one.receivers_more + hidden,
            away: one.away.map(|since| now.since(since)),
            messages,
            messages_more: one.messages_more + more,
            kept: one.kept,
        }
    });
    named.collect()
}

/// Those of this group.
pub(super) fn receivers(name: &Arc<str>, endpoint: &Endpoint) -> Receivers {
    let mut receivers = Receivers::default();
    let Some(group) = endpoint.group(name) else {
        return receivers;
    };
    for (origin, away) in endpoint.receivers(group) {
        let (list, more) = match away {
            true => (&mut receivers.away, &mut receivers.away_more),
            false => (&mut receivers.live, &mut receivers.live_more),
        };
        if list.len() < RECEIVERS_NAMED {
            list.push(Receiver::of(origin));
        } else {
            *more += 1;
        }
    }
    receivers
}
