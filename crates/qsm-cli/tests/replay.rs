//! `--record` and `qsm sim replay`: what a program's output was, once more.

mod support;

use std::process::{Command, Output};

use serde_json::{Value, json};
use support::{Cluster, Lines, Running, assert_code, qsm, stderr, text};

/// The kind of data packets, as the dissector says it.
const DATA: &str = "1";

fn replay(words: &[&str]) -> Output {
    let mut command = qsm();
    command.args(["sim", "replay"]).args(words);
    command.output().unwrap()
}

/// Messages of JSON without the time of reading and the name that was asked for.
fn messages(output: &[u8]) -> Vec<Value> {
    let lines = output.split(|byte| *byte == b'\n');
    let lines = lines.filter(|line| !line.is_empty());
    let message = |line| {
        let mut message: Value = serde_json::from_slice(line).unwrap();
        for key in ["time", "name"] {
            message[key] = Value::Null;
        }
        message
    };
    lines.map(message).collect()
}

fn subscribed(cluster: &Cluster, words: &[&str]) -> Running {
    let words = [&["sub", "news", "other", "--json", "--loss", "5"], words].concat();
    let mut sub = cluster.start(&words);
    let lines = Lines::of_stderr(&mut sub.0);
    lines.wait("where it is", |line| line.contains("subscribed"));
    sub
}

#[test]
fn a_recorded_subscriber_replays_to_what_it_has_written() {
    let cluster = Cluster::new();
    let recording = text(&cluster.folder.join("sub.qsm"));
    let count = "20000";
    let sub = subscribed(&cluster, &["--record", &recording, "--count", count]);
    let lines: String = (0..20_000).map(|n| format!("line {n} \u{e4}\n")).collect();
    let published = cluster.run(&["pub", "news"], lines.as_bytes());
    assert_code(&published, 0);
    let heard = sub.output();
    assert_code(&heard, 0);

    let report = replay(&[&recording, "--json"]);
    assert_code(&report, 0);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["same"], json!(true), "{report}");
    assert_eq!(report["end"], json!("closed"), "{report}");
    assert_eq!(report["delivered"], json!(20_000), "{report}");

    let again = replay(&[&recording, "--json", "--deliveries"]);
    assert_code(&again, 0);
    assert!(messages(&again.stdout) == messages(&heard.stdout));
    assert!(
        stderr(&again).contains("byte for byte"),
        "{}",
        stderr(&again)
    );

    let inputs = replay(&[&recording, "--inputs"]);
    let inputs = String::from_utf8(inputs.stdout).unwrap();
    assert_eq!(
        inputs.lines().count() as u64,
        report["inputs"].as_u64().unwrap()
    );
    assert!(
        inputs.contains("2 groups are entered as Subscriber"),
        "{inputs}"
    );
}

#[test]
fn a_killed_process_leaves_a_recording_that_is_read_up_to_its_end() {
    let cluster = Cluster::new();
    let recording = text(&cluster.folder.join("sub.qsm"));
    let sub = subscribed(&cluster, &["--record", &recording]);
    assert_code(&cluster.run(&["pub", "news"], b"one\ntwo\n"), 0);
    // Two receivers of one message each: what was before is a quarter of a second old.
    let mut second = subscribed(&cluster, &["--count", "1"]);
    assert_code(&cluster.run(&["pub", "other"], b"three\n"), 0);
    assert_eq!(second.0.wait().unwrap().code(), Some(0));
    sub.signal("-KILL");
    drop(sub);
    let report = replay(&[&recording]);
    assert_code(&report, 0);
    let report = String::from_utf8(report.stdout).unwrap();
    assert!(report.contains("the file is cut off"), "{report}");
    assert!(!report.contains(" 0 messages delivered"), "{report}");
}

#[test]
fn a_scenario_of_the_same_kind_runs() {
    let cluster = Cluster::new();
    let recording = text(&cluster.folder.join("sub.qsm"));
    let scenario = text(&cluster.folder.join("scenario.txt"));
    let sub = subscribed(&cluster, &["--record", &recording, "--count", "3000"]);
    let lines: String = (0..3000).map(|n| format!("line {n}\n")).collect();
    assert_code(
        &cluster.run(&["pub", "news", "--rate", "3000"], lines.as_bytes()),
        0,
    );
    assert_code(&sub.output(), 0);
    assert_code(&replay(&[&recording, "--scenario", &scenario]), 0);
    let written = std::fs::read_to_string(&scenario).unwrap();
    assert!(written.contains("network loss"), "{written}");
    assert!(written.contains("flow host 2 group 0"), "{written}");
    let ran = qsm()
        .args(["sim", "run", &scenario, "--json"])
        .output()
        .unwrap();
    assert_code(&ran, 0);
    let ran: Value = serde_json::from_slice(&ran.stdout).unwrap();
    assert!(ran.to_string().contains("\"published\":200"), "{ran}");
}

