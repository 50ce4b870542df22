//! Contents that ends of a stream seal for each other, so that relays cannot read them.

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use qsm::ClusterKey;
use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_seal::{ContentError, ContentOpener, ContentSealer};
use qsm_wire::Instant;

/// Nanoseconds between two lines on contents that cannot be opened.
const PAUSE: u64 = 10_000_000_000;

qsm::metrics::metrics! {
    /// Account of contents that a receiver opens by a key which it has in common with their source.
    #[derive(Copy)]
    pub(super) struct ContentStats of "contents" {
        /// Contents opened.
        opened: counter(packets),
        /// Contents dropped because they cannot be opened: sealed by another key, changed on their way, or come before.
        unopened: counter(packets),
    }
}

/// Option by which contents are sealed.
#[derive(Debug, Clone, Args)]
pub(crate) struct ContentArgs {
    /// File with a key that all ends of a stream have, and no relay, as `qsm keygen` makes it: relays hold
    /// ciphertext only [default: relays can read what they pass on]
    #[arg(long, value_name = "FILE")]
    pub(crate) content_key: Option<PathBuf>,
}

impl ContentArgs {
    /// The key, if one is named.
    ///
    /// # Errors
    /// The file cannot be used.
    fn key(&self) -> Result<Option<ClusterKey>, Failure> {
        let read = |file| {
            qsm::read_key(file).map_err(|error| Failure::usage(error.to_string(), error.remedy()))
        };
        self.content_key.as_ref().map(read).transpose()
    }

    /// Sealer of a source of this stream, if a key is named.
    ///
    /// # Errors
    /// The file cannot be used, or this host has no random numbers.
    pub(super) fn sealer(&self, stream: &str) -> Result<Option<ContentSealer>, Failure> {
        let sealer = self.key()?.map(|key| ContentSealer::new(&key, stream));
        let sealer = sealer.transpose();
        sealer.map_err(|error| Failure::failed(error.to_string(), "make another key"))
    }

    /// Contents of this stream at a receiver.
    ///
    /// # Errors
    /// The file cannot be used.
    pub(super) fn contents(&self, stream: &str) -> Result<Contents, Failure> {
        Ok(Contents {
            opener: self.key()?.map(|key| ContentOpener::new(key, stream)),
            stats: ContentStats::default(),
            say: Instant(0),
        })
    }

    /// Something that may be wrong at an end to which nobody answers, as a question.
    pub(super) fn doubt(&self) -> &'static str {
        match self.content_key {
            Some(_) => "; and has the source a --content-key",
            None => "; and has the source no --content-key, which this end would need, too",
        }
    }
}

/// Contents as they come to a receiver.
pub(super) struct Contents {
    opener: Option<ContentOpener>,
    stats: ContentStats,
    /// The next time that this may be said.
    say: Instant,
}

impl Contents {
    /// Its account, where contents are sealed.
    pub(super) fn stats(&self) -> Option<ContentStats> {
        self.opener.as_ref().map(|_| self.stats)
    }

    /// Content that the source had sealed, if it seals; `None` if it cannot be opened, which is said.
    pub(super) fn open(&mut self, now: Instant, payload: Arc<[u8]>) -> Option<Arc<[u8]>> {
        let Some(opener) = &mut self.opener else {
            return Some(payload);
        };
        match opener.open(&payload) {
            Ok(content) => {
                self.stats.opened += 1;
                Some(content.into())
            }
            Err(error) => {
                self.refuse(now, error);
                None
            }
        }
    }

    fn refuse(&mut self, now: Instant, error: ContentError) {
        self.stats.unopened += 1;
        if now < self.say {
            return;
        }
        self.say = Instant(now.0.saturating_add(PAUSE));
        let count = self.stats.unopened;
        let line = format!(
            "UNOPENED: {count} packets of the stream so far, of the last {error}: has the source the same \
             --content-key? if so, somebody on the way forges"
        );
        Note::warn("unopened", &line).messages(count).say();
    }
}
