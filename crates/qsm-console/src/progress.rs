//! A line on stderr that is written over again and again, while something takes long.

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

/// Time between two lines.
const EVERY: Duration = Duration::from_millis(100);

/// A line on stderr, if that is a terminal, written over again and again.
#[derive(Debug)]
pub struct Progress {
    terminal: bool,
    shown: Option<Instant>,
}

impl Progress {
    /// Nothing is shown yet.
    pub fn new() -> Self {
        Self {
            terminal: stderr().is_terminal(),
            shown: None,
        }
    }

    /// Returns whether stderr is a terminal and the line is old.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.terminal && self.shown.is_none_or(|shown| shown.elapsed() >= EVERY)
    }

    /// Writes it at once, if stderr is a terminal.
    pub fn announce(&mut self, line: &str) {
        if self.terminal {
            self.show(line);
        }
    }

    /// Writes it.
    pub fn show(&mut self, line: &str) {
        draw(line);
        self.shown = Some(Instant::now());
    }

    /// Takes it away.
    pub fn clear(&self) {
        if self.shown.is_some() {
            draw("");
        }
    }
}

/// Writes in the place of the line that is there. Where nobody can read it, it is lost.
fn draw(line: &str) {
    drop(write!(stderr().lock(), "\r\x1b[K{line}"));
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}
