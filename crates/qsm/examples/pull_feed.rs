//! A pull feed that sends the newest prices instead of queueing old ones, an upcall that receives
//! them, and the counters. `cargo run -p qsm --example pull_feed`

use std::error::Error;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use qsm::{Node, Pull};

const UPDATES: u64 = 1_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let patience = Duration::from_secs(10);
    let cluster = format!("feed-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let market = builder.clone().name("market").start()?;
    let trader = builder.name("trader").start()?;

    let (told, last) = mpsc::channel();
    let _upcalls = trader.group("prices/eur").subscribe_with(move |delivery| {
        // On the core thread, with borrowed bytes: short, and without blocking.
        let Some(message) = delivery.message() else {
            return;
        };
        if message.bytes == UPDATES.to_le_bytes() {
            told.send(message.number).ok();
        }
    })?;

    let publisher = market.publisher("prices/eur")?;
    publisher.wait_for_members(1, patience)?;
    let price = Arc::new(AtomicU64::new(0));
    let (shared, mut sent) = (Arc::clone(&price), 0);
    let feed = publisher.feed(move |message: &mut Vec<u8>| {
        let newest = shared.load(Ordering::Relaxed);
        if newest == sent {
            return Pull::Idle;
        }
        sent = newest;
        message.extend_from_slice(&newest.to_le_bytes());
        Pull::Message
    })?;
    for update in 1..=UPDATES {
        price.store(update, Ordering::Relaxed);
        feed.wake();
    }

    let messages = last.recv_timeout(patience)?;
    println!("{UPDATES} updates, {messages} messages, and the last price has arrived");
    println!("{}", trader.stats()?);
    Ok(())
}
