//! A TCP-like flow through a bottleneck.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use qsm_relay_sim::Bottleneck;
use qsm_wire::Instant;

/// Bytes of a packet of the flow, headers included.
pub(crate) const PACKET_BYTES: u64 = 1000;

/// What happens next to the flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// A packet, and whether a queue has marked it.
    Arrives(u64, bool),
    /// An ACK: everything before the first number has come, and the second one, with a mark or without.
    Acked(u64, u64, bool),
}

/// Growth of the window of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Growth {
    /// By a packet in a round trip; half of it is left after a loss (RFC 6582).
    Reno,
    /// By the time since the last loss; seven tenths are left (RFC 9438).
    Cubic,
}

impl Growth {
    /// Part of the window that is left after a loss.
    fn left(self) -> f64 {
        match self {
            Self::Reno => 0.5,
            Self::Cubic => 0.7,
        }
    }
}

/// A flow with something to send always: a window with selective ACKs.
#[derive(Debug)]
pub(crate) struct Tcp {
    growth: Growth,
    /// Part of the window that is left after a mark; none: its packets cannot be marked.
    left_by_mark: Option<f64>,
    delay: Duration,
    steps: BTreeSet<(Instant, Step)>,
    received: BTreeSet<u64>,
    expected: u64,
    /// Packets before this one have been acknowledged.
    base: u64,
    next: u64,
    acked: BTreeSet<u64>,
    /// Packets that are on their way, with the time at which they were sent.
    flying: BTreeMap<u64, Instant>,
    lost: BTreeSet<u64>,
    window: f64,
    threshold: f64,
    recover: u64,
    trip: Duration,
    /// Before the last cut, what part was left by it, and when it was: of CUBIC.
    highest: f64,
    left: f64,
    cut: Instant,
}

impl Tcp {
    pub(crate) fn new(growth: Growth, delay: Duration) -> Self {
        Self {
            growth,
            left_by_mark: None,
            delay,
            steps: BTreeSet::new(),
            received: BTreeSet::new(),
            expected: 0,
            base: 0,
            next: 0,
            acked: BTreeSet::new(),
            flying: BTreeMap::new(),
            lost: BTreeSet::new(),
            window: 2.0,
            threshold: f64::MAX,
            recover: 0,
            trip: delay * 2,
            highest: 0.0,
            left: growth.left(),
            cut: Instant(0),
        }
    }

    /// Has its packets marked, and leaves so much of the window after a mark, once in a round trip.
    pub(crate) fn marking(self, left: f64) -> Self {
        let left_by_mark = Some(left);
        Self {
            left_by_mark,
            ..self
        }
    }

    /// Packets that have come, in order.
    pub(crate) fn delivered(&self) -> u64 {
        self.expected
    }

    pub(crate) fn next_step(&self) -> Option<Instant> {
        let step = self.steps.first().map(|(at, _)| *at);
        step.into_iter().chain(self.timeout()).min()
    }

    fn timeout(&self) -> Option<Instant> {
        let oldest = self.flying.values().min()?;
        Some(oldest.after((self.trip * 4).max(Duration::from_millis(200))))
    }

    pub(crate) fn run(&mut self, now: Instant, through: &mut Bottleneck) {
        if self.timeout().is_some_and(|at| at <= now) {
            self.lost.extend(self.flying.keys());
            self.flying.clear();
            self.cut(now, self.growth.left());
            self.window = 1.0;
            self.recover = self.next;
        }
        while self.steps.first().is_some_and(|(at, _)| *at <= now) {
            let (_, step) = self.steps.pop_first().unwrap();
            match step {
                Step::Arrives(sequence, marked) => self.arrive(now, sequence, marked),
                Step::Acked(upto, sequence, marked) => {
                    self.acked(now, upto, sequence);
                    self.made_way(now, sequence, marked);
                }
            }
        }
        while (self.flying.len() as f64) < self.window {
            let sequence = self.lost.pop_first().unwrap_or(self.next);
            self.next = self.next.max(sequence + 1);
            self.flying.insert(sequence, now);
            if let Some(passage) = through.pass(now, PACKET_BYTES) {
                let marked = passage.marked && self.left_by_mark.is_some();
                let step = Step::Arrives(sequence, marked);
                self.steps.insert((passage.at.after(self.delay), step));
            }
        }
    }

    fn arrive(&mut self, now: Instant, sequence: u64, marked: bool) {
        self.received.insert(sequence);
        while self.received.remove(&self.expected) {
            self.expected += 1;
        }
        let step = Step::Acked(self.expected, sequence, marked);
        self.steps.insert((now.after(self.delay), step));
    }

    fn acked(&mut self, now: Instant, upto: u64, sequence: u64) {
        if let Some(sent) = self.flying.remove(&sequence) {
            self.trip = (self.trip * 7 + now.since(sent)) / 8;
            self.window += match self.window < self.threshold {
                true => 1.0,
                false => self.growth(now),
            };
        }
        self.lost.remove(&sequence);
        self.acked.insert(sequence);
        self.base = self.base.max(upto);
        self.flying = self.flying.split_off(&self.base);
        self.lost = self.lost.split_off(&self.base);
        // Three later ones have come.
        let highest = self.acked.last().copied().unwrap_or(0);
        let gone: Vec<u64> = self
            .flying
            .iter()
            .filter(|(it, sent)| **it + 3 <= highest && now.since(**sent) > self.trip)
            .map(|(it, _)| *it)
            .collect();
        for sequence in &gone {
            self.flying.remove(sequence);
            self.lost.insert(*sequence);
        }
        if gone.iter().any(|sequence| *sequence >= self.recover) {
            self.cut(now, self.growth.left());
            self.window = self.threshold;
            self.recover = self.next;
        }
    }

    /// Answers a mark, once in a round trip (RFC 3168, 6.1.2).
    fn made_way(&mut self, now: Instant, sequence: u64, marked: bool) {
        if let Some(left) = self.left_by_mark
            && marked
            && sequence >= self.recover
        {
            self.cut(now, left);
            self.window = self.threshold;
            self.recover = self.next;
        }
    }

    /// Packets that the window grows by with an ACK.
    fn growth(&self, now: Instant) -> f64 {
        let reno = 1.0 / self.window;
        if self.growth == Growth::Reno {
            return reno;
        }
        let (since, trip) = (now.since(self.cut).as_secs_f64(), self.trip.as_secs_f64());
        let turn = (self.highest * (1.0 - self.left) / 0.4).cbrt();
        let target = 0.4 * (since + trip - turn).powi(3) + self.highest;
        let target = target.min(self.window * 1.5);
        let like_reno = self.highest * self.left + 0.53 * since / trip;
        match like_reno > self.window.max(target) {
            true => reno,
            false => ((target - self.window) / self.window).max(0.01 / self.window),
        }
    }

    fn cut(&mut self, now: Instant, left: f64) {
        self.highest = match self.window < self.highest {
            true => self.window * (1.0 + left) / 2.0,
            false => self.window,
        };
        self.cut = now;
        self.threshold = (self.window * left).max(2.0);
        self.left = left;
    }
}
