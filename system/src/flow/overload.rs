//! Two senders that have twice as much to send as receivers read, which lose one packet of a hundred:
//! the rate does not collapse, repairs keep to the operator's limit in every 10 ms (R-NAK-16), and
//! everything is well as soon as it is over.

use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::end;
use crate::cluster::{Cluster, Failure, Plan};
use crate::figure::{Bar, Finding};
use crate::trial::median;

const RECEIVERS: usize = 3;
const SENDERS: usize = 2;
const BYTES: usize = 1000;
/// Of a million packets that a receiver has read.
const LOSS_PPM: u32 = 10_000;
/// Bytes that a node may send again in a second, and in each 10 ms.
const REPAIR_LIMIT: u64 = 8_000_000;
const INTERVAL_BYTES: u64 = REPAIR_LIMIT / 100;
/// Time before the capacity is measured, and seconds of which the fastest is it.
const WARM_UP: Duration = Duration::from_secs(1);
const CAPACITY_SECONDS: u64 = 3;
/// Part of the capacity that is published when the overload is over.
const REST: u64 = 2;
/// Time that the receivers lag behind at most where they keep up.
const LAG: Duration = Duration::from_millis(100);
/// Time after which they do.
const SETTLE: Duration = Duration::from_secs(1);
/// Longest time until they do.
const BACK_MAX: Duration = Duration::from_secs(60);
/// Time for which the rate is measured then.
const WELL: Duration = Duration::from_secs(1);
const SECOND: Duration = Duration::from_secs(1);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// An experiment.
#[derive(Debug, Clone)]
pub struct Overload {
    /// Time for which it lasts.
    pub lasts: Duration,
}

impl Overload {
    pub(super) fn name(&self) -> String {
        format!("2 x capacity for {} s", self.lasts.as_secs())
    }

    /// Runs it with this program `system-node`.
    ///
    /// # Errors
    /// A process fails, or receivers do not keep up afterwards.
    pub fn run(&self, program: &Path) -> Result<Vec<Finding>, Failure> {
        let mut cluster = Cluster::start(plan(program))?;
        cluster.publish(BYTES, 0)?;
        sleep(WARM_UP);
        let fastest = seconds(&mut cluster, CAPACITY_SECONDS)?.into_iter();
        let capacity = fastest.fold(0.0, f64::max);
        // Each of the senders has as much to send as all together can.
        cluster.set_rate(capacity as u64)?;
        let seconds = seconds(&mut cluster, self.lasts.as_secs().max(1))?;
        let calm = capacity as u64 / REST;
        cluster.set_rate(calm / SENDERS as u64)?;
        let back = await_keeping_up(&mut cluster, calm)?;
        sleep(SETTLE.saturating_sub(back));
        let published = cluster.published_by_all()?;
        let start = Instant::now();
        let after = rate(&mut cluster, WELL)?;
        let published = (cluster.published_by_all()? - published) as f64;
        let published = published / start.elapsed().as_secs_f64();
        let repairs = Repairs::of(&mut cluster)?;
        let mut findings = judge(&seconds);
        findings.extend([
            Finding::new("capacity, messages/s", capacity, Bar::Told),
            Finding::new(
                "most repair bytes of a node in 10 ms, in the limit",
                repairs.most as f64 / INTERVAL_BYTES as f64,
                Bar::Most(1.0),
            ),
            Finding::new(
                "repair bytes beyond the limit, in all",
                repairs.over as f64 / repairs.bytes.max(1) as f64,
                Bar::Told,
            ),
            Finding::new("repair bytes", repairs.bytes as f64, Bar::Least(1.0)),
            Finding::new(
                "repairs refused by the limit",
                repairs.refused as f64,
                Bar::Told,
            ),
            Finding::new(
                "until receivers keep up afterwards, s",
                back.as_secs_f64(),
                Bar::Most(1.0),
            ),
            Finding::new(
                "rate from 1 s afterwards on, in what is published",
                after / published.max(1.0),
                Bar::Least(0.95),
            ),
        ]);
        findings.extend(end(cluster)?);
        Ok(findings)
    }
}

fn plan(program: &Path) -> Plan {
    let mut plan = Plan::new(program, RECEIVERS);
    plan.publishers = SENDERS;
    // Nobody is set aside: all receivers are as slow.
    plan.service_options = vec![
        "--slow-after=0".to_owned(),
        format!("--repair-limit={REPAIR_LIMIT}"),
    ];
    let count = format!("--count-resent={INTERVAL_BYTES}");
    plan.receiver_options = vec![count.clone(), format!("--loss-ppm={LOSS_PPM}")];
    plan.publisher_options = vec![count];
    plan
}

/// Messages that the slowest receiver has.
fn known(cluster: &mut Cluster) -> Result<u64, Failure> {
    let nodes = cluster.receivers();
    let known = nodes.map(|node| cluster.known(node));
    let known = known.collect::<Result<Vec<_>, _>>()?;
    Ok(known.into_iter().min().unwrap_or(0))
}

/// Messages a second at the slowest receiver, for so long.
fn rate(cluster: &mut Cluster, time: Duration) -> Result<f64, Failure> {
    let (start, before) = (Instant::now(), known(cluster)?);
    sleep(time);
    let more = known(cluster)? - before;
    Ok(more as f64 / start.elapsed().as_secs_f64())
}

/// Messages of each second at the slowest receiver.
fn seconds(cluster: &mut Cluster, count: u64) -> Result<Vec<f64>, Failure> {
    (0..count).map(|_| rate(cluster, SECOND)).collect()
}

/// Waits until the slowest receiver lags no more; returns how long that took.
fn await_keeping_up(cluster: &mut Cluster, rate: u64) -> Result<Duration, Failure> {
    let start = Instant::now();
    let lag = (rate as f64 * LAG.as_secs_f64()) as u64;
    loop {
        let published = cluster.published_by_all()?;
        let known = known(cluster)?;
        if known + lag >= published {
            return Ok(start.elapsed());
        }
        if start.elapsed() > BACK_MAX {
            return Err(format!("a receiver has {known} of {published} messages").into());
        }
        sleep(LOOK);
    }
}

/// Repairs of all nodes, as they went to the kernel.
#[derive(Debug, Default)]
struct Repairs {
    /// Most bytes of a node in 10 ms.
    most: u64,
    bytes: u64,
    /// Bytes that found the limit of 10 ms reached.
    over: u64,
    /// Packets that the limit kept nodes from sending.
    refused: u64,
}

impl Repairs {
    fn of(cluster: &mut Cluster) -> Result<Self, Failure> {
        let mut all = Self::default();
        for node in 0..RECEIVERS + SENDERS {
            let names = [
                "resent_most",
                "resent_bytes",
                "resent_over",
                "repairs_over_limit",
            ];
            let [most, bytes, over, refused] = cluster.counters(Some(node), names)?;
            all.most = all.most.max(most);
            all.bytes += bytes;
            all.over += over;
            all.refused += refused;
        }
        Ok(all)
    }
}

fn judge(seconds: &[f64]) -> Vec<Finding> {
    let seconds = || seconds.iter().copied();
    let median = median(seconds()).unwrap_or(0.0);
    let least = seconds().reduce(f64::min).unwrap_or(0.0);
    vec![
        Finding::new("median of the seconds, messages/s", median, Bar::Told),
        Finding::new(
            "slowest second, in the median",
            least / median.max(1.0),
            Bar::Least(0.8),
        ),
    ]
}
