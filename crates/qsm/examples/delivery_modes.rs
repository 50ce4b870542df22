//! Two readers of one group under loss: a screen that waits for a missing position for 5 ms at most,
//! and a journal that has each. `cargo run -p qsm --example delivery_modes`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{DeliveryMode, FaultConfig, NetworkOptions, Node, Received, Subscription};

/// How many messages a reader has got, and how many it was told that it will not get.
fn count(reader: &Subscription) -> Result<(u64, u64), Box<dyn Error>> {
    let (mut came, mut lost) = (0, 0);
    while let Some(received) = reader.recv_timeout(Duration::from_millis(500))? {
        match received {
            Received::Message(_) => came += 1,
            // By exact numbers, before the message that follows.
            Received::Lost(missing) => lost += missing.last - missing.first + 1,
            other => println!("{other}"),
        }
    }
    Ok((came, lost))
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("delivery-modes-{}", process::id());
    // The reader's node throws away one packet in twenty on purpose.
    let fault = FaultConfig {
        loss_ppm: 50_000,
        ..FaultConfig::default()
    };
    let lossy = NetworkOptions::new().interface("lo").fault(fault);
    let sender = Node::builder().cluster(&cluster).interface("lo").start()?;
    let node = Node::builder().cluster(&cluster).network(lossy).start()?;

    let soon = DeliveryMode::Within(Duration::from_millis(5));
    let screen = node.group("positions").delivery(soon).subscribe()?;
    let journal = node.group("positions").subscribe()?;

    let publisher = sender.publisher("positions")?;
    publisher.wait_for_members(1, Duration::from_secs(10))?;
    // Both begin together.
    publisher.send(b"0 0")?;
    sender.flush(Duration::from_secs(10))?;
    for step in 1..1000 {
        publisher.send(format!("{step} {step}").as_bytes())?;
    }
    sender.flush(Duration::from_secs(10))?;

    let (came, lost) = count(&screen)?;
    println!("screen: {} of 1000 positions accounted for", came + lost);
    let (came, lost) = count(&journal)?;
    println!("journal: {came} of 1000 positions, {lost} lost");
    Ok(())
}
