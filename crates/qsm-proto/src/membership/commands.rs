use core::time::Duration;

use std::net::SocketAddr;

use qsm_wire::membership::{About, Answer, GroupRates, QueryKind, Rates, Role, Strain, ToService};
use qsm_wire::{Origin, RegionId, ViewNumber};

use super::{GOODBYE_MAX, Membership};
use crate::{Instant, Outbox};

/// Requests and reports to the service.
impl Membership {
    /// Takes up a role in these groups. Returns the number that the answer will bear.
    ///
    /// # Errors
    /// The answer, if it is refused here already.
    pub fn enter(
        &mut self,
        now: Instant,
        role: Role,
        names: Vec<String>,
        outbox: &mut Outbox,
    ) -> Result<u32, Answer> {
        let request = self.requests.number();
        if let Err(reason) = self.groups.want(role, &names, self.identity.groups_max) {
            let result = Err(reason);
            return Err(Answer { request, result });
        }
        self.published |= role == Role::Publisher;
        let message = ToService::Enter {
            request,
            role,
            names,
        };
        self.ask(now, request, message, outbox)
    }

    /// Gives up a role in these groups; unknown ones are ignored.
    ///
    /// # Errors
    /// As [`Membership::enter`].
    pub fn exit(
        &mut self,
        now: Instant,
        role: Role,
        names: Vec<String>,
        outbox: &mut Outbox,
    ) -> Result<u32, Answer> {
        let request = self.requests.number();
        self.groups.unwant(role, &names);
        let message = ToService::Exit {
            request,
            role,
            names,
        };
        self.ask(now, request, message, outbox)
    }

    /// Asks the service for a list.
    ///
    /// # Errors
    /// As [`Membership::enter`].
    pub fn query(
        &mut self,
        now: Instant,
        kind: QueryKind,
        outbox: &mut Outbox,
    ) -> Result<u32, Answer> {
        let request = self.requests.number();
        let message = ToService::Query { request, kind };
        self.ask(now, request, message, outbox)
    }

    /// This node is at another address now. A new session tells the service, in the same life; and
    /// what it says from now on, it says there.
    pub fn move_to(
        &mut self,
        now: Instant,
        address: SocketAddr,
        second: Option<SocketAddr>,
        outbox: &mut Outbox,
    ) {
        if (self.identity.address, self.identity.second) == (address, second) {
            return;
        }
        (self.identity.address, self.identity.second) = (address, second);
        if let Some(service) = self.service() {
            self.connect(now, service);
            self.step(now, outbox);
        }
    }

    /// Reports a member that does not answer its ring neighbour. Lost when there is no service.
    pub fn suspect(&mut self, now: Instant, member: Origin, silent: Duration, outbox: &mut Outbox) {
        let silent_ms = u32::try_from(silent.as_millis()).unwrap_or(u32::MAX);
        self.tell(&ToService::Suspect { member, silent_ms });
        self.step(now, outbox);
    }

    /// Reports that this node has everything of a region it left before `view`, or that everybody
    /// has what it has sent there. Repeated to every service until one has taken the node out.
    pub fn drained(
        &mut self,
        now: Instant,
        region: RegionId,
        view: ViewNumber,
        outbox: &mut Outbox,
    ) {
        self.drained.insert(region, view);
        self.tell(&ToService::Drained { region, view });
        self.step(now, outbox);
    }

    /// This node, which is away in the region, has what the others have. Not remembered: it is said
    /// again if nothing comes of it.
    pub fn caught_up(
        &mut self,
        now: Instant,
        region: RegionId,
        view: ViewNumber,
        outbox: &mut Outbox,
    ) {
        self.tell(&ToService::CaughtUp { region, view });
        self.step(now, outbox);
    }

    /// Reports that the multicast of a speaker to a region does not reach this node, or does again.
    /// Lost when there is no service.
    pub fn deaf(
        &mut self,
        now: Instant,
        region: RegionId,
        speaker: Origin,
        deaf: bool,
        outbox: &mut Outbox,
    ) {
        self.tell(&ToService::Deaf {
            region,
            speaker,
            deaf,
        });
        self.step(now, outbox);
    }

    /// Reports that packets of another cluster come to the address of a region. Lost when there is no
    /// service.
    pub fn foreign(&mut self, now: Instant, region: RegionId, outbox: &mut Outbox) {
        self.tell(&ToService::Foreign { region });
        self.step(now, outbox);
    }

    /// Reports what the last second was like in a region. Lost when there is no service.
    pub fn strained(
        &mut self,
        now: Instant,
        region: RegionId,
        strain: Strain,
        outbox: &mut Outbox,
    ) {
        self.tell(&ToService::Strained { region, strain });
        self.step(now, outbox);
    }

    /// Says what this node is, for lists. Lost when there is no service.
    pub fn introduce(&mut self, now: Instant, about: About, outbox: &mut Outbox) {
        if self.goodbye_until.is_none() {
            self.tell(&ToService::About(about));
            self.step(now, outbox);
        }
    }

    /// Says how many messages this node sends and receives, for lists. Lost when there is no service.
    pub fn rated(&mut self, now: Instant, rates: Rates, outbox: &mut Outbox) {
        if self.goodbye_until.is_none() {
            self.tell(&ToService::Rates(rates));
            self.step(now, outbox);
        }
    }

    /// Says the description of this node, for lists. Lost when there is no service.
    pub fn describe(&mut self, now: Instant, text: String, outbox: &mut Outbox) {
        if self.goodbye_until.is_none() {
            self.tell(&ToService::Description { text });
            self.step(now, outbox);
        }
    }

    /// Says what this node publishes to groups, for plans. Lost when there is no service.
    pub fn group_rated(&mut self, now: Instant, rates: GroupRates, outbox: &mut Outbox) {
        if self.goodbye_until.is_none() {
            self.tell(&ToService::GroupRates(rates));
            self.step(now, outbox);
        }
    }

    /// This node publishes to the region again.
    pub fn not_drained(&mut self, region: RegionId) {
        self.drained.remove(&region);
    }

    /// Leaves the cluster. `owed_nothing`: members that are away and lack nothing of this node that they
    /// receive. [`Membership::is_gone`] says when the service knows.
    pub fn goodbye(&mut self, now: Instant, owed_nothing: Vec<Origin>, outbox: &mut Outbox) {
        if self.goodbye_until.is_none() {
            self.goodbye_until = Some(now.after(GOODBYE_MAX));
            self.reopen_at = None;
            self.discovery.stop();
            if !owed_nothing.is_empty() {
                let members = owed_nothing;
                self.tell(&ToService::NothingOwed { members });
            }
            self.tell(&ToService::Goodbye);
            self.step(now, outbox);
        }
    }

    fn ask(
        &mut self,
        now: Instant,
        request: u32,
        message: ToService,
        outbox: &mut Outbox,
    ) -> Result<u32, Answer> {
        let queued = self.requests.push(request, message);
        self.step(now, outbox);
        match queued {
            Ok(()) => Ok(request),
            Err(reason) => Err(Answer {
                request,
                result: Err(reason),
            }),
        }
    }

    /// Sends a message that nobody waits for, if there is a service to hear it.
    pub(super) fn tell(&mut self, message: &ToService) {
        if let Some(link) = self.link.as_mut().filter(|link| link.welcomed) {
            link.tell(message);
        }
    }

    pub(super) fn send_requests(&mut self) {
        if let Some(link) = self.link.as_mut().filter(|link| link.welcomed) {
            self.requests.send(|message| link.tell(message));
        }
    }
}
