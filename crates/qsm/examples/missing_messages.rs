//! A reader that says exactly which messages it misses.
//! `cargo run -p qsm --example missing_messages`

use std::collections::BTreeMap;
use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{Lost, Message, Node, Origin, Received};

const PATIENCE: Duration = Duration::from_secs(10);

/// The next number of each sender in each group, and what has been found missing.
#[derive(Default)]
struct Account {
    next: BTreeMap<(Origin, String), u64>,
    missing: Vec<Lost>,
    /// Messages that notices of a full queue have told of, and that are in no gap yet.
    dropped: u64,
}

impl Account {
    fn message(&mut self, message: &Message) {
        // A sender counts its messages in each group, so a gap before this one has those that are
        // missing. The first one of a sender begins its account.
        let number = message.number();
        self.gap(message.sender(), message.group(), number);
        self.reach(message.sender(), message.group(), number);
    }

    fn lost(&mut self, lost: &Lost) {
        // A gap before them is of messages that the queue had no room for.
        self.gap(lost.sender, &lost.group, lost.first);
        self.missing.push(lost.clone());
        self.reach(lost.sender, &lost.group, lost.last);
    }

    fn gap(&mut self, sender: Origin, group: &str, upto: u64) {
        let next = self.next.get(&(sender, group.to_owned()));
        if let Some(&next) = next.filter(|next| **next < upto) {
            let gap = Lost::new(group, sender, next, upto - 1);
            self.dropped = self.dropped.saturating_sub(gap.messages());
            self.missing.push(gap);
        }
    }

    fn reach(&mut self, sender: Origin, group: &str, number: u64) {
        self.next.insert((sender, group.to_owned()), number + 1);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("missing-{}", process::id());
    let node = Node::builder().cluster(cluster).interface("lo").start()?;
    // A queue that is far too small, so that something is missing.
    let readings = node.group("readings").capacity_messages(100).subscribe()?;
    let publisher = node.publisher("readings")?;
    for _ in 0..1000 {
        publisher.send(b"a reading")?;
    }
    node.flush(PATIENCE)?;

    let mut account = Account::default();
    let mut told = false;
    loop {
        match readings.recv()? {
            Received::Message(message) => {
                account.message(&message);
                if message.bytes() == b"the end" {
                    break;
                }
            }
            Received::Lost(lost) => account.lost(&lost),
            // How many, and not which: the next message of the sender shows that.
            Received::Dropped(dropped) => account.dropped += dropped.messages,
            // Nothing is missing.
            Received::Back(_) => {}
            // What was missed of a sender comes as `Lost`, before its next message.
            other => println!("{other}"),
        }
        if account.dropped > 0 && !told {
            println!("{} are missing, it is not known yet which", account.dropped);
            publisher.send(b"the end")?;
            told = true;
        }
    }
    for missing in &account.missing {
        println!("{} {}..={}", missing.group, missing.first, missing.last);
    }
    println!("{} unaccounted for", account.dropped);
    Ok(())
}
