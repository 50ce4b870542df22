//! One group for three readers: a recorder that has every price, a screen that draws the newest of each, and an
//! alarm that would rather miss a price than wait for it. `cargo run -p qsm --example market`

use std::collections::BTreeMap;
use std::error::Error;
use std::process;
use std::thread;
use std::time::Duration;

use qsm::{
    DeliveryMode, FaultConfig, Latest, MessageRef, NetworkOptions, Node, Overflow, Received,
    RecvError, Subscription,
};

const PATIENCE: Duration = Duration::from_secs(10);
const STEPS: u32 = 2000;
const NAMES: [&str; 3] = ["eur", "gbp", "usd"];

/// `eur 1042`: the first word is the key.
fn name(message: MessageRef<'_>) -> Option<Vec<u8>> {
    message
        .bytes
        .split(|byte| *byte == b' ')
        .next()
        .map(<[u8]>::to_vec)
}

fn parse(bytes: &[u8]) -> Option<(String, u32)> {
    let (name, price) = str::from_utf8(bytes).ok()?.split_once(' ')?;
    Some((name.to_owned(), price.parse().ok()?))
}

/// Writes down every price; the market waits for it rather than lose one. Returns how many it has, and how many not.
fn record(prices: &Subscription) -> Result<(u64, u64), RecvError> {
    let (mut written, mut missing) = (0, 0);
    while written + missing < u64::from(STEPS) * 3 {
        match prices.recv()? {
            Received::Message(_) => written += 1,
            other => missing += other.missing(),
        }
    }
    Ok((written, missing))
}

/// Draws the newest price of each name as it comes, until all are the last ones.
fn draw(prices: &Latest) -> Result<BTreeMap<String, u32>, RecvError> {
    let mut screen = BTreeMap::new();
    while screen.len() < 3 || screen.values().any(|price| *price < STEPS) {
        while let Some(received) = prices.recv_timeout(Duration::from_millis(100))? {
            if let Some((name, price)) = received
                .into_message()
                .and_then(|message| parse(message.bytes()))
            {
                screen.insert(name, price);
            }
        }
    }
    Ok(screen)
}

/// Rings once when a price has passed 1000. A price that was too late or lost is followed by another.
fn watch(prices: &Subscription) -> Result<String, RecvError> {
    loop {
        let message = prices.recv()?.into_message();
        match message.and_then(|message| parse(message.bytes())) {
            Some((name, price)) if price >= 1000 => return Ok(name),
            _ => {}
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("market-{}", process::id());
    // The readers' node throws away one packet in twenty on purpose.
    let fault = FaultConfig {
        loss_ppm: 50_000,
        ..FaultConfig::default()
    };
    let lossy = NetworkOptions::new().interface("lo").fault(fault);
    let market = Node::builder().cluster(&cluster).interface("lo").start()?;
    let desk = Node::builder().cluster(&cluster).network(lossy).start()?;

    let group = || desk.group("prices");
    let recorder = group()
        .capacity_messages(100)
        .overflow(Overflow::Hold)
        .subscribe()?;
    let screen = group().latest_by(name)?;
    let alarm = group()
        .delivery(DeliveryMode::Within(Duration::from_millis(5)))
        .subscribe()?;
    let publisher = market.publisher("prices")?;
    publisher.wait_for_members(1, PATIENCE)?;

    let recorder = thread::spawn(move || record(&recorder));
    let screen = thread::spawn(move || draw(&screen));
    let alarm = thread::spawn(move || watch(&alarm));
    for step in 1..=STEPS {
        for name in NAMES {
            publisher.send(format!("{name} {step}").as_bytes())?;
        }
    }
    market.flush(PATIENCE)?;

    let ended = "a reader ended early";
    let (written, missing) = recorder.join().map_err(|_| ended)??;
    println!("recorder: {written} prices, {missing} missing");
    println!("screen: {:?}", screen.join().map_err(|_| ended)??);
    let rung = alarm.join().map_err(|_| ended)??;
    println!(
        "alarm: {}",
        if NAMES.contains(&&*rung) {
            "rang"
        } else {
            "wrong"
        }
    );
    Ok(())
}
