//! A place that several share: they walk about in it, pick things up and put them down at home. Who comes later sees it
//! as it is. `cargo run -p qsm-replica --example place`

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{IsTerminal, stdout};
use std::process;
use std::thread;
use std::time::Duration;

use qsm_replica::{LiveError, LiveMap};

const PATIENCE: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(50);
const STEPS: usize = 60;
const SIZE: Spot = (28, 8);
const PEOPLE: [(&str, Spot); 3] = [("ann", (0, 0)), ("bob", (27, 0)), ("cid", (14, 7))];
const THINGS: [(&str, Spot); 4] = [("*", (9, 2)), ("+", (13, 4)), ("%", (20, 6)), ("#", (4, 6))];

type Spot = (i32, i32);

/// Entries of the map: `person/ann` is at `3 4`, `thing/*` lies at `9 2` or is with `ann`.
#[derive(Debug, Default, PartialEq, Eq)]
struct Place {
    people: BTreeMap<String, Spot>,
    lying: BTreeMap<String, Spot>,
    carried: BTreeMap<String, String>,
}

impl Place {
    fn of(map: &LiveMap) -> Self {
        map.read(|map| {
            let mut place = Self::default();
            for (key, value) in map.iter() {
                let value = String::from_utf8_lossy(value);
                let spot = value.split_once(' ');
                let spot = spot.and_then(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?)));
                match (key.split_once('/'), spot) {
                    (Some(("person", name)), Some(spot)) => {
                        place.people.insert(name.to_owned(), spot);
                    }
                    (Some(("thing", name)), Some(spot)) => {
                        place.lying.insert(name.to_owned(), spot);
                    }
                    (Some(("thing", name)), None) => {
                        place.carried.insert(value.into_owned(), name.to_owned());
                    }
                    _ => {}
                }
            }
            place
        })
    }

    /// People as the first letters of their names, large ones while they carry something.
    fn picture(&self) -> String {
        let letter = |at: Spot| {
            let person = self.people.iter().find(|(_, spot)| **spot == at);
            let person = person.map(|(name, _)| match self.carried.contains_key(name) {
                true => name[..1].to_uppercase(),
                false => name[..1].to_owned(),
            });
            let thing = self.lying.iter().find(|(_, spot)| **spot == at);
            let thing = thing.map(|(name, _)| name.clone());
            person.or(thing).unwrap_or_else(|| ".".to_owned())
        };
        let row = |y| (0..SIZE.0).map(|x| letter((x, y))).collect::<String>() + "\n";
        (0..SIZE.1).map(row).collect()
    }
}

fn text((x, y): Spot) -> String {
    format!("{x} {y}")
}

/// Goes home with what it carries, or to the nearest thing that is not there. Two who pick up the same thing see in the
/// map who has it: the last writer, for all alike.
fn step(map: &LiveMap, name: &str, home: Spot) -> Result<(), LiveError> {
    let place = Place::of(map);
    let here = place.people.get(name).copied().unwrap_or(home);
    let far = |spot: &Spot| (spot.0 - here.0).abs().max((spot.1 - here.1).abs());
    let things = place.lying.iter().filter(|(_, spot)| **spot != home);
    let nearest = things.min_by_key(|(_, spot)| far(spot));
    let carried = place.carried.get(name);
    let thing = |name: &str| format!("thing/{name}");
    let target = match (carried, nearest) {
        (Some(own), _) if here == home => return map.set(&thing(own), text(home).as_bytes()),
        (None, Some((found, spot))) if *spot == here => {
            return map.set(&thing(found), name.as_bytes());
        }
        (None, Some((_, spot))) => *spot,
        _ => home,
    };
    let (x, y) = ((target.0 - here.0).signum(), (target.1 - here.1).signum());
    let there = (here.0 + x, here.1 + y);
    map.set(&format!("person/{name}"), text(there).as_bytes())
}

fn main() -> Result<(), Box<dyn Error>> {
    let uri = format!("qsm://place-{}/room?type=map&interface=lo", process::id());
    let first = LiveMap::bind(&uri)?;
    for (name, spot) in THINGS {
        first.set(&format!("thing/{name}"), text(spot).as_bytes())?;
    }
    let mut walkers = Vec::new();
    for (name, home) in PEOPLE {
        let map = LiveMap::bind(&uri)?;
        walkers.push(thread::spawn(move || {
            for _ in 0..STEPS {
                step(&map, name, home)?;
                thread::sleep(STEP);
            }
            Ok::<_, LiveError>((name, map))
        }));
    }
    // It comes while the others walk, and has everything at once.
    let newcomer = LiveMap::bind(&uri)?;
    let place = Place::of(&newcomer);
    let things = place.lying.len() + place.carried.len();
    println!("the newcomer finds {things} things");
    while stdout().is_terminal() && !walkers.iter().all(thread::JoinHandle::is_finished) {
        print!("\x1b[H\x1b[J{}", Place::of(&newcomer).picture());
        thread::sleep(STEP);
    }
    let mut maps = vec![("the first", first), ("the newcomer", newcomer)];
    for walker in walkers {
        maps.push(walker.join().map_err(|_| "somebody fell")??);
    }
    // Each step is a write.
    let writes = THINGS.len() + PEOPLE.len() * STEPS;
    for (name, map) in &maps {
        map.wait_updates(writes as u64, PATIENCE)?;
        let same = Place::of(map) == Place::of(&maps[0].1);
        println!("{name} sees {}", if same { "the same" } else { "another" });
    }
    print!("{}", Place::of(&maps[0].1).picture());
    Ok(())
}
