//! `qsm bench`, short: what it measures is there and verified, what cannot be is refused, and what
//! is missing fails.

mod support;

use std::process::Output;

use serde_json::Value;
use support::{Cluster, assert_code, stderr, text};

fn bench(words: &[&str]) -> Output {
    support::qsm().arg("bench").args(words).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert_code(output, 0);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[track_caller]
fn assert_positive(value: &Value) {
    assert!(value.as_f64().is_some_and(|number| number > 0.0), "{value}");
}

#[test]
fn throughput_of_two_senders_to_two_receivers_is_counted_at_each() {
    let cluster = Cluster::without_service();
    let plot = text(&cluster.folder.join("rates.svg"));
    let output = bench(&[
        "throughput",
        "--messages=5000",
        "--payload=700",
        "--groups=16",
        "--senders=2",
        "--receivers=2",
        "--loss=1",
        "--runs=2",
        "--raw",
        "--json",
        "--plot",
        &plot,
    ]);
    let result = json(&output);
    assert_eq!(result["benchmark"], "throughput");
    assert_eq!(result["options"]["loss_percent"], 1.0);
    let runs = result["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 2);
    for run in runs {
        let receivers = run["receivers"].as_array().unwrap();
        assert_eq!(receivers.len(), 2);
        for receiver in receivers {
            assert_eq!(receiver["messages"], 10_000);
            assert_eq!(receiver["bytes"], 7_000_000);
        }
        assert_positive(&run["raw_megabytes_per_second"]);
        assert_positive(&run["raw_checked_megabytes_per_second"]);
    }
    for spread in [
        "messages_per_second",
        "megabytes_per_second",
        "sender_cpu_seconds_per_million",
        "receiver_cpu_seconds_per_million",
        "share_of_raw",
        "share_of_raw_checked",
    ] {
        for part in ["median", "min", "max"] {
            assert_positive(&result[spread][part]);
        }
    }
    assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));
}

#[test]
fn kinds_of_protection_are_measured_beside_each_other() {
    let result = json(&bench(&[
        "throughput",
        "--messages=3000",
        "--receivers=2",
        "--runs=1",
        "--protect=none,key,key-aegis,tokens-aegis,verified",
        "--json",
    ]));
    assert_eq!(result["benchmark"], "protection");
    let kinds = result["protections"].as_array().unwrap();
    let names = kinds.iter().map(|kind| kind["protection"].as_str());
    assert!(
        names.eq(["none", "key", "key-aegis", "tokens-aegis", "verified"].map(Some)),
        "{result}"
    );
    let primitives = result["primitives"].as_array().unwrap();
    let ciphers = primitives.iter().map(|one| one["cipher"].as_str());
    assert!(
        ciphers.eq(["aes-256-gcm", "aegis-128x2"].map(Some)),
        "{result}"
    );
    for figures in primitives {
        for figure in ["packet_bytes", "seal_nanoseconds", "open_nanoseconds"] {
            assert_positive(&figures[figure]);
        }
        assert_positive(&figures["sign_nanoseconds"]);
        assert_positive(&figures["prove_nanoseconds"]);
    }
    assert_eq!(kinds[0]["share_allowed"], Value::Null);
    for kind in &kinds[1..] {
        assert_positive(&kind["messages_per_second"]["median"]);
        assert_positive(&kind["share_of_first"]["median"]);
        let allowed = kind["share_allowed"].as_f64().unwrap();
        assert!(allowed > 0.0 && allowed < 1.0, "{result}");
    }
    let several = bench(&["latency", "--protect", "key,tokens"]);
    assert_code(&several, 2);
    assert!(stderr(&several).contains("give one kind"));
}

