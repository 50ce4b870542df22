use core::time::Duration;
use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::membership::{Answer, FromService, Role, ToService, ViewStep};
use qsm_wire::{ChannelId, GroupId, Incarnation, Origin, RegionId};

use super::{Membership, REOPEN_MIN, requests};
use crate::Instant;
use crate::view::RegionView;

/// The groups in which an answer has changed this node's roles.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RoleChanges {
    /// It may publish to these from now on.
    pub granted: Vec<GroupId>,
    /// It has no role in these any more.
    pub ended: Vec<GroupId>,
}

/// Messages of the service, and their effect on the tables.
impl Membership {
    /// The next message of the service, as it came; one that makes no sense begins a new session.
    /// Its effects on the session and on the life of this node have happened; those of updates and
    /// answers have to be noted by the methods below, in their order.
    pub fn poll_message(&mut self, now: Instant) -> Option<FromService> {
        let link = self.link.as_mut()?;
        let Some(bytes) = link.session.poll_message() else {
            if link.session.is_broken() {
                self.start_over(now);
            }
            return None;
        };
        let message = FromService::decode(&bytes).ok();
        let message = message.filter(|message| self.take_up(now, message));
        if message.is_none() {
            self.start_over(now);
        }
        message
    }

    /// `false` when the message does not belong here.
    fn take_up(&mut self, now: Instant, message: &FromService) -> bool {
        match message {
            FromService::Welcome {
                incarnation,
                term,
                heartbeat_ms,
                ..
            } => {
                let heartbeat = u64::from((*heartbeat_ms).clamp(10, 60_000));
                self.welcome(now, *incarnation, *term, Duration::from_millis(heartbeat));
            }
            FromService::Batch { number, .. } => return self.is_next_batch(*number),
            FromService::Answer(_) => {}
            FromService::Redirect { address } => self.connect(now, *address),
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
        if incarnation != self.incarnation {
            self.regions.clear();
            self.groups.forget_numbers();
            self.drained.clear();
            self.dead.clear();
            self.owe_nothing.clear();
            self.senders.clear();
            self.requests
                .begin_life(|role, name| self.groups.wants(role, name));
            self.incarnation = incarnation;
        }
        self.heard_of(self.origin());
        for (region, view) in self.drained.clone() {
            self.tell(&ToService::Drained { region, view });
        }
    }

    fn is_next_batch(&mut self, number: u64) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        if number != link.batch + 1 {
            return false;
        }
        link.batch = number;
        true
    }

    /// A group of this node has this number; `false`: that is known, or of no interest any more.
    pub fn name_group(&mut self, group: GroupId, name: &str) -> bool {
        self.groups.named(group, name)
    }

    /// A region with these groups concerns this node.
    pub fn put_region(
        &mut self,
        region: RegionId,
        channel: (ChannelId, SocketAddr),
        groups: &[GroupId],
    ) {
        for group in groups {
            self.groups.heard_of(*group);
        }
        self.regions.put(region, channel, groups.to_vec());
    }

    /// The members of a region have different groups, of which this node is told.
    pub fn note_merged(&mut self, region: RegionId) {
        self.regions.note_merged(region);
    }

    /// A region's next view; `None`: the difference is not one to the view that is known.
    pub fn next_view(&mut self, step: ViewStep) -> Option<Arc<RegionView>> {
        let view = self.regions.step(step, self.identity.layout)?;
        for member in view.members() {
            self.heard_of(member.origin);
        }
        let own = view.index_of(self.origin());
        let receives = own
            .and_then(|index| view.member(index))
            .is_some_and(|member| !member.leaving());
        if receives {
            self.drained.remove(&view.region());
        }
        Some(view)
    }

    /// A region concerns this node no more; `false`: it did not.
    pub fn close_region(&mut self, region: RegionId) -> bool {
        self.drained.remove(&region);
        self.regions.remove(region)
    }

    /// A life is over.
    pub fn note_death(&mut self, origin: Origin) {
        self.heard_of(origin);
        self.dead.insert(origin);
        self.senders.remove(origin);
    }

    /// A request has been answered; `None`: nobody waits for this answer.
    pub fn settle(&mut self, answer: &Answer) -> Option<RoleChanges> {
        let message = self.requests.take(answer.request)?;
        let mut changes = RoleChanges::default();
        match (&message, &answer.result) {
            (ToService::Enter { role, names, .. }, Ok(_)) => {
                self.groups.entered(*role, names);
                if *role == Role::Publisher {
                    let held = names.iter().filter(|name| self.groups.holds(*role, name));
                    changes.granted = held.filter_map(|name| self.groups.id(name)).collect();
                }
            }
            (ToService::Exit { role, names, .. }, Ok(_)) => {
                changes.ended = self.groups.exited(*role, names);
            }
            (message, Err(_)) => {
                if let Some((role, names)) = requests::names(message) {
                    changes.ended = self.groups.refused(role, names);
                }
            }
            _ => {}
        }
        Some(changes)
    }
}
