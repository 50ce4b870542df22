use core::cmp::Ordering;
use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::NodeId;

/// Silence that counts as one between these two, and not as a slow or a lost token.
const SILENT: Duration = Duration::from_millis(500);
/// Silence after which one of them is set aside. Those who report do so once a second: by then
/// others have reported, too, if they do not hear the same one.
const LASTING: Duration = Duration::from_millis(1500);
/// Age of a report after which it is over.
const FRESH: Duration = Duration::from_millis(2500);
/// Suspicions kept; beyond that new ones are not.
const SUSPICIONS_MAX: usize = 1024;

/// Members that do not hear each other although the service hears both (R-MEM-16): something
/// between them, such as a firewall, keeps them apart.
///
/// Members are the nodes of a graph whose edges are suspicions. When one of them has lasted, the one
/// of its ends with more edges is cut off from the others; if both have as many, the one that is less
/// likely to lead rings.
#[derive(Debug, Default)]
pub(crate) struct Suspicions {
    /// When it was reported last, by who reports and of whom.
    edges: BTreeMap<(NodeId, NodeId), Instant>,
}

impl Suspicions {
    /// Notes that `reporter` has not heard `subject` for so long; `minor` is the one of the two that
    /// is less likely to lead. Returns the one of the two that is cut off, if that has lasted.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        reporter: NodeId,
        subject: NodeId,
        silent: Duration,
        minor: NodeId,
    ) -> Option<NodeId> {
        self.edges.retain(|_, last| now.since(*last) < FRESH);
        let ends = (reporter, subject);
        let full = self.edges.len() >= SUSPICIONS_MAX && !self.edges.contains_key(&ends);
        if reporter == subject || silent < SILENT || full {
            return None;
        }
        self.edges.insert(ends, now);
        if silent < LASTING {
            return None;
        }
        let cut_off = match self.degree(reporter).cmp(&self.degree(subject)) {
            Ordering::Greater => reporter,
            Ordering::Equal => minor,
            Ordering::Less => subject,
        };
        self.forget(cut_off);
        Some(cut_off)
    }

    /// Forgets what is said by and of a node.
    pub(crate) fn forget(&mut self, node: NodeId) {
        self.edges
            .retain(|(reporter, subject), _| *reporter != node && *subject != node);
    }

    fn degree(&self, node: NodeId) -> usize {
        let ends = self.edges.keys();
        ends.filter(|(a, b)| *a == node || *b == node).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Everybody reports once a second for as long as it has not heard the other: when somebody is cut
    /// off, and who.
    fn report(edges: &[(u64, u64)]) -> Option<(u64, NodeId)> {
        let mut suspicions = Suspicions::default();
        (0..10).find_map(|second| {
            let silent = Duration::from_secs(second);
            let cut_off = edges.iter().map(|(reporter, subject)| {
                let (reporter, subject) = (NodeId(*reporter), NodeId(*subject));
                let minor = reporter.max(subject);
                suspicions.note(at(second * 1000), reporter, subject, silent, minor)
            });
            let cut_off: Vec<_> = cut_off.flatten().collect();
            cut_off.first().map(|node| (second, *node))
        })
    }

    // Rule R-MEM-16.
    #[test]
    fn a_silence_that_lasts_names_the_one_that_fewer_hear() {
        assert_eq!(report(&[(1, 2)]), Some((2, NodeId(2))));
        // One that hears neither its neighbour nor the leader, which is that neighbour.
        assert_eq!(report(&[(3, 1), (1, 3)]), Some((2, NodeId(3))));
        // A leader that hears nobody, and one of those, who does not hear it.
        let leader = [(9, 1), (9, 2), (9, 3), (1, 9)];
        assert_eq!(report(&leader), Some((2, NodeId(9))));
    }

    #[test]
    fn short_silences_and_what_others_say_set_nobody_aside() {
        let mut suspicions = Suspicions::default();
        for second in 0..20 {
            for silent in [0, 70, 400, 1400] {
                let silent = Duration::from_millis(silent);
                let word =
                    suspicions.note(at(second * 1000), NodeId(1), NodeId(2), silent, NodeId(2));
                assert_eq!(word, None);
            }
        }
    }

    #[test]
    fn suspicions_are_limited() {
        let mut suspicions = Suspicions::default();
        for node in 0..2000 {
            suspicions.note(at(0), NodeId(node), NodeId(node + 1), SILENT, NodeId(node));
        }
        assert_eq!(suspicions.edges.len(), SUSPICIONS_MAX);
        // Those that are kept are judged.
        let word = suspicions.note(at(100), NodeId(5), NodeId(6), LASTING, NodeId(6));
        assert_eq!(word, Some(NodeId(6)));
    }
}
