//! Messages of 4 KB from relays to a hundred receivers by unicast, and the CPU time that it takes them;
//! beside a NATS server that is a leaf of another one, a relay of Media over QUIC, and the copies alone.

mod copies;
mod moq;
mod nats;

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lab::Lab;

use super::Programs;
use super::repair::whole;
use super::stage::Stage;
use super::stream::Load;
use crate::cluster::Failure;
use crate::figure::{Bar, Finding};

/// Receivers of each relay, of which there are two: 64 is a relay's limit.
const CHILDREN: usize = 50;
/// Ports of the relays on their host.
const PORTS: [u16; 2] = [4491, 4492];
/// All receivers.
const RECEIVERS: usize = CHILDREN * PORTS.len();
/// Times that others' CPU time for a message is to be ours, at least.
const TIMES_MIN: f64 = 10.0;
/// Longest wait for a server, and for what it has not delivered.
const PATIENCE: Duration = Duration::from_secs(20);

/// A stream to a hundred receivers on another host.
#[derive(Debug, Clone, Copy)]
pub struct Fanout {
    /// The stream.
    pub load: Load,
}

impl Fanout {
    /// Its name in tables.
    #[must_use]
    pub fn name(&self) -> String {
        let (bytes, rate) = (self.load.bytes, self.load.rate);
        format!("{rate} messages/s of {bytes} bytes to 100 receivers")
    }

    /// Runs it once: by relays, by relays whose copies the kernel clones, by others, and the copies alone.
    ///
    /// # Errors
    /// A process fails.
    pub fn run(&self, programs: &Programs) -> Result<Vec<Finding>, Failure> {
        let (mut found, plain) = self.run_ours(&programs.qsm, &[])?;
        let (with_clones, cloned) = self.run_ours(&programs.qsm, &["--clone-copies"])?;
        found.extend(with_clones);
        let nats = nats::run(&self.load, &programs.nats)?;
        let moq = moq::run(&self.load, &programs.moq)?;
        let alone = copies::run(&self.load)?;
        let told = [
            ("relays, µs of CPU a delivery", plain),
            ("relays with --clone-copies, µs of CPU a delivery", cloned),
            ("NATS leaf, µs of CPU a delivery", nats),
            ("moq-relay, µs of CPU a delivery", moq.cost),
            ("moq-relay, part of the messages that came", moq.share),
            ("the copies alone (groupcast), µs of CPU a delivery", alone),
            (
                "NATS leaf, in the CPU time of the copies alone",
                nats / alone,
            ),
        ];
        found.extend(told.map(|(what, value)| Finding::new(what, value, Bar::Told)));
        let best = plain.min(cloned);
        let judged = [
            ("NATS leaf, in the relays' CPU time", nats / best),
            ("moq-relay, in the relays' CPU time", moq.cost / best),
        ];
        found.extend(judged.map(|(what, value)| Finding::new(what, value, Bar::Least(TIMES_MIN))));
        Ok(found)
    }

    /// Counts, and microseconds of CPU time of the relays for each message that came.
    fn run_ours(&self, program: &Path, options: &[&str]) -> Result<(Vec<Finding>, f64), Failure> {
        let mut lab = Lab::new()?;
        let (near, far) = (lab.add_host()?, lab.add_host()?);
        let mut stage = Stage::new(lab, program);
        let (source, address) = (stage.at(near), stage.lab.host(near).address());
        let mut publisher = stage.source(near, &source, RECEIVERS, &[])?;
        let (mut relays, mut receivers) = (Vec::new(), Vec::new());
        for port in PORTS {
            let at = format!("{address}:{port}");
            relays.push(stage.relay(near, &at, &source, options)?);
            for _ in 0..CHILDREN {
                receivers.push(stage.receiver(far, &[&at], &[])?);
            }
        }
        let time = || {
            relays
                .iter()
                .map(|relay| cpu_time(relay.pid()))
                .sum::<f64>()
        };
        // When the stream begins all receivers have joined.
        let feeder = stage.publish(&mut publisher, self.load)?;
        let before = time();
        let outcome = stage.finish(feeder, receivers)?;
        let used = time() - before;
        let came = outcome.ends.iter().map(|end| end.tape.arrivals.len());
        let came = came.sum::<usize>() as f64;
        Ok((whole(&outcome), used * 1e6 / came.max(1.0)))
    }
}

/// Sends each message of a load when it is due; how many.
fn paced<S>(load: &Load, mut send: S) -> Result<u64, Failure>
where
    S: FnMut() -> Result<(), Failure>,
{
    let (begun, mut sent) = (Instant::now(), 0);
    while begun.elapsed() < load.lasts {
        let due = begun + load.due(sent);
        thread::sleep(due.saturating_duration_since(Instant::now()));
        send()?;
        sent += 1;
    }
    Ok(sent)
}

/// Waits until something is so.
fn wait_until(mut is_so: impl FnMut() -> Result<bool, Failure>) -> Result<(), Failure> {
    let begun = Instant::now();
    while !is_so()? {
        if begun.elapsed() > PATIENCE {
            return Err("not all messages have come".into());
        }
        thread::yield_now();
    }
    Ok(())
}

/// CPU time that a process has used, seconds, in ticks of a hundredth.
fn cpu_time(pid: u32) -> f64 {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Behind the name, which ends with the last parenthesis, user's and system's are the 12th and 13th.
    let fields = text.rsplit(')').next().unwrap_or_default();
    let ticks = fields.split_whitespace().skip(11).take(2);
    let ticks = ticks.filter_map(|one| one.parse::<f64>().ok());
    ticks.sum::<f64>() / 100.0
}
