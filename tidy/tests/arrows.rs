//! Which crate may know which (ARCHITECTURE.md, section "Code map").

use std::collections::BTreeMap;

use tidy::{Manifest, Repository};

/// A crate and the crates of this repository that it may depend on.
const ARROWS: [(&str, &[&str]); 43] = [
    ("qsm-metrics", &[]),
    ("qsm-advise", &[]),
    ("qsm-dash", &[]),
    ("qsm-admin", &[]),
    ("qsm-exporter", &[]),
    // Probes between hosts go by the sockets that nodes have.
    ("qsm-doctor", &["qsm-net"]),
    ("qsm-wire", &[]),
    // Bytes in, bytes out.
    ("qsm-parity", &[]),
    ("qsm-dissector", &["qsm-wire"]),
    // Signs and verifies what it numbers: functions of bytes and keys.
    (
        "qsm-proto",
        &["qsm-wire", "qsm-parity", "qsm-identity", "qsm-origin"],
    ),
    ("qsm-record", &["qsm-wire", "qsm-proto"]),
    // Keys and ciphers are at the sockets alone. What goes to all is signed by the keys of nodes.
    ("qsm-seal", &["qsm-identity", "qsm-wire"]),
    // Certificates in the place of tokens.
    ("qsm-x509", &["qsm-identity"]),
    // TLS and what is said by it. Its tests seal with the secrets of a session.
    ("qsm-handshake", &["qsm-seal", "qsm-wire"]),
    // Functions of bytes and keys, which name groups as the library does.
    ("qsm-identity", &[]),
    // Signs and verifies by the keys of nodes.
    ("qsm-origin", &["qsm-identity", "qsm-wire"]),
    // Time and decoding errors, and parity; its packets are of its own.
    ("qsm-relay", &["qsm-wire", "qsm-parity"]),
    ("qsm-relay-sim", &["qsm-relay", "qsm-wire"]),
    ("qsm-plan", &["qsm-wire"]),
    ("qsm-gms", &["qsm-wire", "qsm-proto", "qsm-plan"]),
    // Under the unit tests of the crates above it, and under the simulator.
    ("qsm-testnet", &["qsm-wire"]),
    (
        "qsm-sim",
        &[
            "qsm-wire",
            "qsm-proto",
            "qsm-gms",
            "qsm-identity",
            "qsm-testnet",
        ],
    ),
    (
        "qsm-figures",
        &["qsm-wire", "qsm-proto", "qsm-gms", "qsm-sim"],
    ),
    ("groupcast", &[]),
    ("qsm-net", &["groupcast"]),
    (
        "qsm",
        &[
            "qsm-admin",
            "qsm-exporter",
            "qsm-wire",
            "qsm-proto",
            "qsm-record",
            "qsm-gms",
            "qsm-net",
            "qsm-handshake",
            "qsm-identity",
            "qsm-seal",
            "qsm-x509",
        ],
    ),
    // Errors of the lab are failures of commands.
    ("qsm-console", &["qsm", "qsm-lab"]),
    // Processes of a protected run have keys and tokens that are made for it.
    (
        "qsm-processes",
        &["qsm", "qsm-console", "qsm-identity", "qsm-lab"],
    ),
    ("qsm-demo", &["qsm", "qsm-console", "qsm-processes"]),
    // `qsm bench` compares with the bare sockets, and with ciphers alone.
    (
        "qsm-measure",
        &[
            "qsm",
            "qsm-net",
            "qsm-console",
            "qsm-processes",
            "qsm-seal",
            "qsm-origin",
            "qsm-identity",
            "qsm-wire",
            "qsm-lab",
        ],
    ),
    // `qsm lab` makes test hosts, `qsm sim` replays seeds, recordings and experiments, `qsm plan` plans,
    // `qsm advise` calculates, `qsm dash` shows pages, `qsm sub` decodes objects, and the wire crate has
    // the numbers of nodes and groups that are planned; and `qsm capture` takes packets at the card, `qsm relay` drives relays. Its tests have
    // members that break the program's rules, and make trials of processes on hosts.
    (
        "qsm-cli",
        &[
            "qsm",
            "qsm-handshake",
            "qsm-origin",
            "qsm-seal",
            "qsm-advise",
            "qsm-plan",
            "qsm-wire",
            "qsm-console",
            "qsm-dash",
            "qsm-demo",
            "qsm-dissector",
            "qsm-doctor",
            "qsm-identity",
            "qsm-measure",
            "qsm-net",
            "qsm-object",
            "qsm-record",
            "qsm-relay",
            "qsm-relay-sim",
            "qsm-replica",
            "qsm-history",
            "qsm-link",
            "qsm-sim",
            "qsm-figures",
            "qsm-lab",
            "qsm-system",
        ],
    ),
    ("qsm-object", &[]),
    ("qsm-replica", &["qsm"]),
    ("qsm-history", &["qsm"]),
    ("qsm-binding", &["qsm", "qsm-history", "qsm-replica"]),
    (
        "qsm-capi",
        &["qsm", "qsm-binding", "qsm-history", "qsm-replica"],
    ),
    (
        "qsm-python",
        &["qsm", "qsm-binding", "qsm-history", "qsm-replica"],
    ),
    // Its library has the functions of C, too.
    (
        "qsm-java",
        &[
            "qsm",
            "qsm-binding",
            "qsm-capi",
            "qsm-history",
            "qsm-replica",
        ],
    ),
    ("qsm-lab", &[]),
    // Links have the keys, tokens and TLS of sessions.
    ("qsm-link", &["qsm-handshake", "qsm-identity", "qsm-wire"]),
    // Layouts are those of `qsm bench`. Its tests measure receivers in other languages.
    (
        "qsm-bench",
        &[
            "qsm",
            "qsm-java",
            "qsm-python",
            "qsm-measure",
            "qsm-net",
            "qsm-proto",
            "qsm-wire",
            "qsm-lab",
        ],
    ),
    (
        "qsm-system",
        &["groupcast", "qsm", "qsm-replica", "qsm-lab"],
    ),
    ("tidy", &[]),
];

