//! What publishers and receivers say when they were away or excluded, and receivers when they are to
//! end.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{ChildStdin, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Cluster, Lines, Running, assert_code, stderr};

/// More than a slow machine needs; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Seconds of silence after which nodes are excluded, where that is what is tested.
const SOON: &str = "1";
/// The same where nobody is to be excluded for silence.
const NEVER: &str = "3600";

/// Lines of a pipe, as they come.
fn lines(pipe: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn json(line: &str) -> Value {
    serde_json::from_str(line).unwrap()
}

/// Waits until the service says this of that node.
#[track_caller]
fn wait_for(service: &Receiver<String>, event: &str, node: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let line = json(&service.recv_timeout(left).expect(event));
        // Events of the service itself name no node.
        let identity = line["node"].as_str().unwrap_or_default();
        let of_node = line["name"] == node || identity.starts_with(node);
        if line["event"] == event && of_node {
            return;
        }
        assert!(
            !of_node || line["event"] != "excluded",
            "excluded, and not {event}"
        );
    }
}

/// A cluster, and what its service says. Who is silent for so many seconds is excluded.
fn cluster(gone_after: &str) -> (Cluster, Running, Receiver<String>) {
    let mut cluster = Cluster::with_service(&["--gone-after", gone_after]);
    let mut gms = cluster.take_gms();
    let said = lines(gms.0.stdout.take().unwrap());
    (cluster, gms, said)
}

/// The identity of the node of this name, as it is printed: without its life.
#[track_caller]
fn identity(service: &Receiver<String>, name: &str) -> String {
    loop {
        let line = json(&service.recv_timeout(PATIENCE).expect("admitted"));
        if line["event"] == "admitted" && line["name"] == name {
            let origin = line["node"].as_str().unwrap();
            return origin.split('.').next().unwrap().to_owned();
        }
    }
}

/// Stands still until the service says this of it.
fn freeze_until(process: &Running, service: &Receiver<String>, event: &str, node: &str) {
    process.signal("-STOP");
    wait_for(service, event, node);
}

/// Stands still until the service has taken it for dead.
fn freeze(process: &Running, service: &Receiver<String>, node: &str) {
    freeze_until(process, service, "excluded", node);
}

/// Goes on, until it has been admitted again.
fn thaw(process: &Running, service: &Receiver<String>, name: &str) {
    process.signal("-CONT");
    wait_for(service, "admitted", name);
}

fn write_lines(stdin: &mut ChildStdin, numbers: core::ops::Range<u64>) {
    for number in numbers {
        writeln!(stdin, "{number} {}", "x".repeat(100)).unwrap();
    }
    stdin.flush().unwrap();
}

/// The number in a line of a test.
fn index(row: &Value) -> u64 {
    let text = row["text"].as_str().unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// The ranges that a text of unconfirmed messages names, of the first life.
fn ranges(text: &str) -> Vec<(u64, u64)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let range = |word: &&str| {
        let (first, last) = word.split_once("..=")?;
        Some((first.parse().ok()?, last.parse().ok()?))
    };
    words.iter().filter_map(range).collect()
}

