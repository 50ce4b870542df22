//! `qsm pub`, `qsm sub` and the rest as processes that talk over loopback, with losses.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use support::{Cluster, Running, assert_code, assert_quiet, noise, stderr, text};

/// More than a slow machine needs; a test that waits so long has failed.
const IDLE: &str = "60";

#[test]
fn lines_of_a_file_arrive_whole_and_in_order_despite_losses() {
    let cluster = Cluster::new();
    let lines: String = (0..20_000)
        .map(|n| format!("line {n} {}\n", "x".repeat(n % 90)))
        .collect();
    let file = cluster.file("lines", lines.as_bytes());
    let sub = cluster.start(&[
        "sub",
        "logs",
        "--count",
        "20000",
        "--until-idle",
        IDLE,
        "--loss",
        "2",
    ]);
    let publish = cluster.run(&["pub", "logs", "--file", &file, "--loss", "2"], b"");
    assert_code(&publish, 0);
    let received = sub.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, lines.as_bytes());
}

#[test]
fn binary_frames_come_out_as_they_went_in() {
    let cluster = Cluster::new();
    let mut frames = Vec::new();
    for length in [0, 1, 1000, 1472, 70_000, 0, 3] {
        frames.extend_from_slice(&(length as u32).to_le_bytes());
        frames.extend_from_slice(&noise(length));
    }
    let sub = cluster.start(&[
        "sub",
        "bin",
        "--frames",
        "--count",
        "7",
        "--until-idle",
        IDLE,
    ]);
    assert_code(&cluster.run(&["pub", "bin", "--frames"], &frames), 0);
    let received = sub.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, frames);
}

#[test]
fn a_message_of_16_mib_arrives_whole_despite_losses() {
    let cluster = Cluster::new();
    let content = noise(16 << 20);
    let file = cluster.file("whole", &content);
    let sub = cluster.start(&[
        "sub",
        "big",
        "--raw",
        "--count",
        "1",
        "--until-idle",
        IDLE,
        "--loss",
        "2",
    ]);
    assert_code(&cluster.run(&["pub", "big", "--whole", &file], b""), 0);
    let received = sub.output();
    assert_code(&received, 0);
    assert!(
        received.stdout == content,
        "{} bytes",
        received.stdout.len()
    );
}

#[test]
fn a_prefix_also_finds_groups_that_come_later() {
    let cluster = Cluster::new();
    let sub = cluster.start(&["sub", "a/*", "--json", "--count", "2", "--until-idle", IDLE]);
    // Each waits for its receiver, which begins to receive because the group is published to.
    assert_code(
        &cluster.run(&["pub", "a/one", "b/one", "--wait-members", "0"], b""),
        0,
    );
    assert_code(&cluster.run(&["pub", "a/one"], b"1\n"), 0);
    assert_code(&cluster.run(&["pub", "a/two"], b"\xff\n"), 0);
    let received = sub.output();
    assert_code(&received, 0);
    let rows = received.stdout.lines().map(|line| {
        let row: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
        (
            row["group"].clone(),
            row["text"].clone(),
            row["base64"].clone(),
            row["number"].clone(),
        )
    });
    let rows: Vec<_> = rows.collect();
    assert_eq!(
        rows[0],
        (
            "a/one".into(),
            "1".into(),
            serde_json::Value::Null,
            1.into()
        )
    );
    assert_eq!(
        rows[1],
        (
            "a/two".into(),
            serde_json::Value::Null,
            "/w==".into(),
            1.into()
        )
    );
}

#[test]
fn every_group_is_stored_in_a_file_of_its_own_and_hashed() {
    let cluster = Cluster::new();
    let folder = text(&cluster.folder.join("stored"));
    let sub = cluster.start(&[
        "sub",
        "s/1",
        "s/2",
        "--output",
        &folder,
        "--hash",
        "--count",
        "200",
        "--until-idle",
        IDLE,
    ]);
    let lines: String = (0..100).map(|n| format!("{n}\n")).collect();
    assert_code(&cluster.run(&["pub", "s/1", "s/2"], lines.as_bytes()), 0);
    let received = sub.output();
    assert_code(&received, 0);
    for file in ["s%2F1", "s%2F2"] {
        let stored = std::fs::read_to_string(cluster.folder.join("stored").join(file)).unwrap();
        assert_eq!(stored, lines);
    }
    let hashes = String::from_utf8(received.stdout).unwrap();
    let (first, second) = hashes.split_once('\n').unwrap();
    assert!(first.ends_with("  100  290  s/1"), "{hashes}");
    assert_eq!(first[..64], second[..64]);
}

