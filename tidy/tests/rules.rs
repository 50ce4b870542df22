//! Every rule of PROTOCOL.md is cited where it is carried out and where it is tested.
//!
//! `uncited.txt` lists the rules for which that is not so yet. It may only shrink: an entry that
//! is not needed any more fails, and so does a list longer than [`UNCITED_MAX`].

use std::collections::{BTreeMap, BTreeSet};

use tidy::{Repository, Source, rule_ids};

/// Entries of `uncited.txt`. Lower it when the list has shrunk; never raise it.
const UNCITED_MAX: usize = 5;

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

/// The entries of the list: a rule, and whether its code and its test are still to be cited.
fn listed(repository: &Repository) -> BTreeMap<String, [bool; 2]> {
    let text = repository.text("tidy/uncited.txt");
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.trim().is_empty());
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let rule = words.next().unwrap_or_default().to_owned();
            let mut missing = [false; 2];
            for word in words {
                match word {
                    "code" => missing[0] = true,
                    "test" => missing[1] = true,
                    other => panic!("uncited.txt, {rule}: {other} is neither code nor test"),
                }
            }
            (rule, missing)
        })
        .collect()
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
    let listed = listed(&repository);
    let mut faults = Vec::new();
    for rule in stated(&repository) {
        let excused = listed.get(&rule).copied().unwrap_or_default();
        for (set, place) in sets
            .iter()
            .zip(["code", "test"])
            .enumerate()
            .map(|(at, (set, place))| ((at, set), place))
        {
            match (set.1.contains(&rule), excused[set.0]) {
                (false, false) => faults.push(format!("{rule} is cited by no {place}")),
                (true, true) => {
                    faults.push(format!(
                        "{rule} is cited by {place} now: take that off uncited.txt"
                    ));
                }
                _ => {}
            }
        }
    }
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn the_list_of_uncited_rules_only_shrinks() {
    let repository = repository();
    let stated: BTreeSet<String> = stated(&repository).into_iter().collect();
    let listed = listed(&repository);
    assert!(
        listed.len() <= UNCITED_MAX,
        "{} entries, at most {UNCITED_MAX}",
        listed.len()
    );
    for (rule, missing) in listed {
        assert!(
            stated.contains(&rule),
            "uncited.txt lists {rule}, which does not exist"
        );
        assert!(
            missing != [false; 2],
            "uncited.txt lists {rule} without saying what is missing"
        );
    }
}
