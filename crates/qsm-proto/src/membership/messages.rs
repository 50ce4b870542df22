use core::time::Duration;

use qsm_wire::membership::{Answer, FromService, ToService, Update, ViewStep};
use qsm_wire::{GroupId, Incarnation};

use super::{Change, Membership, REOPEN_MIN, requests};
use crate::Instant;

/// What the service says.
impl Membership {
    /// `false` when the message does not fit what is known.
    pub(super) fn take_message(&mut self, now: Instant, message: FromService) -> bool {
        match message {
            FromService::Welcome {
                incarnation,
                term,
                heartbeat_ms,
            } => {
                let heartbeat = Duration::from_millis(u64::from(heartbeat_ms.clamp(10, 60_000)));
                self.welcome(now, incarnation, term, heartbeat);
            }
            FromService::Batch { number, updates } => return self.take_batch(number, updates),
            FromService::Answer(answer) => self.answered(answer),
            FromService::Redirect { address } => self.connect(now, address),
            _ => return false,
        }
        true
    }

    fn welcome(&mut self, now: Instant, incarnation: Incarnation, term: u64, heartbeat: Duration) {
        let Some(link) = &mut self.link else { return };
        link.welcomed = true;
        self.run = link.service;
        link.heartbeat = heartbeat;
        link.heartbeat_at = now.after(heartbeat);
        self.reopen_pause = REOPEN_MIN;
        self.term = term;
        let fresh = incarnation != self.incarnation;
        if fresh {
            if self.incarnation != Incarnation(0) {
                self.changes.push_back(Change::Excluded);
            }
            self.regions.clear();
            self.groups.forget_numbers();
            self.drained.clear();
            self.dead.clear();
            self.senders.clear();
            self.requests
                .begin_life(|role, name| self.groups.wants(role, name));
            self.incarnation = incarnation;
        }
        let origin = self.origin();
        self.heard_of(origin);
        self.changes.push_back(Change::Admitted { origin, fresh });
        for (region, view) in self.drained.clone() {
            self.tell(&ToService::Drained { region, view });
        }
    }

    fn take_batch(&mut self, number: u64, updates: Vec<Update>) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        if number != link.batch + 1 {
            return false;
        }
        link.batch = number;
        let fits = updates.into_iter().all(|update| self.take_update(update));
        self.changes.push_back(Change::BatchEnd);
        fits
    }

    fn take_update(&mut self, update: Update) -> bool {
        match update {
            Update::Named { group, name } => {
                if self.groups.named(group, &name) {
                    self.changes.push_back(Change::Named { group, name });
                }
            }
            Update::Region {
                region,
                channel,
                address,
                groups,
            } => {
                self.regions.put(region, (channel, address), groups.clone());
                self.changes.push_back(Change::Region {
                    region,
                    channel,
                    address,
                    groups,
                });
            }
            Update::View(step) => return self.take_view(step),
            Update::Closed { region } => {
                self.drained.remove(&region);
                if self.regions.remove(region) {
                    self.changes.push_back(Change::Closed { region });
                }
            }
            Update::Dead { origin } => {
                self.heard_of(origin);
                self.dead.insert(origin);
                self.senders.remove(origin);
                self.changes.push_back(Change::Dead { origin });
            }
            Update::Settled {
                region,
                view,
                senders,
            } => self.changes.push_back(Change::Settled {
                region,
                view,
                senders,
            }),
            Update::Sources { region, senders } => {
                self.changes.push_back(Change::Sources { region, senders });
            }
            Update::Second { address, second } => self.note_second(address, second),
            _ => return false,
        }
        true
    }

    fn take_view(&mut self, step: ViewStep) -> bool {
        let Some(view) = self.regions.step(step, self.identity.layout) else {
            return false;
        };
        for member in view.members() {
            self.heard_of(member.origin);
        }
        let own = view.index_of(self.origin());
        let receives = own
            .and_then(|index| view.member(index))
            .is_some_and(|m| !m.leaving());
        if receives {
            self.drained.remove(&view.region());
        }
        self.changes.push_back(Change::View(view));
        true
    }

    fn answered(&mut self, answer: Answer) {
        let Some(message) = self.requests.take(answer.request) else {
            return;
        };
        let gone = match (message, &answer.result) {
            (ToService::Enter { role, names, .. }, Ok(_)) => {
                self.groups.entered(role, &names);
                Vec::new()
            }
            (ToService::Exit { role, names, .. }, Ok(_)) => self.groups.exited(role, &names),
            (message, Err(_)) => requests::names(&message)
                .map_or_else(Vec::new, |(role, names)| self.groups.refused(role, names)),
            _ => Vec::new(),
        };
        self.unnamed(gone);
        self.changes.push_back(Change::Answer(answer));
    }

    fn unnamed(&mut self, gone: Vec<(GroupId, String)>) {
        for (group, name) in gone {
            self.changes.push_back(Change::Unnamed { group, name });
        }
    }
}
