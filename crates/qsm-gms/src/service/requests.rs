use core::time::Duration;

use qsm_plan::LaggardFate;
use qsm_proto::Instant;
use qsm_wire::membership::{About, Answer, AwayReason, FromService, QueryKind, Strain, ToService};
use qsm_wire::{NodeId, RegionId};

use super::sessions::{SessionTable, Standing};
use super::{Phase, Service};
use crate::ServiceEvent;
use crate::registry::{Command, EndCause};

/// Messages of nodes in their sessions, and the answers.
impl Service {
    pub(super) fn take_messages(&mut self, now: Instant, node: NodeId) {
        while let Some(bytes) = self.clients.poll_message(node) {
            match ToService::decode(&bytes) {
                Ok(message) => self.take_message(now, node, message),
                Err(_) => self.stats.discard_message += 1,
            }
        }
    }

    fn take_message(&mut self, now: Instant, node: NodeId, message: ToService) {
        if let Phase::Yielded { to, .. } = self.phase {
            self.tell(node, &FromService::Redirect { address: to });
            return;
        }
        let admitted = self.clients.standing(node) == Some(Standing::Admitted);
        match message {
            ToService::Hello(hello) if !admitted => self.take_hello(now, node, hello),
            ToService::Goodbye => self.take_goodbye(now, node),
            _ if !admitted => self.stats.discard_message += 1,
            ToService::Enter { .. }
            | ToService::Exit { .. }
            | ToService::Drained { .. }
            | ToService::CaughtUp { .. }
            | ToService::NothingOwed { .. } => self.take_request(now, node, message),
            ToService::Suspect { member, silent_ms } => {
                if self.registry.origin(member.node) == Some(member) {
                    let silent = Duration::from_millis(u64::from(silent_ms));
                    self.take_suspicion(now, node, member.node, silent);
                }
            }
            ToService::Deaf {
                region,
                speaker,
                deaf,
            } => self.take_deafness(now, node, region, speaker, deaf),
            ToService::Foreign { region } => self.take_foreign(now, node, region),
            ToService::Strained { region, strain } => self.take_strain(now, node, region, strain),
            ToService::About(about) => self.take_about(now, node, about),
            ToService::Rates(rates) => self.profiles.rate(node, rates),
            ToService::GroupRates(rates) => {
                self.stats.rates_told += 1;
                self.traffic.note(node, rates);
            }
            ToService::Description { text } => self.take_description(node, text),
            ToService::Query { request, kind } => self.take_query(node, request, kind),
            _ => self.stats.discard_message += 1,
        }
    }

    /// A request of a node: carried out if its rights allow it (R-SEC-13).
    fn take_request(&mut self, now: Instant, node: NodeId, message: ToService) {
        let refused = match &message {
            ToService::Enter {
                request,
                role,
                names,
            } => {
                let reason = self.rights.refusal(node, *role, names);
                reason.map(|reason| Answer {
                    request: *request,
                    result: Err(reason),
                })
            }
            _ => None,
        };
        let answer = refused.or_else(|| self.registry.request(now, node, message));
        if let Some(answer) = answer {
            self.answer(node, answer);
        }
    }

    /// A member does not hear another one: it is asked, unless the service has found out before
    /// that it hears both, and they not each other. Rule R-MEM-16.
    fn take_suspicion(
        &mut self,
        now: Instant,
        reporter: NodeId,
        subject: NodeId,
        silent: Duration,
    ) {
        // Rings are led by those with the smallest addresses.
        let address = |node| self.registry.address(node);
        let minor = match address(reporter) > address(subject) {
            true => reporter,
            false => subject,
        };
        // Members report in step: when the second one does, the first one's doubt is not over. What a
        // node that is away says may be of the time when nobody heard it.
        let counts = |node| self.detector.is_heard(now, node) && !self.registry.is_away(node);
        if !self.config.gone_after.is_zero()
            && counts(reporter)
            && counts(subject)
            && let Some(node) = self.suspicions.note(now, reporter, subject, silent, minor)
        {
            self.stats.kept_apart += 1;
            let reason = AwayReason::Unreachable;
            self.command(now, Command::SetAway { node, reason });
        }
        self.detector.suspect(now, subject);
    }

