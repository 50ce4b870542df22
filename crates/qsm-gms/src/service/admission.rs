use std::net::SocketAddr;

use qsm_proto::{Instant, Random};
use qsm_wire::membership::{FromService, GroupReport, Hello, Role};
use qsm_wire::{ChannelId, Incarnation, NodeId, Origin, RegionId};

use super::sessions::Standing;
use super::{EVENTS_MAX, NUMBER_MAX, Phase, Service};
use crate::ServiceEvent;
use crate::registry::Report;

/// Incarnations from which a term begins to count: nobody who is left may have heard of the
/// highest ones of the term before.
const INCARNATIONS_PER_TERM: u32 = 4096;

/// Incarnations between those that the first services of two clusters may begin with. When all
/// nodes have stopped nobody remembers, and the next cluster of the name begins somewhere else.
const INCARNATIONS_PER_ERA: u32 = 1 << 16;
/// How many such beginnings there are: all of them are far below [`NUMBER_MAX`].
const ERAS: u64 = 1 << 12;

/// The number before the first incarnation of a term, if this is the highest one heard of; 0:
/// nobody has heard of any, and `random` decides. In the far future what nodes have heard of has
/// to do.
fn first_incarnations(term: u64, highest: u32, random: &mut Random) -> u32 {
    if highest == 0 {
        let era = u32::try_from(random.below(ERAS)).unwrap_or(0);
        return era * INCARNATIONS_PER_ERA;
    }
    let era = highest / INCARNATIONS_PER_ERA * INCARNATIONS_PER_ERA;
    let terms_before = u32::try_from(term.saturating_sub(1)).unwrap_or(u32::MAX);
    let first = terms_before.checked_mul(INCARNATIONS_PER_TERM);
    let first = first.and_then(|first| first.checked_add(era));
    let first = first.filter(|first| *first <= NUMBER_MAX / 2);
    first.unwrap_or(0).max(highest)
}

/// How nodes come in.
impl Service {
    pub(super) fn take_hello(&mut self, now: Instant, node: NodeId, mut hello: Hello) {
        let regions = hello.regions.iter();
        let regions = regions.map(|report| report.region.0.max(report.channel.0));
        let highest = [
            hello.incarnation.0,
            hello.region_last.0,
            hello.channel_last.0,
            hello.incarnation_last.0,
        ];
        let highest = regions.chain(highest).max().unwrap_or(0);
        if highest > NUMBER_MAX || hello.name.len() > usize::from(u8::MAX) {
            self.stats.discard_message += 1;
            self.clients.close(node, &mut self.outbox);
            return;
        }
        if hello.address.is_ipv4() != self.config.address.is_ipv4() {
            self.turn_away(node, hello);
            return;
        }
        let family = |second: &SocketAddr| second.is_ipv4() == hello.address.is_ipv4();
        hello.second = hello.second.filter(family);
        if let (address, Some(second)) = (hello.address, hello.second) {
            self.event(ServiceEvent::SecondAddress { address, second });
        }
        match &mut self.phase {
            Phase::Holding(hold) => {
                hold.add(now, node, hello);
                self.clients.set_standing(node, Standing::Held);
            }
            Phase::Open { term } => {
                let same = Origin {
                    node,
                    incarnation: hello.incarnation,
                };
                if hello.term == *term && self.registry.origin(node) == Some(same) {
                    self.resume(now, node, &hello);
                } else {
                    self.admit(now, node, hello);
                }
            }
            Phase::Yielded { .. } => {}
        }
    }

    /// A node whom other members could not reach (R-MEM-11).
    fn turn_away(&mut self, node: NodeId, hello: Hello) {
        self.stats.discard_message += 1;
        self.clients.close(node, &mut self.outbox);
        if self.strangers.len() < EVENTS_MAX && self.strangers.insert(node) {
            let (name, address) = (hello.name, hello.address);
            self.event(ServiceEvent::OtherFamily { name, address });
        }
    }

    /// A known node with a new session: it keeps its life and is told everything again.
    fn resume(&mut self, now: Instant, node: NodeId, hello: &Hello) {
        let views = hello
            .regions
            .iter()
            .map(|report| (report.region, report.view));
        self.registry.resume(node, views.collect(), &hello.senders);
        let unnamed = hello.groups.iter().filter(|report| report.group.is_none());
        self.enter_again(now, node, unnamed);
        self.welcome(now, node, hello.incarnation);
    }