#[test]
fn senders_are_held_to_what_a_slow_network_takes() {
    let result = json(&bench(&[
        "throughput",
        "--messages=10000",
        "--payload=1000",
        "--runs=1",
        "--protect=none,key",
        "--send-limit=20M",
        "--json",
    ]));
    assert_eq!(result["options"]["send_limit"], 20 << 20);
    for kind in result["protections"].as_array().unwrap() {
        let rate = kind["messages_per_second"]["median"].as_f64().unwrap();
        // 20,971 of 1000 bytes without headers, and what may leave at once.
        assert!(rate > 0.0 && rate < 25_000.0, "{result}");
        assert_eq!(kind["share_allowed"], Value::Null);
    }
}

#[test]
fn throughput_of_several_core_threads_is_counted_together() {
    let result = json(&bench(&[
        "throughput",
        "--messages=5001",
        "--groups=16",
        "--senders=2",
        "--cores=3",
        "--loss=1",
        "--runs=1",
        "--json",
    ]));
    assert_eq!(result["options"]["cores"], 3);
    let receiver = &result["runs"][0]["receivers"][0];
    assert_eq!(receiver["messages"], 10_002);
    assert_eq!(receiver["bytes"], 10_002_000);
    let output = bench(&["latency", "--cores=2"]);
    assert_code(&output, 2);
    assert!(stderr(&output).contains("`qsm bench throughput`"));
}

/// What a run of this layout gave: each receiver's messages, and the run.
fn layout(layout: &str, extra: &[&str]) -> (Vec<u64>, Value) {
    let layout = format!("--layout={layout}");
    let words = ["throughput", &layout, "--runs=1", "--json"];
    let result = json(&bench(&[&words[..], extra].concat()));
    let receivers = result["runs"][0]["receivers"].as_array().unwrap();
    let messages = receivers
        .iter()
        .map(|one| one["messages"].as_u64().unwrap());
    (messages.collect(), result)
}

/// The payload fills a packet, so that packets are as many as messages that were not copied.
#[test]
fn groups_of_their_own_cost_receivers_no_packets() {
    let load = [
        "--receivers=6",
        "--messages=3000",
        "--payload=8000",
        "--layout-share=10",
    ];
    let packets = |result: &Value| result["packets_per_message"]["median"].as_f64().unwrap();
    let (received, identical) = layout("identical", &load);
    assert_eq!(received, [3000; 6]);
    let regions = |result: &Value| {
        ["regions", "private_regions"].map(|key| result[key]["median"].as_f64().unwrap())
    };
    assert_eq!(regions(&identical), [1.0, 0.0]);
    let (received, private) = layout("private", &load);
    assert_eq!(received, [2750; 6]);
    assert_eq!(regions(&private), [1.0, 6.0]);
    assert_eq!(private["options"]["layout"], "private");
    let (identical, private) = (packets(&identical), packets(&private));
    assert!(identical >= 1.0, "{identical}");
    assert!(private <= 1.05 * identical, "{private}, {identical}");
}

#[test]
fn messages_of_every_layout_are_verified_at_those_who_want_them() {
    let load = ["--receivers=4", "--messages=2000", "--layout-share=20"];
    for name in ["extras:5,1000", "zipf:3,10", "hierarchical"] {
        let (received, result) = layout(name, &load);
        // The common group's, and some of the others' but not all.
        let some = |messages: &u64| (1601..2000).contains(messages);
        assert!(received.iter().all(some), "{name}: {received:?}");
        assert_positive(&result["regions"]["median"]);
    }
}

