use qsm_wire::{Coverage, Hop, StreamId, seal};

use super::{RateBudget, RecentRepairs, RepairGate, RepairRecipient};
use crate::{Destination, Instant, Outbox, Reason, Stats};

/// Sends packets again, within the budget, and to nobody twice within a round trip.
#[derive(Debug)]
pub struct RepairSender<'a> {
    /// The time.
    pub now: Instant,
    /// Bytes that may be sent.
    pub budget: &'a mut RateBudget,
    /// The operator's limit, if there is one (R-NAK-16).
    pub gate: Option<&'a mut RepairGate>,
    /// Copies that a repair to all takes (R-REACH-4).
    pub copies: usize,
    /// Repairs made a moment ago.
    pub recent: &'a mut RecentRepairs,
    /// Takes the packets.
    pub outbox: &'a mut Outbox,
    /// Counts them.
    pub stats: &'a mut Stats,
}

/// A packet to be sent again.
#[derive(Debug, Clone, Copy)]
pub struct Repair<'a> {
    /// Its stream.
    pub stream: StreamId,
    /// Its number.
    pub sequence: u64,
    /// As what it comes to its receiver.
    pub hop: Hop,
    /// Its original bytes.
    pub packet: &'a [u8],
}

impl RepairSender<'_> {
    /// Sends a packet to a recipient that has not been served lately, if the budget allows it.
    pub fn send(&mut self, repair: &Repair<'_>, recipient: RepairRecipient, to: Destination) {
        let (stream, sequence, hop) = (repair.stream, repair.sequence, repair.hop);
        if self.recent.served(stream, sequence, recipient) {
            return;
        }
        if !self.may_send(repair.packet.len(), to) {
            return;
        }
        self.outbox.push(Reason::Repair, to, |bytes| {
            bytes.extend_from_slice(repair.packet);
            hop.stamp(bytes);
        });
        self.count(hop);
        self.stats.repairs_to_all += u64::from(recipient == RepairRecipient::All);
        self.recent.note(stream, sequence, recipient);
    }

    /// Sends a parity of this length, if the budget allows it. Returns whether it does.
    pub(super) fn send_parity(
        &mut self,
        length: usize,
        to: Destination,
        fill: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        if !self.may_send(length, to) {
            return false;
        }
        self.outbox.push(Reason::Repair, to, |bytes| {
            fill(bytes);
            seal(bytes, Coverage::Whole);
        });
        self.stats.parities_sent += 1;
        true
    }

    /// Takes a packet of this length from limit and budget. Rules R-NAK-7, R-NAK-16.
    fn may_send(&mut self, length: usize, to: Destination) -> bool {
        let copies = if to.is_group() { self.copies } else { 0 };
        let bytes = length as u64 * (1 + copies as u64);
        if let Some(gate) = self.gate.as_deref_mut()
            && !gate.allows(self.now, bytes)
        {
            self.stats.repairs_over_limit += 1;
            return false;
        }
        if !self.budget.take(self.now, length as u64) {
            self.stats.repairs_over_budget += 1;
            return false;
        }
        if let Some(gate) = self.gate.as_deref_mut() {
            gate.note_leaving(bytes);
        }
        self.stats.repair_bytes += bytes;
        true
    }

    fn count(&mut self, hop: Hop) {
        let counter = match hop {
            Hop::SenderRepair => &mut self.stats.repairs_sender_sent,
            Hop::Push => &mut self.stats.repairs_push_sent,
            Hop::PullRepair => &mut self.stats.repairs_pull_sent,
            _ => &mut self.stats.repairs_cacher_sent,
        };
        *counter += 1;
    }
}
