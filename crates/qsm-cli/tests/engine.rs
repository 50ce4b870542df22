//! `qsm engine`, and `qsm pub` and `qsm sub` attached to it, as processes.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};
use std::thread;

use serde_json::Value;
use support::{Cluster, Lines, Running, assert_code, stderr, text};

/// More than a slow machine needs; a test that waits so long has failed.
const IDLE: &str = "60";

/// An engine at this path, once it is there.
fn engine(cluster: &Cluster, path: &str) -> Running {
    sharing(cluster.start(&["engine", "--at", path, "--name", "engine"]))
}

/// The engine, once it is there.
fn sharing(mut engine: Running) -> Running {
    let mut line = String::new();
    let mut stdout = BufReader::new(engine.0.stdout.as_mut().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert!(line.starts_with("sharing at"), "{line}");
    engine
}

fn attached(words: &[&str], path: &str) -> Command {
    let mut command = support::qsm();
    command.args(words).args(["--attach", path]);
    let command_with = command.stdin(Stdio::null()).stdout(Stdio::piped());
    command_with.stderr(Stdio::piped());
    command
}

#[test]
fn attached_programs_exchange_lines_with_nodes() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let engine = engine(&cluster, &path);
    let lines: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    let file = cluster.file("lines", lines.as_bytes());
    let words = ["sub", "up", "--count", "5000", "--until-idle", IDLE];
    let remote = cluster.start(&words);
    let publish = attached(&["pub", "up", "--file", &file], &path).output();
    assert_code(&publish.unwrap(), 0);
    let received = remote.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, lines.as_bytes());
    // Each in a group of its own, so that the publisher waits for both.
    let subs = ["down/1", "down/2"].map(|group| {
        let words = ["sub", group, "--count", "5000", "--until-idle", IDLE];
        Running(attached(&words, &path).spawn().unwrap())
    });
    let publish = ["pub", "down/1", "down/2", "--file", &file];
    assert_code(&cluster.run(&publish, b""), 0);
    for sub in subs {
        let received = sub.output();
        assert_code(&received, 0);
        assert_eq!(received.stdout, lines.as_bytes());
    }
    engine.terminate();
    assert_code(&engine.output(), 0);
}

/// By name and by a pattern: more than rings, queues and the publisher's node have room for.
#[test]
fn an_attached_subscriber_whose_output_nobody_reads_makes_the_publisher_wait_and_gets_all() {
    const LONG: usize = 64 << 10;
    const MANY: usize = 1500;
    let line = |n: usize| format!("{n:0>width$}\n", width = LONG - 1);
    for group in ["news", "*"] {
        let cluster = Cluster::new();
        let path = text(&cluster.folder.join("engine"));
        let _engine = engine(&cluster, &path);
        let count = MANY.to_string();
        let words = ["sub", group, "--queue", "1M", "--count", &count];
        let mut sub = Running(attached(&words, &path).spawn().unwrap());
        let told = Lines::of_stderr(&mut sub.0);
        told.wait("that it is there", |line| line.contains("subscribed to"));
        let publisher = cluster
            .command(&["pub", "news"])
            .stdin(Stdio::piped())
            .spawn();
        let mut publisher = Running(publisher.unwrap());
        let mut stdin = publisher.0.stdin.take().unwrap();
        let writer = thread::spawn(move || {
            (0..MANY).for_each(|n| stdin.write_all(line(n).as_bytes()).unwrap());
        });
        told.wait("that senders wait", |line| {
            line.contains("senders have waited")
        });
        assert!(!writer.is_finished(), "the publisher has taken all");
        let mut written = String::new();
        let stdout = sub.0.stdout.take();
        stdout.unwrap().read_to_string(&mut written).unwrap();
        writer.join().unwrap();
        assert!(written == (0..MANY).map(line).collect::<String>());
        assert_eq!(sub.0.wait().unwrap().code(), Some(0));
        assert_code(&publisher.output(), 0);
    }
}

/// A thread's name, and the CPUs that it may run on.
fn threads(pid: u32) -> Vec<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let threads = tasks.map(|task| {
        let task = task.unwrap().path();
        let status = fs::read_to_string(task.join("status")).unwrap();
        let field = |name| {
            let mut values = status.lines().filter_map(|line| line.strip_prefix(name));
            values.next().unwrap().trim().to_owned()
        };
        (field("Name:"), field("Cpus_allowed_list:"))
    });
    threads.collect()
}

/// The CPUs of this process, one by one.
fn own_cpus() -> Vec<usize> {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mut lists = status
        .lines()
        .filter_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let ranges = lists.next().unwrap().trim().split(',');
    let number = |text: &str| text.parse::<usize>().unwrap();
    let cpus = ranges.flat_map(|range| match range.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(range)..=number(range),
    });
    cpus.collect()
}

