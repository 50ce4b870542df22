//! Commands of relays and gateways as processes over loopback.

mod support;

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::process::{ChildStdin, Stdio};
use std::rc::Rc;
use std::thread;

use serde_json::Value;
use support::keys::{Keys, content_key};
use support::relaying::{free_ports, relaying};
use support::{Cluster, Lines, Running, assert_code, stderr, subscribed};

#[test]
fn mistakes_with_relays_are_named_with_their_remedies() {
    let holder = UdpSocket::bind("127.0.0.1:0").unwrap();
    let taken = holder.local_addr().unwrap().to_string();
    let output = relaying(&["pub", "news", "--listen", &taken]).output();
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("another program has the port"),
        "{}",
        stderr(&output)
    );
    drop(holder);
    let output = relaying(&[
        "--parent",
        "no.such.host.invalid:4490",
        "--listen",
        "127.0.0.1:0",
    ])
    .output();
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("is not found"),
        "{}",
        stderr(&output)
    );
    let output = relaying(&["sub", "news", "--parent", &taken, "--timeout", "0.2"]).output();
    assert_code(&output, 3);
    assert!(
        stderr(&output).contains("has not answered"),
        "{}",
        stderr(&output)
    );
    let output = relaying(&[
        "pub",
        "news",
        "--listen",
        "127.0.0.1:0",
        "--wait-receivers",
        "2",
        "--timeout",
        "0.2",
    ]);
    let output = output.output();
    assert_code(&output, 3);
    assert!(
        stderr(&output).contains("0 of 2 receivers"),
        "{}",
        stderr(&output)
    );
}

