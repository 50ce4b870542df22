//! Counters of a relay, source or receiver, of its links and of its socket.

use std::fmt::Display;
use std::sync::{Arc, Mutex, PoisonError};

use qsm::metrics::{self, Metrics, prometheus::Page};
use qsm_console::failure::Failure;
use qsm_console::options::StatsOptions;
use qsm_link::{LinkStats, PieceStats};
use qsm_net::{EcnCounters, PortCounters};
use serde_json::Value;

use super::content::ContentStats;
use super::port::Port;
use crate::stats::{self, Served};

/// Counters at one time; of links and sealed contents where there are some.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Account<M> {
    own: M,
    contents: Option<ContentStats>,
    links: Option<LinkStats>,
    pieces: PieceStats,
    ecn: EcnCounters,
    port: PortCounters,
}

impl<M: Metrics + Display> Account<M> {
    pub(super) fn of(own: M, port: &Port) -> Self {
        Self {
            own,
            contents: None,
            links: port.links(),
            pieces: port.pieces(),
            ecn: port.ecn(),
            port: port.counters(),
        }
    }

    /// The same of a receiver with this account of contents.
    pub(super) fn with_contents(self, contents: Option<ContentStats>) -> Self {
        Self { contents, ..self }
    }

    /// Its own counters, and bytes in datagrams at the socket, both ways.
    pub(super) fn parts(&self) -> (M, u64)
    where
        M: Copy,
    {
        let port = &self.port;
        (self.own, port.unicast.bytes + port.sent.bytes)
    }

    /// Says at the end what was counted, if that is asked for.
    pub(super) fn say(&self, options: StatsOptions) {
        if let Some(format) = options.format(false) {
            stats::of_counters(&self.own, format);
            if let Some(contents) = &self.contents {
                stats::of_counters(contents, format);
            }
            if let Some(links) = &self.links {
                stats::of_counters(links, format);
            }
            stats::of_counters(&self.pieces, format);
            stats::of_counters(&self.ecn, format);
            stats::of_counters(&self.port, format);
        }
    }

    /// Adds it to a page, with these labels.
    pub(super) fn add_to(&self, page: &mut Page, labels: &[(&str, &str)]) {
        page.add(&self.own, labels);
        if let Some(contents) = &self.contents {
            page.add(contents, labels);
        }
        if let Some(links) = &self.links {
            page.add(links, labels);
        }
        page.add(&self.pieces, labels);
        page.add(&self.ecn, labels);
        page.add(&self.port, labels);
    }

    /// As objects: its own, those of links, or null, those of pieces, those of the socket, and those of codepoints.
    pub(super) fn objects(&self) -> [Value; 5] {
        let read = |text: String| serde_json::from_str(&text).unwrap_or_default();
        let links = self.links.as_ref().map(|links| metrics::json(links));
        [
            read(metrics::json(&self.own)),
            links.map_or(Value::Null, read),
            read(metrics::json(&self.pieces)),
            read(metrics::json(&self.port)),
            read(metrics::json(&self.ecn)),
        ]
    }
}

/// The newest account of a command, or of a part of it.
#[derive(Debug, Clone, Default)]
pub(super) struct Books<M> {
    newest: Arc<Mutex<Account<M>>>,
}

impl<M: Metrics + Display + Copy + Send + 'static> Books<M> {
    /// Serves the newest account, if that is asked for.
    pub(super) fn serve(&self, options: StatsOptions) -> Result<Served, Failure> {
        let newest = Arc::clone(&self.newest);
        let books = Self { newest };
        stats::serve(options, move || {
            let mut page = Page::new();
            books.newest().add_to(&mut page, &[]);
            Ok(page)
        })
    }

    pub(super) fn newest(&self) -> Account<M> {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, account: Account<M>) {
        *self.newest.lock().unwrap_or_else(PoisonError::into_inner) = account;
    }
}
