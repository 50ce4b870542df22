use core::time::Duration;
use std::collections::BTreeMap;

use qsm_gms::GroupPace;
use qsm_proto::send::Batching;
use qsm_proto::view::Layout;
use qsm_proto::{Limits, OriginDemand, Pace, Promptness, Recovery, Seed};
use qsm_testnet::NetworkOptions;

use crate::content::Sizes;
use crate::cost::CostModel;
use crate::faults::Fault;
use crate::hints::Hint;
use crate::hosts::{HostPlan, ServicePatience};
use crate::insider::Insider;
use crate::mischief::Mischief;
use crate::pattern::GroupPlan;
use crate::workload::{Churn, Flow};

/// A simulation, completely determined: the same options give the same run to the last byte.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct SimOptions {
    /// Of everything that is drawn during the run.
    pub seed: u64,
    /// Hosts are `0..=nodes`: host 0 runs the membership service and the others run nodes, unless
    /// `hosts` says otherwise.
    pub nodes: usize,
    /// Hosts that are not as their number says.
    pub hosts: BTreeMap<usize, HostPlan>,
    /// Services give regions source-specific addresses.
    pub source_specific: bool,
    /// Multicast addresses that services give at once; `None`: as many as they do by default.
    pub addresses: Option<usize>,
    /// Nodes multicast, and listen to multicast.
    pub multicast: bool,
    /// Patience of services with silent nodes.
    pub patience: ServicePatience,
    /// The groups, their first members and publishers.
    pub groups: Vec<GroupPlan>,
    /// Who publishes how much.
    pub flows: Vec<Flow>,
    /// How long messages are.
    pub sizes: Sizes,
    /// Changes of membership, with their times.
    pub churn: Vec<(Duration, Churn)>,
    /// Faults, with their times.
    pub faults: Vec<(Duration, Fault)>,
    /// The network while faults are on.
    pub network: NetworkOptions,
    /// Clocks run up to this much too fast or too slow, parts per million.
    pub drift_ppm_max: u32,
    /// How long flows publish and faults happen.
    pub duration: Duration,
    /// How long everything may take to converge afterwards.
    pub settle: Duration,
    /// Limits of every node.
    pub limits: Limits,
    /// Recovery of every node.
    pub recovery: Recovery,
    /// Pace of every node.
    pub pace: Pace,
    /// Silence after which services take a node that is away for gone; zero: nobody is ever away,
    /// and who answers no probe is excluded.
    pub gone_after: Duration,
    /// Time for which senders wait for a member that is slower than the others; 0: for ever.
    pub slow_after: Duration,
    /// Least time between two plans of a service; 0: it makes none.
    pub plan_interval: Duration,
    /// Deliveries of a million that may be unwanted by a plan (R-VIEW-16).
    pub plan_unwanted_ppm: u32,
    /// Packets that a common region has to save in a second (R-VIEW-17); `None`: there are none.
    pub plan_common: Option<u32>,
    /// Hosts of which the applications want all groups in these ways beside their order.
    pub prompt: BTreeMap<usize, Vec<Promptness>>,
    /// Hints to services, which go before plans (R-VIEW-18).
    pub hints: Vec<Hint>,
    /// By group the lifetime of its messages, whole milliseconds (R-DATA-14).
    pub lifetimes: BTreeMap<usize, Duration>,
    /// By group the limits to the wait of its messages for others, where they are not those of all
    /// (R-DATA-15).
    pub batches: BTreeMap<usize, Batching>,
    /// By group the pace that senders follow, where it is not that of all (R-RATE-8).
    pub paces: BTreeMap<usize, GroupPace>,
    /// Bytes a second that each node may send again, as services tell (R-NAK-16); 0: there is no limit.
    pub repair_bytes_per_second: u64,
    /// Nodes tell services what they publish (R-MEM-19).
    pub tells_rates: bool,
    /// Hosts whose process has died say so to who probes it.
    pub refusals: bool,
    /// Datagrams carry tags that strangers cannot make, and hosts refuse what its tag does not fit.
    pub tagged: bool,
    /// A member that lies; `None`: all are honest.
    pub insider: Option<Insider>,
    /// Nodes sign what they send, and demand proof of what others send (R-SEC-30).
    pub origin: Option<OriginDemand>,
    /// How regions are cut.
    pub layout: Layout,
    /// What the work of nodes costs; `None`: no time but the network's `cpu_per_datagram`.
    pub costs: Option<CostModel>,
    /// Check a machine's invariants after each so many inputs; 0: never.
    pub invariants_every: u64,
    /// Lines of trace kept for a failure.
    pub trace_lines: usize,
    /// The simulator's own test.
    pub mischief: Mischief,
}

