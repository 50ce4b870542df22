//! Messages 1, 2, 3, … of one publisher, and subscribers that have each once.

use std::io::Write;
use std::process::{ChildStdin, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::{Lines, Running, assert_code, subscribed};

/// Time that a message takes at most, also while gateways are replaced.
const PATIENCE: Duration = Duration::from_secs(60);

/// A reader that has taken messages 1 to `taken`, and nothing else.
pub(crate) struct Subscriber {
    running: Running,
    printed: Lines,
    pub(crate) taken: u64,
    _told: Lines,
}

impl Subscriber {
    /// A `qsm sub --json`, once it is there.
    pub(crate) fn of(sub: Running) -> Self {
        let (running, printed, _told) = subscribed(sub);
        Self {
            running,
            printed,
            taken: 0,
            _told,
        }
    }

    /// The next message, which has to be the next one of the ticker.
    pub(crate) fn next(&mut self) -> Value {
        let Some(line) = self.printed.within(PATIENCE) else {
            panic!("nothing comes behind message {}", self.taken);
        };
        self.taken += 1;
        let message: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(message["text"], self.taken.to_string(), "{line}");
        message
    }

    /// Nothing else has come.
    pub(crate) fn end(self) {
        self.running.terminate();
        assert_eq!(self.printed.iter().collect::<Vec<_>>(), [""; 0]);
        let output = self.running.output();
        assert_code(&output, 0);
    }
}

/// A publisher of 1, 2, 3, …
pub(crate) struct Ticker {
    stdin: ChildStdin,
    pub(crate) ticks: u64,
    running: Running,
}

impl Ticker {
    /// A `qsm pub --frames`.
    pub(crate) fn of(mut command: Command) -> Self {
        let mut running = Running(command.stdin(Stdio::piped()).spawn().unwrap());
        Self {
            stdin: running.0.stdin.take().unwrap(),
            ticks: 0,
            running,
        }
    }

    pub(crate) fn tick(&mut self) {
        self.ticks += 1;
        let text = self.ticks.to_string();
        let length = u32::try_from(text.len()).unwrap().to_le_bytes();
        let frame = [&length, text.as_bytes()].concat();
        self.stdin.write_all(&frame).unwrap();
    }

    /// Ticks as fast as it can, up to this number, and ends.
    pub(crate) fn pour(mut self, last: u64) -> thread::JoinHandle<()> {
        thread::spawn(move || {
            while self.ticks < last {
                self.tick();
            }
            assert_code(&self.end(), 0);
        })
    }

    /// Waits until the receivers that are there have everything.
    pub(crate) fn end(self) -> Output {
        drop(self.stdin);
        self.running.output()
    }
}
