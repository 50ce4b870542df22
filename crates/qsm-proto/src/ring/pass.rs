//! Tokens through the rings: receiving, holding, passing on, and what to do when they do not come.

use qsm_wire::{MemberIndex, Origin, SummarySlot, Token, TokenAck};

use super::gathered::Gathered;
use super::leaf::{self, TokenPosition};
use super::place::{RingPlace, SkippedMembers};
use super::round::Round;
use super::{Action, LEADERS_MAX, RegionRing, Turn};
use crate::{Instant, Reason};

/// Something that has waited too long: in the ring of that level of that round.
#[derive(Debug, Clone, Copy)]
enum ExpiredHop {
    Hop { at: usize, level: usize },
    Ring { at: usize, level: usize },
}

impl RegionRing {
    /// A token of another view. If that view is older, the forwarder gets its receipt, so that it
    /// does not take this node for dead; the round is lost anyway. If it is newer, this node will
    /// soon know it: no receipt, the token will come again.
    pub(super) fn other_view(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        from: Origin,
        token: &Token<'_>,
    ) {
        self.stats.stale += 1;
        if token.head.view < place.view.number()
            && token.head.level != super::CALL
            && let Some(index) = place.view.index_of(from)
        {
            self.receipt(turn, place, index, token);
        }
    }

    /// A round begins (R031): the partition leaders start their rings at the same time.
    pub(super) fn handle_call(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        from: Origin,
        token: &Token<'_>,
    ) {
        let head = token.head;
        if from != head.leader || from == place.me {
            self.stats.strangers += 1;
            return;
        }
        self.note_told(place, from, head.round);
        self.watch.heard(turn.now, token.slot_count() > 0);
        if !place.seats.first().is_some_and(|leaf| leaf.leads()) {
            for slot in token.slots() {
                let said = SummarySlot {
                    origin: slot.head.origin,
                    cutoff: slot.head.cutoff,
                    stable_upto: slot.head.stable_upto,
                    cached_upto: slot.head.cached_upto,
                };
                self.learn(turn, &said);
            }
            return;
        }
        let Some(at) = self.round_at(turn.now, place, head.leader, head.round) else {
            return;
        };
        self.start_leaf(turn, place, at, Gathered::from_wire(token));
    }

    /// A token in one of this node's rings.
    pub(super) fn handle_ring(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        from: Origin,
        token: &Token<'_>,
    ) {
        let head = token.head;
        let level = usize::from(head.level);
        let seat = place.seats.get(level).filter(|seat| seat.ring == head.ring);
        let position = seat.and_then(|seat| place.neighbour(seat, from));
        let (Some(seat), Some(position)) = (seat, position) else {
            self.stats.strangers += 1;
            return;
        };
        let leaps = seat.leaps(position, token);
        self.note_told(place, from, head.round);
        let Some(from) = seat
            .member(position)
            .filter(|_| leaps != SkippedMembers::Strays)
        else {
            self.stats.strangers += 1;
            return;
        };
        self.receipt(turn, place, from, token);
        self.hops.alive(from);
        self.watch.heard(turn.now, token.slot_count() > 0);
        let Some(at) = self.round_at(turn.now, place, head.leader, head.round) else {
            return;
        };
        let stage = &mut self.rounds[at].stages[level];
        let expected = if seat.leads() {
            stage.waiting()
        } else {
            !stage.taken
        };
        if !expected {
            self.stats.stale += 1;
            return;
        }
        stage.taken = true;
        let mut token = Gathered::from_wire(token);
        if leaps == SkippedMembers::Unknown {
            token.no_progress();
        }
        if seat.leads() {
            self.came_back(turn, place, at, level, Some(from), token);
        } else if level == 0 {
            let token = self.at_leaf(turn, place, TokenPosition::Way(from), token);
            self.pass(turn, place, at, level, seat.position, token);
        } else {
            self.rounds[at].stages[level].held = Some(token.clone());
            self.start_leaf(turn, place, at, token);
            self.advance(turn, place, at);
        }
    }

    /// Where the state of this round is, made new if the round is; `None` if the round is over. A round
    /// from which nothing has come for a while, and of which its leader has not spoken, gives way to
    /// one that is not as far. Rule R-SEC-41.
    fn round_at(
        &mut self,
        now: Instant,
        place: &RingPlace,
        leader: Origin,
        number: u64,
    ) -> Option<usize> {
        let known = self.rounds.iter().position(|round| round.leader == leader);
        let current = known.map(|at| self.rounds[at].number);
        if current == Some(number) {
            return known;
        }
        let doubted = |at: usize| number >= self.told && self.rounds[at].is_doubtful(now);
        let over = |at: usize| number < self.rounds[at].number && !doubted(at);
        if leader == place.me || known.is_some_and(over) {
            self.stats.stale += 1;
            return None;
        }
        Some(self.begin(Round::new(leader, number, now, place.seats.len())))
    }