#[test]
fn messages_can_go_to_groups_in_turn() {
    let cluster = Cluster::new();
    let sub = cluster.start(&[
        "sub",
        "t/1",
        "t/2",
        "--tag",
        "--count",
        "3",
        "--until-idle",
        IDLE,
    ]);
    assert_code(
        &cluster.run(&["pub", "t/1", "t/2", "--round-robin"], b"a\nb\nc"),
        0,
    );
    let received = sub.output();
    let mut lines: Vec<String> = received.stdout.lines().map(|line| line.unwrap()).collect();
    lines.sort_unstable();
    let ends: Vec<_> = lines
        .iter()
        .map(|line| (&line[..4], line.split(' ').nth(2)))
        .collect();
    assert_eq!(
        ends,
        [
            ("t/1 ", Some("1:")),
            ("t/1 ", Some("2:")),
            ("t/2 ", Some("1:"))
        ]
    );
}

#[test]
fn without_a_service_one_of_the_nodes_runs_it() {
    let cluster = Cluster::without_service();
    let sub = cluster.start(&["sub", "news", "--count", "1", "--until-idle", IDLE]);
    assert_code(
        &cluster.run(&["pub", "news", "--wait-timeout", IDLE], b"hello\n"),
        0,
    );
    assert_eq!(sub.output().stdout, b"hello\n");
}

#[test]
fn lists_show_what_is_there() {
    let cluster = Cluster::new();
    let mut sub = cluster.start(&["sub", "listed", "--name", "reader", "--count", "2"]);
    assert_code(&cluster.run(&["pub", "listed"], b"1\n"), 0);
    let mut stdout = BufReader::new(sub.0.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "1\n");
    let json = |command: &str| -> serde_json::Value {
        let listed = cluster.run(&[command, "--json"], b"");
        assert_code(&listed, 0);
        serde_json::from_slice(&listed.stdout).unwrap()
    };
    let nodes = json("nodes");
    let reader = nodes
        .as_array()
        .unwrap()
        .iter()
        .find(|node| node["name"] == "reader")
        .unwrap();
    assert_eq!(reader["receives"], 1);
    let groups = json("groups");
    let group = groups
        .as_array()
        .unwrap()
        .iter()
        .find(|group| group["name"] == "listed")
        .unwrap();
    assert_eq!(group["members"], 1);
    let regions = json("regions");
    assert_eq!(regions[0]["members"].as_array().unwrap().len(), 1);
    assert_eq!(regions[0]["region"], reader["region"]);
    let table = cluster.run(&["groups"], b"");
    assert!(
        String::from_utf8_lossy(&table.stdout).contains("\nlisted "),
        "{table:?}"
    );
}

/// What a node says of itself when it is admitted, and of its rates as soon as it is due.
#[test]
fn nodes_are_listed_with_host_version_uptime_and_rates() {
    let cluster = Cluster::new();
    let _sub = cluster.start(&["sub", "rated", "--name", "reader"]);
    let mut publisher = cluster.command(&["pub", "rated", "--name", "writer", "--rate", "500"]);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    let writing = std::thread::spawn(move || {
        // Until the publisher is killed.
        while stdin.write_all(b"line\n").is_ok() {}
    });
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let [reader, writer] = loop {
        let listed = cluster.run(&["nodes", "--json"], b"");
        assert_code(&listed, 0);
        let nodes: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
        let find = |name: &str| nodes.iter().find(|node| node["name"] == name).cloned();
        let rate = |node: &Option<serde_json::Value>, of: &str| {
            node.as_ref()
                .is_some_and(|node| node[of].as_u64() > Some(0))
        };
        let (reader, writer) = (find("reader"), find("writer"));
        if rate(&reader, "received_per_second") && rate(&writer, "sent_per_second") {
            break [reader.unwrap(), writer.unwrap()];
        }
    };
    for node in [&reader, &writer] {
        assert_eq!(node["host"], host.trim(), "{node}");
        assert_eq!(node["version"], env!("CARGO_PKG_VERSION"));
        assert!(node["uptime_seconds"].is_u64(), "{node}");
    }
    assert_eq!(reader["sent_per_second"], 0, "{reader}");
    let table = cluster.run(&["nodes"], b"");
    let table = String::from_utf8(table.stdout).unwrap();
    for column in ["HOST", "VERSION", "UP", "SENT/S", "RECEIVED/S"] {
        assert!(table.lines().next().unwrap().contains(column), "{table}");
    }
    drop(publisher);
    writing.join().unwrap();
}