    /// A member says that packets of another cluster come to the address of its region. Rule R-MEM-20.
    fn take_foreign(&mut self, now: Instant, node: NodeId, region: RegionId) {
        let Some(origin) = self.registry.origin(node) else {
            return;
        };
        let Some(movable) = self.registry.is_movable(region, node) else {
            return;
        };
        let name = self.registry.name(node);
        let address = self.registry.region_address(region);
        let moves = movable && self.foreign.moves(now);
        if moves {
            self.command(now, Command::Readdress { region });
        } else if !self.foreign.says_stays(now) {
            return;
        }
        self.event(ServiceEvent::Foreign {
            origin,
            name,
            address,
            moves,
        });
    }

    /// A node says what its last second was like. Rule R-RATE-6.
    fn take_strain(&mut self, now: Instant, node: NodeId, region: RegionId, strain: Strain) {
        let config = &self.config;
        let waits = !config.slow_after.is_zero() && !config.gone_after.is_zero();
        if !waits || !self.registry.is_waited_for(region, node) {
            return;
        }
        let members = self.registry.members_waited_for(region);
        let of = (region, node);
        let charge = self.strains.note(now, of, strain, members.len());
        let heard = members.contains(&node) && self.detector.is_quiet(node);
        let patience = self.registry.patience_with(node, self.config.slow_after);
        if charge < patience || !heard {
            return;
        }
        self.strains.forget(node);
        self.stats.slow += 1;
        let reason = match self.registry.fate_of(node) {
            LaggardFate::Apart => AwayReason::Slow,
            LaggardFate::Demoted => AwayReason::Demoted,
            LaggardFate::Expelled => {
                self.expel_slow(now, node, patience);
                return;
            }
        };
        self.stats.slow_demoted += u64::from(reason == AwayReason::Demoted);
        self.command(now, Command::SetAway { node, reason });
    }

    /// A node says what it is. Rule R-MEM-19.
    fn take_about(&mut self, now: Instant, node: NodeId, about: About) {
        match about.is_valid() {
            true => self.profiles.introduce(now, node, about),
            false => self.stats.discard_message += 1,
        }
    }

    /// A node describes itself. Rule R-MEM-21.
    fn take_description(&mut self, node: NodeId, text: String) {
        match self.descriptions.describe(node, text) {
            true => self.stats.descriptions_told += 1,
            false => self.stats.descriptions_refused += 1,
        }
    }

    fn take_query(&mut self, node: NodeId, request: u32, kind: QueryKind) {
        let result = Ok(self.list_rows(kind));
        let answer = FromService::Answer(Answer { request, result });
        if SessionTable::fits(&answer) {
            self.tell(node, &answer);
            return;
        }
        let reason = "the list is longer than one message; ask the service's own page for it";
        let result = Err(reason.to_owned());
        self.answer(node, Answer { request, result });
    }

    /// Tells a node what became of its request. Without a number there is nothing to tell.
    pub(super) fn answer(&mut self, node: NodeId, answer: Answer) {
        self.stats.refused += u64::from(answer.result.is_err());
        if answer.request != 0 {
            self.tell(node, &FromService::Answer(answer));
        }
    }

    /// Queues a message; a session that cannot take it ends, and its node says hello again.
    pub(super) fn tell(&mut self, node: NodeId, message: &FromService) {
        if !self.clients.tell(node, message) {
            self.stats.sessions_broken += 1;
            self.clients.close(node, &mut self.outbox);
        }
    }

    fn take_goodbye(&mut self, now: Instant, node: NodeId) {
        if let Phase::Holding(hold) = &mut self.phase {
            hold.forget(node);
        }
        self.detector.forget(node);
        self.clients.close(node, &mut self.outbox);
        let cause = EndCause::Goodbye;
        self.command(now, Command::End { node, cause });
    }
}
