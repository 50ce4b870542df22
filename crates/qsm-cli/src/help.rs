//! The form of help texts: examples first, exit codes last, and the options of nodes in the long ones
//! only.

use clap::{Arg, Command};

/// Parts of a help text in their order; examples are `before_help`.
const TEMPLATE: &str =
    "{about-with-newline}\n{usage-heading} {usage}\n\n{before-help}{all-args}{after-help}";

/// Headings of options that all commands with a node have.
const COMMON: [&str; 2] = ["Network", "Core threads"];

/// Exit codes of each command that can occur; the longest path of commands that fits counts.
const CODES: &[(&str, &[u8])] = &[
    ("qsm", &[0, 1, 2, 3, 4, 5, 130]),
    ("qsm bench", &[0, 1, 2, 3, 130]),
    ("qsm completion", &[0, 1, 2]),
    ("qsm config", &[0, 1, 2]),
    ("qsm demo", &[0, 1, 2, 3, 130]),
    ("qsm engine", &[0, 1, 2, 130]),
    ("qsm gms", &[0, 1, 2, 5, 130]),
    ("qsm groups", &[0, 1, 2, 3]),
    ("qsm lab", &[0, 1, 2, 130]),
    ("qsm lab reap", &[0, 1, 2]),
    ("qsm man", &[0, 1, 2]),
    ("qsm nodes", &[0, 1, 2, 3]),
    ("qsm plan", &[0, 1, 2]),
    ("qsm pub", &[0, 1, 2, 3, 4, 130]),
    ("qsm regions", &[0, 1, 2, 3]),
    ("qsm sim", &[0, 1, 2, 4, 130]),
    ("qsm sim run", &[0, 1, 2, 130]),
    ("qsm sim seed", &[0, 1, 2, 130]),
    ("qsm sim shrink", &[0, 1, 2, 130]),
    ("qsm sim swarm", &[0, 1, 2, 130]),
    ("qsm sub", &[0, 1, 2, 3, 4, 130]),
];

/// The command and all below it, with help texts of this form.
pub(crate) fn arrange(command: Command) -> Command {
    let path = command.get_name().to_owned();
    arrange_below(command, &path)
}

fn arrange_below(command: Command, path: &str) -> Command {
    let common = |arg: &Arg| {
        let heading = arg.get_help_heading();
        heading.is_some_and(|heading| COMMON.contains(&heading))
    };
    let more = command.get_arguments().any(common);
    let command = command
        .mut_args(|arg| match common(&arg) {
            true => arg.hide_short_help(true),
            false => arg,
        })
        .mut_subcommands(|below| {
            let path = format!("{path} {}", below.get_name());
            arrange_below(below, &path)
        })
        .help_template(TEMPLATE)
        .after_long_help(codes(path));
    match more {
        true => {
            command.after_help("Options of the network and of core threads, exit codes: --help")
        }
        false => command.after_help("More, and exit codes: --help"),
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
        4 => {
            "done, but messages are missing or may be: lost, dropped, not written, sent by or to a\n       \
             node while it was excluded, or not acknowledged by a receiver that left, is away, or\n       \
             is slower than --flush-timeout"
        }
        5 => "given up: the cluster has another membership service already, which the error names",
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
    fn examples_come_first_and_options_of_nodes_only_in_the_long_help() {
        let mut command = definition();
        let sub = command.find_subcommand_mut("sub").unwrap();
        let short = sub.render_help().to_string();
        for own in ["--count", "--output", "--stats", "Examples:"] {
            assert!(short.contains(own), "{own}: {short}");
        }
        for common in ["--discovery", "--busy-poll", "--service", "Exit codes:"] {
            assert!(!short.contains(common), "{common}: {short}");
        }
        let long = sub.render_long_help().to_string();
        let parts = [
            "Examples:",
            "--count",
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
}