    /// Replaces the round of the same leader, or the oldest if there are too many.
    pub(super) fn begin(&mut self, round: Round) -> usize {
        let same = self
            .rounds
            .iter()
            .position(|old| old.leader == round.leader);
        let oldest = || {
            let rounds = self.rounds.iter().enumerate();
            let full = self.rounds.len() >= LEADERS_MAX;
            rounds
                .min_by_key(|(_, round)| round.started)
                .filter(|_| full)
                .map(|(at, _)| at)
        };
        match same.or_else(oldest) {
            Some(at) => {
                self.rounds[at] = round;
                at
            }
            None => {
                self.rounds.push(round);
                self.rounds.len() - 1
            }
        }
    }

    /// As partition leader: sends the token of this round around the partition, once.
    pub(super) fn start_leaf(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        at: usize,
        mut token: Gathered,
    ) {
        let (Some(seat), Some(stage)) = (place.seats.first(), self.rounds[at].stages.first_mut())
        else {
            return;
        };
        if !seat.leads() || stage.taken {
            return;
        }
        stage.taken = true;
        token.head.visited = 0;
        token.head.rate_packets = u32::MAX;
        token.head.credit_bytes = u32::MAX;
        token.suspects.clear();
        // What an upper token has gathered so far is not part of this ring's sum.
        for entry in &mut token.slots {
            let head = entry.head;
            *entry = super::gathered::TokenEntry::new(
                head.origin,
                head.cutoff,
                head.stable_upto,
                head.cached_upto,
            );
        }
        let token = self.at_leaf(turn, place, TokenPosition::Start, token);
        self.open_ring(turn, place, at, 0, token);
    }

    fn at_leaf(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        stop: TokenPosition,
        mut token: Gathered,
    ) -> Gathered {
        if !stop.returned() {
            self.learn_token(turn, place, &token);
        }
        leaf::visit(&mut token, stop, turn, self.capacity());
        token
    }

    /// As a ring's leader: sends the token off.
    fn open_ring(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        at: usize,
        level: usize,
        mut token: Gathered,
    ) {
        let seat = &place.seats[level];
        token.head.level = seat.level;
        token.head.ring = seat.ring;
        let stage = &mut self.rounds[at].stages[level];
        stage.taken = true;
        stage.opened = Some(token.clone());
        self.pass(turn, place, at, level, seat.position, token);
    }

    /// Sends a token to whoever comes after this place in the ring.
    fn pass(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        at: usize,
        level: usize,
        position: usize,
        token: Gathered,
    ) {
        let seat = &place.seats[level];
        let next = seat.after(position);
        if next == seat.position {
            // Only a leader gets here: members stop at their silent leader.
            self.came_back(turn, place, at, level, None, token);
            return;
        }
        let Some(to) = seat.member(next) else {
            return;
        };
        self.stats.tokens_sent += 1;
        let passing = self.hops.start(turn.now, token, next, to);
        self.send(turn, place, to, &passing.token);
        self.rounds[at].stages[level].passing = Some(passing);
    }

    /// As a ring's leader: the token is back, from this member.
    fn came_back(
        &mut self,
        turn: &mut Turn<'_>,
        place: &RingPlace,
        at: usize,
        level: usize,
        from: Option<MemberIndex>,
        mut token: Gathered,
    ) {
        if level == 0 {
            let all = place.seats[0].len() == usize::from(token.head.visited);
            let stop = if all {
                TokenPosition::Complete(from)
            } else {
                TokenPosition::End(from)
            };
            token = self.at_leaf(turn, place, stop, token);
            if all {
                self.vouched.note(&token);
            } else {
                self.vouched.stand_in(&mut token);
            }
            token.clear_sets();
            if self.config.partition_feedback {
                token.mark(usize::from(place.seats[0].ring));
            }
        }
        let round = &mut self.rounds[at];
        self.patience.took(level, turn.now.since(round.started));
        let stage = &mut round.stages[level];
        stage.passing = None;
        stage.gathered = Some(token);
        self.advance(turn, place, at);
    }

    /// Moves what the rings below have gathered upwards, and ends the round at the top.
    fn advance(&mut self, turn: &mut Turn<'_>, place: &RingPlace, at: usize) {
        let capacity = self.capacity();
        for level in 1..place.seats.len() {
            let stages = &mut self.rounds[at].stages;
            let Some(below) = stages[level - 1].gathered.clone() else {
                return;
            };
            let seat = &place.seats[level];
            if seat.leads() {
                if !stages[level].taken {
                    // Goes on from there when the token is back.
                    self.open_ring(turn, place, at, level, below);
                    return;
                }
            } else if let Some(mut token) = stages[level].held.take() {
                token.merge(&below, capacity);
                self.pass(turn, place, at, level, seat.position, token);
                return;
            }
        }
        if self.rounds[at].leader == place.me
            && let Some(stage) = self.rounds[at].stages.last_mut()
            && let Some(result) = stage.gathered.clone()
        {
            self.complete(turn, place, at, &result);
        }
    }

