//! A program of the comparison: told what to do by lines, answers by lines, killed when dropped.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::Failure;

/// A running program.
#[derive(Debug)]
pub(crate) struct Process {
    name: String,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
    /// The last line on its standard error: the reason if it fails.
    complaint: Arc<Mutex<String>>,
}

impl Process {
    /// Starts it. It ends with its parent, and its sleeps are as exact as the kernel can make
    /// them, for all systems alike.
    pub(crate) fn start(name: String, mut command: Command) -> Result<Self, Failure> {
        // SAFETY: between fork and exec the closure makes two system calls with constants, which
        // neither allocate nor lock.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                libc::prctl(libc::PR_SET_TIMERSLACK, 1);
                Ok(())
            });
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{name} cannot be started: {error}"))?;
        let pipe = "the pipes were asked for above";
        let stdin = child.stdin.take().ok_or(pipe)?;
        let stdout = child.stdout.take().ok_or(pipe)?;
        let stderr = child.stderr.take().ok_or(pipe)?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines();
            lines
                .map_while(Result::ok)
                .all(|line| sender.send(line).is_ok())
        });
        let complaint = Arc::new(Mutex::new(String::new()));
        let last = Arc::clone(&complaint);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if !line.trim().is_empty() {
                    *last.lock().unwrap_or_else(PoisonError::into_inner) = line;
                }
            }
        });
        Ok(Self {
            name,
            child,
            stdin,
            lines,
            complaint,
        })
    }

    pub(crate) fn tell(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.stdin, "{line}").map_err(|_| self.failure("has ended"))
    }

    /// Waits until `deadline` for the line that begins with `word`; its rest. Other lines, which
    /// some libraries print, are passed over.
    pub(crate) fn expect(&self, word: &str, deadline: Instant) -> Result<String, Failure> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    if let Some(rest) = line.strip_prefix(word) {
                        return Ok(rest.trim().to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("{} did not say '{word}' in time", self.name).into());
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.failure("has ended")),
            }
        }
    }

    /// Has it said `word` by now, or within `time`?
    pub(crate) fn said(&self, word: &str, time: Duration) -> Result<bool, Failure> {
        match self.lines.recv_timeout(time) {
            Ok(line) => Ok(line.starts_with(word)),
            Err(RecvTimeoutError::Timeout) => Ok(false),
            Err(RecvTimeoutError::Disconnected) => Err(self.failure("has ended")),
        }
    }

    /// User and system time of all its threads so far, those that have ended among them.
    pub(crate) fn cpu(&self) -> Duration {
        let mut clock = 0;
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: both calls only write into what they are given here; the id is that of a child
        // that has not been waited for, so it is nobody else's.
        let read = unsafe {
            libc::clock_getcpuclockid(self.child.id() as libc::pid_t, &raw mut clock) == 0
                && libc::clock_gettime(clock, &raw mut time) == 0
        };
        if read {
            Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
        } else {
            Duration::ZERO
        }
    }

    fn failure(&self, what: &str) -> Failure {
        // The last words of a process that has just ended may still be in the pipe.
        std::thread::sleep(Duration::from_millis(20));
        let complaint = self
            .complaint
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if complaint.is_empty() {
            format!("{} {what}", self.name).into()
        } else {
            format!("{} {what}: {}", self.name, without_places(&complaint)).into()
        }
    }
}

/// Absolute paths mean nothing to others: their last part is kept.
fn without_places(text: &str) -> String {
    let word = |word: &'_ str| match word.rsplit_once('/') {
        Some((_, name)) if word.starts_with('/') => name.to_owned(),
        _ => word.to_owned(),
    };
    text.split_whitespace()
        .map(word)
        .collect::<Vec<_>>()
        .join(" ")
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only if it has ended already, which is what is wanted.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
