//! Messages shown as objects of a schema.

mod support;

use std::fs;

use support::{Cluster, assert_code};

const SCHEMA: &str = "type Quote = 17 v2 { symbol: string, bid: f64 }\n";

/// A message, as `--frames` has it.
fn frame(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).unwrap();
    [&length.to_le_bytes(), message].concat()
}

#[test]
fn sub_shows_objects_and_says_what_is_none() {
    let cluster = Cluster::new();
    let schema = std::env::temp_dir().join(format!("qsm-schema-{}", std::process::id()));
    fs::write(&schema, SCHEMA).unwrap();
    let path = schema.to_str().unwrap();
    let sub = cluster.start(&["sub", "quotes", "--decode", path, "--count", "2"]);
    let quote = [&b"\x11\x02\x03EUR"[..], &1.5f64.to_le_bytes()].concat();
    let sent = [frame(&quote), frame(b"hello")].concat();
    assert_code(&cluster.run(&["pub", "quotes", "--frames"], &sent), 0);
    let output = sub.output();
    assert_code(&output, 0);
    let lines = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[0]["value"],
        serde_json::json!({"symbol": "EUR", "bid": 1.5})
    );
    assert_eq!(lines[1]["text"], "hello");
    assert!(
        lines[1]["undecoded"]
            .as_str()
            .unwrap()
            .contains("type 104 is not known")
    );
    fs::remove_file(schema).unwrap();
}

#[test]
fn a_schema_that_is_none_is_named_before_anything_starts() {
    let cluster = Cluster::new();
    let nowhere = cluster.run(&["sub", "quotes", "--decode", "/nowhere"], b"");
    assert_code(&nowhere, 2);
    let said = String::from_utf8_lossy(&nowhere.stderr).into_owned();
    assert!(
        said.contains("cannot read the schema /nowhere: No such file"),
        "{said}"
    );
    let fault = cluster.run(&["sub", "quotes", "--decode", "/dev/null", "--raw"], b"");
    assert_code(&fault, 2);
}
