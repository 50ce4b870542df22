//! Turns of several gateways of a site: which of them publishes another site's messages, and what the others keep.
//! Rules R-RELAY-61 to R-RELAY-63.
//!
//! ```text
//!             nothing of the site heard for 500 ms, and a message kept that nobody has published
//!   standing by ──────────────────────────────────────────────────────────────────────────► active
//!       ▲        another gateway publishes, with a lower number and as far as this one;        │
//!       └──────── stood still for 400 ms; missed something beside another gateway ─────────────┘
//! ```
//!
//! No gateway asks another one: each hears in its cluster what the others publish.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_wire::Instant;

use crate::merge::{Numbered, SENDERS_MAX};

/// Time between two calls of [`Standby::handle_timeout`], at most.
pub const STANDBY_TICK: Duration = Duration::from_millis(50);
/// Time without a call after which a gateway has stood still, and others may have taken over.
const STILL: Duration = Duration::from_millis(400);
/// Time after which a message is published that another gateway has passed over.
const OVERTAKEN: Duration = Duration::from_secs(2);
/// Time for which another gateway that was heard counts as there.
const COMPANY: Duration = Duration::from_secs(60);
/// Age of the newest number by which another gateway's pace is judged, at most.
const MARK: Duration = Duration::from_millis(100);

/// Settings of a gateway for one other site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandbySettings {
    /// Its number among the gateways of its site. Of two that publish the lower one goes on.
    pub rank: u64,
    /// Silence of others after which it takes over.
    pub silence: Duration,
    /// Time for which a message is kept that another gateway has published: so long it may take to reach all
    /// subscribers.
    pub keep: Duration,
    /// Memory for messages that are kept. Those that have been published give way, others do not.
    pub memory: usize,
}

impl StandbySettings {
    /// The usual ones: 500 to 724 ms of silence, by the rank, so that two gateways that both wait do not take over
    /// at once; messages are kept for 2 s.
    #[must_use]
    pub fn new(rank: u64, memory: usize) -> Self {
        Self {
            rank,
            silence: Duration::from_millis(500 + rank % 8 * 32),
            keep: Duration::from_secs(2),
            memory,
        }
    }
}

/// Task of a gateway for another site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Keep messages, and listen.
    StandingBy,
    /// Publish them.
    Active,
}

/// A message to be published, and what is missing before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release<K, T> {
    /// The message.
    pub message: Numbered<K, T>,
    /// First and last number that no gateway has published, as far as is known.
    pub missing: Option<(u64, u64)>,
}

qsm_metrics::metrics! {
    /// Account of a gateway's turns for another site.
    #[derive(Copy)]
    pub struct StandbyStats of "standby" {
        /// Whether it publishes the site's messages: 1, or 0 while it stands by.
        active: gauge(gateways),
        /// Times that it began to publish.
        taken_over: counter(times),
        /// Times that it ceased to publish, for another gateway or because it had stood still or missed something.
        yielded: counter(times),
        /// Messages that it was spared, since another gateway had published them.
        spared: counter(messages),
        /// Messages that it published although another gateway had: subscribers drop them by number.
        repeated: counter(messages),
        /// Memory of messages that it keeps.
        kept_bytes: gauge(bytes),
    }
}

/// Numbers of a sender in a group; 0: none.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// The newest that has come.
    come: u64,
    /// The newest that another gateway has published.
    heard: u64,
    /// The newest that this one has published.
    published: u64,
    /// One that this one had published a moment ago.
    mark: u64,
    marked: Instant,
}

impl Place {
    fn publish(&mut self, now: Instant, number: u64) {
        if now.since(self.marked) >= MARK {
            (self.mark, self.marked) = (self.published, now);
        }
        self.published = self.published.max(number);
    }

    /// Tells whether another gateway that has published this number keeps up with this one.
    fn is_reached(&self, number: u64) -> bool {
        number > self.published || self.mark > 0 && number >= self.mark
    }
}

