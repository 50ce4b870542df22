//! Receivers that end before their publisher: it says who, and what each may lack.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

use support::{Cluster, Running, assert_code, stderr};

const LINES: u64 = 200;

/// Publishes to receivers of these names; the last one gets the first line, stands still, and dies
/// before it could acknowledge any other. Returns what the publisher says.
fn published_past(cluster: &Cluster, names: &[&str]) -> String {
    let receiver = |name: &&str| cluster.start(&["sub", "news", "--name", name]);
    let mut receivers: Vec<Running> = names.iter().map(receiver).collect();
    let count = names.len().to_string();
    let mut publisher = cluster.command(&["pub", "news", "--wait-members", &count]);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    let mut stdin = publisher.0.stdin.take().unwrap();
    stdin.write_all(b"1\n").unwrap();
    let mut goes = receivers.pop().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(goes.0.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    goes.signal("-STOP");
    for number in 2..=LINES {
        writeln!(stdin, "{number}").unwrap();
    }
    drop(stdin);
    // It is known to have come to the others, and so to have been sent.
    for sub in &mut receivers {
        let lines = BufReader::new(sub.0.stdout.take().unwrap()).lines();
        assert_eq!(lines.take(LINES as usize).count(), LINES as usize);
    }
    drop(goes);
    let ended = publisher.output();
    assert_code(&ended, 4);
    stderr(&ended)
}

/// It is named from message 1 or 2 to the last, as one that left, or, where all was over before it was
/// known to be dead, as one that is away.
#[track_caller]
fn assert_named(told: &str, name: &str) {
    let away = told.contains(&format!("; {name} is away for "));
    let first = [1, 2].into_iter().find(|first| {
        (away || told.contains(&format!("; {name} left at {first}\n")))
            && told.contains(&format!("{name} (group news {first}..={LINES} of life "))
    });
    assert!(first.is_some(), "{told}");
}

#[test]
fn a_receiver_that_dies_is_named_while_others_are_left() {
    let told = published_past(&Cluster::new(), &["stays", "goes"]);
    assert!(
        told.contains("; 1 of 2 receivers have everything; "),
        "{told}"
    );
    assert_named(&told, "goes");
}

#[test]
fn the_last_receiver_that_dies_is_named_and_nobody_has_everything() {
    let told = published_past(&Cluster::new(), &["goes"]);
    assert!(told.contains("; no receiver is left, and "), "{told}");
    assert!(!told.contains("have everything;"), "{told}");
    assert_named(&told, "goes");
}

#[test]
fn receivers_that_end_by_themselves_have_acknowledged_all_that_they_have() {
    let cluster = Cluster::new();
    let lines: String = (0..LINES).map(|n| format!("{n}\n")).collect();
    let count = LINES.to_string();
    for receivers in [1, 3] {
        let start = |_| cluster.start(&["sub", "news", "--count", &count]);
        let receivers: Vec<Running> = (0..receivers).map(start).collect();
        let wait = receivers.len().to_string();
        let words = ["pub", "news", "--wait-members", &wait];
        let ended = cluster.run(&words, lines.as_bytes());
        assert_code(&ended, 0);
        assert!(!stderr(&ended).contains("not known"), "{}", stderr(&ended));
        for receiver in receivers {
            assert_code(&receiver.output(), 0);
        }
    }
}
