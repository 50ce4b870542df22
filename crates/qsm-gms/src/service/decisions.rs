use std::net::SocketAddr;

use qsm_plan::RATE_PRIOR;
use qsm_proto::{Destination, Instant, Reason};
use qsm_wire::membership::{GroupAnswer, PlanLimits};
use qsm_wire::{GroupQuery, GroupReply};

use super::Service;
use crate::registry::PlanKnowledge;

/// Accounts of groups, to those who are no nodes.
impl Service {
    /// Somebody asks why a group's messages go where they go. Nothing about the cluster changes. Rule
    /// R-MEM-18.
    pub(super) fn take_group_query(
        &mut self,
        now: Instant,
        from: SocketAddr,
        query: &GroupQuery<'_>,
    ) {
        if !self.knows_cluster(now) {
            self.stats.lists_unready += 1;
            return;
        }
        if !self.accounts.admit(now) {
            self.stats.lists_refused += 1;
            return;
        }
        let room = GroupReply::room(query, self.config.datagram_bytes);
        let Some(answer) = self.account(query.name, room) else {
            self.stats.lists_refused += 1;
            return;
        };
        self.stats.groups_explained += 1;
        let (header, nonce, answer) = (self.header, query.nonce, &answer);
        let to = Destination::Node(from);
        self.outbox.push(Reason::Membership, to, |out| {
            GroupReply { nonce, answer }.encode(&header, out);
        });
    }

    /// The account of a group, as far as it fits so many bytes; `None`: not even its head does.
    fn account(&self, name: &str, room: usize) -> Option<Vec<u8>> {
        let plans = !self.config.plan_interval.is_zero();
        let knowledge = PlanKnowledge {
            limits: plans.then_some(PlanLimits {
                unwanted_ppm: self.config.plan_unwanted_ppm,
                common: self.config.plan_common,
            }),
            told: &|group| self.traffic.of(&self.registry, group),
            prior: RATE_PRIOR,
            costs: self.config.plan_costs,
        };
        let decision = self.registry.decision(name, &knowledge);
        let mut answer = GroupAnswer { decision };
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            answer.encode(&mut bytes);
            if bytes.len() <= room {
                return Some(bytes);
            }
            let decision = answer.decision.as_mut()?;
            match decision.regions.pop() {
                Some(_) => decision.left_out += 1,
                None => _ = decision.ways.pop()?,
            }
        }
    }
}
