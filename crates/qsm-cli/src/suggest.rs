//! Suggestions beside those of clap, for commands mistyped by a letter or two.

use clap::Command;
use clap::error::{ContextKind, ContextValue, Error, ErrorKind};

/// The error with better advice. `words` is the command line, without the name of the program.
pub(crate) fn improve(mut error: Error, command: &Command, words: &[String]) -> Error {
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand)
            else {
                return error;
            };
            if error.get(ContextKind::SuggestedSubcommand).is_none()
                && let Some(near) = nearest(wrong, above(command, words, wrong))
            {
                let near = ContextValue::Strings(vec![near]);
                error.insert(ContextKind::SuggestedSubcommand, near);
            }
        }
        // That a wrong option could be given as a value is seldom meant.
        ErrorKind::UnknownArgument => {
            error.remove(ContextKind::Suggested);
        }
        _ => {}
    }
    error
}

/// The command below which the wrong one was looked for.
fn above<'a>(command: &'a Command, words: &[String], wrong: &str) -> &'a Command {
    let mut above = command;
    for word in words.iter().take_while(|word| *word != wrong) {
        above = above.find_subcommand(word).unwrap_or(above);
    }
    above
}

/// The name below this command that differs least, if that is little.
fn nearest(wrong: &str, command: &Command) -> Option<String> {
    let names = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    let measured = names.map(|below| (distance(wrong, below.get_name()), below.get_name()));
    let (changes, name) = measured.min()?;
    // Of three letters one may be wrong, or two exchanged.
    (changes <= 1 || changes * 3 <= name.len()).then(|| name.to_owned())
}

/// Letters to be inserted, removed, changed, or exchanged with their neighbour.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = changed.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;

    fn text(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let command = definition();
        let error = command.clone().try_get_matches_from(&words).unwrap_err();
        improve(error, &command, &words[1..]).to_string()
    }

    #[test]
    fn a_command_mistyped_is_suggested() {
        for (line, near) in [
            ("qsm sbu news", "'sub'"),
            ("qsm pbu news", "'pub'"),
            ("qsm gmss", "'gms'"),
            ("qsm sim rnu file", "'run'"),
        ] {
            assert!(text(line).contains(near), "{}", text(line));
        }
        assert!(!text("qsm fly").contains("similar"), "{}", text("qsm fly"));
    }

    #[test]
    fn an_unknown_option_is_not_advised_to_be_a_value() {
        let told = text("qsm sub news --foo");
        assert!(
            told.contains("--foo") && !told.contains("-- --foo"),
            "{told}"
        );
    }

    #[test]
    fn an_exchange_is_one_change() {
        assert_eq!(distance("sbu", "sub"), 1);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abc"), 0);
        assert_eq!(distance("regions", "regoin"), 2);
    }
}
