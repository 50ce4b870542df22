//! Model of the way to the slowest receiver: how fast packets leave it, and how long the way is without a queue. It
//! is measured as BBR does (draft-ietf-ccwg-bbr), by reports in the place of acknowledgements.

use core::time::Duration;

use qsm_wire::Instant;

use crate::departures::Departures;
use crate::marks::Marks;
use crate::packet::Limit;
use crate::window::{Sign, Window};

/// Round trips of which the highest rate counts.
const ROUNDS: usize = 10;
/// Gains, in a hundred.
const GAIN_START: u64 = 277;
const GAIN_DRAIN: u64 = 36;
const GAIN_UP: u64 = 125;
/// Where more was found the round before.
const GAIN_MORE: u64 = 150;
const GAIN_DOWN: u64 = 75;
/// A little less than what comes through, so that no queue grows by errors.
const GAIN_CRUISE: u64 = 99;
const GAIN_LOOK: u64 = 50;
/// Share of the rate that is left after heavy losses.
const GAIN_LOST: u64 = 50;
/// Round trips at the same rate after which the start is over.
const STILL: u8 = 3;
/// Round trips in which a queue is to be empty.
const DRAIN_ROUNDS: u32 = 4;
/// Round trips at a steady rate, and those that may be added.
const CRUISE_ROUNDS: u32 = 4;
const CRUISE_MORE: u64 = 5;
/// Round trips after which a queue that others filled is looked at.
const RIVAL_ROUNDS: u32 = 8;
/// Such times without a queue after which nobody else fills it.
const CALM: u8 = 3;
/// Round trips after which the own part of it is let out, to see whether there is another one; twice as many after
/// each time that there was, so many times.
const LOOK_AFTER: u32 = 128;
const LOOKS_MAX: u32 = 3;
/// Highest rate that is believed, bytes a second, and most bytes of one way: beyond what any network has.
const RATE_MAX: u64 = 1 << 50;
const BYTES_MAX: u64 = 1 << 56;
/// Fewest packets in a round trip, and those at the start (RFC 6928).
const PACKETS_MIN: u64 = 4;
pub(crate) const PACKETS_FIRST: u64 = 10;
/// Packets that may be in flight in any case.
const PACKETS_ROOM: u64 = 30;

/// Phase of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The rate grows until no more comes through.
    Start { rate: u64, still: u8 },
    /// The queue that the start has left is let out.
    Drain,
    /// More is sent, to see whether it comes through.
    Up {
        rate: u64,
        gain: u64,
        round_trip_us: u32,
    },
    /// Less is sent, until the queue is gone that this has left.
    Down,
    /// As much is sent as comes through, for so many round trips.
    Cruise { rounds: u32 },
    /// Others keep the queue filled: a window as TCP's.
    Rival { calm: u8 },
    /// Half is sent, to see whether they still do.
    Look,
}

/// News of a report.
#[derive(Debug, Clone, Copy)]
struct News {
    /// Bytes a second that came through.
    rate: u64,
    /// The source had nothing to send for a part of the time.
    idle: bool,
    /// More was lost than chance explains.
    heavy: bool,
    /// Something was lost, and packets had waited.
    lost: bool,
}

/// Rate and round trip of the way to the slowest receiver. Rule R-RELAY-17.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    limit: Limit,
    rates: [u64; ROUNDS],
    place: usize,
    /// A round trip is over, and its rate has not been taken.
    turn: bool,
    /// The round trip ends when this packet is reported.
    round_end: u64,
    /// Round trips of this phase.
    rounds: u32,
    phase: Phase,
    /// Shortest round trip since queues were looked at.
    low_us: u32,
    /// Packets up to here are measured.
    measured: u64,
    /// Losses up to here have been answered.
    answered: u64,
    marks: Marks,
    /// Others were found by marks.
    by_marks: bool,
    window: Window,
    in_flight: u64,
    /// Times that others' queue was looked at since it was empty by itself.
    looks: u32,
    /// Times that others were found to keep the queue filled.
    rivals: u64,
}

impl Model {
    pub(crate) fn new() -> Self {
        Self {
            limit: Limit::default(),
            rates: [0; ROUNDS],
            place: 0,
            turn: false,
            round_end: 0,
            rounds: 0,
            phase: Phase::Start { rate: 0, still: 0 },
            low_us: u32::MAX,
            measured: 0,
            answered: 0,
            marks: Marks::default(),
            by_marks: false,
            window: Window::new(Instant(0), 0),
            in_flight: 0,
            looks: 0,
            rivals: 0,
        }
    }

