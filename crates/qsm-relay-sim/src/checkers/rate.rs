use std::collections::BTreeMap;

use qsm_wire::Instant;

use crate::plan::{NARROW_PACKET_BYTES, Plan};
use crate::step::{News, Told};
use crate::violation::Violation;

/// Of a bottleneck a source that has always something to send fills half at least, over the second half of its
/// stream. R-RELAY-17.
#[derive(Debug)]
pub(crate) struct Rate {
    /// Bytes a second of the bottleneck.
    rate: u64,
    packets: u64,
    /// The first packet of the second half, and when it came, at each receiver.
    began: BTreeMap<usize, (u64, Instant)>,
}

impl Rate {
    pub(crate) fn new(plan: &Plan) -> Option<Self> {
        let (rate, _) = plan.bottleneck?;
        Some(Self {
            rate,
            packets: plan.packets,
            began: BTreeMap::new(),
        })
    }

    pub(crate) fn told(&mut self, news: &News) -> Result<(), Violation> {
        let Told::Delivered { sequence, .. } = news.told else {
            return Ok(());
        };
        if sequence < self.packets / 2 {
            return Ok(());
        }
        let (first, began) = *self.began.entry(news.node).or_insert((sequence, news.at));
        let took = news.at.since(began).as_nanos();
        let bytes = (sequence - first) * NARROW_PACKET_BYTES;
        let enough = u128::from(bytes) * 1_000_000_000 * 2 >= took * u128::from(self.rate);
        if sequence < self.packets || enough {
            return Ok(());
        }
        let ms = took / 1_000_000;
        let message = format!(
            "{} got {bytes} bytes in {ms} ms of {} bytes/s",
            news.node, self.rate
        );
        Err(Violation::new("rate", message))
    }
}
