use core::fmt;
use std::fs;
use std::io;
use std::process::{Command, Stdio};

/// A change of a host, and the way back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Makes it.
    pub make: Action,
    /// Unmakes it.
    pub undo: Action,
}

impl Change {
    /// A setting below `/proc/sys` or `/sys`.
    pub(crate) fn setting(path: &str, before: impl ToString, after: impl ToString) -> Self {
        let write = |value: String| Action::Write {
            path: path.to_owned(),
            value,
        };
        Self {
            make: write(after.to_string()),
            undo: write(before.to_string()),
        }
    }

    /// A program with arguments, of which the first are the same to undo it.
    pub(crate) fn program(name: &str, always: &[&str], make: &[&str], undo: &[&str]) -> Self {
        let run = |rest: &[&str]| Action::run(name, &[always, rest].concat());
        Self {
            make: run(make),
            undo: run(undo),
        }
    }

    /// Makes the change.
    ///
    /// # Errors
    /// The system refused: most changes need root.
    pub fn make(&self) -> io::Result<()> {
        self.make.carry_out()
    }

    /// Unmakes it.
    ///
    /// # Errors
    /// As [`Change::make`].
    pub fn unmake(&self) -> io::Result<()> {
        self.undo.carry_out()
    }
}

/// A step; `Display` writes it as a line for a shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Writes a value into a file of `/proc/sys` or `/sys`.
    Write {
        /// The file.
        path: String,
        /// The value.
        value: String,
    },
    /// Runs a program.
    Run {
        /// Its name.
        program: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

impl Action {
    /// Runs a program with these arguments.
    pub(crate) fn run(program: &str, arguments: &[&str]) -> Self {
        Self::Run {
            program: program.to_owned(),
            arguments: arguments.iter().map(|word| (*word).to_owned()).collect(),
        }
    }

    fn carry_out(&self) -> io::Result<()> {
        match self {
            Self::Write { path, value } => fs::write(path, value),
            Self::Run { program, arguments } => {
                let mut command = Command::new(program);
                let output = command.args(arguments).stdin(Stdio::null()).output()?;
                match output.status.success() {
                    true => Ok(()),
                    false => {
                        let said = String::from_utf8_lossy(&output.stderr);
                        Err(io::Error::other(said.trim().to_owned()))
                    }
                }
            }
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { path, value } => write!(f, "echo {} > {}", quoted(value), quoted(path)),
            Self::Run { program, arguments } => {
                f.write_str(&quoted(program))?;
                arguments
                    .iter()
                    .try_for_each(|argument| write!(f, " {}", quoted(argument)))
            }
        }
    }
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-=:,".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// A script of the shell that unmakes all changes, the last one first.
#[must_use]
pub fn undo_script(changes: &[Change]) -> String {
    let mut script =
        "#!/bin/sh\n# Undoes what `qsm doctor --fix` has changed; as root.\n".to_owned();
    for change in changes.iter().rev() {
        script.push_str(&format!("{}\n", change.undo));
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_undoes_the_last_change_first_and_quotes_names() {
        let changes = [
            Change::setting("/proc/sys/net/core/rmem_max", 212_992, 33_554_432),
            Change::program("ip", &["link", "set", "a;b'c"], &["up"], &["down"]),
        ];
        assert_eq!(
            changes[0].make.to_string(),
            "echo 33554432 > /proc/sys/net/core/rmem_max"
        );
        assert_eq!(
            undo_script(&changes).lines().skip(2).collect::<Vec<_>>(),
            [
                r"ip link set 'a;b'\''c' down",
                "echo 212992 > /proc/sys/net/core/rmem_max"
            ]
        );
    }

    #[test]
    fn a_change_that_fails_says_why() {
        let change = Change::setting("/proc/no-such-file", 0, 1);
        assert!(change.make().is_err());
        let change = Change::program("sh", &["-c"], &["echo no >&2; exit 3"], &["true"]);
        assert_eq!(change.make().unwrap_err().to_string(), "no");
        change.unmake().unwrap();
    }
}
