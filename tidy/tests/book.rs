//! Rules of the book of `docs/`: its pages, its links, its examples, and the numbers it lists.

use std::collections::BTreeSet;

use tidy::{Book, Markdown, Repository, requirement_ids};

/// Pages that speak of requirements by their numbers: the list, and what is written by the
/// experiments for those who know them.
const NUMBERED: [&str; 6] = [
    "docs/reference/requirements.md",
    "docs/figures/",
    "docs/figures-groupcast/",
    "docs/figures-host/",
    "docs/figures-relay/",
    "docs/benchmarks.md",
];
/// Beginnings of blocks in languages whose examples are compiled.
const COMPILED: [&str; 2] = ["```rust", "```java"];
/// Files in which numbers are cited.
const CITING: [&str; 5] = [".rs", ".md", ".txt", ".toml", "Makefile"];

fn repository() -> Repository {
    Repository::open().expect("the repository can be read")
}

fn assert_none(faults: &[String]) {
    assert!(
        faults.is_empty(),
        "{} faults:\n{}",
        faults.len(),
        faults.join("\n")
    );
}

#[test]
fn every_page_is_in_the_summary_once() {
    let repository = repository();
    let book = Book::new(&repository);
    let listed: Vec<&str> = book.pages().collect();
    let pages: BTreeSet<&str> = repository
        .ending(".md")
        .filter_map(|path| path.strip_prefix("docs/"))
        .filter(|page| *page != "SUMMARY.md")
        .collect();
    assert_eq!(listed.iter().copied().collect::<BTreeSet<_>>(), pages);
    assert_eq!(listed.len(), pages.len(), "a page is listed twice");
}

/// As `make book` writes them: no link of a page is dead there.
#[test]
fn links_of_the_book_lead_somewhere() {
    let repository = repository();
    let book = Book::new(&repository);
    let mut faults = Vec::new();
    for page in book.pages() {
        let origin = book.origin(page).expect("it is listed");
        if let Err(found) = book.relink(page, &repository.text(origin)) {
            faults.extend(found);
        }
    }
    assert_none(&faults);
}

/// Each block of Rust or Java says which file it is from, and is what stands there, where it is compiled.
#[test]
fn examples_are_the_compiled_ones() {
    let repository = repository();
    let mut faults = Vec::new();
    let mut examples = 0;
    for path in repository.ending(".md") {
        let text = repository.text(path);
        let lines: Vec<&str> = text.lines().collect();
        let starts = (0..lines.len()).filter(|at| COMPILED.contains(&lines[*at].trim()));
        for at in starts {
            examples += 1;
            let mark = at.checked_sub(1).map_or("", |before| lines[before]);
            let from = mark
                .strip_prefix("<!-- example: ")
                .and_then(|rest| rest.strip_suffix(" -->"));
            let Some(from) = from else {
                faults.push(format!("{path}:{}: from which file is it?", at + 1));
                continue;
            };
            let block: Vec<&str> = lines[at + 1..]
                .iter()
                .take_while(|line| line.trim() != "```")
                .map(|line| line.trim_start())
                .collect();
            if !shows(&repository.text(from), &block) {
                faults.push(format!("{path}:{}: not what is in {from}", at + 1));
            }
        }
    }
    assert!(examples > 0, "no page has an example");
    assert_none(&faults);
}

/// Documentation of the crates is compiled too.
fn shows(source: &str, block: &[&str]) -> bool {
    let plain = |line: &str| {
        let line = line.trim_start();
        let line = line.strip_prefix("//!").unwrap_or(line);
        let line = line.strip_prefix("///").unwrap_or(line);
        line.trim_start().to_owned()
    };
    let source: Vec<String> = source.lines().map(plain).collect();
    !block.is_empty() && source.windows(block.len()).any(|lines| lines == block)
}

#[test]
fn every_cited_requirement_is_listed() {
    let repository = repository();
    let page = repository.text("docs/reference/requirements.md");
    let listed: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(' ').next())
        .collect();
    assert!(
        listed.len() > 300,
        "the page lists {} numbers",
        listed.len()
    );
    let mut faults = BTreeSet::new();
    let cited = repository
        .paths()
        .filter(|path| CITING.iter().any(|end| path.ends_with(end)));
    for path in cited {
        for id in requirement_ids(&repository.text(path)) {
            // Variants of an experiment stand beside it.
            if !listed.contains(id) && !listed.contains(id.trim_end_matches(['b', 'c'])) {
                faults.insert(format!("{path}: {id}"));
            }
        }
    }
    assert_none(&faults.into_iter().collect::<Vec<_>>());
}

/// Readers of the documents do not have the sources' numbers in mind; experiments are names.
#[test]
fn documents_say_requirements_in_words() {
    let repository = repository();
    let mut faults = Vec::new();
    let documents = repository
        .ending(".md")
        .filter(|path| !path.contains('/') || path.starts_with("docs/"))
        .filter(|path| !NUMBERED.iter().any(|page| path.starts_with(page)));
    for path in documents {
        let text = repository.text(path);
        for id in requirement_ids(&text) {
            // The one that says what such a number looks like.
            let example = path == "CONTRIBUTING.md" && id == "R053";
            if !example && !id.starts_with('E') {
                faults.push(format!("{path}: {id}"));
            }
        }
    }
    assert_none(&faults);
}

#[test]
fn headings_of_the_book_are_unique_on_their_page() {
    let repository = repository();
    let mut faults = Vec::new();
    for page in Book::new(&repository).pages() {
        let mut seen = BTreeSet::new();
        let text = repository.text(&format!("docs/{page}"));
        for anchor in Markdown::new(&text).anchors() {
            if !seen.insert(anchor.clone()) {
                faults.push(format!("docs/{page}: #{anchor} twice"));
            }
        }
    }
    assert_none(&faults);
}