/// Nobody who is told of nodes that come and go hears of one that only looks.
#[test]
fn those_who_look_are_seen_by_nobody() {
    let mut cluster = Cluster::without_service();
    let (mut gms, address) = cluster.start_gms(&[], Stdio::inherit());
    cluster.use_service(&address);
    for command in ["nodes", "groups", "regions", "nodes"] {
        let listed = cluster.run(&[command, "--json"], b"");
        assert_code(&listed, 0);
        assert_eq!(listed.stdout, b"[]\n");
    }
    // The first that the service tells of anybody.
    assert_code(
        &cluster.run(&["pub", "a", "--wait-members", "0", "--name", "one"], b""),
        0,
    );
    let log = BufReader::new(gms.0.stdout.take().unwrap());
    let events = log
        .lines()
        .map(|line| -> serde_json::Value { serde_json::from_str(&line.unwrap()).unwrap() });
    let mut of_nodes = events.filter(|event| !event["name"].is_null());
    assert_eq!(of_nodes.next().unwrap()["name"], "one");
}

/// One that only looks finds the service that a node runs.
#[test]
fn lists_are_those_of_an_embedded_service() {
    let cluster = Cluster::without_service();
    let mut sub = cluster.start(&["sub", "a", "--name", "first"]);
    let mut line = String::new();
    let mut errors = BufReader::new(sub.0.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    let listed = cluster.run(&["nodes", "--json"], b"");
    assert_code(&listed, 0);
    let nodes: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(nodes.as_array().unwrap().len(), 1, "{nodes}");
    assert_eq!(nodes[0]["name"], "first");
}

#[test]
fn a_node_of_several_core_threads_is_listed_with_each() {
    let cluster = Cluster::new();
    let groups = ["a", "b", "c", "d", "e", "f"];
    let words = ["sub", "--name", "reader", "--cores", "2", "--count", "12"];
    let sub = cluster.start(&[&words[..], &groups].concat());
    let words = ["pub", "--cores", "3"];
    assert_code(&cluster.run(&[&words[..], &groups].concat(), b"1\n"), 0);
    let listed = cluster.run(&["nodes", "--cores", "2", "--json"], b"");
    assert_code(&listed, 0);
    let nodes: Vec<serde_json::Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let receives = |name: &str| {
        let node = nodes.iter().find(|node| node["name"] == name).unwrap();
        node["receives"].as_u64().unwrap()
    };
    let (first, second) = (receives("reader"), receives("reader/2"));
    assert!(first > 0 && second > 0, "{first} and {second}");
    assert_eq!(first + second, 6);
    assert_eq!(nodes.len(), 2, "not the one who asks: {nodes:?}");
    assert_code(&cluster.run(&[&["pub"], &groups[..]].concat(), b"2\n"), 0);
    let output = sub.output();
    assert_code(&output, 0);
    let mut lines: Vec<&str> = stdout_lines(&output);
    lines.sort_unstable();
    assert_eq!(lines, [["1"; 6], ["2"; 6]].concat());
}

fn stdout_lines(output: &std::process::Output) -> Vec<&str> {
    std::str::from_utf8(&output.stdout)
        .unwrap()
        .lines()
        .collect()
}

#[test]
fn core_threads_that_cannot_run_as_asked_are_told() {
    let cluster = Cluster::without_service();
    let fails = |words: &[&str], code, error: &str| {
        let output = cluster.run(words, b"");
        assert_code(&output, code);
        assert_eq!(stderr(&output).lines().next(), Some(error));
    };
    let few = "qsm: error: core threads: 2, but CPUs to pin them to: 1";
    fails(&["sub", "a", "--cores", "2", "--pin", "0"], 2, few);
    let none = "qsm: error: there is no CPU 60000 here";
    fails(&["nodes", "--io", "--pin", "60000"], 1, none);
}

#[test]
fn a_node_tells_how_it_sends_and_receives() {
    let cluster = Cluster::without_service();
    let words = ["nodes", "--io", "--cores", "2", "--busy-poll", "20"];
    let output = cluster.run(&words, b"");
    assert_code(&output, 0);
    let lines = stdout_lines(&output);
    assert_eq!(lines[0], "lo (127.0.0.1) as asked for");
    let first = lines
        .iter()
        .any(|it| it.starts_with("core thread 1 of 2, on lo"));
    assert!(first, "{lines:?}");
    let line = |start: &str| lines.iter().filter(|line| line.starts_with(start)).count();
    for strategy in [
        "trains sent",
        "trains received",
        "batches",
        "receive buffer",
        "pinned",
    ] {
        assert_eq!(line(strategy), 2, "{strategy}: {lines:?}");
    }
    let output = cluster.run(&[&words[..], &["--json"]].concat(), b"");
    assert_code(&output, 0);
    let cores: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(cores.as_array().unwrap().len(), 2);
    assert_eq!(cores[1]["interface"], "lo");
    let strategies = cores[1]["strategies"].as_array().unwrap();
    let named = |name| strategies.iter().find(|one| one["name"] == name).unwrap();
    assert_eq!(named("batches")["used"], true);
    let busy = named("busy polling");
    assert_eq!(busy["used"], false);
    assert_eq!(
        busy["reason"],
        "lo has no device whose queue could be looked at"
    );
}

#[test]
fn a_reader_of_stdout_that_leaves_ends_the_command_quietly() {
    let cluster = Cluster::new();
    let mut sub = cluster.start(&["sub", "pipe", "--until-idle", IDLE]);
    let mut stdout = BufReader::new(sub.0.stdout.take().unwrap());
    assert_code(&cluster.run(&["pub", "pipe"], b"1\n"), 0);
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    assert_code(&cluster.run(&["pub", "pipe"], b"2\n"), 0);
    let ended = sub.output();
    assert_code(&ended, 0);
    assert_quiet(&ended);
}

#[test]
fn the_service_stops_cleanly_when_asked() {
    let mut cluster = Cluster::new();
    let gms = cluster.take_gms();
    gms.terminate();
    let ended = gms.output();
    assert_eq!(ended.status.code(), Some(0));
    assert!(
        String::from_utf8_lossy(&ended.stdout).contains("stopped"),
        "{ended:?}"
    );
}

/// One line says what is wrong, and another what to do.
fn assert_told(text: &str, cause: &str, remedy: &str) {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("qsm: subscribed to "));
    let lines: Vec<&str> = lines.collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(
        lines[0].starts_with("qsm: error: ") && lines[0].contains(cause),
        "{text}"
    );
    assert!(
        lines[1].starts_with("qsm: remedy: ") && lines[1].contains(remedy),
        "{text}"
    );
}

