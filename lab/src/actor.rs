//! A child process that is told what to do by lines on its standard input and answers by lines on
//! its standard output: how tests and benchmarks direct several processes without sleeping.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// What went wrong between a director and an actor.
#[derive(Debug)]
#[non_exhaustive]
pub enum ActorError {
    /// It ended, or closed its standard output.
    Ended {
        /// Who.
        name: String,
    },
    /// It could not be started or told something.
    Io {
        /// Who.
        name: String,
        /// Why.
        cause: std::io::Error,
    },
    /// It said something else.
    Said {
        /// Who.
        name: String,
        /// What it said.
        line: String,
        /// What it should have said.
        expected: String,
    },
    /// It said nothing for too long.
    Silent {
        /// Who.
        name: String,
        /// What it should have said.
        expected: String,
        /// How long it had.
        patience: Duration,
    },
}

impl fmt::Display for ActorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended { name } => write!(f, "{name} has ended; see its standard error"),
            Self::Io { name, cause } => write!(f, "{name}: {cause}"),
            Self::Said {
                name,
                line,
                expected,
            } => {
                write!(f, "{name} said '{line}' instead of '{expected}'")
            }
            Self::Silent {
                name,
                expected,
                patience,
            } => {
                write!(f, "{name} did not say '{expected}' within {patience:?}")
            }
        }
    }
}

impl std::error::Error for ActorError {}

/// A directed child process; killed when dropped.
#[derive(Debug)]
pub struct Actor {
    name: String,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    patience: Duration,
}

impl Actor {
    /// Starts a command (of [`crate::Lab::command`], to run on a host) with its standard input
    /// and output connected here. `patience` is how long each answer may take.
    ///
    /// # Errors
    /// The process cannot be started.
    pub fn start(
        name: impl Into<String>,
        mut command: Command,
        patience: Duration,
    ) -> Result<Self, ActorError> {
        let name = name.into();
        let failed = |cause| ActorError::Io {
            name: name.clone(),
            cause,
        };
        let closed = || std::io::Error::other("a pipe is missing");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let stdin = child.stdin.take().ok_or_else(closed).map_err(failed)?;
        let stdout = child.stdout.take().ok_or_else(closed).map_err(failed)?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines();
            lines
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok());
        });
        Ok(Self {
            name,
            child,
            stdin,
            lines,
            patience,
        })
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it a line.
    ///
    /// # Errors
    /// It has ended.
    pub fn tell(&mut self, line: &str) -> Result<(), ActorError> {
        writeln!(self.stdin, "{line}").map_err(|cause| ActorError::Io {
            name: self.name.clone(),
            cause,
        })
    }

    /// Waits for its next line, which must begin with `word`, and returns the rest of it.
    ///
    /// # Errors
    /// It says something else, nothing, or has ended.
    pub fn expect(&self, word: &str) -> Result<String, ActorError> {
        let name = || self.name.clone();
        let expected = word.to_owned();
        let line = self
            .lines
            .recv_timeout(self.patience)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => ActorError::Silent {
                    name: name(),
                    expected: expected.clone(),
                    patience: self.patience,
                },
                RecvTimeoutError::Disconnected => ActorError::Ended { name: name() },
            })?;
        match line.strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(ActorError::Said {
                name: name(),
                line,
                expected,
            }),
        }
    }

    /// Tells it a line and waits for the answer that begins with `word`.
    ///
    /// # Errors
    /// As for [`Actor::tell`] and [`Actor::expect`].
    pub fn ask(&mut self, line: &str, word: &str) -> Result<String, ActorError> {
        self.tell(line)?;
        self.expect(word)
    }

    /// Waits until it has ended, without another word, and returns how.
    ///
    /// # Errors
    /// It says something, or goes on for too long.
    pub fn wait_end(&mut self) -> Result<ExitStatus, ActorError> {
        let name = self.name.clone();
        let expected = String::from("nothing more");
        match self.lines.recv_timeout(self.patience) {
            Ok(line) => Err(ActorError::Said {
                name,
                line,
                expected,
            }),
            Err(RecvTimeoutError::Timeout) => Err(ActorError::Silent {
                name,
                expected,
                patience: self.patience,
            }),
            Err(RecvTimeoutError::Disconnected) => {
                let ended = self.child.wait();
                ended.map_err(|cause| ActorError::Io { name, cause })
            }
        }
    }

    /// Stops it (SIGSTOP), as a host that hangs.
    ///
    /// # Errors
    /// It cannot be signalled.
    pub fn freeze(&self) -> Result<(), ActorError> {
        self.signal(libc::SIGSTOP)
    }

    /// Lets it go on (SIGCONT).
    ///
    /// # Errors
    /// It cannot be signalled.
    pub fn thaw(&self) -> Result<(), ActorError> {
        self.signal(libc::SIGCONT)
    }

    fn signal(&self, signal: i32) -> Result<(), ActorError> {
        let pid = self.child.id().cast_signed();
        // SAFETY: two integers; the child has not been waited for, so that the id is still its own.
        match unsafe { libc::kill(pid, signal) } {
            0 => Ok(()),
            _ => Err(ActorError::Io {
                name: self.name.clone(),
                cause: std::io::Error::last_os_error(),
            }),
        }
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(&mut self) {
        // Both fail only if it has ended already, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        self.kill();
    }
}
