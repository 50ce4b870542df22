//! Commands of the book that take hosts of their own, as they stand there; and what one does whose
//! interface goes down.

mod support;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use lab::{HostId, Lab, LinkShape, Network, Translation};
use serde_json::Value;
use support::keys::Keys;
use support::{Lines, QSM, Running, assert_code, subscribed};

/// Starts a command of the book on a host.
fn start(lab: &Lab, host: HostId, command: &str) -> Running {
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "qsm");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents.rs");
    let shown = std::fs::read_to_string(page).unwrap();
    assert!(shown.contains(command), "no page shows `{command}`");
    start_words(lab, host, &words[1..])
}

fn start_words(lab: &Lab, host: HostId, words: &[&str]) -> Running {
    let mut process = lab.command(host, QSM);
    process.args(words).env("QSM_CONFIG", "");
    process
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running(process.spawn().unwrap())
}

/// A service, once it listens.
fn start_service(lab: &Lab, host: HostId, command: &str) -> (Running, Lines) {
    let mut gms = start(lab, host, command);
    let said = Lines::of_stdout(&mut gms.0);
    said.wait("that it listens", |line| line.contains("listening on"));
    (gms, said)
}

#[test]
fn a_subscriber_on_two_networks_does_not_notice_that_one_fails() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap().and_second_network().unwrap();
    let hosts = lab.add_hosts(3).unwrap();
    let both = "--interface eth0 --interface eth1";
    let (_gms, _said) = start_service(&lab, hosts[0], &format!("qsm gms {both}"));
    let sub = start(&lab, hosts[1], &format!("qsm sub news {both}"));
    let (sub, printed, _told) = subscribed(sub);
    let words: Vec<&str> = ["pub", "news"].into_iter().chain(both.split(' ')).collect();
    let mut publisher = start_words(&lab, hosts[2], &words);
    let mut stdin = publisher.0.stdin.take().unwrap();
    let mut arrives = |line: &str| {
        writeln!(stdin, "{line}").unwrap();
        printed.wait(line, |printed| printed == line);
    };
    arrives("both");
    lab.set_network(Network::First, false).unwrap();
    arrives("the second");
    lab.set_network(Network::First, true).unwrap();
    lab.set_network(Network::Second, false).unwrap();
    arrives("the first");
    lab.set_network(Network::Second, true).unwrap();
    drop(stdin);
    assert_code(&publisher.output(), 0);
    sub.terminate();
    assert_code(&sub.output(), 0);
}

#[test]
fn a_node_on_the_wrong_network_names_the_one_that_it_does_not_use() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap().and_second_network().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let sub = start_words(&lab, hosts[0], &["sub", "news", "--interface", "eth0"]);
    let (_sub, _printed, _told) = subscribed(sub);
    let mut lost = start_words(&lab, hosts[1], &["sub", "news", "--interface", "eth1"]);
    let told = Lines::of_stderr(&mut lost.0);
    let alone = told.wait("that it is alone", |line| {
        line.contains("still alone after 10 s")
    });
    let [own, other] = ["eth1 (10.79.0.2)", "eth0 (10.78.0.2)"];
    assert!(
        alone.contains(&format!(
            "goes by {own}, and this host has {other} too (--interface)"
        )),
        "{alone}"
    );
}

#[test]
fn who_joins_late_on_another_host_has_the_last_messages_and_all_that_follow_under_loss() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(4).unwrap();
    let (_gms, _said) = start_service(&lab, hosts[0], "qsm gms");
    let mut keeper = start(&lab, hosts[1], "qsm keep news");
    let told = Lines::of_stderr(&mut keeper.0);
    told.wait("that it keeps", |line| line.contains("keeping news"));
    let (_early, seen, _told) = subscribed(start(&lab, hosts[2], "qsm sub news"));
    let words = ["pub", "news", "--rate", "1000", "--wait-members", "2"];
    let mut publisher = start_words(&lab, hosts[0], &words);
    let mut stdin = publisher.0.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for number in 1..=5000 {
            writeln!(stdin, "{number}").unwrap();
        }
    });
    seen.wait("the middle", |line| line == "2000");
    let words = ["sub", "news", "--last", "500", "--loss", "5"];
    let mut late = start_words(&lab, hosts[3], &words);
    let printed = Lines::of_stdout(&mut late.0);
    let first: u32 = printed.wait("a message", |_| true).parse().unwrap();
    // 500 before it came, and it came no earlier.
    assert!((1500..=4500).contains(&first), "{first}");
    for number in first + 1..=5000 {
        printed.wait("the next message", |line| {
            assert_eq!(line, number.to_string());
            true
        });
    }
    writer.join().unwrap();
    late.terminate();
    assert_code(&late.output(), 0);
    assert_code(&publisher.output(), 0);
}

