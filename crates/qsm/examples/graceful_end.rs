//! An end that loses nothing: what was accepted arrives, what has arrived is read.
//! `cargo run -p qsm --example graceful_end`

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{process, thread};

use qsm::{Node, Publisher, RequestError, SendError};

const PATIENCE: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("end-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let sender = builder.clone().name("sender").start()?;
    let receiver = builder.name("receiver").start()?;

    // The iterator ends when this process has shut the node down, after what is queued.
    let work = receiver.subscribe(["work"])?;
    let reader = thread::spawn(move || work.messages().skipping_losses().count());

    let publisher = sender.publisher("work")?;
    publisher.wait_for_members(1, PATIENCE)?;
    // A handler of SIGTERM or Ctrl-C would set this.
    let asked_to_end = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&asked_to_end);
    let producer = thread::spawn(move || produce(&publisher, &asked));
    thread::sleep(Duration::from_millis(100));
    asked_to_end.store(true, Ordering::Relaxed);
    let sent = producer.join().expect("the producer does not panic")?;

    // First the sender, which waits until all receivers have everything.
    match sender.shutdown(PATIENCE) {
        Ok(flushed) if flushed.is_complete() => {
            println!("{sent} sent, and all receivers have them");
        }
        // Others keep what those miss that are away.
        Ok(flushed) if flushed.unserved.is_empty() => println!("{sent} sent: {:?}", flushed.away),
        Ok(flushed) => println!("{sent} sent, and some receivers left: {flushed:?}"),
        // These name what is missing, and where.
        Err(error @ (RequestError::Timeout { .. } | RequestError::Unconfirmed { .. })) => {
            println!("{sent} sent, but: {error}");
        }
        Err(error) => return Err(error.into()),
    }
    receiver.shutdown(PATIENCE)?;
    let read = reader.join().expect("the reader does not panic");
    println!("{read} read");
    Ok(())
}

fn produce(publisher: &Publisher, asked_to_end: &AtomicBool) -> Result<usize, SendError> {
    let mut sent = 0;
    while !asked_to_end.load(Ordering::Relaxed) {
        // Work takes a while.
        thread::sleep(Duration::from_micros(200));
        publisher.send(b"a piece of work")?;
        sent += 1;
    }
    Ok(sent)
}
