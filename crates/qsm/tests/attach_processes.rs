//! An engine and attached processes as real processes: traffic, and what happens when one of them
//! is killed.

mod common;

use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use common::{PATIENCE, Place, Site, expect_numbers, message, pattern, wait_for};
use qsm::attach::ShareEvent;
use qsm::{CloseReason, Event, Limits, Node, Overflow, RecvError, SendError};

const ROLE: &str = "QSM_TEST_ROLE";
const SIGKILL: i32 = 9;

/// A process of this program that does one of the roles below; killed when dropped.
struct Process {
    child: Child,
    said: BufReader<ChildStdout>,
}

impl Process {
    /// Starts it and waits until it is ready.
    fn start(role: &str, path: &Path) -> Self {
        let mut command = Command::new(env::current_exe().unwrap());
        command.args(["--exact", "role", "--ignored", "--nocapture"]);
        command.env(ROLE, format!("{role} {}", path.display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        let mut process = Self { child, said };
        process.wait_until("ready");
        process
    }

    /// Reads on until it says so.
    fn wait_until(&mut self, word: &str) {
        let mut line = String::new();
        while !line.contains(&format!("role: {word}")) {
            line.clear();
            let length = self.said.read_line(&mut line).unwrap();
            assert!(length > 0, "it ended before it was {word}");
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        let status = self.child.wait().unwrap();
        assert_eq!(status.signal(), Some(SIGKILL), "it lived until then");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Not a test: what the processes of the tests do.
#[test]
#[ignore = "run by the other tests, as a process of its own"]
fn role() {
    let Ok(role) = env::var(ROLE) else {
        return;
    };
    let (role, path) = role.split_once(' ').unwrap();
    let role: fn(&Path) = match role {
        "engine" => serve,
        "echo" => echo,
        "flood" => flood,
        "hold" => hold,
        other => panic!("no role {other}"),
    };
    role(Path::new(path));
}

/// Shares a node until stdin ends.
fn serve(path: &Path) {
    let engine = Site::new().first("engine");
    let _share = engine.share(path).unwrap();
    println!("role: ready");
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
}

/// Sends what comes to `ask` on to `answer`, checked, until `end`.
fn echo(path: &Path) {
    let engine = Node::attach(path).unwrap();
    let questions = engine.subscribe(["ask"]).unwrap();
    let answers = engine.publisher("answer").unwrap();
    println!("role: ready");
    let mut next = 1;
    while let Ok(received) = questions.recv() {
        let message = message(Some(received));
        if message.bytes() == b"end" {
            break;
        }
        assert_eq!(message.number(), next);
        assert!(message.bytes() == question(next), "message {next}");
        answers.send(message.bytes()).unwrap();
        next += 1;
    }
    engine.shutdown(PATIENCE).unwrap();
    println!("role: done");
}

/// Content that no other question has.
fn question(number: u64) -> Vec<u8> {
    let mut content = pattern(number, 400);
    content.extend(number.to_le_bytes());
    content
}

/// Publishes to what it subscribes to, without end.
fn flood(path: &Path) {
    let engine = Node::attach(path).unwrap();
    let _unread = engine.subscribe(["flood"]).unwrap();
    let publisher = engine.publisher("flood").unwrap();
    println!("role: ready");
    let message = [7; 1000];
    while publisher.send(&message).is_ok() {}
}

/// Holds up who publishes to `held`, and never reads.
fn hold(path: &Path) {
    let engine = Node::attach(path).unwrap();
    let held = engine.group("held").overflow(Overflow::Hold);
    let _unread = held.capacity_bytes(1 << 16).subscribe().unwrap();
    println!("role: ready");
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
}

#[test]
fn a_process_that_is_killed_while_it_holds_senders_up_lets_them_go_on_at_once() {
    let (site, place) = (Site::new(), Place::new());
    let remote = site.first("remote");
    // With little room, so that senders soon wait.
    let limits = Limits {
        receive_bytes: 4 << 20,
        ..Limits::default()
    };
    let engine = common::admitted(site.builder("engine").limits(limits));
    let (share, told) = place.share_and_tell(&engine);
    let other = place.attach();
    let behind = other.subscribe(["behind"]).unwrap();
    let publishers = ["held", "behind"].map(|group| remote.publisher(group).unwrap());
    for round in 1..=2 {
        let mut process = Process::start("hold", &place.path());
        publishers[0].wait_for_members(1, PATIENCE).unwrap();
        while !engine.stats().unwrap().subscriptions.iter().any(|row| {
            let holds = row.stats.full_for.as_millis() > 200;
            holds && row.process == Some(process.child.id())
        }) {
            // Until nobody takes any more.
            while publishers[0].try_send(&[7; 1000]).is_ok() {}
        }
        publishers[1].send(&pattern(round, 100)).unwrap();
        process.kill();
        let gone = |event: &ShareEvent| matches!(event, ShareEvent::Detached { .. });
        while !gone(&told.recv_timeout(PATIENCE).unwrap()) {}
        let message = common::next(&behind);
        assert_eq!(message.bytes(), pattern(round, 100));
        remote.flush(PATIENCE).unwrap();
    }
    assert_eq!((share.stats().clients, share.stats().cut_off), (1, 0));
}

#[test]
fn two_processes_and_a_remote_node_exchange_all_messages_in_order() {
    const MESSAGES: u64 = 5000;
    let (site, place) = (Site::new(), Place::new());
    let (engine, remote) = (site.first("engine"), site.node("remote"));
    let share = engine.share(place.path()).unwrap();
    let mut processes = [0; 2].map(|_| Process::start("echo", &place.path()));
    let answers = remote.subscribe(["answer"]).unwrap();
    let questions = remote.publisher("ask").unwrap();
    questions.wait_for_members(1, PATIENCE).unwrap();
    for number in 1..=MESSAGES {
        questions.send(&question(number)).unwrap();
    }
    questions.send(b"end").unwrap();
    // Each of them answers each question, in order; between them any order will do.
    let mut came = vec![0_u64];
    for number in 1..=2 * MESSAGES {
        let message = common::next(&answers);
        assert_eq!(message.number(), number);
        let expected = |asked: u64| question(asked) == message.bytes();
        let place = came.iter().position(|last| expected(last + 1));
        let place = place.expect("the next answer of one of them");
        came[place] += 1;
        if came.len() < 2 {
            came.push(0);
        }
    }
    assert_eq!(came, [MESSAGES; 2]);
    processes
        .iter_mut()
        .for_each(|process| process.wait_until("done"));
    assert_eq!(share.stats().attached, 2);
}

#[test]
fn a_process_that_is_killed_leaves_nothing_behind_and_disturbs_nobody() {
    let (site, place) = (Site::new(), Place::new());
    let (engine, remote) = (site.first("engine"), site.node("remote"));
    let (share, told) = place.share_and_tell(&engine);
    let other = place.attach();
    let subscription = remote.subscribe(["calm"]).unwrap();
    let publisher = other.publisher("calm").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    let flooded = remote.subscribe(["flood"]).unwrap();
    for round in 1..=3 {
        let mut process = Process::start("flood", &place.path());
        // In the midst of its work.
        (0..100).for_each(|_| drop(common::next(&flooded)));
        process.kill();
        let gone = |event: &ShareEvent| matches!(event, ShareEvent::Detached { .. });
        while !gone(&told.recv_timeout(PATIENCE).unwrap()) {}
        publisher.send(&pattern(round, 100)).unwrap();
    }
    expect_numbers(&subscription, 1..=3, |number| pattern(number, 100));
    assert_eq!((share.stats().clients, share.stats().cut_off), (1, 0));
    // What the killed ones had sent goes out as their reader lets it.
    drop(flooded);
    engine.flush(PATIENCE).unwrap();
    let stats = engine.stats().unwrap();
    assert!(stats.subscriptions.is_empty(), "{:?}", stats.subscriptions);
    let groups = stats.publishers.iter().map(|row| &*row.group);
    assert!(groups.eq(["calm"]), "{:?}", stats.publishers);
}

#[test]
fn when_the_engine_is_killed_all_are_told_and_another_takes_its_place() {
    let place = Place::new();
    let mut process = Process::start("engine", &place.path());
    let client = place.attach();
    let subscription = client.subscribe(["x"]).unwrap();
    let publisher = client.publisher("x").unwrap();
    let events = client.events();
    publisher.send(b"still there").unwrap();
    assert_eq!(
        message(Some(subscription.recv().unwrap())).bytes(),
        b"still there"
    );
    process.kill();
    let cause = "its process has ended".to_owned();
    let reason = CloseReason::EngineGone { cause };
    let ended = Err(RecvError::Closed(reason.clone()));
    assert_eq!(subscription.recv(), ended);
    let closed = wait_for(&events, |_| true);
    let expected = reason.clone();
    assert_eq!(closed, Event::Closed { reason: expected });
    assert_eq!(publisher.send(b"x"), Err(SendError::Closed(reason)));
    // The file it left is no obstacle.
    assert!(fs::exists(place.path()).unwrap());
    let _process = Process::start("engine", &place.path());
    let client = place.attach();
    let subscription = client.subscribe(["x"]).unwrap();
    client.publisher("x").unwrap().send(b"again").unwrap();
    assert_eq!(
        message(Some(subscription.recv().unwrap())).bytes(),
        b"again"
    );
}
