//! Names of senders, which the membership service knows: asked for when the first message of one comes.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use qsm::{Node, Origin};
use qsm_console::failure::Failure;
use qsm_console::reach::Names;

use crate::audience::learn;

/// Time that the first message of a sender waits for its name.
const PATIENCE: Duration = Duration::from_millis(200);

/// Shortest time between two questions.
const PAUSE: Duration = Duration::from_secs(1);

/// Senders whose names are kept.
const SENDERS_MAX: usize = 1 << 16;

/// The names, and a thread that asks for them.
pub(crate) struct Senders {
    names: Names,
    /// Those looked for, with what was found.
    found: HashMap<Origin, Option<String>>,
    questions: SyncSender<()>,
    answers: Receiver<()>,
    asked: Option<Instant>,
}

impl Senders {
    /// Begins with the names that are known.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn new(node: &Node, names: Names) -> Result<Self, Failure> {
        let (questions, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        let (node, known) = (node.clone(), names.clone());
        thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || {
                while asked.recv().is_ok() {
                    learn(&node, &known);
                    // If one waits to be read already, it will do.
                    let _told = answer.try_send(());
                }
            })
            .map_err(|error| Failure::io("start a thread", &error))?;
        Ok(Self {
            names,
            found: HashMap::new(),
            questions,
            answers,
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
        while self.answers.try_recv().is_ok() {}
        // If the last question is still waiting, it will do.
        let _asked = self.questions.try_send(());
        if wait {
            // Without an answer the name comes with a later message.
            let _answered = self.answers.recv_timeout(PATIENCE);
        }
        self.names.get(sender)
    }
}
