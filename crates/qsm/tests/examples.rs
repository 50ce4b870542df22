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
fn latency_budget() {
    let text = output("latency_budget");
    let lines: Vec<&str> = text.lines().collect();
    let named = lines.iter().any(|line| {
        line.starts_with("subscription: a message waited")
            && line.contains("of 5.0ms in the latency budget")
    });
    assert!(named, "{text}");
    assert!(text.ends_with("late: 1 times\n"), "{text}");
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

#[test]
fn status_board() {
    assert_eq!(
        output("status_board"),
        "alpha: up\nbeta: stopped\ngamma: silent\n"
    );
}

#[test]
fn event_filter() {
    assert_eq!(output("event_filter"), "alarm: rooms/kitchen 35.0\n");
}

#[test]
fn cache() {
    let text = output("cache");
    assert!(
        text.starts_with("1000 reads, 1 of the store\nafter a change: Some(2)\n"),
        "{text}"
    );
    assert!(text.contains(": everything is forgotten\n"), "{text}");
    assert!(text.ends_with("after 1000 changes: Some(999)\n"), "{text}");
}

#[test]
fn market() {
    let expected = "recorder: 6000 prices, 0 missing\n\
                    screen: {\"eur\": 2000, \"gbp\": 2000, \"usd\": 2000}\n\
                    alarm: rang\n";
    assert_eq!(output("market"), expected);
}

#[test]
fn game() {
    let text = output("game");
    let pictures: Vec<&str> = text
        .lines()
        .filter_map(|line| line.split_once("the last one "))
        .map(|(_, last)| last)
        .collect();
    let [ann, bob, cid] = pictures[..] else {
        panic!("{text}");
    };
    assert_eq!((ann, ann), (bob, cid));
    // Who goes three steps a tick comes further than who goes one.
    let place = |name: &str| -> i32 {
        let mut words = ann.split([' ', '=']).skip_while(|word| *word != name);
        words.nth(1).unwrap().parse().unwrap()
    };
    assert!(
        ann.starts_with("120 ") && place("cid") > place("ann"),
        "{text}"
    );
    for line in text.lines() {
        assert!(
            (1..=120).contains(&number_before(" of 120 ticks", line)),
            "{text}"
        );
    }
}

#[test]
fn programs_for_whole_uses_are_short() {
    for source in [
        include_str!("../examples/status_board.rs"),
        include_str!("../examples/event_filter.rs"),
        include_str!("../examples/cache.rs"),
        include_str!("../examples/market.rs"),
        include_str!("../examples/game.rs"),
    ] {
        assert!(source.lines().count() <= 150);
    }
}
