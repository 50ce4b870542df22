//! The live picture: a table written over again and again on a terminal, else a line now and then.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use qsm_console::figures;
use qsm_console::table::{Align, Table};

use crate::processes::ProcessState;

/// How often the table is written over.
const REFRESH: Duration = Duration::from_millis(250);

/// How often there is a line without a terminal.
const LINES: Duration = Duration::from_secs(2);

/// Characters of the progress bar.
const BAR: usize = 40;

/// Where the picture goes.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: bool,
    start: Instant,
    /// How long all is expected to take.
    expected: Duration,
    shown: Option<Instant>,
    /// Lines of the last picture.
    height: usize,
    phase: String,
}

impl Screen {
    /// On standard output.
    #[must_use]
    pub(crate) fn new(expected: Duration) -> Self {
        Self {
            terminal: io::stdout().is_terminal(),
            start: Instant::now(),
            expected,
            shown: None,
            height: 0,
            phase: String::new(),
        }
    }

    /// What is being done.
    pub(crate) fn phase(&mut self, what: &str) {
        if self.phase != what {
            what.clone_into(&mut self.phase);
            if !self.terminal {
                self.print(&format!("{} {what}\n", self.time()));
            }
        }
    }

    /// A line that stays.
    pub(crate) fn say(&mut self, line: &str) {
        self.clear();
        let line = match self.terminal {
            true => format!("  {line}\n"),
            false => format!("{} {line}\n", self.time()),
        };
        self.print(&line);
    }

    /// Whether it is time for the next picture.
    #[must_use]
    pub(crate) fn is_due(&self) -> bool {
        let pause = if self.terminal { REFRESH } else { LINES };
        self.shown.unwrap_or(self.start).elapsed() >= pause
    }

    /// The picture; `who` gives the name and the address of a process.
    #[must_use]
    pub(crate) fn table(
        &self,
        states: &[ProcessState],
        who: impl Fn(usize) -> (String, String),
    ) -> String {
        if !self.terminal {
            return format!("{} {}\n", self.time(), sum(states));
        }
        let mut table = Table::new(&[
            ("PROCESS", Align::Left),
            ("HOST", Align::Left),
            ("DOING", Align::Left),
            ("GROUPS", Align::Right),
            ("MEMBERS", Align::Right),
            ("MSG/S", Align::Right),
            ("BYTES/S", Align::Right),
            ("LOST", Align::Right),
            ("BY PEERS", Align::Right),
            ("BY SENDER", Align::Right),
        ]);
        for (process, state) in states.iter().enumerate() {
            let (name, address) = who(process);
            let (figures, (messages, bytes)) = (&state.figures, state.rates);
            let number = |number: u64| match number {
                0 => String::new(),
                number => figures::count(number),
            };
            table.row([
                name,
                address,
                state.doing.to_owned(),
                number(figures.groups),
                number(u64::from(figures.members)),
                if messages > 0.0 {
                    figures::rate(messages)
                } else {
                    String::new()
                },
                if bytes > 0.0 {
                    figures::bytes(bytes as u64)
                } else {
                    String::new()
                },
                number(figures.injected),
                number(figures.from_receivers),
                number(figures.from_sender),
            ]);
        }
        format!("{}\n{}", self.bar(), table.render())
    }

    /// Shows the picture, in the place of the last one.
    pub(crate) fn show(&mut self, picture: &str) {
        self.shown = Some(Instant::now());
        if !self.terminal {
            self.print(picture);
            return;
        }
        let up = match self.height {
            0 => String::new(),
            height => format!("\x1b[{height}A"),
        };
        let lines: String = picture
            .lines()
            .map(|line| format!("{line}\x1b[K\n"))
            .collect();
        // What is left of a higher picture goes as well.
        // Lines longer than the terminal is wide must not wrap, or the way up would be longer.
        self.print(&format!("{up}\x1b[?7l{lines}\x1b[?7h\x1b[J"));
        self.height = picture.lines().count();
    }

    /// Takes the picture away.
    pub(crate) fn clear(&mut self) {
        if self.height > 0 {
            self.print(&format!("\x1b[{}A\x1b[J", self.height));
            self.height = 0;
        }
    }

    fn time(&self) -> String {
        format!("[{:5.1} s]", self.start.elapsed().as_secs_f64())
    }

    fn bar(&self) -> String {
        let share = self.start.elapsed().as_secs_f64() / self.expected.as_secs_f64().max(0.1);
        // From 0 to `BAR`.
        let full = (share.clamp(0.0, 1.0) * BAR as f64) as usize;
        let (done, rest) = ("█".repeat(full), "░".repeat(BAR - full));
        format!("{done}{rest} {} {}", self.time(), self.phase)
    }

    fn print(&self, text: &str) {
        let mut stdout = io::stdout().lock();
        // Without anybody to look, the demonstration goes on for its result.
        drop(
            stdout
                .write_all(text.as_bytes())
                .and_then(|()| stdout.flush()),
        );
    }
}

/// All processes in a line. What receivers get counts, not what senders send.
fn sum(states: &[ProcessState]) -> String {
    let receivers = states.iter().filter(|state| !state.started);
    let (mut messages, mut bytes) = (0.0, 0.0);
    let (mut injected, mut peers, mut sender) = (0, 0, 0);
    for state in receivers {
        messages += state.rates.0;
        bytes += state.rates.1;
        injected += state.figures.injected;
        peers += state.figures.from_receivers;
        sender += state.figures.from_sender;
    }
    format!(
        "received {} messages/s, {}/s; {} packets lost on purpose, {} repaired by receivers, {} \
         by senders",
        figures::rate(messages),
        figures::bytes(bytes as u64),
        figures::count(injected),
        figures::count(peers),
        figures::count(sender),
    )
}
