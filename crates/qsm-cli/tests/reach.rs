//! Multicast that does not pass between hosts of a lab is named at all three ends.

mod support;

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{ChildStdin, Command, Output};
use std::thread;

use lab::{HostId, Lab, Traffic};
use serde_json::{Value, json};
use support::{Lines, QSM, Running, piped};

/// Loss of everything.
const ALL: u32 = 1_000_000;
const PORT: &str = "4480";
/// Lines on their way at a time.
const AHEAD: usize = 20;
/// The same where they are numbered.
const NUMBERS_AHEAD: usize = 2000;
/// Numbers a second, at most: those for which a receiver hears no multicast take two seconds.
const RATE: &str = "10000";

/// Hosts of a lab and the processes on them.
struct Stage {
    lab: Lab,
    hosts: Vec<HostId>,
}

impl Stage {
    /// `None` where there can be no lab.
    fn new(hosts: usize) -> Option<Self> {
        if !lab::ready() {
            return None;
        }
        let mut lab = Lab::new().unwrap();
        let hosts = lab.add_hosts(hosts).unwrap();
        Some(Self { lab, hosts })
    }

    fn address(&self, host: usize) -> String {
        self.lab.host(self.hosts[host]).address().to_string()
    }

    /// Multicast does not reach the host, or does again.
    fn filter(&self, host: usize, on: bool) {
        let loss = if on { ALL } else { 0 };
        let multicast = Traffic::Multicast;
        self.lab
            .set_loss(self.hosts[host], loss, multicast)
            .unwrap();
    }

    /// Starts a command on a host, with these words.
    fn start(&self, host: usize, words: &[&str]) -> Running {
        let mut command = piped(self.lab.command(self.hosts[host], QSM), words);
        Running(command.spawn().unwrap())
    }

    /// The region of the group, as the node on a host explains it.
    fn explain(&self, host: usize) -> Value {
        let mut command = self.lab.command(self.hosts[host], QSM);
        let output = command.args(["explain", "news", "--json"]).output();
        let output = output.unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        let mut nodes: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(nodes.as_array().map(Vec::len), Some(1), "{nodes}");
        nodes[0]["group"]["regions"][0].take()
    }

    fn start_service(&self) -> (Running, Lines) {
        let listen = format!("{}:{PORT}", self.address(0));
        let mut gms = self.start(0, &["gms", "--json", "--listen", &listen]);
        let said = Lines::of(gms.0.stdout.take().unwrap());
        said.wait("that it listens", |line| line.contains("address"));
        (gms, said)
    }

    /// Starts a node's command, which is told of the service.
    fn start_node(&self, host: usize, words: &[&str]) -> Running {
        let service = format!("{}:{PORT}", self.address(0));
        let own = self.address(host);
        let options = ["--interface", own.as_str(), "--service", service.as_str()];
        self.start(host, &[words, &options].concat())
    }
}

/// Waits for an event of the service, and names the node that it is about.
#[track_caller]
fn wait_for(service: &Lines, event: &str) -> String {
    let is = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["event"] == event
    };
    let line: Value = serde_json::from_str(&service.wait(event, is)).unwrap();
    line["name"].as_str().unwrap_or_default().to_owned()
}

/// Publishes some lines, and another one for each that a receiver prints, until the test ends. So
/// messages go on, at the pace of what comes, however little that is.
fn keep_publishing(mut stdin: ChildStdin, printed: Lines) {
    thread::spawn(move || {
        let ahead = (0..AHEAD).map(|_| String::new());
        for _ in ahead.chain(printed.iter()) {
            if writeln!(stdin, "something new").is_err() {
                return;
            }
        }
    });
}

/// Three receivers and a publisher with a service, and the lines of their stderr.
fn cluster(stage: &Stage) -> (Vec<Running>, Vec<Lines>, Lines) {
    let (gms, said) = stage.start_service();
    let mut running = vec![gms];
    let (mut lines, mut printed) = (Vec::new(), Vec::new());
    for (host, name) in [(1, "sink-1"), (2, "sink-2"), (3, "sink-3")] {
        let mut sub = stage.start_node(host, &["sub", "news", "--name", name]);
        lines.push(Lines::of_stderr(&mut sub.0));
        printed.push(Lines::of(sub.0.stdout.take().unwrap()));
        running.push(sub);
    }
    let first = printed.remove(0);
    for other in printed {
        // Nobody needs its messages: the pipe would fill.
        thread::spawn(move || other.iter().for_each(drop));
    }
    let words = ["pub", "news", "--name", "source", "--wait-members", "3"];
    let mut publisher = stage.start_node(4, &words);
    lines.push(Lines::of_stderr(&mut publisher.0));
    keep_publishing(publisher.0.stdin.take().unwrap(), first);
    running.push(publisher);
    (running, lines, said)
}

