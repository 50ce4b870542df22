//! Very many groups: what it costs to enter them, by name and by a pattern.

mod support;

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use support::{Cluster, Running, assert_code};

/// As many as the limits are made for.
const GROUPS: usize = 100_000;

/// CPU time that a process may take to enter them, seconds. A cost in proportion to the square of
/// their number takes many times as much.
const CPU_MAX: f64 = 3.0;

fn names() -> Vec<String> {
    (0..GROUPS).map(|group| format!("g/{group}")).collect()
}

fn line(process: &mut Running) -> String {
    let mut line = String::new();
    let mut stdout = BufReader::new(process.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    line
}

/// CPU time of a process that may have ended, and has not been waited for: seconds.
fn cpu(process: &Running) -> f64 {
    let path = format!("/proc/{}/stat", process.0.id());
    let stat = std::fs::read_to_string(path).unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(2);
    // A hundred a second on every Linux.
    ticks
        .map(|ticks| ticks.parse::<f64>().unwrap())
        .sum::<f64>()
        / 100.0
}

/// Number of groups that the membership service has.
fn listed(cluster: &Cluster) -> usize {
    let groups = cluster.run(&["groups", "--json"], b"");
    assert_code(&groups, 0);
    let groups: Vec<serde_json::Value> = serde_json::from_slice(&groups.stdout).unwrap();
    groups.len()
}

#[test]
fn a_hundred_thousand_groups_are_entered_in_seconds() {
    let (cluster, names) = (Cluster::new(), names());
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut sub = cluster.start(&[&["sub", "--count", "1"], &words[..]].concat());
    let last = words.last().unwrap();
    assert_code(&cluster.run(&["pub", last], b"entered\n"), 0);
    assert_eq!(line(&mut sub), "entered\n");
    let by_name = cpu(&sub);
    assert!(by_name <= CPU_MAX, "{by_name} s");
    drop(sub);

    let mut publisher = cluster.command(&["pub", "--wait-members", "0"]);
    publisher.args(&words).stdin(Stdio::piped());
    let mut publisher = Running(publisher.spawn().unwrap());
    while listed(&cluster) < GROUPS {}
    let mut sub = cluster.start(&["sub", "g/*", "--count", "1"]);
    assert_code(&cluster.run(&["pub", last], b"found\n"), 0);
    assert_eq!(line(&mut sub), "found\n");
    let by_pattern = cpu(&sub);
    assert!(by_pattern <= CPU_MAX, "{by_pattern} s");
    drop(sub);
    // Its input ends, and then it takes its leave of all of them.
    drop(publisher.0.stdin.take());
    assert_code(&publisher.output(), 0);
    println!("CPU time: {by_name} s by name, {by_pattern} s by pattern");
}
