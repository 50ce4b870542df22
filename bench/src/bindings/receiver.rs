//! The receiver in Rust: a loop over messages, which the others are compared with.

use std::time::{Duration, Instant};

use clap::Args;
use qsm::{Node, Received, Subscription};

use crate::Failure;
use crate::children::{hear, say};

#[derive(Debug, Args)]
pub(crate) struct ReceiveOptions {
    cluster: String,
    warm_up_millis: u64,
    millis: u64,
}

/// Messages between looks at the clock.
const SLICE: usize = 1000;

pub(crate) fn receive(options: &ReceiveOptions) -> Result<(), Failure> {
    let node = Node::builder()
        .cluster(&options.cluster)
        .interface("lo")
        .start()?;
    let subscription = node.subscribe(["rate"])?;
    say("ready");
    count(&subscription, options.warm_up_millis)?;
    say("warm");
    let start = Instant::now();
    let (messages, sum) = count(&subscription, options.millis)?;
    say(&format!("rate {messages} {}", start.elapsed().as_nanos()));
    hear()?;
    // So that nothing of the loop may be left out.
    if sum == 0 {
        return Err("the messages were empty".into());
    }
    Ok(())
}

/// Messages until the time is over, and a sum of what is in them.
fn count(subscription: &Subscription, millis: u64) -> Result<(u64, u64), Failure> {
    let (mut messages, mut sum) = (0, 0);
    let (start, time) = (Instant::now(), Duration::from_millis(millis));
    while start.elapsed() < time {
        for _ in 0..SLICE {
            if let Received::Message(message) = subscription.recv()? {
                sum += u64::from(message.bytes()[0]) + message.number();
                messages += 1;
            }
        }
    }
    Ok((messages, sum))
}
