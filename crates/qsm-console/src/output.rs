//! Text on stdout and stderr.

use core::fmt::Display;
use std::io::{ErrorKind, Write, stderr, stdout};

use crate::failure::Failure;

/// Writes to stdout, at once. That nobody reads it any more is no failure.
///
/// # Errors
/// The system refuses.
pub fn write(text: impl AsRef<[u8]>) -> Result<(), Failure> {
    let mut stdout = stdout().lock();
    let written = stdout
        .write_all(text.as_ref())
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure::io("write to stdout", &error))
        }
        _ => Ok(()),
    }
}

/// Writes a line to stderr. One that nobody can read is lost, and nothing else.
pub fn say(line: impl Display) {
    drop(writeln!(stderr().lock(), "{line}"));
}
