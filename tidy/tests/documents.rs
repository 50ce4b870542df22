//! What documents may contain, and what they must.

use std::collections::BTreeSet;

use tidy::{Manifest, Markdown, Repository, Source};

/// Workspaces of their own, which `cargo test` does not build.
const APART: [&str; 2] = ["fuzz/", "bench/peers/"];
const README_WORDS: usize = 700;

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
fn every_document_has_exactly_one_title() {
    let repository = repository();
    let mut faults = Vec::new();
    // The parts of the book have the headings of titles.
    let pages = repository
        .ending(".md")
        .filter(|path| !path.ends_with("/SUMMARY.md"));
    for path in pages {
        let text = repository.text(path);
        let titles = Markdown::new(&text).headings(1).count();
        // A page that is nothing but a document of the root has that one's title.
        let included = text.starts_with("{{#include ") && text.lines().count() == 1;
        if titles != usize::from(!included) {
            faults.push(format!("{path}: {titles} titles"));
        }
    }
    assert_none(&faults);
}

#[test]
fn links_within_the_repository_lead_somewhere() {
    let repository = repository();
    let mut faults = Vec::new();
    for path in repository.ending(".md") {
        let text = repository.text(path);
        for (number, link) in Markdown::new(&text).links() {
            if link.contains("://") || link.starts_with("mailto:") {
                continue;
            }
            if let Some(fault) = broken(&repository, path, link) {
                faults.push(format!("{path}:{number}: {fault}"));
            }
        }
    }
    assert_none(&faults);
}

fn broken(repository: &Repository, from: &str, link: &str) -> Option<String> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let target = match (file, folder) {
        ("", _) => from.to_owned(),
        (file, "") => file.to_owned(),
        (file, folder) => format!("{folder}/{file}"),
    };
    if !repository.has(&target) {
        return Some(format!("{link} does not exist"));
    }
    let known = || Markdown::new(&repository.text(&target)).anchors();
    let named = anchor.is_empty() || known().iter().any(|known| known == anchor);
    (!named).then(|| format!("{target} has no heading #{anchor}"))
}

/// The map names the folder of each crate, which is its name below `crates/`.
#[test]
fn the_code_map_lists_exactly_the_crates() {
    let repository = repository();
    let mut crates: BTreeSet<String> = repository
        .ending("/Cargo.toml")
        .filter(|path| !APART.iter().any(|folder| path.starts_with(folder)))
        .filter(|path| !Manifest::new(&repository.text(path)).name.is_empty())
        .filter_map(|path| path.strip_suffix("/Cargo.toml"))
        .map(str::to_owned)
        .collect();
    crates.insert("fuzz".to_owned());
    let map = repository.text("ARCHITECTURE.md");
    let listed: BTreeSet<String> = Markdown::new(&map)
        .table("crate")
        .iter()
        .map(|row| row[0].trim_matches('`').to_owned())
        .collect();
    assert_eq!(
        listed, crates,
        "ARCHITECTURE.md lists the left, the workspace has the right"
    );
}

/// Of the commands that documents show, `make` has targets, and `cargo` crates and examples.
#[test]
fn targets_and_examples_that_documents_show_exist() {
    let repository = repository();
    let makefile = repository.text("Makefile");
    let (mut seen, mut faults) = (0, Vec::new());
    for path in repository.ending(".md") {
        if APART.iter().any(|apart| path.starts_with(apart)) {
            continue;
        }
        for command in commands(&repository.text(path)) {
            let words: Vec<&str> = command.split_whitespace().collect();
            let after = |flag: &str| {
                let at = words.iter().position(|word| *word == flag);
                at.and_then(|at| words.get(at + 1)).copied()
            };
            let missing = match words[..] {
                ["make", target, ..] => !makefile.contains(&format!("\n{target}:")),
                ["cargo", ..] => {
                    let package = after("-p").map(|name| package_folder(&repository, name));
                    let no_package = package.as_ref().is_some_and(Option::is_none);
                    let folder = package.flatten();
                    let no_example =
                        after("--example")
                            .zip(folder)
                            .is_some_and(|(name, folder)| {
                                let folder = format!("{folder}/examples/{name}");
                                let file = repository.has(&format!("{folder}.rs"));
                                name != "NAME"
                                    && !file
                                    && !repository.has(&format!("{folder}/main.rs"))
                            });
                    no_package || no_example
                }
                _ => continue,
            };
            seen += 1;
            if missing {
                faults.push(format!("{path}: {command}"));
            }
        }
    }
    assert_none(&faults);
    assert!(seen > 20, "only {seen} commands were found");
}

/// Lines of shell blocks, and what stands between backticks.
fn commands(text: &str) -> Vec<&str> {
    let (mut shell, mut block, mut found) = (false, false, Vec::new());
    for line in text.lines() {
        if let Some(kind) = line.trim().strip_prefix("```") {
            block = !block;
            shell = block && kind == "sh";
        } else if shell {
            found.push(line.split(" #").next().unwrap_or_default().trim());
        } else if !block {
            found.extend(line.split('`').skip(1).step_by(2));
        }
    }
    found
}

/// The folder of a package of the workspace.
fn package_folder(repository: &Repository, name: &str) -> Option<String> {
    let manifests = repository.ending("Cargo.toml");
    let line = format!("name = \"{name}\"");
    // The package's name is the first one, before those of its programs.
    let mut named = manifests.filter(|path| {
        let text = repository.text(path);
        text.lines().find(|it| it.starts_with("name = ")) == Some(&line)
    });
    let path = named.next()?;
    Some(path.trim_end_matches("/Cargo.toml").to_owned())
}