#[test]
fn every_error_is_a_cause_a_remedy_and_a_code() {
    let cluster = Cluster::new();
    let too_long = "x".repeat(256);
    let too_much = cluster.file("too-much", &noise((16 << 20) + 1));
    let nowhere = text(&cluster.folder.join("nowhere"));
    let folder = text(&cluster.folder);
    let cases: [(&[&str], i32, &str, &str); 10] = [
        (&["pub", &too_long], 2, "256 bytes", "at most 255"),
        (&["pub", "a\u{7}b"], 2, "control characters", "printable"),
        (&["sub", ""], 2, "empty", "name"),
        (
            &["pub", "a", "--file", &nowhere],
            1,
            "cannot open",
            "check the path",
        ),
        (
            // Said at once, though nobody is there.
            &["pub", "a", "--whole", &too_much],
            1,
            "longer than a message may be",
            "cut it into messages",
        ),
        (
            &["pub", "a", "--whole", &folder],
            1,
            "is a folder",
            "one by one",
        ),
        (
            &["pub", "a", "--wait-members", "0", "--frames"],
            1,
            "cut short",
            "ends within a message",
        ),
        (
            &["pub", "a", "--wait-timeout", "0.2"],
            3,
            "0 receivers, not 1",
            "qsm sub",
        ),
        (
            &["sub", "a", "--count", "1", "--until-idle", "0.2"],
            3,
            "0 of 1",
            "--until-idle",
        ),
        (
            &["sub", "a", "--name", &too_long],
            2,
            "name of 256 bytes",
            "1 to 64 bytes",
        ),
    ];
    for (words, code, cause, remedy) in cases {
        let output = cluster.run(words, b"abc");
        assert_code(&output, code);
        assert_told(&stderr(&output), cause, remedy);
    }
}

