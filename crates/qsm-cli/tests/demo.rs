//! The demonstration, small, and programs on the hosts of a lab.

mod support;

use std::process::Output;

use support::assert_code;

fn run(words: &[&str]) -> Output {
    support::qsm().args(words).output().unwrap()
}

fn assert_verified(output: &Output) {
    assert_code(output, 0);
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap();
    let summary: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!(summary["faults"], serde_json::json!([]));
    assert_eq!(summary["receivers"], 6);
    // Three sets of groups, and what they have in common once the service has planned.
    assert!(summary["regions"].as_array().unwrap().len() >= 3, "{text}");
    let inboxes = &summary["inboxes"];
    for (key, expected) in [
        ("inboxes", 6),
        ("private_regions", 5),
        ("regions_without", 3),
    ] {
        assert_eq!(inboxes[key], expected, "{inboxes}");
    }
    for counted in ["letters", "announcements", "packets"] {
        assert!(inboxes[counted].as_u64().unwrap() > 0, "{inboxes}");
    }
    for counted in [
        "injected",
        "from_receivers",
        "hashes_compared",
        "received_messages",
    ] {
        assert!(summary[counted].as_u64().unwrap() > 0, "{counted}: {text}");
    }
}

#[test]
fn a_small_demonstration_verifies_itself_on_hosts_or_else_on_loopback() {
    assert_verified(&run(&["demo", "--quick", "--json"]));
}

#[test]
fn a_small_demonstration_needs_no_privileges_on_loopback() {
    assert_verified(&run(&[
        "demo",
        "--quick",
        "--json",
        "--loopback",
        "--loss",
        "5",
    ]));
}

#[test]
fn a_small_demonstration_takes_tokens() {
    let words = ["demo", "--quick", "--json", "--loopback", "--tokens"];
    assert_verified(&run(&words));
}

#[test]
fn a_small_demonstration_speaks_ipv6() {
    // Over loopback it would need a route that only root can add; then hosts are to be had, too.
    if !lab::ready() {
        return;
    }
    assert_verified(&run(&["demo", "--quick", "--json", "--ipv6"]));
}

#[test]
fn a_command_runs_on_every_host_of_a_lab_and_its_failure_is_told() {
    if !lab::ready() {
        return;
    }
    let output = run(&[
        "lab",
        "run",
        "--hosts",
        "2",
        "--",
        "echo",
        "{index} {address} {hosts}",
    ]);
    assert_code(&output, 0);
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["h0| 0 10.78.0.1 2", "h1| 1 10.78.0.2 2"]);
    let words = "lab run --hosts 1 --ipv6 -- echo {address}";
    let output = run(&words.split(' ').collect::<Vec<_>>());
    assert_code(&output, 0);
    assert_eq!(output.stdout, b"h0| fd00:78::1\n");
    let output = run(&[
        "lab",
        "run",
        "--hosts",
        "2",
        "--",
        "sh",
        "-c",
        "exit {index}",
    ]);
    assert_code(&output, 1);
    assert!(support::stderr(&output).contains("did not succeed on h1"));
    let output = run(&[
        "lab",
        "run",
        "--hosts",
        "1",
        "--timeout",
        "0.2",
        "--",
        "tail",
        "-f",
        "/dev/null",
    ]);
    assert_code(&output, 3);
}

#[test]
fn links_join_sites_of_a_lab_and_mistakes_in_them_are_named() {
    if !lab::ready() {
        return;
    }
    let words = "lab run --hosts 2 --link 0-1:delay=1ms -- echo {index}{site}";
    let output = run(&words.split(' ').collect::<Vec<_>>());
    assert_code(&output, 0);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("h0| 00\n") && text.contains("h1| 11\n"),
        "{text}"
    );
    let counted = support::stderr(&output);
    assert!(
        counted
            .contains("link 0-1: from 0 to 1 0 packets passed, 0 lost, 0 overflowed; from 1 to 0"),
        "{counted}"
    );
    for (link, wrong) in [
        ("0-1:lag=1ms", "no \"lag\""),
        ("0-2:delay=1ms", "no link leads to site 1"),
        ("0-0:delay=1ms", "would form a loop"),
    ] {
        let output = run(&["lab", "run", "--hosts", "2", "--link", link, "--", "true"]);
        assert!(!output.status.success());
        assert!(
            support::stderr(&output).contains(wrong),
            "{link}: {}",
            support::stderr(&output)
        );
    }
}
