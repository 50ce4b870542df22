//! Hints of the designer in a running membership service (R-VIEW-18).

mod support;

use std::collections::BTreeSet;

use serde_json::Value;
use support::{Cluster, assert_code, stderr};

/// The regions of the cluster: their nodes, and where they are.
fn regions(cluster: &Cluster) -> Vec<(BTreeSet<String>, String)> {
    let output = cluster.run(&["regions", "--json"], b"");
    assert_code(&output, 0);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let regions = rows.iter().map(|region| {
        let members = region["members"].as_array().unwrap().iter();
        let names = members.map(|member| member["name"].as_str().unwrap().to_owned());
        let address = region["address"].as_str().unwrap().to_owned();
        (names.collect(), address)
    });
    regions.collect()
}

#[test]
fn nodes_of_a_domain_have_a_region_and_an_address_of_their_own() {
    let mut cluster = Cluster::without_service();
    let hints = b"domain red: anna bert\napart: carl dora\npin fast: ticks\n";
    let hints = cluster.file("hints.txt", hints);
    let (gms, address) = cluster.start_gms(&["--hints", &hints], std::process::Stdio::inherit());
    cluster.use_service(&address);
    let names = ["anna", "bert", "carl", "dora", "emil"];
    let subs = names.map(|name| cluster.start(&["sub", "news", "ticks", "--name", name]));
    for group in ["news", "ticks"] {
        let sent = cluster.run(&["pub", group, "--wait-members", "5"], b"hello\n");
        assert_code(&sent, 0);
    }
    let regions = regions(&cluster);
    let sets: BTreeSet<Vec<&str>> = regions
        .iter()
        .map(|(nodes, _)| nodes.iter().map(String::as_str).collect())
        .collect();
    let expected = [vec!["anna", "bert"], vec!["carl", "emil"], vec!["dora"]];
    assert_eq!(sets, BTreeSet::from(expected));
    // One for each of both groups.
    let addresses: BTreeSet<&String> = regions.iter().map(|(_, address)| address).collect();
    assert_eq!((regions.len(), addresses.len()), (6, 6), "{regions:?}");
    drop(subs);
    gms.terminate();
    assert_code(&gms.output(), 0);
}

#[test]
fn hints_that_cannot_be_carried_out_are_said_at_the_start() {
    let cluster = Cluster::without_service();
    let start = |file: &str| {
        let mut command = support::qsm();
        command.args(["gms", "--listen", "127.0.0.1:0", "--hints", file]);
        command.output().unwrap()
    };
    for (text, says) in [
        (
            "together: a b\npin fast: g\n",
            "lines 1 and 2: a running service cannot both",
        ),
        ("\napart: a b\ntogether: b a\n", "lines 3 and 2: "),
        ("near: a b\n", "line 1: `near: a b` is no hint"),
        (
            "origin verified: *\n",
            "an identity and a token (`qsm init` makes some)",
        ),
    ] {
        let file = cluster.file("bad.txt", text.as_bytes());
        let output = start(&file);
        assert_code(&output, 2);
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    let output = start("/nonexistent/hints");
    assert!(
        stderr(&output).contains("cannot be read: "),
        "{}",
        stderr(&output)
    );
}
