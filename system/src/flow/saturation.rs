//! One sender that has more to send than two receivers read: one-way latency, rate and the time that
//! repairs take, with short queues (R-RATE-9) and without, in turn.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::cluster::{Cluster, Failure, Plan};
use crate::figure::{Bar, Finding};

const RECEIVERS: usize = 2;
/// One message in a packet.
const BYTES: usize = 1000;
/// Time that datagrams may wait at a receiver all the time, as by default.
const TARGET_US: u64 = 1000;
/// Of a million packets that a receiver has read.
const LOSS_PPM: u32 = 10_000;
/// Messages that wait in the publisher's queue, which is no part of what is measured.
const QUEUE: usize = 64;
/// Messages a second that a host reads that is slower than its network.
const READS: u64 = 20_000;
/// Time before what is measured.
const WARM_UP: Duration = Duration::from_secs(1);

/// The resource that everything waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bottleneck {
    /// The CPUs of the machine, which all hosts share.
    Machine,
    /// Receivers that read 20,000 messages a second.
    Readers,
}

/// An experiment.
#[derive(Debug, Clone)]
pub struct Saturation {
    /// The resource that everything waits for.
    pub bottleneck: Bottleneck,
    /// Receivers lose one packet of a hundred.
    pub lossy: bool,
    /// Time that is measured.
    pub lasts: Duration,
}

/// One of a pair of runs.
struct Sample {
    /// Messages a second at the slowest receiver.
    rate: f64,
    /// Milliseconds from the call to delivery.
    p50: f64,
    p99: f64,
    /// Median, milliseconds.
    repair: f64,
}

impl Saturation {
    pub(super) fn name(&self) -> String {
        let bottleneck = match self.bottleneck {
            Bottleneck::Machine => "CPUs of the machine",
            Bottleneck::Readers => "receivers that read 20 MB/s",
        };
        let loss = if self.lossy { ", 1 % lost" } else { "" };
        format!("{bottleneck}{loss}")
    }

    /// Runs it with this program `system-node`, without short queues and with them.
    ///
    /// # Errors
    /// A process fails.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let without = self.sample(program, 0)?;
        let with = self.sample(program, TARGET_US)?;
        let ratio = with.rate / without.rate.max(1.0);
        let mut findings = vec![
            Finding::new("rate without, messages/s", without.rate, Bar::Told),
            Finding::new("rate, messages/s", with.rate, Bar::Told),
            Finding::new("rate, ratio", ratio, Bar::Least(0.97)),
            Finding::new("median latency without, ms", without.p50, Bar::Told),
            Finding::new("median latency, ms", with.p50, Bar::Told),
            Finding::new("p99 latency without, ms", without.p99, Bar::Told),
        ];
        findings.extend(match self.lossy {
            true => vec![
                Finding::new("p99 latency, ms", with.p99, Bar::Told),
                Finding::new("median repair without, ms", without.repair, Bar::Told),
                Finding::new("median repair, ms", with.repair, Bar::Most(1.0)),
            ],
            false => vec![Finding::new("p99 latency, ms", with.p99, Bar::Most(5.0))],
        });
        Ok(findings)
    }

    fn sample(&self, program: &Path, target_us: u64) -> Result<Sample, Failure> {
        let mut cluster = Cluster::start(self.plan(program, target_us))?;
        cluster.publish(BYTES, 0)?;
        sleep(WARM_UP);
        cluster.worst_phase(0..RECEIVERS, &[])?;
        let start = Instant::now();
        sleep(self.lasts);
        let phase = cluster.worst_phase(0..RECEIVERS, &[])?;
        let time = start.elapsed().as_secs_f64();
        let mut repair_us = 0;
        for node in 0..RECEIVERS {
            repair_us = repair_us.max(cluster.counter(Some(node), "repair_p50_us")?);
        }
        cluster.stop()?;
        cluster.quit()?;
        let millis = |time: Duration| time.as_secs_f64() * 1e3;
        Ok(Sample {
            rate: phase.messages as f64 / time,
            p50: millis(phase.p50),
            p99: millis(phase.p99),
            repair: repair_us as f64 / 1e3,
        })
    }

    fn plan(&self, program: &Path, target_us: u64) -> Plan {
        let mut plan = Plan::new(program, RECEIVERS);
        plan.service_options = vec!["--slow-after=0".to_owned()];
        plan.publisher_options = vec![format!("--queue-messages={QUEUE}")];
        plan.receiver_options = vec![format!("--queue-target-us={target_us}")];
        if self.lossy {
            plan.receiver_options.push(format!("--loss-ppm={LOSS_PPM}"));
        }
        if self.bottleneck == Bottleneck::Readers {
            plan.ways = vec![format!("paced {READS}"); RECEIVERS];
        }
        plan
    }
}
