//! Waiting for a parent.

use std::net::SocketAddr;
use std::time::Duration;

use qsm_console::log::Note;

/// Says that a parent is silent, once, and that it answers.
#[derive(Debug)]
pub(super) struct Patience {
    parent: SocketAddr,
    /// How long it has been waited for.
    since: Option<qsm_wire::Instant>,
    said: bool,
    /// Another thing that may be wrong, as a question.
    doubt: String,
}

impl Patience {
    /// Silence that is told.
    const LIMIT: Duration = Duration::from_secs(3);

    /// Of a parent that has not been asked yet.
    pub(super) fn new(parent: SocketAddr) -> Self {
        Self::with_doubt(parent, "")
    }

    /// Likewise, with another thing that may be wrong, as a question.
    pub(super) fn with_doubt(parent: SocketAddr, doubt: &str) -> Self {
        Self {
            parent,
            since: None,
            said: false,
            doubt: doubt.to_owned(),
        }
    }

    /// Takes note of what is so now.
    pub(super) fn look(&mut self, now: qsm_wire::Instant, waits: bool) {
        let parent = self.parent.to_string();
        if !waits {
            if self.said {
                let line = format!("the parent {parent} answers");
                Note::info("waiting", &line).address(&parent).say();
            }
            (self.since, self.said) = (None, false);
            return;
        }
        let since = *self.since.get_or_insert(now);
        if !self.said && now.since(since) >= Self::LIMIT {
            self.said = true;
            let line = format!(
                "the parent {parent} does not answer; is it running, can this host reach it, and do \
                 its own parents answer{}? it is asked again and again",
                self.doubt
            );
            Note::warn("waiting", &line).address(&parent).say();
        }
    }
}
