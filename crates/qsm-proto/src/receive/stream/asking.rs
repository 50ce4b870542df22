//! When what is missing is asked for.

use qsm_wire::{MemberIndex, SeqRange, ViewNumber};

use super::ReceiveStream;
use crate::Instant;
use crate::receive::{Gap, RetryInterval};

impl ReceiveStream {
    /// Earliest time at which a gap is due.
    #[must_use]
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Lets these missing packets be asked for at the next opportunity, unless they have been
    /// asked for lately; `retry`: as for [`Gap::next_request`].
    pub fn make_due(&mut self, now: Instant, piece: SeqRange, retry: RetryInterval) {
        self.gaps.cut_out(piece);
        if let Some(gap) = self.gaps.find_mut(piece.first())
            && gap.next_request(retry) <= now
        {
            gap.due = now;
            self.due = now;
        }
    }

    /// All that is missing above this number is to be asked for as if it had just been found.
    pub(crate) fn restart_above(&mut self, now: Instant, sequence: u64) {
        self.gaps.split_before(sequence + 1);
        let gaps = self.gaps.iter_mut();
        let above = gaps.filter(|gap| gap.first > sequence);
        above.for_each(|gap| gap.restart(now));
        self.refresh_due();
    }

    /// Whether these missing packets may be asked for now, because they have not been lately; then
    /// they count as asked. `retry`: as for [`Gap::next_request`].
    pub fn asks_again(&mut self, now: Instant, piece: SeqRange, retry: RetryInterval) -> bool {
        self.gaps.cut_out(piece);
        let gap = self.gaps.find_mut(piece.first());
        let gap = gap.filter(|gap| gap.next_request(retry) <= now);
        gap.map(|gap| gap.ask(now, None)).is_some()
    }

    /// Tells whether all that is missing up to this packet has been asked of the sender last: by all that is
    /// known here nobody else has it.
    pub(crate) fn is_left_to_sender(&self, upto: u64) -> bool {
        let mut missing = self.gaps.iter().take_while(|gap| gap.first <= upto);
        let of_sender = |gap: &Gap| gap.attempts > 0 && gap.asked_of.is_none();
        self.highest >= upto && missing.all(of_sender)
    }

    /// Recomputes [`ReceiveStream::due`] after histories of gaps have changed.
    pub fn refresh_due(&mut self) {
        let due = self.gaps.next_due().unwrap_or(Instant::NEVER);
        self.due = due.min(self.overtaken.due());
    }

    /// A view is known now that was not before: what is missing of it has been asked of members
    /// that need not cache it.
    pub fn restart_gaps(&mut self, now: Instant, view: ViewNumber) {
        let opening = self.openings.iter().find(|opening| opening.view >= view);
        let Some(start) = opening.map(|opening| opening.start) else {
            return;
        };
        self.gaps.split_before(start);
        for gap in self.gaps.iter_mut().filter(|gap| gap.last >= start) {
            gap.restart(now);
            self.due = self.due.min(now);
        }
    }

    /// Lets be asked for again what was asked for before something that has come. Rule R-NAK-13.
    pub fn hasten(&mut self, now: Instant) {
        self.overtaken.hasten(now, &mut self.gaps);
    }

    /// Lets be asked for what has waited for room, as far as there is `room` now. Returns how much
    /// is left of it. Rule R-NAK-10.
    pub fn take_up(&mut self, now: Instant, room: u64) -> u64 {
        let left = self.gaps.take_up(now, room);
        if left < room {
            self.due = self.due.min(now);
        }
        left
    }

    /// A gap is about to be asked for again.
    pub fn note_retry(&mut self, now: Instant, gap: &Gap) {
        self.overtaken.note_retry(now, gap);
    }

    /// When this cacher was found not to answer.
    #[must_use]
    pub fn silent_at(&self, cacher: MemberIndex) -> Option<Instant> {
        self.overtaken.silent_at(cacher)
    }
}
