//! `--record` and `qsm sim replay`: what a program's output was, once more; and packets in Wireshark, of a
//! recording or captured at the card (`qsm capture`).

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use lab::{HostId, Lab};
use serde_json::{Value, json};
use support::{Cluster, Lines, QSM, Running, assert_code, qsm, stderr, text};

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
    let written = fs::read_to_string(&scenario).unwrap();
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

/// False: there is no tshark, and the test is named as skipped.
fn tshark_is_there() -> bool {
    let tshark = Command::new("tshark").arg("--version").output();
    let there = tshark.is_ok_and(|output| output.status.success());
    if !there {
        lab::skip("tshark is missing: `make deps` installs it");
    }
    there
}

/// The values of a field in all packets of a capture that tshark reads to its end; empty where there is none.
fn fields(folder: &Path, capture: &str, name: &str) -> Vec<String> {
    let script = folder.join("qsm.lua");
    fs::write(&script, qsm().arg("dissector").output().unwrap().stdout).unwrap();
    let script = format!("lua_script:{}", script.display());
    let output = Command::new("tshark")
        .args(["-r", capture, "-X", &script, "-T", "fields", "-e", name])
        .env("HOME", folder)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn the_packets_of_a_recording_are_shown_by_the_dissector() {
    if !tshark_is_there() {
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
    let fields = |capture: &str, name: &str| fields(&cluster.folder, capture, name);
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
            cluster.file("empty", b"qsm-rec\n\x02\0"),
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

/// Two hosts, and a folder for files.
struct Stage {
    lab: Lab,
    hosts: Vec<HostId>,
    folder: PathBuf,
}

impl Drop for Stage {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.folder));
    }
}

