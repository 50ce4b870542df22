//! Every file in `scenarios/` keeps all promises and shows what it expects.

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

#[test]
fn all_scenarios_do_what_they_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = files(&folder);
    assert!(
        files.len() >= 10,
        "scenarios are missing in {}",
        folder.display()
    );
    let mut failures = Vec::new();
    for file in &files {
        let text = std::fs::read_to_string(file).unwrap();
        let scenario = Scenario::parse(&text);
        let scenario = scenario.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        if let Err(failure) = scenario.run() {
            failures.push(format!("{}: {failure}", file.display()));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
