//! Two gateways at each of two sites, as processes over loopback: every subscriber has each message once, in order, while
//! gateways are killed, stand still and come back. Rules R-RELAY-60 to R-RELAY-63.

mod support;

use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::keys::Keys;
use support::relaying::{free_ports, relaying};
use support::ticks::{Subscriber, Ticker};
use support::{Cluster, Lines, Running, assert_code, qsm, stderr};

const SITES: [&str; 2] = ["fra", "lon"];
const PATIENCE: Duration = Duration::from_secs(60);

/// Two clusters of this host, with two gateways each.
struct Plant {
    clusters: [Cluster; 2],
    at: [[String; 2]; 2],
    /// Of links with tokens.
    keys: Option<Keys>,
}

/// A gateway that is joined with both of the other site.
struct Gateway {
    running: Running,
    said: Lines,
    _told: Lines,
}

impl Plant {
    fn start() -> (Self, [[Option<Gateway>; 2]; 2]) {
        Self::with(None)
    }

    fn with(keys: Option<Keys>) -> (Self, [[Option<Gateway>; 2]; 2]) {
        let [a, b, c, d] = free_ports();
        let plant = Self {
            clusters: [(); 2].map(|()| Cluster::new()),
            at: [[a, b], [c, d]],
            keys,
        };
        let gateways = [0, 1].map(|site| [0, 1].map(|number| Some(plant.gateway(site, number))));
        for gateway in gateways.iter().flatten().flatten() {
            gateway.is_joined();
        }
        (plant, gateways)
    }

    fn gateway(&self, site: usize, number: usize) -> Gateway {
        let other = 1 - site;
        let from = self.at[other]
            .clone()
            .map(|at| format!("{}={at}", SITES[other]));
        let (name, from) = (name(site, number), from.join(","));
        let words = [
            "relay",
            "site",
            SITES[site],
            "--group",
            "prices/eur",
            "--json",
        ];
        let listen = &*self.at[site][number];
        let more = ["--name", &name, "--listen", listen, "--from", &from];
        let key = self
            .keys
            .as_ref()
            .map(|keys| keys.of_site(&name, SITES[site]));
        let links = key.as_ref().map(|key| ["--link-identity", key]);
        let links = links.as_ref().map_or(&[][..], |links| &links[..]);
        let mut running = self.clusters[site].start(&[&words[..], &more, links].concat());
        Gateway {
            said: Lines::of_stdout(&mut running.0),
            _told: Lines::of_stderr(&mut running.0),
            running,
        }
    }

    fn subscriber(&self, site: usize) -> Subscriber {
        let words = ["sub", "prices/eur", "--json"];
        Subscriber::of(self.clusters[site].start(&words))
    }

    /// A publisher in a site, for so many members.
    fn ticker(&self, site: usize, members: &str) -> Ticker {
        let words = ["pub", "prices/eur", "--frames", "--wait-members", members];
        Ticker::of(self.clusters[site].command(&words))
    }
}

fn name(site: usize, number: usize) -> String {
    format!("gate-{}-{number}", SITES[site])
}

impl Gateway {
    /// It gets what both of the other site send, and they get what it sends.
    fn is_joined(&self) {
        let (mut joined, mut receivers) = (0, false);
        self.said.wait("that it is joined", |line| {
            joined += usize::from(line.contains("\"joined\""));
            receivers |= line.contains("\"receivers\":2");
            joined >= 2 && receivers
        });
    }

    /// Ends it; returns all counters.
    fn stop(self) -> Value {
        self.running.terminate();
        let stopped = self
            .said
            .wait("that it stops", |line| line.contains("stopped"));
        serde_json::from_str::<Value>(&stopped).unwrap()["counters"].take()
    }
}

/// A tick that all have, the last of these in the other site.
fn tick(ticker: &mut Ticker, near: &mut Subscriber, far: &mut Subscriber) -> usize {
    ticker.tick();
    assert!(near.next().get("origin").is_none());
    let message = far.next();
    let by = [0, 1]
        .into_iter()
        .find(|number| message["name"] == name(1, *number));
    by.unwrap_or_else(|| panic!("{message}"))
}

/// R-RELAY-60 to R-RELAY-63: of both sites one gateway is killed in mid-stream.
#[test]
fn gateways_that_are_killed_in_mid_stream_cost_and_double_nothing() {
    are_killed_in_mid_stream(Plant::start());
}

/// R-RELAY-22, R-RELAY-60 to R-RELAY-63.
#[test]
fn gateways_with_tokens_that_are_killed_in_mid_stream_cost_and_double_nothing() {
    are_killed_in_mid_stream(Plant::with(Some(Keys::new())));
}

