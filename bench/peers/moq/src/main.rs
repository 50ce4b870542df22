//! A stream over a relay of Media over QUIC, for the copies that `make sites` counts.
//!
//! ```text
//! moq-copies publish   RELAY              a message, in a group of its own, for each line of stdin: its bytes
//! moq-copies subscribe RELAY CONNECTIONS  a line for every hundredth message, of all connections
//! ```
//!
//! RELAY is a URL such as `https://10.0.0.1:4443/`, whose certificate is not looked at.

use std::io::stdin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use moq_net::{Pattern, Patterns, Timestamp};
use url::Url;

const BROADCAST: &str = "copies";
const TRACK: &str = "messages";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["publish", relay] => publish(relay.parse()?).await,
        ["subscribe", relay, connections] => subscribe(relay.parse()?, connections.parse()?).await,
        _ => bail!("moq-copies publish RELAY, or moq-copies subscribe RELAY CONNECTIONS"),
    }
}

/// A client that believes any certificate: both ends are of one measurement.
fn client() -> anyhow::Result<moq_tokio::Client> {
    let mut config = moq_tokio::connect::Config::default();
    config.tls.insecure = Some(true);
    Ok(config.init(Default::default())?)
}

async fn publish(relay: Url) -> anyhow::Result<()> {
    let origin = moq_tokio::origin::spawn();
    let broadcast = origin.create_broadcast(BROADCAST)?;
    let mut track = broadcast.create_track(TRACK, None)?;
    broadcast.announce(Default::default())?;
    let _connection = client()?.with_publisher(&origin).connect(relay);
    let (sizes, mut asked) = tokio::sync::mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in stdin().lines() {
            sizes.send(line?.parse::<usize>()?)?;
        }
        anyhow::Ok(())
    });
    while let Some(bytes) = asked.recv().await {
        track.write_frame(Timestamp::now(), vec![7; bytes])?;
    }
    Ok(())
}

async fn subscribe(relay: Url, connections: usize) -> anyhow::Result<()> {
    let came = Arc::new(AtomicU64::new(0));
    let all: Vec<_> = (0..connections)
        .map(|_| tokio::spawn(count(relay.clone(), came.clone())))
        .collect();
    for one in all {
        one.await??;
    }
    bail!("the broadcast has ended")
}

/// Counts the messages of a connection of its own.
async fn count(relay: Url, came: Arc<AtomicU64>) -> anyhow::Result<()> {
    let origin = moq_tokio::origin::spawn();
    let _connection = client()?.with_subscriber(origin.clone()).connect(relay);
    let scope = Patterns::from(Pattern::subtree(BROADCAST)?);
    let consumer = origin.scope("", &scope)?.consume();
    let mut announced = consumer.announced();
    let update = loop {
        let update = announced.next().await.context("no broadcast")?;
        if update.kind.is_active() {
            break update;
        }
    };
    let broadcast = consumer.request_broadcast(&update.prefix).await?;
    let mut track = broadcast.track(TRACK)?.subscribe(None).await?;
    while let Some(mut group) = track.recv_group().await? {
        while group.read_frame().await?.is_some() {
            let count = came.fetch_add(1, Ordering::Relaxed) + 1;
            if count.is_multiple_of(100) {
                println!("{count}");
            }
        }
    }
    Ok(())
}
