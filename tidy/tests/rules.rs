//! Every rule of PROTOCOL.md is cited where it is carried out and where it is tested, and has a
//! scenario that shows it, or a reason for having none.

use std::collections::BTreeSet;

use tidy::{Markdown, Repository, Source, rule_ids};

/// The scenarios of single rules, and the list of rules without one.
const SCENARIOS: &str = "scenarios/rules/";

fn repository() -> Repository {
    Repository::open().expect("the repository can be read")
}

/// The rules, as PROTOCOL.md states them: list items that begin with the number in bold.
fn stated(repository: &Repository) -> Vec<String> {
    let text = repository.text("PROTOCOL.md");
    let items = text.lines().filter_map(|line| line.strip_prefix("- **"));
    items
        .filter_map(|item| {
            rule_ids(item.split("**").next()?)
                .first()
                .map(|id| (*id).to_owned())
        })
        .collect()
}

/// Rules cited in code and rules cited in tests.
fn cited(repository: &Repository) -> [BTreeSet<String>; 2] {
    let mut sets = [BTreeSet::new(), BTreeSet::new()];
    let mut note = |set: usize, text: &str| {
        sets[set].extend(rule_ids(text).into_iter().map(str::to_owned));
    };
    for path in repository
        .ending(".rs")
        .filter(|path| !path.starts_with("tidy/"))
    {
        let text = repository.text(path);
        if Source::is_test(path) {
            note(1, &text);
            continue;
        }
        let source = Source::new(&text);
        source.product_comments().for_each(|line| note(0, line));
        source.test_comments().for_each(|line| note(1, line));
    }
    for path in repository
        .paths()
        .filter(|path| path.starts_with("scenarios/"))
    {
        note(1, &repository.text(path));
    }
    sets
}

#[test]
fn rules_have_one_statement_each() {
    let repository = repository();
    let stated = stated(&repository);
    assert!(!stated.is_empty(), "PROTOCOL.md states no rules");
    let mut seen = BTreeSet::new();
    for rule in &stated {
        assert!(seen.insert(rule), "PROTOCOL.md states {rule} twice");
    }
}

#[test]
fn every_citation_is_of_a_rule_that_exists() {
    let repository = repository();
    let stated: BTreeSet<String> = stated(&repository).into_iter().collect();
    let [code, tests] = cited(&repository);
    let unknown: Vec<_> = code
        .union(&tests)
        .filter(|rule| !stated.contains(*rule))
        .collect();
    assert!(
        unknown.is_empty(),
        "cited, but not in PROTOCOL.md: {unknown:?}"
    );
}

#[test]
fn every_rule_is_cited_by_code_and_by_a_test() {
    let repository = repository();
    let sets = cited(&repository);
    let mut faults = Vec::new();
    for rule in stated(&repository) {
        for (set, place) in sets.iter().zip(["code", "test"]) {
            if !set.contains(&rule) {
                faults.push(format!("{rule} is cited by no {place}"));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// `scenarios/rules/r-nak-2.txt` shows R-NAK-2, says so, and expects something.
#[test]
fn every_rule_has_a_scenario_or_a_reason_for_having_none() {
    let repository = repository();
    let readme = repository.text(&format!("{SCENARIOS}README.md"));
    let excused: BTreeSet<String> = Markdown::new(&readme)
        .table("rule")
        .iter()
        .flat_map(|row| rule_ids(row[0]))
        .map(str::to_owned)
        .collect();
    let mut files: BTreeSet<&str> = repository.ending(".txt").collect();
    files.retain(|path| path.starts_with(SCENARIOS));
    let mut faults = Vec::new();
    for rule in stated(&repository) {
        let path = format!("{SCENARIOS}{}.txt", rule.to_lowercase());
        match (files.remove(path.as_str()), excused.contains(&rule)) {
            (false, false) => faults.push(format!("{rule} has no scenario {path}")),
            (true, true) => faults.push(format!("{rule} has a scenario: take it off the README")),
            (true, false) => {
                let text = repository.text(&path);
                let mut lines = text.lines();
                if !lines.any(|line| line == format!("# Rules: {rule}.")) {
                    faults.push(format!("{path} does not say `# Rules: {rule}.`"));
                }
                if !lines.any(|line| line.starts_with("expect ")) {
                    faults.push(format!("{path} expects nothing"));
                }
            }
            (false, true) => {}
        }
    }
    faults.extend(files.iter().map(|path| format!("{path} is of no rule")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