    /// Enters groups on the word of a hello; names and numbers are told with the next batch.
    fn enter_again<'a>(
        &mut self,
        now: Instant,
        node: NodeId,
        reports: impl Iterator<Item = &'a GroupReport> + Clone,
    ) {
        for role in [Role::Subscriber, Role::Publisher] {
            let of_role = reports.clone().filter(|report| report.role == role);
            let names: Vec<String> = of_role.map(|report| report.name.clone()).collect();
            let result = self.registry.enter(now, node, (0, role), &names);
            self.stats.refused += u64::from(result.is_err());
        }
    }

    /// Begins a new life for a node; its groups are entered again.
    fn admit(&mut self, now: Instant, node: NodeId, hello: Hello) {
        if let Some(origin) = self.registry.end(node) {
            self.detector.forget(node);
            self.event(ServiceEvent::Excluded { origin });
        }
        if self.registry.is_ending(node) {
            // The former life has to end before the next one begins.
            self.batch(now);
        }
        if hello.incarnation != Incarnation(0) {
            let incarnation = hello.incarnation;
            self.registry.end_elsewhere(Origin { node, incarnation });
        }
        if self.registry.len() >= self.config.limits.nodes {
            self.stats.discard_nodes += 1;
            self.clients.close(node, &mut self.outbox);
            return;
        }
        self.incarnation_last = self.incarnation_last.max(hello.incarnation.0) + 1;
        let incarnation = Incarnation(self.incarnation_last);
        let origin = Origin { node, incarnation };
        let (name, address) = (hello.name.clone(), hello.address);
        self.registry
            .admit(origin, name.clone(), (address, hello.second));
        self.event(ServiceEvent::Admitted {
            origin,
            name,
            address,
        });
        self.welcome(now, node, incarnation);
        self.enter_again(now, node, hello.groups.iter());
    }

    fn welcome(&mut self, now: Instant, node: NodeId, incarnation: Incarnation) {
        self.clients.set_standing(node, Standing::Admitted);
        self.detector.watch(now, node);
        let heartbeat = self.config.heartbeat.as_millis();
        let message = FromService::Welcome {
            incarnation,
            term: self.term(),
            heartbeat_ms: u32::try_from(heartbeat).unwrap_or(u32::MAX),
        };
        self.tell(node, &message);
    }

    /// The hold is over: what was reported becomes the membership.
    pub(super) fn open(&mut self, now: Instant) {
        let phase = core::mem::replace(&mut self.phase, Phase::Open { term: 0 });
        let Phase::Holding(hold) = phase else { return };
        let reported = hold.split();
        let term = reported.term + 1;
        self.phase = Phase::Open { term };
        let resumed = reported.resuming.len();
        self.registry.reserve(reported.last);
        let highest = reported.incarnation_last.0;
        self.incarnation_last = first_incarnations(term, highest, &mut self.eras);
        if highest == 0 {
            // Who is away may remember regions all the same, and take new ones for them.
            let first = self.incarnation_last;
            self.registry.reserve((RegionId(first), ChannelId(first)));
        }
        let mut reports = Vec::new();
        for (node, hello) in reported.resuming {
            self.incarnation_last = self.incarnation_last.max(hello.incarnation.0);
            self.welcome(now, node, hello.incarnation);
            reports.push(Report {
                origin: Origin {
                    node,
                    incarnation: hello.incarnation,
                },
                name: hello.name,
                address: hello.address,
                second: hello.second,
                groups: hello.groups,
                regions: hello.regions,
                senders: hello.senders,
                published: hello.published,
            });
        }
        let absent = self.registry.rebuild(now, reports);
        self.event(ServiceEvent::Opened {
            term,
            resumed,
            absent,
        });
        for (node, hello) in reported.fresh {
            self.admit(now, node, hello);
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm_proto::Seed;

    use super::*;

    #[test]
    fn a_term_begins_beyond_the_lives_of_the_one_before() {
        let mut random = Random::new(Seed(1), "eras");
        let mut first = |term, highest| first_incarnations(term, highest, &mut random);
        assert_eq!(first(2, 7), 4096);
        assert_eq!(first(3, 4097), 8192);
        assert_eq!(first(3, 9000), 9000);
        assert_eq!(first(2, (5 << 16) + 7), (5 << 16) + 4096);
        assert_eq!(first(u64::MAX, 77), 77);
        let believed = (0..1 << 20).map(|term| first(term, 1));
        assert!(believed.max().is_some_and(|first| first < NUMBER_MAX));
    }

    // Rule R-MEM-1.
    #[test]
    fn a_cluster_that_nobody_remembers_begins_anywhere() {
        let mut random = Random::new(Seed(2), "eras");
        let firsts = (0..100).map(|_| first_incarnations(1, 0, &mut random));
        let firsts: std::collections::BTreeSet<u32> = firsts.collect();
        assert!(firsts.len() > 90 && firsts.iter().all(|first| *first < NUMBER_MAX / 2));
    }
}
