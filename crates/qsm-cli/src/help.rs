//! The form of help texts: examples first, then the options that are used most, the others below a
//! heading of their own, exit codes last.
//!
//! `-h` and `qsm help COMMAND` give what is used most, a sentence each. `--help` gives everything.

use clap::{Arg, Command};

/// Parts of a help text in their order; examples are `before_help`.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Headings of options that all commands with a node have.
const COMMON: [&str; 2] = ["Network", "Core threads"];

/// Of these, the options that the short help shows too.
const COMMON_SHOWN: [&str; 4] = ["interface", "cluster", "service", "verbose"];

/// Heading of what a command has beside the options that are used most.
const MORE: &str = "More options";

/// The options that are used most, of commands that have many; groups and the like count always.
const FREQUENT: &[(&str, &[&str])] = &[
    ("qsm pub", &["file", "whole", "wait_members", "rate"]),
    ("qsm sub", &["json", "raw", "output", "count", "until_idle"]),
    (
        "qsm bench throughput",
        &["payload", "groups", "receivers", "senders", "loss", "json"],
    ),
    (
        "qsm bench latency",
        &["payload", "rate", "groups", "receivers", "loss", "json"],
    ),
];

/// Exit codes of each command that can occur; the longest path of commands that fits counts.
const CODES: &[(&str, &[u8])] = &[
    ("qsm", &[0, 1, 2, 3, 4, 5, 6, 130]),
    ("qsm advise", &[0, 1, 2]),
    ("qsm bench", &[0, 1, 2, 3, 130]),
    ("qsm capture", &[0, 1, 2, 4, 130]),
    ("qsm completion", &[0, 1, 2]),
    ("qsm config", &[0, 1, 2]),
    ("qsm dash", &[0, 1, 2, 130]),
    ("qsm demo", &[0, 1, 2, 3, 130]),
    ("qsm dissector", &[0, 1, 2]),
    ("qsm doctor", &[0, 1, 2, 6]),
    ("qsm engine", &[0, 1, 2, 130]),
    ("qsm explain", &[0, 1, 2]),
    ("qsm gms", &[0, 1, 2, 5, 130]),
    ("qsm groups", &[0, 1, 2, 3]),
    ("qsm init", &[0, 1, 2]),
    ("qsm keep", &[0, 1, 2, 130]),
    ("qsm keygen", &[0, 1, 2]),
    ("qsm lab", &[0, 1, 2, 130]),
    ("qsm lab reap", &[0, 1, 2]),
    ("qsm latency", &[0, 1, 2, 130]),
    ("qsm man", &[0, 1, 2]),
    ("qsm nodes", &[0, 1, 2, 3]),
    ("qsm open", &[0, 1, 2, 3, 4, 130]),
    ("qsm plan", &[0, 1, 2]),
    ("qsm pub", &[0, 1, 2, 3, 4, 130]),
    ("qsm regions", &[0, 1, 2, 3]),
    ("qsm relay", &[0, 1, 2, 130]),
    ("qsm relay pub", &[0, 1, 2, 3, 130]),
    ("qsm relay site", &[0, 1, 2, 3, 130]),
    ("qsm relay sub", &[0, 1, 2, 3, 4, 130]),
    ("qsm repair", &[0, 1, 2]),
    ("qsm sim", &[0, 1, 2, 4, 130]),
    ("qsm sim relay", &[0, 1, 2, 130]),
    ("qsm sim replay", &[0, 1, 2]),
    ("qsm sim run", &[0, 1, 2, 130]),
    ("qsm sim seed", &[0, 1, 2, 130]),
    ("qsm sim shrink", &[0, 1, 2, 130]),
    ("qsm sim swarm", &[0, 1, 2, 130]),
    ("qsm sub", &[0, 1, 2, 3, 4, 130]),
    ("qsm token", &[0, 1, 2]),
    ("qsm top", &[0, 1, 2, 3, 130]),
];

/// The command and all below it, with help texts of this form.
pub(crate) fn arrange(command: Command) -> Command {
    let path = command.get_name().to_owned();
    arrange_below(command, &path)
}

fn arrange_below(command: Command, path: &str) -> Command {
    let frequent = FREQUENT.iter().find(|(of, _)| *of == path);
    let frequent = frequent.map(|(_, ids)| *ids);
    let command = command
        .mut_args(|arg| arrange_option(arg, frequent))
        .mut_subcommands(|below| {
            let path = format!("{path} {}", below.get_name());
            arrange_below(below, &path)
        })
        .help_template(TEMPLATE)
        .after_long_help(codes(path));
    let folded = command.get_arguments().any(Arg::is_hide_short_help_set);
    match folded {
        true => command.after_help("All options, and exit codes: --help"),
        false => command.after_help("More, and exit codes: --help"),
    }
}

