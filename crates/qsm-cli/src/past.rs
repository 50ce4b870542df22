//! `qsm sub --last` and `--resume`: a source of messages with what was sent before, and a file that says how far they
//! were written.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use qsm::{GroupOptions, Node, Received, RecvError, RequestError, Subscription};
use qsm_console::failure::Failure;
use qsm_console::figures::{count, counted};
use qsm_console::log::Note;
use qsm_console::names::Names;
use qsm_console::table::printable;
use qsm_history::{
    History, HistoryError, Item, JoinLimits, JoinOptions, JoinStats, Missing, Position,
    PositionError, Start,
};

/// Interval in which positions are written.
const SAVE: Duration = Duration::from_secs(1);

/// A subscription with its past.
pub(crate) struct Past {
    history: RefCell<History>,
    names: Names,
    missing: RefCell<u64>,
}

/// A file with a position.
pub(crate) struct PositionFile {
    path: PathBuf,
    /// Positions behind so many messages, to be saved when these are written.
    waiting: VecDeque<(u64, Position)>,
    noted: Option<Instant>,
    last: Option<Position>,
}

/// Place from which messages begin; `None` if nobody asked for the past.
///
/// # Errors
/// The file is there and is no position.
pub(crate) fn start(last: Option<u64>, resume: Option<&Path>) -> Result<Option<Start>, Failure> {
    let Some(path) = resume else {
        return Ok(last.map(Start::Last));
    };
    let position = Position::load(path).map_err(|error| refused(path, &error))?;
    // The first time: from now on, and its place is known the next time.
    let first = Start::Last(last.unwrap_or(0));
    Ok(Some(position.map_or(first, Start::Resume)))
}

fn refused(path: &Path, error: &PositionError) -> Failure {
    match error {
        PositionError::Io(error) => Failure::io(format!("use {}", path.display()), error),
        other => Failure::usage(
            format!("{} is no position: {other}", path.display()),
            "give the file that --resume wrote, or one that is not there",
        ),
    }
}

impl Past {
    /// Enters the groups; so many bytes at most are held for each while older messages come.
    ///
    /// # Errors
    /// The node refuses them.
    pub(crate) fn new(
        node: &Node,
        groups: &[String],
        start: Start,
        queue: GroupOptions,
        held_bytes: Option<usize>,
        names: &Names,
    ) -> Result<Self, RequestError> {
        let mut options = JoinOptions::default().queue(queue);
        if let Some(bytes) = held_bytes {
            options = options.limits(JoinLimits::default().held_bytes(bytes));
        }
        let history = History::subscribe(node, groups, start, options);
        let history = history.map_err(|error| match error {
            HistoryError::Request(error) => error,
            other => RequestError::Refused {
                reason: other.to_string(),
            },
        })?;
        Ok(Self {
            history: RefCell::new(history),
            names: names.clone(),
            missing: RefCell::default(),
        })
    }

    /// Next message; what is missing or tells of the join is said here.
    pub(crate) fn recv(&self, left: Duration) -> Result<Option<Received>, RecvError> {
        let until = Instant::now() + left;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let received = self.history.borrow_mut().recv_timeout(left);
            match received.map_err(HistoryError::into_end)? {
                None => return Ok(None),
                Some(Item::Kept(message) | Item::Message(message)) => {
                    return Ok(Some(Received::Message(message)));
                }
                Some(Item::Told(told)) => return Ok(Some(told)),
                Some(Item::Missing(missing)) => self.tell(&missing),
                Some(Item::Joined(joined)) => {
                    let group = printable(&joined.group);
                    let line = format!(
                        "joined group {group}: {}, {} missing, from {}",
                        counted(joined.kept, "kept message"),
                        count(joined.missing),
                        counted(joined.keepers as u64, "keeper")
                    );
                    let note = match joined.keepers {
                        0 => Note::warn("joined", &line),
                        _ => Note::info("joined", &line),
                    };
                    note.group(&group).messages(joined.kept).say();
                }
                Some(other) => {
                    let line = format!("{other:?}");
                    Note::info("other", &line).say();
                }
            }
        }
    }

    /// The live subscription.
    pub(crate) fn live(&self) -> Arc<Subscription> {
        Arc::clone(self.history.borrow().live())
    }

    /// Items that can be received at once, beside those in the queue of the live subscription.
    pub(crate) fn ready(&self) -> usize {
        self.history.borrow().ready()
    }

    /// Position behind what was received.
    pub(crate) fn position(&self) -> Position {
        self.history.borrow().position()
    }

    /// Counters of what was asked for and came.
    pub(crate) fn stats(&self) -> JoinStats {
        self.history.borrow().stats()
    }

    /// Messages that were asked for and were not kept.
    pub(crate) fn missing(&self) -> u64 {
        *self.missing.borrow()
    }

    fn tell(&self, missing: &Missing) {
        let so_far = self.missing();
        self.missing
            .replace(so_far.saturating_add(missing.messages()));
        let group = printable(&missing.group);
        let sender = self.names.with_identity(missing.sender);
        let line = format!(
            "NOT KEPT: group {group} sender {sender} messages {}..={}: {}",
            missing.first, missing.last, missing.cause
        );
        let note = Note::warn("not-kept", &line).group(&group).sender(&sender);
        note.messages(missing.messages()).say();
    }
}

impl PositionFile {
    /// At this path.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            waiting: VecDeque::new(),
            noted: None,
            last: None,
        }
    }

    /// Notes the position behind so many messages, once a second or `always`, and saves the newest that is behind
    /// written messages alone.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn keep_up(
        &mut self,
        past: &Past,
        messages: u64,
        written: u64,
        always: bool,
    ) -> Result<(), Failure> {
        let now = Instant::now();
        if always || self.noted.is_none_or(|noted| now - noted >= SAVE) {
            self.noted = Some(now);
            let position = past.position();
            if self.last.as_ref() != Some(&position) {
                self.last = Some(position.clone());
                self.waiting.push_back((messages, position));
            }
        }
        let mut newest = None;
        while self
            .waiting
            .front()
            .is_some_and(|(behind, _)| *behind <= written)
        {
            newest = self.waiting.pop_front().map(|(_, position)| position);
        }
        match newest {
            Some(position) => position
                .save(&self.path)
                .map_err(|error| refused(&self.path, &error)),
            None => Ok(()),
        }
    }
}
