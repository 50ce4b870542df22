//! `qsm explain` without a group: what nodes of this host lose, and what holds them back; and of one message.

mod support;

use std::io::Write;
use std::process::Stdio;
use std::thread;

use serde_json::Value;
use support::{Cluster, Lines, Running, assert_code, stderr};

/// Account of a node of this host.
fn explained(cluster: &Cluster, name: &str) -> Value {
    let words = ["explain", "--node", name, "--seconds", "1", "--json"];
    // Where to ask is the host's own matter: no option of the network.
    let mut command = support::qsm();
    let output = command.args(words).output().unwrap();
    assert_code(&output, 0);
    let mut nodes: Value = serde_json::from_slice(&output.stdout).unwrap();
    let all = nodes.as_array_mut().unwrap();
    let address = &all[0]["node"]["cluster"];
    assert!(
        address.is_string() && all.len() == 1,
        "{all:?} {}",
        cluster.folder.display()
    );
    all.remove(0)
}

#[test]
fn a_node_whose_application_reads_too_slowly_is_found() {
    let cluster = Cluster::new();
    let name = format!("slow-{}", std::process::id());
    // Nobody reads what it writes.
    let words = ["sub", "news", "--name", &name, "--queue", "64K"];
    let mut sub = cluster.start(&words);
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    let mut source = cluster.command(&["pub", "news", "--rate", "5000"]);
    source.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut source = Running(source.spawn().unwrap());
    let mut lines = source.0.stdin.take().unwrap();
    let line = [b'x'; 1000];
    let writer = thread::spawn(move || {
        while lines
            .write_all(&line)
            .and_then(|()| lines.write_all(b"\n"))
            .is_ok()
        {}
    });
    // The pipe has filled, and then its queue.
    let found = loop {
        let account = explained(&cluster, &name);
        let findings = account["findings"].as_array().unwrap();
        let found = findings
            .iter()
            .find(|finding| finding["id"] == "reader-slow");
        if let Some(found) = found {
            break found.clone();
        }
    };
    let remedy = found["remedy"].as_str().unwrap();
    assert!(remedy.contains("longer queue"), "{found}");
    drop(source);
    writer.join().unwrap();
}

#[test]
fn a_healthy_node_is_held_back_by_nothing() {
    let cluster = Cluster::new();
    let name = format!("well-{}", std::process::id());
    let mut sub = cluster.start(&["sub", "news", "--name", &name]);
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    let account = explained(&cluster, &name);
    assert_eq!(account["missing_per_second"], 0.0);
    let output = support::qsm()
        .args(["explain", "--node", "nobody at all"])
        .output()
        .unwrap();
    assert_code(&output, 1);
    let said = stderr(&output);
    assert!(
        said.contains("no node of this host answers by the name"),
        "{said}"
    );
    let both = support::qsm()
        .args(["explain", "news", "--seconds", "1"])
        .output()
        .unwrap();
    assert_code(&both, 2);
}

/// What nodes of this host say of a message.
fn of_message(message: &str, options: &[&str]) -> std::process::Output {
    let mut command = support::qsm();
    command.args(["explain", "news", "--message", message]);
    command.args(options).output().unwrap()
}

#[test]
fn a_message_is_explained_by_its_sender_and_by_its_receiver() {
    let cluster = Cluster::new();
    let (reader, writer) = (
        format!("reader-{}", std::process::id()),
        format!("writer-{}", std::process::id()),
    );
    let mut sub = cluster.start(&["sub", "news", "--name", &reader, "--json"]);
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    let printed = Lines::of_stdout(&mut sub.0);
    let mut source = cluster.command(&["pub", "news", "--name", &writer]);
    source.stdin(Stdio::piped()).stderr(Stdio::null());
    let mut source = Running(source.spawn().unwrap());
    let mut lines = source.0.stdin.take().unwrap();
    lines.write_all(b"one\ntwo\n").unwrap();
    let second = printed.wait("the second", |line| line.contains("\"text\":\"two\""));
    let second: Value = serde_json::from_str(&second).unwrap();
    assert_eq!(second["number"], 2);

    let standing = |message: &str, node: &str| {
        let output = of_message(message, &["--node", node, "--json"]);
        assert_code(&output, 0);
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let message = said[0]["message"].clone();
        (message["standing"].as_str().unwrap().to_owned(), message)
    };
    // By name, and by what was printed.
    let id = format!("{}#2", second["sender"].as_str().unwrap());
    for name in [format!("{writer}#2"), id] {
        let (found, message) = standing(&name, &reader);
        assert_eq!(
            (&*found, &message["next"]),
            ("past", &3.into()),
            "{message}"
        );
    }
    assert_eq!(standing(&format!("{writer}#3"), &reader).0, "unknown");
    assert_eq!(standing(&format!("{writer}#3"), &writer).0, "unpublished");
    // The receiver has acknowledged it when the sender's window is empty; who asks again hears so.
    while standing(&format!("{writer}#2"), &writer).0 != "acknowledged" {}
    let text = of_message(&format!("{writer}#2"), &["--node", &writer]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("All live members have it."), "{text}");
    // Nobody has this name, and what is no message is not understood.
    let stranger = of_message("nobody at all#1", &["--node", &reader]);
    assert_code(&stranger, 1);
    let said = stderr(&stranger);
    assert!(
        said.contains("no node of the cluster has the name"),
        "{said}"
    );
    assert_code(&of_message("17", &[]), 2);
    drop(lines);
    assert_code(&source.output(), 0);
}
