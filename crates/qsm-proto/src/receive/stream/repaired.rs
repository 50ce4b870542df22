//! A gap that closes: how long it lasted, and what that tells of requests.

use qsm_wire::Hop;

use super::super::{Gap, RequestTiming, StreamContext};
use super::ReceiveStream;
use crate::Stats;

impl ReceiveStream {
    /// A missing packet has come: notes how, how long that took, and, if it was asked for, what
    /// that tells of other requests; what has waited for room may have some now.
    pub(super) fn note_repair(&mut self, gap: &Gap, hop: Hop, context: &mut StreamContext<'_>) {
        count_repair(hop, context.delivery.stats);
        note_times(gap, hop, context);
        let RequestTiming { recovery, .. } = context.timing;
        if recovery.fast && gap.attempts > 0 && is_answer(hop) {
            let retry = recovery.retry(context.repairs);
            // Of several requests an earlier one may have been answered.
            let asked = match gap.attempts {
                1 => gap.asked,
                _ => gap.asked_before,
            };
            self.overtaken.note(gap.asked_of, asked, retry);
            self.due = self.due.min(self.overtaken.due());
        }
        self.ask_for_crowded_out(context.now, context.store);
    }
}

/// Whether a packet comes because it was asked for.
fn is_answer(hop: Hop) -> bool {
    matches!(hop, Hop::CacherRepair | Hop::SenderRepair)
}

/// Notes how long the gap lasted and, where one request brought one answer, the round trip.
fn note_times(gap: &Gap, hop: Hop, context: &mut StreamContext<'_>) {
    context.repairs.note_lasted(context.now.since(gap.found));
    if gap.attempts > 0 {
        context.request_window.repaired();
    }
    if is_answer(hop) && gap.attempts == 1 {
        context
            .repairs
            .note_round_trip(context.now.since(gap.asked));
    } else if is_answer(hop) && gap.attempts > 1 {
        let times = [gap.asked, gap.asked_before].map(|asked| context.now.since(asked));
        context.repairs.note_retried(gap.attempts, times);
    } else if hop.is_first() {
        context.repairs.note_disorder(context.now.since(gap.found));
    }
}

fn count_repair(hop: Hop, stats: &mut Stats) {
    let counter = match hop {
        Hop::SenderRepair => &mut stats.repaired_by_sender,
        Hop::CacherRepair => &mut stats.repaired_by_cacher,
        Hop::Push => &mut stats.repaired_by_push,
        Hop::PullRepair => &mut stats.repaired_by_pull,
        _ => &mut stats.repaired_by_reorder,
    };
    *counter += 1;
}
