//! A screen shows the newest price of each currency, however slowly it draws.
//! `cargo run -p qsm --example latest`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{MessageRef, Node, Received};

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("latest-{}", process::id());
    let node = Node::builder().cluster(cluster).interface("lo").start()?;
    // `eur 1.0842`: the first word is the key.
    let currency = |message: MessageRef<'_>| {
        let mut words = message.bytes.split(|byte| *byte == b' ');
        words.next().map(<[u8]>::to_vec)
    };
    let screen = node.group("prices").latest_by(currency)?;
    let publisher = node.publisher("prices")?;
    for step in 0..1000 {
        publisher.send(format!("eur 1.{step:0>4}").as_bytes())?;
        publisher.send(format!("usd 0.{step:0>4}").as_bytes())?;
    }
    node.flush(Duration::from_secs(10))?;

    while let Some(received) = screen.recv_timeout(Duration::from_millis(100))? {
        match received {
            Received::Message(message) => {
                println!("{}", String::from_utf8_lossy(message.bytes()));
            }
            missing => println!("{missing}"),
        }
    }
    println!("{} were out of date", screen.replaced());
    Ok(())
}
