//! Two sites with two gateways each on hosts of a lab, over a link of 10 ms that loses half a percent, with tokens:
//! every subscriber has each message once, in order, while a gateway is killed and while the link, or the interface of
//! a gateway, is down for a second several times. Rules R-RELAY-60 to R-RELAY-64.

mod support;

use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use lab::{HostId, Lab, LinkId, LinkShape};
use serde_json::Value;
use support::keys::Keys;
use support::ticks::{Subscriber, Ticker};
use support::{Lines, QSM, Running, assert_code, stderr};

const SITES: [&str; 2] = ["fra", "lon"];
/// Time for which something is down.
const OUTAGE: Duration = Duration::from_secs(1);
/// Time between two messages.
const PACE: Duration = Duration::from_millis(2);
/// Messages that come when all goes on.
const MORE: u64 = 100;
/// The link between the sites, where nothing is wrong.
const SHAPE: LinkShape = LinkShape {
    delay: Duration::from_millis(10),
    jitter: Duration::ZERO,
    loss_ppm: 5000,
    rate: None,
    queue: u64::MAX,
    mark: u64::MAX,
    seed: 1,
};

/// Two sites, each with a host for its service, publishers and subscribers, and two for its gateways.
struct Plant {
    lab: Lab,
    link: LinkId,
    hosts: [Vec<HostId>; 2],
    keys: Keys,
    _services: Vec<(Running, Lines)>,
}

/// A gateway, and what it says.
struct Gateway {
    running: Running,
    said: Lines,
    _told: Lines,
}

impl Plant {
    fn start() -> (Self, [[Option<Gateway>; 2]; 2]) {
        let mut lab = Lab::new().unwrap();
        let far = lab.add_site().unwrap();
        let link = lab.link(lab.first_site(), far, SHAPE).unwrap();
        let near = lab.add_hosts(3).unwrap();
        let far = (0..3).map(|_| lab.add_host_at(far).unwrap()).collect();
        let mut plant = Self {
            lab,
            link,
            hosts: [near, far],
            keys: Keys::new(),
            _services: Vec::new(),
        };
        plant._services = [0, 1].map(|site| plant.service(site)).into();
        let gateways = [0, 1].map(|site| [0, 1].map(|number| plant.gateway(site, number)));
        for gateway in gateways.iter().flatten() {
            gateway.is_joined();
        }
        (plant, gateways.map(|of_site| of_site.map(Some)))
    }

    /// A command at a host of a site, in its cluster.
    fn command(&self, site: usize, host: usize, words: &[&str]) -> Command {
        let mut command = self.lab.command(self.hosts[site][host], QSM);
        command.args(words).args(["--cluster", SITES[site]]);
        command
            .env("QSM_CONFIG", "")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    fn service(&self, site: usize) -> (Running, Lines) {
        let mut gms = Running(self.command(site, 0, &["gms"]).spawn().unwrap());
        let said = Lines::of_stdout(&mut gms.0);
        said.wait("that it listens", |line| line.contains("listening on"));
        (gms, said)
    }

    /// The host of a gateway.
    fn host(&self, site: usize, number: usize) -> HostId {
        self.hosts[site][1 + number]
    }

    fn at(&self, site: usize, number: usize) -> String {
        format!("{}:4490", self.lab.host(self.host(site, number)).address())
    }

    fn gateway(&self, site: usize, number: usize) -> Gateway {
        let (own, other) = (SITES[site], SITES[1 - site]);
        let from = [0, 1].map(|number| format!("{other}={}", self.at(1 - site, number)));
        let (name, from, listen) = (name(site, number), from.join(","), self.at(site, number));
        let key = self.keys.of_site(&name, own);
        let words = ["relay", "site", own, "--group", "prices/eur", "--json"];
        let more = ["--name", &name, "--listen", &listen, "--from", &from];
        let links = ["--link-identity", &key];
        let words = [&words[..], &more, &links].concat();
        let mut running = Running(self.command(site, 1 + number, &words).spawn().unwrap());
        Gateway {
            said: Lines::of_stdout(&mut running.0),
            _told: Lines::of_stderr(&mut running.0),
            running,
        }
    }

    fn subscriber(&self, site: usize) -> Subscriber {
        let mut command = self.command(site, 0, &["sub", "prices/eur", "--json"]);
        Subscriber::of(Running(command.spawn().unwrap()))
    }

    /// The link is down for a while: nothing passes.
    fn fail_link(&self) {
        let cut = LinkShape {
            loss_ppm: 1_000_000,
            ..SHAPE
        };
        self.lab.reshape(self.link, cut).unwrap();
        thread::sleep(OUTAGE);
        self.lab.reshape(self.link, SHAPE).unwrap();
    }

    /// The interface of a gateway is down for a while.
    fn fail_interface(&self, site: usize, number: usize) {
        let host = self.host(site, number);
        self.lab.set_link(host, false).unwrap();
        thread::sleep(OUTAGE);
        self.lab.set_link(host, true).unwrap();
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
}

/// Messages of the first site, some hundreds a second, and a subscriber in each.
struct Stream {
    near: Subscriber,
    far: Subscriber,
    sent: Arc<AtomicU64>,
    goes_on: Arc<AtomicBool>,
    ticking: thread::JoinHandle<Output>,
}

impl Stream {
    fn start(plant: &Plant) -> Self {
        let (near, far) = (plant.subscriber(0), plant.subscriber(1));
        let words = ["pub", "prices/eur", "--frames", "--wait-members", "3"];
        let mut ticker = Ticker::of(plant.command(0, 0, &words));
        let (sent, goes_on) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(true)));
        let (counted, ticks) = (Arc::clone(&sent), Arc::clone(&goes_on));
        let ticking = thread::spawn(move || {
            while ticks.load(Ordering::Relaxed) {
                ticker.tick();
                counted.store(ticker.ticks, Ordering::Relaxed);
                thread::sleep(PACE);
            }
            ticker.end()
        });
        Self {
            near,
            far,
            sent,
            goes_on,
            ticking,
        }
    }

