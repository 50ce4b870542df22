//! `qsm latency host` measures, and says what it was refused.

mod support;

use serde_json::Value;
use support::{assert_code, qsm};

#[test]
fn a_host_is_measured_in_each_class_and_with_several_receivers() {
    let mut command = qsm();
    let words = [
        "latency",
        "host",
        "--seconds",
        "0.2",
        "--receivers",
        "3",
        "--load",
        "1",
    ];
    let output = command.args(words).arg("--json").output().unwrap();
    assert_code(&output, 0);
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let classes = found["scheduling"].as_array().unwrap();
    let names: Vec<&str> = classes
        .iter()
        .map(|it| it["class"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["normal", "nice -20", "real-time"]);
    for class in classes {
        // Due each millisecond, but for the last.
        let measured = class["latencies"]["count"] == 199;
        assert!(measured || class["refused"].is_string(), "{class}");
    }
    assert_eq!(classes[0]["latencies"]["count"], 199);
    let receivers = found["contention"].as_array().unwrap();
    assert_eq!(receivers.len(), 2, "{found}");
    for (group, number) in receivers.iter().zip([1, 3]) {
        assert_eq!(group["receivers"], number);
        assert_eq!(group["latencies"]["count"], 199 * number, "{group}");
    }
    assert!(found["clock"]["correction_ppm"].is_f64());
}

#[test]
fn tables_are_for_people() {
    let mut command = qsm();
    let words = ["latency", "host", "--seconds", "0.1", "--receivers", "1"];
    let output = command.args(words).output().unwrap();
    assert_code(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    for line in [
        "how late a thread runs",
        "CLASS",
        "normal",
        "RECEIVERS",
        "the clock",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let output = qsm()
        .args(["latency", "host", "--every", "10"])
        .output()
        .unwrap();
    assert_code(&output, 2);
}
