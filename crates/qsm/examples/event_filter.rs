//! A filter of events: readings of many sensors come in, and where the mean of a second is too high, one alarm goes
//! out. Windows go by the time in the events. `cargo run -p qsm --example event_filter`

use std::collections::BTreeMap;
use std::error::Error;
use std::process;
use std::time::Duration;

use qsm::{Node, Publisher, Received};

const PATIENCE: Duration = Duration::from_secs(10);
/// Length of a window, milliseconds.
const WINDOW: u64 = 1000;
const LIMIT: f64 = 30.0;

/// A reading as it is sent: `MILLISECONDS CELSIUS`.
struct Reading {
    time: u64,
    celsius: f64,
}

impl Reading {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (time, celsius) = str::from_utf8(bytes).ok()?.split_once(' ')?;
        Some(Self {
            time: time.parse().ok()?,
            celsius: celsius.parse().ok()?,
        })
    }
}

/// The window that a room is in.
#[derive(Default)]
struct Window {
    number: u64,
    sum: f64,
    readings: u32,
    /// A message of it is missing: no mean is better than a wrong one.
    torn: bool,
    /// Something is missing since its last reading: of this window or of the next.
    gap: bool,
}

impl Window {
    /// Adds a reading. Returns the mean of the window before, if this reading is the first of the next.
    fn add(&mut self, reading: &Reading) -> Option<f64> {
        let number = reading.time / WINDOW;
        let gap = std::mem::take(&mut self.gap);
        self.torn |= gap;
        let ended = (number > self.number).then(|| std::mem::take(self));
        self.torn |= gap;
        self.number = number;
        self.sum += reading.celsius;
        self.readings += 1;
        ended
            .filter(|window| !window.torn && window.readings > 0)
            .map(|window| window.sum / f64::from(window.readings))
    }
}

/// Reads until all rooms have said that they end.
fn filter(
    readings: &qsm::Subscription,
    alarms: &Publisher,
    rooms: usize,
) -> Result<(), Box<dyn Error>> {
    let (mut windows, mut ended) = (BTreeMap::<String, Window>::new(), 0);
    while ended < rooms {
        match readings.recv()? {
            Received::Message(message) => {
                let room = message.group().to_owned();
                let Some(reading) = Reading::parse(message.bytes()) else {
                    ended += 1;
                    continue;
                };
                let mean = windows.entry(room.clone()).or_default().add(&reading);
                if let Some(mean) = mean.filter(|mean| *mean > LIMIT) {
                    alarms.send(format!("{room} {mean:.1}").as_bytes())?;
                }
            }
            // The node was away, and has caught up: nothing is missing.
            Received::Back(_) => {}
            // Whichever room it was of: all of them have a gap.
            _missing => windows.values_mut().for_each(|window| window.gap = true),
        }
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("filter-{}", process::id());
    let builder = Node::builder().cluster(cluster).interface("lo");
    let (house, guard) = (builder.clone().start()?, builder.start()?);

    let readings = guard.subscribe(["rooms/**"])?;
    let (alarms, bell) = (guard.publisher("alarms")?, house.subscribe(["alarms"])?);
    let rooms = house
        .groups(["rooms/cellar", "rooms/kitchen"])
        .publishers()?;
    for room in &rooms {
        room.wait_for_members(1, PATIENCE)?;
    }
    alarms.wait_for_members(1, PATIENCE)?;
    // The kitchen becomes hot in its third second, and cools again.
    for time in (0..5000).step_by(10) {
        rooms[0].send(format!("{time} 12").as_bytes())?;
        let celsius = if time / WINDOW == 2 { 35 } else { 21 };
        rooms[1].send(format!("{time} {celsius}").as_bytes())?;
    }
    for room in &rooms {
        room.send(b"end")?;
    }
    filter(&readings, &alarms, rooms.len())?;

    while let Some(received) = bell.recv_timeout(Duration::from_millis(500))? {
        match received {
            Received::Message(alarm) => {
                println!("alarm: {}", String::from_utf8_lossy(alarm.bytes()));
            }
            missing => println!("{missing}"),
        }
    }
    Ok(())
}