#[test]
fn the_exit_code_is_the_same_where_nobody_reads_the_error() {
    let mut command = support::qsm();
    command.args(["sub", "a", "--interface", "nonsense0"]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let (read, write) = std::io::pipe().unwrap();
    drop(read);
    let status = command.stderr(write).status().unwrap();
    assert_eq!(status.code(), Some(1));
}

#[test]
fn a_wrong_interface_and_a_missing_service_are_told() {
    let cluster = Cluster::without_service();
    let mut command = support::qsm();
    command
        .args(["sub", "a", "--interface", "nonsense0"])
        .stdin(Stdio::null());
    let output = command.output().unwrap();
    assert_code(&output, 1);
    let text = stderr(&output);
    assert!(
        text.contains("nonsense0") && text.contains("choose one of: lo"),
        "{text}"
    );
    let output = cluster.run(&["nodes", "--timeout", "0.5"], b"");
    assert_code(&output, 3);
    assert!(stderr(&output).contains("qsm gms"), "{}", stderr(&output));
}

/// Runs in a mount namespace of its own, so that nothing is left behind.
#[test]
fn a_full_disk_is_told_and_what_is_stored_is_whole() {
    let probe = Command::new("unshare")
        .args(["--mount", "mount", "-t", "tmpfs", "x", "/mnt"])
        .stderr(Stdio::null())
        .status();
    if !probe.is_ok_and(|status| status.success()) {
        lab::skip("mounting takes root and the program `unshare`");
        return;
    }
    let cluster = Cluster::new();
    let (small, kept) = (cluster.folder.join("small"), cluster.folder.join("kept"));
    std::fs::create_dir_all(&small).unwrap();
    std::fs::create_dir_all(&kept).unwrap();
    let script = r#"
        small=$1 kept=$2; shift 2
        mount -t tmpfs -o size=64k tmpfs "$small" || exit 9
        "$@"; code=$?
        cp "$small"/* "$kept" || exit 9
        exit $code
    "#;
    let sub = cluster.command(&[
        "sub",
        "disk",
        "--output",
        &text(&small),
        "--until-idle",
        IDLE,
    ]);
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        &text(&small),
        &text(&kept),
    ]);
    command.arg(sub.get_program()).args(sub.get_args());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let sub = Running(command.spawn().unwrap());
    let lines: String = (0..1000).map(|n| format!("{n:0>199}\n")).collect();
    let published = cluster.run(&["pub", "disk"], lines.as_bytes());
    // The receiver may have left before it had everything, which is told then.
    if published.status.code() == Some(4) {
        let told = stderr(&published);
        assert!(told.contains("left and are not known to have"), "{told}");
    } else {
        assert_code(&published, 0);
    }
    let ended = sub.output();
    assert_code(&ended, 1);
    let told = stderr(&ended);
    assert!(
        told.contains("No space left") && told.contains("free space"),
        "{told}"
    );
    let stored = std::fs::read_to_string(kept.join("disk")).unwrap();
    assert!(
        stored.len() >= 60 << 10 && stored.len() % 200 == 0,
        "{} bytes",
        stored.len()
    );
    assert_eq!(stored, lines[..stored.len()]);
}