#[test]
fn clusters_with_ranges_of_their_own_share_no_address() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let blue = "qsm gms --cluster blue --data-range 239.193.0.0/16";
    let _services = [
        start_service(&lab, hosts[0], "qsm gms"),
        start_service(&lab, hosts[1], blue),
    ];
    let _nodes = [
        subscribed(start(&lab, hosts[0], "qsm sub news")),
        subscribed(start_words(
            &lab,
            hosts[1],
            &["sub", "news", "--cluster", "blue"],
        )),
    ];
    let address = |words: &[&str]| {
        let listed = start_words(&lab, hosts[0], words).output();
        assert_code(&listed, 0);
        let rows: Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
        rows[0]["address"].as_str().unwrap().to_owned()
    };
    let own = address(&["regions", "--json"]);
    assert!(own.starts_with("239.192."), "{own}");
    let other = address(&["regions", "--json", "--cluster", "blue"]);
    assert!(other.starts_with("239.193."), "{other}");
}

/// Changes a host's interface.
fn ip(lab: &Lab, host: HostId, words: &str) {
    let status = lab.command(host, "ip").args(words.split(' ')).status();
    assert!(status.unwrap().success(), "ip {words}");
}

#[test]
fn a_node_whose_interface_is_down_serves_nobody_and_comes_back() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(3).unwrap();
    // The first runs the service for all.
    let first = start_words(&lab, hosts[0], &["sub", "news"]);
    let (first, _printed, _told) = subscribed(first);
    let other = start_words(&lab, hosts[1], &["sub", "news", "--name", "other"]);
    let (other, printed, told) = subscribed(other);
    let words = [
        "pub",
        "news",
        "--wait-members",
        "2",
        "--flush-timeout",
        "60",
    ];
    let mut publisher = start_words(&lab, hosts[2], &words);
    let mut stdin = publisher.0.stdin.take().unwrap();
    let mut publish = |line: &str| {
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    };
    publish("before");
    printed.wait("before", |line| line == "before");
    ip(&lab, hosts[1], "link set dev eth0 down");
    publish("meanwhile");
    told.wait("that it has no address", |line| line.contains("NO ADDRESS"));
    // Longer than it looks for a service before it would run one.
    thread::sleep(Duration::from_secs(3));
    ip(&lab, hosts[1], "link set dev eth0 up");
    printed.wait("meanwhile", |line| line == "meanwhile");
    told.wait("that it is back", |line| line.contains("has caught up"));
    publish("after");
    printed.wait("after", |line| line == "after");
    drop(stdin);
    assert_code(&publisher.output(), 0);
    other.terminate();
    let ended = other.output();
    assert_code(&ended, 0);
    let said: Vec<String> = told.iter().collect();
    let served = said.iter().find(|line| line.contains("runs one"));
    assert_eq!(served, None, "{said:?}");
    first.terminate();
    assert_code(&first.output(), 0);
}

/// Messages of a stream between sites.
const MESSAGES: usize = 3000;

/// Messages of 1,000 bytes that take a link of 10 Mbit/s some seconds.
const MARKED_MESSAGES: u64 = 6000;

/// The sites of a stream: a source and a relay with two receivers, and behind a long link a relay with
/// three.
struct Sites {
    lab: Lab,
    hosts: Vec<HostId>,
    keys: Keys,
}

impl Sites {
    fn at(&self, host: usize) -> String {
        format!("{}:4490", self.lab.host(self.hosts[host]).address())
    }

    fn relay(&self, host: usize, parent: &str) -> Running {
        self.relay_heard(host, parent).0
    }

    /// A relay, and what it says of itself.
    fn relay_heard(&self, host: usize, parent: &str) -> (Running, Lines) {
        let (listen, key) = (
            self.at(host),
            self.key(&format!("relay-{host}"), &["--role", "relay"]),
        );
        let words = [
            "relay",
            "--parent",
            parent,
            "--listen",
            &listen,
            "--json",
            "--identity",
            &key,
        ];
        let mut relay = start_words(&self.lab, self.hosts[host], &words);
        let said = Lines::of_stdout(&mut relay.0);
        said.wait("that it listens", |line| line.contains("listening"));
        (relay, said)
    }

    /// The key of this name, which is made when it is needed first.
    fn key(&self, name: &str, rights: &[&str]) -> String {
        let made = format!("{}/{name}.key", self.keys.folder());
        match Path::new(&made).exists() {
            true => made,
            false => self.keys.key(name, rights),
        }
    }