#[derive(Debug)]
struct Kept<K, T> {
    message: Numbered<K, T>,
    came: Instant,
    /// The one before it has not come here.
    behind_gap: bool,
    /// When another gateway had published it, and all before it.
    heard: Option<Instant>,
}

/// A gateway's part in publishing the messages of one other site.
///
/// It publishes each message of a sender behind those before it: by itself, or because another gateway has, for so
/// long that all subscribers have them. So one that drops what is no newer than what it has loses nothing.
#[derive(Debug)]
pub struct Standby<K, T> {
    settings: StandbySettings,
    began: Instant,
    turn: Turn,
    places: BTreeMap<K, Place>,
    kept: VecDeque<Kept<K, T>>,
    /// The first of these that was not heard, counted; all before it were.
    unheard: usize,
    /// Since when its turn has not changed, or it has stood still.
    since: Instant,
    looked: Instant,
    /// When another gateway was heard last.
    heard: Option<Instant>,
    /// Since when messages are heard that came after the first that was not.
    overtaken: Option<Instant>,
    /// Messages behind a gap that are kept and were not heard.
    gaps: usize,
    /// When all subscribers have those before the last gap, which another gateway has published.
    settled: Instant,
    stats: StandbyStats,
}

impl<K: Ord + Clone, T> Standby<K, T> {
    /// Begins standing by.
    #[must_use]
    pub fn new(settings: StandbySettings, now: Instant) -> Self {
        Self {
            settings,
            began: now,
            turn: Turn::StandingBy,
            places: BTreeMap::new(),
            kept: VecDeque::new(),
            unheard: 0,
            since: now,
            looked: now,
            heard: None,
            overtaken: None,
            gaps: 0,
            settled: now,
            stats: StandbyStats::default(),
        }
    }

    /// Its task now.
    #[must_use]
    pub fn turn(&self) -> Turn {
        self.turn
    }

    /// Tells whether another gateway was heard within the last minute.
    #[must_use]
    pub fn has_company(&self, now: Instant) -> bool {
        self.heard.is_some_and(|heard| now.since(heard) < COMPANY)
    }