#[test]
fn a_publisher_that_was_excluded_names_every_message_that_may_be_missing() {
    const COUNT: u64 = 40_000;
    const AHEAD: u64 = 1500;
    let (cluster, _gms, service) = cluster(SOON);
    // A small receive buffer, so that little may be under way.
    let words = ["sub", "news", "--json", "--queue", "512M"];
    let mut sub = cluster.start(&[&words[..], &["--receive-buffer", "64k"]].concat());
    let received = lines(sub.0.stdout.take().unwrap());
    let pub_words = [
        "pub",
        "news",
        "--name",
        "publisher",
        "--flush-timeout",
        "60",
    ];
    let mut publisher = cluster.command(&pub_words);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let node = identity(&service, "publisher");
    let mut stdin = publisher.0.stdin.take().unwrap();
    let mut arrived = Vec::new();
    write_lines(&mut stdin, 1..2);
    arrived.push(index(&json(&received.recv_timeout(PATIENCE).unwrap())));
    // More is taken than may be under way to a receiver that stands still, and for so short a time
    // that it is not taken for dead.
    sub.signal("-STOP");
    let padding = "x".repeat(1000);
    for number in 2..=AHEAD {
        writeln!(stdin, "{number} {padding}").unwrap();
    }
    publisher.signal("-STOP");
    sub.signal("-CONT");
    let writer = thread::spawn(move || write_lines(&mut stdin, AHEAD + 1..COUNT + 1));
    wait_for(&service, "excluded", &node);
    thaw(&publisher, &service, "publisher");
    writer.join().unwrap();
    let ended = publisher.output();
    assert_code(&ended, 4);
    sub.terminate();
    arrived.extend(received.iter().map(|line| index(&json(&line))));
    let told = stderr(&ended);
    let last = told.lines().rev().take(2).collect::<Vec<_>>();
    assert!(
        last[1].contains("not known to have reached all receivers"),
        "{told}"
    );
    assert!(last[0].contains("send them again"), "{told}");
    assert!(!told.contains("all receivers have everything"), "{told}");
    let unconfirmed = ranges(last[1]);
    assert!(!unconfirmed.is_empty(), "{told}");
    // Messages of the first life are numbered as they are here.
    let confirmed = |number: &u64| {
        let within = |(first, last): &(u64, u64)| (*first..=*last).contains(number);
        !unconfirmed.iter().any(within)
    };
    let arrived: std::collections::BTreeSet<u64> = arrived.into_iter().collect();
    let missing = (1..=COUNT).filter(|number| !arrived.contains(number));
    let untold: Vec<u64> = missing.filter(confirmed).collect();
    assert!(
        untold.is_empty(),
        "{} missing and not told, {:?} to {:?}; {told}",
        untold.len(),
        untold.first(),
        untold.last()
    );
}

#[test]
fn a_receiver_that_was_excluded_says_exactly_what_it_missed() {
    let (cluster, _gms, service) = cluster(SOON);
    let mut sub = cluster.start(&["sub", "news", "--json", "--name", "sleeper"]);
    let node = identity(&service, "sleeper");
    let received = lines(sub.0.stdout.take().unwrap());
    let mut witness = cluster.start(&["sub", "news", "--json"]);
    let witnessed = lines(witness.0.stdout.take().unwrap());
    let mut publisher = cluster.command(&["pub", "news", "--wait-members", "2"]);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    let wait_until = |lines: &Receiver<String>, number| {
        while index(&json(&lines.recv_timeout(PATIENCE).unwrap())) < number {}
    };
    write_lines(&mut stdin, 1..101);
    wait_until(&received, 100);
    freeze(&sub, &service, &node);
    write_lines(&mut stdin, 101..201);
    wait_until(&witnessed, 200);
    thaw(&sub, &service, "sleeper");
    // Until it receives again.
    let mut next = 201;
    let first = loop {
        write_lines(&mut stdin, next..next + 1);
        next += 1;
        match received.recv_timeout(Duration::from_millis(100)) {
            Ok(line) => break index(&json(&line)),
            Err(RecvTimeoutError::Timeout) => assert!(next < 1000, "it does not come back"),
            Err(error) => panic!("{error}"),
        }
    };
    drop(stdin);
    // It may have been stopped before it had acknowledged the first ones: then it is named.
    let published = publisher.output();
    let unserved = stderr(&published).contains("; sleeper ");
    assert_code(&published, if unserved { 4 } else { 0 });
    sub.terminate();
    let ended = sub.output();
    assert_code(&ended, 4);
    let told = stderr(&ended);
    let lost = format!("messages 101..={}", first - 1);
    assert!(
        told.contains("LOST: group news sender") && told.contains(&lost),
        "{told}"
    );
    assert!(
        told.contains("excluded from") && told.contains(" UTC to "),
        "{told}"
    );
}

/// A subscriber's lines on stderr after the first.
fn told(sub: &mut Running) -> Receiver<String> {
    let said = lines(sub.0.stderr.take().unwrap());
    let first = said.recv_timeout(PATIENCE).unwrap();
    assert!(first.starts_with("qsm: subscribed to news"), "{first}");
    said
}

