use qsm_proto::Instant;
use qsm_wire::Origin;
use qsm_wire::membership::{AwayReason, FromService};

use super::Service;
use super::sessions::Standing;
use crate::ServiceEvent;
use crate::registry::{Command, EndCause};

/// Consequences of the registry's commands for sessions, detector and events.
impl Service {
    /// Has the registry carry out a command, and tells whom it concerns.
    pub(super) fn command(&mut self, now: Instant, command: Command) {
        let updates = self.registry.apply(now, command);
        for (origin, cause) in updates.ended {
            self.note_end(origin, cause);
        }
        for (origin, reason) in updates.away {
            if self.registry.origin(origin.node) != Some(origin) {
                continue;
            }
            if reason == AwayReason::Unreported {
                self.detector.expect(now, origin.node);
            }
            let name = self.registry.name(origin.node);
            self.event(ServiceEvent::Away {
                origin,
                name,
                reason,
            });
        }
        if let Some(start) = updates.opened {
            if start.resumed > 0 {
                self.planning.take_over(now);
            }
            self.event(ServiceEvent::Opened {
                term: start.term,
                resumed: start.resumed,
                absent: start.absent,
            });
        }
        for admission in updates.admitted {
            self.event(ServiceEvent::Admitted {
                origin: admission.origin,
                name: admission.name,
                address: admission.address,
            });
        }
        for change in updates.relocated {
            self.event(ServiceEvent::Moved {
                origin: change.origin,
                name: self.registry.name(change.origin.node),
                from: change.from,
                to: change.to,
            });
        }
        for origin in updates.welcomed {
            self.welcome(now, origin);
        }
        for batch in updates.batches {
            self.tell_batch(now, batch);
        }
        for node in updates.full {
            self.stats.discard_nodes += 1;
            self.clients.close(node, &mut self.outbox);
        }
        for (node, answer) in updates.refused {
            self.answer(node, answer);
        }
    }

    fn welcome(&mut self, now: Instant, origin: Origin) {
        self.clients.set_standing(origin.node, Standing::Admitted);
        self.detector.watch(now, origin.node);
        let heartbeat = self.config.heartbeat.as_millis();
        let expelled = self.slow_expelled.remove(&origin.node);
        let message = FromService::Welcome {
            incarnation: origin.incarnation,
            term: self.registry.term(),
            heartbeat_ms: u32::try_from(heartbeat).unwrap_or(u32::MAX),
            expelled,
        };
        self.tell(origin.node, &message);
    }

    fn note_end(&mut self, origin: Origin, cause: EndCause) {
        self.suspicions.forget(origin.node);
        self.deafness.forget(origin.node);
        self.strains.forget(origin.node);
        self.profiles.forget(origin.node);
        self.descriptions.forget(origin.node);
        self.traffic.forget(origin.node);
        match cause {
            EndCause::Goodbye => {
                self.event(ServiceEvent::Left { origin });
                return;
            }
            EndCause::Silence => self.stats.excluded += 1,
            EndCause::NewLife | EndCause::Expelled => self.detector.forget(origin.node),
            EndCause::Elsewhere => {
                self.detector.forget(origin.node);
                self.clients.close(origin.node, &mut self.outbox);
            }
        }
        self.event(ServiceEvent::Excluded { origin });
    }
}
