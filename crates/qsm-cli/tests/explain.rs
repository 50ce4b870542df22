//! `qsm explain` without a group: what nodes of this host lose, and what holds them back; and of one message.

mod support;

use std::io::Write;
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lab::{HostId, Lab};
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
    let words = [
        "sub",
        "news",
        "--name",
        &name,
        "--queue",
        "64K",
        "--overflow",
        "drop-newest",
    ];
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
    let evidence = found["evidence"].as_str().unwrap();
    assert!(evidence.contains("(its subscription to news: "), "{found}");
    drop(source);
    writer.join().unwrap();
}

// Rule R-DATA-13.
#[test]
fn a_reader_that_holds_its_senders_up_is_named_with_what_it_does() {
    let cluster = Cluster::new();
    let name = format!("hold-{}", std::process::id());
    // Nobody reads what it writes.
    let words = ["sub", "news", "other", "--name", &name, "--queue", "64K"];
    let mut sub = cluster.start(&words);
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    let mut source = cluster.command(&["pub", "news"]);
    source.stdout(Stdio::null()).stderr(Stdio::null());
    let (source, writer) = flooding(source);
    // The pipe has filled, then the queue, and then what the node keeps.
    let account = loop {
        let account = explained(&cluster, &name);
        let findings = account["findings"].as_array().unwrap();
        let waits = |finding: &&Value| {
            let evidence = finding["evidence"].as_str().unwrap();
            finding["id"] == "reader-holds" && evidence.contains("senders waited")
        };
        if findings.iter().any(|finding| waits(&finding)) {
            break account;
        }
    };
    let reader = &account["readers"][0];
    assert_eq!(reader["groups"], serde_json::json!(["news", "other"]));
    assert_eq!(reader["process"], Value::Null);
    for part in ["held_share", "held_for_seconds"] {
        assert!(reader[part].as_f64() > Some(0.0), "{reader}");
    }
    assert_eq!(reader["dropped_per_second"], 0.0);
    drop(sub);
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

/// A host's program, which needs no other configuration than its host.
fn on(lab: &Lab, host: HostId, words: &[&str]) -> Command {
    let mut command = lab.command(host, support::QSM);
    command.args(words).env("QSM_CONFIG", "");
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(Stdio::null());
    command
}

/// JSON that a command of a host writes.
fn json_of(lab: &Lab, host: HostId, words: &[&str]) -> Value {
    let output = on(lab, host, words).stdout(Stdio::piped()).output();
    let output = output.unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"))
}

/// A subscriber, once it is there.
fn subscribed(mut command: Command) -> Running {
    let mut sub = Running(command.stderr(Stdio::piped()).spawn().unwrap());
    let said = Lines::of_stderr(&mut sub.0);
    said.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    sub
}

/// A publisher of lines of 1000 bytes, as fast as it may, until the test ends.
fn flooding(mut command: Command) -> (Running, thread::JoinHandle<()>) {
    let mut source = Running(command.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = source.0.stdin.take().unwrap();
    let line = [&[b'x'; 1000][..], b"\n"].concat();
    let writer = thread::spawn(move || while stdin.write_all(&line).is_ok() {});
    (source, writer)
}

#[test]
fn a_receive_buffer_that_is_too_small_is_named_by_explain_and_by_the_doctor() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let words = ["sub", "news", "--receive-buffer", "8k"];
    let sub = subscribed(on(&lab, hosts[1], &words));
    let words = ["pub", "news", "--rate", "2000"];
    let (source, writer) = flooding(on(&lab, hosts[0], &words));
    let explained = || json_of(&lab, hosts[1], &["explain", "--seconds", "1", "--json"])[0].clone();
    let examined = || {
        let words = ["doctor", "--interface", "eth0", "--watch", "1", "--json"];
        let report = json_of(&lab, hosts[1], &words);
        let mut findings = report["findings"].as_array().unwrap().iter();
        let found = findings.find(|one| one["id"] == "udp-drops").unwrap();
        found["verdict"].clone()
    };
    // A sender of Quicksilver's keeps to what a receiver has room for; who does not is another program.
    let node = explained()["node"]["address"].as_str().unwrap().to_owned();
    let stranger = {
        let _inside = lab.host(hosts[0]).namespace().enter().unwrap();
        UdpSocket::bind("0.0.0.0:0").unwrap()
    };
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                // Far more at a time than there is room for, and time between for the node to do its work. The
                // system may refuse some.
                for _ in 0..500 {
                    drop(stranger.send_to(&[0; 1000], &node));
                }
                thread::sleep(Duration::from_millis(2));
            }
        });
        while explained()["missing"]["receive_buffer"].as_f64() <= Some(0.0) {}
        while examined() != "fault" {}
        ended.store(true, Ordering::Relaxed);
    });
    drop((source, sub));
    writer.join().unwrap();
}