    /// Tells whether no more messages are to be offered: what is kept fills the memory, and nobody has published it.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.stats.kept_bytes >= self.settings.memory as u64
    }

    /// Takes a message of the site, in the order of its sender.
    pub fn offer(&mut self, now: Instant, message: Numbered<K, T>) {
        let beside = self.is_beside_another(now);
        let place = self.place(&message.key);
        let follows = message.number == place.come + 1;
        place.come = message.number;
        if !follows && beside && self.turn == Turn::Active {
            self.stand_by(now);
        }
        self.stats.kept_bytes += message.bytes as u64;
        self.gaps += usize::from(!follows);
        self.kept.push_back(Kept {
            message,
            came: now,
            behind_gap: !follows,
            heard: None,
        });
        self.advance(now);
        self.expire(now);
    }

    /// Takes note of a message of the site that the gateway of this rank has published in this cluster.
    pub fn hear(&mut self, now: Instant, rank: u64, key: &K, number: u64) {
        self.heard = Some(now);
        let own = self.settings.rank;
        let place = self.place(key);
        let before = *place;
        place.heard = before.heard.max(number);
        if self.turn == Turn::Active {
            if rank < own && before.is_reached(number) {
                self.stand_by(now);
            }
            return;
        }
        self.advance(now);
        let has_come = number <= before.come && number > before.published.max(before.heard);
        if has_come && self.unheard < self.kept.len() {
            self.overtaken.get_or_insert(now);
        }
        self.expire(now);
    }

    /// Takes over when that is due. To be called every [`STANDBY_TICK`]: who is not has stood still.
    pub fn handle_timeout(&mut self, now: Instant) {
        if now.since(self.looked) >= STILL {
            match self.turn {
                Turn::Active => self.stand_by(now),
                Turn::StandingBy => (self.since, self.overtaken) = (now, None),
            }
        }
        self.looked = now;
        self.expire(now);
        if self.turn == Turn::StandingBy && self.is_due(now) {
            self.turn = Turn::Active;
            (self.unheard, self.overtaken) = (0, None);
            self.stats.taken_over += 1;
            self.stats.active = 1;
        }
    }

    /// The next message to publish.
    pub fn poll(&mut self, now: Instant) -> Option<Release<K, T>> {
        if self.turn != Turn::Active {
            return None;
        }
        let message = self.pop()?.message;
        let number = message.number;
        let place = self.place(&message.key);
        let known = place.heard.max(place.published);
        let missing = known > 0 && number > known + 1;
        let repeated = number <= place.heard;
        place.publish(now, number);
        self.stats.repeated += u64::from(repeated);
        Some(Release {
            message,
            missing: missing.then_some((known + 1, number - 1)),
        })
    }

    /// Its account.
    #[must_use]
    pub fn stats(&self) -> StandbyStats {
        self.stats
    }

    fn place(&mut self, key: &K) -> &mut Place {
        if self.places.len() == SENDERS_MAX && !self.places.contains_key(key) {
            self.places.clear();
        }
        self.places.entry(key.clone()).or_default()
    }

    fn stand_by(&mut self, now: Instant) {
        self.turn = Turn::StandingBy;
        (self.unheard, self.since, self.overtaken) = (0, now, None);
        self.gaps = self.kept.iter().filter(|kept| kept.behind_gap).count();
        self.stats.yielded += 1;
        self.stats.active = 0;
        self.advance(now);
    }

    fn is_due(&self, now: Instant) -> bool {
        let Some(first) = self.kept.get(self.unheard) else {
            return false;
        };
        let quiet = self
            .since
            .max(first.came)
            .max(self.heard.unwrap_or_default());
        let overtaken = self.overtaken.is_some_and(|at| now.since(at) >= OVERTAKEN);
        overtaken || now.since(quiet) >= self.patience(now)
    }

    /// Silence after which it takes over: such that subscribers have by then what another gateway has published and
    /// this one does not keep. One that has just begun may have yet to hear it.
    fn patience(&self, now: Instant) -> Duration {
        let StandbySettings { silence, keep, .. } = self.settings;
        let lacks = self.gaps > 0 || now < self.settled;
        let begins = now.since(self.began) < COMPANY;
        match lacks && (begins || self.has_company(now)) {
            true => silence.max(keep),
            false => silence,
        }
    }

    /// Tells whether subscribers may lack what another gateway has published and this one lacks.
    fn is_beside_another(&self, now: Instant) -> bool {
        let keep = self.settings.keep;
        self.heard.is_some_and(|heard| now.since(heard) < keep)
    }

    /// Goes on over what others have published.
    fn advance(&mut self, now: Instant) {
        if self.turn == Turn::Active {
            return;
        }
        while let Some(kept) = self.kept.get_mut(self.unheard) {
            let place = self.places.get(&kept.message.key);
            if place.is_none_or(|place| place.heard < kept.message.number) {
                break;
            }
            kept.heard = Some(now);
            if kept.behind_gap {
                self.gaps -= 1;
                self.settled = now.after(self.settings.keep);
            }
            self.unheard += 1;
            self.overtaken = None;
        }
    }

    /// Frees what all subscribers have by now, or, where memory is short, what they should have. Rule R-RELAY-62.
    fn expire(&mut self, now: Instant) {
        while self.turn == Turn::StandingBy
            && self.unheard > 0
            && let Some(heard) = self.kept.front().and_then(|kept| kept.heard)
            && (self.is_full() || now.since(heard) >= self.settings.keep)
        {
            self.pop();
            self.unheard -= 1;
            self.stats.spared += 1;
        }
    }

    fn pop(&mut self) -> Option<Kept<K, T>> {
        let kept = self.kept.pop_front()?;
        self.stats.kept_bytes -= kept.message.bytes as u64;
        Some(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OTHER_LOW: u64 = 8;
    const OWN: u64 = 16;
    const OTHER_HIGH: u64 = 24;

    /// A gateway, with the time.
    struct Rig {
        gateway: Standby<char, ()>,
        ms: u64,
    }

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    impl Rig {
        fn new() -> Self {
            let settings = StandbySettings::new(OWN, 1000);
            assert_eq!(settings.silence, Duration::from_millis(500));
            let gateway = Standby::new(settings, at(0));
            Self { gateway, ms: 0 }
        }

        /// One that nobody else was heard beside, and that has published 1 of `a`.
        fn active() -> Self {
            let mut rig = Self::new();
            rig.offer('a', 1);
            assert_eq!(rig.pass(600), [1]);
            rig
        }

        fn offer(&mut self, key: char, number: u64) {
            let message = Numbered {
                key,
                number,
                item: (),
                bytes: 10,
            };
            self.gateway.offer(at(self.ms), message);
        }

        fn hear(&mut self, rank: u64, key: char, number: u64) {
            self.gateway.hear(at(self.ms), rank, &key, number);
        }

        /// Numbers that are published meanwhile.
        fn pass(&mut self, ms: u64) -> Vec<u64> {
            let mut published = Vec::new();
            for _ in 0..ms / 10 {
                self.ms += 10;
                self.gateway.handle_timeout(at(self.ms));
                let polled = core::iter::from_fn(|| self.gateway.poll(at(self.ms)));
                published.extend(polled.map(|release| release.message.number));
            }
            published
        }

        fn stats(&self) -> StandbyStats {
            self.gateway.stats()
        }
    }

    /// R-RELAY-61.
    #[test]
    fn a_gateway_that_hears_no_other_publishes_after_half_a_second_and_then_at_once() {
        let mut rig = Rig::new();
        rig.offer('a', 1);
        assert!(rig.pass(490).is_empty());
        rig.offer('a', 2);
        assert_eq!(rig.pass(10), [1, 2]);
        rig.offer('a', 3);
        assert_eq!(rig.pass(10), [3]);
        assert_eq!((rig.stats().taken_over, rig.stats().kept_bytes), (1, 0));
    }

    /// R-RELAY-61: another one that it has not heard yet may have published what came before.
    #[test]
    fn a_gateway_that_begins_amid_messages_listens_for_two_seconds() {
        let mut rig = Rig::new();
        rig.offer('a', 5);
        assert!(rig.pass(1990).is_empty());
        assert_eq!(rig.pass(10), [5]);
    }

    /// R-RELAY-61, R-RELAY-62.
    #[test]
    fn what_another_gateway_publishes_is_kept_for_two_seconds_and_spared() {
        let mut rig = Rig::new();
        for number in 1..=300 {
            rig.offer('a', number);
            rig.hear(OTHER_HIGH, 'a', number);
            assert!(rig.pass(10).is_empty());
        }
        assert_eq!(rig.stats().kept_bytes, 990);
        assert!(rig.pass(2000).is_empty());
        assert_eq!((rig.stats().kept_bytes, rig.stats().spared), (0, 300));
    }

    /// R-RELAY-62: what may not have reached all is published again.
    #[test]
    fn silence_of_the_other_ends_in_what_it_published_last_and_what_it_did_not() {
        let mut rig = Rig::new();
        rig.offer('a', 1);
        rig.hear(OTHER_LOW, 'a', 1);
        assert!(rig.pass(1800).is_empty());
        rig.offer('a', 2);
        rig.hear(OTHER_LOW, 'a', 2);
        rig.offer('a', 3);
        rig.offer('b', 1);
        assert!(rig.pass(490).is_empty());
        assert_eq!(rig.pass(10), [2, 3, 1]);
        assert_eq!(rig.stats().repeated, 1);
    }

    /// R-RELAY-61: one that is behind does not stop one that is ahead.
    #[test]
    fn of_two_that_publish_the_lower_one_goes_on_when_it_has_caught_up() {
        let mut rig = Rig::active();
        for number in 2..=50 {
            rig.offer('a', number);
            assert_eq!(rig.pass(10), [number]);
        }
        rig.hear(OTHER_HIGH, 'a', 51);
        rig.hear(OTHER_LOW, 'a', 20);
        assert_eq!(rig.gateway.turn(), Turn::Active);
        rig.hear(OTHER_LOW, 'a', 49);
        assert_eq!(rig.gateway.turn(), Turn::StandingBy);
        rig.offer('a', 51);
        assert!(rig.pass(490).is_empty());
    }

    /// R-RELAY-61.
    #[test]
    fn one_that_has_stood_still_listens_first() {
        let mut rig = Rig::active();
        rig.offer('a', 2);
        rig.ms += 400;
        assert!(rig.pass(10).is_empty());
        rig.hear(OTHER_HIGH, 'a', 2);
        assert!(rig.pass(600).is_empty());
        // Alone again.
        rig.offer('a', 3);
        assert_eq!(rig.pass(600), [2, 3]);
    }

    /// R-RELAY-61: what it missed another one may have just published.
    #[test]
    fn one_that_misses_something_beside_another_one_listens_first() {
        let mut rig = Rig::active();
        rig.offer('a', 3);
        assert_eq!(rig.pass(10), [3], "alone it goes on");
        rig.hear(OTHER_HIGH, 'b', 7);
        rig.offer('a', 5);
        assert!(rig.pass(1990).is_empty());
        assert_eq!(rig.pass(10), [5]);
        rig.offer('a', 8);
        assert_eq!(rig.pass(10), [8], "the other has been silent for long");
    }

    /// R-RELAY-61: subscribers may lack for two seconds what it has not got.
    #[test]
    fn one_that_has_begun_beside_another_one_waits_longer_until_it_keeps_all() {
        let mut rig = Rig::new();
        rig.offer('a', 40);
        rig.hear(OTHER_HIGH, 'a', 38);
        assert!(rig.pass(600).is_empty());
        rig.hear(OTHER_HIGH, 'a', 40);
        rig.offer('a', 41);
        assert!(rig.pass(1990).is_empty());
        rig.hear(OTHER_HIGH, 'a', 41);
        assert!(rig.pass(100).is_empty());
        rig.offer('a', 42);
        assert!(rig.pass(490).is_empty());
        assert_eq!(rig.pass(10), [41, 42]);
    }

    /// R-RELAY-61: of another group, to which the other gateway may not publish.
    #[test]
    fn what_the_other_passes_over_is_published_after_two_seconds() {
        let mut rig = Rig::new();
        rig.offer('b', 1);
        for number in 1..200 {
            rig.offer('a', number);
            rig.hear(OTHER_HIGH, 'a', number);
            assert!(rig.pass(10).is_empty(), "{number}");
        }
        assert_eq!(rig.pass(10)[0], 1);
    }

    #[test]
    fn what_is_missing_is_told_unless_another_has_published_it() {
        let mut rig = Rig::active();
        rig.hear(OTHER_HIGH, 'a', 3);
        rig.offer('a', 6);
        rig.offer('a', 9);
        for _ in 0..10 {
            rig.ms += 200;
            rig.gateway.handle_timeout(at(rig.ms));
        }
        let released = core::iter::from_fn(|| rig.gateway.poll(at(rig.ms)));
        let missing: Vec<_> = released.map(|release| release.missing).collect();
        assert_eq!(missing, [Some((4, 5)), Some((7, 8))]);
    }

    #[test]
    fn memory_is_bounded_by_waiting_for_who_publishes() {
        let mut rig = Rig::new();
        for number in 1..=99 {
            rig.offer('a', number);
        }
        assert!(!rig.gateway.is_full());
        rig.offer('a', 100);
        assert!(rig.gateway.is_full());
        rig.hear(OTHER_LOW, 'a', 1);
        assert!(!rig.gateway.is_full());
        assert_eq!(rig.stats().spared, 1);
    }
}
