use core::time::Duration;
use std::collections::BTreeMap;

use qsm_wire::Instant;

use crate::step::{News, Told};
use crate::violation::Violation;

/// Longest time without a packet while the stream goes.
const GAP_MAX: Duration = Duration::from_secs(1);

/// Where a relay ends and another one is named, its receivers wait for a second at most. R-RELAY-42.
#[derive(Debug, Default)]
pub(crate) struct Gap {
    last: BTreeMap<usize, Instant>,
}

impl Gap {
    pub(crate) fn told(&mut self, news: &News) -> Result<(), Violation> {
        if !matches!(news.told, Told::Delivered { .. }) {
            return Ok(());
        }
        let before = self.last.insert(news.node, news.at);
        let gap = before.map_or(Duration::ZERO, |before| news.at.since(before));
        if gap > GAP_MAX {
            let message = format!("{} got nothing for {} ms", news.node, gap.as_millis());
            return Err(Violation::new("gap", message));
        }
        Ok(())
    }
}
