//! What streams need of their node while they take packets and deliver messages.

use qsm_wire::GroupId;

use super::{Cursors, PacketStore};
use crate::history::History;
use crate::repair::{RequestBackoff, RequestWindow};
use crate::stats::RepairTimes;
use crate::{Deliver, Instant, LossCause, Random, Recovery, Stats};

/// What a stream needs of its node while it takes packets.
#[derive(Debug)]
pub struct StreamContext<'a> {
    /// The time.
    pub now: Instant,
    /// When gaps found now are asked for first.
    pub timing: RequestTiming<'a>,
    /// Largest distance from what is contiguous, packets.
    pub ahead_max: u64,
    /// Memory for packets.
    pub store: &'a mut PacketStore,
    /// How long repairs take.
    pub repairs: &'a mut RepairTimes,
    /// How many packets are asked for at once.
    pub request_window: &'a mut RequestWindow,
    /// Where messages go.
    pub delivery: DeliveryContext<'a>,
}

/// What decides when a gap is asked for first.
#[derive(Debug)]
pub struct RequestTiming<'a> {
    /// Recovery by requests, and its times.
    pub recovery: &'a Recovery,
    /// How widespread losses are in the region.
    pub backoff: &'a RequestBackoff,
    /// The region's views, which tell its size.
    pub history: &'a History,
    /// For the back-off.
    pub random: &'a mut Random,
}

/// What a stream needs of its node while it delivers messages.
pub struct DeliveryContext<'a> {
    /// Where each sender is in each group.
    pub cursors: &'a mut Cursors,
    /// Counters.
    pub stats: &'a mut Stats,
    /// Takes the messages.
    pub out: &'a mut dyn Deliver,
    /// The groups that messages of the stream may be of.
    pub groups: &'a [GroupId],
    /// Largest message, bytes.
    pub message_bytes_max: usize,
    /// Why messages of the stream are missing that are found missing now.
    pub loss: LossCause,
}

impl core::fmt::Debug for DeliveryContext<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DeliveryContext").finish_non_exhaustive()
    }
}

impl StreamContext<'_> {
    /// When a gap found now is asked for first (R-NAK-1): at the age at which it is no mere
    /// reordering, and later if many miss it.
    pub(super) fn first_request(&mut self) -> Instant {
        let RequestTiming { recovery, .. } = self.timing;
        if !recovery.fast {
            return Instant::NEVER;
        }
        let round_trip = self.repairs.round_trip();
        let guard = recovery.guard(self.repairs);
        let RequestTiming {
            backoff,
            history,
            random,
            ..
        } = &mut self.timing;
        self.now
            .after(guard)
            .after(backoff.draw(round_trip, history.size(), random))
    }
}
