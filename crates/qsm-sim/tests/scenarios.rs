//! Every file in `scenarios/` keeps all promises and shows what it expects; but for those in
//! `scenarios/open/`, and `scenarios/large/`, which takes minutes.

use std::path::{Path, PathBuf};

use qsm_sim::Scenario;

fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else if path.extension().is_some_and(|extension| extension == "txt") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn run_all(folder: &Path, skipped: &[&str]) -> Vec<String> {
    let mut failures = Vec::new();
    for file in files(folder) {
        let mut parts = file.components();
        if parts.any(|part| skipped.iter().any(|name| part.as_os_str() == *name)) {
            continue;
        }
        let text = std::fs::read_to_string(&file).unwrap();
        let scenario = Scenario::parse(&text);
        let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if let Err(failure) = scenario.run() {
            failures.push(format!("{}: {failure}", file.display()));
        }
    }
    failures
}

fn scenarios() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")
}

#[test]
fn all_scenarios_do_what_they_say() {
    assert!(files(&scenarios()).len() >= 10, "scenarios are missing");
    let failures = run_all(&scenarios(), &["open", "large"]);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// `scenarios/open/` shows faults that are known and not repaired yet. A repaired one moves to
/// `scenarios/regressions/`.
#[test]
#[ignore = "known faults; run with --ignored to see which are left"]
fn open_faults_are_repaired() {
    let failures = run_all(&scenarios().join("open"), &[]);
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
