//! The processes of a demonstration, what is known of each, and waiting for what they are to do.

use std::collections::VecDeque;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use qsm_console::failure::Failure;
use qsm_console::figures;
use qsm_console::stop::Stop;
use qsm_console::table::printable;
use qsm_processes::{ProcessGroup, ProcessIndex, ProcessLine, ProcessOutput};
use serde_json::Value;

use crate::messages::{DemoReport, Figures, Published, Stream};
use crate::screen::Screen;

/// Time between two looks at signals and the screen.
const LOOK: Duration = Duration::from_millis(50);

/// Lines of standard error, and of trouble, that are kept.
const LINES_KEPT: usize = 12;

/// Shortest time over which a rate is computed.
const RATE_OVER: Duration = Duration::from_millis(900);

/// Knowledge of a process, by what it reported.
#[derive(Debug)]
pub(crate) struct ProcessState {
    /// In a word.
    pub(crate) doing: &'static str,
    /// The node in its life, when it is in its groups.
    pub(crate) origin: Option<String>,
    /// A sender publishes.
    pub(crate) started: bool,
    /// A sender sees the receiver that came back.
    pub(crate) marked: bool,
    /// Members of the cluster-wide group, as a sender sees it.
    pub(crate) members: u32,
    /// The last figures.
    pub(crate) figures: Figures,
    /// Messages and bytes per second.
    pub(crate) rates: (f64, f64),
    /// Streams published.
    pub(crate) published: Option<Vec<Published>>,
    /// Members and groups of the regions.
    pub(crate) regions: Vec<(usize, u32)>,
    /// Regions of one member's inbox.
    pub(crate) private_regions: usize,
    /// Streams received.
    pub(crate) received: Option<Vec<Stream>>,
    /// Hashes of what was published.
    pub(crate) hashes: Option<Vec<String>>,
    /// Before these figures the rate is computed from.
    base: (Instant, Figures),
    heard: Instant,
}

impl ProcessState {
    fn new() -> Self {
        let now = Instant::now();
        Self {
            doing: "starting",
            origin: None,
            started: false,
            marked: false,
            members: 0,
            figures: Figures::default(),
            rates: (0.0, 0.0),
            published: None,
            regions: Vec::new(),
            private_regions: 0,
            received: None,
            hashes: None,
            base: (now, Figures::default()),
            heard: now,
        }
    }

    fn take_figures(&mut self, figures: Figures, now: Instant) {
        self.figures = figures;
        let (since, base) = self.base;
        let over = now.duration_since(since);
        if over >= RATE_OVER {
            let per_second =
                |new: u64, old: u64| new.saturating_sub(old) as f64 / over.as_secs_f64();
            self.rates = (
                per_second(figures.messages, base.messages),
                per_second(figures.bytes, base.bytes),
            );
            self.base = (now, figures);
        }
    }
}

/// All processes and what is known of them.
pub(crate) struct DemoProcesses {
    /// The processes.
    pub(crate) group: ProcessGroup<DemoReport>,
    /// Their states, in the same order.
    pub(crate) states: Vec<ProcessState>,
    /// Address of the membership service.
    pub(crate) service: Option<String>,
    /// Nodes that the service declared dead, and when.
    pub(crate) excluded: Vec<(String, Instant)>,
    /// The terminal.
    pub(crate) screen: Screen,
    /// Trouble told, and what was written to standard error.
    pub(crate) trouble: VecDeque<String>,
    stop: Stop,
    deadline: Instant,
    /// A process that has ended and should not have.
    ended: Option<ProcessIndex>,
}

impl DemoProcesses {
    /// No processes yet; everything has to be over by the deadline.
    #[must_use]
    pub(crate) fn new(
        group: ProcessGroup<DemoReport>,
        screen: Screen,
        stop: Stop,
        deadline: Instant,
    ) -> Self {
        Self {
            group,
            states: Vec::new(),
            service: None,
            excluded: Vec::new(),
            screen,
            trouble: VecDeque::new(),
            stop,
            deadline,
            ended: None,
        }
    }

    /// Starts a process.
    ///
    /// # Errors
    /// It, or its host, cannot be made.
    pub(crate) fn start(
        &mut self,
        name: &str,
        arguments: &[&str],
    ) -> Result<ProcessIndex, Failure> {
        let process = self.group.start(name, arguments)?;
        self.states.push(ProcessState::new());
        Ok(process)
    }

