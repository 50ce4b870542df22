//! What the processes of a benchmark share: lines to and from their parent, and clocks.

use std::process::Command;
use std::time::Duration;

use lab::Actor;

use crate::Failure;

/// How long a child may take for any one answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts this program again with other arguments.
pub(crate) fn spawn(arguments: &[String]) -> Result<Actor, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(arguments);
    Ok(Actor::start(arguments[0].clone(), command, PATIENCE)?)
}

/// Numbers on an actor's next line that begins with `word`.
pub(crate) fn numbers(actor: &Actor, word: &str) -> Result<Vec<u64>, Failure> {
    let rest = actor.expect(word)?;
    rest.split_whitespace()
        .map(|number| Ok(number.parse()?))
        .collect()
}

/// Says a line to the parent.
pub(crate) fn say(line: &str) {
    println!("{line}");
}

/// The parent's next line.
pub(crate) fn hear() -> Result<String, Failure> {
    let mut line = String::new();
    if std::io::stdin().read_line(&mut line)? == 0 {
        return Err("the parent has gone".into());
    }
    Ok(line.trim().to_owned())
}

/// User and system time of this process so far, microseconds.
pub(crate) fn cpu_micros() -> u64 {
    // SAFETY: all-zero bytes are a valid rusage, and getrusage only writes into the one given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let micros = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    micros(usage.ru_utime) + micros(usage.ru_stime)
}

/// The monotonic clock, which all processes of a host share, nanoseconds.
pub(crate) fn monotonic_nanos() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: clock_gettime only writes into the timespec given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
