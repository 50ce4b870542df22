//! The example runs, ends by itself, and says what it should.

use std::process::Command;

#[test]
fn ledger() {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let output = Command::new(profile.join("examples/ledger"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let accounts = "{1: 6050, 2: -5050}";
    let expected = format!("alpha: {accounts}\nbeta: {accounts}\ngamma: {accounts}\n");
    assert_eq!(
        text,
        expected,
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
