//! The receiver in Rust: a loop over messages, which the others are compared with.

use std::time::{Duration, Instant};

use clap::Args;
use qsm::{Node, Received, Subscription};

use crate::Failure;
use crate::children::{hear, say};

use super::programs::groups;

#[derive(Debug, Args)]
pub(crate) struct ReceiveOptions {
    cluster: String,
    warm_up_millis: u64,
    millis: u64,
    #[arg(default_value_t = 1)]
    groups: usize,
}

/// Messages between looks at the clock, at most.
const SLICE: usize = 1000;

pub(crate) fn receive(options: &ReceiveOptions) -> Result<(), Failure> {
    let node = Node::builder()
        .cluster(&options.cluster)
        .interface("lo")
        .start()?;
    let subscription = node.groups(groups(options.groups)).subscribe()?;
    say("ready");
    Count::over(&subscription, options.warm_up_millis)?;
    say("warm");
    let start = Instant::now();
    let count = Count::over(&subscription, options.millis)?;
    let (nanos, gap) = (start.elapsed().as_nanos(), count.gap.as_nanos());
    say(&format!("rate {} {nanos} {gap} 0", count.messages));
    hear()?;
    // So that nothing of the loop may be left out.
    if count.sum == 0 {
        return Err("the messages were empty".into());
    }
    Ok(())
}

/// Messages received in a time.
#[derive(Default)]
struct Count {
    messages: u64,
    /// Of what is in them.
    sum: u64,
    /// The longest time between two looks at the clock.
    gap: Duration,
}

impl Count {
    /// Receives until the time is over, and looks at the clock where nothing waits, or after a slice.
    fn over(subscription: &Subscription, millis: u64) -> Result<Self, Failure> {
        let mut count = Self::default();
        let (start, time) = (Instant::now(), Duration::from_millis(millis));
        let mut last = start;
        while last - start < time {
            count.take(&subscription.recv()?);
            for _ in 1..SLICE {
                let Some(received) = subscription.try_recv()? else {
                    break;
                };
                count.take(&received);
            }
            let now = Instant::now();
            count.gap = count.gap.max(now - last);
            last = now;
        }
        Ok(count)
    }

    fn take(&mut self, received: &Received) {
        if let Received::Message(message) = received {
            self.sum += u64::from(message.bytes()[0]) + message.number();
            self.messages += 1;
        }
    }
}
