use core::time::Duration;
use std::collections::BTreeSet;

use qsm_proto::Instant;
use qsm_wire::{RegionId, ViewNumber};

/// Views of inherited regions of which it cannot be told yet that all who may send there have them:
/// whom the former service let publish, only they know, and who has not reported may come back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UnsettledViews {
    /// When everybody who may come back in its life has done so.
    until: Instant,
    views: BTreeSet<(RegionId, ViewNumber)>,
}

impl UnsettledViews {
    /// Others may report so long.
    pub(super) fn begin(&mut self, now: Instant, patience: Duration) {
        self.until = now.after(patience);
    }

    /// Whether everybody who may come back has done so.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }

    pub(super) fn hold(&mut self, region: RegionId, view: ViewNumber) {
        self.views.insert((region, view));
    }

    pub(super) fn take(&mut self) -> BTreeSet<(RegionId, ViewNumber)> {
        core::mem::take(&mut self.views)
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        (!self.views.is_empty()).then_some(self.until)
    }
}
