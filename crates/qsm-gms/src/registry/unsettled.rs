use core::time::Duration;
use std::collections::BTreeSet;

use qsm_proto::Instant;
use qsm_wire::{RegionId, ViewNumber};

/// Regions remembered that members have left, as many as are ever inherited.
const LEFT_MAX: usize = 1 << 16;

/// Inherited regions and those who may send there: whom the former service let publish, only they
/// know, and who has not reported may come back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct UnsettledViews {
    /// Until when others are waited for; `None`: no more.
    until: Option<Instant>,
    /// Views of which it cannot be told yet that all who may send there have them.
    views: BTreeSet<(RegionId, ViewNumber)>,
    /// Regions that members have left, or are about to, by the word that nobody sends there any more,
    /// and that still want groups of them.
    left: BTreeSet<RegionId>,
}

impl UnsettledViews {
    /// Others may report so long.
    pub(super) fn begin(&mut self, now: Instant, patience: Duration) {
        self.until = Some(now.after(patience));
    }

    /// Tells until when others are waited for, if they are.
    pub(super) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Others are waited for until then; `None`: no more.
    pub(super) fn wait_until(&mut self, until: Option<Instant>) {
        self.until = until;
    }

    pub(super) fn hold(&mut self, region: RegionId, view: ViewNumber) {
        self.views.insert((region, view));
    }

    pub(super) fn take(&mut self) -> BTreeSet<(RegionId, ViewNumber)> {
        core::mem::take(&mut self.views)
    }

    /// Time of the next look whether others are still waited for.
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        (!self.views.is_empty()).then(|| self.until.unwrap_or_default())
    }

    /// A member leaves a region whose groups it goes on to want.
    pub(super) fn note_left(&mut self, region: RegionId) {
        if self.left.len() < LEFT_MAX {
            self.left.insert(region);
        }
    }

    /// Members have left that region who go on to want its groups.
    pub(super) fn is_left(&self, region: RegionId) -> bool {
        self.left.contains(&region)
    }
}
