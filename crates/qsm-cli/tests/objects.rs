//! Messages shown as objects of a schema, and live objects.

mod support;

use std::fs;
use std::time::Duration;

use qsm_replica::{
    Limits, LiveMap, LogBounds, LogState, Replica, StateMachine, TextBounds, TextState, Uri,
};
use support::{Cluster, Lines, Running, assert_code, stderr};

const PATIENCE: Duration = Duration::from_secs(60);

const SCHEMA: &str = "type Quote = 17 v2 { symbol: string, bid: f64 }\n";

/// A message, as `--frames` has it.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&length.to_le_bytes(), message].concat()
}

#[test]
fn sub_shows_objects_and_says_what_is_none() {
    let cluster = Cluster::new();
    let schema = std::env::temp_dir().join(format!("qsm-schema-{}", std::process::id()));
    fs::write(&schema, SCHEMA).unwrap();
    let path = schema.to_str().unwrap();
    let sub = cluster.start(&["sub", "quotes", "--decode", path, "--count", "2"]);
    let quote = [&b"\x11\x02\x03EUR"[..], &1.5f64.to_le_bytes()].concat();
    let sent = [frame(&quote), frame(b"hello")].concat();
    assert_code(&cluster.run(&["pub", "quotes", "--frames"], &sent), 0);
    let output = sub.output();
    assert_code(&output, 0);
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0]["value"],
        serde_json::json!({"symbol": "EUR", "bid": 1.5})
    );
    assert_eq!(lines[1]["text"], "hello");
    assert!(
        lines[1]["undecoded"]
            .as_str()
            .unwrap()
            .contains("type 104 is not known")
    );
    fs::remove_file(schema).unwrap();
}

#[test]
fn a_schema_that_is_none_is_named_before_anything_starts() {
    let cluster = Cluster::new();
    let nowhere = cluster.run(&["sub", "quotes", "--decode", "/nowhere"], b"");
    assert_code(&nowhere, 2);
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(
        said.contains("cannot read the schema /nowhere: No such file"),
        "{said}"
    );
    let fault = cluster.run(&["sub", "quotes", "--decode", "/dev/null", "--raw"], b"");
    assert_code(&fault, 2);
}

/// The address of a group of this cluster.
fn address(cluster: &Cluster, group: &str, kind: &str) -> String {
    let [name, discovery, port] =
        ["--cluster", "--discovery", "--data-port"].map(|option| cluster.option(option));
    format!("qsm://{name}/{group}?type={kind}&interface=lo&discovery={discovery}&data-port={port}")
}

fn join<S: StateMachine + Send + 'static>(node: &qsm::Node, group: &str, state: S) -> Replica<S> {
    Replica::join(node, group, state, Limits::default()).unwrap()
}

fn follow(process: &mut Running) -> Lines {
    Lines::of_stdout(&mut process.0)
}

#[test]
fn open_shows_live_objects_as_they_change() {
    let cluster = Cluster::new();
    let uri = |group, kind| address(&cluster, group, kind);
    let events: Uri = uri("events", "log").parse().unwrap();
    let node = events.node().name("writer").start().unwrap();
    let log = join(&node, "events", LogState::new(LogBounds::default()));
    let text = join(&node, "minutes", TextState::new(TextBounds::default()));
    let map = LiveMap::bind(&uri("prices", "map")).unwrap();
    map.set("eur", b"1.08").unwrap();
    log.wait_live(PATIENCE).unwrap();
    log.append(b"opened").unwrap();
    text.wait_live(PATIENCE).unwrap();
    text.insert(0, "Present:").unwrap();

    let link = cluster.file("minutes.qsm", uri("minutes", "text").as_bytes());
    let (of_map, of_log) = (uri("prices", "map"), uri("events", "log"));
    let [mut map_seen, mut log_seen, mut text_seen] = [
        &["open", &of_map, "--json", "--count", "3", "--stats", "json"][..],
        &["open", &of_log, "--count", "2"],
        &["open", &link, "--count", "2"],
    ]
    .map(|words| cluster.start(words));
    let lines = [&mut map_seen, &mut log_seen, &mut text_seen].map(follow);
    lines[0].wait("the entry", |line| {
        line.contains(r#""object":"map","event":"set","key":"eur","size":4,"text":"1.08""#)
    });
    lines[1].wait("the line", |line| line == "opened");
    lines[2].wait("the text", |line| line == "Present:");
    map.set("usd", b"1").unwrap();
    lines[0].wait("the next", |line| line.contains(r#""key":"usd""#));
    map.remove("eur").unwrap();
    log.append(b"closed").unwrap();
    text.insert(8, " all").unwrap();
    lines[0].wait("the end of an entry", |line| {
        line.contains(r#""event":"removed","key":"eur"}"#)
    });
    lines[1].wait("the next line", |line| line == "closed");
    lines[2].wait("the next text", |line| line == "Present: all");
    for process in [log_seen, text_seen] {
        assert_code(&process.output(), 0);
    }
    let output = map_seen.output();
    assert_code(&output, 0);
    let said = stderr(&output);
    let counted = said.lines().find(|line| line.starts_with(r#"{"live":1,"#));
    let counted: serde_json::Value = serde_json::from_str(counted.expect(&said)).unwrap();
    let numbers = ["binds", "founded", "taken_snapshots", "state_bytes"];
    assert_eq!(
        numbers.map(|name| counted[name].as_u64()),
        [1, 0, 1, 4].map(Some),
        "{said}"
    );
}

#[test]
fn open_shows_a_group_and_refuses_what_is_no_address() {
    let cluster = Cluster::new();
    let of_group = address(&cluster, "news", "messages");
    let seen = cluster.start(&["open", &of_group, "--count", "1"]);
    let sent = cluster.run(&["pub", "news", "--wait-members", "1"], b"hello\n");
    assert_code(&sent, 0);
    let output = seen.output();
    assert_code(&output, 0);
    assert_eq!(output.stdout, b"hello\n");
    for (address, said) in [
        ("http://floor/news", "qsm://CLUSTER/GROUP"),
        (
            "qsm://floor/news?type=list",
            "type=map, log, text or messages",
        ),
    ] {
        let refused = cluster.run(&["open", address], b"");
        assert_code(&refused, 2);
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}
