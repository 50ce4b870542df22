//! The examples run, end by themselves, and say what they should.

use std::path::PathBuf;
use std::process::Command;

/// The output of an example. Cargo builds the examples together with the tests.
fn output(example: &str) -> String {
    let test = std::env::current_exe().unwrap();
    let profile = test.ancestors().nth(2).unwrap();
    let program: PathBuf = profile.join("examples").join(example);
    assert!(
        program.exists(),
        "{} is missing; `cargo test -p qsm` builds it, or `cargo build -p qsm --examples`",
        program.display()
    );
    let output = Command::new(&program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{example}: {text}{errors}");
    text
}

/// The number in front of this text.
fn number_before(text: &str, output: &str) -> u64 {
    let before = output.split(text).next().unwrap();
    let number = before.rsplit(|c: char| !c.is_ascii_digit()).next().unwrap();
    number.parse().unwrap_or_else(|_| panic!("{output}"))
}

#[test]
fn hello() {
    let text = output("hello");
    assert!(text.starts_with("greetings #1 from "), "{text}");
    assert!(text.ends_with(": hello, world\n"), "{text}");
}

#[test]
fn async_tokio() {
    assert_eq!(output("async_tokio"), "10000 readings, sum 50005000\n");
}

#[test]
fn handling_loss() {
    let text = output("handling_loss");
    assert!(text.contains("after 100 changes: "), "{text}");
    assert!(text.ends_with("the state is 1000\n"), "{text}");
}

#[test]
fn missing_messages() {
    let expected = "900 are missing, it is not known yet which\n\
                    readings 101..=1000\n\
                    0 unaccounted for\n";
    assert_eq!(output("missing_messages"), expected);
}

#[test]
fn delivery_modes() {
    let expected = "screen: 1000 of 1000 positions accounted for\n\
                    journal: 1000 of 1000 positions, 0 lost\n";
    assert_eq!(output("delivery_modes"), expected);
}

#[test]
fn latest() {
    let expected = "eur 1.0999\nusd 0.0999\n1998 were out of date\n";
    assert_eq!(output("latest"), expected);
}

#[test]
fn slow_consumer() {
    let text = output("slow_consumer");
    let expected = "keeps the first: 100 read, 900 told to be missing\n\
                    keeps the newest: 100 read, 900 told to be missing\n\
                    ends: 100 read, 0 told to be missing\n";
    assert_eq!(text, expected);
}

#[test]
fn pull_feed() {
    let text = output("pull_feed");
    assert!(text.starts_with("1000000 updates, "), "{text}");
    let messages = number_before(" messages, and the last price has arrived", &text);
    assert!((1..=1_000_000).contains(&messages), "{text}");
}

#[test]
fn graceful_end() {
    let text = output("graceful_end");
    let sent = number_before(" sent, and all receivers have them\n", &text);
    assert!(sent > 0);
    assert_eq!(number_before(" read\n", &text), sent, "{text}");
}

#[test]
fn typed_messages() {
    let text = output("typed_messages");
    let lines: Vec<&str> = text.lines().collect();
    let [buy, cancel, wrong, passed] = lines[..] else {
        panic!("{text}");
    };
    assert_eq!(buy, r#"#1: Buy { symbol: "EUR/USD", amount: 5 }"#);
    assert_eq!(cancel, "#2: Cancel { number: 1 }");
    assert!(
        wrong.starts_with("#3 is no order: unknown variant"),
        "{text}"
    );
    assert_eq!(passed, "#3 passed over");
}

#[test]
fn three_groups() {
    let text = output("three_groups");
    for group in ["news", "prices/eur", "prices/usd"] {
        let lines = format!("{group} #1: good morning\n{group} #2: good night\n");
        let of_group = text.lines().filter(|line| line.starts_with(group));
        let of_group: String = of_group.map(|line| format!("{line}\n")).collect();
        assert_eq!(of_group, lines);
    }
    assert!(text.ends_with("\n6 messages read\n"), "{text}");
    let source = include_str!("../examples/three_groups.rs");
    assert!(source.lines().count() < 60);
}
