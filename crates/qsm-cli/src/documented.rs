//! Commands that the documents show are commands of this program.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use crate::Cli;

/// Signs after which another command of the shell begins.
const SEPARATORS: [&str; 4] = ["|", ";", "&&", "&"];

/// The README, and the pages of the book.
fn documents() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found: Vec<PathBuf> = ["README.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(|name| root.join(name))
        .into();
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// Lines of shell blocks, and what the list of commands shows as examples.
fn shown(path: &Path, text: &str) -> Vec<String> {
    let listed = path.ends_with("reference/command-line.md");
    let (mut lines, mut shell, mut block) = (Vec::new(), false, false);
    for line in text.lines() {
        if let Some(kind) = line.trim().strip_prefix("```") {
            block = !block;
            shell = block && kind == "sh";
        } else if shell {
            lines.push(line.to_owned());
        } else if listed
            && !block
            && let Some(row) = line.strip_suffix("` |")
        {
            let last = row.rsplit_once('`').map_or("", |(_, last)| last);
            if last.starts_with("qsm ") {
                lines.push(last.to_owned());
            }
        }
    }
    lines
}

/// The calls of `qsm` in a line of shell, as words.
fn calls(line: &str) -> Vec<Vec<String>> {
    let mut calls: Vec<Vec<String>> = vec![Vec::new()];
    for word in words(line) {
        if SEPARATORS.contains(&word.as_str()) {
            calls.push(Vec::new());
        } else if let Some(call) = calls.last_mut() {
            call.push(word);
        }
    }
    calls.retain(|call| call.first().is_some_and(|first| first == "qsm"));
    for call in &mut calls {
        // Where the output goes is the shell's affair.
        let ends = call.iter().position(|word| word == ">");
        call.truncate(ends.unwrap_or(call.len()));
    }
    calls
}

/// Words as a shell cuts them, as far as the documents need: quotes, comments, semicolons.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => quote = Some(letter),
            (None, '#') if word.is_empty() => break,
            (None, ';') => {
                words.extend([std::mem::take(&mut word), ";".to_owned()]);
            }
            (None, letter) if letter.is_whitespace() => words.push(std::mem::take(&mut word)),
            _ => word.push(letter),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[test]
fn commands_that_documents_show_are_understood() {
    let (mut seen, mut faults) = (0, Vec::new());
    for path in documents() {
        for line in shown(&path, &fs::read_to_string(&path).unwrap()) {
            for call in calls(&line) {
                seen += 1;
                let parsed = Cli::try_parse_from(&call);
                let Err(error) = parsed else { continue };
                if !matches!(error.kind(), ErrorKind::DisplayHelp) {
                    faults.push(format!("{}: {}: {error}", path.display(), call.join(" ")));
                }
            }
        }
    }
    assert!(seen > 40, "only {seen} commands were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_of_the_packaged_units_are_understood() {
    let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd");
    let mut seen = 0;
    for unit in fs::read_dir(units).unwrap() {
        let unit = unit.unwrap().path();
        let text = fs::read_to_string(&unit).unwrap();
        let command = text
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="));
        let words = command.expect("a unit starts something").split(' ');
        seen += 1;
        if let Err(error) = Cli::try_parse_from(words) {
            panic!("{}: {error}", unit.display());
        }
    }
    assert_eq!(seen, 2);
}

/// Lines of the files for containers, each with the name of its file.
fn container_lines() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging");
    let folders = ["container", "kubernetes", "helm/quicksilver/templates"];
    let mut lines = Vec::new();
    for folder in folders {
        for file in fs::read_dir(root.join(folder)).unwrap() {
            let path = file.unwrap().path();
            let name = path.display().to_string();
            let text = fs::read_to_string(&path).unwrap();
            lines.extend(
                text.lines()
                    .map(|line| (name.clone(), line.trim().to_owned())),
            );
        }
    }
    lines
}

#[test]
fn commands_of_containers_are_understood() {
    let mut seen = 0;
    for (file, line) in container_lines() {
        let list = ["args: [", "command: ["].into_iter();
        let Some(list) = list.filter_map(|key| line.strip_prefix(key)).next() else {
            continue;
        };
        let words = list.trim_end_matches(']').split(", ");
        let words = words.map(|word| word.trim_matches('"'));
        seen += 1;
        if let Err(error) = Cli::try_parse_from(["qsm"].into_iter().chain(words)) {
            panic!("{file}: {line}: {error}");
        }
    }
    assert!(seen >= 5, "only {seen} commands were found");
}

#[test]
fn variables_of_containers_are_settings() {
    let command = Cli::command();
    let subscribe = command.find_subcommand("sub").unwrap();
    let options: Vec<_> = subscribe
        .get_arguments()
        .filter_map(clap::Arg::get_long)
        .collect();
    let mut seen = 0;
    for (file, line) in container_lines() {
        let entry = line.strip_prefix("- name: ").unwrap_or(&line);
        let Some(entry) = entry.strip_prefix("QSM_") else {
            continue;
        };
        let name = entry.split(':').next().unwrap_or_default();
        let option = name.to_lowercase().replace('_', "-");
        seen += 1;
        assert!(options.contains(&option.as_str()), "{file}: {line}");
    }
    assert!(seen >= 10, "only {seen} variables were found");
}

#[test]
fn the_command_of_the_desktop_entry_is_understood() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/desktop");
    let entry = fs::read_to_string(folder.join("qsm-open.desktop")).unwrap();
    let value = |key| entry.lines().find_map(|line| line.strip_prefix(key));
    let command = value("Exec=").unwrap().replace("%u", "qsm://floor/news");
    assert!(Cli::try_parse_from(command.split(' ')).is_ok(), "{command}");
    // The entry is for the type that the other file declares.
    let types = fs::read_to_string(folder.join("qsm.xml")).unwrap();
    let declared = |kind: &&str| types.contains(&format!("type=\"{kind}\""));
    let handled = value("MimeType=").unwrap().split_terminator(';');
    assert_eq!(handled.filter(declared).count(), 1);
}

#[test]
fn lines_are_cut_as_a_shell_cuts_them() {
    let line = "echo hello | qsm pub 'a b' --rate 5   # said; done";
    assert_eq!(calls(line), [["qsm", "pub", "a b", "--rate", "5"]]);
    let line = "qsm nodes; qsm sub a --raw > file # three";
    assert_eq!(
        calls(line),
        [vec!["qsm", "nodes"], vec!["qsm", "sub", "a", "--raw"]]
    );
    assert!(Cli::try_parse_from(["qsm", "sub", "news", "--no-such"]).is_err());
}
