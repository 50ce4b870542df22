//! Packets that are missing here, as others speak of them.

use core::time::Duration;

use qsm_wire::{Origin, SeqRange};

use super::{awaits_away, bit, others_away, others_who_cache};
use crate::Instant;
use crate::history::History;
use crate::receive::{Gap, ReceiveStream};

/// Notes that this member misses what is missing here too in this range: somebody else can be
/// asked, at once if that is news. By way of who is no cacher, and was asked, others cannot be.
pub(crate) fn note_missing(
    now: Instant,
    stream: &mut ReceiveStream,
    history: &History,
    who: Origin,
    range: SeqRange,
) {
    for part in missing_parts(stream, history, range) {
        let first = part.first();
        let view = history.nearest(stream.view_of(first, history));
        let Some(index) = view.index_of(who) else {
            continue;
        };
        let caches = view.is_cacher(index, first);
        let asked = |gap: &Gap| gap.attempts > 0 && gap.asked_of == Some(index);
        if !caches && !stream.gaps().find(first).is_some_and(asked) {
            continue;
        }
        stream.gaps_mut().cut_out(part);
        // Unless there was no room to cut it out.
        if let Some(gap) = stream.gaps_mut().find_mut(first)
            && part.covers(gap.range())
        {
            let rank = match caches {
                true => bit(view.rank_of(index)),
                false => 0,
            };
            let news = gap.known_missing & rank != rank || !caches && !gap.let_go;
            gap.refused |= asked(gap);
            gap.let_go = true;
            gap.absent |= rank;
            gap.known_missing |= rank;
            if news {
                gap.due = gap.due.min(now);
            }
        }
    }
}

/// The missing packets of this range, cut where other members cache.
pub(crate) fn missing_parts(
    stream: &ReceiveStream,
    history: &History,
    range: SeqRange,
) -> Vec<SeqRange> {
    let pieces = stream.pieces(range.last(), history);
    pieces
        .filter_map(|piece| SeqRange::new(piece.first().max(range.first()), piece.last()))
        .collect()
}

/// Notes that the sender has nothing of this range any more, so that only cachers are left: those
/// that have not answered get their time from now on.
pub(crate) fn leave_to_cachers(
    now: Instant,
    stream: &mut ReceiveStream,
    history: &History,
    range: SeqRange,
) {
    for part in missing_parts(stream, history, range) {
        stream.gaps_mut().cut_out(part);
        if let Some(gap) = stream.gaps_mut().find_mut(part.first())
            && part.covers(gap.range())
        {
            gap.silent_since = now;
            gap.attempts = 0;
        }
    }
}

/// The missing packets of this range of which no cacher is left that might have them and is waited
/// for (R-NAK-8).
pub(crate) fn missing_everywhere(
    now: Instant,
    give_up: Duration,
    stream: &ReceiveStream,
    history: &History,
    range: SeqRange,
) -> Vec<SeqRange> {
    let sender = stream.id().origin;
    let awaits_away = awaits_away(now, give_up, stream);
    let mut parts = missing_parts(stream, history, range);
    parts.retain(|part| {
        let view = stream.view_of(part.first(), history);
        let known = stream.gaps().find(part.first());
        let known = known.map_or(0, |gap| gap.missing_at(stream.sender_dead()));
        let live = others_who_cache(history, sender, view, part.first());
        let away = awaits_away.then(|| others_away(history, sender, view, part.first()));
        let mut others = live.chain(away.into_iter().flatten());
        others.all(|(rank, _)| known & bit(rank) != 0)
    });
    parts
}
