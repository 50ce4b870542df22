//! Messages that are values of a Rust type: written by serde at one end, read at the other.
//! `cargo run -p qsm --example typed_messages`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{Message, Node, Publisher, Received};
use serde::{Deserialize, Serialize};

const PATIENCE: Duration = Duration::from_secs(10);

/// A tag in the message says which variant it is, so that a newer sender may add some.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Order {
    Buy { symbol: String, amount: u32 },
    Cancel { number: u64 },
}

/// The buffer that is written becomes the message: nothing is copied.
fn send(publisher: &Publisher, order: &Order) -> Result<(), Box<dyn Error>> {
    publisher.send_owned(serde_json::to_vec(order)?)?;
    Ok(())
}

/// Who sends to the group may be of another version, or wrong: that is no reason to end.
fn read(message: &Message) -> Option<Order> {
    let order = serde_json::from_slice(message.bytes());
    order
        .map_err(|error| println!("#{} is no order: {error}", message.number()))
        .ok()
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("typed-{}", process::id());
    let node = Node::builder().cluster(cluster).interface("lo").start()?;
    let orders = node.subscribe(["orders"])?;
    let publisher = node.publisher("orders")?;

    let symbol = "EUR/USD".to_owned();
    send(&publisher, &Order::Buy { symbol, amount: 5 })?;
    send(&publisher, &Order::Cancel { number: 1 })?;
    publisher.send(b"{\"kind\":\"sell\"}")?;

    for _ in 0..3 {
        match orders.recv()? {
            Received::Message(message) => match read(&message) {
                Some(order) => println!("#{}: {order:?}", message.number()),
                None => println!("#{} passed over", message.number()),
            },
            missing => println!("{missing}"),
        }
    }
    node.shutdown(PATIENCE)?;
    Ok(())
}
