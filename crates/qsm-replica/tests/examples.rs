//! The examples run, end by themselves, and say what they should.

use std::process::Command;

/// Output of an example.
#[track_caller]
fn output(example: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let output = Command::new(profile.join("examples").join(example))
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn assert_writes(example: &str, expected: &str) {
    assert_eq!(output(example), expected);
}

#[test]
fn ledger() {
    let accounts = "{1: 6050, 2: -5050}";
    let expected = format!("alpha: {accounts}\nbeta: {accounts}\ngamma: {accounts}\n");
    assert_writes("ledger", &expected);
}

#[test]
fn live() {
    assert_writes(
        "live",
        "eur 1.0842\neur 1.0851\neur is gone\nopened\nclosed\n",
    );
}

#[test]
fn register() {
    assert_writes(
        "register",
        "alpha: Some(60)\nbeta: Some(60)\ngamma: Some(60)\n",
    );
}

#[test]
fn place() {
    let text = output("place");
    let lines: Vec<&str> = text.lines().collect();
    let (told, picture) = lines.split_at(6);
    let names = ["the first", "the newcomer", "ann", "bob", "cid"];
    let expected = names.map(|name| format!("{name} sees the same"));
    assert_eq!(told[0], "the newcomer finds 4 things");
    assert_eq!(told[1..], expected, "{text}");
    assert_eq!(picture.len(), 8, "{text}");
    // They have carried things away.
    let began = [("*", 9, 2), ("+", 13, 4), ("%", 20, 6), ("#", 4, 6)];
    let moved = began
        .into_iter()
        .filter(|(thing, x, y)| picture[*y][*x..=*x] != **thing);
    assert!(moved.count() >= 2, "{text}");
    let source = include_str!("../examples/place.rs");
    assert!(source.lines().count() <= 150);
}