/// Where there are fewer CPUs than core threads, some threads share one.
#[test]
fn an_engine_keeps_each_core_thread_on_its_cpu() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let cpus = own_cpus();
    let mut pins: Vec<String> = cpus.iter().cycle().take(4).map(usize::to_string).collect();
    let words = ["engine", "--at", &path, "--cores", "4", "--pin"];
    let engine = sharing(cluster.start(&[&words[..], &[&pins.join(",")]].concat()));
    let mut found: Vec<String> = threads(engine.0.id())
        .into_iter()
        .filter(|(name, _)| name == "qsm-core")
        .map(|(_, cpus)| cpus)
        .collect();
    found.sort_unstable();
    pins.sort_unstable();
    assert_eq!(found, pins);
    // Of so many groups each core thread has some.
    let groups: Vec<String> = (0..16).map(|number| format!("group/{number}")).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    let words = ["sub", "--json", "--count", "16", "--until-idle", IDLE];
    let sub = attached(&[&words[..], &groups].concat(), &path).spawn();
    let sub = Running(sub.unwrap());
    let file = cluster.file("line", b"one\n");
    let words = [&["pub", "--file", &file], &groups[..]].concat();
    assert_code(&cluster.run(&words, b""), 0);
    let received = sub.output();
    assert_code(&received, 0);
    let lines = str::from_utf8(&received.stdout).unwrap().lines();
    let found: BTreeSet<String> = lines
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| line["group"].as_str().unwrap().to_owned())
        .collect();
    assert!(found.iter().eq(&BTreeSet::from_iter(groups)), "{found:?}");
    engine.terminate();
    assert_code(&engine.output(), 0);
}

#[test]
fn an_engine_that_cannot_have_its_cpus_says_which_there_are() {
    let cluster = Cluster::without_service();
    let path = text(&cluster.folder.join("engine"));
    let words = ["engine", "--at", &path, "--cores", "4", "--pin"];
    for (cpus, code, part) in [
        ("0,1,2", 2, "core threads: 4, but CPUs to pin them to: 3"),
        ("0,0,0,9999", 1, "there is no CPU 9999 here"),
    ] {
        let refused = cluster.run(&[&words[..], &[cpus]].concat(), b"");
        assert_code(&refused, code);
        assert!(stderr(&refused).contains(part), "{}", stderr(&refused));
    }
}

#[test]
fn what_cannot_be_attached_to_says_what_to_do() {
    let cluster = Cluster::without_service();
    let path = text(&cluster.folder.join("nothing"));
    let missing = attached(&["sub", "x"], &path).output().unwrap();
    assert_code(&missing, 1);
    assert!(
        stderr(&missing).contains("qsm engine --at"),
        "{}",
        stderr(&missing)
    );
}

#[test]
fn an_attached_subscriber_follows_the_groups_of_a_prefix() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let _engine = engine(&cluster, &path);
    let words = ["sub", "a/*", "--count", "2", "--until-idle", IDLE];
    let sub = Running(attached(&words, &path).spawn().unwrap());
    let file = cluster.file("lines", b"one\ntwo\n");
    // The group begins to be with its publisher, who waits for a receiver.
    assert_code(&cluster.run(&["pub", "a/b", "--file", &file], b""), 0);
    let received = sub.output();
    assert_code(&received, 0);
    assert_eq!(received.stdout, b"one\ntwo\n");
}

#[test]
fn a_path_in_use_is_refused_to_a_second_engine() {
    let cluster = Cluster::new();
    let path = text(&cluster.folder.join("engine"));
    let _engine = engine(&cluster, &path);
    let second = cluster.run(&["engine", "--at", &path], b"");
    assert_code(&second, 1);
    assert!(stderr(&second).contains("shared at"), "{}", stderr(&second));
}

/// Waits until a line of the service has all these parts.
fn wait_for_line(service: &mut impl BufRead, parts: &[&str]) {
    let mut line = String::new();
    while !parts.iter().all(|part| line.contains(part)) {
        line.clear();
        let read = service.read_line(&mut line).unwrap();
        assert!(read > 0, "the service has ended");
    }
}

/// Two processes publish by one engine; the receiver of one of them dies without having had
/// everything.
#[test]
fn an_attached_publisher_is_told_what_receivers_lack_of_its_own_groups() {
    let mut cluster = Cluster::with_service(&["--gone-after", "3600"]);
    let mut gms = cluster.take_gms();
    let mut service = BufReader::new(gms.0.stdout.take().unwrap());
    let path = text(&cluster.folder.join("engine"));
    let _engine = engine(&cluster, &path);
    let victim = cluster.start(&["sub", "news", "--name", "victim"]);
    let mut healthy = cluster.start(&["sub", "sport", "--name", "healthy"]);
    let publisher = |group| {
        let mut command = attached(&["pub", group], &path);
        Running(command.stdin(Stdio::piped()).spawn().unwrap())
    };
    let (mut news, mut sport) = (publisher("news"), publisher("sport"));
    let mut stdin = news.0.stdin.take().unwrap();
    let mut other = sport.0.stdin.take().unwrap();
    other.write_all(b"1\n").unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(healthy.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    // The receiver stands still before it can acknowledge anything, and dies.
    wait_for_line(&mut service, &["\"admitted\"", "\"victim\""]);
    victim.signal("-STOP");
    wait_for_line(&mut service, &["\"away\"", "\"victim\""]);
    for number in 1..=100 {
        writeln!(stdin, "{number}").unwrap();
    }
    drop(stdin);
    // While it is away the publisher waits; it is told when it is gone.
    victim.signal("-KILL");
    let ended = news.output();
    assert_code(&ended, 4);
    let told = stderr(&ended);
    assert!(
        told.contains("not known to have everything: victim (group news 1..=100 of life "),
        "{told}"
    );
    drop(other);
    let ended = sport.output();
    assert_code(&ended, 0);
    let told = stderr(&ended);
    assert!(told.contains("all receivers have everything"), "{told}");
}