#[test]
fn layouts_are_compared_with_identical_in_turn() {
    let words = [
        "throughput",
        "--layout=private",
        "--layout=extras:2,9",
        "--json",
    ];
    let load = ["--receivers=3", "--messages=1000", "--runs=2", "--loss=2"];
    let result = json(&bench(&[words, load].concat()));
    assert_eq!(result["benchmark"], "layouts");
    let layouts = result["layouts"].as_array().unwrap();
    let names: Vec<&Value> = layouts.iter().map(|layout| &layout["layout"]).collect();
    assert_eq!(names, ["identical", "private", "extras:2,9"]);
    assert_eq!(layouts[0]["share_of_identical"]["max"], 1.0);
    for layout in layouts {
        for key in [
            "share_of_identical",
            "packets_per_message",
            "share_of_repairs_by_receivers",
            "messages_sent_per_second",
        ] {
            assert_positive(&layout[key]["median"]);
        }
        assert_eq!(layout["runs"].as_array().unwrap().len(), 2);
    }
    let words = [
        "throughput",
        "--layout=all",
        "--messages=200",
        "--runs=1",
        "--receivers=2",
    ];
    let output = bench(&words);
    assert_code(&output, 0);
    let text = String::from_utf8(output.stdout).unwrap();
    for start in [
        "LAYOUT ",
        "identical ",
        "private ",
        "extras:5,1000 ",
        "zipf:5,1000 ",
        "hierarchical ",
    ] {
        assert!(
            text.lines().any(|line| line.starts_with(start)),
            "{start}: {text}"
        );
    }
    assert!(
        text.contains("5 layouts with 1 % of the messages"),
        "{text}"
    );
    let output = bench(&["throughput", "--layout=all", "--raw"]);
    assert_code(&output, 2);
}

/// Losses are repaired by receivers though each has a group of its own, and two senders end each
/// group.
#[test]
fn receivers_with_groups_of_their_own_repair_each_other() {
    let load = [
        "--receivers=3",
        "--senders=2",
        "--messages=3000",
        "--payload=8000",
        "--loss=5",
        "--cores=2",
        "--groups=2",
    ];
    let (received, result) = layout("private", &load);
    assert_eq!(received, [5960; 3]);
    let share = &result["share_of_repairs_by_receivers"]["median"];
    assert!(share.as_f64().is_some_and(|share| share > 0.5), "{share}");
}

#[test]
fn every_process_can_be_kept_on_a_cpu() {
    let common = ["--pin", "--messages=1000", "--receivers=2", "--runs=1"];
    let words = ["throughput", "--cores=2", "--groups=2", "--raw", "--json"];
    let result = json(&bench(&[&words[..], &common].concat()));
    assert_eq!(result["options"]["pin"], true);
    assert_positive(&result["runs"][0]["raw_megabytes_per_second"]);
    let words = ["latency", "--rate=2000", "--raw"];
    let output = bench(&[&words[..], &common].concat());
    assert_code(&output, 0);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("pinned"), "{table}");
}

#[test]
fn both_benchmarks_and_the_bare_sockets_speak_ipv6() {
    // Over loopback it would need a route that only root can add; then hosts are to be had, too.
    if !lab::ready() {
        return;
    }
    let common = ["--lab", "--ipv6", "--messages=1000", "--runs=1"];
    let words = [&["throughput"], &common[..], &["--raw", "--json"]].concat();
    let result = json(&bench(&words));
    assert_eq!(result["options"]["ipv6"], true);
    let run = &result["runs"][0];
    assert_eq!(run["receivers"][0]["messages"], 1000);
    assert_positive(&run["raw_megabytes_per_second"]);
    let words = [&["latency", "--rate=2000"], &common[..]].concat();
    let output = bench(&words);
    assert_code(&output, 0);
    let table = String::from_utf8(output.stdout).unwrap();
    assert!(table.contains("namespaces, IPv6"), "{table}");
}

#[test]
fn latency_has_percentiles_stages_repairs_and_the_bare_sockets_beside_it() {
    let cluster = Cluster::without_service();
    let plot = text(&cluster.folder.join("latency.svg"));
    let output = bench(&[
        "latency",
        "--messages=2000",
        "--rate=2000",
        "--payload=4000",
        "--groups=3",
        "--receivers=2",
        "--loss=5",
        "--runs=1",
        "--raw",
        "--json",
        "--plot",
        &plot,
    ]);
    let result = json(&output);
    assert_eq!(result["options"]["rate"], 2000);
    assert_eq!(result["latency"]["count"], 4000);
    assert_eq!(result["raw_half_round_trip"]["count"], 2000);
    // Each message is due, called and delivered once; a stage is timed for each packet.
    assert_eq!(result["due_to_call"]["count"], 2000);
    assert_eq!(result["read_to_upcall"]["count"], 4000);
    for row in [
        "latency",
        "due_to_call",
        "call_to_handed_over",
        "handed_over_to_read",
        "read_to_upcall",
        "repaired",
        "raw_half_round_trip",
    ] {
        let row = &result[row];
        let median = row["p50"]["median"].as_f64().unwrap();
        assert!(row["max"]["median"].as_f64().unwrap() >= median, "{row}");
    }
    // At most two messages of 4000 bytes share a packet: of 2000 packets or more, 100 are lost.
    let repaired = result["repaired"]["count"].as_u64().unwrap();
    assert!((30..2000).contains(&repaired), "{repaired}");
    assert_positive(&result["packets_lost_on_purpose"]);
    assert!(std::fs::read_to_string(&plot).unwrap().contains("repaired"));
}

