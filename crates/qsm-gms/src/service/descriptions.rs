use std::collections::BTreeMap;

use qsm_wire::NodeId;
use qsm_wire::membership::is_description;

/// Memory for the descriptions of all nodes, bytes.
const BYTES_MAX: usize = 1 << 20;

/// Texts of nodes on themselves, for lists (R-MEM-21). Only of nodes that are admitted.
#[derive(Debug, Default)]
pub(super) struct Descriptions {
    nodes: BTreeMap<NodeId, String>,
    bytes: usize,
}

impl Descriptions {
    /// A node describes itself anew; by an empty text not any more. False: the text is none, or there is no room for
    /// it, and the node has no description now.
    pub(super) fn describe(&mut self, node: NodeId, text: String) -> bool {
        self.forget(node);
        if !is_description(&text) || self.bytes + text.len() > BYTES_MAX {
            return false;
        }
        if !text.is_empty() {
            self.bytes += text.len();
            self.nodes.insert(node, text);
        }
        true
    }

    /// The newest description of a node.
    pub(super) fn of(&self, node: NodeId) -> Option<&String> {
        self.nodes.get(&node)
    }

    /// Forgets a node whose life is over.
    pub(super) fn forget(&mut self, node: NodeId) {
        if let Some(text) = self.nodes.remove(&node) {
            self.bytes -= text.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::membership::DESCRIPTION_BYTES_MAX;

    use super::*;

    // Rule R-MEM-21.
    #[test]
    fn a_nodes_newest_description_is_kept_until_its_end() {
        let (node, mut all) = (NodeId(7), Descriptions::default());
        assert!(all.describe(node, "one".to_owned()) && all.describe(node, "two".to_owned()));
        assert_eq!(all.of(node).map(String::as_str), Some("two"));
        assert!(!all.describe(node, "\u{1b}[2J".to_owned()));
        assert_eq!(all.of(node), None);
        assert!(all.describe(node, "one".to_owned()) && all.describe(node, String::new()));
        assert_eq!(all.of(node), None);
        assert!(all.describe(node, "one".to_owned()));
        all.forget(node);
        assert_eq!((all.of(node), all.bytes), (None, 0));
    }

    // Rule R-MEM-21.
    #[test]
    fn memory_is_bounded_for_all_together() {
        let (mut all, longest) = (Descriptions::default(), "d".repeat(DESCRIPTION_BYTES_MAX));
        let room = (BYTES_MAX / DESCRIPTION_BYTES_MAX) as u64;
        for node in 0..room {
            assert!(all.describe(NodeId(node), longest.clone()), "{node}");
        }
        assert!(!all.describe(NodeId(room), "d".to_owned()));
        assert!(all.describe(NodeId(0), longest));
        all.forget(NodeId(0));
        assert!(all.describe(NodeId(room), "d".to_owned()));
    }
}
