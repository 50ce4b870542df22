//! Notices of commands, as text and as JSON.

mod support;

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::{Cluster, assert_code, qsm, stderr};

/// More than a slow machine needs; a test that waits so long has failed.
const IDLE: &str = "60";

/// All of stderr, a JSON object in each line.
fn notices(output: &Output) -> Vec<Value> {
    let text = stderr(output);
    let read = |line: &str| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}\n{text}"));
    text.lines().map(read).collect()
}

fn of<'a>(notices: &'a [Value], event: &str) -> &'a Value {
    let found = notices.iter().find(|notice| notice["event"] == event);
    found.unwrap_or_else(|| panic!("no {event}: {notices:#?}"))
}

#[test]
fn each_notice_is_an_object_with_time_level_event_and_sentence() {
    let cluster = Cluster::new();
    let words = [
        "sub",
        "news",
        "--count",
        "3",
        "--until-idle",
        IDLE,
        "--verbose",
    ];
    let json = ["--log-format", "json"];
    // What was counted is no notice.
    let quiet = ["--stats", "json"];
    let sub = cluster.start(&[&words[..], &json, &quiet, &["--metrics", "0"]].concat());
    let published = cluster.run(&["pub", "news", "--log-format", "json"], b"1\n2\n3\n");
    assert_code(&published, 0);
    let said = notices(&published);
    let line = of(&said, "published");
    assert_eq!(line["level"], "info");
    let sentence = line["message"].as_str().unwrap();
    assert!(sentence.starts_with("published 3 messages"), "{line}");
    let time = line["time"].as_str().unwrap();
    assert!(time.len() == 27 && time.ends_with('Z'), "{time}");

    let received = sub.output();
    assert_code(&received, 0);
    let said = notices(&received);
    assert_eq!(of(&said, "received")["messages"], 3);
    assert!(
        of(&said, "subscribed")["message"]
            .as_str()
            .unwrap()
            .starts_with("subscribed to")
    );
    let address = of(&said, "metrics")["address"].as_str().unwrap();
    assert!(address.starts_with("http://127.0.0.1:"), "{address}");
    assert_eq!(of(&said, "region-view")["level"], "info");
}

#[test]
fn a_failure_is_a_notice_with_its_remedy() {
    let words = ["sub", "news", "--interface", "no-such-0"];
    let json = qsm()
        .args(words)
        .args(["--log-format", "json"])
        .output()
        .unwrap();
    let text = qsm().args(words).output().unwrap();
    assert_eq!(json.status.code(), text.status.code());
    let said = notices(&json);
    let failed = of(&said, "failed");
    assert_eq!(failed["level"], "error");
    let text = stderr(&text);
    let [cause, remedy] = ["message", "remedy"].map(|key| failed[key].as_str().unwrap());
    assert!(
        text.contains(&format!("qsm: error: {cause}")),
        "{failed} {text}"
    );
    assert!(
        text.contains(&format!("qsm: remedy: {remedy}")),
        "{failed} {text}"
    );
}

#[test]
fn notices_below_the_level_are_not_written() {
    let cluster = Cluster::new();
    let words = ["sub", "news", "--count", "1", "--until-idle", IDLE];
    let all = cluster.start(&[&words[..], &["--name", "all"]].concat());
    let grave = cluster.start(&[&words[..], &["--log", "warn", "--name", "grave"]].concat());
    let published = cluster.run(
        &["pub", "news", "--wait-members", "2", "--log", "error"],
        b"1\n",
    );
    assert_code(&published, 0);
    assert_eq!(stderr(&published), "");
    let [all, grave] = [all, grave].map(support::Running::output);
    assert!(stderr(&all).contains("qsm: subscribed to news"));
    assert_eq!(stderr(&grave), "");
}

#[test]
fn the_page_lists_the_events() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operate/logs.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter(|row| !row.starts_with("--"));
    let mut listed: Vec<&str> = rows.filter_map(|row| row.split('`').next()).collect();
    listed.sort_unstable();
    assert_eq!(listed, qsm_console::log::EVENTS);
}

/// Pipes of which nobody reads the other end.
fn unread() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn commands_whose_words_nobody_reads_do_their_work() {
    for arguments in [
        ["sim", "swarm", "--seeds", "1"].as_slice(),
        &["advise", "buffer", "--rate", "1Gbit/s", "--pause", "20ms"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_qsm"));
        command.args(arguments).env("QSM_CONFIG", "");
        let status = command.stdout(unread()).stderr(unread()).status().unwrap();
        assert_eq!(status.code(), Some(0), "{arguments:?}");
    }
}
