//! `qsm explain` without a group: what nodes of this host lose, and what holds them back.

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