/// Messages of a publisher, one after the other until the receiver knows its name; its identity.
fn publish_until_named(cluster: &Cluster, received: &Receiver<String>) -> String {
    let mut publisher = cluster.command(&["pub", "news", "--wait-members", "1"]);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    for number in 1.. {
        write_lines(&mut stdin, number..number + 1);
        let message = json(&received.recv_timeout(PATIENCE).unwrap());
        if message["name"].is_string() {
            drop(stdin);
            assert_code(&publisher.output(), 0);
            return message["sender"].as_str().unwrap().to_owned();
        }
    }
    unreachable!("numbers do not end")
}

#[test]
fn a_receiver_that_hears_nothing_after_its_exclusion_says_whose_messages_may_be_missing() {
    let (cluster, _gms, service) = cluster(SOON);
    let mut sub = cluster.start(&["sub", "news", "--json", "--name", "sleeper"]);
    let node = identity(&service, "sleeper");
    let received = lines(sub.0.stdout.take().unwrap());
    let sender = publish_until_named(&cluster, &received);
    freeze(&sub, &service, &node);
    thaw(&sub, &service, "sleeper");
    // It says so once it knows; the service may know before.
    let said = told(&mut sub);
    let excluded = said.recv_timeout(PATIENCE).unwrap();
    assert!(excluded.contains("EXCLUDED"), "{excluded}");
    sub.terminate();
    let rest: Vec<String> = said.iter().collect();
    assert_code(&sub.output(), 4);
    // By name, and with the identity that the messages bear.
    let whose = format!(" ({sender}) sent meanwhile");
    let is = |line: &String| line.contains("messages of sender ") && line.contains(&whose);
    assert!(rest.iter().any(is), "{rest:?}");
}

#[test]
fn a_receiver_that_stood_still_misses_nothing_and_says_for_how_long() {
    let (cluster, _gms, service) = cluster(NEVER);
    let mut sub = cluster.start(&["sub", "news", "--json", "--name", "sleeper"]);
    let node = identity(&service, "sleeper");
    let received = lines(sub.0.stdout.take().unwrap());
    let said = told(&mut sub);
    let mut publisher = cluster.command(&["pub", "news", "--wait-members", "1"]);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    write_lines(&mut stdin, 1..101);
    let mut numbers = received.iter().map(|line| index(&json(&line)));
    assert!(numbers.by_ref().take(100).eq(1..101));
    freeze_until(&sub, &service, "away", &node);
    // Whoever looks sees it, and why.
    for words in [&["nodes"][..], &["top", "--batch", "--count", "1"]] {
        let looked = cluster.run(words, b"");
        let text = String::from_utf8_lossy(&looked.stdout);
        let row = text.lines().find(|line| line.starts_with("sleeper"));
        assert!(row.unwrap().contains("away: silent"), "{text}");
    }
    write_lines(&mut stdin, 101..5001);
    drop(stdin);
    sub.signal("-CONT");
    wait_for(&service, "back", &node);
    assert!(numbers.take(4900).eq(101..5001));
    let back = said.recv_timeout(PATIENCE).unwrap();
    assert!(
        back.contains("was away for ") && back.contains("has caught up"),
        "{back}"
    );
    let published = publisher.output();
    assert_code(&published, 0);
    assert!(
        stderr(&published).contains("all receivers have everything"),
        "{}",
        stderr(&published)
    );
    sub.terminate();
    assert_code(&sub.output(), 0);
}

#[test]
fn a_receiver_that_stood_still_does_not_take_that_for_idleness() {
    let (cluster, _gms, service) = cluster(NEVER);
    let words = [
        "sub",
        "news",
        "--json",
        "--name",
        "sleeper",
        "--until-idle",
        "1",
    ];
    let mut sub = cluster.start(&words);
    let node = identity(&service, "sleeper");
    let received = lines(sub.0.stdout.take().unwrap());
    let mut publisher = cluster.command(&["pub", "news", "--wait-members", "1"]);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    write_lines(&mut stdin, 1..101);
    let mut numbers = received.iter().map(|line| index(&json(&line)));
    assert!(numbers.by_ref().take(100).eq(1..101));
    let stopped = Instant::now();
    freeze_until(&sub, &service, "away", &node);
    write_lines(&mut stdin, 101..5001);
    // It stands still for longer than it waits.
    thread::sleep(Duration::from_secs(2).saturating_sub(stopped.elapsed()));
    sub.signal("-CONT");
    assert!(numbers.eq(101..5001));
    assert_code(&sub.output(), 0);
    drop(stdin);
    publisher.output();
}

