//! Rate and latency of updates in each order, in turn: members of one process over loopback.
//! `cargo run --release -p qsm-replica --example rate -- MEMBERS BYTES ROUNDS`; figures are of use on a quiet machine.

use std::error::Error;
use std::process;
use std::time::{Duration, Instant};

use qsm::{Embedded, Node};
use qsm_replica::{Limits, Order, Replica, RestoreError, StateMachine};

const PATIENCE: Duration = Duration::from_secs(60);
/// Time of each measurement of a rate.
const MEASURED: Duration = Duration::from_secs(3);
/// Updates of which each waits for the one before, for the latency.
const SINGLE: usize = 2000;

/// Counts what it is told.
#[derive(Default)]
struct Count(u64);

impl StateMachine for Count {
    fn apply(&mut self, _update: &[u8]) {
        self.0 += 1;
    }
    fn snapshot(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }
    fn restore(&mut self, snapshot: &[u8]) -> Result<(), RestoreError> {
        self.0 = u64::from_le_bytes(snapshot.try_into().map_err(|_| RestoreError)?);
        Ok(())
    }
}

/// Updates in a second that all have applied, and the median time until another one has applied one.
struct Figures {
    rate: f64,
    latency: Duration,
}

fn measure(order: Order, members: usize, bytes: usize) -> Result<Figures, Box<dyn Error>> {
    let cluster = format!("rate-{}-{order:?}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let mut nodes = Vec::new();
    let mut replicas = Vec::new();
    for number in 0..members {
        let service = match number {
            0 => Embedded::Always,
            _ => Embedded::Never,
        };
        let name = format!("member-{number}");
        let node = builder
            .clone()
            .name(name)
            .embedded_service(service)
            .start()?;
        node.wait_admitted(PATIENCE)?;
        let limits = Limits::default();
        let replica = Replica::join_in_order(&node, "rate", Count::default(), order, limits)?;
        replica.wait_live(PATIENCE)?;
        nodes.push(node);
        replicas.push(replica);
    }
    // One that is not the sequencer publishes.
    let publisher = replicas.get(1).ok_or("two members at least")?;
    let other = replicas.last().ok_or("two members at least")?;
    let content = vec![7; bytes];
    let mut sent = 0;
    let mut latencies = Vec::new();
    for _ in 0..SINGLE {
        sent += 1;
        let began = Instant::now();
        publisher.update(&content)?;
        other.wait_updates(sent, PATIENCE)?;
        latencies.push(began.elapsed());
        publisher.wait_updates(sent, PATIENCE)?;
    }
    latencies.sort_unstable();
    let (began, before) = (Instant::now(), sent);
    while began.elapsed() < MEASURED {
        sent += 1;
        publisher.update(&content)?;
        // No faster than it reads itself, or its own queue would be full.
        publisher.wait_updates(sent.saturating_sub(2000), PATIENCE)?;
    }
    for replica in &replicas {
        replica.wait_updates(sent, PATIENCE)?;
    }
    Ok(Figures {
        rate: (sent - before) as f64 / began.elapsed().as_secs_f64(),
        latency: latencies.get(SINGLE / 2).copied().unwrap_or_default(),
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|it| it.parse::<usize>());
    let mut next = |usual| arguments.next().unwrap_or(Ok(usual));
    let (members, bytes, rounds) = (next(3)?, next(1000)?, next(5)?);
    let (mut rates, mut latencies) = (Vec::new(), Vec::new());
    for round in 1..=rounds {
        let source = measure(Order::Source, members, bytes)?;
        let total = measure(Order::Total, members, bytes)?;
        println!(
            "round {round}: by source {:.0}/s, {:?}; total {:.0}/s, {:?}",
            source.rate, source.latency, total.rate, total.latency
        );
        rates.push(total.rate / source.rate);
        latencies.push(total.latency.as_secs_f64() / source.latency.as_secs_f64());
    }
    println!(
        "{members} members, {bytes} bytes, medians of {rounds}: rate in total order {:.2} of that by source (bar 0.6), \
         latency {:.2} times (a round trip more: bar 3)",
        median(rates),
        median(latencies)
    );
    Ok(())
}
