//! Commands of the book that take hosts of their own, as they stand there; and what one does whose
//! interface goes down.

mod support;

use std::io::{Read, Write};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use lab::{HostId, Lab, LinkShape, Network, Translation};
use serde_json::Value;
use support::{Cluster, Lines, QSM, Running, assert_code, qsm, stderr, text};

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

/// A subscriber, once it is there; and what it prints.
fn subscribed(mut sub: Running) -> (Running, Lines, Lines) {
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("where it is", |line| line.contains("subscribed to"));
    let printed = Lines::of_stdout(&mut sub.0);
    (sub, printed, told)
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

/// A cluster's root, and keys of those who have tokens of it.
struct Keys {
    cluster: Cluster,
}

impl Keys {
    fn new() -> Self {
        let keys = Self {
            cluster: Cluster::without_service(),
        };
        let folder = keys.folder();
        assert_code(
            &qsm()
                .args(["init", &folder, "--cluster", "plant"])
                .output()
                .unwrap(),
            0,
        );
        keys
    }

    fn folder(&self) -> String {
        text(&self.cluster.folder.join("plant"))
    }

    /// The file of a new key, beside it a token for this name and with these rights.
    fn key(&self, name: &str, rights: &[&str]) -> String {
        let folder = self.folder();
        let [key, token] = ["key", "token"].map(|end| format!("{folder}/{name}.{end}"));
        assert_code(&qsm().args(["keygen", &key, "--node"]).output().unwrap(), 0);
        let words = ["token", "new", &folder, "--name", name, "--node", &key];
        let mut made = qsm();
        made.args(words).args(rights).args(["--output", &token]);
        assert_code(&made.output().unwrap(), 0);
        key
    }
}

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
        relay
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

/// A command of relays over loopback, with pipes.
fn relaying(words: &[&str]) -> Running {
    let mut command = qsm();
    command.arg("relay").args(words);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running(command.spawn().unwrap())
}

/// Ports of this host that are free now.
fn free_ports<const N: usize>() -> [String; N] {
    let sockets = [(); N].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().to_string())
}

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
}

const SITES: [&str; 2] = ["fra", "lon"];

impl TwoSites {
    /// Their gateways are joined, with what each says.
    fn start() -> (Self, [(Running, Lines); 2]) {
        Self::of([(); 2].map(|()| Rc::new(Cluster::new())))
    }

    fn of(clusters: [Rc<Cluster>; 2]) -> (Self, [(Running, Lines); 2]) {
        let sites = Self {
            clusters,
            at: free_ports(),
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
        let mut running = self.clusters[site].start(&[words, more].concat());
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

/// R-RELAY-26: two gateways in one cluster. Nothing goes in circles, and both say whose fault it is.
#[test]
fn messages_that_come_back_to_their_site_are_told() {
    let cluster = Rc::new(Cluster::new());
    let (sites, mut gateways) = TwoSites::of([Rc::clone(&cluster), cluster]);
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
