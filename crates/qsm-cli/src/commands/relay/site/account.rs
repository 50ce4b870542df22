//! Counters of a gateway: its own, its stream's, and those of other sites' streams.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use qsm::Node;
use qsm::metrics::{self, prometheus::Page};
use qsm_console::failure::Failure;
use qsm_console::options::StatsOptions;
use qsm_relay::{ReceiverStats, SourceStats};
use serde_json::{Value, json};

use super::gate::GateBooks;
use super::stats::SiteCounts;
use super::turns::Turns;
use crate::commands::relay::account::Books;
use crate::stats::{self, Served};

/// Account of a receiver of another site's gateway.
#[derive(Clone)]
pub(super) struct SiteBooks {
    pub(super) site: String,
    /// Address of the gateway, or of a relay between.
    pub(super) gateway: SocketAddr,
    pub(super) books: Books<ReceiverStats>,
    pub(super) gate: GateBooks,
}

/// All accounts.
#[derive(Clone)]
pub(super) struct Accounts {
    pub(super) counts: Arc<SiteCounts>,
    pub(super) source: Books<SourceStats>,
    /// Gateways of other sites that get the stream now.
    pub(super) audience: Arc<AtomicU32>,
    pub(super) turns: Arc<Turns>,
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
            for site in accounts.sites() {
                let (merge, standby) = accounts.turns.stats(site);
                page.add(&merge, &[("site", site)]);
                page.add(&standby, &[("site", site)]);
            }
            for one in &accounts.receivers {
                let gateway = one.gateway.to_string();
                let labels = [("site", &*one.site), ("gateway", &*gateway)];
                one.books.newest().add_to(&mut page, &labels);
                page.add(&one.gate.read(), &labels);
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
        if let Some(format) = options.format(false) {
            for site in self.sites() {
                let (merge, standby) = self.turns.stats(site);
                stats::of_counters(&merge, format);
                stats::of_counters(&standby, format);
            }
        }
        for one in &self.receivers {
            one.books.newest().say(options);
            if let Some(format) = options.format(false) {
                stats::of_counters(&one.gate.read(), format);
            }
        }
    }

    /// As an object: of the gateway, of its stream, and of other sites by their names.
    pub(super) fn object(&self) -> Value {
        let read = |text: String| serde_json::from_str::<Value>(&text).unwrap_or_default();
        let own = read(metrics::json(&self.counts.read()));
        let [source, links, pieces, port, ecn] = self.source.newest().objects();
        let of = |one: &SiteBooks| {
            let [receiver, links, pieces, port, ecn] = one.books.newest().objects();
            let gate = read(metrics::json(&one.gate.read()));
            let account = json!({
                "receiver": receiver, "links": links, "pieces": pieces, "port": port, "ecn": ecn,
                "gate": gate
            });
            (one.gateway.to_string(), account)
        };
        let from = self.sites().into_iter().map(|site| {
            let receivers = self.receivers.iter().filter(|one| one.site == site);
            let gateways: serde_json::Map<String, Value> = receivers.map(of).collect();
            let (merge, standby) = self.turns.stats(site);
            let (merge, standby) = (read(metrics::json(&merge)), read(metrics::json(&standby)));
            let account = json!({ "gateways": gateways, "merge": merge, "standby": standby });
            (site.to_owned(), account)
        });
        let from: serde_json::Map<String, Value> = from.collect();
        json!({ "site": own, "source": source, "links": links, "pieces": pieces, "port": port, "ecn": ecn, "from": from })
    }

    fn sites(&self) -> BTreeSet<&str> {
        self.receivers.iter().map(|one| &*one.site).collect()
    }
}
