//! A board of prices that starts when the market has been open for a while: it has the last prices at once, and goes on
//! with what comes. `cargo run -p qsm-history --example late`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::Node;
use qsm_history::{Bounds, History, Item, JoinOptions, Keeper, Position, Start};

const PATIENCE: Duration = Duration::from_secs(60);

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads until the group is live and so many messages have come, and says what came.
fn read(history: &mut History, messages: usize) -> Result<(), Box<dyn Error>> {
    let (mut came, mut joined) = (0, false);
    while came < messages || !joined {
        match history.recv_timeout(PATIENCE)?.ok_or("nothing comes")? {
            Item::Kept(message) => {
                println!("kept {}: {}", message.number(), text(message.bytes()));
                came += 1;
            }
            Item::Message(message) => {
                println!("live {}: {}", message.number(), text(message.bytes()));
                came += 1;
            }
            Item::Missing(missing) => println!("missing {}..={}", missing.first, missing.last),
            Item::Joined(joined_group) => {
                println!("live with {} missing", joined_group.missing);
                joined = true;
            }
            other => println!("{other:?}"),
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("late-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let market = builder.clone().name("market").start()?;
    let archive = builder.clone().name("archive").start()?;
    let keeper = Keeper::start(&archive, ["prices/eur"], Bounds::default().messages(4))?;
    let publisher = market.publisher("prices/eur")?;
    publisher.wait_for_members(1, PATIENCE)?;
    for price in ["1.08", "1.09", "1.10", "1.11", "1.12", "1.13"] {
        publisher.send(price.as_bytes())?;
    }
    market.flush(PATIENCE)?;
    while keeper.stats().messages < 4 {
        std::thread::yield_now();
    }

    let board = builder.name("board").start()?;
    let options = JoinOptions::default();
    let mut history = History::subscribe(&board, ["prices/eur"], Start::Last(5), options)?;
    read(&mut history, 4)?;
    publisher.wait_for_members(2, PATIENCE)?;
    publisher.send(b"1.14")?;
    read_live(&mut history)?;
    let position: Position = history.position();
    drop(history);

    publisher.send(b"1.15")?;
    market.flush(PATIENCE)?;
    let start = Start::Resume(position.to_string().parse()?);
    let mut history = History::subscribe(&board, ["prices/eur"], start, options)?;
    read(&mut history, 1)
}

fn read_live(history: &mut History) -> Result<(), Box<dyn Error>> {
    let Some(Item::Message(message)) = history.recv_timeout(PATIENCE)? else {
        return Err("no live message".into());
    };
    println!("live {}: {}", message.number(), text(message.bytes()));
    Ok(())
}