    /// The next point in time at which something has waited too long.
    pub(super) fn expiry(&self, place: &RingPlace) -> Option<Instant> {
        self.deadlines(place).map(|(deadline, _)| deadline).min()
    }

    fn deadlines<'a>(
        &'a self,
        place: &'a RingPlace,
    ) -> impl Iterator<Item = (Instant, ExpiredHop)> + use<'a> {
        let rounds = self.rounds.iter().enumerate();
        rounds.flat_map(move |(at, round)| {
            let stages = round.stages.iter().enumerate();
            stages.flat_map(move |(level, stage)| {
                let hop = stage
                    .passing
                    .as_ref()
                    .map(|passing| (passing.deadline, ExpiredHop::Hop { at, level }));
                let top = round.leader == place.me && level + 1 == place.seats.len();
                let ring = stage.waiting().then(|| {
                    let patience = self.patience.timeout(level, top);
                    (
                        round.started.after(patience),
                        ExpiredHop::Ring { at, level },
                    )
                });
                hop.into_iter().chain(ring)
            })
        })
    }

    /// Deals with everything that has waited too long. Each step ends one wait or begins a longer
    /// one, so this ends.
    pub(super) fn expire(&mut self, turn: &mut Turn<'_>, place: &RingPlace) {
        loop {
            let mut due = self.deadlines(place);
            let Some((_, expired)) = due.find(|(deadline, _)| *deadline <= turn.now) else {
                return;
            };
            drop(due);
            match expired {
                ExpiredHop::Hop { at, level } => self.hop_expired(turn, place, at, level),
                ExpiredHop::Ring { at, level } => self.ring_expired(turn, place, at, level),
            }
        }
    }

    /// No receipt: once more, or past the silent one (G05).
    fn hop_expired(&mut self, turn: &mut Turn<'_>, place: &RingPlace, at: usize, level: usize) {
        let Some(mut passing) = self.rounds[at].stages[level].passing.take() else {
            return;
        };
        if self.hops.again(turn.now, &mut passing) {
            self.stats.tokens_repeated += 1;
            self.send(turn, place, passing.to, &passing.token);
            self.rounds[at].stages[level].passing = Some(passing);
            return;
        }
        self.stats.tokens_bypassed += 1;
        self.hops.passed_over(passing.to, passing.sent);
        let stage = &mut self.rounds[at].stages[level];
        stage.passed_over.push((passing.to, passing.sent));
        self.suspect(turn, place, passing.to);
        let mut token = passing.token;
        token.suspect(passing.to);
        if level > 0 {
            // A whole partition, or several, is passed over with its leader.
            token.no_progress();
        }
        // Past a silent ring leader there is nobody to take the sum: the round ends here.
        if passing.position != 0 {
            self.pass(turn, place, at, level, passing.position, token);
        }
    }

    /// As a ring's leader: the token is lost. This node's own word has to do, or a new round.
    fn ring_expired(&mut self, turn: &mut Turn<'_>, place: &RingPlace, at: usize, level: usize) {
        let top = self.rounds[at].leader == place.me && level + 1 == place.seats.len();
        self.patience.lost(level, top);
        if top {
            self.abandon(turn.now, at);
            return;
        }
        self.stats.rings_lost += 1;
        let stage = &mut self.rounds[at].stages[level];
        stage.passing = None;
        stage.gathered.clone_from(&stage.opened);
        if let Some(token) = &mut stage.gathered {
            token.clear_sets();
            if level == 0 {
                self.vouched.stand_in(token);
            } else {
                token.no_progress();
            }
        }
        self.advance(turn, place, at);
    }

    /// Reports a silent member, not too often.
    pub(super) fn suspect(&mut self, turn: &mut Turn<'_>, place: &RingPlace, member: MemberIndex) {
        if let Some(origin) = place.origin(member)
            && origin != place.me
            && self.hops.report(turn.now, member)
        {
            let silent = self.hops.silent_for(turn.now, member);
            let member = origin;
            turn.actions.push(Action::Suspect { member, silent });
        }
    }

    fn send(&self, turn: &mut Turn<'_>, place: &RingPlace, to: MemberIndex, token: &Gathered) {
        let Some(address) = place.address(to) else {
            return;
        };
        let header = self.header(place.me);
        let limit = self.config.limit_bytes();
        turn.outbox
            .push(Reason::Token, crate::Destination::Node(address), |out| {
                token.encode(&header, limit, out);
            });
    }

    fn receipt(&self, turn: &mut Turn<'_>, place: &RingPlace, to: MemberIndex, token: &Token<'_>) {
        let Some(address) = place.address(to) else {
            return;
        };
        let header = self.header(place.me);
        let ack = TokenAck {
            region: token.head.region,
            leader: token.head.leader,
            round: token.head.round,
            level: token.head.level,
        };
        turn.outbox
            .push(Reason::Token, crate::Destination::Node(address), |out| {
                ack.encode(&header, out);
            });
    }
}
