//! A game's world at 60 Hz: players send what they do, the server moves the world and sends where everybody is.
//! `cargo run -p qsm --example game`

use std::collections::BTreeMap;
use std::error::Error;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use qsm::{DeliveryMode, Node, Subscription};

const PATIENCE: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_nanos(1_000_000_000 / 60);
const TICKS: u32 = 120;
const PLAYERS: [&str; 3] = ["ann", "bob", "cid"];

/// Where everybody is, and how fast they go.
#[derive(Default)]
struct World {
    tick: u32,
    players: BTreeMap<String, (i32, i32)>,
}

impl World {
    /// Takes what the players did since the last tick (`ann 3`: from now on three to the right each tick), and moves.
    fn step(&mut self, inputs: &Subscription) -> Result<(), qsm::RecvError> {
        while let Some(received) = inputs.recv_timeout(Duration::ZERO)? {
            let Some(message) = received.into_message() else {
                continue;
            };
            let text = String::from_utf8_lossy(message.bytes());
            if let Some((name, speed)) = text.split_once(' ') {
                let player = self.players.entry(name.to_owned()).or_default();
                player.1 = speed.parse().unwrap_or(0);
            }
        }
        self.players
            .values_mut()
            .for_each(|(place, speed)| *place += *speed);
        self.tick += 1;
        Ok(())
    }

    /// `TICK ann=6 bob=-2`: the whole world, so that a tick that is missed needs no repair.
    fn picture(&self) -> Vec<u8> {
        let players = self
            .players
            .iter()
            .map(|(name, (place, _))| format!(" {name}={place}"));
        format!("{}{}", self.tick, players.collect::<String>()).into_bytes()
    }
}

/// Follows the world to its last tick. Returns how many ticks were drawn, and the last picture.
fn play(world: &Subscription) -> Result<(u32, String), qsm::RecvError> {
    let mut drawn = 0;
    loop {
        // A tick that is late or lost is replaced by the next one.
        if let Some(message) = world.recv()?.into_message() {
            drawn += 1;
            let text = String::from_utf8_lossy(message.bytes()).into_owned();
            if text.split(' ').next() == Some(&*TICKS.to_string()) {
                return Ok((drawn, text));
            }
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("game-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let server = builder.clone().name("server").start()?;
    let inputs = server.subscribe(["world/inputs"])?;
    let state = server.publisher("world/state")?;

    let mut clients = Vec::new();
    for (speed, name) in (1..).zip(PLAYERS) {
        let node = builder.clone().name(name).start()?;
        // A tick is worth waiting for as long as it lasts.
        let within = DeliveryMode::Within(TICK);
        let world = node.group("world/state").delivery(within).subscribe()?;
        let hands = node.publisher("world/inputs")?;
        hands.wait_for_members(1, PATIENCE)?;
        hands.send(format!("{name} {speed}").as_bytes())?;
        node.flush(PATIENCE)?;
        clients.push((name, node, thread::spawn(move || play(&world))));
    }
    state.wait_for_members(3, PATIENCE)?;

    let (mut world, begin) = (World::default(), Instant::now());
    while world.tick < TICKS {
        world.step(&inputs)?;
        state.send_owned(world.picture())?;
        let next = begin + TICK * world.tick;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    server.flush(PATIENCE)?;
    for (name, _node, player) in clients {
        let (drawn, last) = player.join().map_err(|_| "a player ended early")??;
        println!("{name} has drawn {drawn} of {TICKS} ticks, the last one {last}");
    }
    Ok(())
}