#[test]
fn a_core_thread_whose_cpu_is_taken_away_is_named() {
    let cluster = Cluster::new();
    let name = format!("starved-{}", std::process::id());
    let mut command = cluster.command(&["sub", "news", "--name", &name]);
    command.stdout(Stdio::null());
    let sub = subscribed(command);
    let found = |account: &Value| {
        let findings = account["findings"].as_array().unwrap();
        findings.iter().any(|one| one["id"] == "core-thread-late")
    };
    loop {
        // It stands still for as long as it takes to start some processes: longer than the 10 ms from which on
        // others notice, once or another time.
        sub.signal("-STOP");
        for _ in 0..20 {
            Command::new("true").status().unwrap();
        }
        sub.signal("-CONT");
        let words = ["explain", "--node", &name, "--seconds", "0", "--json"];
        let output = support::qsm().args(words).output().unwrap();
        assert_code(&output, 0);
        let nodes: Value = serde_json::from_slice(&output.stdout).unwrap();
        if found(&nodes[0]) {
            break;
        }
    }
}

#[test]
fn one_receiver_that_loses_much_is_named_and_not_the_others() {
    let cluster = Cluster::new();
    let of = |name: &str| format!("{name}-{}", std::process::id());
    let (crybaby, calm) = (of("crybaby"), of("calm"));
    let start = |name: &str, loss| {
        let words = ["sub", "news", "--name", name, "--loss", loss];
        let mut command = cluster.command(&words);
        command.stdout(Stdio::null());
        subscribed(command)
    };
    let _subs = (start(&crybaby, "20"), start(&calm, "0"));
    let mut source = cluster.command(&["pub", "news", "--rate", "5000"]);
    source.stdout(Stdio::null()).stderr(Stdio::null());
    let (source, writer) = flooding(source);
    let thrown = |account: &Value| account["missing"]["thrown_away_on_purpose"].as_f64();
    let account = loop {
        let account = explained(&cluster, &crybaby);
        if thrown(&account) > Some(0.0) && account["missing_per_second"].as_f64() > Some(0.0) {
            break account;
        }
    };
    assert!(
        account["repaired_per_second"].as_f64() > Some(0.0),
        "{account}"
    );
    assert_eq!(thrown(&explained(&cluster, &calm)), Some(0.0));
    drop(source);
    writer.join().unwrap();
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

/// Nodes of a cluster with hints, and its service.
struct Hinted {
    cluster: Cluster,
    gms: Running,
    address: String,
    /// The node that is asked.
    bert: String,
    _subs: [Running; 4],
}

impl Hinted {
    fn new() -> Self {
        let mut cluster = Cluster::without_service();
        // Tests run beside each other on this host, by processes or threads.
        let of = |name: &str| format!("{name}-{}", cluster.option("--cluster"));
        let (anna, bert, carl, dora) = (of("anna"), of("bert"), of("carl"), of("dora"));
        let hints = format!("domain red: {anna}\npin fast: ticks\n");
        let hints = cluster.file("hints.txt", hints.as_bytes());
        // A plan would have few receivers of a group get copies.
        let options = ["--hints", &hints, "--plan-every", "0"];
        let (gms, address) = cluster.start_gms(&options, Stdio::inherit());
        cluster.use_service(&address);
        let start = |name: &str, groups: &[&str]| {
            let words = [&["sub", "--name", name], groups].concat();
            let mut command = cluster.command(&words);
            command.stdout(Stdio::null());
            subscribed(command)
        };
        let subs = [
            start(&anna, &["news", "ticks"]),
            start(&bert, &["news", "ticks"]),
            start(&carl, &["news", "sport", "ticks"]),
            start(&dora, &["news", "sport", "ticks"]),
        ];
        Self {
            cluster,
            gms,
            address,
            bert,
            _subs: subs,
        }
    }

    fn explain(&self, group: &str, options: &[&str]) -> Vec<u8> {
        let mut command = support::qsm();
        command.args(["explain", group, "--node", &self.bert]);
        let output = command.args(options).output().unwrap();
        assert_code(&output, 0);
        output.stdout
    }

    fn json(&self, group: &str) -> Value {
        let said: Value = serde_json::from_slice(&self.explain(group, &["--json"])).unwrap();
        said[0].clone()
    }
}

// Rules R-MEM-18 and R-VIEW-18.
#[test]
fn a_group_is_explained_by_its_service_with_regions_hints_and_other_ways() {
    let hinted = Hinted::new();
    let news = &hinted.json("news")["decision"];
    assert_eq!(
        (&news["receivers"], &news["packets"]),
        (&4.into(), &3.into())
    );
    let regions = news["regions"].as_array().unwrap();
    let kinds: Vec<&Value> = regions.iter().map(|region| &region["kind"]).collect();
    assert_eq!(kinds, ["exact"; 3]);
    let sizes: Vec<&Value> = regions.iter().map(|region| &region["receivers"]).collect();
    assert_eq!(sizes, [2, 1, 1]);
    let red: Vec<&Value> = regions.iter().filter(|it| it["domain"] == "red").collect();
    // Nobody else is of that domain.
    assert_eq!((red.len(), &red[0]["nearest"]), (1, &Value::Null));
    let alone = |it: &&Value| it["receivers"] == 1 && it["domain"].is_null();
    // Three nodes with two groups, of which one does not want the second.
    let nearest = &regions.iter().find(alone).unwrap()["nearest"];
    assert_eq!(nearest["unwanted_ppm"], 166_666);
    let ways = news["ways"].as_array().unwrap().iter();
    let ways = ways.map(|way| {
        (
            way["way"].as_str().unwrap(),
            way["packets"].as_u64().unwrap(),
        )
    });
    let expected = [("exact", 3), ("copies", 4), ("common", 2), ("merged", 2)];
    assert_eq!(ways.collect::<Vec<_>>(), expected);
    let ticks = &hinted.json("ticks")["decision"];
    assert_eq!(
        (&ticks["pin"], &ticks["packets"]),
        (&"fast".into(), &2.into())
    );
}

#[test]
fn a_services_decision_is_read_below_what_nodes_say_and_may_be_missing() {
    let hinted = Hinted::new();
    let text = String::from_utf8(hinted.explain("news", &[])).unwrap();
    let heading = format!(
        "group news, as the membership service at {} of cluster {} decided",
        hinted.address,
        hinted.cluster.option("--cluster")
    );
    for line in [
        &*heading,
        "A message takes 3 packets to 4 receivers, and costs 15 µs of CPU time in all. Nobody publishes to it \
         now: plans count with 1 message/s.",
        "The service makes no plans (--plan-every 0): regions follow from groups and hints.",
    ] {
        assert!(text.lines().any(|it| it == line), "{line}: {text}");
    }
    let why = "its members receive the same groups; hint: domain red";
    assert!(text.contains(why), "{text}");
    // A service that does not answer: its process stands still.
    hinted.gms.signal("-STOP");
    let said = hinted.json("news");
    assert_eq!(said["decision"], Value::Null);
    assert_eq!(said["group"]["name"], "news");
}