#[test]
fn a_publisher_names_receivers_that_were_away_for_longer_than_is_kept_for_them() {
    const COUNT: u64 = 20_000;
    let (cluster, _gms, service) = cluster(NEVER);
    // A small receive buffer, so that it does not hold what is not kept.
    let words = [
        "sub",
        "news",
        "--json",
        "--name",
        "sleeper",
        "--receive-buffer",
        "64k",
    ];
    let mut sub = cluster.start(&words);
    let node = identity(&service, "sleeper");
    let received = lines(sub.0.stdout.take().unwrap());
    // Nobody else keeps more.
    let words = ["sub", "news", "--json", "--retention", "50000"];
    let mut witness = cluster.start(&words);
    let witnessed = lines(witness.0.stdout.take().unwrap());
    let words = ["pub", "news", "--wait-members", "2", "--retention", "50000"];
    let mut publisher = cluster.command(&words);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    write_lines(&mut stdin, 1..101);
    let mut numbers = received.iter().map(|line| index(&json(&line)));
    assert!(numbers.by_ref().take(100).eq(1..101));
    freeze_until(&sub, &service, "away", &node);
    write_lines(&mut stdin, 101..COUNT + 1);
    while index(&json(&witnessed.recv_timeout(PATIENCE).unwrap())) < COUNT {}
    sub.signal("-CONT");
    wait_for(&service, "back", &node);
    drop(stdin);
    let published = publisher.output();
    assert_code(&published, 4);
    assert_says(
        &stderr(&published),
        &["1 of 2 receivers have everything", "sleeper"],
    );
    sub.terminate();
    let ended = sub.output();
    assert_code(&ended, 4);
    assert_says(&stderr(&ended), &["LOST: group news sender"]);
}

/// What it said ends with these two parts of its last lines.
#[track_caller]
fn assert_says(told: &str, parts: &[&str]) {
    for part in parts {
        assert!(told.contains(part), "no {part:?} in: {told}");
    }
}

#[test]
fn a_publisher_names_receivers_that_are_away_and_what_is_kept_for_them() {
    let (cluster, _gms, service) = cluster(NEVER);
    let mut sub = cluster.start(&["sub", "news", "--json", "--name", "sleeper"]);
    let node = identity(&service, "sleeper");
    let received = lines(sub.0.stdout.take().unwrap());
    let mut witness = cluster.start(&["sub", "news", "--json"]);
    let witnessed = lines(witness.0.stdout.take().unwrap());
    let mut publisher = cluster.command(&["pub", "news", "--wait-members", "2"]);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    write_lines(&mut stdin, 1..101);
    let mut numbers = received.iter().map(|line| index(&json(&line)));
    assert!(numbers.by_ref().take(100).eq(1..101));
    freeze_until(&sub, &service, "away", &node);
    write_lines(&mut stdin, 101..1001);
    drop(stdin);
    assert_eq!(witnessed.iter().take(1000).count(), 1000);
    // It does not wait for the one that is away.
    let published = publisher.output();
    assert_code(&published, 4);
    let told = stderr(&published);
    assert_says(
        &told,
        &[
            "; 1 of 2 receivers have everything; sleeper is away for ",
            " messages are kept for it\n",
            "receivers are away and are not known to have everything: sleeper (group news ",
            "..=1000 of life ",
        ],
    );
    assert!(!told.contains("left"), "{told}");
    let (first, last) = ranges(told.lines().find(|line| line.contains("error")).unwrap())[0];
    assert!(first <= 101 && last == 1000, "{told}");
    sub.signal("-CONT");
    wait_for(&service, "back", &node);
    assert!(numbers.take(900).eq(101..1001));
    sub.terminate();
    assert_code(&sub.output(), 0);
}

