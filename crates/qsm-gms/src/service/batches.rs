use qsm_proto::Instant;
use qsm_wire::membership::{
    Answer, AnswerRows, FromService, MESSAGE_BYTES_MAX, Signer, Update, ViewStep,
};

use super::sessions::Standing;
use super::{Phase, Service};
use crate::ServiceEvent;
use crate::registry::{Batch, Command};

/// Bytes of updates in one message; half of what a message may have.
const BATCH_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;

/// Batches: when one is due, and to each node its updates.
impl Service {
    /// A lone change is applied at once, a burst at the maximum rate (R040).
    pub(super) fn batch_at(&self) -> Option<Instant> {
        let due = matches!(self.phase, Phase::Open) && self.registry.has_changes();
        let interval = self.config.batch_interval;
        due.then(|| self.batched_at.map_or(self.now, |at| at.after(interval)))
    }

    pub(super) fn run_batch(&mut self, now: Instant) {
        let updates = self.registry.apply(now, Command::Batch);
        for batch in updates.batches {
            self.tell_batch(now, batch);
        }
    }

    pub(super) fn tell_batch(&mut self, now: Instant, batch: Batch) {
        self.batched_at = Some(now);
        for (node, updates) in batch.updates {
            // A node whose session is opening will be told everything after its hello.
            if self.clients.standing(node) != Some(Standing::Admitted) {
                continue;
            }
            for updates in split(updates) {
                let number = self.clients.next_batch(node).unwrap_or(0);
                self.tell(node, &FromService::Batch { number, updates });
            }
            self.clients.note_batch(node, batch.number);
        }
        for node in batch.awaited {
            self.clients.note_batch(node, batch.number);
        }
        for origin in batch.back {
            let name = self.registry.name(origin.node);
            self.event(ServiceEvent::Back { origin, name });
        }
        for (node, request) in batch.done {
            if self.clients.standing(node) == Some(Standing::Admitted) {
                let result = Ok(AnswerRows::None);
                self.answer(node, Answer { request, result });
            }
        }
    }
}

/// A batch in messages that are not too long: one, except when a node has to be told of hundreds
/// of thousands of names or members at once, which then take effect in steps.
fn split(updates: Vec<Update>) -> Vec<Vec<Update>> {
    let mut batches = Vec::new();
    let mut batch = Vec::new();
    let mut room = BATCH_BYTES_MAX;
    for update in updates {
        let bytes = bytes_max(&update);
        if bytes > room && !batch.is_empty() {
            batches.push(core::mem::take(&mut batch));
            room = BATCH_BYTES_MAX;
        }
        room = room.saturating_sub(bytes);
        batch.push(update);
    }
    batches.push(batch);
    batches
}

/// Bytes that an update takes at most.
fn bytes_max(update: &Update) -> usize {
    64 + match update {
        Update::Named { name, .. } => name.len(),
        Update::Region { groups, .. } => 4 * groups.len(),
        Update::View(ViewStep {
            removed,
            leaving,
            changed,
            added,
            ..
        }) => 12 * (removed.len() + leaving.len()) + 33 * (changed.len() + added.len()),
        Update::Settled { senders, .. } | Update::Sources { senders, .. } => 32 * senders.len(),
        Update::Lifetimes { groups, .. } => 8 * groups.len(),
        Update::Signers { signers, .. } => {
            let bytes = |one: &Signer| 18 + one.key.len() + 4 * one.barred.len();
            signers.iter().map(bytes).sum()
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::GroupId;

    use super::*;

    #[test]
    fn a_batch_is_split_only_when_it_is_too_long_and_in_order() {
        let named = |id: u32| Update::Named {
            group: GroupId(id),
            name: "x".repeat(200),
        };
        let few: Vec<Update> = (0..100).map(named).collect();
        assert_eq!(split(few.clone()), [few]);
        let many: Vec<Update> = (0..50_000).map(named).collect();
        let parts = split(many.clone());
        assert!(parts.len() > 1);
        for updates in &parts {
            let mut bytes = Vec::new();
            let updates = updates.clone();
            FromService::Batch { number: 1, updates }.encode(&mut bytes);
            assert!(bytes.len() <= MESSAGE_BYTES_MAX / 2 + 64);
        }
        assert_eq!(parts.concat(), many);
    }
}
