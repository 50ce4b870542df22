//! `qsm sub --delivery`: lines as they come, and lines that are not waited for.

mod support;

use std::collections::BTreeSet;

use support::{Cluster, assert_code, stderr};

const LINES: usize = 100_000;

/// What a receiver writes that throws away one packet in twenty, and its exit code.
fn received(words: &[&str], code: i32) -> (Vec<usize>, String) {
    let cluster = Cluster::new();
    let sub = cluster.start(&[&["sub", "news", "--loss", "5"], words].concat());
    let lines: String = (0..LINES).map(|n| format!("{n:0>9}\n")).collect();
    assert_code(&cluster.run(&["pub", "news"], lines.as_bytes()), 0);
    let output = sub.output();
    assert_code(&output, code);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let numbers = text.lines().map(|line| line.parse().unwrap());
    (numbers.collect(), stderr(&output))
}

#[test]
fn as_they_come_all_lines_are_there_once_and_not_in_order() {
    let count = LINES.to_string();
    let (numbers, _) = received(&["--delivery", "arrival", "--count", &count], 0);
    assert!(!numbers.is_sorted());
    let all: BTreeSet<usize> = numbers.iter().copied().collect();
    assert_eq!((numbers.len(), all.len()), (LINES, LINES));
}

#[test]
fn what_is_not_waited_for_is_lost_and_says_so() {
    let (numbers, told) = received(&["--delivery", "within:0", "--until-idle", "3"], 4);
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]));
    assert!(!numbers.is_empty() && numbers.len() < LINES);
    assert!(told.contains("LOST"), "{told}");
    assert!(
        told.contains("a longer time for --delivery within"),
        "{told}"
    );
}
