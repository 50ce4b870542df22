//! `qsm engine`, and `qsm pub` and `qsm sub` attached to it, as processes.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use support::{Cluster, Running, assert_code, stderr, text};

/// More than a slow machine needs; a test that waits so long has failed.
const IDLE: &str = "60";

/// An engine at this path, once it is there.
fn engine(cluster: &Cluster, path: &str) -> Running {
    let mut engine = cluster.start(&["engine", "--at", path, "--name", "engine"]);
    let mut line = String::new();
    let mut stdout = BufReader::new(engine.0.stdout.as_mut().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("sharing at"), "{line}");
    engine
}

fn attached(words: &[&str], path: &str) -> Command {
    let mut command = support::qsm();
    command.args(words).args(["--attach", path]);
    let command_with = command.stdin(Stdio::null()).stdout(Stdio::piped());
    command_with.stderr(Stdio::piped());
    command
}

#[test]
fn attached_programs_exchange_lines_with_nodes() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let engine = engine(&cluster, &path);
    let lines: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    let file = cluster.file("lines", lines.as_bytes());
    let words = ["sub", "up", "--count", "5000", "--until-idle", IDLE];
    let remote = cluster.start(&words);
    let publish = attached(&["pub", "up", "--file", &file], &path).output();
    assert_code(&publish.unwrap(), 0);
    let received = remote.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, lines.as_bytes());
    // Each in a group of its own, so that the publisher waits for both.
    let subs = ["down/1", "down/2"].map(|group| {
        let words = ["sub", group, "--count", "5000", "--until-idle", IDLE];
        Running(attached(&words, &path).spawn().unwrap())
    });
    let publish = ["pub", "down/1", "down/2", "--file", &file];
    assert_code(&cluster.run(&publish, b""), 0);
    for sub in subs {
        let received = sub.output();
        assert_code(&received, 0);
        assert_eq!(received.stdout, lines.as_bytes());
    }
    engine.terminate();
    assert_code(&engine.output(), 0);
}

#[test]
fn what_cannot_be_attached_to_says_what_to_do() {
    let cluster = Cluster::without_service();
    let path = text(&cluster.folder.join("nothing"));
    let missing = attached(&["sub", "x"], &path).output().unwrap();
    assert_code(&missing, 1);
    assert!(
        stderr(&missing).contains("qsm engine --at"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn an_attached_subscriber_follows_the_groups_of_a_prefix() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let _engine = engine(&cluster, &path);
    let words = ["sub", "a/*", "--count", "2", "--until-idle", IDLE];
    let sub = Running(attached(&words, &path).spawn().unwrap());
    let file = cluster.file("lines", b"one\ntwo\n");
    // The group begins to be with its publisher, who waits for a receiver.
    assert_code(&cluster.run(&["pub", "a/b", "--file", &file], b""), 0);
    let received = sub.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, b"one\ntwo\n");
}

#[test]
fn a_path_in_use_is_refused_to_a_second_engine() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let _engine = engine(&cluster, &path);
    let second = cluster.run(&["engine", "--at", &path], b"");
    assert_code(&second, 1);
    assert!(stderr(&second).contains("shared at"), "{}", stderr(&second));
}

/// Waits until a line of the service has all these parts.
fn wait_for_line(service: &mut impl BufRead, parts: &[&str]) {
    let mut line = String::new();
    while !parts.iter().all(|part| line.contains(part)) {
        line.clear();
        let read = service.read_line(&mut line).unwrap();
        assert!(read > 0, "the service has ended");
    }
}

/// Two processes publish by one engine; the receiver of one of them dies without having had
/// everything.
#[test]
fn an_attached_publisher_is_told_what_receivers_lack_of_its_own_groups() {
    let mut cluster = Cluster::with_service(&["--gone-after", "3600"]);
    let mut gms = cluster.take_gms();
    let mut service = BufReader::new(gms.0.stdout.take().unwrap());
    let path = text(&cluster.folder.join("engine"));
    let _engine = engine(&cluster, &path);
    let victim = cluster.start(&["sub", "news", "--name", "victim"]);
    let mut healthy = cluster.start(&["sub", "sport", "--name", "healthy"]);
    let publisher = |group| {
        let mut command = attached(&["pub", group], &path);
        Running(command.stdin(Stdio::piped()).spawn().unwrap())
    };
    let (mut news, mut sport) = (publisher("news"), publisher("sport"));
    let mut stdin = news.0.stdin.take().unwrap();
    let mut other = sport.0.stdin.take().unwrap();
    other.write_all(b"1\n").unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(healthy.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    // The receiver stands still before it can acknowledge anything, and dies.
    wait_for_line(&mut service, &["\"admitted\"", "\"victim\""]);
    victim.signal("-STOP");
    wait_for_line(&mut service, &["\"away\"", "\"victim\""]);
    for number in 1..=100 {
        writeln!(stdin, "{number}").unwrap();
    }
    drop(stdin);
    // While it is away the publisher waits; it is told when it is gone.
    victim.signal("-KILL");
    let ended = news.output();
    assert_code(&ended, 4);
    let told = stderr(&ended);
    assert!(
        told.contains("not known to have everything: victim (group news 1..=100 of life "),
        "{told}"
    );
    drop(other);
    let ended = sport.output();
    assert_code(&ended, 0);
    let told = stderr(&ended);
    assert!(told.contains("all receivers have everything"), "{told}");
}
