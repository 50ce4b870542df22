use core::time::Duration;

use qsm_wire::{MemberIndex, Origin, Ranges, Request, RequestHead, SeqRange, ViewNumber};

use super::route::{PATIENCE_AFTER_DEATH, RequestRoute};
use super::{RateBudget, RequestUrgency, RequestWindow};
use crate::history::History;
use crate::receive::{Gap, ReceiveStream, RetryInterval};
use crate::{Instant, Recovery};

/// Whom to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestTarget {
    /// A cacher, or one on the way to it, by its place in the request's view.
    Member(MemberIndex),
    /// The sender: every live cacher is known to miss it, or none answers and the sender can be asked.
    Sender,
    /// Nobody is left: the sender is dead and so is, or misses it, or is silent, every cacher.
    Nobody,
}

/// One request to make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedRequest {
    /// Whom.
    pub target: RequestTarget,
    /// Urgency of the answer.
    pub urgency: RequestUrgency,
    /// The request's fixed part.
    pub head: RequestHead,
    /// Others that wait for these packets here: the one who has them serves them too.
    pub waiters: Vec<MemberIndex>,
    /// The packets.
    pub ranges: Vec<SeqRange>,
}

/// Decides what to ask for, of one stream.
#[derive(Debug, Clone, Copy)]
pub struct RequestPlanner<'a> {
    /// The region.
    pub history: &'a History,
    /// This node.
    pub me: Origin,
    /// The time.
    pub now: Instant,
    /// Time to the next retry.
    pub retry: RetryInterval,
    /// Whether gaps have times of their own or wait for tokens, and how long cachers that do not
    /// answer are waited for: a dead one is excluded before that.
    pub recovery: Recovery,
}

/// How much a node may ask for.
#[derive(Debug)]
pub struct RequestAllowance<'a> {
    /// How many packets it can take.
    pub request_window: &'a mut RequestWindow,
    /// How many have come so far.
    pub received: u64,
    /// How many it has asked for, of all streams.
    pub asked: u64,
    /// What its requests may cost (R-NAK-7).
    pub requests: &'a mut RateBudget,
}

/// What a request takes from the budget, to which every packet that is received adds one: who
/// receives fast may ask for what it misses as fast.
pub const REQUEST_COST: u64 = 32;

/// Gaps that one call deals with; the others wait for the next.
const GAPS_PER_CALL: usize = 256;

/// Until when a request waits for which there is no budget.
const PUT_OFF: Duration = Duration::from_millis(1);

