use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_wire::NodeId;

/// Time over which a member must have found another one silent, again and again, while the service
/// heard both.
const LASTING: Duration = Duration::from_millis(500);
/// Age of a suspicion that has not been repeated, after which it is over: rounds are a second apart
/// at most.
const FRESH: Duration = Duration::from_millis(2500);
/// Reports that it takes.
const REPORTS_MIN: u32 = 3;
/// Suspicions kept; beyond that new ones are not.
const SUSPICIONS_MAX: usize = 1024;

/// A member does not hear another one.
#[derive(Debug, Clone, Copy)]
struct Suspicion {
    first: Instant,
    last: Instant,
    reports: u32,
}

/// Members that do not hear each other although the service hears both (R-MEM-16): something
/// between them, such as a firewall, keeps them apart.
///
/// Members are the nodes of a graph whose edges are suspicions. When one of them has lasted, the one
/// of its ends with more edges is cut off from the others.
#[derive(Debug, Default)]
pub(crate) struct Suspicions {
    /// By who reports and of whom.
    edges: BTreeMap<(NodeId, NodeId), Suspicion>,
}

impl Suspicions {
    /// Notes that `reporter` does not hear `subject`. Returns the one of the two that is cut off, if
    /// that has lasted.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        reporter: NodeId,
        subject: NodeId,
    ) -> Option<NodeId> {
        self.edges.retain(|_, edge| now.since(edge.last) < FRESH);
        let ends = (reporter, subject);
        let full = self.edges.len() >= SUSPICIONS_MAX && !self.edges.contains_key(&ends);
        if reporter == subject || full {
            return None;
        }
        let edge = self.edges.entry(ends).or_insert(Suspicion {
            first: now,
            last: now,
            reports: 0,
        });
        edge.last = now;
        edge.reports += 1;
        if !edge.lasts() {
            return None;
        }
        let cut_off = match self.degree(reporter) > self.degree(subject) {
            true => reporter,
            false => subject,
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
        let repeated = self.edges.iter().filter(|(_, edge)| edge.reports > 1);
        let of_node = repeated.filter(|((a, b), _)| *a == node || *b == node);
        of_node.count()
    }
}

impl Suspicion {
    fn lasts(&self) -> bool {
        self.reports >= REPORTS_MIN && self.last.since(self.first) >= LASTING
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    /// Reports every 100 ms until somebody is cut off: when, and who.
    fn report(edges: &[(u64, u64)]) -> Option<(u64, NodeId)> {
        let mut suspicions = Suspicions::default();
        (0..50).find_map(|step| {
            let cut_off = edges.iter().map(|(reporter, subject)| {
                suspicions.note(at(step * 100), NodeId(*reporter), NodeId(*subject))
            });
            let cut_off: Vec<_> = cut_off.flatten().collect();
            cut_off.first().map(|node| (step * 100, *node))
        })
    }

    // Rule R-MEM-16.
    #[test]
    fn a_suspicion_that_lasts_names_the_one_with_most_of_them() {
        assert_eq!(report(&[(1, 2)]), Some((500, NodeId(2))));
        // A leader that hears nobody, and one of those, who does not hear it.
        let leader = [(9, 1), (9, 2), (9, 3), (1, 9)];
        assert_eq!(report(&leader), Some((500, NodeId(9))));
    }

    #[test]
    fn a_suspicion_that_is_not_repeated_is_over() {
        let mut suspicions = Suspicions::default();
        for step in 0..5 {
            let word = suspicions.note(at(step * 3000), NodeId(1), NodeId(2));
            assert_eq!(word, None);
        }
    }

    #[test]
    fn suspicions_are_limited() {
        let mut suspicions = Suspicions::default();
        for node in 0..2000 {
            suspicions.note(at(0), NodeId(node), NodeId(node + 1));
        }
        assert_eq!(suspicions.edges.len(), SUSPICIONS_MAX);
        // Those that are kept are judged.
        let word = (1..9).find_map(|step| suspicions.note(at(step * 100), NodeId(5), NodeId(6)));
        assert_eq!(word, Some(NodeId(6)));
    }
}
