//! Names of senders, which the membership service knows: asked for when the first message of one comes.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use qsm::{Node, Origin};
use qsm_console::failure::Failure;
use qsm_console::names::{Asker, Names};

/// Time that the first message of a sender waits for its name.
const PATIENCE: Duration = Duration::from_millis(200);

/// Shortest time between two questions.
const PAUSE: Duration = Duration::from_secs(1);

/// Senders whose names are kept.
const SENDERS_MAX: usize = 1 << 16;

/// The names, and who asks for them.
pub(crate) struct Senders {
    names: Names,
    /// Those looked for, with what was found.
    found: HashMap<Origin, Option<String>>,
    asker: Asker,
    asked: Option<Instant>,
}

impl Senders {
    /// Begins with the names that are known.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn new(node: &Node, names: Names) -> Result<Self, Failure> {
        Ok(Self {
            asker: Asker::start(node, &names)?,
            names,
            found: HashMap::new(),
            asked: None,
        })
    }

    /// The name of a sender, if that is known. At the first call for one it may take a moment.
    pub(crate) fn name(&mut self, sender: Origin) -> Option<&str> {
        let known = self.found.get(&sender).map(Option::is_some);
        if known != Some(true) {
            let name = self.look(sender, known.is_none());
            if self.found.len() < SENDERS_MAX || known.is_some() {
                self.found.insert(sender, name);
            }
        }
        self.found.get(&sender)?.as_deref()
    }

    fn look(&mut self, sender: Origin, wait: bool) -> Option<String> {
        let known = self.names.get(sender);
        let recent = self.asked.is_some_and(|asked| asked.elapsed() < PAUSE);
        if known.is_some() || (recent && !wait) {
            return known;
        }
        self.asked = Some(Instant::now());
        match wait {
            // Without an answer the name comes with a later message.
            true => self.asker.ask_within(PATIENCE),
            false => self.asker.ask(),
        }
        self.names.get(sender)
    }
}
