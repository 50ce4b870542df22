use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use qsm_proto::Instant;
use qsm_proto::send::rate::UNLIMITED;
use qsm_proto::send::{Batching, SendStream};
use qsm_wire::{Origin, RegionId};

use crate::violation::Violation;

/// Slack for rounding.
const ROUNDING: Duration = Duration::from_micros(200);
/// Copies of a packet that share its rate, at most.
const COPIES_MAX: u64 = 16;

/// No message waits for others longer than its publisher lets it (R-DATA-4, R-DATA-15), unless
/// receivers or the rate hold its stream. All times are those of the sender's clock, which stands still
/// while the sender sleeps.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    streams: BTreeMap<(RegionId, Origin), Waiting>,
}

/// Messages of a stream that may wait for others.
#[derive(Debug, Default)]
struct Waiting {
    /// Messages that the stream has taken.
    taken: u64,
    /// By their number in the stream, when they have to have left.
    due: VecDeque<(u64, Instant)>,
}

impl Waits {
    /// A message has been published now; `stream` may have taken it.
    pub(crate) fn publish(
        &mut self,
        now: Instant,
        region: RegionId,
        stream: &SendStream,
        batching: Batching,
    ) {
        let waiting = self.of(region, stream);
        let taken = stream.counters().messages;
        if taken > waiting.taken {
            let due = now.after(batching.delay).after(ROUNDING);
            waiting.due.push_back((taken, due));
            waiting.taken = taken;
        }
    }

    /// Regions in whose streams messages of a sender may wait.
    pub(crate) fn awaited(&self, sender: Origin) -> Vec<RegionId> {
        let of_sender = self.streams.iter();
        let of_sender =
            of_sender.filter(|((_, origin), waiting)| *origin == sender && !waiting.due.is_empty());
        of_sender.map(|((region, _), _)| *region).collect()
    }

    /// The stream is over, with what waited in it.
    pub(crate) fn end(&mut self, region: RegionId, sender: Origin) {
        self.streams.remove(&(region, sender));
    }

    /// Judges one moment of a sender that runs and has done all its work.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        region: RegionId,
        stream: &SendStream,
    ) -> Result<(), Violation> {
        let waiting = self.of(region, stream);
        waiting.taken = stream.counters().messages;
        let held = stream.is_held() || stream.is_blocked();
        let pause = pause(stream.rate());
        let late = waiting.due.iter();
        let late = late.copied().find(|(_, due)| due.after(pause) < now);
        let Some((number, due)) = late.filter(|_| !held) else {
            return Ok(());
        };
        let message = format!(
            "{} in {region}: message {number} of the stream waits for others since {due:?}, by when \
             it had to have left",
            stream.id().origin
        );
        Err(Violation::new("batching", message))
    }

    /// A sender stands still, or has no time to send.
    pub(crate) fn forget(&mut self, sender: Origin) {
        self.streams.retain(|(_, other), _| *other != sender);
    }

    /// Account of what waits in a stream now.
    fn of(&mut self, region: RegionId, stream: &SendStream) -> &mut Waiting {
        let key = (region, stream.id().origin);
        let taken = stream.counters().messages;
        let waiting = self.streams.entry(key).or_default();
        if taken < waiting.taken || waiting.taken == 0 && taken > 1 {
            // Another stream has taken its place, or nobody has looked at it so far.
            waiting.due.clear();
            waiting.taken = taken;
        }
        let left = taken - stream.unsent_messages();
        waiting.due.retain(|(number, _)| *number > left);
        waiting
    }
}

/// Time for which the rate may hold a packet, of which each member may get a copy.
fn pause(packets_per_second: u32) -> Duration {
    match packets_per_second {
        UNLIMITED => Duration::ZERO,
        packets => Duration::from_secs(COPIES_MAX) / packets.max(1),
    }
}