    /// A receiver, and all that it writes.
    fn receiver(&self, host: usize, relay: usize) -> (Running, Lines) {
        let (parent, key) = (
            self.at(relay),
            self.key(&format!("sub-{host}"), &["--subscribe", "news"]),
        );
        let words = [
            "relay",
            "sub",
            "news",
            "--parent",
            &parent,
            "--identity",
            &key,
        ];
        let mut sub = start_words(&self.lab, self.hosts[host], &words);
        let lines = Lines::of_stdout(&mut sub.0);
        (sub, lines)
    }
}

fn line(number: usize) -> String {
    format!("message {number} of some length, as such messages are")
}

/// Reads on up to this message.
fn read_to(lines: &Lines, all: &mut Vec<String>, number: usize) {
    let last = line(number);
    while all.last() != Some(&last) {
        all.push(lines.iter().next().expect("it goes on"));
    }
}

/// R-RELAY-3, R-RELAY-19, R-RELAY-22 to R-RELAY-24: protected, over a link of 10 ms that loses half a percent, a relay that is killed and comes
/// back, a port that changes in mid-stream.
#[test]
fn two_sites_get_a_stream_whole_though_a_relay_is_killed_and_a_port_changes() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let far_site = lab.add_site().unwrap();
    let shape = LinkShape {
        delay: Duration::from_millis(10),
        loss_ppm: 5000,
        ..LinkShape::default()
    };
    let shape = shape.with_rate(4_000_000);
    lab.link(lab.first_site(), far_site, shape).unwrap();
    let mut hosts = lab.add_hosts(4).unwrap();
    hosts.extend((0..4).map(|_| lab.add_host_at(far_site).unwrap()));
    let keys = Keys::new();
    let sites = Sites { lab, hosts, keys };
    let source = sites.at(0);
    let words = [
        "relay",
        "pub",
        "news",
        "--wait-receivers",
        "5",
        "--listen",
        &source,
        // So that it takes three seconds.
        "--max-rate",
        "120k",
        "--identity",
        &sites.key("pub", &["--publish", "news"]),
    ];
    let mut publisher = start_words(&sites.lab, sites.hosts[0], &words);
    let _near = sites.relay(1, &source);
    let far = sites.relay(4, &sites.at(1));
    let mut receivers: Vec<(Running, Lines)> = [(2, 1), (3, 1), (5, 4), (6, 4), (7, 4)]
        .map(|(host, relay)| sites.receiver(host, relay))
        .into();
    let mut stdin = publisher.0.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for number in 0..MESSAGES {
            writeln!(stdin, "{}", line(number)).unwrap();
        }
    });
    // One that is far away has the first third.
    let (sub, lines) = receivers.pop().unwrap();
    let mut all = Vec::new();
    read_to(&lines, &mut all, MESSAGES / 3);
    far.signal("-KILL");
    drop(far);
    let _again = sites.relay(4, &sites.at(1));
    // It is linked again.
    read_to(&lines, &mut all, MESSAGES / 3 * 2);
    let of = Translation {
        port: 4490,
        outside: 5001,
    };
    let [near, far] = [sites.hosts[1], sites.hosts[4]];
    sites.lab.translate(far, of, near).unwrap();
    all.extend(lines.iter());
    let expected: Vec<String> = (0..MESSAGES).map(line).collect();
    assert_eq!(all, expected);
    assert_code(&sub.output(), 0);
    for (sub, lines) in receivers {
        assert_eq!(lines.iter().collect::<Vec<_>>(), expected);
        assert_code(&sub.output(), 0);
    }
    writer.join().unwrap();
    assert_code(&publisher.output(), 0);
}

/// R-RELAY-70, R-RELAY-74: over a link of 20 ms that loses a percent.
#[test]
fn what_a_long_link_loses_is_restored_by_parity_unless_it_is_off() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let far_site = lab.add_site().unwrap();
    let shape = LinkShape {
        delay: Duration::from_millis(20),
        loss_ppm: 10_000,
        ..LinkShape::default()
    };
    lab.link(lab.first_site(), far_site, shape).unwrap();
    let near = lab.add_hosts(1).unwrap()[0];
    let far = lab.add_host_at(far_site).unwrap();
    let source = format!("{}:4490", lab.host(near).address());
    let metrics = format!("{}:9464", lab.host(far).address());
    for parity in ["auto", "off"] {
        let words = ["relay", "pub", "news", "--listen", &source];
        let options = ["--max-rate", "120k", "--parity", parity];
        let mut publisher = start_words(&lab, near, &[&words[..], &options].concat());
        let words = "relay sub news --stats json --metrics";
        let words = words.split(' ').chain([&*metrics, "--parent", &source]);
        let mut sub = start_words(&lab, far, &words.collect::<Vec<_>>());
        let lines = Lines::of_stdout(&mut sub.0);
        let stdin = publisher.0.stdin.take().unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let writer = write_until(stdin, ended.clone());
        let mut all = Vec::new();
        // With parity until some has restored a packet: heavy losses, also a busy machine's, hold it off for a while.
        while all.len() < MESSAGES * (if parity == "off" { 1 } else { 20 }) {
            let last = all.len() + MESSAGES / 10;
            read_to(&lines, &mut all, last - 1);
            if restored(&lab, far, &metrics) > 0 {
                break;
            }
        }
        ended.store(true, Ordering::Relaxed);
        let sent = writer.join().unwrap();
        all.extend(lines.iter());
        assert!((0..sent).map(line).eq(all));
        assert_code(&publisher.output(), 0);
        let output = sub.output();
        assert_code(&output, 0);
        let said = String::from_utf8_lossy(&output.stderr);
        let (_, restored) = said.split_once("\"parity_restored\":").unwrap();
        let is_none = restored.starts_with("0,");
        assert_eq!(is_none, parity == "off", "{said}");
    }
}

