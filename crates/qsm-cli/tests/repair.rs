//! The limit of repairs, changed while a cluster runs.

mod support;

use std::io::Write;
use std::process::{Command, Output};
use std::thread;

use lab::{HostId, Lab, Traffic};
use serde_json::Value;
use support::{Cluster, Lines, QSM, Running, assert_code, piped, qsm, stderr};

const SERVICE_PORT: &str = "4480";
/// Few enough that repairs under the limit take seconds even if each message has a packet of its own: after ten a receiver
/// that others wait for is away.
const COUNT: usize = 5_000;
/// One in ten.
const LOSS: u32 = 100_000;

/// A host with the service, two with receivers that lose much, and one with a publisher.
struct Stage {
    lab: Lab,
    hosts: Vec<HostId>,
}

impl Stage {
    fn command(&self, host: usize, words: &[&str]) -> Command {
        piped(self.lab.command(self.hosts[host], QSM), words)
    }

    fn address(&self, host: usize) -> String {
        self.lab.host(self.hosts[host]).address().to_string()
    }

    fn start_node(&self, host: usize, words: &[&str]) -> Running {
        let service = format!("{}:{SERVICE_PORT}", self.address(0));
        let own = self.address(host);
        let options = ["--interface", own.as_str(), "--service", service.as_str()];
        Running(
            self.command(host, &[words, &options].concat())
                .spawn()
                .unwrap(),
        )
    }

    fn repair(&self, words: &[&str]) -> Output {
        let words = [&["repair"], words].concat();
        self.command(0, &words).output().unwrap()
    }
}

/// A counter of a command, as it says at its end.
fn counter(output: &Output, name: &str) -> u64 {
    let said = stderr(output);
    let stats = said.lines().find(|line| line.starts_with('{')).unwrap();
    let stats: Value = serde_json::from_str(stats).unwrap();
    stats["protocol"][name].as_u64().unwrap()
}

// Rule R-NAK-16.
#[test]
fn nodes_of_all_hosts_obey_a_limit_that_is_set_while_they_run() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(4).unwrap();
    let stage = Stage { lab, hosts };
    let listen = format!("{}:{SERVICE_PORT}", stage.address(0));
    let gms = stage
        .command(0, &["gms", "--json", "--listen", &listen])
        .spawn();
    let mut gms = Running(gms.unwrap());
    let said = Lines::of_stdout(&mut gms.0);
    said.wait("that it listens", |line| line.contains("address"));
    for host in 1..=2 {
        let multicast = Traffic::Multicast;
        stage
            .lab
            .set_loss(stage.hosts[host], LOSS, multicast)
            .unwrap();
    }
    let until = COUNT.to_string();
    let words = ["sub", "news", "--count", &until, "--stats", "json"];
    let receivers = [1, 2].map(|host| stage.start_node(host, &words));
    let words = [
        "pub",
        "news",
        "--wait-members",
        "2",
        "--rate",
        "20000",
        "--stats",
        "json",
    ];
    let mut publisher = stage.start_node(3, &words);
    for _ in 0..3 {
        said.wait("that a node is in", |line| line.contains("admitted"));
    }
    let output = stage.repair(&["--limit", "20k", "--json"]);
    assert_code(&output, 0);
    let limits: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(limits[0]["bytes_per_second"], 20 * 1024);
    assert_eq!(
        (&limits[0]["nodes"], &limits[0]["share"]),
        (&3.into(), &Value::Null)
    );
    let mut stdin = publisher.0.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        for number in 1..=COUNT {
            writeln!(stdin, "{number}").unwrap();
        }
    });
    let outputs = receivers.map(|one| thread::spawn(|| one.output()));
    writer.join().unwrap();
    let sent = publisher.output();
    assert_code(&sent, 0);
    let received = outputs.map(|one| one.join().unwrap());
    let numbers: Vec<String> = (1..=COUNT).map(|number| number.to_string()).collect();
    let mut over = counter(&sent, "repairs_over_limit");
    for output in &received {
        assert_code(output, 0);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.lines().eq(numbers.iter()), "{}", stderr(output));
        over += counter(output, "repairs_over_limit");
    }
    assert!(over > 0, "nobody has kept to the limit");
    let shown = stage.repair(&[]);
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("at most 20.5 kB/s of each node"), "{shown}");
}

// Rule R-NAK-16.
#[test]
fn a_service_within_a_node_is_asked_too_and_what_is_wrong_is_said() {
    let cluster = Cluster::without_service();
    let name = cluster.option("--cluster").to_owned();
    let mut sub = cluster.command(&["sub", "news"]).spawn().unwrap();
    let said = Lines::of_stderr(&mut sub);
    let _sub = Running(sub);
    said.wait("that it receives", |line| line.contains("subscribed to"));
    let repair = |words: &[&str]| {
        let mut command = qsm();
        command.arg("repair").args(words).output().unwrap()
    };
    let output = repair(&["--cluster", &name, "--limit", "5%"]);
    assert_code(&output, 0);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        said.contains("at most 5 % of what is new of each node"),
        "{said}"
    );
    let output = repair(&["--cluster", &name, "--limit", "none", "--json"]);
    let limits: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(limits[0]["share"], Value::Null);
    let output = repair(&["--cluster", "there-is-none"]);
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("of other clusters"),
        "{}",
        stderr(&output)
    );
    let output = repair(&["--limit", "five"]);
    assert_code(&output, 2);
}
