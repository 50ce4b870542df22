//! `qsm sub` whose output is slower than the messages: what its queue takes, and what it says of
//! the rest.

mod support;

use std::io::{Read, Write};
use std::process::Stdio;
use std::thread;

use support::{Cluster, Lines, Running, assert_code, assert_quiet, stderr};

/// More than a pipe takes, and than a limit of messages that was there once.
const LINES: usize = 200_000;

/// Bytes of a line.
const LINE: usize = 10;

/// Publishes lines to a receiver whose stdout nobody reads, until its node has received them all. What
/// its queue has no room for is dropped.
fn unread(cluster: &Cluster, words: &[&str]) -> Running {
    let sub = ["sub", "news", "--overflow", "drop-newest"];
    let sub = cluster.start(&[&sub[..], words].concat());
    let lines: String = (0..LINES).map(|n| format!("{n:0>9}\n")).collect();
    assert_code(&cluster.run(&["pub", "news"], lines.as_bytes()), 0);
    sub
}

/// The number in front of these words.
fn number(told: &str, before: &str) -> usize {
    let mut parts = told.split(before);
    let (Some(head), Some(_)) = (parts.next(), parts.next()) else {
        panic!("{told}")
    };
    let word = head.split_whitespace().next_back().unwrap();
    let digits = word.replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("{word}: {told}"))
}

#[test]
fn a_burst_of_short_lines_waits_for_a_slow_output() {
    let cluster = Cluster::new();
    let count = LINES.to_string();
    let sub = unread(&cluster, &["--count", &count]);
    let received = sub.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout.len(), LINES * LINE);
    assert_quiet(&received);
}

#[test]
fn a_full_queue_drops_as_many_as_it_says_and_names_the_remedy() {
    let cluster = Cluster::new();
    let sub = unread(&cluster, &["--queue", "1M", "--drain-timeout", "60"]);
    sub.terminate();
    let received = sub.output();
    let told = stderr(&received);
    assert_code(&received, 4);
    let dropped = number(&told, " messages were dropped here");
    assert_eq!(received.stdout.len() / LINE + dropped, LINES, "{told}");
    assert!(dropped > LINES / 2, "{told}");
    assert!(told.contains("SLOW") && told.contains("--queue"), "{told}");
}

#[test]
fn messages_that_do_not_come_because_they_were_dropped_are_missing_not_late() {
    let cluster = Cluster::new();
    let count = LINES.to_string();
    let words = ["--queue", "1M", "--until-idle", "5", "--count", &count];
    assert_code(&unread(&cluster, &words).output(), 4);
}

/// Lines that the queue, the node and the publisher have no room for, so that the publisher waits.
#[test]
fn senders_wait_for_an_output_that_nobody_reads_and_nothing_is_missing() {
    const LONG: usize = 64 << 10;
    const MANY: usize = 3000;
    let cluster = Cluster::new();
    let count = MANY.to_string();
    let words = ["sub", "news", "--queue", "1M", "--count", &count];
    let mut sub = cluster.start(&words);
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("that it is there", |line| line.contains("subscribed to"));
    let publisher = cluster
        .command(&["pub", "news"])
        .stdin(Stdio::piped())
        .spawn();
    let mut publisher = Running(publisher.unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    let line = |n: usize| format!("{n:0>width$}\n", width = LONG - 1);
    let writer = thread::spawn(move || {
        (0..MANY).for_each(|n| stdin.write_all(line(n).as_bytes()).unwrap());
    });
    told.wait("that senders wait", |line| {
        line.contains("senders have waited")
    });
    assert!(!writer.is_finished(), "the publisher has taken all");
    let mut written = String::new();
    let stdout = sub.0.stdout.take();
    stdout.unwrap().read_to_string(&mut written).unwrap();
    writer.join().unwrap();
    assert!(written == (0..MANY).map(line).collect::<String>());
    assert_eq!(sub.0.wait().unwrap().code(), Some(0));
    assert_code(&publisher.output(), 0);
}

#[test]
fn of_each_key_a_slow_output_gets_the_newest_line() {
    let cluster = Cluster::new();
    let sub = cluster.start(&["sub", "prices", "--latest-by", "1", "--drain-timeout", "60"]);
    // More than the pipe takes: later ones wait in the node.
    let line = |n: usize| format!("{} {n:0>9}\n", ["eur", "usd", "gbp"][n % 3]);
    let lines: String = (0..LINES).map(line).collect();
    assert_code(&cluster.run(&["pub", "prices"], lines.as_bytes()), 0);
    sub.terminate();
    let received = sub.output();
    assert_code(&received, 0);
    let written = String::from_utf8(received.stdout.clone()).unwrap();
    let replaced = number(&stderr(&received), " messages replaced");
    assert_eq!(written.lines().count() + replaced, LINES);
    assert!(replaced > LINES / 2, "{replaced}");
    for newest in LINES - 3..LINES {
        assert!(written.contains(&line(newest)), "{newest}");
    }
}

/// Memory of a process, bytes.
fn memory(process: &Running) -> usize {
    let path = format!("/proc/{}/status", process.0.id());
    let status = std::fs::read_to_string(path).unwrap();
    number(&status, " kB\nRssAnon:") << 10
}

#[test]
fn a_queue_takes_as_much_memory_as_it_is_given() {
    const QUEUE: usize = 16 << 20;
    let cluster = Cluster::new();
    let small = unread(&cluster, &["--queue", "64k", "--drain-timeout", "0"]);
    let large = unread(&cluster, &["--queue", "16M", "--drain-timeout", "0"]);
    let more = memory(&large) - memory(&small);
    // What the C library keeps in reserve is not known; a message counted by its length only would
    // take 13 times as much.
    assert!((QUEUE / 2..QUEUE * 2).contains(&more), "{more}");
    for (sub, signal) in [(small, "-TERM"), (large, "-INT")] {
        sub.signal(signal);
        let mut rest = Vec::new();
        let mut sub = sub;
        sub.0.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
        assert_eq!(sub.0.wait().unwrap().code(), Some(4));
    }
}