/// A screen, and no manual.
#[test]
fn the_readme_is_short() {
    let readme = repository().text("README.md");
    let word = |word: &&str| word.contains(char::is_alphanumeric);
    let words = readme.split_whitespace().filter(word).count();
    assert!(
        words <= README_WORDS,
        "README.md has {words} words, more than {README_WORDS}: move some into the book"
    );
}

/// The version of the workspace, which all its crates have.
fn version(repository: &Repository) -> String {
    let manifest = repository.text("Cargo.toml");
    let mut versions = manifest
        .lines()
        .filter_map(|line| line.strip_prefix("version = "));
    let version = versions.next().expect("the workspace has a version");
    version.trim_matches('"').to_owned()
}

#[test]
fn the_newest_release_of_the_changelog_is_the_version_of_the_workspace() {
    let repository = repository();
    let changelog = repository.text("CHANGELOG.md");
    let mut releases = changelog
        .lines()
        .filter_map(|line| line.strip_prefix("## ["))
        .filter(|line| !line.starts_with("Unreleased]"));
    let newest = releases.next().expect("something has been released");
    let version = version(&repository);
    let date = newest.strip_prefix(&format!("{version}] - "));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let parts: Vec<&str> = date.unwrap_or_default().split('-').collect();
    let dated = parts.iter().map(|part| part.len()).eq([4, 2, 2]);
    assert!(
        dated && parts.iter().all(|part| digits(part)),
        "CHANGELOG.md has `## [{newest}`, the workspace version {version}"
    );
}

#[test]
fn crates_and_packages_have_the_version_of_the_workspace() {
    let repository = repository();
    let version = version(&repository);
    let mut faults = Vec::new();
    let manifest = repository.text("Cargo.toml");
    let own: Vec<&str> = manifest
        .lines()
        .filter(|line| line.contains("{ path = "))
        .collect();
    assert!(!own.is_empty(), "Cargo.toml names no crate of its own");
    let named = format!("version = \"{version}\"");
    faults.extend(own.iter().filter(|line| !line.contains(&named)).copied());
    let minor = version.rsplit_once('.').map_or("", |(minor, _)| minor);
    for page in ["README.md", "docs/reference/status.md"] {
        if !repository.text(page).contains(&format!("Version {minor}")) {
            faults.push(page);
        }
    }
    let page = repository.text("docs/start/install.md");
    let packages: Vec<&str> = page
        .split(|letter: char| letter.is_whitespace() || "`/".contains(letter))
        .filter(|word| word.starts_with("qsm"))
        .filter(|word| word.ends_with(".deb") || word.ends_with(".tar.gz"))
        .collect();
    assert!(!packages.is_empty(), "the page names no package");
    let current = |word: &&&str| word[4..].starts_with(&format!("{version}-"));
    faults.extend(packages.iter().filter(|word| !current(word)).copied());
    let faults: Vec<String> = faults.into_iter().map(str::to_owned).collect();
    assert_none(&faults);
}

#[test]
fn files_that_the_walks_name_exist() {
    let repository = repository();
    let page = repository.text("docs/internals/walks.md");
    let named: BTreeSet<&str> = page
        .split('`')
        .filter(|word| word.starts_with("crates/"))
        .collect();
    assert!(!named.is_empty(), "the walks name no file");
    let gone = named.iter().filter(|path| !repository.has(path));
    assert_none(&gone.map(|path| (*path).to_owned()).collect::<Vec<_>>());
}

#[test]
fn every_example_is_mentioned_in_a_document() {
    let repository = repository();
    let mut texts: Vec<String> = repository
        .ending(".md")
        .map(|path| repository.text(path))
        .collect();
    for path in repository.ending("/lib.rs") {
        let source = Source::new(&repository.text(path));
        texts.push(source.product_comments().collect::<Vec<_>>().join("\n"));
    }
    let mut faults = Vec::new();
    for path in repository
        .ending(".rs")
        .filter(|path| path.contains("/examples/"))
    {
        let (_, inside) = path.split_once("/examples/").expect("filtered");
        let name = inside
            .trim_end_matches(".rs")
            .split('/')
            .next()
            .unwrap_or_default();
        let names = [format!("examples/{name}"), format!("--example {name}")];
        if !texts
            .iter()
            .any(|text| names.iter().any(|name| text.contains(name)))
        {
            faults.push(format!("{path} is mentioned nowhere"));
        }
    }
    assert_none(&faults);
}

/// Absolute paths of somebody's machine mean nothing to others.
#[test]
fn no_file_names_a_place_on_a_developers_machine() {
    let places = [
        concat!("/wo", "rk/"),
        concat!("/fa", "rm/"),
        concat!("/ro", "ot/"),
    ];
    let kinds = [
        ".rs", ".md", ".toml", ".txt", ".yml", ".sh", "Makefile", "/run",
    ];
    let repository = repository();
    let mut faults = Vec::new();
    for path in repository
        .paths()
        .filter(|path| kinds.iter().any(|kind| path.ends_with(kind)))
    {
        for (at, line) in repository.text(path).lines().enumerate() {
            for place in places.iter().filter(|place| names(line, place)) {
                faults.push(format!("{path}:{}: {place}", at + 1));
            }
        }
    }
    assert_none(&faults);
}

/// Whether an absolute path begins in the line at this place; `network/` is none.
fn names(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|letter| letter.is_alphanumeric() || ".-_/".contains(letter))
    })
}