/// Crates that every other may know: they declare what is counted, and do nothing.
const EVERYWHERE: [&str; 1] = ["qsm-metrics"];

/// Crates whose behaviour is a function of their inputs: no dependency could break that.
const PURE: [&str; 9] = [
    "qsm-metrics",
    "qsm-wire",
    "qsm-proto",
    "qsm-relay",
    "qsm-relay-sim",
    "qsm-plan",
    "qsm-gms",
    "qsm-testnet",
    "qsm-sim",
];
/// The virtual network, which unit tests of all pure crates may use.
const TESTNET: &str = "qsm-testnet";
/// Crates that the gate counts beside the protocol. Tests and benches alone may know it.
const COUNTED: (&str, &str) = ("qsm-proto", "qsm-seal");
/// Foreign crates that only the edges may know.
const EDGES_ONLY: [&str; 5] = ["serde", "serde_json", "clap", "tokio", "tracing"];
const EDGES: [&str; 14] = [
    "qsm-object",
    "qsm-replica",
    "qsm-history",
    "qsm-admin",
    "qsm-dash",
    "qsm-doctor",
    "qsm-console",
    "qsm-processes",
    "qsm-demo",
    "qsm-measure",
    "qsm-cli",
    "qsm-bench",
    "qsm-system",
    "tidy",
];
/// Crates that nothing in `crates/` may be built with; tests may use the lab.
const TOPMOST: [&str; 4] = ["qsm-cli", "qsm-bench", "qsm-system", "tidy"];

/// Workspaces of their own, which `cargo test` does not build.
const APART: [&str; 2] = ["fuzz/", "bench/peers/"];

fn manifests() -> BTreeMap<String, Manifest> {
    let repository = Repository::open().expect("the repository can be read");
    repository
        .ending("Cargo.toml")
        .filter(|path| !APART.iter().any(|folder| path.starts_with(folder)))
        .map(|path| Manifest::new(&repository.text(path)))
        .filter(|manifest| !manifest.name.is_empty())
        .map(|manifest| (manifest.name.clone(), manifest))
        .collect()
}

fn allowed(name: &str, other: &str) -> bool {
    let found = ARROWS.iter().find(|(from, _)| *from == name);
    let (_, to) =
        found.unwrap_or_else(|| panic!("{name} is not in ARROWS: say what it may depend on"));
    to.contains(&other) || EVERYWHERE.contains(&other)
}

#[test]
fn crates_depend_only_in_the_direction_of_the_arrows() {
    let manifests = manifests();
    assert!(manifests.len() >= 9, "found only {:?}", manifests.keys());
    for (name, manifest) in &manifests {
        let ours = |other: &&String| manifests.contains_key(*other);
        for other in manifest.dependencies.iter().filter(ours) {
            assert!(allowed(name, other), "{name} must not depend on {other}");
            assert!(
                !TOPMOST.contains(&other.as_str()),
                "nothing may depend on {other}"
            );
        }
        for other in manifest.dev_dependencies.iter().filter(ours) {
            let counted = COUNTED == (name, other);
            let fine = counted || other == "qsm-lab" || other == TESTNET || allowed(name, other);
            assert!(fine, "tests of {name} must not depend on {other}");
        }
    }
}

/// Foreign crates that pure ones may use: functions of bytes, which see nothing of the host.
const PURE_FUNCTIONS: [(&str, &str); 1] = [("qsm-wire", "xxhash-rust")];

#[test]
fn pure_crates_have_no_foreign_dependencies_but_pure_functions() {
    let manifests = manifests();
    for name in PURE {
        for other in &manifests[name].dependencies {
            let function = PURE_FUNCTIONS.contains(&(name, other.as_str()));
            assert!(
                manifests.contains_key(other) || function,
                "{name} must not depend on {other}"
            );
        }
    }
}

#[test]
fn host_formats_and_command_lines_exist_only_at_the_edges() {
    for (name, manifest) in manifests() {
        for other in manifest.dependencies {
            let edge = EDGES.contains(&name.as_str());
            assert!(
                edge || !EDGES_ONLY.contains(&other.as_str()),
                "{name} depends on {other}"
            );
        }
    }
}

#[test]
fn every_crate_takes_its_lints_from_the_workspace() {
    for (name, manifest) in manifests() {
        assert!(
            manifest.workspace_lints,
            "{name} lacks `[lints] workspace = true`"
        );
    }
}