#[test]
fn the_packets_of_a_recording_are_shown_by_the_dissector() {
    let tshark = Command::new("tshark").arg("--version").output();
    if !tshark.is_ok_and(|output| output.status.success()) {
        lab::skip("tshark is missing: `make deps` installs it");
        return;
    }
    let cluster = Cluster::new();
    let file = |name: &str| text(&cluster.folder.join(name));
    let (recording, whole, heads) = (file("sub.qsm"), file("whole.pcap"), file("heads.pcap"));
    let sub = subscribed(&cluster, &["--record", &recording, "--count", "300"]);
    let lines: String = (0..300).map(|n| format!("{n:0>1000}\n")).collect();
    assert_code(&cluster.run(&["pub", "news"], lines.as_bytes()), 0);
    assert_code(&sub.output(), 0);
    assert_code(&replay(&[&recording, "--packets", &whole]), 0);
    assert_code(
        &replay(&[&recording, "--packets", &heads, "--heads", "96"]),
        0,
    );
    let script = cluster.file("qsm.lua", &qsm().arg("dissector").output().unwrap().stdout);
    let fields = |capture: &str, name: &str| -> Vec<String> {
        let script = format!("lua_script:{script}");
        let output = Command::new("tshark")
            .args(["-r", capture, "-X", &script, "-T", "fields", "-e", name])
            .env("HOME", &cluster.folder)
            .output()
            .unwrap();
        let lines = String::from_utf8(output.stdout).unwrap();
        lines.lines().map(str::to_owned).collect()
    };
    let kinds = fields(&whole, "qsm.kind");
    assert!(kinds.iter().all(|kind| !kind.is_empty()), "{kinds:?}");
    let data = kinds.iter().filter(|kind| *kind == DATA).count();
    assert!(data > 30 && data < kinds.len(), "{kinds:?}");
    let report = replay(&[&recording, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert!(
        kinds.len() as u64 > report["datagrams"].as_u64().unwrap(),
        "sent ones too"
    );
    assert_eq!(fields(&heads, "qsm.kind"), kinds);
    // Only data packets are cut.
    let (lengths, kept) = (fields(&heads, "frame.len"), fields(&heads, "frame.cap_len"));
    assert_eq!(fields(&whole, "frame.cap_len"), lengths);
    for ((kind, length), kept) in kinds.iter().zip(&lengths).zip(&kept) {
        let number = |text: &str| text.parse::<usize>().unwrap();
        let (length, kept) = (number(length), number(kept));
        let most = if kind == DATA { 28 + 96 } else { length };
        assert_eq!(kept, length.min(most), "{kind}");
    }
}

#[test]
fn what_is_no_whole_recording_is_named_with_its_remedy() {
    let cluster = Cluster::new();
    let missing = text(&cluster.folder.join("missing"));
    for (file, cause, remedy) in [
        (missing, "No such file", "check the path"),
        (
            cluster.file("text", b"some text"),
            "no recording",
            "--record",
        ),
        (
            cluster.file("format", b"qsm-rec\n\x63\0"),
            "format 99",
            "the version that",
        ),
        (
            cluster.file("empty", b"qsm-rec\n\x01\0"),
            "before the node's start",
            "record again",
        ),
    ] {
        let output = replay(&[&file]);
        assert_code(&output, 1);
        let told = stderr(&output);
        assert!(told.contains(cause) && told.contains(remedy), "{told}");
    }
}

#[test]
fn a_node_that_cannot_be_recorded_does_not_start_and_an_engines_is_recorded_there() {
    let cluster = Cluster::new();
    for (option, remedy) in [
        (["--record", "/nowhere/file", "-v"], "make its folder"),
        (["--record", "/tmp", "-v"], "name a file"),
    ] {
        let output = cluster.run(&[&["sub", "news"][..], &option].concat(), b"");
        assert_code(&output, 1);
        assert!(stderr(&output).contains(remedy), "{}", stderr(&output));
    }
    let output = qsm()
        .args([
            "sub",
            "news",
            "--attach",
            "/nowhere",
            "--record",
            "/tmp/file",
        ])
        .output()
        .unwrap();
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("qsm engine --record"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_recording_that_stops_at_its_limit_is_told_of() {
    let cluster = Cluster::new();
    let recording = text(&cluster.folder.join("sub.qsm"));
    let options = [
        "--record",
        &recording,
        "--record-limit",
        "20k",
        "--count",
        "1000",
    ];
    let sub = cluster.start(&[&["sub", "news"][..], &options].concat());
    let lines: String = (0..1000).map(|n| format!("{n:0>100}\n")).collect();
    assert_code(&cluster.run(&["pub", "news"], lines.as_bytes()), 0);
    let heard = sub.output();
    assert_code(&heard, 0);
    let told = stderr(&heard);
    assert!(
        told.contains("NOT RECORDED") && told.contains("limit of 20480"),
        "{told}"
    );
    let report = replay(&[&recording, "--json"]);
    let report: Value = serde_json::from_slice(&report.stdout).unwrap();
    assert_eq!(report["end"], json!("limit"), "{report}");
    assert_eq!(report["same"], json!(true), "{report}");
}