#[test]
fn hosts_of_a_lab_are_measured_as_well() {
    if !lab::ready() {
        return;
    }
    let common = ["--lab", "--runs=1", "--receivers=2", "--raw", "--json"];
    let throughput = ["throughput", "--messages=5000"];
    let result = json(&bench(&[&throughput[..], &common].concat()));
    assert_positive(&result["share_of_raw"]["median"]);
    let latency = ["latency", "--messages=500"];
    let result = json(&bench(&[&latency[..], &common].concat()));
    assert_eq!(result["latency"]["count"], 1000);
    assert_eq!(result["raw_half_round_trip"]["count"], 500);
}

#[test]
fn a_round_trip_is_timed_by_the_sender_alone() {
    let result = json(&bench(&[
        "latency",
        "--round-trip",
        "--messages=500",
        "--groups=2",
        "--receivers=2",
        "--runs=1",
        "--json",
    ]));
    assert_eq!(result["round_trip"], true);
    assert_eq!(result["latency"]["count"], 500);
    assert_eq!(result["handed_over_to_read"], Value::Null);
}

#[test]
fn bare_pings_need_no_cluster() {
    let result = json(&bench(&["ping", "--messages=200", "--runs=2", "--json"]));
    assert_eq!(result["raw_half_round_trip"]["count"], 400);
}

#[test]
fn a_short_run_of_both_is_a_table() {
    let output = bench(&["--runs=1"]);
    assert_code(&output, 0);
    let table = String::from_utf8(output.stdout).unwrap();
    for part in ["messages/s", "CPU s per million", "p99.9", "read to upcall"] {
        assert!(table.contains(part), "{part}: {table}");
    }
}

