//! Watching how long each stage of a message's way takes: a reader that is slow is named.
//!
//! ```sh
//! cargo run -p qsm --example latency_budget
//! ```

use std::error::Error;
use std::time::Duration;

use qsm::{Embedded, Event, LatencyBudget, Node, PublishOptions, Stage};

const MS: Duration = Duration::from_millis(1);

fn main() -> Result<(), Box<dyn Error>> {
    // 50 ms in all, of which a message may wait 5 ms for its reader.
    let budget = LatencyBudget::new(50 * MS).stage(Stage::Subscription, 5 * MS)?;
    let node = Node::builder()
        .cluster(format!("latency-budget-{}", std::process::id()))
        .interface("lo")
        .embedded_service(Embedded::Always)
        .latency_budget(budget)
        .start()?;
    let events = node.events();
    let samples = node.group("samples").subscribe()?;
    // Samples may wait for 1 ms, so that more of them share a packet.
    let options = PublishOptions::default().batch_delay(MS);
    let publisher = node.group("samples").publish_options(options).publisher()?;
    publisher.send(b"21.5")?;
    // Nobody reads, and the node says so.
    loop {
        if let Some(Event::OverBudget(over)) = events.recv_timeout(Duration::from_secs(10))? {
            println!("{over}");
            if over.stage == Stage::Subscription {
                break;
            }
        }
    }
    let sample = samples.recv()?;
    println!("{sample}");
    let counted = node.stats()?.latency;
    println!("late: {} times", counted.over_subscription);
    Ok(())
}
