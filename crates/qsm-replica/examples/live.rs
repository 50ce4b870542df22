//! A desk sets prices in a map that a screen has alike, and sees them change; both write to one log.
//! `cargo run -p qsm-replica --example live`

use std::error::Error;
use std::process;
use std::time::Duration;

use qsm_replica::{LiveLog, LiveMap, MapChange};

const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> Result<(), Box<dyn Error>> {
    let cluster = format!("live-{}", process::id());
    let uri = |group: &str, kind: &str| format!("qsm://{cluster}/{group}?type={kind}&interface=lo");

    let desk = LiveMap::bind(&uri("prices", "map"))?;
    desk.set("eur", b"1.0842")?;
    let screen = LiveMap::bind(&uri("prices", "map"))?;
    let mut watch = screen.watch();
    let mut see = || match watch.recv_timeout(PATIENCE) {
        Ok(Some(MapChange::Set { key, value })) => {
            println!("{key} {}", String::from_utf8_lossy(&value));
            Ok(())
        }
        Ok(Some(MapChange::Removed { key })) => {
            println!("{key} is gone");
            Ok(())
        }
        Ok(other) => Err(format!("nothing was to be seen but a change: {other:?}")),
        Err(error) => Err(error.to_string()),
    };
    see()?;
    desk.set("eur", b"1.0851")?;
    see()?;
    desk.remove("eur")?;
    see()?;

    let log = LiveLog::bind(&uri("events", "log"))?;
    log.append(b"opened")?;
    let other = LiveLog::bind(&uri("events", "log"))?;
    // Its writer has seen the first entry, so this one is behind it.
    other.append(b"closed")?;
    log.wait_updates(2, PATIENCE)?;
    for entry in log.read(|log| {
        log.iter()
            .map(|(_, entry)| entry.to_vec())
            .collect::<Vec<_>>()
    }) {
        println!("{}", String::from_utf8_lossy(&entry));
    }
    Ok(())
}
