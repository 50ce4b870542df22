//! This program under callgrind.

use std::env;
use std::error::Error;
use std::process::{Command, Output};

use crate::subject::Subject;

/// First argument when this program is to do the work: name of the subject and messages follow.
pub(crate) const RUN: &str = "--run";

/// The C library chooses a copy routine by the processor it runs on; without these features there
/// is one choice only.
const ONE_COPY_ROUTINE: &str = "glibc.cpu.hwcaps=-AVX_Fast_Unaligned_Load,-AVX2,-SSSE3,-ERMS,-FSRM";

/// Instructions for one unit, in tenths.
pub(crate) fn count(subject: &Subject) -> Result<u64, Box<dyn Error>> {
    let (short, long) = subject.messages;
    let (short, long) = (measure(subject, short)?, measure(subject, long)?);
    let (instructions, units) = (long.0 - short.0, long.1 - short.1);
    Ok((instructions * 10 + units / 2) / units)
}

/// Instructions and units of one run.
fn measure(subject: &Subject, messages: u64) -> Result<(u64, u64), Box<dyn Error>> {
    let mut command = Command::new("valgrind");
    // Nothing of the caller's environment, which lies on the stack and would shift it.
    command.env_clear().env("GLIBC_TUNABLES", ONE_COPY_ROUTINE);
    command.envs(env::var_os("PATH").map(|path| ("PATH", path)));
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    for function in subject.functions {
        command.arg(format!("--toggle-collect=*{function}*"));
    }
    command.arg(env::current_exe()?);
    command.args([RUN, subject.name, &messages.to_string()]);
    let output = command.output().map_err(|error| {
        format!("valgrind does not start ({error}); install the package valgrind")
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(format!("{}: {}\n{said}", subject.name, output.status).into());
    }
    let instructions = collected(&said).filter(|count| *count > 0);
    let instructions =
        instructions.ok_or_else(|| format!("{}: nothing was counted\n{said}", subject.name))?;
    Ok((instructions, units(&output)?))
}

/// From the line `==123== Collected : 4567`.
fn collected(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.contains("Collected :"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn units(output: &Output) -> Result<u64, Box<dyn Error>> {
    Ok(String::from_utf8_lossy(&output.stdout).trim().parse()?)
}