// Rules R-REACH-1, R-REACH-3.
#[test]
fn a_receiver_that_multicast_does_not_reach_is_named_at_all_three_ends() {
    let Some(stage) = Stage::new(5) else { return };
    stage.filter(2, true);
    let (_running, lines, service) = cluster(&stage);
    assert_eq!(wait_for(&service, "deaf"), "sink-2");
    let deaf = lines[1].wait("DEAF", |line| line.contains("DEAF: multicast of "));
    assert!(deaf.contains("does not reach this node"), "{deaf}");
    assert!(deaf.contains("IGMP") && deaf.contains("firewall"), "{deaf}");
    let unheard = lines[3].wait("NOT HEARD", |line| line.contains("NOT HEARD"));
    assert!(unheard.contains("does not reach sink-2 at "), "{unheard}");
    let source = stage.explain(4);
    let members = source["members"].as_array().unwrap();
    for member in members {
        let reached = match member["name"].as_str() {
            Some("sink-2") => "copies",
            _ => "multicast",
        };
        assert_eq!(member["reached"], reached, "{source}");
    }
    assert_eq!((members.len(), &source["datagrams"]), (3, &json!(2)));
    let streams = &stage.explain(2)["receiving"];
    assert_eq!(streams[0]["sender"], "source", "{streams}");
    assert!(streams[0]["unheard_millis"].is_u64(), "{streams}");
    stage.filter(2, false);
    assert_eq!(wait_for(&service, "hears"), "sink-2");
    lines[1].wait("that it hears", |line| {
        line.contains("reaches this node again")
    });
    lines[3].wait("that it is heard", |line| {
        line.contains("reaches sink-2 at ")
    });
    for healthy in [&lines[0], &lines[2]] {
        let said: Vec<String> = healthy.so_far().collect();
        assert!(!said.iter().any(|line| line.contains("DEAF")), "{said:?}");
    }
}

// Rules R-REACH-2, R-REACH-3.
#[test]
fn where_no_multicast_passes_all_receivers_are_named() {
    let Some(stage) = Stage::new(5) else { return };
    (0..5).for_each(|host| stage.filter(host, true));
    let (_running, lines, service) = cluster(&stage);
    let sinks = ["sink-1", "sink-2", "sink-3"].map(str::to_owned);
    let mut deaf = BTreeSet::new();
    while deaf.len() < sinks.len() {
        deaf.insert(wait_for(&service, "deaf"));
    }
    assert!(deaf.iter().eq(sinks.iter()), "{deaf:?}");
    for receiver in &lines[..3] {
        receiver.wait("DEAF", |line| line.contains("DEAF: multicast of "));
    }
    let mut unheard: BTreeSet<String> = sinks.into();
    while !unheard.is_empty() {
        let line = lines[3].wait("NOT HEARD", |line| line.contains("NOT HEARD"));
        unheard.retain(|sink| !line.contains(&format!("does not reach {sink} at ")));
    }
}

/// What publisher and receivers have written.
struct Published {
    publisher: Output,
    receivers: Vec<Output>,
}

/// Three receivers that print all of these numbers, and a publisher of them, with these options, at [`RATE`]
/// and the pace at which the first receiver prints. `step` is called with each number that it has printed.
/// `multicast`: that of the second receiver and of the publisher, and that of the others.
fn publish_numbers(
    stage: &Stage,
    count: usize,
    multicast: [&str; 2],
    options: &[&str],
    mut step: impl FnMut(usize),
) -> Published {
    let (_gms, _said) = stage.start_service();
    let until = count.to_string();
    let words = |of| {
        [
            "sub",
            "news",
            "--count",
            &until,
            "--stats",
            "json",
            "--multicast",
            of,
        ]
    };
    let mut first = stage.start_node(1, &words(multicast[1]));
    let others = [(2, multicast[0]), (3, multicast[1])];
    let others = others.map(|(host, of)| stage.start_node(host, &words(of)));
    let words = [
        "pub",
        "news",
        "--wait-members",
        "3",
        "--multicast",
        multicast[0],
        "--rate",
        RATE,
        "--stats",
        "json",
    ];
    let mut publisher = stage.start_node(4, &[&words, options].concat());
    let mut stdin = publisher.0.stdin.take().unwrap();
    let printed = Lines::of_stdout(&mut first.0);
    let others = others.map(|sub| thread::spawn(|| sub.output()));
    for number in 1..=NUMBERS_AHEAD {
        writeln!(stdin, "{number}").unwrap();
    }
    for (line, number) in printed.iter().zip(1..) {
        assert_eq!(line, number.to_string());
        step(number);
        if number + NUMBERS_AHEAD <= count {
            writeln!(stdin, "{}", number + NUMBERS_AHEAD).unwrap();
        }
        if number == count {
            break;
        }
    }
    drop(stdin);
    let publisher = publisher.output();
    assert!(publisher.status.success(), "{publisher:?}");
    let others = others.into_iter().map(|other| other.join().unwrap());
    Published {
        publisher,
        receivers: others.collect(),
    }
}

