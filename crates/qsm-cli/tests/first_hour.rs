//! The first hour with the program: what it says of itself, what it takes, and how it ends.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::UdpSocket;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use support::{Cluster, Running, assert_code, noise, qsm, stderr, text};

/// More than a slow machine needs; a test that waits so long has failed.
const IDLE: &str = "60";

#[track_caller]
fn assert_says(output: &Output, parts: &[&str]) {
    let told = stderr(output);
    for part in parts {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_subscriber_says_where_it_is_and_that_nothing_came() {
    let cluster = Cluster::new();
    let output = cluster.run(&["sub", "news", "sport", "--until-idle", "0.2"], b"");
    assert_code(&output, 3);
    let begin = "qsm: subscribed to news, sport by lo (127.0.0.1), in cluster test-";
    assert_says(
        &output,
        &[begin, "with no other node so far", "nothing came at all"],
    );
    assert!(!stderr(&output).contains("WARNING"), "{}", stderr(&output));
}

#[test]
fn a_publisher_says_what_it_waits_for_though_stderr_is_no_terminal() {
    let cluster = Cluster::new();
    let mut publisher = cluster.start(&["pub", "news", "--wait-timeout", "600"]);
    let mut errors = BufReader::new(publisher.0.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let begin =
        "qsm: waiting for 1 receiver of group news (0 so far) by lo (127.0.0.1), in cluster";
    assert!(line.contains(begin), "{line}");
    assert!(line.contains("--wait-timeout 600 s"), "{line}");
    publisher.signal("-INT");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("group news has 0 receivers, not 1"), "{rest}");
    // So long it has waited, not as long as it might have.
    assert!(!rest.contains("600"), "{rest}");
    assert_code(&publisher.output(), 3);
}

#[test]
fn a_wrong_cluster_is_named_where_nobody_is_found() {
    let cluster = Cluster::without_service();
    let _there = cluster.start_gms(&[], Stdio::null());
    let other = |words: &[&str]| cluster.misnamed("another", words).output().unwrap();
    let doubt = "packets of another cluster arrive here: is --cluster another right?";
    let output = other(&["nodes", "--timeout", "3"]);
    assert_code(&output, 3);
    assert_says(&output, &["answered to multicast within 3 s; ", doubt]);
    let output = other(&["pub", "news", "--wait-timeout", "3"]);
    assert_code(&output, 3);
    assert_says(&output, &["group news has 0 receivers", doubt]);
}

#[test]
fn a_service_that_was_found_instead_of_the_named_one_is_told_of() {
    let mut cluster = Cluster::without_service();
    let (_gms, address) = cluster.start_gms(&[], Stdio::null());
    // Nobody answers at a port that is taken by no service.
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let wrong = taken.local_addr().unwrap().to_string();
    cluster.use_service(&wrong);
    let output = cluster.run(&["sub", "news", "--until-idle", "0.2"], b"");
    assert_code(&output, 3);
    let named = format!("answers at {wrong}, which --service names; found one at {address}");
    assert_says(&output, &[&named, "subscribed to news"]);
    let output = cluster.misnamed("another", &["sub", "news"]).output();
    let output = output.unwrap();
    assert_code(&output, 3);
    let nowhere = format!("(--cluster another) answered at {wrong} (--service), nor by multicast");
    assert_says(&output, &[&nowhere, "is --cluster another right?"]);
}

/// In a network namespace of its own, in which only loopback is up.
#[test]
fn loopback_that_nobody_asked_for_is_warned_of() {
    let script = r#"
        ip link set lo up && ip link add veth0 type veth peer name veth1 || exit 9
        "$@"
    "#;
    let isolated = |words: &[&str]| {
        let mut command = qsm();
        command.args(words);
        let mut isolated = Command::new("unshare");
        isolated.args(["--net", "sh", "-c", script, "sh"]);
        isolated.arg(command.get_program()).args(command.get_args());
        isolated.env("QSM_CONFIG", "").stdin(Stdio::null());
        isolated.output().unwrap()
    };
    let output = isolated(&["sub", "news", "--embedded-gms", "--until-idle", "0.2"]);
    if !matches!(output.status.code(), Some(3)) && stderr(&output).contains("unshare") {
        lab::skip("a network namespace takes root and the program `unshare`");
        return;
    }
    assert_code(&output, 3);
    let down = "lo (127.0.0.1) chosen: no other interface carries multicast";
    let parts = [
        "WARNING",
        down,
        "veth0",
        "are down)",
        "ip link set dev",
        "subscribed to news by lo",
    ];
    assert_says(&output, &parts);
    let output = isolated(&["nodes", "--timeout", "0.2"]);
    assert_code(&output, 3);
    assert_says(&output, &parts[..5]);
    let output = isolated(&["nodes", "--io"]);
    assert_code(&output, 0);
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(
        told.starts_with(down) && told.contains("are down)"),
        "{told}"
    );
}

#[test]
fn patterns_that_never_match_and_patterns_for_names_are_refused() {
    for (words, cause, remedy) in [
        (["sub", "a*"], "no group can match \"a*\"", "`**`"),
        (["pub", "*"], "stands for all groups", "name each group"),
        (["pub", "a/b*"], "no group can match", "`**`"),
    ] {
        let output = qsm().args(words).stdin(Stdio::null()).output().unwrap();
        assert_code(&output, 2);
        assert_says(&output, &[cause, remedy]);
    }
}

#[test]
fn a_pattern_in_the_middle_finds_its_groups_and_no_others() {
    let cluster = Cluster::new();
    let words = [
        "sub",
        "a/*/c",
        "d/**",
        "--tag",
        "--count",
        "2",
        "--until-idle",
        IDLE,
    ];
    let sub = cluster.start(&words);
    let unwaited = cluster.run(&["pub", "a/b", "a/b/c/d", "--wait-members", "0"], b"no\n");
    assert_code(&unwaited, 0);
    assert_code(&cluster.run(&["pub", "a/b/c"], b"1\n"), 0);
    assert_code(&cluster.run(&["pub", "d"], b"2\n"), 0);
    let output = sub.output();
    assert_code(&output, 0);
    let lines = String::from_utf8(output.stdout).unwrap();
    let groups: Vec<_> = lines
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(groups, ["a/b/c", "d"]);
}

#[test]
fn lists_without_a_service_name_multicast_or_the_address_as_the_probable_reason() {
    let mut cluster = Cluster::without_service();
    let output = cluster.run(&["nodes", "--timeout", "0.3"], b"");
    assert_code(&output, 3);
    assert_says(
        &output,
        &[
            "no membership service answered to multicast within 0.3 s",
            "multicast does not pass",
            "--service HOST:PORT",
        ],
    );
    // Nobody listens at the port of a socket that is bound and not read.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let silent = socket.local_addr().unwrap().to_string();
    cluster.use_service(&silent);
    let output = cluster.run(&["groups", "--timeout", "0.3"], b"");
    assert_code(&output, 3);
    let cause = format!("no membership service answered at {silent}");
    assert_says(&output, &[&cause, "firewall"]);
}

#[test]
fn a_first_node_says_calmly_that_nobody_else_is_there_yet() {
    let cluster = Cluster::without_service();
    let output = cluster.run(&["sub", "news", "--until-idle", "0.2"], b"");
    assert_code(&output, 3);
    assert_says(
        &output,
        &[
            "no membership service answered at 239.",
            "waiting for others",
        ],
    );
    assert!(!stderr(&output).contains("ALONE"), "{}", stderr(&output));
}

#[test]
fn a_service_is_found_by_the_name_of_its_host() {
    let mut cluster = Cluster::without_service();
    let (_gms, address) = cluster.start_gms(&[], Stdio::inherit());
    let (_, port) = address.rsplit_once(':').unwrap();
    cluster.use_service(&format!("localhost:{port}"));
    let output = cluster.run(&["nodes", "--json"], b"");
    assert_code(&output, 0);
    cluster.use_service("no-such-host.invalid:4481");
    let output = cluster.run(&["nodes"], b"");
    assert_code(&output, 1);
    assert_says(
        &output,
        &["cannot find the host no-such-host.invalid", "getent hosts"],
    );
}

#[test]
fn settings_come_from_file_and_variables_and_are_shown() {
    let cluster = Cluster::without_service();
    let file = cluster.file("config.toml", b"interface = 'lo'\ncluster = 'of-file'\n");
    let config = |variables: &[(&str, &str)]| {
        let mut command = qsm();
        command
            .env("QSM_CONFIG", &file)
            .envs(variables.iter().copied());
        command
    };
    let shown = config(&[("QSM_CLUSTER", "of-variable")]);
    let output = { shown }.args(["config", "--json"]).output().unwrap();
    assert_code(&output, 0);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let setting = |key: &str, part: &str| shown["settings"][key][part].clone();
    assert_eq!(setting("cluster", "value"), "of-variable");
    assert_eq!(setting("cluster", "from"), "variable QSM_CLUSTER");
    assert_eq!(setting("interface", "from"), format!("{file}, line 1"));
    assert_eq!(setting("service", "value"), Value::Null);
    let mut sub = config(&[]);
    sub.args(["sub", "a", "--embedded-gms", "--until-idle", "0.2"]);
    let output = sub.stdin(Stdio::null()).output().unwrap();
    assert_code(&output, 3);
    assert_says(&output, &["by lo (127.0.0.1), in cluster of-file"]);
    fs::write(&file, "interface = 'lo'\nclustr = 'x'\n").unwrap();
    let output = config(&[]).args(["nodes"]).output().unwrap();
    assert_code(&output, 2);
    assert_says(
        &output,
        &[&format!("{file}, line 2: there is no setting \"clustr\"")],
    );
}

/// Each line of the packaged file that is a comment only so that the operator may choose.
#[test]
fn all_that_the_packaged_settings_offer_is_understood() {
    let packaged = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/config.toml");
    let packaged = fs::read_to_string(packaged).unwrap();
    let offered = packaged.lines().map(|line| {
        let setting = line
            .strip_prefix('#')
            .filter(|line| line.starts_with(char::is_lowercase));
        setting.unwrap_or(line)
    });
    let offered: Vec<_> = offered.collect();
    let cluster = Cluster::without_service();
    let file = cluster.file("config.toml", offered.join("\n").as_bytes());
    let output = qsm()
        .args(["config", "--json"])
        .env("QSM_CONFIG", &file)
        .output()
        .unwrap();
    assert_code(&output, 0);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    let settings = shown["settings"].as_object().unwrap().values();
    let of_file = settings.filter(|setting| setting["from"].as_str().unwrap().starts_with(&file));
    assert_eq!(of_file.count(), 4, "{shown}");
}

#[test]
fn signals_close_together_ask_once_for_a_graceful_end() {
    let cluster = Cluster::new();
    let mut sub = cluster.start(&["sub", "news"]);
    let mut errors = BufReader::new(sub.0.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.contains("subscribed to news"), "{line}");
    sub.signal("-INT");
    sub.signal("-INT");
    let mut rest = String::new();
    errors.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("asked to end"), "{rest}");
    assert_code(&sub.output(), 0);
}

#[test]
fn a_file_is_stored_as_it_was_sent_and_lines_as_lines() {
    let cluster = Cluster::new();
    let folder = cluster.folder.join("stored");
    let content = noise(100_000);
    let file = cluster.file("weights", &content);
    let words = [
        "sub",
        "models/7b",
        "logs",
        "--output",
        &text(&folder),
        "--count",
        "4",
    ];
    let sub = cluster.start(&[&words[..], &["--until-idle", IDLE]].concat());
    for _ in 0..2 {
        assert_code(
            &cluster.run(&["pub", "models/7b", "--whole", &file], b""),
            0,
        );
    }
    assert_code(&cluster.run(&["pub", "logs"], b"one\ntwo\n"), 0);
    assert_code(&sub.output(), 0);
    let stored = fs::read(folder.join("models%2F7b")).unwrap();
    assert!(
        stored == [&content[..], &content[..]].concat(),
        "{} bytes",
        stored.len()
    );
    assert_eq!(
        fs::read_to_string(folder.join("logs")).unwrap(),
        "one\ntwo\n"
    );
}

/// A row of `sub --json` with the name of its sender: each gets lines until it is known.
fn named_row(cluster: &Cluster, words: &[&str], rows: &mut impl Iterator<Item = Value>) -> Value {
    let mut command = cluster.command(&[&["pub", "news"], words].concat());
    let mut publisher = Running(command.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    let row = loop {
        stdin.write_all(b"hello\n").unwrap();
        let row = rows.next().unwrap();
        if !row["name"].is_null() {
            break row;
        }
    };
    drop(stdin);
    assert_code(&publisher.output(), 0);
    row
}

#[test]
fn json_tells_time_size_and_the_name_of_the_sender() {
    let cluster = Cluster::new();
    let mut sub = cluster.start(&["sub", "news", "--json", "--until-idle", IDLE]);
    let rows = BufReader::new(sub.0.stdout.take().unwrap()).lines();
    let mut rows = rows.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
    let row: Value = named_row(&cluster, &["--name", "desk"], &mut rows);
    assert_eq!((&row["name"], &row["size"]), (&"desk".into(), &5.into()));
    let time = row["time"].as_str().unwrap();
    assert!(time.starts_with("20") && time.ends_with('Z'), "{time}");
    // A node that was given no name has host, program and process.
    let row = named_row(&cluster, &[], &mut rows);
    let parts: Vec<&str> = row["name"].as_str().unwrap().split('/').collect();
    assert!(parts.len() == 3 && parts[1] == "qsm", "{parts:?}");
}

#[test]
fn shells_and_manuals_are_served() {
    let run = |words: &[&str]| {
        let output = qsm().args(words).output().unwrap();
        assert_code(&output, 0);
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(run(&["completion", "bash"]).contains("until-idle"));
    assert!(run(&["man", "sim", "run"]).contains(".TH qsm-sim-run 1"));
    let output = qsm().args(["man", "fly"]).output().unwrap();
    assert_code(&output, 2);
    let cluster = Cluster::without_service();
    let folder = text(&cluster.folder.join("man1"));
    run(&["man", "--output", &folder]);
    for page in ["qsm.1", "qsm-sub.1", "qsm-sim-run.1"] {
        assert!(cluster.folder.join("man1").join(page).exists(), "{page}");
    }
    let output = qsm().args(["sbu", "news"]).output().unwrap();
    assert_code(&output, 2);
    assert_says(&output, &["'sub'"]);
}

#[test]
fn a_simulated_run_ends_with_a_verdict() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scenarios");
    let scenario = format!("{scenarios}/sender-crash.txt");
    let mut run = qsm();
    run.args(["sim", "run", &scenario]).stdout(Stdio::piped());
    let output = Running(run.spawn().unwrap()).output();
    assert_code(&output, 0);
    let told = String::from_utf8(output.stdout).unwrap();
    let last = told.lines().last().unwrap();
    assert!(last.starts_with("PASSED: all promises kept"), "{last}");
}