#[test]
fn a_publisher_whose_time_is_over_names_who_lacks_what() {
    let (cluster, _gms, service) = cluster(NEVER);
    let sub = cluster.start(&["sub", "news", "--name", "sleeper"]);
    let node = identity(&service, "sleeper");
    let words = ["pub", "news", "--flush-timeout", "1"];
    let mut publisher = cluster.command(&words);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    // It has seen its receiver when it reads more than a pipe holds.
    write_lines(&mut stdin, 1..2001);
    freeze_until(&sub, &service, "away", &node);
    write_lines(&mut stdin, 2001..2011);
    drop(stdin);
    let published = publisher.output();
    assert_code(&published, 4);
    let told = stderr(&published);
    assert_says(
        &told,
        &[
            "waiting for all receivers to have everything: ",
            "sleeper, away for ",
            "..=2010 of life ",
            "), which are kept for it until it is back or gone\n",
            "wait for those that are away",
        ],
    );
}

#[test]
fn a_publisher_without_enough_receivers_names_those_that_are_there_and_those_that_are_away() {
    let (cluster, _gms, service) = cluster(NEVER);
    let sub = cluster.start(&["sub", "news", "--name", "sleeper"]);
    let node = identity(&service, "sleeper");
    let _awake = cluster.start(&["sub", "news", "--name", "awake"]);
    identity(&service, "awake");
    // A publisher sees both before one of them goes.
    let published = cluster.run(&["pub", "news", "--wait-members", "2"], b"1\n");
    assert_code(&published, 0);
    freeze_until(&sub, &service, "away", &node);
    let words = ["pub", "news", "--wait-members", "3", "--wait-timeout", "1"];
    let published = cluster.run(&words, b"1\n");
    assert_code(&published, 3);
    assert_says(
        &stderr(&published),
        &[
            "group news has 2 receivers, not 3, ",
            ": awake, away: sleeper\n",
        ],
    );
}

/// Its host says that the process is not there any more.
#[test]
fn a_process_that_was_killed_is_not_waited_for() {
    let (cluster, _gms, service) = cluster(NEVER);
    let sub = cluster.start(&["sub", "news", "--name", "victim"]);
    let node = identity(&service, "victim");
    sub.signal("-KILL");
    wait_for(&service, "excluded", &node);
    // Also one that was away already.
    let mut sub = cluster.start(&["sub", "news", "--name", "second"]);
    let node = identity(&service, "second");
    // Nobody waits for one that has not entered its group yet.
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("its groups", |line| line.starts_with("qsm: subscribed"));
    freeze_until(&sub, &service, "away", &node);
    sub.signal("-KILL");
    wait_for(&service, "excluded", &node);
}

/// Publishes lines to a receiver whose stdout nobody reads, until it has received them all.
fn unread(cluster: &Cluster, count: u64, words: &[&str]) -> Running {
    let sub = cluster.start(&[&["sub", "news"], words].concat());
    let lines: String = (0..count).map(|n| format!("{n:0>99}\n")).collect();
    let published = cluster.run(&["pub", "news"], lines.as_bytes());
    assert_code(&published, 0);
    assert!(stderr(&published).contains("all receivers have everything"));
    sub
}

/// How many messages it says were written, and how many not.
fn written(told: &str) -> (u64, u64) {
    let line = told.lines().find(|line| line.contains("asked to end"));
    let line = line.unwrap_or_else(|| panic!("{told}")).replace(',', "");
    let numbers = line.split_whitespace().filter_map(|word| word.parse().ok());
    let numbers: Vec<u64> = numbers.collect();
    (numbers[0], numbers[1])
}

#[test]
fn a_receiver_that_is_to_end_writes_what_it_has_received() {
    let cluster = Cluster::new();
    let sub = unread(&cluster, 20_000, &[]);
    sub.terminate();
    let ended = sub.output();
    assert_code(&ended, 0);
    assert_eq!(ended.stdout.len(), 20_000 * 100);
    assert_eq!(written(&stderr(&ended)), (20_000, 0));
}

#[test]
fn a_receiver_whose_output_is_blocked_ends_and_counts_what_it_could_not_write() {
    let cluster = Cluster::new();
    let mut sub = unread(&cluster, 20_000, &["--drain-timeout", "0.5"]);
    sub.terminate();
    // Nobody reads until it has ended.
    let status = sub.0.wait().unwrap();
    let ended = sub.output();
    let told = stderr(&ended);
    assert_eq!(status.code(), Some(4), "{told}");
    let (written, unwritten) = written(&told);
    assert_eq!(written + unwritten, 20_000, "{told}");
    let whole = ended.stdout.len() as u64 / 100;
    assert!(
        unwritten > 0 && (written..=20_000).contains(&whole),
        "{told}"
    );
    assert!(told.contains("received and not written"), "{told}");
}

