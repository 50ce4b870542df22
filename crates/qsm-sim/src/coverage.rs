use crate::faults::{Fault, Garbage};
use crate::options::SimOptions;

qsm_metrics::metrics! {
    /// Counts how often each fault has really happened. A swarm in which one of them never does
    /// has not tested it.
    #[derive(Copy)]
    pub struct Coverage of "faults" {
        /// Nodes that crashed.
        crashes: counter(lives),
        /// Crashes of the membership service.
        service_crashes: counter(lives),
        /// Processes started again under their old node id.
        restarts_same_node: counter(lives),
        /// Processes started again under a new node id.
        restarts_new_node: counter(lives),
        /// Nodes closed in order.
        closes: counter(lives),
        /// Hosts that stood still.
        freezes: counter(faults),
        /// Times in which the membership service stood still.
        service_freezes: counter(faults),
        /// Hosts that slept.
        sleeps: counter(faults),
        /// Hosts that were slow.
        slowdowns: counter(faults),
        /// Network splits in both directions.
        splits_both_ways: counter(faults),
        /// Network splits in one direction.
        splits_one_way: counter(faults),
        /// Ends of splits.
        heals: counter(faults),
        /// Links clogged.
        clogs: counter(faults),
        /// Times in which multicast did not pass.
        filters: counter(faults),
        /// Times in which the path was narrow.
        narrows: counter(faults),
        /// Packets doomed.
        doomed: counter(packets),
        /// Hosts to whose addresses packets of another cluster came.
        foreigns: counter(faults),
        /// Datagrams refused by their tags.
        refused: counter(datagrams),
        /// Lies told by members.
        lies: counter(datagrams),
        /// Roles taken up.
        enters: counter(roles),
        /// Roles given up.
        exits: counter(roles),
        /// Bad datagrams.
        garbage: group(GarbageCoverage),
    }
}

qsm_metrics::metrics! {
    /// Counts bad datagrams, by [`Garbage`].
    #[derive(Copy)]
    pub struct GarbageCoverage of "garbage" {
        /// Random bytes.
        random: counter(datagrams),
        /// Beginnings of true packets.
        truncated: counter(datagrams),
        /// True packets with flipped bits.
        flipped: counter(datagrams),
        /// Packets with a right checksum that are not well formed.
        malformed: counter(datagrams),
        /// True packets of a version to come.
        future_version: counter(datagrams),
        /// True packets once more, at their destination.
        replayed: counter(datagrams),
        /// True packets at hosts that they were not meant for.
        strayed: counter(datagrams),
        /// Changed packets that are well formed.
        forged: counter(datagrams),
        /// True packets in which a number has jumped.
        jump: counter(datagrams),
        /// Packets in a sender's name that it has not sent.
        in_name: counter(datagrams),
    }
}

impl GarbageCoverage {
    /// The count of this kind.
    pub(crate) fn of(&mut self, kind: Garbage) -> &mut u64 {
        match kind {
            Garbage::Random => &mut self.random,
            Garbage::Truncated => &mut self.truncated,
            Garbage::Flipped => &mut self.flipped,
            Garbage::Malformed => &mut self.malformed,
            Garbage::FutureVersion => &mut self.future_version,
            Garbage::Replayed => &mut self.replayed,
            Garbage::Strayed => &mut self.strayed,
            Garbage::Forged => &mut self.forged,
            Garbage::Jump => &mut self.jump,
            Garbage::InName => &mut self.in_name,
        }
    }
}

impl Coverage {
    /// Name and count of every fault but garbage.
    pub fn faults(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        let rows = self.rows().into_iter();
        let rows = rows.filter(|row| row.path.groups().is_empty());
        let rows = rows.map(|row| (row.metric.name, row.number()));
        rows.collect::<Vec<_>>().into_iter()
    }

    /// A fault happens in a run with these options.
    pub(crate) fn count(&mut self, fault: &Fault, options: &SimOptions) {
        let service = |host: &usize| options.host(*host).is_service();
        let counter = match fault {
            Fault::Crash { host } if service(host) => &mut self.service_crashes,
            Fault::Crash { .. } => &mut self.crashes,
            Fault::Restart {
                same_node: true, ..
            } => &mut self.restarts_same_node,
            Fault::Restart { .. } => &mut self.restarts_new_node,
            Fault::Close { .. } => &mut self.closes,
            Fault::Freeze { host, .. } | Fault::Sleep { host, .. } if service(host) => {
                &mut self.service_freezes
            }
            Fault::Freeze { .. } => &mut self.freezes,
            Fault::Sleep { .. } => &mut self.sleeps,
            Fault::Slow { .. } => &mut self.slowdowns,
            // Drawn runs have none.
            Fault::Full { .. } | Fault::Read { .. } => return,
            Fault::Clog { .. } => &mut self.clogs,
            Fault::Filter { .. } => &mut self.filters,
            Fault::Narrow { .. } => &mut self.narrows,
            Fault::Split {
                both_ways: true, ..
            } => &mut self.splits_both_ways,
            Fault::Split { .. } => &mut self.splits_one_way,
            Fault::Heal => &mut self.heals,
            Fault::Doom { packets, .. } => {
                self.doomed += u64::from(*packets);
                return;
            }
            Fault::Foreign { .. } => &mut self.foreigns,
            // Garbage is counted piece by piece when it is made; hosts of drawn runs are on one
            // network.
            Fault::Garbage { .. } | Fault::Outage { .. } => return,
        };
        *counter += 1;
    }

    /// The same with so many datagrams refused by their tags, and lies told.
    pub(crate) fn with_refused(self, refused: u64, lies: u64) -> Self {
        Self {
            refused,
            lies,
            ..self
        }
    }

    /// A role is taken up or given up.
    pub(crate) fn change(&mut self, enter: bool) {
        *if enter {
            &mut self.enters
        } else {
            &mut self.exits
        } += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HostPlan;
    use qsm_proto::Seed;

    #[test]
    fn faults_of_services_count_apart_wherever_a_service_is() {
        let mut options = SimOptions::quiet(Seed(1), 4);
        options.hosts.insert(0, HostPlan::NODE);
        options.hosts.insert(3, HostPlan::SERVICE);
        let mut coverage = Coverage::default();
        for host in 0..4 {
            coverage.count(&Fault::Crash { host }, &options);
            let time = core::time::Duration::from_secs(1);
            coverage.count(&Fault::Freeze { host, time }, &options);
        }
        assert_eq!((coverage.crashes, coverage.service_crashes), (3, 1));
        assert_eq!((coverage.freezes, coverage.service_freezes), (3, 1));
    }
}
