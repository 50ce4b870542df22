//! The application's commands: entering groups, publishing, closing.

use std::net::SocketAddr;
use std::sync::Arc;

use qsm_identity::NodeKey;
use qsm_wire::membership::{QueryKind, Role};
use qsm_wire::{GroupId, Origin};

use super::Endpoint;
use crate::account::{
    GroupAccount, MessageAccount, MessageStream, RegionAccount, Standing, Wanted,
};
use crate::closing::Closing;
use crate::publication::{Publication, PublicationLanes};
use crate::region::{Lacking, Region};
use crate::{Deliver, FullReaders, Instant, Promptness, PublishError};

impl Endpoint {
    /// Takes up a role in these groups, all in one request. [`Event::Answer`](crate::Event::Answer) will bear the
    /// returned number.
    pub fn enter(&mut self, now: Instant, role: Role, names: Vec<String>) -> u32 {
        let now = self.advance(now);
        let asked = self
            .membership
            .enter(now, role, names, &mut self.node.outbox);
        asked.unwrap_or_else(|refusal| self.take_answer(refusal))
    }

    /// Gives up a role in these groups. From now on nothing of them is published or delivered.
    pub fn exit(&mut self, now: Instant, role: Role, names: Vec<String>) -> u32 {
        let now = self.advance(now);
        let given_up = (role == Role::Subscriber).then(|| names.clone());
        if role == Role::Publisher {
            for group in names.iter().filter_map(|name| self.membership.group(name)) {
                self.regions.routes.enter(group, false);
            }
        }
        let asked = self
            .membership
            .exit(now, role, names, &mut self.node.outbox);
        if let Some(names) = given_up {
            for name in &names {
                let group = self.membership.group(name);
                self.former.forget(&mut self.node.cursors, group, name);
            }
            let request = match &asked {
                Ok(request) => *request,
                Err(refusal) => refusal.request,
            };
            self.regions.subscriptions.begin_exit(request, names);
            self.regions.subscribe(&mut self.node, &self.membership);
        }
        asked.unwrap_or_else(|refusal| self.take_answer(refusal))
    }

    /// Hands out messages of a group in these ways from now on, beside their order; see
    /// [`Deliver::deliver_promptly`]. Without any, in order alone. It takes a subscription
    /// beside ([`Endpoint::enter`]), and outlasts it. Rule R-DATA-12.
    pub fn want(&mut self, now: Instant, name: &str, modes: &[Promptness]) {
        self.advance(now);
        self.wishes.set(name, modes);
        if let Some(group) = self.membership.group(name) {
            self.wishes.bind(&mut self.node.cursors, group, name);
        }
    }

    /// Signs by this key what it sends to regions that demand proof of origin (R-SEC-34). Has to be said before it
    /// publishes; without it nothing is signed, and members of such regions take nothing of it.
    pub fn sign_by(&mut self, key: Arc<NodeKey>) {
        self.node.signing_key = Some(key);
    }

    /// Describes this node by this text in lists from now on; by an empty one not any more. Said when it has changed,
    /// every 2 s at most, to each service, by a node with an introduction. A service takes no text for which
    /// [`is_description`](qsm_wire::membership::is_description) is false. Rule R-MEM-21.
    pub fn describe(&mut self, now: Instant, text: String) {
        self.advance(now);
        if let Some(reporter) = &mut self.reporter {
            reporter.describer.describe(text);
        }
        self.say_description();
    }

    /// Asks the membership service for a list; an event will bear the returned number.
    pub fn query(&mut self, now: Instant, kind: QueryKind) -> u32 {
        let now = self.advance(now);
        let asked = self.membership.query(now, kind, &mut self.node.outbox);
        asked.unwrap_or_else(|refusal| self.take_answer(refusal))
    }

