//! `qsm advise`, as a process: answers as text and as JSON, errors with their remedy.

mod support;

use std::io::Write;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Cluster, Lines, Running};

fn advise(line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qsm"));
    let words = line.split(' ');
    command.arg("advise").args(words).output().unwrap()
}

fn stdout(output: &Output) -> &str {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    str::from_utf8(&output.stdout).unwrap()
}

#[test]
fn an_answer_has_equation_inputs_result_and_source() {
    let output = advise("buffer --rate 1Gbit/s --pause 50ms");
    let text = stdout(&output);
    for part in [
        "equation  data = pause × rate",
        "input     pause     50 ms",
        "result    buffer    12.5 MB",
        "sysctl -w net.core.rmem_max=12500000",
        "section 8.6",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// The worked numbers of the page, by the options that it names.
#[test]
fn json_has_values_in_base_units() {
    for (line, name, expected) in [
        ("buffer --rate 500Mbit/s --pause 20ms", "data", 1.25e6),
        ("delay --buffer 2.5MB --rate 500Mbit/s", "latency", 0.02),
        ("memory --buffer 32MB --receivers 10", "memory", 320e6),
        ("retention --rate 10MB/s --away 30s", "retention", 3e8),
        ("serialization --rate 100Mbit/s", "delay", 120e-6),
        ("propagation --distance 3000km", "delay", 0.016678),
        ("queue --queued 54kB --rate 1Gbit/s", "wait", 432e-6),
        ("coalescing --interrupts 8000/s", "latency", 125e-6),
        ("ring --descriptors 2048 --packets 80k/s", "time", 0.0256),
        (
            "batching --message 100 --messages 10000/s --wait 1ms",
            "batch",
            11.0,
        ),
        (
            "repair --detection 1ms --round-trip 200us --give-up 50ms",
            "reordering",
            1.2e-3,
        ),
        (
            "repair-rate --rate 100Mbit/s --loss 1% --receivers 20",
            "repairs",
            20.202e6,
        ),
        (
            "tcp-order --received 2854 --out-of-order 172",
            "held back",
            0.060266,
        ),
        (
            "budget --total 2ms --part cpu=1ms --part network=120us",
            "left",
            880e-6,
        ),
    ] {
        let output = advise(&format!("{line} --json"));
        let advice: Value = serde_json::from_str(stdout(&output)).unwrap();
        let results = advice["results"].as_array().unwrap();
        let found = results.iter().find(|result| result["name"] == name);
        let value = found.unwrap()["value"].as_f64().unwrap();
        assert!(
            (value / expected - 1.0).abs() < 1e-4,
            "{line}: {value}, not {expected}"
        );
        assert!(!advice["equations"].as_array().unwrap().is_empty());
        assert!(!advice["sources"].as_array().unwrap().is_empty());
    }
}

#[test]
fn nonsense_is_a_usage_error_with_a_remedy() {
    for (line, said) in [
        ("buffer --rate 0Gbit/s --pause 50ms", "qsm: remedy: give"),
        ("buffer --rate 1Gbit --pause 50ms", "such as 1Gbit/s"),
        ("buffer --rate 1Gbit/s --pause 50", "such as 50ms"),
        ("memory --buffer 1M --receivers 1.5", "whole number"),
        (
            "batching --message 9000 --messages 1/s --wait 1s",
            "smaller --message",
        ),
    ] {
        let output = advise(line);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{line}: {stderr}");
        assert!(stderr.contains(said), "{line}: {stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn the_rate_of_a_running_node_may_take_the_place_of_a_given_one() {
    let cluster = Cluster::new();
    let name = format!("advised-{}", std::process::id());
    let mut sub = cluster.start(&["sub", "news", "--name", &name]);
    Lines::of_stderr(&mut sub.0).wait("where it is", |line| line.contains("subscribed to"));
    let publishing = cluster
        .command(&["pub", "news"])
        .stdin(Stdio::piped())
        .spawn();
    let mut publishing = Running(publishing.unwrap());
    let mut input = publishing.0.stdin.take().unwrap();
    // Until the publisher is gone.
    let writer = thread::spawn(move || {
        while writeln!(input, "{}", "x".repeat(1000)).is_ok() {
            thread::sleep(Duration::from_millis(1));
        }
    });
    let until = Instant::now() + Duration::from_secs(60);
    let line = format!("buffer --node {name} --pause 50ms --json");
    let output = loop {
        let output = advise(&line);
        if output.status.success() {
            break output;
        }
        // Nothing has come yet.
        assert!(Instant::now() < until, "{}", support::stderr(&output));
    };
    let advice: Value = serde_json::from_str(stdout(&output)).unwrap();
    let inputs = advice["inputs"].as_array().unwrap();
    let rate = inputs.iter().find(|input| input["name"] == "rate").unwrap();
    assert!(rate["value"].as_f64().unwrap() > 1000.0, "{advice}");
    drop(publishing);
    writer.join().unwrap();
    drop(sub);

    let gone = advise(&format!("retention --node {name} --away 30s"));
    assert_eq!(gone.status.code(), Some(1));
    let said = support::stderr(&gone);
    assert!(said.contains("no node of this host is called"), "{said}");
    let neither = advise("retention --away 30s");
    assert_eq!(neither.status.code(), Some(2));
}