fn are_killed_in_mid_stream((plant, mut gateways): (Plant, [[Option<Gateway>; 2]; 2])) {
    const MESSAGES: u64 = 20_000;
    let (mut near, mut far) = (plant.subscriber(0), plant.subscriber(1));
    let mut far_too = plant.subscriber(1);
    let mut ticker = plant.ticker(0, "3");
    let active = tick(&mut ticker, &mut near, &mut far);
    let poured = ticker.pour(MESSAGES);
    let reader = thread::spawn(move || {
        (near.taken..MESSAGES).for_each(|_| drop(near.next()));
        near
    });
    let until =
        |far: &mut Subscriber, number: u64| (far.taken..number).for_each(|_| drop(far.next()));
    until(&mut far, MESSAGES / 10);
    gateways[1][active].take().unwrap().running.signal("-KILL");
    until(&mut far, MESSAGES / 2);
    gateways[0][0].take().unwrap().running.signal("-KILL");
    until(&mut far, MESSAGES);
    until(&mut far_too, MESSAGES);
    poured.join().unwrap();
    let near = reader.join().unwrap();
    let other = gateways[1][1 - active].take().unwrap();
    let site = other.stop()["site"].take();
    assert_eq!((&site["missing"], &site["untaken"]), (&0.into(), &0.into()));
    for subscriber in [near, far, far_too] {
        subscriber.end();
    }
}

/// R-RELAY-61 to R-RELAY-63: the one that publishes stands still, goes on, and takes over again when the other is killed.
#[test]
fn a_gateway_that_stands_still_is_replaced_and_doubles_nothing_when_it_goes_on() {
    let (plant, mut gateways) = Plant::start();
    let (mut near, mut far) = (plant.subscriber(0), plant.subscriber(1));
    let mut ticker = plant.ticker(0, "3");
    let first = tick(&mut ticker, &mut near, &mut far);
    let [_, at_far] = &mut gateways;
    let other = 1 - first;
    at_far[first].as_ref().unwrap().running.signal("-STOP");
    assert_eq!(tick(&mut ticker, &mut near, &mut far), other);
    at_far[first].as_ref().unwrap().running.signal("-CONT");
    for _ in 0..100 {
        tick(&mut ticker, &mut near, &mut far);
    }
    let active = tick(&mut ticker, &mut near, &mut far);
    at_far[active].take().unwrap().running.signal("-KILL");
    for _ in 0..100 {
        assert_eq!(tick(&mut ticker, &mut near, &mut far), 1 - active);
    }
    near.end();
    far.end();
}

/// R-RELAY-60, R-RELAY-61: each in its turn, at both sites, is killed and started again, or ended.
#[test]
fn gateways_may_end_and_begin_anew_one_after_the_other() {
    let (plant, mut gateways) = Plant::start();
    let (mut near, mut far) = (plant.subscriber(0), plant.subscriber(1));
    let mut ticker = plant.ticker(0, "3");
    for site in [1, 0] {
        for number in [0, 1] {
            for _ in 0..20 {
                tick(&mut ticker, &mut near, &mut far);
            }
            let gateway = gateways[site][number].take().unwrap();
            gateway.running.signal(["-KILL", "-TERM"][number]);
            for _ in 0..20 {
                tick(&mut ticker, &mut near, &mut far);
            }
            drop(gateway);
            let again = plant.gateway(site, number);
            again.is_joined();
            gateways[site][number] = Some(again);
        }
    }
    tick(&mut ticker, &mut near, &mut far);
    near.end();
    far.end();
}

impl Plant {
    /// Waits until `qsm nodes --sites` in the second site says that it is so; does something meanwhile.
    #[track_caller]
    fn sees(&self, what: &str, is: impl Fn(&Value) -> bool, mut meanwhile: impl FnMut()) {
        let until = Instant::now() + PATIENCE;
        loop {
            let output = self.clusters[1].run(&["nodes", "--sites", "--json"], b"");
            assert_code(&output, 0);
            let sites: Value = serde_json::from_slice(&output.stdout).unwrap();
            if is(&sites) {
                return;
            }
            assert!(Instant::now() < until, "not seen: {what}: {sites:#}");
            meanwhile();
        }
    }

    /// These gateways of the second site publish the first one's messages, and these stand by.
    #[track_caller]
    fn sees_roles(&self, publishing: &[usize], standing_by: &[usize], meanwhile: impl FnMut()) {
        let names = |numbers: &[usize]| {
            let names = numbers.iter().map(|it| name(1, *it));
            names.collect::<Vec<_>>()
        };
        let roles = json!([{ "site": SITES[0], "publishing": names(publishing),
                             "standing_by": names(standing_by), "silent": [] }]);
        self.sees("who publishes", |sites| sites["joined"] == roles, meanwhile);
    }

    /// This fault, or none, is seen in the second site.
    #[track_caller]
    fn sees_faults(&self, id: Option<&str>) {
        let is = |sites: &Value| {
            let faults = sites["faults"].as_array().unwrap();
            match id {
                None => faults.is_empty(),
                Some(id) => faults.iter().any(|fault| fault["id"] == id),
            }
        };
        self.sees(id.unwrap_or("no fault"), is, || {});
    }

