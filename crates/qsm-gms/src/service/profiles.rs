use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::NodeId;
use qsm_wire::membership::{About, Rates};

/// Profiles of nodes, for lists, in their own words (R-MEM-19). Only of nodes that are admitted, so there are
/// no more than of them.
#[derive(Debug, Default)]
pub(super) struct Profiles {
    nodes: BTreeMap<NodeId, Profile>,
}

#[derive(Debug)]
struct Profile {
    about: About,
    said: Instant,
    rates: Option<Rates>,
}

impl Profiles {
    /// A node says what it is; its rates are those of a former session, if any.
    pub(super) fn introduce(&mut self, now: Instant, node: NodeId, about: About) {
        let rates = self.nodes.get(&node).and_then(|profile| profile.rates);
        let profile = Profile {
            about,
            said: now,
            rates,
        };
        self.nodes.insert(node, profile);
    }

    /// A node that has said what it is says its rates.
    pub(super) fn rate(&mut self, node: NodeId, rates: Rates) {
        if let Some(profile) = self.nodes.get_mut(&node) {
            profile.rates = Some(rates);
        }
    }

    /// Present knowledge of a node.
    pub(super) fn of(&self, now: Instant, node: NodeId) -> (Option<About>, Option<Rates>) {
        let Some(profile) = self.nodes.get(&node) else {
            return (None, None);
        };
        let since = now.since(profile.said);
        let about = About {
            uptime_ms: profile.about.uptime_ms.saturating_add(milliseconds(since)),
            ..profile.about.clone()
        };
        (Some(about), profile.rates)
    }

    /// Forgets a node whose life is over.
    pub(super) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    fn about(uptime_ms: u64) -> About {
        About {
            host: "h".to_owned(),
            version: "1".to_owned(),
            uptime_ms,
        }
    }

    // Rule R-MEM-19.
    #[test]
    fn a_node_is_known_from_its_word_to_its_end() {
        let mut profiles = Profiles::default();
        let rates = Rates {
            sent: 3,
            received: 4,
        };
        profiles.rate(NODE, rates);
        assert_eq!(profiles.of(at(0), NODE), (None, None));
        profiles.introduce(at(10), NODE, about(500));
        assert_eq!(profiles.of(at(30), NODE), (Some(about(520)), None));
        profiles.rate(NODE, rates);
        assert_eq!(profiles.of(at(40), NODE), (Some(about(530)), Some(rates)));
        // In a new session, of the same life.
        profiles.introduce(at(50), NODE, about(540));
        assert_eq!(profiles.of(at(50), NODE), (Some(about(540)), Some(rates)));
        profiles.forget(NODE);
        assert_eq!(profiles.of(at(60), NODE), (None, None));
    }
}