#[test]
fn a_publisher_without_receivers_does_not_say_that_they_have_everything() {
    let cluster = Cluster::new();
    let alone = cluster.run(&["pub", "nobody", "--wait-members", "0"], b"1\n");
    assert_code(&alone, 0);
    let told = stderr(&alone);
    assert!(told.ends_with("; no receiver is there\n"), "{told}");
}

/// One of three receivers writes to a pipe that nobody reads, where senders wait for a second.
struct Laggard {
    cluster: Cluster,
    service: Receiver<String>,
    _gms: Running,
    sub: Running,
    /// What it says after the first line.
    said: Lines,
    /// Its node, as it is printed.
    node: String,
    others: [Running; 2],
    /// Numbers of the lines that they have written.
    written: [JoinHandle<Vec<u64>>; 2],
    publisher: Running,
    enough: Arc<AtomicBool>,
    /// Publishes lines with ascending numbers until it is enough; returns the last.
    source: JoinHandle<(ChildStdin, u64)>,
}

/// Numbers of the lines of a pipe, until it ends.
fn numbers_of(pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u64>> {
    let number = |line: String| line.split(' ').next().unwrap().parse().unwrap();
    thread::spawn(move || lines(pipe).iter().map(number).collect())
}

fn publish_until(enough: &Arc<AtomicBool>, mut stdin: ChildStdin) -> JoinHandle<(ChildStdin, u64)> {
    let (enough, padding) = (Arc::clone(enough), "x".repeat(8000));
    thread::spawn(move || {
        let mut number = 0;
        while !enough.load(Ordering::SeqCst) {
            number += 1;
            writeln!(stdin, "{number} {padding}").unwrap();
        }
        (stdin, number)
    })
}

impl Laggard {
    /// Under this fate of the group.
    fn under(fate: &str) -> Self {
        let mut cluster = Cluster::without_service();
        let hints = format!("pace bounded 1s then {fate}: news\n");
        let hints = cluster.file("hints.txt", hints.as_bytes());
        let options = ["--hints", hints.as_str(), "--gone-after", NEVER];
        let (mut gms, address) = cluster.start_gms(&options, Stdio::inherit());
        cluster.use_service(&address);
        let service = lines(gms.0.stdout.take().unwrap());
        let mut sub = cluster.start(&["sub", "news", "--name", "laggard", "--queue", "64k"]);
        let node = identity(&service, "laggard");
        let said = Lines::of_stderr(&mut sub.0);
        let mut others = [0; 2].map(|_| cluster.start(&["sub", "news"]));
        let written = others
            .each_mut()
            .map(|it| numbers_of(it.0.stdout.take().unwrap()));
        let words = ["pub", "news", "--wait-members", "3", "--retention", "512M"];
        let mut publisher = cluster.command(&words);
        let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
        let enough = Arc::default();
        let source = publish_until(&enough, publisher.0.stdin.take().unwrap());
        Self {
            cluster,
            service,
            _gms: gms,
            sub,
            said,
            node,
            others,
            written,
            publisher,
            enough,
            source,
        }
    }

    /// Waits until the service says this of it for this reason, and of nobody else.
    fn wait_for(&self, event: &str, reason: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let line = json(&self.service.recv_timeout(left).expect(event));
            let named = line["node"]
                .as_str()
                .is_some_and(|it| it.starts_with(&self.node));
            let told = line["event"] == event;
            assert!(named || !told, "another one: {line}");
            if told {
                assert!(line.to_string().contains(reason), "{line}");
                return;
            }
        }
    }

    fn assert_listed(&self, state: &str) {
        let listed = self.cluster.run(&["nodes"], b"");
        let listed = String::from_utf8(listed.stdout).unwrap();
        let mut rows = listed.lines().filter(|row| row.contains(state));
        let row = rows.next().unwrap_or_else(|| panic!("{listed}"));
        assert!(
            row.starts_with("laggard") && rows.next().is_none(),
            "{listed}"
        );
    }

    /// Ends the publisher and the others, which have had everything. Returns the number of the last
    /// message, what the publisher said with its code, and the laggard and what it has said.
    fn end(self) -> Ended {
        self.enough.store(true, Ordering::SeqCst);
        let (stdin, last) = self.source.join().unwrap();
        drop(stdin);
        let publisher = self.publisher.output();
        for (other, written) in self.others.into_iter().zip(self.written) {
            other.terminate();
            let ended = other.output();
            assert_code(&ended, 0);
            assert!(written.join().unwrap().into_iter().eq(1..=last));
        }
        Ended {
            last,
            publisher,
            laggard: self.sub,
            said: self.said,
        }
    }
}

