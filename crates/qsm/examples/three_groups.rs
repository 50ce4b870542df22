//! Three groups, a subscriber that is a task, losses handled, and an end that loses nothing.
//! `cargo run -p qsm --example three_groups`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{CloseReason, Node, Received, RecvError, Subscription};
use tokio::task::spawn_blocking;

const GROUPS: [&str; 3] = ["news", "prices/eur", "prices/usd"];
const PATIENCE: Duration = Duration::from_secs(10);

/// Reads until this process shuts its node down.
async fn read(subscription: Subscription) -> Result<u64, RecvError> {
    let mut count = 0;
    loop {
        match subscription.recv_async().await {
            Ok(Received::Message(message)) => {
                count += 1;
                let text = String::from_utf8_lossy(message.bytes()).into_owned();
                println!("{} #{}: {text}", message.group(), message.number());
            }
            Ok(Received::Back(back)) => println!("{back}"),
            // In the place where it is missing, with sender and numbers where they are known.
            Ok(missing) => println!("to be asked for again: {missing}"),
            Err(RecvError::Closed(CloseReason::ShutDown)) => return Ok(count),
            Err(error) => return Err(error),
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("three-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let (market, desk) = (builder.clone().start()?, builder.start()?);

    let subscription = desk.groups(GROUPS).subscribe()?;
    let reader = tokio::spawn(read(subscription));
    let publishers = market.groups(GROUPS).publishers()?;
    for publisher in &publishers {
        publisher.wait_for_members(1, PATIENCE)?;
        publisher.send_async(b"good morning").await?;
        publisher.send_async(b"good night").await?;
    }

    // First the sender, which waits until all receivers have everything.
    spawn_blocking(move || market.shutdown(PATIENCE)).await??;
    spawn_blocking(move || desk.shutdown(PATIENCE)).await??;
    println!("{} messages read", reader.await??);
    Ok(())
}