/// Writes lines until it is told to end; how many.
fn write_until(mut to: ChildStdin, ended: Arc<AtomicBool>) -> JoinHandle<usize> {
    thread::spawn(move || {
        let mut number = 0;
        while !ended.load(Ordering::Relaxed) {
            writeln!(to, "{}", line(number)).unwrap();
            number += 1;
        }
        number
    })
}

/// Packets that a receiver has restored by parity, as it serves them at this address.
fn restored(lab: &Lab, host: HostId, metrics: &str) -> u64 {
    let mut stream = {
        let _inside = lab.enter(host).unwrap();
        TcpStream::connect(metrics).unwrap()
    };
    let question = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(question.as_bytes()).unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let mut counts = page
        .lines()
        .filter(|line| line.contains("parity_restored") && !line.starts_with('#'));
    let count = counts.next().and_then(|line| line.rsplit(' ').next());
    count.unwrap_or_else(|| panic!("{page}")).parse().unwrap()
}

/// R-RELAY-80: protected, over a link of 10 Mbit/s whose queue marks what waits for 20 ms, and holds ten times as much.
#[test]
fn a_stream_makes_way_for_marks_of_a_link_and_loses_nothing() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let far_site = lab.add_site().unwrap();
    let shape = LinkShape {
        delay: Duration::from_millis(10),
        rate: Some(1_250_000),
        queue: 250_000,
        mark: 25_000,
        ..LinkShape::default()
    };
    let link = lab.link(lab.first_site(), far_site, shape).unwrap();
    let mut hosts = lab.add_hosts(1).unwrap();
    hosts.extend((0..3).map(|_| lab.add_host_at(far_site).unwrap()));
    let keys = Keys::new();
    let sites = Sites { lab, hosts, keys };
    let source = sites.at(0);
    let key = sites.key("pub", &["--publish", "news"]);
    let words = "relay pub news --json --wait-receivers 2 --listen";
    let words: Vec<&str> = words
        .split(' ')
        .chain([&*source, "--identity", &key])
        .collect();
    let mut publisher = start_words(&sites.lab, sites.hosts[0], &words);
    let (relay, said) = sites.relay_heard(1, &source);
    let receivers = [2, 3].map(|host| sites.receiver(host, 1));
    let mut stdin = publisher.0.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for number in 0..MARKED_MESSAGES {
            writeln!(stdin, "{number:01000}").unwrap();
        }
    });
    for (sub, lines) in receivers {
        let numbers = lines.iter().map(|line| line.parse::<u64>().unwrap());
        assert!(numbers.eq(0..MARKED_MESSAGES));
        let output = sub.output();
        assert_code(&output, 0);
    }
    writer.join().unwrap();
    relay.terminate();
    let publisher = publisher.output();
    assert_code(&publisher, 0);
    let last = |text: Option<&str>| -> Value { serde_json::from_str(text.unwrap()).unwrap() };
    let printed = String::from_utf8_lossy(&publisher.stdout);
    let source = last(printed.lines().last());
    let relay = last(said.iter().last().as_deref());
    let [to, _] = sites.lab.link_counters(link).unwrap();
    let found = format!("{source} {relay} {to:?}");
    assert!(source["counters"]["marks"].as_u64() > Some(0), "{found}");
    assert_eq!(source["counters"]["unmarkable"], 0, "{found}");
    assert_eq!(relay["ecn"]["marked"], to.marked_packets, "{found}");
    assert!(to.marked_packets > 0, "{found}");
    assert_eq!((to.overflowed_packets, to.lost_packets), (0, 0), "{found}");
}
