//! `qsm engine`, and `qsm pub` and `qsm sub` attached to it, as processes.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use support::{Cluster, QSM, Running, assert_code, stderr, text};

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
    let mut command = Command::new(QSM);
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
