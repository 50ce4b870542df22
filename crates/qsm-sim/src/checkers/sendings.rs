use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Instant, nanoseconds};
use qsm_wire::StreamId;

/// Packets that leave in one such time count as having left at its end.
const SLOT: Duration = Duration::from_millis(100);

/// Extent of streams at each time. Packets that wait at their sender, for whatever reason, do not
/// exist yet (R-TOK-5): nobody can have caught up with them.
#[derive(Debug, Default)]
pub(crate) struct Sendings {
    /// By the slots of each stream the highest number that had left.
    streams: BTreeMap<StreamId, BTreeMap<u64, u64>>,
}

fn slot(time: Instant) -> u64 {
    time.0 / nanoseconds(SLOT)
}

impl Sendings {
    /// Packets up to this one have left.
    pub(crate) fn note(&mut self, now: Instant, stream: StreamId, highest: u64) {
        let slots = self.streams.entry(stream).or_default();
        let upto = slots.entry(slot(now)).or_default();
        *upto = highest.max(*upto);
    }

    /// The highest number that had left by then, 0 if none.
    pub(crate) fn upto(&self, stream: StreamId, time: Instant) -> u64 {
        let slots = self.streams.get(&stream);
        let before = slots.and_then(|slots| slots.range(..slot(time)).next_back());
        before.map_or(0, |(_, highest)| *highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_goes_as_far_as_what_had_left() {
        let stream = StreamId::default();
        let at = |slots| Instant(0).after(SLOT * slots);
        let mut sendings = Sendings::default();
        assert_eq!(sendings.upto(stream, at(9)), 0);
        for (time, highest) in [(at(1), 3), (at(1).after(SLOT / 2), 5), (at(4), 7)] {
            sendings.note(time, stream, highest);
        }
        let upto = [1, 2, 4, 5, 9].map(|slots| sendings.upto(stream, at(slots)));
        assert_eq!(upto, [0, 5, 5, 7, 7]);
    }
}