impl Stage {
    fn new(name: &str) -> Self {
        let mut lab = Lab::new().unwrap();
        let hosts = lab.add_hosts(2).unwrap();
        let folder = format!("qsm-capture-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(folder);
        fs::create_dir_all(&folder).unwrap();
        Self { lab, hosts, folder }
    }

    fn file(&self, name: &str) -> String {
        text(&self.folder.join(name))
    }

    fn start(&self, host: usize, program: &str, words: &[&str]) -> Running {
        let mut command = self.lab.command(self.hosts[host], program);
        command.args(words).env("QSM_CONFIG", "");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    /// A program that captures at the first host, from now on.
    fn capture(&self, words: &[&str]) -> Running {
        let words = [&["capture", "--json"], words].concat();
        let mut capture = self.start(0, QSM, &words);
        let said = Lines::of_stderr(&mut capture.0);
        said.wait("that it captures", |line| line.contains("capturing"));
        capture
    }

    /// The first host sends so many messages of 1000 bytes to the second, in this cluster.
    fn talk(&self, cluster: &str, messages: usize) {
        let count = messages.to_string();
        let sub = ["sub", "news", "--cluster", cluster, "--count", &count];
        let mut sub = self.start(1, QSM, &sub);
        let said = Lines::of_stderr(&mut sub.0);
        said.wait("where it is", |line| line.contains("subscribed"));
        let printed = std::thread::spawn(move || sub.output());
        let lines: String = (0..messages).map(|n| format!("{n:0>1000}\n")).collect();
        let input = self.file("lines");
        fs::write(&input, lines).unwrap();
        let words = ["pub", "news", "--cluster", cluster, "--file", &input];
        assert_code(&self.start(0, QSM, &words).output(), 0);
        assert_code(&printed.join().unwrap(), 0);
    }
}

/// Summary of a capture at its end.
fn summary(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", stderr(output)))
}

/// One packet of data, or a train of them.
fn has_data(kinds: &str) -> bool {
    kinds.split(',').next() == Some(DATA)
}

#[test]
fn packets_of_a_cluster_are_captured_at_the_card_data_as_heads() {
    if !lab::ready() || !tshark_is_there() {
        return;
    }
    let stage = Stage::new("heads");
    let capture = stage.capture(&[&stage.file("c")]);
    stage.talk("blue", 20);
    stage.talk("default", 300);
    capture.terminate();
    let output = capture.output();
    assert_code(&output, 0);
    let said = summary(&output);
    let file = stage.file("c.0.pcapng");
    assert_eq!(said["files"], json!([file]), "{said}");
    let of = |name: &str| fields(&stage.folder, &file, name);
    let kinds = of("qsm.kind");
    assert_eq!(kinds.len() as u64, said["packets"], "{said}");
    let data = kinds.iter().filter(|kind| *kind == DATA).count();
    assert_eq!(data as u64, said["data"], "{said}");
    // Sessions with the service, and acknowledgements.
    for kind in ["10", "8"] {
        assert!(kinds.iter().any(|found| found == kind), "{kinds:?}");
    }
    // Nothing of the other cluster, and the memberships of both.
    let clusters: BTreeSet<String> = of("qsm.cluster").into_iter().collect();
    let clusters: Vec<_> = clusters.iter().filter(|one| !one.is_empty()).collect();
    assert_eq!(clusters.len(), 1, "{clusters:?}");
    assert!(said["other"].as_u64() > Some(0), "{said}");
    // Trains are divided into the packets that the stream has, each with its head.
    let numbers = of("qsm.sequence");
    let firsts = kinds.iter().zip(&numbers).filter(|(kind, _)| *kind == DATA);
    let firsts: BTreeSet<u64> = firsts.map(|(_, number)| number.parse().unwrap()).collect();
    assert!(firsts.len() >= 225, "300 kB in packets of 1.4: {firsts:?}");
    assert_eq!(firsts.last(), Some(&(firsts.len() as u64)), "{firsts:?}");
    let lengths = of("frame.len").into_iter().zip(of("frame.cap_len"));
    for (kind, (length, kept)) in kinds.iter().zip(lengths) {
        let number = |text: &str| text.parse::<usize>().unwrap();
        let (length, kept) = (number(&length), number(&kept));
        assert!(kind != DATA || length <= 1500, "a train: {length}");
        let most = if kind == DATA { 28 + 96 } else { length };
        assert_eq!(kept, length.min(most), "{kind}");
    }
    // What came and what left.
    let directions: BTreeSet<String> = of("frame.packet_flags_direction").into_iter().collect();
    assert_eq!(directions.len(), 2, "{directions:?}");
}

#[test]
fn a_ring_of_captures_keeps_its_size_and_what_came_last() {
    if !lab::ready() || !tshark_is_there() {
        return;
    }
    let stage = Stage::new("ring");
    let name = stage.file("c");
    let options = ["--whole", "--files", "2", "--file-size", "1M"];
    let capture = stage.capture(&[&[name.as_str()][..], &options].concat());
    stage.talk("default", 5_000);
    capture.signal("-INT");
    let output = capture.output();
    let said = summary(&output);
    let lost = said["lost"].as_u64().unwrap();
    assert_code(&output, if lost == 0 { 0 } else { 4 });
    assert!(said["files_begun"].as_u64() >= Some(5), "{said}");
    let files = said["files"].as_array().unwrap();
    assert_eq!(files.len(), 2);
    let mut kinds = Vec::new();
    for file in files {
        let file = file.as_str().unwrap();
        assert!(fs::metadata(file).unwrap().len() <= 1 << 20, "{said}");
        kinds.extend(fields(&stage.folder, file, "qsm.kind"));
    }
    // In their order: the publisher said goodbye after all data.
    let last = kinds.iter().rposition(|kinds| has_data(kinds));
    assert!(last.unwrap() + 1 < kinds.len());
    // The next run begins with the older file, and ends by itself.
    let words = [name.as_str(), "--files", "2", "--count", "3"];
    let capture = stage.capture(&words);
    stage.talk("default", 1);
    let output = capture.output();
    assert_code(&output, 0);
    let again = summary(&output);
    assert_eq!(again["files"], json!([files[0]]), "{again}");
    let file = files[0].as_str().unwrap();
    assert!(fields(&stage.folder, file, "qsm.kind").len() >= 3);
}

#[test]
fn captures_without_the_right_or_without_room_end_with_cause_and_remedy() {
    if !lab::ready() || !tshark_is_there() {
        return;
    }
    let stage = Stage::new("refused");
    let name = stage.file("c");
    let words = ["--bounding-set=-net_raw", QSM, "capture", &name];
    let output = stage.start(0, "setpriv", &words).output();
    assert_code(&output, 1);
    let told = stderr(&output);
    assert!(
        told.contains("CAP_NET_RAW") && told.contains("setcap"),
        "{told}"
    );

    let (disk, kept) = (stage.file("disk"), stage.file("kept"));
    fs::create_dir(&disk).unwrap();
    let script = format!(
        "mount -t tmpfs -o size=128k none {disk}; {QSM} capture --json --whole {disk}/c || code=$?; \
         cp {disk}/c.0.pcapng {kept}; exit $code"
    );
    let mut capture = stage.start(0, "unshare", &["-m", "sh", "-ec", &script]);
    let said = Lines::of_stderr(&mut capture.0);
    said.wait("that it captures", |line| line.contains("capturing"));
    stage.talk("default", 500);
    let told: Vec<String> = said.iter().collect();
    let output = capture.output();
    assert_eq!(output.status.code(), Some(1), "{told:?}");
    assert!(told[0].contains("No space left"), "{told:?}");
    assert!(told[1].contains("free space"), "{told:?}");
    assert!(summary(&output)["bytes"].as_u64() > Some(1000));
    // What is there is whole.
    let kinds = fields(&stage.folder, &kept, "qsm.kind");
    assert!(kinds.iter().any(|kinds| has_data(kinds)), "{kinds:?}");
}
