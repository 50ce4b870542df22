use std::collections::BTreeMap;

use qsm_wire::{Origin, SeqRange};

use super::passed::PassedStreams;
use crate::history::History;
use crate::receive::ReceiveStream;
use crate::ring::{Report, Streams};
use crate::send::SendStream;

/// The receive side of a region, as the token sees it.
#[derive(Debug)]
pub(super) struct RegionStreams<'a> {
    /// Its views.
    pub(super) history: &'a History,
    /// Streams of others.
    pub(super) streams: &'a BTreeMap<Origin, ReceiveStream>,
    /// Streams of others that are not received here.
    pub(super) passed: &'a PassedStreams,
    /// This node's own stream.
    pub(super) sender: Option<&'a SendStream>,
    /// This node.
    pub(super) me: Origin,
    /// What it says of its receive rate, packets per second.
    pub(super) rate_packets: u32,
    /// What it says of its receive buffer, bytes.
    pub(super) credit_bytes: u32,
    /// Whether it can keep more than that. If not, what it has to keep behind a gap counts as if
    /// it had not arrived, and senders wait for the repair (R-RATE-4).
    pub(super) has_room: bool,
    /// Whether much of what it can keep is in use: senders wait for readers that take no more.
    pub(super) fills: bool,
    /// Tells whether the readers of some groups take no more.
    pub(super) full: bool,
}

impl RegionStreams<'_> {
    /// Up to where nothing is missing here of a stream that is not received.
    fn passed_upto(&self, sender: Origin) -> u64 {
        let joined = self.history.joined();
        joined.map_or(0, |joined| self.passed.upto(joined, sender))
    }
}

impl Streams for RegionStreams<'_> {
    fn active(&self, into: &mut Vec<Origin>) {
        let own = self
            .sender
            .filter(|sender| !sender.is_idle() || sender.confirms())
            .map(|_| self.me);
        let away = !self.history.newest().away_members().is_empty();
        let waits = |stream: &&ReceiveStream| stream.needs_rounds() || stream.retains() && !away;
        let others = self.streams.values().filter(waits);
        into.extend(others.map(|stream| stream.id().origin).chain(own));
        into.sort_unstable();
    }

    fn report(&self, sender: Origin) -> Option<Report> {
        if sender == self.me {
            let highest = self.sender?.highest();
            return Some(Report {
                highest,
                arrived: highest,
                contiguous: highest,
                cached: highest,
                missing: false,
            });
        }
        let Some(stream) = self.streams.get(&sender) else {
            let upto = self.passed_upto(sender);
            return (upto > 0).then_some(Report {
                highest: upto,
                arrived: upto,
                contiguous: upto,
                cached: upto,
                missing: false,
            });
        };
        let mut report = stream.report(self.history);
        if !self.has_room {
            report.arrived = report.contiguous;
        }
        if self.fills && stream.waits_for_readers(self.full) {
            stream.limit_to_delivered(&mut report);
        }
        Some(report)
    }

    fn knows(&self, sender: Origin, upto: u64) -> bool {
        match sender == self.me {
            true => self.sender.is_some(),
            false => self.streams.contains_key(&sender) || self.passed_upto(sender) >= upto,
        }
    }

    fn missing_own(&self, sender: Origin, cutoff: u64, into: &mut Vec<SeqRange>) -> bool {
        self.streams
            .get(&sender)
            .is_some_and(|stream| stream.missing_own(cutoff, self.history, into))
    }

    fn receive_rate(&self) -> u32 {
        self.rate_packets
    }

    fn credit_bytes(&self) -> u32 {
        self.credit_bytes
    }
}
