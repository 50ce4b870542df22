//! The source of a site's stream.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use qsm_console::failure::Failure;
use qsm_relay::SourceStats;
use serde_json::json;

use super::end::End;
use super::stats::SiteCounts;
use crate::commands::relay::account::{Account, Books};
use crate::commands::relay::events::Events;
use crate::commands::relay::input::Input;
use crate::commands::relay::publisher::Publisher;

/// Most time for other sites to get the rest.
const GOODBYE: Duration = Duration::from_secs(2);

/// The stream of this site.
pub(super) struct Outward {
    pub(super) publisher: Publisher,
    pub(super) input: Input,
    pub(super) books: Books<SourceStats>,
    /// Gateways of other sites that get the stream now.
    pub(super) audience: Arc<AtomicU32>,
    pub(super) counts: Arc<SiteCounts>,
    pub(super) end: Arc<End>,
    pub(super) json: bool,
}

impl Outward {
    /// Sends until the end, and what is left of it then for two seconds.
    pub(super) fn run(mut self) -> Result<(), Failure> {
        let (mut receivers, mut unsent) = (0, 0);
        let mut over: Option<Instant> = None;
        while !self.publisher.is_done() && over.is_none_or(|over| Instant::now() < over) {
            let near = self.end.is_near();
            if near && over.is_none() {
                over = Some(Instant::now() + GOODBYE);
            }
            self.publisher.take(&mut self.input, near)?;
            self.publisher.turn(&self.input)?;
            let (source, port) = (&self.publisher.source, &self.publisher.port);
            self.books.put(Account::of(source.stats(), port));
            self.counts.unsent.add(self.publisher.unsent - unsent);
            unsent = self.publisher.unsent;
            if source.receivers() != receivers {
                receivers = source.receivers();
                self.audience.store(receivers, Ordering::Relaxed);
                Events { json: self.json }.say(
                    &format!("{receivers} gateways of other sites get this one's messages"),
                    &json!({ "event": "receivers", "receivers": receivers }),
                )?;
            }
        }
        self.publisher.port.close();
        Ok(())
    }
}
