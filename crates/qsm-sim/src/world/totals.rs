//! Counters and times of all hosts.

use std::collections::BTreeSet;

use qsm_proto::stats::Histogram;

use super::World;
use crate::machine::Machine;
use crate::report::Counters;

impl World {
    /// Each host's counters, summed over its processes.
    pub(crate) fn counters(&self) -> Vec<Counters> {
        let mut counters = self.ended.clone();
        for (host, sum) in counters.iter_mut().enumerate() {
            if let Some(machine) = self.engine.machine(host) {
                add(sum, machine.counters());
            }
        }
        counters
    }

    /// The nodes' counters, summed over all nodes and lives.
    pub(crate) fn totals(&self) -> Counters {
        let mut totals = Counters::new();
        for (host, counters) in self.counters().into_iter().enumerate() {
            if self.options.host(host).is_node() {
                add(&mut totals, counters);
            }
        }
        totals
    }

    /// Times of repairs, of all nodes and lives.
    pub(crate) fn repairs(&self) -> Histogram {
        let machines = (0..self.apps.len()).filter_map(|host| self.engine.machine(host));
        let mut repairs = self.ended_repairs.clone();
        machines.for_each(|machine| repairs += machine.repairs());
        repairs
    }

    /// Duration of the longest of the last rounds of all regions.
    pub(crate) fn round_ns(&self) -> u64 {
        let machines = (0..self.apps.len()).filter_map(|host| self.engine.machine(host));
        let regions = machines.flat_map(Machine::all_regions);
        regions
            .map(|region| region.ring_stats().round_ns)
            .max()
            .unwrap_or(0)
    }

    /// Fresh data and control packets sent by hosts that have flows.
    pub(crate) fn sender_packets(&self) -> (u64, u64) {
        let hosts: BTreeSet<usize> = self.options.flows.iter().map(|flow| flow.host).collect();
        let stats = hosts
            .into_iter()
            .filter_map(|host| self.engine.machine(host)?.stats());
        stats.fold((0, 0), |(data, control), stats| {
            (data + stats.data_sent, control + stats.control_sent)
        })
    }
}

pub(super) fn add(totals: &mut Counters, more: impl IntoIterator<Item = (&'static str, u64)>) {
    for (name, value) in more {
        *totals.entry(name).or_default() += value;
    }
}
