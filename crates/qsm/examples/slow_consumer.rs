//! Readers that are too slow hold up nobody; each chooses what it misses.
//! `cargo run -p qsm --example slow_consumer`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{GroupOptions, Node, Overflow, Received, RecvError};

const MESSAGES: u64 = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("slow-{}", process::id());
    let node = Node::builder().cluster(cluster).interface("lo").start()?;
    let small = GroupOptions::default().capacity_messages(100);
    let subscribe = |overflow| {
        let group = node.group("ticks").options(small.overflow(overflow));
        group.subscribe()
    };
    let readers = [
        ("keeps the first", subscribe(Overflow::DropNewest)?),
        ("keeps the newest", subscribe(Overflow::DropOldest)?),
        ("ends", subscribe(Overflow::Disconnect)?),
    ];

    let publisher = node.publisher("ticks")?;
    for tick in 1..=MESSAGES {
        publisher.send(&tick.to_le_bytes())?;
    }
    node.flush(Duration::from_secs(10))?;

    for (what, reader) in readers {
        let (mut read, mut missing) = (0, 0);
        while read + missing < MESSAGES {
            match reader.recv() {
                Ok(Received::Message(_)) => read += 1,
                Ok(other) => missing += other.missing(),
                Err(RecvError::Overflow) => break,
                Err(error) => return Err(error.into()),
            }
        }
        println!("{what}: {read} read, {missing} told to be missing");
    }
    Ok(())
}