    /// A group's number, known from [`Event::Answer`](crate::Event::Answer) on.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupId> {
        self.membership.group(name)
    }

    /// Receivers of a group other than this node, as far as a publisher knows.
    #[must_use]
    pub fn members(&self, group: GroupId) -> u32 {
        let receivers = self.receivers(group).count();
        u32::try_from(receivers).unwrap_or(u32::MAX)
    }

    /// The receivers of a group other than this node, and whether each is away: nobody waits for it,
    /// and what it misses is kept.
    pub fn receivers(&self, group: GroupId) -> impl Iterator<Item = (Origin, bool)> + '_ {
        let me = self.node.origin;
        let regions = self.regions.routes.regions(group).iter();
        let regions = regions.filter_map(|id| self.regions.table.get(*id));
        let members = regions.flat_map(move |region| {
            let members = region.history().newest().members().iter();
            members.filter(move |member| region.takes(member.origin, group))
        });
        let members = members.filter(move |member| !member.leaving() && member.origin != me);
        members.map(|member| (member.origin, member.is_away()))
    }

    /// Gives account of a group; `None`: it neither publishes to it nor receives it.
    #[must_use]
    pub fn account(&self, now: Instant, group: GroupId) -> Option<GroupAccount> {
        let routes = &self.regions.routes;
        let (publishes, receives) = (routes.is_entered(group), self.delivers(group));
        let published_to = routes.regions(group);
        if !publishes && !receives {
            return None;
        }
        let of_group = |region: &&Region| {
            published_to.contains(&region.id()) || receives && region.receives(group)
        };
        let regions = self.regions().filter(of_group);
        let multicasts = self.node.config.multicast;
        Some(GroupAccount {
            group,
            publishes,
            published: routes.next_number(group) - 1,
            receives,
            regions: regions
                .map(|region| RegionAccount::new(region, group, multicasts, now))
                .collect(),
        })
    }

    /// Gives account of a message of this sender; `None`: this node neither publishes to the group nor receives it.
    /// Looks through at most [`SEARCHED_MAX`](crate::account::SEARCHED_MAX) packets, twice, of each region of the
    /// group.
    #[must_use]
    pub fn message_account(
        &self,
        now: Instant,
        group: GroupId,
        sender: Origin,
        number: u64,
    ) -> Option<MessageAccount> {
        let routes = &self.regions.routes;
        let (publishes, receives) = (routes.is_entered(group), self.delivers(group));
        let own = sender == self.node.origin;
        if !publishes && !receives {
            return None;
        }
        let (wanted, store) = (Wanted { group, number }, &self.node.store);
        let stream = |region: &Region| match own {
            true => {
                let stream = region.own_stream()?;
                Some(MessageStream::sent(region, stream, wanted))
            }
            false => {
                let mut streams = region.streams();
                let stream = streams.find(|stream| stream.id().origin == sender)?;
                Some(MessageStream::received(region, stream, wanted, store, now))
            }
        };
        let published_to = routes.regions(group);
        let streams = self.regions().filter(|region| match own {
            true => published_to.contains(&region.id()),
            // A node that has moved gets what was sent before in its former region.
            false => true,
        });
        let streams: Vec<_> = streams.filter_map(stream).collect();
        let next = self.node.cursors.standing(sender, group);
        let standing = match (own, receives) {
            (true, _) => Standing::sent(number, routes.next_number(group) - 1, &streams),
            (false, false) => Standing::NotReceived,
            (false, true) => Standing::received(number, next, &streams),
        };
        Some(MessageAccount {
            group,
            sender,
            number,
            standing,
            next,
            streams,
        })
    }

    /// Receivers that are there and are not known to have messages of this node: those that are
    /// waited for, and those that are away.
    #[must_use]
    pub fn lacking(&self) -> Vec<Lacking> {
        self.regions.lacking(&self.membership, self.node.origin)
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
        if self.closing != Closing::No {
            return Err(PublishError::Closed);
        }
        let (regions, numbering) = self
            .regions
            .routes
            .open(group)
            .ok_or(PublishError::NotEntered)?;
        let forgotten = self.regions.pasts.forgotten();
        let own = self.node.config.own_messages;
        let subscribed = own && self.node.cursors.subscribed(group);
        let full = subscribed && self.node.cursors.full().holds(group);
        let longest = self.node.config.limits.message_bytes;
        Ok(Publication {
            now,
            group,
            numbering,
            subscribed,
            too_long: if full { 0 } else { longest.saturating_add(1) },
            way: PublicationLanes::new(regions, self.regions.table.by_id(), &self.node, forgotten),
            pool: &mut self.regions.pool,
            node: &mut self.node,
        })
    }

    /// The largest message that [`Endpoint::publish`] would take now, bytes.
    #[must_use]
    pub fn room_bytes(&self, group: GroupId) -> usize {
        let regions = self.regions.routes.regions(group);
        let (table, pool) = (&self.regions.table, &self.regions.pool);
        table.room_bytes(regions, pool, &self.node.config)
    }

    /// The readers of some groups take no more messages for now, or do again: what is said last holds,
    /// and delivery goes on with the next timeout. Messages wait here, and then their senders do
    /// (R-DATA-13). Numbers of groups are void with the node's life, and so is this word; a node that
    /// closes delivers all that it has.
    pub fn set_full_readers(&mut self, now: Instant, full: FullReaders) {
        let now = self.advance(now);
        self.for_each_region(|cx| cx.note_readers());
        self.node.cursors.set_full(match self.closing {
            Closing::No => full,
            _ => FullReaders::None,
        });
        let regions = self.regions.table.iter_mut();
        regions.for_each(|region| region.retry_readers(now));
    }

    /// This node is at another address now, on the same network, and perhaps at another one on a
    /// second network. It goes on in the same life: the membership service hears of it at once, and
    /// the others with the next views.
    pub fn move_to(&mut self, now: Instant, address: SocketAddr, second: Option<SocketAddr>) {
        let now = self.advance(now);
        self.membership
            .move_to(now, address, second, &mut self.node.outbox);
    }

    /// Leaves the cluster once all that was published is stable, or after ten seconds, without those for
    /// which it stands still.
    pub fn close(&mut self, now: Instant) {
        let now = self.advance(now);
        if self.closing.begin(now) {
            for region in self.regions.table.iter_mut() {
                region.finish(now);
            }
            self.set_full_readers(now, FullReaders::None);
        }
    }

    /// Whether a closed node has said goodbye and nothing is left to do.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        let gone = self.membership.is_gone(self.node.now);
        self.closing == Closing::Said && gone && self.node.outbox.is_empty()
    }

    /// Whether all that was published has been received by all.
    #[must_use]
    pub fn is_stable(&self) -> bool {
        self.regions.table.iter().all(Region::stable)
    }

    pub(super) fn go_on_closing(&mut self) {
        if self.closing == Closing::No || self.closing == Closing::Said {
            return;
        }
        let (now, stable) = (self.node.now, self.is_stable());
        let receipted = self.regions.table.iter().all(Region::receipted);
        if self.closing.is_due(now, stable, receipted) {
            let owed_nothing = self.regions.owed_nothing(self.node.origin);
            self.regions.leave_absent(&mut self.node, &self.membership);
            self.membership
                .goodbye(now, owed_nothing, &mut self.node.outbox);
        }
    }
}
