//! A board of a cluster's servers: each tells its state on a group of its own, and the board follows them by a
//! pattern. Who falls silent is shown as such. `cargo run -p qsm --example status_board`

use std::collections::BTreeMap;
use std::error::Error;
use std::process;
use std::time::{Duration, Instant};

use qsm::{Builder, Node, Publisher, Subscription};

const PATIENCE: Duration = Duration::from_secs(10);
/// A server says how it is so often.
const BEAT: Duration = Duration::from_millis(50);
/// It is silent when so much time has passed without a word.
const SILENT: Duration = Duration::from_secs(1);

/// A server: its node, and where it says how it is.
struct Server {
    node: Node,
    status: Publisher,
}

impl Server {
    fn start(builder: &Builder, name: &str) -> Result<Self, Box<dyn Error>> {
        let node = builder.clone().name(name).start()?;
        let status = node.publisher(format!("status/{name}"))?;
        status.wait_for_members(1, PATIENCE)?;
        Ok(Self { node, status })
    }
}

/// State that was last heard of each server, and when.
#[derive(Default)]
struct Board {
    servers: BTreeMap<String, (String, Instant)>,
}

impl Board {
    /// Takes what has come within a beat.
    fn follow(&mut self, statuses: &Subscription) -> Result<(), Box<dyn Error>> {
        let end = Instant::now() + BEAT;
        while let Some(received) =
            statuses.recv_timeout(end.saturating_duration_since(Instant::now()))?
        {
            // A state that is missing is replaced by the next one: nothing is to be done about it.
            if let Some(message) = received.into_message() {
                let state = String::from_utf8_lossy(message.bytes()).into_owned();
                let server = message.group().trim_start_matches("status/").to_owned();
                self.servers.insert(server, (state, Instant::now()));
            }
        }
        Ok(())
    }

    fn state(&self, server: &str) -> &str {
        match self.servers.get(server) {
            None => "unknown",
            Some((state, _)) if state == "stopped" => state,
            Some((_, heard)) if heard.elapsed() > SILENT => "silent",
            Some((state, _)) => state,
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("board-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let screen = builder.clone().name("board").start()?;
    let statuses = screen.subscribe(["status/**"])?;
    let (alpha, beta, gamma) = (
        Server::start(&builder, "alpha")?,
        Server::start(&builder, "beta")?,
        Server::start(&builder, "gamma")?,
    );

    let mut board = Board::default();
    for server in [&beta, &gamma] {
        server.status.send(b"up")?;
    }
    // One ends in order and says so; one stops without a word.
    beta.status.send(b"stopped")?;
    beta.node.shutdown(PATIENCE)?;
    while board.state("beta") != "stopped" || board.state("gamma") != "silent" {
        alpha.status.send(b"up")?;
        board.follow(&statuses)?;
    }
    for server in ["alpha", "beta", "gamma"] {
        println!("{server}: {}", board.state(server));
    }
    Ok(())
}
