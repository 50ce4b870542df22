//! A publisher and a subscriber as tasks of one thread: where a thread would wait, they yield.
//! `cargo run -p qsm --example async_tokio`

use std::error::Error;
use std::process;

use qsm::{Node, Publisher, Received, Subscription};

const READINGS: u64 = 10_000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("async-{}", process::id());
    let node = Node::builder().cluster(cluster).interface("lo").start()?;
    // These wait for the membership service.
    let readings = node.subscribe_async(["readings"]).await?;
    let publisher = node.publisher_async("readings").await?;

    let (sum, ()) = tokio::try_join!(add_up(&readings), publish(&publisher))?;
    println!("{READINGS} readings, sum {sum}");
    Ok(())
}

/// Waits while the queue is full: receivers set the pace.
async fn publish(publisher: &Publisher) -> Result<(), Box<dyn Error>> {
    for reading in 1..=READINGS {
        publisher.send_async(&reading.to_le_bytes()).await?;
    }
    Ok(())
}

/// A `Subscription` is a `futures::Stream` too.
async fn add_up(readings: &Subscription) -> Result<u64, Box<dyn Error>> {
    let mut sum = 0;
    let mut count = 0;
    while count < READINGS {
        match readings.recv_async().await? {
            Received::Message(message) => {
                sum += u64::from_le_bytes(message.bytes().try_into()?);
                count += 1;
            }
            // A pause that cost nothing.
            Received::Back(_) => {}
            missing => return Err(missing.to_string().into()),
        }
    }
    Ok(sum)
}
