use qsm_proto::Instant;
use qsm_wire::membership::{FromService, MESSAGE_BYTES_MAX, Update};
use qsm_wire::{NodeId, Origin};

use super::Service;
use super::sessions::Standing;
use crate::ServiceEvent;
use crate::registry::{Batch, Command, EndCause, Notice};

/// Bytes of updates in one message; half of what a message may have.
const BATCH_BYTES_MAX: usize = MESSAGE_BYTES_MAX / 2;

/// What the registry decides, to the nodes by their sessions.
impl Service {
    /// Has the registry carry out a command, and tells whom it concerns.
    pub(super) fn command(&mut self, now: Instant, command: Command) {
        for notice in self.registry.apply(command, now) {
            self.pass_on(now, notice);
        }
    }

    fn pass_on(&mut self, now: Instant, notice: Notice) {
        match notice {
            Notice::Opened {
                term,
                resumed,
                absent,
            } => self.event(ServiceEvent::Opened {
                term,
                resumed,
                absent,
            }),
            Notice::Admitted {
                origin,
                name,
                address,
            } => self.event(ServiceEvent::Admitted {
                origin,
                name,
                address,
            }),
            Notice::Welcome { origin, term } => self.welcome(now, origin, term),
            Notice::Full { node } => {
                self.stats.discard_nodes += 1;
                self.clients.close(node, &mut self.outbox);
            }
            Notice::Ended { origin, cause } => self.note_end(origin, cause),
            Notice::Refused {
                node,
                request,
                reason,
            } => self.refuse(node, request, reason),
            Notice::Batch(batch) => self.tell_batch(now, batch),
        }
    }

    fn welcome(&mut self, now: Instant, origin: Origin, term: u64) {
        self.clients.set_standing(origin.node, Standing::Admitted);
        self.detector.watch(now, origin.node);
        let heartbeat = self.config.heartbeat.as_millis();
        let message = FromService::Welcome {
            incarnation: origin.incarnation,
            term,
            heartbeat_ms: u32::try_from(heartbeat).unwrap_or(u32::MAX),
        };
        self.tell(origin.node, &message);
    }

    fn note_end(&mut self, origin: Origin, cause: EndCause) {
        match cause {
            EndCause::Goodbye => {
                self.event(ServiceEvent::Left { origin });
                return;
            }
            EndCause::Silence => self.stats.excluded += 1,
            EndCause::NewLife => self.detector.forget(origin.node),
        }
        self.event(ServiceEvent::Excluded { origin });
    }

    /// Without a number there is nothing to answer.
    pub(super) fn refuse(&mut self, node: NodeId, request: Option<u32>, reason: String) {
        self.stats.refused += 1;
        if let Some(request) = request {
            self.tell(node, &FromService::Refused { request, reason });
        }
    }

    fn tell_batch(&mut self, now: Instant, batch: Batch) {
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
        for (node, request) in batch.done {
            if self.clients.standing(node) == Some(Standing::Admitted) {
                self.tell(node, &FromService::Done { request });
            }
        }
    }

    /// Queues a message; a session that cannot take it ends, and its node says hello again.
    pub(super) fn tell(&mut self, node: NodeId, message: &FromService) {
        if !self.clients.tell(node, message) {
            self.stats.sessions_broken += 1;
            self.clients.close(node, &mut self.outbox);
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
        Update::View {
            removed,
            leaving,
            added,
            ..
        } => 12 * (removed.len() + leaving.len()) + 32 * added.len(),
        Update::Settled { senders, .. } | Update::Sources { senders, .. } => 32 * senders.len(),
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