    /// All that was sent so far, and some more, has come to the second site. Which gateway published the last there.
    fn goes_on(&mut self) -> usize {
        let upto = self.sent.load(Ordering::Relaxed) + MORE;
        let mut last = Value::Null;
        while self.far.taken < upto {
            last = self.far.next()["name"].take();
        }
        let by = [0, 1].into_iter().find(|number| last == name(1, *number));
        by.unwrap_or_else(|| panic!("{last}"))
    }

    /// It ends, and each subscriber has had each message once, and nothing else.
    fn end(mut self) {
        self.goes_on.store(false, Ordering::Relaxed);
        let output = self.ticking.join().unwrap();
        let sent = self.sent.load(Ordering::Relaxed);
        for subscriber in [&mut self.near, &mut self.far] {
            while subscriber.taken < sent {
                subscriber.next();
            }
        }
        self.near.end();
        self.far.end();
        // Its publisher names a gateway that was killed, or is still away, and nobody else.
        if output.status.code() != Some(0) {
            assert_code(&output, 4);
            let told = stderr(&output);
            assert!(told.contains("2 of 3 receivers have everything"), "{told}");
            assert!(told.contains("gate-fra-0"), "{told}");
        }
    }
}

/// R-RELAY-60 to R-RELAY-63: in mid-stream the gateway that publishes is killed, then one that sends.
#[test]
fn gateways_on_hosts_that_are_killed_cost_and_double_nothing() {
    if !lab::ready() {
        return;
    }
    let (plant, mut gateways) = Plant::start();
    let mut stream = Stream::start(&plant);
    let active = stream.goes_on();
    gateways[1][active].take().unwrap().running.signal("-KILL");
    assert_eq!(stream.goes_on(), 1 - active);
    gateways[0][0].take().unwrap().running.signal("-KILL");
    assert_eq!(stream.goes_on(), 1 - active);
    stream.end();
}

/// R-RELAY-60 to R-RELAY-63.
#[test]
fn a_link_between_sites_that_flaps_costs_and_doubles_nothing() {
    if !lab::ready() {
        return;
    }
    let (plant, _gateways) = Plant::start();
    let mut stream = Stream::start(&plant);
    stream.goes_on();
    for _ in 0..4 {
        plant.fail_link();
        stream.goes_on();
    }
    stream.end();
}

/// R-RELAY-60 to R-RELAY-63: of the gateway that publishes, and of one that sends.
#[test]
fn interfaces_of_gateways_that_flap_cost_and_double_nothing() {
    if !lab::ready() {
        return;
    }
    let (plant, _gateways) = Plant::start();
    let mut stream = Stream::start(&plant);
    for _ in 0..3 {
        let active = stream.goes_on();
        plant.fail_interface(1, active);
        stream.goes_on();
        plant.fail_interface(0, 0);
        stream.goes_on();
    }
    stream.end();
}