impl RequestPlanner<'_> {
    /// The requests that are due, as far as there is `allowance` for them. Their gaps are marked as
    /// asked (R-NAK-5); the others wait for a repair, or the time of a retry (R-NAK-10).
    pub fn due(
        &self,
        stream: &mut ReceiveStream,
        allowance: &mut RequestAllowance<'_>,
    ) -> Vec<PlannedRequest> {
        stream.hasten(self.now);
        self.split(stream);
        let due: Vec<Gap> = stream
            .gaps()
            .iter()
            .filter(|gap| gap.due <= self.now)
            .take(GAPS_PER_CALL)
            .copied()
            .collect();
        let mut asks: Vec<PlannedRequest> = Vec::new();
        for gap in due {
            let asked_before = allowance.asked;
            let Some(gap) = self.portion(gap, stream, allowance) else {
                continue;
            };
            stream.note_retry(self.now, &gap);
            let ask = self.ask(&gap, stream);
            let of = match ask.target {
                RequestTarget::Member(index) => Some(index),
                RequestTarget::Sender | RequestTarget::Nobody => None,
            };
            let made = self.make(&mut asks, ask, allowance);
            let Some(gap) = stream.gaps_mut().find_mut(gap.first) else {
                continue;
            };
            if !made {
                gap.due = self.now.after(PUT_OFF);
                allowance.asked = asked_before;
            } else {
                gap.ask(self.now, of);
                gap.due = if self.recovery.fast {
                    gap.next_request(self.retry)
                } else {
                    Instant::NEVER
                };
                gap.waiters = crate::receive::Waiters::default();
            }
        }
        stream.refresh_due();
        asks
    }

    /// Adds a request to those to be made. `false`: there is no budget for it.
    fn make(
        &self,
        asks: &mut Vec<PlannedRequest>,
        ask: PlannedRequest,
        allowance: &mut RequestAllowance<'_>,
    ) -> bool {
        if join(asks, &ask) {
            return true;
        }
        let free = ask.target == RequestTarget::Nobody;
        let made = free || allowance.requests.take(self.now, REQUEST_COST);
        if made {
            asks.push(ask);
        }
        made
    }

    /// What of a gap that is due may be asked for now; the rest is put off.
    fn portion(
        &self,
        gap: Gap,
        stream: &mut ReceiveStream,
        allowance: &mut RequestAllowance<'_>,
    ) -> Option<Gap> {
        if !self.recovery.fast {
            return Some(gap);
        }
        if gap.attempts > 0 && !gap.refused {
            allowance
                .request_window
                .timed_out(self.now, self.retry.first, allowance.received);
        }
        let count = gap.last - gap.first + 1;
        let room = allowance.request_window.room(allowance.asked).min(count);
        allowance.asked += room;
        if room == count {
            return Some(gap);
        }
        let rest = gap.first + room;
        stream.gaps_mut().split_before(rest);
        allowance.request_window.put_off();
        if let Some(rest) = stream.gaps_mut().find_mut(rest) {
            rest.due = self.now.after(self.retry.first);
            rest.put_off = rest.put_off.or(Some(self.now));
        }
        (room > 0).then(|| Gap {
            last: rest - 1,
            ..gap
        })
    }

    /// Cuts gaps that are due so that each lies with one partition of one view.
    fn split(&self, stream: &mut ReceiveStream) {
        let borders: Vec<u64> = stream
            .pieces(u64::MAX, self.history)
            .take(GAPS_PER_CALL * 4)
            .map(|piece| piece.first())
            .filter(|first| {
                stream
                    .gaps()
                    .find(*first)
                    .is_some_and(|gap| gap.due <= self.now)
            })
            .collect();
        for first in borders {
            stream.gaps_mut().split_before(first);
        }
    }

    fn ask(&self, gap: &Gap, stream: &ReceiveStream) -> PlannedRequest {
        let view = stream.view_of(gap.first, self.history);
        let mut tried = gap.known_missing;
        if self.history.caches(view, gap.first) {
            tried |= self.history.my_rank(view).map_or(0, bit);
        }
        let waiters = gap.waiters.members().to_vec();
        let target = self.target(gap, view, stream);
        PlannedRequest {
            target,
            urgency: RequestUrgency::of_plane(
                self.recovery.fast || target == RequestTarget::Sender,
            ),
            head: RequestHead {
                stream: stream.id(),
                view: self.history.nearest(view).number(),
                tried,
                for_itself: true,
                takes_parity: self.takes_parity(gap, stream),
            },
            waiters,
            ranges: vec![gap.range()],
        }
    }

    /// Returns whether all of the blocks is kept here that has come of them. Rule R-NAK-15.
    fn takes_parity(&self, gap: &Gap, stream: &ReceiveStream) -> bool {
        let view = self.history.newest();
        let whole = |sequence| {
            let block = view.parity_block(sequence);
            block.is_some_and(|block| stream.missing_of_block(block).is_some())
        };
        self.recovery.uses_parity() && whole(gap.first) && whole(gap.last)
    }

    // Rules R-NAK-2, R-NAK-4.
    fn target(&self, gap: &Gap, view: ViewNumber, stream: &ReceiveStream) -> RequestTarget {
        let view = self.history.nearest(view);
        let dead = stream.sender_dead();
        if !dead && self.history.is_demoted() {
            // It goes on from the present, and its sender says what it has lost. Rule R-RATE-12.
            return RequestTarget::Nobody;
        }
        // Where nobody knows where the sender is only cachers can bring it.
        let unheard = !dead && !self.is_reached(stream);
        let route = RequestRoute {
            history: self.history,
            stream,
            view,
            me: view
                .index_of(self.me)
                .filter(|_| !self.history.is_away() && !gap.let_go),
            sequence: gap.first,
            known_missing: gap.missing_at(dead || unheard),
            now: self.now,
            give_up: self.recovery.give_up,
        };
        let open = route.open();
        let waited = self.now.since(gap.silent_since) > self.recovery.give_up;
        // What only they may have is not given up until they would be excluded many times over.
        let late = stream
            .sender_died_at()
            .is_none_or(|died| self.now.since(died) > self.recovery.give_up * PATIENCE_AFTER_DEATH);
        let silent = waited && late && usize::from(gap.attempts) > open.len();
        // The nearest may miss it too, and ask here: only its word would end that.
        let vain = dead && waited;
        let next = match self.recovery.fast && !vain {
            true => route.next(gap.attempts),
            false => route.in_turn(gap.attempts),
        };
        match next {
            Some(member) if !silent || unheard => RequestTarget::Member(member),
            _ if dead => {
                let away = route.away(gap.attempts);
                away.map_or(RequestTarget::Nobody, RequestTarget::Member)
            }
            _ => RequestTarget::Sender,
        }
    }

    /// Tells whether the sender may be asked: it has been heard, or is a member.
    fn is_reached(&self, stream: &ReceiveStream) -> bool {
        let sender = stream.id().origin;
        stream.sender_address().is_some() || self.history.newest().index_of(sender).is_some()
    }
}

/// The bit of a rank in `tried`.
pub(crate) fn bit(rank: usize) -> u32 {
    u32::try_from(rank)
        .ok()
        .and_then(|rank| 1u32.checked_shl(rank))
        .unwrap_or(0)
}

/// Adds to a request that goes the same way, if there is one with room.
fn join(asks: &mut [PlannedRequest], ask: &PlannedRequest) -> bool {
    let same = asks.iter_mut().find(|other| {
        other.target == ask.target
            && other.head == ask.head
            && other.waiters == ask.waiters
            && other.ranges.len() < Ranges::MAX
            && other.waiters.len() <= Request::REQUESTERS_MAX
            && other
                .ranges
                .last()
                .is_some_and(|last| last.last() < ask.ranges[0].first())
    });
    if let Some(other) = same {
        other.ranges.extend(&ask.ranges);
        return true;
    }
    false
}
