//! Counters of commands, for programs to read.

#[path = "../../qsm-metrics/tests/exposition/mod.rs"]
mod exposition;
mod support;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};

use exposition::Family;
use serde_json::Value;
use support::{Cluster, Running, assert_code, stderr, text};

/// More than a slow machine needs; a test that waits so long has failed.
const IDLE: &str = "60";

/// The only line of stderr that is a JSON object.
fn json(output: &Output) -> Value {
    let text = stderr(output);
    let mut lines = text.lines().filter(|line| line.starts_with('{'));
    let line = lines.next().unwrap_or_else(|| panic!("no JSON: {text}"));
    assert_eq!(lines.next(), None);
    serde_json::from_str(line).unwrap()
}

/// The part of stderr that Prometheus would read: what else a command says begins neither with `qsm_`, nor
/// with `#`.
fn page(output: &Output) -> BTreeMap<String, Family> {
    let text = stderr(output);
    let of_page = |line: &&str| line.starts_with("qsm_") || line.starts_with('#');
    let lines: String = text
        .lines()
        .filter(of_page)
        .map(|l| format!("{l}\n"))
        .collect();
    exposition::parse(&lines).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// The value of the only sample.
fn value<'a>(page: &'a BTreeMap<String, Family>, name: &str) -> &'a str {
    let [sample] = &page[name].samples[..] else {
        panic!("{name}: {:?}", page[name])
    };
    &sample.value
}

#[test]
fn a_publisher_and_a_subscriber_tell_what_they_counted() {
    let cluster = Cluster::new();
    let words = ["sub", "news", "--count", "3", "--until-idle", IDLE];
    let sub = cluster.start(&[&words[..], &["--stats", "prometheus", "--name", "s"]].concat());
    let words = ["pub", "news", "--stats", "json", "--name", "a \"b\""];
    let published = cluster.run(&words, b"1\n2\n3\n");
    assert_code(&published, 0);
    let counted = json(&published);
    assert_eq!(counted["name"], "a \"b\"");
    assert_eq!(counted["protocol"]["messages_published"], 3);
    assert!(counted["runtime"]["uptime_seconds"].as_f64() > Some(0.0));

    let received = sub.output();
    assert_code(&received, 0);
    let page = page(&received);
    assert_eq!(value(&page, "qsm_node_messages_delivered_total"), "3");
    let help = "Messages delivered to the application.";
    let delivered = &page["qsm_node_messages_delivered_total"];
    assert_eq!((&*delivered.help, &*delivered.kind), (help, "counter"));
    let label = ("node".to_owned(), "s".to_owned());
    assert!(delivered.samples[0].labels.contains(&label));
}

#[test]
fn an_engine_tells_of_itself_and_of_its_processes() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let mut engine = cluster.start(&["engine", "--at", &path, "--stats", "json"]);
    let mut line = String::new();
    let stdout = engine.0.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    let words = ["pub", "x", "--attach", &path, "--stats", "prometheus"];
    let mut command = std::process::Command::new(support::QSM);
    command
        .args(words)
        .args(["--wait-members", "0"])
        .stdin(Stdio::null());
    let attached = command.output().unwrap();
    assert_code(&attached, 0);
    assert_eq!(value(&page(&attached), "qsm_client_published_total"), "0");
    engine.terminate();
    let ended = engine.output();
    assert_code(&ended, 0);
    let counted = json(&ended);
    assert_eq!(counted["share"]["attached"], 1);
    assert_eq!(counted["clients"], Value::Array(Vec::new()));
    assert!(counted["node"]["runtime"]["turns"].as_u64() > Some(0));
}

#[test]
fn a_service_tells_what_it_did() {
    let cluster = Cluster::without_service();
    let words = ["gms", "--stats", "prometheus", "--listen", "127.0.0.1:0"];
    let mut command = cluster.command(&words[..3]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut gms = Running(command.spawn().unwrap());
    let mut line = String::new();
    let stdout = gms.0.stdout.as_mut().unwrap();
    BufReader::new(stdout).read_line(&mut line).unwrap();
    assert!(line.contains("listening"), "{line}");
    gms.terminate();
    let ended = gms.output();
    assert_code(&ended, 0);
    assert_eq!(value(&page(&ended), "qsm_service_admitted_total"), "0");
}
