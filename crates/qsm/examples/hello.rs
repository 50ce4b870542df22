//! Two nodes in one process, and a message. `cargo run -p qsm --example hello`

use std::error::Error;
use std::time::Duration;

use qsm::Node;

fn main() -> Result<(), Box<dyn Error>> {
    let patience = Duration::from_secs(5);
    // The first one finds no membership service, and starts one after about a second.
    let alice = Node::builder().name("alice").interface("lo").start()?;
    let bob = Node::builder().name("bob").interface("lo").start()?;

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
