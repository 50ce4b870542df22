//! The examples run, end by themselves, and say what they should.

use std::process::Command;

/// Output of an example.
#[track_caller]
fn assert_writes(example: &str, expected: &str) {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let output = Command::new(profile.join("examples").join(example))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text, expected, "{told}");
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
