//! Turns that this gateway and others of its site take in publishing the messages of each other site.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use qsm::{Origin, Relayed};
use qsm_relay::{Merge, MergeStats, Standby, StandbySettings, StandbyStats};

/// Memory for messages that wait for those before them, of each other site.
const MERGE_BYTES: usize = 16 << 20;

/// A sender of another site, in a group.
pub(super) type Key = (Arc<str>, Origin);

/// Part of this gateway in publishing one site's messages, which are with their trailers.
pub(super) struct Part {
    /// Messages that the site's gateways send.
    pub(super) merge: Merge<Key, Vec<u8>>,
    /// Messages of these that this one publishes.
    pub(super) standby: Standby<Key, Vec<u8>>,
}

/// Parts of all other sites, by their names.
pub(super) struct Turns {
    began: Instant,
    parts: BTreeMap<String, Mutex<Part>>,
}

impl Turns {
    /// For sites with so many gateways each. Of two gateways that publish the one with the lower rank goes on; messages
    /// that another one publishes are kept in this memory.
    pub(super) fn new<'a>(
        rank: u64,
        memory: usize,
        sites: impl Iterator<Item = (&'a str, usize)>,
    ) -> Self {
        let began = Instant::now();
        let part = |(site, gateways): (&str, usize)| {
            let settings = StandbySettings::new(rank, memory);
            let part = Part {
                merge: Merge::new(gateways, MERGE_BYTES),
                standby: Standby::new(settings, qsm_wire::Instant(0)),
            };
            (site.to_owned(), Mutex::new(part))
        };
        let parts = sites.map(part).collect();
        Self { began, parts }
    }

    /// The time since the beginning.
    pub(super) fn now(&self) -> qsm_wire::Instant {
        qsm_wire::Instant(0).after(self.began.elapsed())
    }

    /// The part in a site, if it is one of the others.
    pub(super) fn of(&self, site: &str) -> Option<MutexGuard<'_, Part>> {
        let part = self.parts.get(site)?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes note of a message of another site, which the gateway with this rank has published in this cluster.
    pub(super) fn hear(&self, rank: u64, group: &str, relayed: &Relayed<'_>) {
        if let Some(mut part) = self.of(relayed.site) {
            let key = (Arc::from(group), relayed.sender);
            let now = self.now();
            part.merge.pass_over(&key, relayed.number);
            part.standby.hear(now, rank, &key, relayed.number);
        }
    }

    /// Accounts of a site.
    pub(super) fn stats(&self, site: &str) -> (MergeStats, StandbyStats) {
        let part = self.of(site);
        let stats = part.map(|part| (part.merge.stats(), part.standby.stats()));
        stats.unwrap_or_default()
    }
}