/// What is left when all others have ended.
struct Ended {
    last: u64,
    publisher: std::process::Output,
    laggard: Running,
    said: Lines,
}

// Rule R-RATE-12.
#[test]
fn a_laggard_that_is_demoted_loses_by_exact_numbers_and_is_named_and_others_lose_nothing() {
    let mut laggard = Laggard::under("demote");
    laggard.wait_for("away", "demoted");
    laggard.assert_listed("away: slower than the others, and loses what it misses");
    laggard
        .said
        .wait("that it is demoted", |line| line.contains("DEMOTED"));
    let written = numbers_of(laggard.sub.0.stdout.take().unwrap());
    let lost = |line: &str| line.contains("LOST: group news sender");
    let first = laggard.said.wait("what is lost", lost);
    let ended = laggard.end();
    assert_code(&ended.publisher, 4);
    assert_says(&stderr(&ended.publisher), &["laggard"]);
    ended.laggard.terminate();
    let mut told: Vec<String> = ended.said.iter().filter(|line| lost(line)).collect();
    told.insert(0, first);
    assert_code(&ended.laggard.output(), 4);
    // Each message came or is lost, and none is both.
    let mut all = written.join().unwrap();
    for (first, last) in ranges(&told.join(" ")) {
        all.extend(first..=last);
    }
    all.sort_unstable();
    let last = *all.last().unwrap();
    assert!(
        last <= ended.last && all.into_iter().eq(1..=last),
        "{told:?}"
    );
}

// Rule R-RATE-12.
#[test]
fn a_laggard_that_is_set_apart_misses_nothing_and_others_go_on() {
    let mut laggard = Laggard::under("apart");
    laggard.wait_for("away", "slow");
    // No more than is kept for it.
    laggard.enough.store(true, Ordering::SeqCst);
    laggard.assert_listed("away: slower than the others");
    laggard
        .said
        .wait("that it is away", |line| line.contains("AWAY"));
    let received = lines(laggard.sub.0.stdout.take().unwrap());
    let (stdin, last) = laggard.source.join().unwrap();
    let number = |line: String| line.split(' ').next().unwrap().parse::<u64>().unwrap();
    let count = usize::try_from(last).unwrap();
    assert!(received.iter().map(number).take(count).eq(1..=last));
    laggard.source = thread::spawn(move || (stdin, last));
    let ended = laggard.end();
    let told = stderr(&ended.publisher);
    // It may be away yet, and have everything.
    assert!(!told.contains("LOST"), "{told}");
    ended.laggard.terminate();
    assert_code(&ended.laggard.output(), 0);
}

// Rule R-RATE-12.
#[test]
fn a_laggard_that_is_expelled_is_told_so_and_named_and_others_lose_nothing() {
    let mut laggard = Laggard::under("expel");
    laggard.wait_for("expelled", "slow");
    // It says so while its output is full.
    laggard
        .said
        .wait("that it is expelled", |line| line.contains("EXPELLED"));
    laggard
        .said
        .wait("that it is excluded", |line| line.contains("EXCLUDED"));
    let written = numbers_of(laggard.sub.0.stdout.take().unwrap());
    let ended = laggard.end();
    assert_code(&ended.publisher, 4);
    assert_says(&stderr(&ended.publisher), &["laggard"]);
    ended.laggard.terminate();
    assert_code(&ended.laggard.output(), 4);
    let came = written.join().unwrap();
    assert!(came.is_sorted() && came.len() < usize::try_from(ended.last).unwrap());
}