impl SimOptions {
    /// A quiet cluster of that many nodes, all in one group, the first of which publishes.
    #[must_use]
    pub fn quiet(seed: Seed, nodes: usize) -> Self {
        let group = GroupPlan {
            subscribers: (1..=nodes).collect(),
            publishers: [1].into(),
        };
        Self {
            seed: seed.0,
            nodes,
            hosts: BTreeMap::new(),
            source_specific: false,
            addresses: None,
            multicast: true,
            patience: ServicePatience::default(),
            groups: vec![group],
            flows: vec![Flow::new(1, 0)],
            sizes: Sizes::MIX,
            churn: Vec::new(),
            faults: Vec::new(),
            network: NetworkOptions::PERFECT,
            drift_ppm_max: 0,
            duration: Duration::from_secs(5),
            settle: Duration::from_secs(60),
            limits: Limits {
                send_bytes: 1 << 20,
                receive_bytes: 4 << 20,
                retention_bytes: 2 << 20,
                ahead_packets: 4096,
                streams: 256,
                message_bytes: 1 << 20,
                groups: 1000,
            },
            recovery: Recovery::default(),
            pace: Pace::default(),
            gone_after: Duration::ZERO,
            slow_after: Duration::ZERO,
            plan_interval: Duration::ZERO,
            plan_unwanted_ppm: 0,
            plan_common: None,
            prompt: BTreeMap::new(),
            hints: Vec::new(),
            lifetimes: BTreeMap::new(),
            batches: BTreeMap::new(),
            paces: BTreeMap::new(),
            repair_bytes_per_second: 0,
            tells_rates: false,
            refusals: false,
            tagged: false,
            insider: None,
            origin: None,
            layout: Layout::default(),
            costs: None,
            invariants_every: 1,
            trace_lines: 200,
            mischief: Mischief::None,
        }
    }

    /// The limits that nodes keep; not those they are given, if they have that bug.
    pub(crate) fn node_limits(&self) -> Limits {
        let factor = match self.mischief {
            Mischief::MemoryIgnored => 4,
            _ => 1,
        };
        let retained = match self.mischief {
            Mischief::NothingRetained => 0,
            _ => self.limits.retention_bytes,
        };
        Limits {
            send_bytes: self.limits.send_bytes * factor,
            receive_bytes: self.limits.receive_bytes * factor,
            retention_bytes: retained,
            ..self.limits
        }
    }

    /// Packets that each sender may send in a second whatever receivers have room for, to all groups; 0: to
    /// some groups none.
    pub(crate) fn minimum_packets(&self) -> u32 {
        let groups = 0..self.groups.len();
        let minima = groups.map(|group| {
            let pace = self.paces.get(&group);
            pace.map_or(0, |pace| pace.minimum_packets())
        });
        minima.min().unwrap_or(0)
    }

    /// The limits to the wait of messages for others in their packets.
    pub(crate) fn batching(&self, group: usize) -> Batching {
        let given = self.batches.get(&group).copied();
        given.unwrap_or_else(|| Batching {
            delay: self.pace.batch_delay,
            ..Batching::default()
        })
    }

    /// Those that publishers of the group keep, if it has some; not those they are given, if they
    /// have that bug.
    pub(crate) fn node_batching(&self, group: usize) -> Option<Batching> {
        let given = self.batches.get(&group).copied()?;
        Some(match self.mischief {
            Mischief::BatchStretched => Batching {
                delay: given.delay * 4,
                ..given
            },
            _ => given,
        })
    }

    /// The pace that nodes keep; not that they are given, if they have that bug.
    pub(crate) fn node_pace(&self) -> Pace {
        match self.mischief {
            Mischief::RateIgnored => Pace {
                rate_max_packets: u32::MAX,
                ..self.pace
            },
            Mischief::SendLimitRaised => Pace {
                node_bytes_per_second: self.pace.node_bytes_per_second * 2,
                ..self.pace
            },
            _ => self.pace,
        }
    }
}
