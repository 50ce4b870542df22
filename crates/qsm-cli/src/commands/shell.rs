//! `qsm completion` and `qsm man`: what shells and manuals know of the program.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, Command};
use clap_complete::Shell;
use clap_mangen::Man;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::output;

/// Arguments of `qsm completion`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm completion bash > ~/.local/share/bash-completion/completions/qsm"
    "qsm completion zsh > ~/.zfunc/_qsm"
    "qsm completion fish > ~/.config/fish/completions/qsm.fish"
))]
pub(crate) struct CompletionArgs {
    /// The shell
    #[arg(value_name = "SHELL", value_enum)]
    pub(crate) shell: Shell,
}

/// Arguments of `qsm man`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm man sub | man -l -"
    "qsm man --output /usr/local/share/man/man1    the pages of all commands"
))]
pub(crate) struct ManArgs {
    /// The command: `sub`, or `sim run`; without one, the program
    #[arg(value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this folder
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    pub(crate) output: Option<PathBuf>,
}

/// `qsm completion`, of this program.
///
/// # Errors
/// The output cannot be written.
pub(crate) fn completion(args: &CompletionArgs, mut program: Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut program, "qsm", &mut script);
    output::write(script)
}

/// `qsm man`, of this program.
///
/// # Errors
/// There is no such command, or the output cannot be written.
pub(crate) fn man(args: &ManArgs, program: Command) -> Result<(), Failure> {
    let mut command = program.disable_help_subcommand(true);
    command.build();
    if let Some(folder) = &args.output {
        return write_all(&command, folder);
    }
    let mut chosen = &command;
    for word in &args.command {
        chosen = chosen.find_subcommand(word).ok_or_else(|| {
            Failure::usage(
                format!("there is no command {:?}", args.command.join(" ")),
                "see `qsm help` for those that there are",
            )
        })?;
    }
    let page = page(chosen).map_err(|error| Failure::io("write the page", &error))?;
    output::write(page)
}

fn write_all(command: &Command, folder: &Path) -> Result<(), Failure> {
    let name = command.get_display_name().unwrap_or("qsm");
    let path = folder.join(format!("{name}.1"));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(&path, page(command)?))
        .map_err(|error| Failure::io(format!("write {}", path.display()), &error))?;
    let mut shown = command
        .get_subcommands()
        .filter(|below| !below.is_hide_set());
    shown.try_for_each(|below| write_all(below, folder))
}

/// The page of a command, with its examples, which come last in manuals.
fn page(command: &Command) -> std::io::Result<Vec<u8>> {
    let parts = [command.get_before_help(), command.get_after_long_help()];
    let parts = parts.into_iter().flatten().map(ToString::to_string);
    let end = parts.collect::<Vec<_>>().join("\n\n");
    let mut page = Vec::new();
    Man::new(command.clone().after_long_help(end))
        .source(concat!("qsm ", env!("CARGO_PKG_VERSION")))
        .render(&mut page)?;
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition;

    #[test]
    fn pages_have_options_examples_and_exit_codes() {
        let mut command = definition();
        command.build();
        let sub = command.find_subcommand("sub").unwrap();
        let page = String::from_utf8(page(sub).unwrap()).unwrap();
        for part in [
            ".TH qsm-sub 1",
            "\\-\\-until\\-idle",
            "Examples:",
            "Exit codes:",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn shells_learn_the_commands() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut definition(), "qsm", &mut script);
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains("until-idle"), "{shell}");
        }
    }
}
