//! How long received packets are kept: until everybody has them, or longer for members that are
//! away (R-VIEW-13).

use qsm_wire::SeqRange;

use super::{PacketState, ReceiveStream, StreamMarks};
use crate::history::History;
use crate::receive::PacketStore;

impl ReceiveStream {
    /// The region's watermarks: what is stable is purged here, delivered or not needed.
    pub fn note_marks(&mut self, news: StreamMarks, store: &mut PacketStore) {
        let marks = &mut self.marks;
        marks.stable_upto = marks.stable_upto.max(news.stable_upto);
        marks.cached_upto = marks
            .cached_upto
            .max(news.cached_upto)
            .max(marks.stable_upto);
        self.uncached = self
            .uncached
            .filter(|range| range.last() > self.marks.stable_upto);
        self.purge(store);
    }

    /// Keeps what this node caches from now on, for members that are away. Rule R-VIEW-13.
    pub fn begin_retaining(&mut self) {
        self.retained_from.get_or_insert(self.marks.stable_upto);
    }

    /// Nobody is away, and all members have everything up to here: frees what was kept up to
    /// there for those that were away.
    pub fn release_retained(&mut self, upto: u64, store: &mut PacketStore) {
        if let Some(from) = self.retained_from {
            let from = Some(from.max(upto));
            self.retained_from = from.filter(|from| *from < self.marks.stable_upto);
            self.purge(store);
        }
    }

    /// Whether packets are kept for members that are away, or were.
    #[must_use]
    pub fn retains(&self) -> bool {
        self.retained_from.is_some()
    }

    /// Frees the oldest packets that are only kept for members that are away, until the store
    /// holds no more than this.
    pub fn limit_retained(&mut self, store: &mut PacketStore, limit_bytes: usize) {
        let Some(from) = self.retained_from else {
            return;
        };
        let end = self.marks.stable_upto.min(self.delivered);
        while self.base < end && store.used_bytes() > limit_bytes {
            self.purge_first(store);
        }
        self.retained_from = Some(from.max(self.base));
    }

    /// Frees the oldest packets that are delivered and cached here, whether everybody has them or not,
    /// until the store holds no more than this: senders do not wait for who lacks them. What not everybody
    /// has does not count as cached here any more. Rule R-RATE-10.
    pub fn limit_cached(&mut self, store: &mut PacketStore, limit_bytes: usize, history: &History) {
        let end = self.delivered.min(self.held_above());
        while self.base < end && store.used_bytes() > limit_bytes {
            let first = self.base + 1;
            let kept = matches!(self.slots.front(), Some(PacketState::Kept(_)));
            let caches = kept && history.role(self.view_of(first, history), first).keeps;
            self.note_uncached(first, caches);
            self.purge_first(store);
        }
        self.retained_from = self.retained_from.map(|from| from.max(self.base));
    }

    /// The packets from this one on that have been freed here, because everybody has them or
    /// nothing is kept any longer for members that are away.
    #[must_use]
    pub fn purged_from(&self, sequence: u64) -> Option<SeqRange> {
        let first = Some(sequence).filter(|first| *first >= self.start)?;
        SeqRange::new(first, self.base)
    }

    /// Whether this packet is not for this node: it was sent before the node joined.
    #[must_use]
    pub fn is_foreign(&self, sequence: u64) -> bool {
        sequence < self.start
    }

    /// Nothing up to here is kept once it has been delivered.
    pub(super) fn purgeable(&self) -> u64 {
        let stable = self.marks.stable_upto;
        self.retained_from.map_or(stable, |from| stable.min(from))
    }

    pub(super) fn purge(&mut self, store: &mut PacketStore) {
        let end = self.purgeable().min(self.delivered);
        let end = end.min(self.held_above());
        while self.base < end {
            self.purge_first(store);
        }
    }

    fn purge_first(&mut self, store: &mut PacketStore) {
        if let Some(PacketState::Kept(place)) = self.slots.pop_front() {
            store.free(place);
        }
        self.base += 1;
    }
}