fn arrange_option(mut arg: Arg, frequent: Option<&[&str]>) -> Arg {
    if let Some(text) = arg.get_help().map(ToString::to_string) {
        let brief = brief(&text);
        if brief != text && arg.get_long_help().is_none() {
            arg = arg.help(brief).long_help(text);
        }
    }
    let id = arg.get_id().as_str();
    let common = |heading: &str| COMMON.contains(&heading);
    if arg.get_help_heading().is_some_and(common) {
        let shown = COMMON_SHOWN.contains(&id);
        arg.hide_short_help(!shown)
    } else if frequent.is_some_and(|ids| !arg.is_positional() && !ids.contains(&id)) {
        arg.help_heading(MORE).hide_short_help(true)
    } else {
        arg
    }
}

/// The first sentence, and the default if the text ends with it.
fn brief(text: &str) -> String {
    let Some((first, rest)) = text.split_once(". ") else {
        return text.to_owned();
    };
    match rest.rfind("[default: ") {
        Some(at) => format!("{first} {}", &rest[at..]),
        None => first.to_owned(),
    }
}

/// The exit codes of the command with this path.
fn codes(path: &str) -> String {
    let fits = |(of, _): &&(&str, &[u8])| {
        path.strip_prefix(of)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
    };
    let found = CODES.iter().filter(fits).max_by_key(|(of, _)| of.len());
    let mut text = "Exit codes:".to_owned();
    for code in found.map_or(&[][..], |(_, codes)| codes) {
        text.push_str(&format!("\n{code:>5}  {}", meaning(*code, path)));
    }
    text
}

fn meaning(code: u8, path: &str) -> &'static str {
    match code {
        0 => "done",
        1 => "failure: system, network or data; the error says what to do",
        2 => "the command line, or the configuration, cannot be understood",
        3 if path == "qsm sub" => "nothing came, or too little, before --until-idle was over",
        3 => "what was waited for did not happen in time",
        4 if path.starts_with("qsm sim") => "interrupted; what was computed is written",
        4 if path == "qsm capture" => {
            "done, but packets are missing: they came faster than they could be written"
        }
        4 => {
            "done, but messages are missing or may be: lost, dropped, not written, sent by or to a\n       \
             node while it was excluded, or not acknowledged by a receiver that left, is away, or\n       \
             is slower than --flush-timeout"
        }
        5 => "given up: the cluster has another membership service already, which the error names",
        6 => "this host has faults, which are named with their remedies",
        _ => "ended at once by a second Ctrl-C or SIGTERM; the first asks for a graceful end",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;

    #[test]
    fn every_command_has_exit_codes_of_its_own() {
        let command = definition();
        let names = command
            .get_subcommands()
            .filter(|below| !below.is_hide_set());
        let names: Vec<String> = names
            .map(|below| format!("qsm {}", below.get_name()))
            .collect();
        for name in &names {
            assert!(CODES.iter().any(|(of, _)| of == name), "{name}");
        }
        for (of, _) in CODES {
            let second = of.split(' ').nth(1);
            let known = |second: &str| names.iter().any(|name| name[4..] == *second);
            assert!(second.is_none_or(known), "{of}");
        }
        assert!(!codes("qsm nodes").contains("  4  "));
        assert!(codes("qsm gms").contains("  5  "));
        assert!(codes("qsm bench send").contains("  3  "));
        assert!(!codes("qsm sim run").contains("  4  "));
    }

    #[test]
    fn the_short_help_has_what_is_used_most_in_a_line_each() {
        let mut command = definition();
        let sub = command.find_subcommand_mut("sub").unwrap();
        let short = sub.render_help().to_string();
        for shown in ["--count", "--output", "--service", "Examples:"] {
            assert!(short.contains(shown), "{shown}: {short}");
        }
        for folded in ["--discovery", "--busy-poll", "--queue", "Exit codes:", MORE] {
            assert!(!short.contains(folded), "{folded}: {short}");
        }
        assert!(short.lines().count() <= 40, "{short}");
    }

    #[test]
    fn the_long_help_begins_with_examples_and_what_is_used_most() {
        let mut command = definition();
        let sub = command.find_subcommand_mut("sub").unwrap();
        let long = sub.render_long_help().to_string();
        let parts = [
            "Examples:",
            "--count",
            "More options:",
            "--queue",
            "Network:",
            "--service",
            "--busy-poll",
            "Exit codes:",
        ];
        let places = parts.map(|part| long.find(part));
        assert!(
            places.iter().all(Option::is_some) && places.is_sorted(),
            "{long}"
        );
    }

    #[test]
    fn options_that_are_used_most_exist() {
        let mut command = definition();
        command.build();
        for (path, ids) in FREQUENT {
            let words = path.split(' ').skip(1);
            let found = words.fold(&command, |at, word| at.find_subcommand(word).unwrap());
            for id in *ids {
                let mut args = found.get_arguments();
                assert!(args.any(|arg| arg.get_id() == *id), "{path}: {id}");
            }
        }
    }

    #[test]
    fn a_short_text_is_the_first_sentence_and_the_default() {
        assert_eq!(brief("One thing"), "One thing");
        assert_eq!(brief("One. Two, e.g. 3"), "One");
        assert_eq!(brief("One. Two [default: 5]"), "One [default: 5]");
    }
}
