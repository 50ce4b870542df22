//! A member that lies, in its own name only: where packets are sealed by pairs or signed (R-SEC-15),
//! nobody can speak in another's, but in data. Where these are verified (R-SEC-32) it sends such as well.
//!
//! Its endpoint is a normal one. What it sends is changed, held back, or joined by packets that are made
//! up from what it knows. `PROTOCOL.md` says what such a member can do.

mod forge;

use core::time::Duration;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::SocketAddr;

use qsm_proto::{Instant, Random, Reason, Seed, mix, nanoseconds};
use qsm_wire::{Body, Kind, Packet};

use crate::machine::Machine;

/// One lie is told for so many packets that the member sends, on average.
const PACKETS_PER_LIE: u64 = 6;

/// A kind of lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lie {
    /// Asks for everything, for the future, and for what it has.
    Requests,
    /// Says that it does not hold packets any more, or that they have expired.
    Absences,
    /// Speaks as the region's leader, which it is not: acknowledgements, summaries, calls, tokens.
    Leadership,
    /// Passes on tokens of rounds to come.
    Rounds,
    /// Puts the least rate and credit, many losers, and silent members into tokens.
    Limits,
    /// Says that streams of live members are over. Not drawn: who moves may believe it.
    Deaths,
    /// Sends no packets of some kinds.
    Silence,
    /// Says that its own stream goes farther than it does, and gives packets far numbers.
    Ahead,
    /// Sends packets with messages, and seals, in the names of others. Drawn where these are verified.
    Names,
    /// Raises the watermarks of tokens. Not drawn: members believe it.
    Watermarks,
    /// Says that streams of others go farther than they do. Not drawn: members believe it.
    Extents,
}

impl Lie {
    /// All kinds, with their names in scenarios.
    pub const ALL: [(&'static str, Self); 11] = [
        ("requests", Self::Requests),
        ("absences", Self::Absences),
        ("leadership", Self::Leadership),
        ("rounds", Self::Rounds),
        ("limits", Self::Limits),
        ("deaths", Self::Deaths),
        ("silence", Self::Silence),
        ("ahead", Self::Ahead),
        ("names", Self::Names),
        ("watermarks", Self::Watermarks),
        ("extents", Self::Extents),
    ];

    /// Kinds of which the effect on others is bounded.
    pub const BOUNDED: [Self; 8] = [
        Self::Requests,
        Self::Absences,
        Self::Leadership,
        Self::Rounds,
        Self::Limits,
        Self::Silence,
        Self::Ahead,
        Self::Deaths,
    ];

    /// Its name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        let mut all = Self::ALL.iter();
        all.find(|(_, lie)| *lie == self)
            .map_or("", |(name, _)| name)
    }
}

/// The member that lies. When faults end it is shut out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insider {
    /// Where it runs.
    pub host: usize,
    /// What it lies about.
    pub lies: BTreeSet<Lie>,
    /// Since when.
    pub from: Duration,
    /// From then on it is honest.
    pub until: Duration,
}

/// Carries out the lies.
#[derive(Debug)]
pub(crate) struct Liar {
    plan: Insider,
    random: Random,
    seed: u64,
    /// It is believed in the leader's name, if there is that bug.
    as_leader: bool,
    /// Lies told so far.
    pub(crate) told: u64,
}

impl Liar {
    pub(crate) fn new(plan: Insider, as_leader: bool, seed: Seed) -> Self {
        Self {
            plan,
            random: Random::new(seed, "insider"),
            seed: seed.0,
            as_leader,
            told: 0,
        }
    }

    /// Tells whether that host lies now.
    pub(crate) fn lies(&self, host: usize, now: Instant) -> bool {
        let [from, until] = [self.plan.from, self.plan.until].map(nanoseconds);
        host == self.plan.host && (from..until).contains(&now.0)
    }

    fn has(&self, lie: Lie) -> bool {
        self.plan.lies.contains(&lie)
    }

    /// What leaves in the place of a packet of its endpoint, if anything does.
    pub(crate) fn outgoing<'a>(
        &mut self,
        reason: Reason,
        bytes: Cow<'a, [u8]>,
    ) -> Option<Cow<'a, [u8]>> {
        if matches!(reason, Reason::Membership | Reason::Data) {
            return Some(bytes);
        }
        if self.has(Lie::Silence) && self.keeps_to_itself(&bytes) {
            self.told += 1;
            return None;
        }
        let turned = match Packet::decode(&bytes).map(|packet| (packet.header, packet.body)) {
            Ok((header, Body::Token(token))) => self.turn_token(&header, &token, bytes.len()),
            _ => None,
        };
        self.told += u64::from(turned.is_some());
        Some(turned.map_or(bytes, Cow::Owned))
    }

    /// A kind of which it sends nothing in this run: half of them.
    fn keeps_to_itself(&self, bytes: &[u8]) -> bool {
        let kind = Kind::peek(bytes);
        kind.is_some_and(|kind| mix(self.seed ^ (kind as u64) << 8).is_multiple_of(2))
    }

    /// What it makes up beside a packet that it sends, each with where it goes.
    pub(crate) fn make_up(&mut self, machine: &Machine) -> Vec<(SocketAddr, Vec<u8>)> {
        if self.random.below(PACKETS_PER_LIE) > 0 {
            return Vec::new();
        }
        let made = self.forge(machine);
        self.told += made.len() as u64;
        made
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> Option<T> {
        let at = self.random.below(choices.len().max(1) as u64);
        choices.get(usize::try_from(at).ok()?).copied()
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.random.below(one_in) == 0
    }
}
