use std::collections::{BTreeMap, VecDeque};

use qsm_wire::NodeId;

/// Sessions that are over, the newest of each node: copies of their first frames that are still
/// under way must not begin them again. The node has had the answers, and would take those of the
/// second beginning for repetitions (R-MEM-3).
#[derive(Debug, Default)]
pub(super) struct Ended {
    newest: BTreeMap<NodeId, u64>,
    order: VecDeque<NodeId>,
}

/// Nodes remembered; the one that came first is forgotten if there are too many.
const ENDED_MAX: usize = 1 << 16;
/// The ids of a process's sessions follow each other from a random one: one that is lower by more
/// than this is no echo, but of another process.
const ECHO_MAX: u64 = 1 << 16;

impl Ended {
    pub(super) fn insert(&mut self, node: NodeId, session: u64) {
        if self.contains(node, session) || self.newest.insert(node, session).is_some() {
            return;
        }
        self.order.push_back(node);
        if self.order.len() > ENDED_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.newest.remove(&oldest);
        }
    }

    /// Whether this session of the node is over.
    pub(super) fn contains(&self, node: NodeId, session: u64) -> bool {
        let newest = self.newest.get(&node);
        let age = newest.and_then(|newest| newest.checked_sub(session));
        age.is_some_and(|age| age < ECHO_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Rule R-MEM-3.
    #[test]
    fn a_session_is_over_when_it_or_a_later_one_of_its_process_has_ended() {
        let (node, other) = (NodeId(1), NodeId(2));
        let mut ended = Ended::default();
        ended.insert(node, 1 << 20);
        ended.insert(node, (1 << 20) - 1);
        assert!(ended.contains(node, 1 << 20) && ended.contains(node, (1 << 20) - 1));
        assert!(!ended.contains(node, (1 << 20) + 1) && !ended.contains(other, 1 << 20));
        assert!(!ended.contains(node, 1 << 19));
        ended.insert(node, 1 << 19);
        assert!(ended.contains(node, 1 << 19) && !ended.contains(node, 1 << 20));
    }

    #[test]
    fn the_first_node_is_forgotten_if_there_are_too_many() {
        let mut ended = Ended::default();
        for node in 0..=65_536 {
            ended.insert(NodeId(node), 5);
        }
        assert!(!ended.contains(NodeId(0), 5));
        assert!(ended.contains(NodeId(1), 5) && ended.contains(NodeId(65_536), 5));
    }
}
