//! Hints of the designer to the services of a run.

use std::collections::BTreeSet;

use qsm_gms::{GroupPace, HintError, HintList, OriginDemand, ServiceHints};

use crate::mischief::Mischief;
use crate::options::SimOptions;
use crate::pattern::GroupPlan;

/// A hint to all services, by hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Hint {
    /// These hosts are a security domain of their own.
    Domain(BTreeSet<usize>),
    /// No two of these hosts share a region.
    Apart(BTreeSet<usize>),
    /// These hosts share one region.
    Together(BTreeSet<usize>),
    /// These groups have a channel of their own.
    Pin(BTreeSet<usize>),
}

impl Hint {
    /// The word that it begins with in a scenario, and the hosts or groups.
    pub(crate) fn parts(&self) -> (&'static str, &BTreeSet<usize>) {
        match self {
            Self::Domain(hosts) => ("domain", hosts),
            Self::Apart(hosts) => ("apart", hosts),
            Self::Together(hosts) => ("together", hosts),
            Self::Pin(groups) => ("pin", groups),
        }
    }
}

/// The name of the node on a host, by which hints name it.
fn name(host: usize) -> String {
    format!("host-{host}")
}

impl SimOptions {
    /// The name of the node on a host, if hints name nodes.
    pub(crate) fn node_name(&self, host: usize) -> Option<String> {
        (!self.hints.is_empty()).then(|| name(host))
    }

    /// The hints as services take them.
    ///
    /// # Errors
    /// They contradict each other.
    pub(crate) fn service_hints(&self) -> Result<ServiceHints, HintError> {
        let mut list = HintList::new();
        for (group, time) in &self.lifetimes {
            let time = match self.mischief {
                Mischief::LifetimeHalved => *time / 2,
                Mischief::LifetimeExtended => *time * 4,
                _ => *time,
            };
            list = list.lifetime(time, [GroupPlan::name(*group)]);
        }
        for (group, pace) in &self.paces {
            let pace = match (self.mischief, *pace) {
                (Mischief::MinimumForgotten, pace) if pace.minimum_packets() > 0 => {
                    GroupPace::Slowest
                }
                (Mischief::LaggardKept, GroupPace::Demotes(time) | GroupPace::Expels(time)) => {
                    GroupPace::Bounded(time)
                }
                (_, pace) => pace,
            };
            list = list.pace(pace, [GroupPlan::name(*group)]);
        }
        let demand = match (self.mischief, self.origin) {
            (Mischief::ProofWeakened, Some(OriginDemand::Verified)) => Some(OriginDemand::Audit),
            (_, demand) => demand,
        };
        if demand.is_some() {
            list = list.origin(demand, ["*"]);
        }
        for (at, hint) in self.hints.iter().enumerate() {
            list = match hint {
                Hint::Domain(hosts) => list.domain(format!("d{at}"), names(hosts)),
                Hint::Apart(hosts) => list.apart(names(hosts)),
                Hint::Together(hosts) => list.together(names(hosts)),
                Hint::Pin(groups) => {
                    let groups = groups.iter().map(|group| GroupPlan::name(*group));
                    list.pin(format!("c{at}"), groups)
                }
            };
        }
        list.finish()
    }

    /// Tells whether hints have two hosts in different domains.
    pub(crate) fn is_foreign(&self, one: usize, other: usize) -> bool {
        let mut domains = self.hints.iter().filter_map(|hint| match hint {
            Hint::Domain(hosts) => Some(hosts),
            _ => None,
        });
        domains.any(|hosts| hosts.contains(&one) != hosts.contains(&other))
    }

    /// Tells whether hints keep two hosts from sharing a region.
    pub(crate) fn divides(&self, one: usize, other: usize) -> bool {
        let hints = self.hints.iter();
        hints.into_iter().any(|hint| match hint {
            Hint::Domain(hosts) => hosts.contains(&one) != hosts.contains(&other),
            Hint::Apart(hosts) => one != other && hosts.contains(&one) && hosts.contains(&other),
            Hint::Together(_) | Hint::Pin(_) => false,
        })
    }
}

fn names(hosts: &BTreeSet<usize>) -> impl Iterator<Item = String> + '_ {
    hosts.iter().map(|host| name(*host))
}