#[test]
fn a_layout_alone_is_a_short_run_of_throughput() {
    let output = bench(&["--layout=private", "--receivers=2", "--runs=1"]);
    assert_code(&output, 0);
    let table = String::from_utf8(output.stdout).unwrap();
    for part in [
        "layout private with 1 % of the messages",
        "private regions",
        "data packets per message",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(!table.contains("p99.9"), "{table}");
}

#[test]
fn sender_and_receivers_started_by_hand_find_each_other() {
    let cluster = Cluster::new();
    let receive = |extra: &[&str]| {
        let words = ["bench", "receive", "--groups=4", "--json"];
        cluster.start(&[&words, extra].concat())
    };
    let receivers = [receive(&["--stages"]), receive(&[])];
    let sent = cluster.run(
        &[
            "bench",
            "send",
            "--groups=4",
            "--receivers=2",
            "--rate=1000",
            "--messages=300",
            "--json",
        ],
        b"",
    );
    assert_eq!(json(&sent)["sent"]["messages"], 300);
    for receiver in receivers {
        let received = json(&receiver.output());
        assert_eq!(received["received"]["messages"], 300);
        assert!(
            !received["received"]["latency"]
                .as_array()
                .unwrap()
                .is_empty()
        );
    }
}

/// One of two receivers sends back what comes; the sender alone reads a clock.
#[test]
fn a_sender_times_round_trips_to_the_receiver_that_echoes() {
    let cluster = Cluster::new();
    let echoing = cluster.start(&["bench", "receive", "--echo", "--json"]);
    let silent = cluster.start(&["bench", "receive", "--json"]);
    let words = ["bench", "send", "--rate=1000", "--round-trip", "--json"];
    let more = ["--receivers=2", "--messages=300"];
    let sent = json(&cluster.run(&[&words[..], &more].concat(), b""));
    let sent = &sent["sent"];
    assert_eq!(sent["messages"], 300);
    let times = sent["half_round_trip"].as_array().unwrap();
    let counts = times.iter().map(|entry| entry[1].as_u64().unwrap());
    assert_eq!(counts.sum::<u64>(), 300);
    assert!(times.iter().all(|entry| entry[0].as_u64().unwrap() > 0));
    for receiver in [echoing, silent] {
        let received = json(&receiver.output());
        assert_eq!(received["received"]["messages"], 300);
        // Clocks of two hosts are not compared.
        assert_eq!(received["received"]["latency"], Value::Array(Vec::new()));
    }
}

#[test]
fn a_sender_that_nobody_answers_says_which_receiver_to_start() {
    let cluster = Cluster::new();
    let silent = cluster.start(&["bench", "receive", "--patience=60"]);
    let words = ["bench", "send", "--rate=1000", "--round-trip"];
    let more = ["--messages=50", "--patience=1"];
    let sent = cluster.run(&[&words[..], &more].concat(), b"");
    assert_code(&sent, 1);
    let told = stderr(&sent);
    assert!(told.contains("0 of 50 messages came back"), "{told}");
    assert!(told.contains("start one receiver with --echo"), "{told}");
    drop(silent);
}

#[test]
fn a_receiver_whose_sender_dies_fails_and_says_how_far_it_came() {
    let cluster = Cluster::new();
    let receiver = cluster.start(&["bench", "receive", "--patience=2"]);
    let mut sender = cluster.start(&[
        "bench",
        "send",
        "--receivers=2",
        "--rate=1000",
        "--duration=600",
    ]);
    // A second member: when that has so many messages, the first one has some.
    let words = ["sub", "bench/0", "bench/end", "--count=100", "--hash"];
    assert_code(&cluster.run(&words, b""), 0);
    sender.0.kill().unwrap();
    let output = receiver.output();
    assert_code(&output, 1);
    assert!(
        stderr(&output).contains("incomplete"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_remedy() {
    for (words, part) in [
        (&["throughput", "--payload=7"][..], "--payload 8"),
        (&["latency", "--payload=55"], "--payload 56"),
        (&["throughput", "--payload=17M"], "16777216"),
        (&["latency", "--round-trip", "--senders=2"], "one sender"),
        (&["--plot=x.svg"], "qsm bench throughput"),
        (&["throughput", "--runs=0"], "--runs"),
        (
            &["throughput", "--duration=1", "--messages=1"],
            "--messages",
        ),
        (&["send", "--round-trip"], "--rate"),
        (&["throughput", "--loss=101"], "between 0 and 100"),
        (
            &["--layout=rings"],
            "identical, private, extras:EACH,GROUPS",
        ),
        (&["--layout=extras:5"], "extras:5,1000"),
        (
            &["--layout=private", "--layout-share=60"],
            "0 to 50 percent",
        ),
        (&["--layout-share=5"], "--layout <LAYOUT>"),
        (&["receive", "--layout=private"], "--seat"),
        (
            &["receive", "--layout=private", "--seat=3/2"],
            "2/6 for the second of six",
        ),
        (
            &["send", "--layout=private", "--rate=5"],
            "leave out --rate",
        ),
    ] {
        let output = bench(words);
        assert_code(&output, 2);
        assert!(
            stderr(&output).contains(part),
            "{words:?}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_sender_without_receivers_says_what_to_start() {
    let cluster = Cluster::new();
    let output = cluster.run(&["bench", "send", "--patience=0.5"], b"");
    assert_code(&output, 3);
    assert!(
        stderr(&output).contains("qsm bench receive"),
        "{}",
        stderr(&output)
    );
}