    /// The sites that `qsm explain` says the group is joined with, as a gateway of the second site has it.
    fn explained(&self, number: usize) -> Value {
        let node = name(1, number);
        let words = ["explain", "prices/eur", "--json", "--node", &node];
        let output = qsm().args(words).output().unwrap();
        assert_code(&output, 0);
        let witnesses: Value = serde_json::from_slice(&output.stdout).unwrap();
        let cluster = self.clusters[1].option("--cluster");
        // Other tests have gateways of the same name.
        let mut witnesses = witnesses.as_array().unwrap().iter();
        let own = witnesses
            .find(|it| it["node"]["cluster"] == cluster)
            .unwrap();
        assert_eq!(own["group"].get("described"), None);
        own["sites"].clone()
    }
}

/// R-MEM-21, R-RELAY-64: lists and explanations say who publishes, who stands by, and what is wrong.
#[test]
fn operators_see_who_publishes_and_what_is_wrong_between_sites() {
    let (plant, mut gateways) = Plant::start();
    let (mut near, mut far) = (plant.subscriber(0), plant.subscriber(1));
    let mut ticker = plant.ticker(0, "3");
    // Both may publish the first message. By those that follow one of them hears that the other does.
    let alone = |sites: &Value| sites["joined"][0]["publishing"].as_array().unwrap().len() == 1;
    let mut first = 0;
    plant.sees("that one publishes", alone, || {
        first = tick(&mut ticker, &mut near, &mut far);
    });
    let other = 1 - first;
    plant.sees_roles(&[first], &[other], || {});
    plant.sees_faults(None);
    let listed = plant.clusters[1].run(&["nodes", "--json"], b"");
    let rows: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let mut rows = rows.as_array().unwrap().iter();
    let row = rows.find(|row| row["name"] == name(1, first)).unwrap();
    let (gateway, from) = (&row["gateway"], &row["gateway"]["from"][0]);
    assert_eq!(
        (&gateway["site"], &gateway["to"]["gateways"]),
        (&"lon".into(), &2.into())
    );
    assert_eq!(
        (&from["site"], &from["role"]),
        (&"fra".into(), &"publishing".into())
    );
    for (link, at) in from["links"].as_array().unwrap().iter().zip(&plant.at[0]) {
        assert_eq!(
            (&link["state"], &link["address"]),
            (&"reached".into(), &(&**at).into())
        );
        assert!(link["round_trip_us"].as_u64().unwrap() > 0, "{link}");
    }
    let told = plant.clusters[1].run(&["nodes"], b"");
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(
        told.contains("lon: publishing fra") && told.contains("lon: standing by fra"),
        "{told}"
    );
    assert_eq!(
        plant.explained(other)["joined"][0]["publishing"],
        json!([name(1, first)])
    );

    gateways[1][first].take().unwrap().running.signal("-KILL");
    assert_eq!(tick(&mut ticker, &mut near, &mut far), other);
    plant.sees_roles(&[other], &[], || {});
    let explained = plant.explained(other);
    assert_eq!(
        explained["joined"][0]["publishing"],
        json!([name(1, other)])
    );
    assert_eq!(explained["gateways"].as_array().unwrap().len(), 1);

    let last = gateways[1][other].as_ref().unwrap();
    last.running.signal("-STOP");
    plant.sees_faults(Some("gateway-silent"));
    last.running.signal("-CONT");
    plant.sees_faults(None);
    gateways[0][0].take().unwrap().running.signal("-KILL");
    plant.sees_faults(Some("way-not-reached"));
    gateways[0][1].take().unwrap().running.signal("-KILL");
    plant.sees_faults(Some("site-not-reached"));
    gateways[0] = [0, 1].map(|number| Some(plant.gateway(0, number)));
    plant.sees_faults(None);
}

#[test]
fn mistakes_with_gateways_are_named_with_their_remedies() {
    let many: Vec<String> = (1..=9)
        .map(|port| format!("lon=127.0.0.1:{port}"))
        .collect();
    for (from, cause, remedy) in [
        (
            "fra=127.0.0.1:1",
            "two sites are called fra",
            "other gateways of this site are not named",
        ),
        (
            "lon=127.0.0.1:1,lon=127.0.0.1:1",
            "two gateways are at 127.0.0.1:1",
            "name each once",
        ),
        (
            "lon=127.0.0.1:1,par=127.0.0.1:1",
            "two gateways are at 127.0.0.1:1",
            "name each once",
        ),
        (
            &*many.join(","),
            "site lon has more than 8 gateways",
            "name fewer",
        ),
    ] {
        let output = relaying(&["site", "fra", "--group", "prices", "--from", from]).output();
        assert_code(&output, 2);
        let told = stderr(&output);
        assert!(told.contains(cause) && told.contains(remedy), "{told}");
    }
}
