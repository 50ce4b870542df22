use core::time::Duration;

use qsm_proto::{Destination, Instant, Reason};
use qsm_wire::membership::AwayReason;
use qsm_wire::{Kind, NodeId, Probe};

use super::detector::Verdict;
use super::rivals::BEACON_INTERVAL;
use super::sessions::Standing;
use super::{Phase, Service};
use crate::ServiceEvent;
use crate::registry::{Command, EndCause};

/// How long a session may take to say hello.
const GREETING_MAX: Duration = Duration::from_secs(10);

/// Lateness of the service's own timers from which on it takes itself for the one that stood still.
const LATE: Duration = Duration::from_millis(100);

/// Timers: those that are due, and the next.
impl Service {
    /// If the service has not run when it should have, nobody is judged by the silence of that
    /// time. Rule R-MEM-15.
    pub(super) fn notice_lateness(&mut self, now: Instant) {
        let due = self.next_timeout().unwrap_or(now);
        let by = now.since(due);
        if by > LATE {
            self.detector.forgive(now);
            self.stats.late += 1;
            self.event(ServiceEvent::Late { by });
        }
    }

    /// Does what is due; harmless when nothing is.
    pub fn handle_timeout(&mut self, now: Instant) {
        let now = self.advance(now);
        self.notice_lateness(now);
        self.step(now);
    }

    /// When [`Service::handle_timeout`] has something to do.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        let serving = matches!(self.phase, Phase::Open);
        let hold = match &self.phase {
            Phase::Holding(hold) => hold.until(),
            _ => None,
        };
        let yielded = matches!(self.phase, Phase::Yielded { .. });
        [
            hold,
            self.clients.next_timeout(),
            (!yielded).then_some(self.beacon_at),
            self.detector.next_timeout().filter(|_| serving),
            self.registry.next_timeout().filter(|_| serving),
            self.batch_at(),
            self.plan_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Everything that is due, in one place.
    pub(super) fn step(&mut self, now: Instant) {
        if let Phase::Holding(hold) = &self.phase
            && hold.until().is_some_and(|at| at <= now)
        {
            self.open(now);
        }
        if matches!(self.phase, Phase::Open) {
            if self.registry.next_timeout().is_some_and(|at| at <= now) {
                self.command(now, Command::Expire);
            }
            self.watch_lives(now);
            // Before the batch: advice must not wait for the next turn, which would seem late.
            self.plan(now);
            if self.batch_at().is_some_and(|at| at <= now) {
                self.run_batch(now);
            }
        }
        if self.beacon_at <= now && !self.has_yielded() {
            self.beaconed = now;
            self.beacon_at = now.after(BEACON_INTERVAL);
            self.announce(Destination::Group(self.config.discovery));
            self.drop_silent_greetings(now);
            self.lists.tidy(now);
        }
        self.clients.transmit(now, &mut self.outbox);
    }

    /// Goes on planning, if that is due.
    fn plan(&mut self, now: Instant) {
        self.planning.note_changes(now, self.registry.aims_changed);
        self.planning.note_rates(now, self.traffic.changes());
        if self.planning.next_timeout().is_none_or(|at| at > now) {
            return;
        }
        if let Some(advice) = self.planning.step(now, &self.registry, &self.traffic) {
            self.stats.plans += 1;
            self.command(now, Command::Advise(advice));
        }
    }

    /// When a plan goes on.
    fn plan_at(&self) -> Option<Instant> {
        let serving = matches!(self.phase, Phase::Open);
        self.planning.next_timeout().filter(|_| serving)
    }

    /// Asks the nodes that are in doubt; who does not answer is away, and later gone.
    fn watch_lives(&mut self, now: Instant) {
        while let Some(verdict) = self.detector.poll(now) {
            match verdict {
                Verdict::Ask {
                    node,
                    nonce,
                    copies,
                } => self.ask(node, nonce, copies),
                Verdict::Away { node } => {
                    let reason = AwayReason::Silent;
                    self.command(now, Command::SetAway { node, reason });
                }
                Verdict::Gone { node } => self.end_silent(now, node),
            }
        }
        if let Some((silent, nodes)) = self.detector.poll_crowd() {
            self.stats.many_silent += 1;
            self.event(ServiceEvent::ManySilent { silent, nodes });
        }
    }

    /// The life of a node is over without its word.
    pub(super) fn end_silent(&mut self, now: Instant, node: NodeId) {
        self.clients.close(node, &mut self.outbox);
        let cause = EndCause::Silence;
        self.command(now, Command::End { node, cause });
    }

    /// Probes a node in so many copies, the probe itself among them. Rule R-MEM-4.
    fn ask(&mut self, node: NodeId, nonce: u64, copies: u32) {
        let before = self.stats.probes_sent;
        (0..copies).for_each(|_| self.probe(node, nonce));
        let sent = self.stats.probes_sent - before;
        self.stats.probes_copied += sent.saturating_sub(1);
    }

    fn probe(&mut self, node: NodeId, nonce: u64) {
        let (Some(subject), Some(to)) = (self.registry.origin(node), self.registry.address(node))
        else {
            return;
        };
        self.stats.probes_sent += 1;
        let header = self.header;
        self.outbox
            .push(Reason::Membership, Destination::Node(to), |out| {
                Probe { subject, nonce }.encode(&header, Kind::Probe, out);
            });
    }

    /// Sessions without a hello do not stay for ever.
    fn drop_silent_greetings(&mut self, now: Instant) {
        for node in self.clients.nodes() {
            let waiting = match self.clients.standing(node) {
                Some(Standing::Greeting) => true,
                Some(Standing::Held) => matches!(self.phase, Phase::Holding(_)),
                _ => false,
            };
            let heard = self.clients.heard_at(node).unwrap_or(now);
            if waiting && now >= heard.after(GREETING_MAX) {
                self.clients.close(node, &mut self.outbox);
                if let Phase::Holding(hold) = &mut self.phase {
                    hold.forget(node);
                }
            }
        }
    }
}