/// R-RELAY-22, R-RELAY-25: who has no token of the cluster gets nothing, and both ends say why.
#[test]
fn a_stream_with_tokens_is_for_those_who_have_one() {
    let [keys, others] = [Keys::new(), Keys::new()];
    let [source, relay] = free_ports();
    let identity =
        |of: &Keys, name: &str, rights: &[&str]| format!("--identity={}", of.key(name, rights));
    let by = identity(&keys, "lon", &["--role", "relay"]);
    let mut forward = relaying(&["--parent", &source, "--listen", &relay, "--json", &by]);
    let said = Lines::of_stdout(&mut forward.0);
    let warned = Lines::of_stderr(&mut forward.0);
    said.wait("that it listens", |line| line.contains("listening"));
    let may = identity(&keys, "sub", &["--subscribe", "news"]);
    let sub = |key: &str| {
        let words = ["sub", "news", "--parent", &relay, "--timeout", "1.5"];
        relaying(&[&words[..], &[key]].concat())
    };
    let stranger = sub(&identity(&others, "sub", &["--subscribe", "news"])).output();
    assert_code(&stranger, 3);
    assert!(
        stderr(&stranger).contains("not signed by"),
        "{}",
        stderr(&stranger)
    );
    warned.wait("that it is refused", |line| line.contains("no link with"));
    let open = sub("--json").output();
    assert_code(&open, 3);
    assert!(stderr(&open).contains("neither encrypted nor authenticated"));
    warned.wait("who speaks openly", |line| {
        line.contains("without protection")
    });
    // Its own token does not allow it.
    let other = sub(&identity(&keys, "other", &["--subscribe", "sport"])).output();
    assert_code(&other, 2);
    assert!(
        stderr(&other).contains("does not allow receiving"),
        "{}",
        stderr(&other)
    );
    let mut receiver = relaying(&["sub", "news", "--parent", &relay, &may]);
    let printed = Lines::of_stdout(&mut receiver.0);
    let by = identity(&keys, "pub", &["--publish", "news"]);
    let mut publisher = relaying(&["pub", "news", "--listen", &source, "--stats", "json", &by]);
    publisher
        .0
        .stdin
        .take()
        .unwrap()
        .write_all(b"one\ntwo\n")
        .unwrap();
    let output = publisher.output();
    assert_code(&output, 0);
    assert!(
        !stderr(&output).contains("neither encrypted"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("\"opened\":1"),
        "{}",
        stderr(&output)
    );
    assert_eq!(printed.iter().collect::<Vec<_>>(), ["one", "two"]);
    assert_code(&receiver.output(), 0);
}

/// R-RELAY-22, R-RELAY-42: a receiver with two parents, and one below a relay with two parents.
#[test]
fn a_relay_that_is_killed_has_another_in_its_place_within_a_second_and_nothing_is_lost() {
    const MESSAGES: usize = 600;
    let keys = Keys::new();
    let [source, first, second, lower] = free_ports();
    let of = |name: &str, rights: &[&str]| format!("--identity={}", keys.key(name, rights));
    let relay = |name: &str, at: &str, parents: &[&str]| {
        let by = of(name, &["--role", "relay"]);
        let mut running = relaying(&[parents, &["--listen", at, &by]].concat());
        let said = Lines::of_stdout(&mut running.0);
        said.wait("that it listens", |line| line.contains("listening"));
        (running, said)
    };
    let both = ["--parent", &first, "--parent", &second];
    let (killed, _first_said) = relay("first", &first, &["--parent", &source]);
    let _other = relay("second", &second, &["--parent", &source]);
    let (_lower, lower_said) = relay("lower", &lower, &both);
    let subscriber = |name: &str, parents: &[&str]| {
        let by = of(name, &["--subscribe", "news"]);
        let words = [&["sub", "news", "--stats", "json", &by], parents].concat();
        let mut running = relaying(&words);
        let told = Lines::of_stdout(&mut running.0);
        (running, told)
    };
    let receivers = [
        subscriber("near", &both),
        subscriber("far", &["--parent", &lower]),
    ];
    let line = |number: usize| format!("{number:01000}");
    let by = of("source", &["--publish", "news"]);
    let words = ["pub", "news", "--listen", &source, "--wait-receivers", "2"];
    // Two hundred messages a second.
    let mut publisher = relaying(&[&words[..], &["--max-rate", "210k", &by]].concat());
    let mut stdin = publisher.0.stdin.take().unwrap();
    let all: String = (0..MESSAGES).map(|number| line(number) + "\n").collect();
    thread::spawn(move || stdin.write_all(all.as_bytes()));
    let mut taken = [vec![], vec![]];
    for (taken, (_, told)) in taken.iter_mut().zip(&receivers) {
        taken.extend(told.iter().take(MESSAGES / 3));
    }
    killed.signal("-KILL");
    for (mut taken, (running, told)) in taken.into_iter().zip(receivers) {
        taken.extend(told.iter());
        let all = (0..MESSAGES).map(line);
        assert!(taken.iter().cloned().eq(all), "{} came", taken.len());
        let output = running.output();
        assert_code(&output, 0);
        let said = stderr(&output);
        assert!(!said.contains("LOST"), "{said}");
        // Of the one below a relay it is 0.
        let (_, orphaned) = said.split_once("\"orphaned_us\":").unwrap();
        let digits = orphaned.find(|c: char| !c.is_ascii_digit()).unwrap();
        let orphaned: u64 = orphaned[..digits].parse().unwrap();
        assert!(orphaned <= 1_000_000, "{orphaned} µs without a parent");
    }
    let moved = lower_said.wait("the other parent", |line| line.contains("takes its place"));
    assert!(moved.contains(&first) && moved.contains(&second), "{moved}");
    assert_code(&publisher.output(), 0);
}

/// R-RELAY-20: three relays, and a receiver that nothing can reach.
#[test]
fn a_loop_of_parents_ends_a_relay_that_names_it() {
    let at: [String; 3] = free_ports();
    let mut relays = Vec::new();
    for relay in 0..3 {
        let parent = &at[(relay + 1) % 3];
        let mut running = relaying(&["--parent", parent, "--listen", &at[relay]]);
        let said = Lines::of_stdout(&mut running.0);
        said.wait("that it listens", |line| line.contains("listening"));
        relays.push(running);
    }
    let _sub = relaying(&["sub", "news", "--parent", &at[0]]);
    // The one that the receiver has joined gets its own Join back.
    let mut looped = relays.swap_remove(0);
    let mut told = String::new();
    looped
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert!(told.contains("parents form a loop of 3 relays"), "{told}");
    assert!(
        told.contains(&at[0]) && told.contains(&at[1]) && told.contains(&at[2]),
        "{told}"
    );
    assert_eq!(looped.0.wait().unwrap().code(), Some(1));
}

/// R-RELAY-21, and what `--json` and `--stats` say.
#[test]
fn a_stream_goes_on_after_its_source_is_started_again() {
    let [source, relay] = free_ports();
    let mut forward = relaying(&["--parent", &source, "--listen", &relay, "--json"]);
    let said = Lines::of_stdout(&mut forward.0);
    said.wait("that it listens", |line| line.contains("listening"));
    let mut sub = relaying(&[
        "sub", "news", "--parent", &relay, "--json", "--stats", "json",
    ]);
    let printed = Lines::of_stdout(&mut sub.0);
    let words = ["pub", "news", "--listen", &source];
    let mut first = relaying(&words);
    let mut stdin = first.0.stdin.take().unwrap();
    writeln!(stdin, "one").unwrap();
    let is = |text: &'static str| move |line: &str| line.contains(text);
    printed.wait("the first message", is("\"text\":\"one\""));
    first.signal("-KILL");
    drop(first);
    let mut second = relaying(&[&words[..], &["--json"]].concat());
    second.0.stdin.take().unwrap().write_all(b"two\n").unwrap();
    printed.wait("the second message", is("\"text\":\"two\""));
    let output = second.output();
    assert_code(&output, 0);
    let ended = String::from_utf8(output.stdout).unwrap();
    let ended: Value = serde_json::from_str(ended.lines().last().unwrap()).unwrap();
    assert_eq!(
        (&ended["event"], &ended["messages"]),
        (&"ended".into(), &1.into())
    );
    assert!(ended["counters"]["feedback_received"].as_u64().is_some());
    let output = sub.output();
    assert_code(&output, 4);
    assert!(
        stderr(&output).contains("was started again"),
        "{}",
        stderr(&output)
    );
    assert!(
        stderr(&output).contains("\"delivered\":2"),
        "{}",
        stderr(&output)
    );
    forward.terminate();
    let stopped = said.wait("that it stops", is("stopped"));
    let stopped: Value = serde_json::from_str(&stopped).unwrap();
    assert_eq!(stopped["counters"]["data_forwarded"], 2);
}

/// Two clusters of this host, each with a gateway.
struct TwoSites {
    clusters: [Rc<Cluster>; 2],
    at: [String; 2],
    /// Options of both gateways beside the usual ones.
    options: Vec<String>,
}

const SITES: [&str; 2] = ["fra", "lon"];

impl TwoSites {
    /// Their gateways are joined, with what each says.
    fn start() -> (Self, [(Running, Lines); 2]) {
        Self::of([(); 2].map(|()| Rc::new(Cluster::new())), &[])
    }

    fn of(clusters: [Rc<Cluster>; 2], options: &[&str]) -> (Self, [(Running, Lines); 2]) {
        let sites = Self {
            clusters,
            at: free_ports(),
            options: options.iter().map(ToString::to_string).collect(),
        };
        let gateways = [0, 1].map(|site| sites.gateway(site));
        for (site, (_, said)) in gateways.iter().enumerate() {
            sites.is_joined(site, said);
        }
        (sites, gateways)
    }

    fn gateway(&self, site: usize) -> (Running, Lines) {
        let name = format!("gate-{}", SITES[site]);
        let from = format!("{}={}", SITES[1 - site], self.at[1 - site]);
        let words = [
            "relay",
            "site",
            SITES[site],
            "--group",
            "prices/*",
            "--json",
        ];
        let more = ["--name", &name, "--listen", &self.at[site], "--from", &from];
        let options = self.options.iter().map(String::as_str);
        let words: Vec<&str> = words.into_iter().chain(more).chain(options).collect();
        let mut running = self.clusters[site].start(&words);
        let said = Lines::of_stdout(&mut running.0);
        said.wait("that it listens", |line| line.contains("listening"));
        (running, said)
    }

    /// The gateway of this site gets what the other sends.
    fn is_joined(&self, site: usize, said: &Lines) {
        let other = format!("\"{}\"", SITES[1 - site]);
        let joined = |line: &str| line.contains("\"joined\"") && line.contains(&other);
        said.wait("the other site", joined);
    }

    /// A subscriber in this site.
    fn subscriber(&self, site: usize) -> (Running, Lines, Lines) {
        let words = ["sub", "prices/eur", "prices/usd", "--json"];
        subscribed(self.clusters[site].start(&words))
    }

    /// A publisher of lines in this site.
    fn pour(&self, site: usize, lines: String) -> Running {
        let words = ["pub", "prices/eur", "--wait-members", "2"];
        let mut command = self.clusters[site].command(&words);
        let mut running = Running(command.stdin(Stdio::piped()).spawn().unwrap());
        let mut stdin = running.0.stdin.take().unwrap();
        thread::spawn(move || stdin.write_all(lines.as_bytes()));
        running
    }

    /// A publisher in the first site, that goes on.
    fn ticker(&self) -> Ticker {
        let words = ["pub", "prices/eur", "--name", "ticker", "--frames"];
        let mut command =
            self.clusters[0].command(&[&words[..], &["--wait-members", "2"]].concat());
        let mut running = Running(command.stdin(Stdio::piped()).spawn().unwrap());
        let stdin = running.0.stdin.take().unwrap();
        Ticker {
            _running: running,
            stdin,
        }
    }
}

struct Ticker {
    stdin: ChildStdin,
    _running: Running,
}

impl Ticker {
    fn tick(&mut self, text: &str) {
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        let frame = [&length, text.as_bytes()].concat();
        self.stdin.write_all(&frame).unwrap();
    }
}

/// The message with this text.
fn next(lines: &Lines, text: &str) -> Value {
    let sought = format!("\"text\":\"{text}\"");
    serde_json::from_str(&lines.wait(text, |line| line.contains(&sought))).unwrap()
}

/// R-RELAY-26 to R-RELAY-28: messages of any length with their origin, both ways.
#[test]
fn groups_of_two_sites_are_one() {
    let (sites, mut gateways) = TwoSites::start();
    let (near_sub, near, _near_told) = sites.subscriber(0);
    let (far_sub, far, _far_told) = sites.subscriber(1);
    let mut ticker = sites.ticker();
    let long = "x".repeat(100_000);
    for (text, number) in [(&*long, 1), ("two", 2)] {
        ticker.tick(text);
        let local = next(&near, text);
        assert_eq!(
            (&local["number"], local.get("origin")),
            (&number.into(), None)
        );
        let message = next(&far, text);
        assert_eq!(message["name"], "gate-lon");
        let origin = ["site", "name", "sender", "number"].map(|key| &message["origin"][key]);
        let expected = [
            &"fra".into(),
            &"ticker".into(),
            &local["sender"],
            &number.into(),
        ];
        assert_eq!(origin, expected);
    }
    let back = ["pub", "prices/usd", "--name", "desk", "--wait-members", "2"];
    assert_code(&sites.clusters[1].run(&back, b"back\n"), 0);
    assert_eq!(next(&near, "back")["origin"]["site"], "lon");
    let (gateway, said) = &mut gateways[0];
    gateway.terminate();
    let stopped = said.wait("that it stops", |line| line.contains("stopped"));
    let stopped: Value = serde_json::from_str(&stopped).unwrap();
    let counted = ["messages_forwarded", "messages_published", "looped"];
    let counted = counted.map(|name| stopped["counters"]["site"][name].as_u64());
    assert_eq!(counted, [Some(2), Some(1), Some(0)]);
    for sub in [near_sub, far_sub] {
        sub.terminate();
        assert_code(&sub.output(), 0);
    }
}

/// R-RELAY-50.
#[test]
fn sites_whose_gateways_have_a_key_in_common_are_one() {
    let keys = Cluster::without_service();
    let key = content_key(&keys, "sites.key");
    let clusters = [(); 2].map(|()| Rc::new(Cluster::new()));
    let (sites, _gateways) = TwoSites::of(clusters, &["--content-key", &key]);
    let (_sub, far, _told) = sites.subscriber(1);
    let (_near_sub, _near, _near_told) = sites.subscriber(0);
    let mut ticker = sites.ticker();
    ticker.tick("sealed on its way");
    assert_eq!(next(&far, "sealed on its way")["origin"]["site"], "fra");
}

/// R-RELAY-29: what a gateway misses that is killed is named by the numbers of its sender.
#[test]
fn a_gap_between_sites_is_named() {
    let (sites, [_near_gate, (gateway, _)]) = TwoSites::start();
    let (_near_sub, near, _near_told) = sites.subscriber(0);
    let (far_sub, far, told) = sites.subscriber(1);
    let mut ticker = sites.ticker();
    ticker.tick("one");
    next(&far, "one");
    gateway.signal("-KILL");
    drop(gateway);
    ticker.tick("lost");
    next(&near, "lost");
    let (_again, said) = sites.gateway(1);
    sites.is_joined(1, &said);
    ticker.tick("three");
    assert_eq!(next(&far, "three")["origin"]["number"], 3);
    let gap = told.wait("the gap", |line| {
        line.contains("LOST: group prices/eur site fra")
    });
    assert!(
        gap.contains("sender ticker") && gap.contains("messages 2..=2"),
        "{gap}"
    );
    far_sub.terminate();
    assert_code(&far_sub.output(), 4);
}

/// R-RELAY-30: each site publishes more than the link takes in that time, and than its gateway has room for.
#[test]
fn two_sites_that_overload_their_link_in_both_directions_lose_nothing() {
    // More than the gateways, their nodes and the windows have room for together.
    const MESSAGES: usize = 8000;
    let clusters = [(); 2].map(|()| Rc::new(Cluster::new()));
    let narrow = &["--max-rate", "10M", "--queue", "256k", "--window", "64"];
    let (sites, mut gateways) = TwoSites::of(clusters, narrow);
    let subscribers = [0, 1].map(|site| {
        let count = (2 * MESSAGES).to_string();
        let sub = ["sub", "prices/eur", "--count", &count];
        subscribed(sites.clusters[site].start(&sub))
    });
    let line = |site: usize, number: usize| format!("{} {number:04} {:08000}", SITES[site], 0);
    let publishers = [0, 1].map(|site| {
        let lines = (0..MESSAGES).map(|number| line(site, number) + "\n");
        sites.pour(site, lines.collect())
    });
    for publisher in publishers {
        assert_code(&publisher.output(), 0);
    }
    for (subscriber, printed, _told) in subscribers {
        let all: Vec<String> = printed.iter().collect();
        for (site, name) in SITES.iter().enumerate() {
            let of = all.iter().filter(|line| line.starts_with(name));
            assert!(
                of.cloned()
                    .eq((0..MESSAGES).map(|number| line(site, number)))
            );
        }
        assert_code(&subscriber.output(), 0);
    }
    for (gateway, said) in &mut gateways {
        gateway.terminate();
        let stopped = said.wait("that it stops", |line| line.contains("stopped"));
        let stopped: Value = serde_json::from_str(&stopped).unwrap();
        let counted = [
            "messages_forwarded",
            "messages_published",
            "missed",
            "missing",
            "untaken",
        ];
        let counted = counted.map(|name| stopped["counters"]["site"][name].as_u64());
        let all = Some(MESSAGES as u64);
        assert_eq!(counted, [all, all, Some(0), Some(0), Some(0)]);
    }
}

/// R-RELAY-26: two gateways in one cluster. Nothing goes in circles, and both say whose fault it is.
#[test]
fn messages_that_come_back_to_their_site_are_told() {
    let cluster = Rc::new(Cluster::new());
    let (sites, mut gateways) = TwoSites::of([Rc::clone(&cluster), cluster], &[]);
    let mut ticker = sites.ticker();
    ticker.tick("one");
    for (site, (gateway, _)) in gateways.iter_mut().enumerate() {
        let told = Lines::of_stderr(&mut gateway.0);
        let other = format!("by the gateway gate-{}", SITES[1 - site]);
        told.wait("the loop", |line| {
            line.contains("come back") && line.contains(&other)
        });
    }
    for (gateway, said) in &gateways {
        gateway.terminate();
        let stopped = said.wait("that it stops", |line| line.contains("stopped"));
        let stopped: Value = serde_json::from_str(&stopped).unwrap();
        let counted = ["messages_forwarded", "messages_published", "looped"];
        let counted = counted.map(|name| stopped["counters"]["site"][name].as_u64());
        assert_eq!(counted, [Some(1); 3]);
    }
}
