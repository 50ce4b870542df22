//! A receiver that keeps a copy of a state, and asks for all of it where it missed a change.
//! `cargo run -p qsm --example handling_loss`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{Node, Publisher, Received, Subscription};

const CHANGES: u64 = 1000;
const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("loss-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let keeper = builder.clone().name("keeper").start()?;
    let reader = builder.name("reader").start()?;

    // A queue that is far too small, so that something is missing.
    let changes = reader.group("changes").capacity_messages(100).subscribe()?;
    let wish = reader.group("wishes").publisher()?;
    let wishes = keeper.group("wishes").subscribe()?;
    let publisher = keeper.group("changes").publisher()?;
    publisher.wait_for_members(1, PATIENCE)?;
    wish.wait_for_members(1, PATIENCE)?;

    // Each change adds one; the state is the sum.
    for _ in 0..CHANGES {
        publisher.send(b"+")?;
    }
    keeper.flush(PATIENCE)?;
    let state = follow(&changes, &wish, || {
        wishes.recv()?;
        publisher.send(CHANGES.to_string().as_bytes())?;
        Ok(())
    })?;
    println!("the state is {state}");
    Ok(())
}

/// Applies changes until the state is whole.
fn follow(
    changes: &Subscription,
    wish: &Publisher,
    keeper_answers: impl Fn() -> Result<(), Box<dyn Error>>,
) -> Result<u64, Box<dyn Error>> {
    let mut state = 0;
    while state < CHANGES {
        match changes.recv()? {
            Received::Message(message) if message.bytes() == b"+" => state += 1,
            Received::Message(message) => state = str::from_utf8(message.bytes())?.parse()?,
            // The node was away for a while, and has caught up: nothing is missing.
            Received::Back(back) => println!("after {state} changes: {back}"),
            // The own queue was too small (`Dropped`), a sender died with messages that nobody else
            // has (`Lost`, `LostPackets`), or the cluster took this node for dead (`Excluded`): here,
            // in the order of the messages, something is missing.
            missing => {
                println!("after {state} changes: {missing}");
                wish.send(b"all of it, please")?;
                keeper_answers()?;
            }
        }
    }
    Ok(state)
}
