//! Commands of the book that take hosts of their own, as they stand there; and what one does whose
//! interface goes down.

mod support;

use std::io::Write;
use std::path::Path;
use std::process::Stdio;

use lab::{HostId, Lab, Network};
use serde_json::Value;
use support::{Lines, QSM, Running, assert_code};

/// Starts a command of the book on a host.
fn start(lab: &Lab, host: HostId, command: &str) -> Running {
    let words: Vec<&str> = command.split(' ').collect();
    assert_eq!(words[0], "qsm");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/documents.rs");
    let shown = std::fs::read_to_string(page).unwrap();
    assert!(shown.contains(command), "no page shows `{command}`");
    start_words(lab, host, &words[1..])
}

fn start_words(lab: &Lab, host: HostId, words: &[&str]) -> Running {
    let mut process = lab.command(host, QSM);
    process.args(words).env("QSM_CONFIG", "");
    process
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running(process.spawn().unwrap())
}

/// A service, once it listens.
fn start_service(lab: &Lab, host: HostId, command: &str) -> (Running, Lines) {
    let mut gms = start(lab, host, command);
    let said = Lines::of_stdout(&mut gms.0);
    said.wait("that it listens", |line| line.contains("listening on"));
    (gms, said)
}

/// A subscriber, once it is there; and what it prints.
fn subscribed(mut sub: Running) -> (Running, Lines, Lines) {
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("where it is", |line| line.contains("subscribed to"));
    let printed = Lines::of_stdout(&mut sub.0);
    (sub, printed, told)
}

#[test]
fn a_subscriber_on_two_networks_does_not_notice_that_one_fails() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap().and_second_network().unwrap();
    let hosts = lab.add_hosts(3).unwrap();
    let both = "--interface eth0 --interface eth1";
    let (_gms, _said) = start_service(&lab, hosts[0], &format!("qsm gms {both}"));
    let sub = start(&lab, hosts[1], &format!("qsm sub news {both}"));
    let (sub, printed, _told) = subscribed(sub);
    let words: Vec<&str> = ["pub", "news"].into_iter().chain(both.split(' ')).collect();
    let mut publisher = start_words(&lab, hosts[2], &words);
    let mut stdin = publisher.0.stdin.take().unwrap();
    let mut arrives = |line: &str| {
        writeln!(stdin, "{line}").unwrap();
        printed.wait(line, |printed| printed == line);
    };
    arrives("both");
    lab.set_network(Network::First, false).unwrap();
    arrives("the second");
    lab.set_network(Network::First, true).unwrap();
    lab.set_network(Network::Second, false).unwrap();
    arrives("the first");
    lab.set_network(Network::Second, true).unwrap();
    drop(stdin);
    assert_code(&publisher.output(), 0);
    sub.terminate();
    assert_code(&sub.output(), 0);
}

#[test]
fn a_node_on_the_wrong_network_names_the_one_that_it_does_not_use() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap().and_second_network().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let sub = start_words(&lab, hosts[0], &["sub", "news", "--interface", "eth0"]);
    let (_sub, _printed, _told) = subscribed(sub);
    let mut lost = start_words(&lab, hosts[1], &["sub", "news", "--interface", "eth1"]);
    let told = Lines::of_stderr(&mut lost.0);
    let alone = told.wait("that it is alone", |line| {
        line.contains("still alone after 10 s")
    });
    let [own, other] = ["eth1 (10.79.0.2)", "eth0 (10.78.0.2)"];
    assert!(
        alone.contains(&format!(
            "goes by {own}, and this host has {other} too (--interface)"
        )),
        "{alone}"
    );
}

#[test]
fn clusters_with_ranges_of_their_own_share_no_address() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let blue = "qsm gms --cluster blue --data-range 239.193.0.0/16";
    let _services = [
        start_service(&lab, hosts[0], "qsm gms"),
        start_service(&lab, hosts[1], blue),
    ];
    let _nodes = [
        subscribed(start(&lab, hosts[0], "qsm sub news")),
        subscribed(start_words(
            &lab,
            hosts[1],
            &["sub", "news", "--cluster", "blue"],
        )),
    ];
    let address = |words: &[&str]| {
        let listed = start_words(&lab, hosts[0], words).output();
        assert_code(&listed, 0);
        let rows: Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(rows.as_array().unwrap().len(), 1, "{rows}");
        rows[0]["address"].as_str().unwrap().to_owned()
    };
    let own = address(&["regions", "--json"]);
    assert!(own.starts_with("239.192."), "{own}");
    let other = address(&["regions", "--json", "--cluster", "blue"]);
    assert!(other.starts_with("239.193."), "{other}");
}

/// Changes a host's interface.
fn ip(lab: &Lab, host: HostId, words: &str) {
    let status = lab.command(host, "ip").args(words.split(' ')).status();
    assert!(status.unwrap().success(), "ip {words}");
}

#[test]
fn a_node_whose_interface_is_down_serves_nobody_and_comes_back() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(3).unwrap();
    // The first runs the service for all.
    let first = start_words(&lab, hosts[0], &["sub", "news"]);
    let (first, _printed, _told) = subscribed(first);
    let other = start_words(&lab, hosts[1], &["sub", "news", "--name", "other"]);
    let (other, printed, told) = subscribed(other);
    let words = [
        "pub",
        "news",
        "--wait-members",
        "2",
        "--flush-timeout",
        "60",
    ];
    let mut publisher = start_words(&lab, hosts[2], &words);
    let mut stdin = publisher.0.stdin.take().unwrap();
    let mut publish = |line: &str| {
        writeln!(stdin, "{line}").unwrap();
        stdin.flush().unwrap();
    };
    publish("before");
    printed.wait("before", |line| line == "before");
    ip(&lab, hosts[1], "link set dev eth0 down");
    publish("meanwhile");
    told.wait("that it has no address", |line| line.contains("NO ADDRESS"));
    // Longer than it looks for a service before it would run one.
    std::thread::sleep(std::time::Duration::from_secs(3));
    ip(&lab, hosts[1], "link set dev eth0 up");
    printed.wait("meanwhile", |line| line == "meanwhile");
    told.wait("that it is back", |line| line.contains("has caught up"));
    publish("after");
    printed.wait("after", |line| line == "after");
    drop(stdin);
    assert_code(&publisher.output(), 0);
    other.terminate();
    let ended = other.output();
    assert_code(&ended, 0);
    let said: Vec<String> = told.iter().collect();
    let served = said.iter().find(|line| line.contains("runs one"));
    assert_eq!(served, None, "{said:?}");
    first.terminate();
    assert_code(&first.output(), 0);
}
