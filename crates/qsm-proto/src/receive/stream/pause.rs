//! Delivery that stops because readers take no more (R-DATA-13), and what others are told of it.

use qsm_wire::Data;

use super::ReceiveStream;
use crate::Instant;
use crate::history::Duty;
use crate::receive::DeliveryContext;
use crate::ring::Report;

impl ReceiveStream {
    /// Tells whether delivery has stopped because readers take no more.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Readers may have room now: delivery goes on where it stopped.
    pub(crate) fn retry_readers(&mut self, now: Instant) {
        self.resume_walks(now);
        match self.stopped && self.undelivered() {
            true => self.go_on(now),
            // The next packet is not here.
            false => self.stopped = false,
        }
    }

    /// Whether the sender has to wait for readers, once there is not much room to keep more; not if it
    /// has no more. `full`: the readers of some groups take no more. What waits for another stream
    /// (R-VIEW-7) may wait for readers of that.
    pub(crate) fn waits_for_readers(&self, full: bool) -> bool {
        let over = self.over_at(self.highest.max(self.announced));
        (self.stopped || self.held && full) && !over
    }

    /// Acknowledges, of a stream whose sender has to wait, only what has been delivered.
    pub(crate) fn limit_to_delivered(&self, report: &mut Report) {
        let taken = self.delivered.max(self.marks.stable_upto);
        report.contiguous = report.contiguous.min(taken);
        report.arrived = report.contiguous;
    }

    /// Tells whether delivery stops before this packet, which is next: it is to be delivered, and its
    /// readers take no more (R-DATA-13), or it has yet to be proven (R-SEC-32).
    #[inline]
    pub(super) fn stops_at(
        &mut self,
        packet: &Data<'_>,
        duty: Duty,
        delivery: &DeliveryContext<'_>,
    ) -> bool {
        self.is_unproven(packet.head.sequence)
            || delivery.cursors.is_special() && self.note_stop(packet, duty, delivery)
    }

    #[cold]
    fn note_stop(&mut self, packet: &Data<'_>, duty: Duty, delivery: &DeliveryContext<'_>) -> bool {
        self.stopped = duty == Duty::Deliver && delivery.cursors.full().stops(packet);
        self.stopped
    }
}