/// What a command counted.
fn stats(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    let stats = said.lines().find(|line| line.starts_with('{')).unwrap();
    serde_json::from_str(stats).unwrap()
}

/// Each number once and in order, and the receiver's counter of copies.
#[track_caller]
fn copies_of(output: &Output, count: usize) -> u64 {
    let printed = String::from_utf8_lossy(&output.stdout);
    let numbers = (1..=count).map(|number| number.to_string());
    assert!(printed.lines().eq(numbers), "{output:?}");
    stats(output)["protocol"]["copies_received"]
        .as_u64()
        .unwrap()
}

// Rules R-REACH-4, R-REACH-5.
#[test]
fn a_receiver_that_multicast_reaches_for_a_part_of_the_time_misses_and_doubles_nothing() {
    const COUNT: usize = 30_000;
    let Some(stage) = Stage::new(5) else { return };
    let published = publish_numbers(&stage, COUNT, ["asm", "asm"], &[], |number| match number {
        5_000 => stage.filter(2, true),
        25_000 => stage.filter(2, false),
        _ => {}
    });
    assert!(copies_of(&published.receivers[0], COUNT) > 0);
    assert_eq!(copies_of(&published.receivers[1], COUNT), 0);
}

// Rules R-REACH-2, R-REACH-4.
#[test]
fn where_no_multicast_passes_everything_arrives_by_copies() {
    const COUNT: usize = 10_000;
    let Some(stage) = Stage::new(5) else { return };
    (0..5).for_each(|host| stage.filter(host, true));
    let published = publish_numbers(&stage, COUNT, ["asm", "asm"], &[], |_| {});
    for output in published.receivers {
        assert!(copies_of(&output, COUNT) > 0);
    }
}

// Rule R-REACH-6.
#[test]
fn nodes_without_multicast_get_everything_and_doubt_nobody() {
    const COUNT: usize = 20_000;
    let Some(stage) = Stage::new(5) else { return };
    (0..5).for_each(|host| stage.filter(host, true));
    let published = publish_numbers(&stage, COUNT, ["none", "none"], &[], |_| {});
    for output in published.receivers {
        assert!(copies_of(&output, COUNT) > 0);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("DEAF"), "{said}");
    }
}

// Rule R-REACH-6.
#[test]
fn copies_that_the_kernel_clones_get_everything_to_everybody() {
    const COUNT: usize = 20_000;
    let Some(stage) = Stage::new(5) else { return };
    (0..5).for_each(|host| stage.filter(host, true));
    let clones = ["--clone-copies"];
    let published = publish_numbers(&stage, COUNT, ["none", "none"], &clones, |_| {});
    for output in published.receivers {
        assert!(copies_of(&output, COUNT) > 0);
    }
    let cloned = &stats(&published.publisher)["port"]["sent_cloned"];
    assert!(cloned.as_u64().unwrap() > 0, "{:?}", published.publisher);
}

// Rule R-REACH-6.
#[test]
fn nodes_with_multicast_and_without_are_in_one_cluster() {
    const COUNT: usize = 10_000;
    let Some(stage) = Stage::new(5) else { return };
    let published = publish_numbers(&stage, COUNT, ["none", "asm"], &[], |_| {});
    for output in published.receivers {
        assert!(copies_of(&output, COUNT) > 0);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("DEAF"), "{said}");
    }
}

#[test]
fn a_node_without_multicast_and_without_a_service_says_what_it_lacks() {
    let words = ["sub", "news", "--multicast", "none", "--interface", "lo"];
    let output = Command::new(QSM).args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("cannot look for a membership service")
            && said.contains("--service HOST:PORT"),
        "{said}"
    );
}

#[test]
fn nodes_that_do_not_find_each_other_wait_and_then_say_that_they_are_alone() {
    let Some(stage) = Stage::new(2) else { return };
    (0..2).for_each(|host| stage.filter(host, true));
    let own = [stage.address(0), stage.address(1)];
    let mut sub = stage.start(0, &["sub", "news", "--interface", &own[0]]);
    let calm = |line: &str| line.contains("no membership service answered at 239.");
    let alone = |line: &str| line.contains("still alone after 10 s") && line.contains("--service");
    let words = ["pub", "news", "--wait-members", "1", "--wait-timeout", "20"];
    let mut publisher = stage.start(1, &[&words[..], &["--interface", &own[1]]].concat());
    let lines = Lines::of_stderr(&mut publisher.0);
    let said = Lines::of_stderr(&mut sub.0);
    for lines in [&said, &lines] {
        let first = lines.wait("that no service answered", calm);
        assert!(first.contains("waiting for others"), "{first}");
        lines.wait("that it is alone", alone);
    }
    lines.wait("why nobody is there", |line| {
        line.contains("multicast may not pass between the hosts") && line.contains("--cluster ")
    });
    assert_eq!(publisher.0.wait().unwrap().code(), Some(3));
}