    /// The slowest receiver, by its last word.
    pub(crate) fn limit(&self) -> Limit {
        self.limit
    }

    /// Bytes a second that come through; 0: nothing is measured.
    pub(crate) fn bandwidth(&self) -> u64 {
        self.rates.iter().copied().max().unwrap_or(0)
    }

    /// Bytes that were sent and are not reported.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    pub(crate) fn rivals(&self) -> u64 {
        self.rivals
    }

    pub(crate) fn marks(&self) -> &Marks {
        &self.marks
    }

    /// Has packets marked from now on.
    pub(crate) fn want_marks(&mut self) {
        self.marks.want();
    }

    /// Takes the word of the slowest receiver.
    pub(crate) fn heard(&mut self, now: Instant, limit: Limit, sent: &Departures, packet: u64) {
        let changed = limit.receiver != self.limit.receiver;
        self.limit = limit;
        self.in_flight = sent.bytes_behind(limit.highest);
        self.low_us = self.low_us.min(limit.round_trip_us);
        let round = limit.highest >= self.round_end;
        if round {
            self.round_end = sent.highest() + 1;
            self.rounds += 1;
            self.turn = true;
        }
        let news = self.news(changed, sent);
        if let Some(news) = news {
            self.take(changed, news);
        }
        let gave_up = self.marks.heard(now, &limit, round, sent.highest());
        if gave_up && matches!(self.phase, Phase::Rival { .. }) {
            // What the window was cut by were no queues of others.
            (self.phase, self.rounds) = (cruise(sent), 0);
        }
        self.answer(now, news, sent, packet);
        self.step(now, round, news, sent, packet);
    }

    /// The rate to send at, bytes a second; 0: nothing is measured.
    pub(crate) fn rate(&self, packet: u64) -> u64 {
        let bandwidth = self.bandwidth();
        let of = |gain: u64| bandwidth.saturating_mul(gain) / 100;
        let rate = match self.phase {
            _ if bandwidth == 0 => return 0,
            Phase::Start { .. } => of(GAIN_START),
            Phase::Drain => of(GAIN_DRAIN),
            Phase::Up { gain, .. } => of(gain),
            Phase::Down => of(GAIN_DOWN),
            Phase::Cruise { .. } => of(GAIN_CRUISE),
            Phase::Look => of(GAIN_LOOK),
            Phase::Rival { .. } => per_second(self.window.bytes(), self.limit.round_trip_us),
        };
        rate.max(self.least_rate(packet))
    }

    /// It never sends less, bytes a second.
    pub(crate) fn least_rate(&self, packet: u64) -> u64 {
        let packets = match self.phase {
            Phase::Start { .. } => PACKETS_FIRST,
            _ => PACKETS_MIN,
        };
        per_second(packets * packet, self.limit.round_trip_us)
    }

    /// Bytes after which the source is to send slowly until it hears more. Reports are some in a round trip, so
    /// that more is in flight than by acknowledgements.
    pub(crate) fn room(&self, packet: u64) -> u64 {
        let least = self.limit.least_us;
        let late = self.within((least / 2).max(10_000));
        let most = match self.phase {
            _ if self.bandwidth() == 0 => return u64::MAX,
            Phase::Start { .. } => self.within(least) * 5 + late,
            Phase::Rival { .. } => self.window.bytes() / 4 * 5 + late,
            _ => self.within(least) * 2 + late,
        };
        let most = most.max(PACKETS_ROOM * packet);
        most.saturating_sub(self.in_flight)
    }

    /// Bytes that come through in this time.
    fn within(&self, us: u32) -> u64 {
        let bytes = u128::from(self.bandwidth()) * u128::from(us) / 1_000_000;
        u64::try_from(bytes).unwrap_or(BYTES_MAX).min(BYTES_MAX)
    }

    /// Packets wait in a queue for longer than errors explain.
    fn is_queued(&self, round_trip_us: u32) -> bool {
        let least = self.limit.least_us;
        round_trip_us > least.saturating_add((least / 8).max(4000))
    }

    /// The sample in the newest report, unless it was there before, or its packets are forgotten.
    fn news(&mut self, changed: bool, sent: &Departures) -> Option<News> {
        let limit = self.limit;
        let last = limit.highest.saturating_sub(u64::from(limit.behind));
        if limit.received == 0 || last <= self.measured && !changed {
            return None;
        }
        self.measured = last;
        let after = last.saturating_sub(u64::from(limit.packets));
        let pace = sent.between(after, last)?;
        let new = after >= self.answered;
        Some(News {
            rate: pace.with_parity(limit.received).min(RATE_MAX),
            idle: pace.idle,
            heavy: new && limit.is_overloaded(),
            lost: new && limit.lost > 0 && self.is_queued(limit.round_trip_us),
        })
    }

    /// Takes a sample into the highest of the last round trips. Where the source had nothing to send, one
    /// counts only if it is higher than all.
    fn take(&mut self, changed: bool, news: News) {
        let bandwidth = self.bandwidth();
        if news.idle && news.rate <= bandwidth {
            return;
        }
        if changed && !news.idle && self.limit.rate < bandwidth {
            self.rates = [self.limit.rate; ROUNDS];
        }
        if core::mem::take(&mut self.turn) && !news.idle {
            self.place = (self.place + 1) % ROUNDS;
            self.rates[self.place] = 0;
        }
        let highest = &mut self.rates[self.place];
        *highest = news.rate.max(*highest);
    }

    /// Answers losses and marks, once in a round trip.
    fn answer(&mut self, now: Instant, news: Option<News>, sent: &Departures, packet: u64) {
        let rival = matches!(self.phase, Phase::Rival { .. });
        if rival && self.marks.are_news() {
            self.marks.answer(sent.highest());
            self.by_marks = true;
            self.window.cut(now, packet, Sign::Mark);
        }
        let Some(news) = news.filter(|news| news.heavy || rival && news.lost) else {
            return;
        };
        self.answered = sent.highest();
        if rival {
            self.window.cut(now, packet, Sign::Loss);
        }
        // While the source has little to send, what it gets through is no bound.
        if news.heavy && !news.idle {
            let left = (self.bandwidth() * GAIN_LOST / 100).max(news.rate);
            for rate in &mut self.rates {
                *rate = left.min(*rate);
            }
        }
    }

    /// Goes on to the next phase, if this one is over.
    fn step(
        &mut self,
        now: Instant,
        round: bool,
        news: Option<News>,
        sent: &Departures,
        packet: u64,
    ) {
        let heavy = news.is_some_and(|news| news.heavy);
        // What is left of a queue in these phases is known.
        let known = matches!(self.phase, Phase::Drain | Phase::Down);
        let marked = self.marks.are_news() && !known;
        let next = match self.phase {
            Phase::Start { .. } if self.marks.are_many() => Some(Phase::Drain),
            Phase::Start { rate, still } => self.start(round, news, rate, still),
            Phase::Drain | Phase::Down if self.is_drained(packet) => Some(cruise(sent)),
            Phase::Drain | Phase::Down => None,
            // More than there is room for: others may be there whose share that takes.
            Phase::Up { .. } if heavy => Some(Phase::Rival { calm: 0 }),
            Phase::Up { .. } | Phase::Cruise { .. } | Phase::Look if marked => {
                Some(Phase::Rival { calm: 0 })
            }
            _ if heavy && !matches!(self.phase, Phase::Rival { .. } | Phase::Look) => {
                Some(Phase::Down)
            }
            Phase::Up {
                rate,
                round_trip_us,
                ..
            } => self.up(rate, round_trip_us),
            Phase::Cruise { rounds } if self.rounds >= rounds => Some(self.probe()),
            Phase::Cruise { .. } => None,
            Phase::Rival { calm } => self.compete(now, round, calm, news, sent, packet),
            Phase::Look if !self.is_queued(self.low_us) => Some(cruise(sent)),
            Phase::Look if self.rounds >= DRAIN_ROUNDS => Some(Phase::Rival { calm: 0 }),
            Phase::Look => None,
        };
        let Some(next) = next else {
            return;
        };
        let before = core::mem::replace(&mut self.phase, next);
        self.rounds = 0;
        if marked {
            self.marks.answer(sent.highest());
        } else if !matches!(next, Phase::Up { .. }) {
            self.marks.pass_over(sent.highest());
        }
        self.round_end = sent.highest() + 1;
        match next {
            Phase::Up { .. } => self.low_us = u32::MAX,
            Phase::Look => {
                self.low_us = u32::MAX;
                self.looks = (self.looks + 1).min(LOOKS_MAX);
            }
            Phase::Rival { .. } if before != Phase::Look => {
                self.rivals += 1;
                self.low_us = u32::MAX;
                self.by_marks = marked;
                // It was filled without regard to others; what waits in a queue is let out by itself.
                let (trip, sign) = match marked {
                    true => (self.limit.least_us, Sign::FirstMark),
                    false => (self.limit.round_trip_us, Sign::Loss),
                };
                let bytes = self.within(trip);
                self.window = Window::new(now, bytes.max(PACKETS_MIN * packet));
                self.window.cut(now, packet, sign);
            }
            Phase::Rival { .. } => self.low_us = u32::MAX,
            _ => {}
        }
    }

    /// The start is over when no more comes through, much is lost, or packets wait.
    fn start(&mut self, round: bool, news: Option<News>, rate: u64, still: u8) -> Option<Phase> {
        let news = news?;
        let least = self.limit.least_us;
        let waits = self.limit.round_trip_us > least.saturating_add((least / 2).max(20_000));
        if !news.idle && (news.heavy || waits) {
            return Some(Phase::Drain);
        }
        let bandwidth = self.bandwidth();
        let stuck = match news.idle {
            true => news.heavy,
            false => bandwidth < rate / 4 * 5,
        };
        let (rate, still) = match stuck {
            true if round || news.heavy => (rate, still + 1),
            true => (rate, still),
            false if round => (bandwidth.max(rate), 0),
            false => (rate, still),
        };
        self.phase = Phase::Start { rate, still };
        (still >= STILL).then_some(Phase::Drain)
    }

    fn is_drained(&self, packet: u64) -> bool {
        let least = self.limit.least_us;
        let error = (least / 16).max(2000);
        let empty = self.within(least.saturating_add(error)) + 3 * packet;
        self.in_flight <= empty || self.rounds >= DRAIN_ROUNDS
    }

    /// Sends more as long as more comes through and nothing waits.
    fn up(&self, rate: u64, before_us: u32) -> Option<Phase> {
        let wait = (self.limit.least_us / 4).max(4000);
        let bandwidth = self.bandwidth();
        if self.limit.round_trip_us > before_us.saturating_add(wait) {
            return Some(Phase::Down);
        }
        match self.rounds {
            ..2 => None,
            _ if bandwidth < rate / 8 * 9 => Some(Phase::Down),
            _ => Some(Phase::Up {
                rate: bandwidth,
                gain: GAIN_MORE,
                round_trip_us: self.limit.round_trip_us,
            }),
        }
    }

    /// After a steady time: where the queue was never empty, others fill it.
    fn probe(&self) -> Phase {
        match self.is_queued(self.low_us) {
            true => Phase::Rival { calm: 0 },
            false => Phase::Up {
                rate: self.bandwidth(),
                gain: GAIN_UP,
                round_trip_us: self.limit.round_trip_us,
            },
        }
    }

    /// A window beside others', until the queue has been empty now and then.
    fn compete(
        &mut self,
        now: Instant,
        round: bool,
        calm: u8,
        news: Option<News>,
        sent: &Departures,
        packet: u64,
    ) -> Option<Phase> {
        let trip = Duration::from_micros(u64::from(self.limit.round_trip_us));
        match news {
            Some(news) if news.idle => self.window.pause(now),
            _ => self.window.grow(now, packet, trip),
        }
        if !round || !self.rounds.is_multiple_of(RIVAL_ROUNDS) {
            return None;
        }
        let low = core::mem::replace(&mut self.low_us, u32::MAX);
        // A queue that marks may be too short to be seen.
        let calm = match self.by_marks || self.is_queued(low) {
            true => 0,
            false => calm + 1,
        };
        self.phase = Phase::Rival { calm };
        if calm >= CALM {
            self.looks = 0;
            Some(cruise(sent))
        } else {
            (self.rounds >= LOOK_AFTER << self.looks).then_some(Phase::Look)
        }
    }
}

/// A steady time, of another length each time, so that sources do not send more at the same time.
fn cruise(sent: &Departures) -> Phase {
    let more = u32::try_from(sent.highest() % CRUISE_MORE).unwrap_or(0);
    Phase::Cruise {
        rounds: CRUISE_ROUNDS + more,
    }
}

/// Bytes a second that are so many in this time.
pub(crate) fn per_second(bytes: u64, us: u32) -> u64 {
    let rate = u128::from(bytes) * 1_000_000 / u128::from(us.max(100));
    u64::try_from(rate).unwrap_or(u64::MAX)
}
