//! Counters of a gateway: its own, its stream's, and those of other sites' streams.

use std::sync::Arc;

use qsm::Node;
use qsm::metrics::{self, prometheus::Page};
use qsm_console::failure::Failure;
use qsm_console::options::StatsOptions;
use qsm_relay::{ReceiverStats, SourceStats};
use serde_json::{Value, json};

use super::stats::SiteCounts;
use crate::commands::relay::account::Books;
use crate::stats::{self, Served};

/// Account of another site's receiver.
#[derive(Clone)]
pub(super) struct SiteBooks {
    pub(super) site: String,
    pub(super) books: Books<ReceiverStats>,
}

/// All accounts.
#[derive(Clone)]
pub(super) struct Accounts {
    pub(super) counts: Arc<SiteCounts>,
    pub(super) source: Books<SourceStats>,
    pub(super) receivers: Vec<SiteBooks>,
}

impl Accounts {
    /// Serves them with those of the node, if that is asked for.
    pub(super) fn serve(&self, node: &Node, options: StatsOptions) -> Result<Served, Failure> {
        let (accounts, node) = (self.clone(), node.clone());
        stats::serve(options, move || {
            let mut page = Page::new();
            stats::add_node(&mut page, &node)?;
            page.add(&accounts.counts.read(), &[]);
            accounts.source.newest().add_to(&mut page, &[]);
            for SiteBooks { site, books } in &accounts.receivers {
                books.newest().add_to(&mut page, &[("site", site)]);
            }
            Ok(page)
        })
    }

    /// Says at the end what was counted, if that is asked for.
    pub(super) fn say(&self, node: &Node, options: StatsOptions) {
        if let Some(format) = options.format(false) {
            stats::of_node(node, format);
            stats::of_counters(&self.counts.read(), format);
        }
        self.source.newest().say(options);
        for one in &self.receivers {
            one.books.newest().say(options);
        }
    }

    /// As an object: of the gateway, of its stream, and of other sites' streams by their names.
    pub(super) fn object(&self) -> Value {
        let own: Value =
            serde_json::from_str(&metrics::json(&self.counts.read())).unwrap_or_default();
        let [source, links, pieces, port] = self.source.newest().objects();
        let of = |one: &SiteBooks| {
            let [receiver, links, pieces, port] = one.books.newest().objects();
            (
                one.site.clone(),
                json!({ "receiver": receiver, "links": links, "pieces": pieces, "port": port }),
            )
        };
        let from: serde_json::Map<String, Value> = self.receivers.iter().map(of).collect();
        json!({ "site": own, "source": source, "links": links, "pieces": pieces, "port": port, "from": from })
    }
}
