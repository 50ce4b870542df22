use std::collections::BTreeMap;

use qsm_proto::region::Region;
use qsm_wire::{Body, Kind, Origin, Packet, RegionId, ViewNumber};

use crate::violation::Violation;

/// What a token says of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Said {
    region: RegionId,
    view: ViewNumber,
    round: (Origin, u64),
    sender: Origin,
    cutoff: u64,
    highest: u64,
}

/// What the token or summary in a datagram says, if it is one. A summary says what the next
/// round's cutoff will be: the leader, which closes the round, may have more than the others.
pub(crate) fn said(datagram: &[u8]) -> Vec<Said> {
    if !matches!(Kind::peek(datagram), Some(Kind::Token | Kind::Summary)) {
        return Vec::new();
    }
    let Ok(packet) = Packet::decode(datagram) else {
        return Vec::new();
    };
    match packet.body {
        Body::Token(token) => {
            let head = token.head;
            let slots = token.slots().map(|slot| Said {
                region: head.region,
                view: head.view,
                round: (head.leader, head.round),
                sender: slot.head.origin,
                cutoff: slot.head.cutoff,
                highest: slot.head.highest,
            });
            slots.collect()
        }
        Body::Summary(summary) => {
            let slots = summary.slots().map(|slot| Said {
                region: summary.region,
                view: summary.view,
                round: (packet.header.origin, summary.round),
                sender: slot.origin,
                cutoff: 0,
                highest: slot.cutoff,
            });
            slots.collect()
        }
        _ => Vec::new(),
    }
}

/// What counts as missing in a round is what somebody had in an earlier one, so that packets on
/// their way are not asked for (R074, R-TOK-5). Judged within a view: a node that was alone before
/// has had its rounds with itself, and what it found there may be named first in a later round of the
/// view, when a member has come back that lacks it (R-VIEW-12).
#[derive(Debug, Default)]
pub(crate) struct Cutoff {
    streams: BTreeMap<(RegionId, Origin), Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    view: ViewNumber,
    round: (Origin, u64),
    /// The highest number in this round and in those before.
    now: u64,
    before: u64,
}

impl Cutoff {
    /// A member that was the only live one has the next view: what it found in rounds with itself
    /// was said to nobody.
    pub(crate) fn follow(&mut self, member: &Region, senders: &[Origin]) {
        for sender in senders {
            let seen = self.streams.entry((member.id(), *sender)).or_default();
            seen.before = seen.before.max(member.cutoff(*sender));
        }
    }

    /// A token has been sent.
    pub(crate) fn check(&mut self, said: &Said) -> Result<(), Violation> {
        let key = (said.region, said.sender);
        let fresh = Seen {
            view: said.view,
            round: said.round,
            now: 0,
            before: said.cutoff,
        };
        let seen = self.streams.entry(key).or_insert(fresh);
        if seen.view != said.view {
            seen.before = seen.before.max(said.cutoff);
            seen.view = said.view;
        }
        if seen.round != said.round {
            seen.round = said.round;
            seen.before = seen.before.max(seen.now);
        }
        seen.now = seen.now.max(said.highest);
        if said.cutoff > seen.before {
            let message = format!(
                "round {} of {} in {:?} counts {} as missing up to #{}, but nobody had more than \
                 #{} in the rounds before",
                said.round.1, said.round.0, said.region, said.sender, said.cutoff, seen.before
            );
            return Err(Violation::new("cutoff", message));
        }
        Ok(())
    }
}
