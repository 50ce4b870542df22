//! Two nodes in one process, and a message. `cargo run -p qsm --example hello`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::Node;

fn main() -> Result<(), Box<dyn Error>> {
    let patience = Duration::from_secs(10);
    // A cluster of this program's own, which nobody else on this machine sees.
    let cluster = format!("hello-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    // The first one finds no membership service, and starts one after about a second.
    let alice = builder.clone().name("alice").start()?;
    let bob = builder.name("bob").start()?;

    let greetings = bob.subscribe(["greetings"])?;
    let publisher = alice.publisher("greetings")?;
    publisher.wait_for_members(1, patience)?;
    publisher.send(b"hello, world")?;

    for message in greetings.messages().take(1) {
        let message = message?;
        println!(
            "{} #{} from {}: {}",
            message.group(),
            message.number(),
            message.sender(),
            String::from_utf8_lossy(message.bytes())
        );
    }
    alice.shutdown(patience)?;
    Ok(())
}
