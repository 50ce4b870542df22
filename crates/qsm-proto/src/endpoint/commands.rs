//! The application's commands: entering groups, publishing, closing.

use qsm_wire::GroupId;
use qsm_wire::membership::{Answer, QueryKind, Role};

use super::{Closing, Endpoint};
use crate::publication::{Publication, PublicationLanes};
use crate::region::Region;
use crate::send::SendConfig;
use crate::{Deliver, Event, Instant, PublishError};

/// How long a closing node waits for its messages to become stable.
const CLOSE_PATIENCE: core::time::Duration = core::time::Duration::from_secs(10);

impl Endpoint {
    /// Takes up a role in these groups, all in one request. [`Event::Answer`] will
    /// bear the returned number.
    pub fn enter(&mut self, now: Instant, role: Role, names: Vec<String>) -> u32 {
        let now = self.advance(now);
        let asked = (role == Role::Publisher).then(|| names.clone());
        let request = self
            .membership
            .enter(now, role, names, &mut self.node.outbox);
        if let Some(names) = asked {
            self.publishing.insert(request, names);
        }
        request
    }

    /// Gives up a role in these groups. From now on nothing of them is published or delivered.
    pub fn exit(&mut self, now: Instant, role: Role, names: Vec<String>) -> u32 {
        let now = self.advance(now);
        let given_up = (role == Role::Subscriber).then(|| names.clone());
        if role == Role::Publisher {
            for group in names.iter().filter_map(|name| self.membership.group(name)) {
                self.routes.enter(group, false);
            }
        }
        let request = self
            .membership
            .exit(now, role, names, &mut self.node.outbox);
        if let Some(names) = given_up {
            names.iter().for_each(|name| self.forget_former(name));
            self.subscriptions.begin_exit(request, names);
            self.subscribe();
        }
        request
    }

    /// Asks the membership service for a list; an event will bear the returned number.
    pub fn query(&mut self, now: Instant, kind: QueryKind) -> u32 {
        let now = self.advance(now);
        self.membership.query(now, kind, &mut self.node.outbox)
    }

    /// A group's number, known from [`Event::Answer`] on.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupId> {
        self.membership.group(name)
    }

    /// Receivers of a group other than this node, as far as a publisher knows.
    #[must_use]
    pub fn members(&self, group: GroupId) -> u32 {
        let regions = self.routes.regions(group).iter();
        let receivers: usize = regions
            .filter_map(|id| self.regions.get(*id))
            .map(Region::receivers)
            .sum();
        u32::try_from(receivers).unwrap_or(u32::MAX)
    }

    /// Multicasts a message to a group. It has been put into packets when this returns; returns
    /// its number among this node's messages to the group (R005, R053, R-DATA-3).
    ///
    /// # Errors
    /// The message has not been taken, and why.
    pub fn publish(
        &mut self,
        now: Instant,
        group: GroupId,
        payload: &[u8],
        out: &mut dyn Deliver,
    ) -> Result<u64, PublishError> {
        self.publication(now, group)?.push(payload, out)
    }

    /// Opens a group for several messages.
    ///
    /// # Errors
    /// This node may not publish to the group: it has not entered it, or is closing.
    pub fn publication(
        &mut self,
        now: Instant,
        group: GroupId,
    ) -> Result<Publication<'_>, PublishError> {
        let now = self.advance(now);
        if self.closing.is_some() {
            return Err(PublishError::Closed);
        }
        let (regions, numbering) = self.routes.open(group).ok_or(PublishError::NotEntered)?;
        let forgotten = self.pasts.forgotten();
        Ok(Publication {
            now,
            group,
            numbering,
            subscribed: self.node.cursors.subscribed(group),
            way: PublicationLanes::new(regions, self.regions.by_id(), &self.node, forgotten),
            pool: &mut self.pool,
            node: &mut self.node,
        })
    }

    /// The largest message that [`Endpoint::publish`] would take now, bytes.
    #[must_use]
    pub fn room_bytes(&self, group: GroupId) -> usize {
        let regions = self.routes.regions(group).iter();
        let regions = regions.filter_map(|id| self.regions.get(*id));
        let regions = regions.filter(|region| region.receivers() > 0);
        // Each has a copy of its own.
        let share = self.pool.free_blocks() / regions.clone().count().max(1);
        let fresh = SendConfig::new(&self.node.config).message_bytes_max(share);
        let rooms = regions.map(|region| match region.own_stream() {
            Some(sender) => sender.room_bytes(share),
            None => fresh,
        });
        rooms
            .min()
            .unwrap_or(usize::MAX)
            .min(self.node.config.limits.message_bytes)
    }

    /// Leaves the cluster once all that was published is stable, or after ten seconds.
    pub fn close(&mut self, now: Instant) {
        let now = self.advance(now);
        if self.closing.is_none() {
            self.closing = Some(Closing {
                until: now.after(CLOSE_PATIENCE),
                said: false,
            });
            for region in self.regions.iter_mut() {
                region.finish(now);
            }
        }
    }

    /// Whether a closed node has said goodbye and nothing is left to do.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let gone = self.membership.is_gone(self.node.now);
        self.closing.is_some_and(|closing| closing.said) && gone && self.node.outbox.is_empty()
    }

    /// Whether all that was published has been received by all.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.regions.iter().all(Region::stable)
    }

    pub(super) fn go_on_closing(&mut self) {
        let now = self.node.now;
        let stable = self.is_stable();
        let Some(closing) = &mut self.closing else {
            return;
        };
        if !closing.said && (stable || now >= closing.until) {
            closing.said = true;
            self.membership.goodbye(now, &mut self.node.outbox);
        }
    }

    pub(super) fn answered(&mut self, answer: Answer) {
        let (request, granted) = (answer.request, answer.result.is_ok());
        if self.subscriptions.end_exit(request) && !granted {
            self.subscribe();
        }
        let publishing = self.publishing.remove(&request).filter(|_| granted);
        for name in publishing.into_iter().flatten() {
            let wanted = self.membership.wants(Role::Publisher, &name);
            if let Some(group) = self.membership.group(&name).filter(|_| wanted) {
                self.routes.enter(group, true);
            }
        }
        self.node.events.push(Event::Answer(answer));
    }
}
