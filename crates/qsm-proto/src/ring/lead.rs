//! What only the region leader does: open rounds and draw their conclusions.

use qsm_wire::{Ack, Origin, StreamId, Summary, SummarySlot, TokenHead};

use super::gathered::Gathered;
use super::leases::{Division, Lease};
use super::place::RingPlace;
use super::round::Round;
use super::{Action, CALL, RegionRing, Turn};
use crate::{Instant, Reason, nanoseconds};

impl RegionRing {
    /// Opens a round, if there is a stream that needs one or the view is fresh.
    pub(super) fn open_round(&mut self, turn: &mut Turn<'_>, place: &RingPlace) {
        let mut active: Vec<Origin> = Vec::new();
        turn.streams.active(&mut active);
        let number = self.number.saturating_add(1);
        let (slots, senders) = self.tracks.choose(&active, self.capacity(), number);
        if slots.is_empty() && !self.fresh {
            self.pace.hold();
            return;
        }
        self.number = number;
        self.flying = Some(u32::try_from(senders).unwrap_or(u32::MAX));
        self.pace.opened(turn.now);
        let token = Gathered {
            head: TokenHead {
                region: place.view.region(),
                view: place.view.number(),
                leader: place.me,
                round: number,
                level: CALL,
                ring: 0,
                visited: 0,
                rate_packets: u32::MAX,
                credit_bytes: u32::MAX,
            },
            suspects: Vec::new(),
            slots,
        };
        if place.view.partitions() > 1 && !self.config.in_turn {
            self.stats.tokens_sent += 1;
            let (header, limit) = (self.header(place.me), self.config.signed_bytes());
            let to = place.view.path().destination();
            turn.outbox.push(Reason::Token, to, |out| {
                token.encode(&header, limit, out);
            });
        }
        let round = Round::new(place.me, number, turn.now, place.seats.len());
        let at = self.begin(round);
        self.start_leaf(turn, place, at, token);
    }

    /// The top token is back: watermarks, ACKs, the summary.
    pub(super) fn complete(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        at: usize,
        result: &Gathered,
    ) {
        let Some(senders) = self.flying.take() else {
            return;
        };
        let complete = usize::from(result.head.visited) == place.view.live_members().len();
        self.fresh &= !complete;
        self.stats.rounds += 1;
        self.stats.rounds_incomplete += u64::from(!complete);
        let duration = turn.now.since(self.rounds[at].started);
        self.stats.round_ns = nanoseconds(duration);
        turn.times.token_round.record(duration);
        for suspect in &result.suspects {
            self.suspect(turn, place, *suspect);
        }
        let leases = self.divide(turn.now, result);
        let mut changed = false;
        let mut news = false;
        for entry in &result.slots {
            let Some(track) = self.tracks.entry(entry.head.origin) else {
                continue;
            };
            let outcome = track.conclude(entry, complete);
            changed |= outcome.changed;
            news |= outcome.news;
            if track.cutoff == 0 {
                continue;
            }
            let demand = self.config.demand(&track.lease);
            let ack = Ack {
                stream: StreamId {
                    origin: track.sender,
                    channel: place.view.channel(),
                },
                region: place.view.region(),
                view: place.view.number(),
                round: result.head.round,
                stable_upto: track.stable_upto,
                cached_upto: track.cached_upto,
                arrived_upto: entry.head.arrived.min(track.cutoff).max(track.stable_upto),
                rate_packets: share_rate(result.head.rate_packets, senders),
                credit_bytes: leases.lease(demand),
                losers: entry.head.losers,
            };
            track.ack = Some(ack);
            let (sender, cutoff) = (track.sender, track.cutoff);
            if outcome.news || !turn.streams.knows(sender, cutoff) {
                turn.actions.push(Action::Watermarks {
                    sender,
                    cutoff,
                    stable_upto: ack.stable_upto,
                    cached_upto: ack.cached_upto,
                });
            }
            turn.actions.push(Action::Acknowledge {
                sender,
                ack,
                marks: entry.marks.clone(),
            });
        }
        if news {
            self.summarise(turn, place, result);
        }
        self.pace.credit(result.head.credit_bytes);
        let open = self.tracks.open() || self.fresh;
        self.pace.completed(turn.now, changed, open);
    }

    /// Notes what streams use, and divides the credit of all that are open. Rule R-RATE-11.
    fn divide(&mut self, now: Instant, result: &Gathered) -> Division {
        for entry in &result.slots {
            if let Some(track) = self.tracks.entry(entry.head.origin) {
                track
                    .lease
                    .note(now, entry.head.highest, entry.head.arrived);
            }
        }
        let open = self.tracks.each_open();
        let mut demands: Vec<u32> = open.map(|track| self.config.demand(&track.lease)).collect();
        // Streams that others have put in.
        let slots = result.slots.iter();
        let late = slots.filter(|entry| !self.tracks.is_open(entry.head.origin));
        demands.extend(late.map(|_| u32::MAX));
        Division::new(result.head.credit_bytes, &mut demands)
    }

    /// The token did not return (R062): the next round may begin.
    pub(super) fn abandon(&mut self, now: Instant, at: usize) {
        self.stats.rounds_abandoned += 1;
        self.flying = None;
        self.rounds.remove(at);
        self.pace.completed(now, true, true);
    }

    fn summarise(&mut self, turn: &mut Turn<'_>, place: &RingPlace, result: &Gathered) {
        if place.view.live_members().len() < 2 {
            return;
        }
        let lines: Vec<SummarySlot> = result
            .slots
            .iter()
            .filter_map(|entry| self.tracks.get(entry.head.origin))
            .map(super::tracks::Track::summary)
            .collect();
        let per_packet = Summary::slots_within(self.config.signed_bytes());
        let header = self.header(place.me);
        let head = &result.head;
        for part in lines.chunks(per_packet) {
            self.stats.summaries += 1;
            turn.outbox
                .push(Reason::Token, place.view.path().destination(), |out| {
                    let slots = part.iter().copied();
                    Summary::encode(&header, head.region, head.view, head.round, slots, out);
                });
        }
    }
}

impl super::RingConfig {
    /// Bytes that a stream can use, as far as its datagrams say it.
    fn demand(&self, lease: &Lease) -> u32 {
        match self.equal_credit {
            true => u32::MAX,
            false => lease.demand(self.limit_bytes()),
        }
    }
}

/// S2 eq. 1 (R104). Nobody constrained stays nobody constrained (R-RATE-1).
fn share_rate(rate_packets: u32, senders: u32) -> u32 {
    match rate_packets {
        u32::MAX => u32::MAX,
        rate => (rate / senders.max(1)).max(1),
    }
}
