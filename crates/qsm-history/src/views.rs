//! Keepers as a subscriber sees them.

use std::collections::BTreeMap;

use qsm::Origin;

use crate::ring::SENDERS_MAX;
use crate::word::{Address, Have, Span};

/// Keepers that are taken note of; of more, the first are.
const KEEPERS_MAX: usize = 64;
/// Messages that each keeper has, as far as it has said.
#[derive(Debug, Default)]
pub(crate) struct Views {
    keepers: BTreeMap<Address, View>,
}

#[derive(Debug, Default)]
struct View {
    /// Last round of questions that it has answered.
    round: u32,
    /// Of each sender, the first message that it may have, and the last that it knows of.
    spans: BTreeMap<Origin, (u64, u64)>,
}

impl Views {
    /// Takes a keeper's answer.
    pub(crate) fn hear(&mut self, have: &Have) {
        if self.keepers.len() >= KEEPERS_MAX && !self.keepers.contains_key(&have.from) {
            return;
        }
        let view = self.keepers.entry(have.from).or_default();
        if have.round < view.round {
            return;
        }
        view.round = have.round;
        let spans = have.spans.iter().take(SENDERS_MAX);
        let span = |span: &Span| (span.sender.into(), (span.first, span.last));
        view.spans = spans.map(span).collect();
    }

    /// Number of keepers.
    pub(crate) fn len(&self) -> usize {
        self.keepers.len()
    }

    /// Number of keepers that have answered this round or a later one.
    pub(crate) fn answered(&self, round: u32) -> usize {
        let answers = self.keepers.values();
        answers.filter(|view| view.round >= round).count()
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = Address> {
        self.keepers.keys().copied()
    }

    /// Forgets a keeper that is silent.
    pub(crate) fn remove(&mut self, keeper: Address) {
        self.keepers.remove(&keeper);
    }

    /// Senders that keepers know.
    pub(crate) fn senders(&self) -> impl Iterator<Item = (Origin, u64)> {
        let views = self.keepers.values();
        views.flat_map(|view| {
            let spans = view.spans.iter();
            spans.map(|(sender, (_, last))| (*sender, *last))
        })
    }

    /// The last of a sender's messages that this keeper may have, if it may have the one that is given.
    pub(crate) fn has(&self, keeper: Address, sender: Origin, number: u64) -> Option<u64> {
        let (first, last) = *self.keepers.get(&keeper)?.spans.get(&sender)?;
        (first..=last).contains(&number).then_some(last)
    }

    /// Tells whether some keeper may have this message.
    pub(crate) fn any_has(&self, sender: Origin, number: u64) -> bool {
        let mut addresses = self.addresses();
        addresses.any(|keeper| self.has(keeper, sender, number).is_some())
    }

    /// The first message behind this one that some keeper may have.
    pub(crate) fn behind(&self, sender: Origin, number: u64) -> Option<u64> {
        let spans = self
            .keepers
            .values()
            .filter_map(|view| view.spans.get(&sender));
        let firsts = spans.filter(|(first, last)| first <= last && *first > number);
        firsts.map(|(first, _)| *first).min()
    }

    /// The last message that every keeper knows of, and the last that one does.
    pub(crate) fn ends(&self, sender: Origin) -> (u64, u64) {
        let ends = self.keepers.values().map(|view| {
            let span = view.spans.get(&sender);
            span.map_or(0, |(_, last)| *last)
        });
        let (least, most) = (ends.clone().min(), ends.max());
        (least.unwrap_or(0), most.unwrap_or(0))
    }

    /// Notes that a keeper has nothing of `first..through`.
    pub(crate) fn lacks(&mut self, keeper: Address, sender: Origin, first: u64, through: u64) {
        let view = self.keepers.get_mut(&keeper);
        let Some(span) = view.and_then(|view| view.spans.get_mut(&sender)) else {
            return;
        };
        if span.0 <= first {
            span.0 = through.max(span.0);
        }
    }

    /// Notes that a keeper knows of no message behind this one.
    pub(crate) fn end(&mut self, keeper: Address, sender: Origin, last: u64) {
        let view = self.keepers.get_mut(&keeper);
        if let Some(span) = view.and_then(|view| view.spans.get_mut(&sender)) {
            span.1 = last.min(span.1);
        }
    }
}
