//! Messages of another site out of the packets of its gateways, each once and in its order.

use std::sync::Arc;

use qsm::{Pattern, Relayed};
use qsm_console::log::Note;
use qsm_console::table::printable;
use qsm_relay::Numbered;

use super::gate::GateBooks;
use super::packets::{Record, Refused, Unpacker};
use super::parts::{Common, Piece};
use super::stats::SiteCounts;
use super::turns::{Part, Turns};

/// Memory that a message takes beside its content, at most.
const MESSAGE_OVERHEAD: usize = 256;

/// Reader of packets of a site.
pub(super) struct Sorting {
    site: String,
    patterns: Vec<Pattern>,
    /// One for each of the site's gateways.
    unpackers: Vec<Unpacker>,
    /// Likewise.
    gates: Vec<GateBooks>,
    turns: Arc<Turns>,
    counts: Arc<SiteCounts>,
    /// A site that was found in the place of this one, and has been told of.
    other: Option<String>,
    /// Messages that had come before, as far as counted.
    duplicates: u64,
}

impl Sorting {
    /// Of packets of this site by gateways with these accounts, with messages to groups so named.
    pub(super) fn new(
        site: &str,
        gates: Vec<GateBooks>,
        patterns: &[Pattern],
        common: &Common,
    ) -> Self {
        Self {
            site: site.to_owned(),
            patterns: patterns.to_vec(),
            unpackers: gates.iter().map(|_| Unpacker::new(site)).collect(),
            gates,
            turns: Arc::clone(&common.turns),
            counts: Arc::clone(&common.counts),
            other: None,
            duplicates: 0,
        }
    }

    /// Takes a packet.
    pub(super) fn take(&mut self, piece: &Piece) {
        let Some(unpacker) = self.unpackers.get_mut(piece.gateway) else {
            return;
        };
        match unpacker.take(piece.number, &piece.bytes) {
            Ok(()) => {}
            Err(Refused::Malformed) => self.counts.refused.add(1),
            Err(Refused::Site(other)) => self.refuse(other),
        }
        let mut messages = 0;
        while let Some(record) = self.unpackers[piece.gateway].poll() {
            messages += 1;
            self.sort(piece.gateway, record);
        }
        self.gates[piece.gateway].add_messages(messages);
    }

    /// Hands on what has come, and what has waited for others long enough.
    pub(super) fn hand_on(&mut self, part: &mut Part) {
        let now = self.turns.now();
        part.merge.handle_timeout(now);
        while let Some(message) = part.merge.poll() {
            part.standby.offer(now, message);
        }
        let duplicates = part.merge.stats().duplicates;
        self.counts.duplicates.add(duplicates - self.duplicates);
        self.duplicates = duplicates;
    }

    fn sort(&self, gateway: usize, record: Record) {
        let relayed = Relayed::split(&record.message);
        let Some((_, relayed)) = relayed.filter(|(_, relayed)| relayed.site == self.site) else {
            self.counts.refused.add(1);
            return;
        };
        if !self.patterns.iter().any(|one| one.matches(&record.group)) {
            self.counts.unwanted.add(1);
            return;
        }
        let key = (Arc::from(record.group), relayed.sender);
        let (number, bytes) = (relayed.number, record.message.len() + MESSAGE_OVERHEAD);
        let message = Numbered {
            key,
            number,
            item: record.message,
            bytes,
        };
        if let Some(mut part) = self.turns.of(&self.site) {
            part.merge.take(self.turns.now(), gateway, message);
        }
    }

    /// Another site is where this one was to be.
    fn refuse(&mut self, other: String) {
        self.counts.refused.add(1);
        if self.other.as_ref() != Some(&other) {
            let (site, shown) = (&self.site, printable(&other));
            let line = format!(
                "the gateway that --from names as {site} is that of site {shown}: nothing of it is taken; \
                 give each site one name, at all gateways the same"
            );
            Note::warn("mismatched", &line).say();
            self.other = Some(other);
        }
    }
}
