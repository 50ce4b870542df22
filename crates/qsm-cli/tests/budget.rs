//! Latency budgets of the program's nodes (R241).

mod support;

use std::io::{Read, Write};
use std::process::Stdio;

use support::{Cluster, Lines, Running, assert_code, stderr};

/// Far more than the output of a reader takes that nobody reads, in its pipe and before it.
const LINES: usize = 200_000;

/// `qsm sub` whose output nobody reads: messages wait in its queue, and nowhere else.
#[test]
fn an_output_that_nobody_reads_is_named_as_the_stage_that_takes_too_long() {
    let cluster = Cluster::new();
    let budget = "total=100000s,subscription=1ms";
    let count = LINES.to_string();
    let mut sub = cluster.start(&["sub", "news", "--latency-budget", budget, "--count", &count]);
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("that it is there", |line| line.contains("subscribed to"));
    let lines: String = (0..LINES).map(|n| format!("{n:0>99}\n")).collect();
    assert_code(&cluster.run(&["pub", "news"], lines.as_bytes()), 0);
    // Who waits for the output cannot say so before that goes on.
    let mut written = String::new();
    let stdout = sub.0.stdout.take();
    stdout.unwrap().read_to_string(&mut written).unwrap();
    let named = told.wait("which stage it is", |line| line.contains("OVER BUDGET"));
    assert!(
        named.contains("subscription: ") && named.contains("of 1.0ms in the latency budget"),
        "{named}"
    );
    assert!(written == lines);
    assert_eq!(sub.0.wait().unwrap().code(), Some(0));
}

/// The publisher says at its end, beside what was lost, how often which stage took too long.
#[test]
fn messages_that_wait_for_others_are_counted_as_batching_alone() {
    let cluster = Cluster::new();
    let mut sub = cluster.start(&["sub", "news", "--count", "1"]);
    let told = Lines::of_stderr(&mut sub.0);
    told.wait("that it is there", |line| line.contains("subscribed to"));
    let budget = "total=100000s,batching=5ms";
    let words = [
        "pub",
        "news",
        "--batch-delay",
        "50ms",
        "--latency-budget",
        budget,
        "--stats",
        "json",
    ];
    let mut publisher = cluster.command(&words);
    let mut publisher = Running(publisher.stdin(Stdio::piped()).spawn().unwrap());
    publisher
        .0
        .stdin
        .take()
        .unwrap()
        .write_all(b"alone\n")
        .unwrap();
    let published = publisher.output();
    assert_code(&published, 0);
    let said = stderr(&published);
    let json = said.lines().find(|line| line.starts_with('{'));
    let json: serde_json::Value = serde_json::from_str(json.unwrap()).unwrap();
    let latency = json["latency"].as_object().unwrap();
    for (name, value) in latency.iter().filter(|(name, _)| name.starts_with("over_")) {
        let times = u64::from(name == "over_batching");
        assert_eq!(value.as_u64(), Some(times), "{name}: {said}");
    }
    assert_code(&sub.output(), 0);
}

#[test]
fn a_budget_that_cannot_be_kept_is_refused_with_the_remedy() {
    let cluster = Cluster::new();
    for (budget, said) in [
        ("total=5ms,repair=6ms", "raise the total"),
        ("total=5ms,reading=1ms", "stages are handoff, batching"),
        ("soon", "not a time"),
    ] {
        let refused = cluster.run(&["sub", "news", "--latency-budget", budget], b"");
        assert_code(&refused, 2);
        assert!(stderr(&refused).contains(said), "{}", stderr(&refused));
    }
}