    /// Kills a process; what it knew is forgotten.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn kill(&mut self, process: ProcessIndex) -> Result<(), Failure> {
        self.group.kill(process)?;
        self.states[process] = ProcessState::new();
        self.states[process].doing = "KILLED";
        Ok(())
    }

    /// Starts a process again that was killed.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn restart(&mut self, process: ProcessIndex) -> Result<(), Failure> {
        self.states[process] = ProcessState::new();
        self.states[process].doing = "restarting";
        self.group.restart(process)
    }

    /// Waits until all of these are so.
    ///
    /// # Errors
    /// A process has ended, the deadline has passed, or the user wants an end.
    pub(crate) fn wait(
        &mut self,
        what: &str,
        waiting: &[ProcessIndex],
        done: impl Fn(&ProcessState) -> bool,
    ) -> Result<(), Failure> {
        self.wait_until(what, |processes| {
            let not_yet = waiting
                .iter()
                .copied()
                .filter(|&process| !done(&processes.states[process]));
            not_yet.collect()
        })
    }

    /// Waits until nobody is left that has not.
    ///
    /// # Errors
    /// As [`DemoProcesses::wait`].
    pub(crate) fn wait_until(
        &mut self,
        what: &str,
        missing: impl Fn(&Self) -> Vec<ProcessIndex>,
    ) -> Result<(), Failure> {
        self.screen.phase(what);
        loop {
            let left = missing(self);
            if left.is_empty() {
                return Ok(());
            }
            if Instant::now() >= self.deadline {
                return Err(self.too_late(what, &left));
            }
            self.pump()?;
        }
    }

    /// Lets the processes work for some time.
    ///
    /// # Errors
    /// As [`DemoProcesses::wait`].
    pub(crate) fn run_for(&mut self, what: &str, duration: Duration) -> Result<(), Failure> {
        self.screen.phase(what);
        let until = Instant::now() + duration;
        while Instant::now() < until.min(self.deadline) {
            self.pump()?;
        }
        Ok(())
    }

    /// Takes what the processes have written, and shows it.
    fn pump(&mut self) -> Result<(), Failure> {
        match self.group.output.recv_timeout(LOOK) {
            Ok(output) => {
                self.hear(output);
                while let Ok(output) = self.group.output.try_recv() {
                    self.hear(output);
                }
            }
            // The group holds the other end, so there always is one.
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if let Some(process) = self.ended {
            return Err(self.ended_early(process));
        }
        if self.stop.is_asked() {
            return Err(Failure::failed("interrupted", "let it run to its end"));
        }
        if self.screen.is_due() {
            let text = self.screen.table(&self.states, |process| {
                (
                    self.group.name(process).to_owned(),
                    self.group.address(process).to_string(),
                )
            });
            self.screen.show(&text);
        }
        Ok(())
    }

    fn hear(&mut self, output: ProcessOutput<DemoReport>) {
        let ProcessOutput {
            process,
            life,
            line,
        } = output;
        let now = Instant::now();
        // Its former life does not concern us any more, nor one that was killed.
        let current = self.group.life(process) == life && self.states[process].doing != "KILLED";
        match line {
            ProcessLine::Error(text) => self.note(process, &text),
            ProcessLine::Service(value) => self.hear_service(process, &value, now),
            ProcessLine::Message(said) if current => {
                self.states[process].heard = now;
                self.hear_node(process, said, now);
            }
            ProcessLine::End if current => self.ended = self.ended.or(Some(process)),
            ProcessLine::Message(_) | ProcessLine::End => {}
        }
    }

    fn hear_node(&mut self, process: ProcessIndex, said: DemoReport, now: Instant) {
        let state = &mut self.states[process];
        match said {
            DemoReport::Ready { origin } => {
                state.origin = Some(origin);
                state.doing = "ready";
            }
            DemoReport::Started => {
                state.started = true;
                state.doing = "publishing";
            }
            DemoReport::Figures(figures) => {
                if state.doing == "ready" && figures.messages > 0 {
                    state.doing = "receiving";
                }
                state.take_figures(figures, now);
            }
            DemoReport::Members(members) => state.members = members,
            DemoReport::Marked => state.marked = true,
            DemoReport::Published {
                groups,
                mut regions,
                private_regions,
            } => {
                regions.sort_unstable_by_key(|&(members, _)| std::cmp::Reverse(members));
                state.published = Some(groups);
                state.regions = regions;
                state.private_regions = private_regions;
                state.doing = "all stable";
            }
            DemoReport::Received { streams } => {
                state.received = Some(streams);
                state.doing = "has all";
            }
            DemoReport::Hashes(hashes) => state.hashes = Some(hashes),
            DemoReport::Trouble(text) => self.note(process, &text),
        }
    }

    fn hear_service(&mut self, process: ProcessIndex, value: &Value, now: Instant) {
        let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
        let state = &mut self.states[process];
        state.heard = now;
        match (text("event").as_deref(), text("address"), text("node")) {
            (Some("listening"), Some(address), _) => {
                self.service = Some(address);
                state.doing = "serving";
            }
            (Some("excluded"), _, Some(node)) => self.excluded.push((node, now)),
            // Nobody leaves of itself before the end, when this is shown no more.
            (Some("conflict" | "left"), ..) => self.note(process, &value.to_string()),
            _ => {}
        }
    }

    fn note(&mut self, process: ProcessIndex, text: &str) {
        let line = format!("{}: {}", self.group.name(process), printable(text));
        self.trouble.push_back(line);
        if self.trouble.len() > LINES_KEPT {
            self.trouble.pop_front();
        }
    }

    fn too_late(&self, what: &str, left: &[ProcessIndex]) -> Failure {
        let one = |&process: &ProcessIndex| {
            let state = &self.states[process];
            format!(
                "{} ({}, last heard {} ago)",
                self.group.name(process),
                state.doing,
                figures::duration(state.heard.elapsed())
            )
        };
        let who: Vec<String> = left.iter().map(one).collect();
        Failure::timeout(
            format!("while {what}: time is up; not yet: {}", who.join(", ")),
            self.remedy("give it more time with --timeout, or fewer processes with --quick"),
        )
    }

    fn ended_early(&self, process: ProcessIndex) -> Failure {
        Failure::failed(
            format!("{} has ended before its time", self.group.name(process)),
            self.remedy("run `qsm demo` again; if it happens again, it is worth a report"),
        )
    }

    /// With what was told last, if anything was.
    fn remedy(&self, otherwise: &str) -> String {
        match self.trouble.back() {
            Some(_) => {
                let lines: Vec<&str> = self.trouble.iter().map(String::as_str).collect();
                format!("{otherwise}; what was told last: {}", lines.join(" | "))
            }
            None => otherwise.to_owned(),
        }
    }
}
