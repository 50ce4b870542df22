//! Lifetimes of messages that the membership service gives to groups (R-DATA-14).

mod support;

use std::io::{BufRead, BufReader, Write};
use std::ops::RangeInclusive;
use std::process::{ChildStdin, Stdio};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use serde_json::Value;
use support::{Cluster, Running, assert_code, stderr};

/// More than a slow machine needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Lines while the receiver stands still: many times what its kernel keeps for it.
const MEANWHILE: u64 = 20_000;

/// The ranges of messages that a text tells as expired.
fn expired(text: &str) -> Vec<(u64, u64)> {
    let lines = text.lines();
    let lines = lines.filter(|line| line.contains("LOST: group news sender"));
    let range = |line: &str| {
        let line = line.strip_suffix(", expired")?;
        let (first, last) = line.rsplit_once(' ')?.1.split_once("..=")?;
        Some((first.parse().unwrap(), last.parse().unwrap()))
    };
    lines
        .map(|line| range(line).unwrap_or_else(|| panic!("not expired: {line}")))
        .collect()
}

fn write(stdin: &mut ChildStdin, numbers: RangeInclusive<u64>) {
    for number in numbers {
        writeln!(stdin, "{number} {}", "x".repeat(100)).unwrap();
    }
    stdin.flush().unwrap();
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story")]
fn a_receiver_that_stood_still_is_told_exactly_what_has_expired_and_gets_the_rest() {
    let mut cluster = Cluster::without_service();
    let hints = cluster.file("hints.txt", b"lifetime 2s: ne*\n");
    let options = ["--hints", hints.as_str(), "--gone-after", "3600"];
    let (mut gms, address) = cluster.start_gms(&options, Stdio::inherit());
    cluster.use_service(&address);
    let (said, service) = channel();
    let stdout = BufReader::new(gms.0.stdout.take().unwrap());
    thread::spawn(move || {
        stdout
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| said.send(line))
    });
    let words = [
        "sub",
        "news",
        "--name",
        "sleeper",
        "--receive-buffer",
        "64k",
    ];
    let mut sub = cluster.start(&words);
    let witness = cluster.start(&["sub", "news", "--name", "witness"]);
    let (heard, received) = channel();
    let stdout = BufReader::new(sub.0.stdout.take().unwrap());
    thread::spawn(move || {
        stdout
            .lines()
            .map_while(Result::ok)
            .try_for_each(|line| heard.send(line))
    });
    let mut publisher = cluster.command(&["pub", "news", "--wait-members", "2"]);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    let number = |line: &str| -> u64 { line.split(' ').next().unwrap().parse().unwrap() };
    write(&mut stdin, 1..=100);
    while number(&received.recv_timeout(PATIENCE).unwrap()) < 100 {}
    sub.signal("-STOP");
    let away = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap();
        line["event"] == "away" && line["name"] == "sleeper"
    };
    while !away(&service.recv_timeout(PATIENCE).expect("it is set aside")) {}
    write(&mut stdin, 101..=MEANWHILE);
    // Longer than messages live, and than the publisher takes to send them.
    thread::sleep(Duration::from_secs(5));
    sub.signal("-CONT");
    // Until it receives what is published now.
    let mut arrived = Vec::new();
    let mut next = MEANWHILE;
    while arrived.last().is_none_or(|last| *last <= MEANWHILE) {
        next += 1;
        assert!(next < MEANWHILE + 1000, "it does not go on");
        write(&mut stdin, next..=next);
        thread::sleep(Duration::from_millis(100));
        arrived.extend(received.try_iter().map(|line| number(&line)));
    }
    drop(stdin);
    let published = publisher.output();
    assert_code(&published, 0);
    let told = stderr(&published);
    assert!(told.contains("everything that had not expired"), "{told}");
    while *arrived.last().unwrap() < next {
        arrived.push(number(&received.recv_timeout(PATIENCE).unwrap()));
    }
    sub.terminate();
    let ended = sub.output();
    assert_code(&ended, 4);
    let told = stderr(&ended);
    let mut expected = 101;
    let mut expired = expired(&told).into_iter().peekable();
    for number in arrived {
        while let Some((first, last)) = expired.next_if(|(first, _)| *first < number) {
            assert_eq!(first, expected, "{told}");
            expected = last + 1;
        }
        assert_eq!(number, expected, "{told}");
        expected += 1;
    }
    assert_eq!((expired.next(), expected), (None, next + 1));
    let count = told.contains("not repaired, because they had expired before they came");
    assert!(count, "{told}");
    assert!(told.contains("a longer `lifetime` of the group"), "{told}");
    // Who was there has everything.
    witness.terminate();
    let witnessed = witness.output();
    assert_code(&witnessed, 0);
    let lines = String::from_utf8(witnessed.stdout).unwrap();
    let numbers = lines.lines().map(number);
    assert!(numbers.eq(1..=next), "the witness lacks something");
    gms.terminate();
}

#[test]
fn a_lifetime_that_is_none_is_said_at_the_start() {
    let cluster = Cluster::without_service();
    let file = cluster.file("bad.txt", b"lifetime soon: news\n");
    let mut command = support::qsm();
    command.args(["gms", "--listen", "127.0.0.1:0", "--hints", &file]);
    let output = command.output().unwrap();
    assert_code(&output, 2);
    let told = stderr(&output);
    assert!(told.contains("line 1: `soon` is no lifetime"), "{told}");
}
