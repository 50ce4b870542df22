//! How fast one publisher reaches several nodes of this host:
//! `cargo run --release -p qsm --example throughput -- [RECEIVERS [MESSAGE_BYTES [SECONDS [spin]]]]`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use qsm::{Builder, Embedded, Node, Pull};

fn argument(place: usize, default: u64) -> u64 {
    let text = std::env::args().nth(place);
    text.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn builder(name: &str) -> Builder {
    Node::builder()
        .name(name)
        .cluster("throughput")
        .interface("lo")
        .spin(std::env::args().any(|argument| argument == "spin"))
}

fn main() -> Result<(), Box<dyn Error>> {
    let (receivers, length, seconds) = (argument(1, 1), argument(2, 1000), argument(3, 5));
    let patience = Duration::from_secs(10);
    let sender = builder("sender")
        .embedded_service(Embedded::Always)
        .start()?;
    let counts: Vec<Arc<AtomicU64>> = (0..receivers).map(|_| Arc::default()).collect();
    let mut nodes = Vec::new();
    for count in &counts {
        let (node, count) = (builder("receiver").start()?, Arc::clone(count));
        let upcalls = node.group("load").subscribe_with(move |_| {
            count.fetch_add(1, Ordering::Relaxed);
        })?;
        nodes.push((node, upcalls));
    }
    let publisher = sender.publisher("load")?;
    publisher.wait_for_members(u32::try_from(receivers)?, patience)?;
    let length = usize::try_from(length)?;
    let end = Instant::now() + Duration::from_secs(seconds);
    let _feed = publisher.feed(move |message: &mut Vec<u8>| {
        message.resize(length, 7);
        if Instant::now() < end {
            Pull::Message
        } else {
            Pull::End
        }
    })?;
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
    let received: Vec<u64> = counts
        .iter()
        .map(|count| count.load(Ordering::Relaxed))
        .collect();
    for (node, count) in nodes.iter().zip(received) {
        let rate = count as f64 / seconds as f64;
        let snapshot = node.0.stats()?;
        println!(
            "{rate:.0} messages/s, {:.1} MB/s; {} awake, {} sleeps, {} turns, kernel drops {}, gaps {}",
            rate * length as f64 / 1e6,
            snapshot.runtime.awake,
            snapshot.runtime.sleeps,
            snapshot.runtime.turns,
            snapshot.port.multicast.kernel_drops,
            snapshot.protocol.gaps,
        );
    }
    sender.shutdown(patience)?;
    println!("{}", sender.stats()?);
    println!("{:?}", sender.stats()?.runtime);
    Ok(())
}
