//! Two clusters whose services give the same multicast address.

mod support;

use std::io::Write;
use std::process::Output;
use std::thread::{self, JoinHandle};

use lab::{HostId, Lab};
use serde_json::Value;
use support::{Lines, QSM, Running, assert_code, piped};

const COUNT: usize = 30_000;

/// A cluster on the hosts of a lab that others are on, too.
struct Cluster<'a> {
    lab: &'a Lab,
    hosts: &'a [HostId],
    name: &'static str,
    port: &'static str,
}

impl Cluster<'_> {
    fn address(&self, host: usize) -> String {
        self.lab.host(self.hosts[host]).address().to_string()
    }

    fn service(&self) -> String {
        format!("{}:{}", self.address(0), self.port)
    }

    fn start(&self, host: usize, words: &[&str]) -> Running {
        let mut command = piped(self.lab.command(self.hosts[host], QSM), words);
        command.args(["--cluster", self.name]);
        Running(command.spawn().unwrap())
    }

    fn start_service(&self) -> (Running, Lines) {
        let mut gms = self.start(0, &["gms", "--json", "--listen", &self.service()]);
        let said = Lines::of_stdout(&mut gms.0);
        said.wait("that it listens", |line| line.contains("address"));
        (gms, said)
    }

    fn start_node(&self, host: usize, words: &[&str]) -> Running {
        let (own, service) = (self.address(host), self.service());
        let options = ["--interface", own.as_str(), "--service", service.as_str()];
        self.start(host, &[words, &options].concat())
    }

    /// Two receivers and a publisher, to their ends.
    fn run(&self) -> Vec<JoinHandle<Output>> {
        let until = COUNT.to_string();
        let words = ["sub", "news", "--count", &until];
        let mut nodes = vec![self.start_node(1, &words), self.start_node(2, &words)];
        let words = ["pub", "news", "--wait-members", "2", "--rate", "5000"];
        let mut publisher = self.start_node(3, &words);
        let mut stdin = publisher.0.stdin.take().unwrap();
        thread::spawn(move || {
            for number in 1..=COUNT {
                writeln!(stdin, "{number}").unwrap();
            }
        });
        nodes.push(publisher);
        let ends = nodes
            .into_iter()
            .map(|node| thread::spawn(|| node.output()));
        ends.collect()
    }
}

// Rule R-MEM-20.
#[test]
fn regions_of_two_clusters_that_have_one_address_part_and_lose_nothing() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(4).unwrap();
    let cluster = |name, port| Cluster {
        lab: &lab,
        hosts: &hosts,
        name,
        port,
    };
    let (red, blue) = (cluster("red", "4480"), cluster("blue", "4481"));
    let (_first, said) = red.start_service();
    let (_second, also_said) = blue.start_service();
    let ends = [red.run(), blue.run()].into_iter().flatten();
    let outputs: Vec<Output> = ends.map(|end| end.join().unwrap()).collect();
    let numbers: Vec<String> = (1..=COUNT).map(|number| number.to_string()).collect();
    for (place, output) in outputs.iter().enumerate() {
        assert_code(output, 0);
        let printed = String::from_utf8_lossy(&output.stdout);
        let publishes = place % 3 == 2;
        assert!(
            publishes || printed.lines().eq(numbers.iter()),
            "{output:?}"
        );
    }
    // At least one of the two has moved, and neither again and again.
    let moves = |said: &Lines| {
        let lines = said
            .so_far()
            .map(|line| serde_json::from_str(&line).unwrap());
        let foreign = lines.filter(|line: &Value| line["event"] == "foreign");
        let moved: Vec<Value> = foreign.filter(|line| line["moves"] == true).collect();
        moved.len()
    };
    let moves = [moves(&said), moves(&also_said)];
    assert!((1..=4).contains(&(moves[0] + moves[1])), "{moves:?}");
}
