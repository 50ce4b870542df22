//! What a node does with a token in its partition's ring (R074-R081): it says what it has, compares
//! what it misses with what its predecessor misses, and has the difference repaired.

use qsm_wire::{MemberIndex, Origin, Ranges, SeqRange};

use super::gathered::{Gathered, TokenEntry};
use super::sets::{NakSet, RangeSet};
use super::{Action, Report, Turn};

/// Where the token is in its course around the partition.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenPosition {
    /// The partition leader sends it off.
    Start,
    /// It has come from this member and goes on.
    Way(MemberIndex),
    /// It is back at the partition leader; from this member, if any other took part.
    End(Option<MemberIndex>),
    /// The same, and every member of the partition has taken part.
    Complete(Option<MemberIndex>),
}

impl TokenPosition {
    /// Whether the token has been around.
    pub(super) fn returned(self) -> bool {
        matches!(self, Self::End(_) | Self::Complete(_))
    }
}

/// Lets this node take part in a token of its partition.
pub(super) fn visit(
    token: &mut Gathered,
    stop: TokenPosition,
    turn: &mut Turn<'_>,
    capacity: usize,
) {
    let returned = stop.returned();
    if !returned {
        token.visit(turn.streams);
    }
    for entry in &mut token.slots {
        stream(entry, stop, turn);
    }
    if !returned {
        add_unlisted(token, turn, capacity);
    }
}

fn stream(entry: &mut TokenEntry, stop: TokenPosition, turn: &mut Turn<'_>) {
    let sender = entry.head.origin;
    let report = turn.streams.report(sender);
    let own = own_naks(entry, report, turn);
    let predecessor = match stop {
        TokenPosition::Start => None,
        TokenPosition::Way(from) => Some(from),
        TokenPosition::End(from) | TokenPosition::Complete(from) => from,
    };
    if let (Some(predecessor), Some(report)) = (predecessor, report) {
        compare(entry, &own, report, predecessor, turn);
    }
    entry.common = match stop {
        TokenPosition::Start => own,
        TokenPosition::Way(_) | TokenPosition::End(_) | TokenPosition::Complete(_) => {
            entry.common.common(&own, entry.head.cutoff)
        }
    };
    entry.naks = own;
    if stop.returned() {
        // What every member of the partition misses, only the sender can send (R079). One that
        // did not answer may have it: it will answer, or be excluded.
        if matches!(stop, TokenPosition::Complete(_)) && !entry.common.ranges.is_empty() {
            turn.actions.push(Action::AskSender {
                sender,
                ranges: entry.common.ranges,
            });
        }
        return;
    }
    entry.contribute(report);
    if entry.head.cutoff > 0 && report.is_some_and(|report| report.missing) {
        turn.actions.push(Action::PullLeaders {
            sender,
            cutoff: entry.head.cutoff,
        });
    }
}

/// R075. Of a stream it never heard of, a node cannot say what it misses (R-TOK-5).
fn own_naks(entry: &TokenEntry, report: Option<Report>, turn: &Turn<'_>) -> NakSet {
    let (sender, cutoff) = (entry.head.origin, entry.head.cutoff);
    let known = |report: Report| report.highest >= cutoff || turn.streams.knows(sender, cutoff);
    if !report.is_some_and(known) {
        return NakSet::unknown();
    }
    let mut ranges: Vec<SeqRange> = Vec::with_capacity(Ranges::MAX);
    let cut = turn
        .streams
        .missing_own(entry.head.origin, entry.head.cutoff, &mut ranges);
    NakSet::new(&ranges, cut)
}

/// R076: push what the predecessor misses and this node has; pull the opposite, with one request.
/// Rule R-TOK-6.
fn compare(
    entry: &TokenEntry,
    own: &NakSet,
    report: Report,
    predecessor: MemberIndex,
    turn: &mut Turn<'_>,
) {
    let (sender, cutoff) = (entry.head.origin, entry.head.cutoff);
    for range in entry.naks.without(own, cutoff) {
        let first = range.first().max(entry.head.stable_upto.saturating_add(1));
        if let Some(range) = SeqRange::new(first, range.last().min(report.highest)) {
            turn.actions.push(Action::Push {
                to: predecessor,
                sender,
                range,
            });
        }
    }
    let ranges: RangeSet = own.without(&entry.naks, cutoff).into_iter().collect();
    if !ranges.is_empty() {
        turn.actions.push(Action::Pull {
            from: predecessor,
            sender,
            ranges,
        });
    }
}

/// R064: a stream known here that has no slot gets one, if there is room.
fn add_unlisted(token: &mut Gathered, turn: &Turn<'_>, capacity: usize) {
    if token.slots.len() >= capacity {
        return;
    }
    let mut active: Vec<Origin> = Vec::new();
    turn.streams.active(&mut active);
    for sender in active {
        if token.slots.len() >= capacity {
            return;
        }
        if token.slot(sender).is_none() {
            let mut entry = TokenEntry::late(sender);
            entry.contribute(turn.streams.report(sender));
            token.slots.push(entry);
        }
    }
}
