//! `qsm plan`, as a process: files in, plans and errors out.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const SUBSCRIPTIONS: &str = "\
# three alike, with an inbox each, and one that is not
a: x y z inbox/a
b: x y z inbox/b
c: z y x inbox/c
d: x w
x 100
inbox/a 0.5
";

/// A folder that is gone at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("qsm-plan-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is in the folder for temporary files.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn run(file: &Path, options: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_qsm"));
    command
        .arg("plan")
        .arg(file)
        .args(options)
        .output()
        .unwrap()
}

fn text(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn json(file: &Path, options: &[&str]) -> Value {
    let options = [options, &["--json"]].concat();
    serde_json::from_str(&text(&run(file, &options))).unwrap()
}

fn group<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let groups = plan["groups"].as_array().unwrap();
    groups.iter().find(|group| group["group"] == name).unwrap()
}

#[test]
fn similar_nodes_are_one_region_and_inboxes_are_copies() {
    let folder = Folder::new("regions");
    let file = folder.file("s.txt", SUBSCRIPTIONS);
    let plan = json(&file, &[]);
    let regions = plan["regions"].as_array().unwrap();
    let nodes = |node: &str| {
        let has = |region: &&Value| region["nodes"].as_array().unwrap().contains(&node.into());
        regions.iter().find(has).unwrap()["nodes"].clone()
    };
    assert_eq!(nodes("a"), nodes("b"));
    assert_eq!(nodes("a"), nodes("c"));
    assert_eq!(group(&plan, "inbox/a")["copies"], serde_json::json!(["a"]));
    assert_eq!(group(&plan, "inbox/a")["rate"], 0.5);
    assert_eq!(group(&plan, "y")["packets"], 1);
    assert_eq!(group(&plan, "x")["subscribers"], 4);
    let shown = text(&run(&file, &[]));
    assert!(
        shown.starts_with("4 nodes, 7 groups: 4 sets of groups are "),
        "{shown}"
    );
}

#[test]
fn costs_are_typical_given_or_measured_and_said() {
    let folder = Folder::new("costs");
    let file = folder.file("s.txt", SUBSCRIPTIONS);
    let costs = |options: &[&str]| json(&file, options)["costs"].clone();
    let typical = costs(&[]);
    assert_eq!(
        (&typical["packet_ns"], &typical["unwanted_ns"]),
        (&5000.into(), &1500.into())
    );
    let given = costs(&["--cost-send", "10", "--cost-receive", "0.5"]);
    assert_eq!(
        (
            &given["packet_ns"],
            &given["copy_ns"],
            &given["unwanted_ns"]
        ),
        (&10_000.into(), &12_000.into(), &500.into())
    );
    let measured = costs(&["--calibrate", "--cost-receive", "2"]);
    assert_eq!(measured["source"], "measured on this machine");
    assert_eq!(measured["unwanted_ns"], 2000);
    let shown = text(&run(&file, &["--cost-send", "10"]));
    assert!(
        shown.contains("a packet sent costs 10 µs of CPU time, one that is not wanted 1.5 µs"),
        "{shown}"
    );
    let refused = run(&file, &["--cost-send", "0"]);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("between 0.2 and 100 microseconds"), "{said}");
}

#[test]
fn where_an_unwanted_packet_costs_more_nodes_share_less() {
    let folder = Folder::new("dear");
    let file = folder.file("s.txt", "a: x y\nb: x y\nc: x z\nz 40\n");
    let regions = |cost: &str| {
        let plan = json(&file, &["--no-residue", "--cost-receive", cost]);
        plan["regions"].as_array().unwrap().len()
    };
    assert!(
        regions("0.05") < regions("50"),
        "{} {}",
        regions("0.05"),
        regions("50")
    );
}

#[test]
fn a_group_is_explained_and_the_plan_is_drawn() {
    let folder = Folder::new("why");
    let file = folder.file("s.txt", SUBSCRIPTIONS);
    let picture = folder.0.join("plan.svg");
    let options = ["--why", "x", "--svg", picture.to_str().unwrap()];
    let shown = text(&run(&file, &options));
    assert!(
        shown.contains("x: 4 subscribers, 100 messages a second"),
        "{shown}"
    );
    assert!(shown.contains("a copy for each subscriber"), "{shown}");
    let drawn = fs::read_to_string(&picture).unwrap();
    assert!(
        drawn.starts_with("<svg") && drawn.contains("4 nodes, 7 groups"),
        "{drawn}"
    );
}

#[test]
fn hints_decide_and_contradictions_are_errors() {
    let folder = Folder::new("hints");
    let file = folder.file("s.txt", SUBSCRIPTIONS);
    let hints = folder.file("h.txt", "pin fast: x w\napart: a b\ntogether: a d\n");
    let plan_of = json(&file, &["--hints", hints.to_str().unwrap()]);
    let pin = plan_of["channels"].as_array().unwrap().iter();
    let pin = pin
        .filter(|channel| channel["pin"] == "fast")
        .collect::<Vec<_>>();
    assert_eq!(pin.len(), 1);
    for name in ["x", "w"] {
        assert_eq!(
            group(&plan_of, name)["channels"],
            serde_json::json!([pin[0]["channel"]])
        );
    }
    for (hints, says) in [
        ("together: a b\napart: c d\napart: b a\n", "lines 1 and 3"),
        ("pin fast: nothing\n", "line 1: no group is called nothing"),
        ("\ndomain red: a\npin fast: x\n", "line 3: channel fast"),
    ] {
        let hints = folder.file("bad.txt", hints);
        let output = run(&file, &["--hints", hints.to_str().unwrap()]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains(says) && error.contains("qsm: remedy: "),
            "{error}"
        );
    }
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let folder = Folder::new("files");
    let file = folder.file("s.txt", "a: x\nb x y\n");
    let output = run(&file, &[]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        error.contains("s.txt, line 2: `b x y` is neither"),
        "{error}"
    );
    assert!(
        error.contains("qsm: remedy: write `node: group group …`"),
        "{error}"
    );
    let file = folder.file("s.txt", SUBSCRIPTIONS);
    let output = run(&file, &["--why", "nobody"]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(&folder.0.join("absent"), &[]);
    assert_eq!(output.status.code(), Some(1));
}
