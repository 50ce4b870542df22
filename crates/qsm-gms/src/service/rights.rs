use core::fmt;
use std::collections::BTreeMap;
use std::sync::Arc;

use qsm_wire::NodeId;
use qsm_wire::membership::{Hello, Role};

/// Rights of a node that has proven who it is. Who gives them is decided outside; what they say must not change
/// while a service has them (R-SEC-13).
pub trait Rights: fmt::Debug + Send + Sync {
    /// The name that it was let in by.
    fn name(&self) -> &str;

    /// Returns whether it may have this role in the group of this name.
    fn permits(&self, role: Role, group: &str) -> bool;

    /// Its key and its rights in one line, for lists.
    fn summary(&self) -> String;
}

/// The rights of nodes. In an open cluster nobody has any, and everybody may do everything.
#[derive(Debug, Default)]
pub(super) struct RightsTable {
    nodes: BTreeMap<NodeId, Arc<dyn Rights>>,
}

impl RightsTable {
    pub(super) fn set(&mut self, node: NodeId, rights: Arc<dyn Rights>) {
        self.nodes.insert(node, rights);
    }

    pub(super) fn forget(&mut self, node: NodeId) {
        self.nodes.remove(&node);
    }

    pub(super) fn summary(&self, node: NodeId) -> Option<String> {
        self.nodes.get(&node).map(|rights| rights.summary())
    }

    /// Returns whether a hello is one of the node that was let in. Groups that it may not have are left out.
    pub(super) fn takes(&self, node: NodeId, hello: &mut Hello) -> bool {
        let Some(rights) = self.nodes.get(&node) else {
            return true;
        };
        let groups = &mut hello.groups;
        groups.retain(|report| rights.permits(report.role, &report.name));
        hello.name == rights.name()
    }

    /// Reason for which a node may not have a role in all of these groups, if there is one.
    pub(super) fn refusal(&self, node: NodeId, role: Role, names: &[String]) -> Option<String> {
        let rights = self.nodes.get(&node)?;
        let mut names = names.iter();
        let name = names.find(|name| !rights.permits(role, name))?;
        let what = match role {
            Role::Subscriber => "receive",
            Role::Publisher => "publish to",
        };
        Some(format!(
            "the node's token does not allow it to {what} the group {name:?}; ask who has the cluster's root for a \
             token that does"
        ))
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::membership::GroupReport;

    use super::*;

    #[derive(Debug)]
    struct Reader;

    impl Rights for Reader {
        fn name(&self) -> &'static str {
            "reader"
        }

        fn permits(&self, role: Role, group: &str) -> bool {
            role == Role::Subscriber && group.starts_with("prices/")
        }

        fn summary(&self) -> String {
            "reads prices".to_owned()
        }
    }

    fn hello(name: &str, group: &str) -> Hello {
        Hello {
            name: name.to_owned(),
            address: "127.0.0.1:1".parse().unwrap(),
            second: None,
            incarnation: qsm_wire::Incarnation(0),
            term: 0,
            groups: vec![GroupReport {
                group: None,
                name: group.to_owned(),
                role: Role::Subscriber,
            }],
            regions: Vec::new(),
            region_last: qsm_wire::RegionId(0),
            channel_last: qsm_wire::ChannelId(0),
            group_end: qsm_wire::GroupId(0),
            incarnation_last: qsm_wire::Incarnation(0),
            dead: Vec::new(),
            senders: Vec::new(),
            published: false,
        }
    }

    // Rule R-SEC-13.
    #[test]
    fn a_node_with_rights_has_its_name_and_its_groups_and_no_others() {
        let mut table = RightsTable::default();
        let (node, free) = (NodeId(2), NodeId(3));
        table.set(node, Arc::new(Reader));
        let names = |name: &str| [name.to_owned()];
        let refused = |node, role, name| table.refusal(node, role, &names(name));
        assert_eq!(refused(node, Role::Subscriber, "prices/eur"), None);
        let reason = refused(node, Role::Publisher, "prices/eur").unwrap();
        assert!(
            reason.contains("publish to the group \"prices/eur\""),
            "{reason}"
        );
        let reason = refused(node, Role::Subscriber, "orders").unwrap();
        assert!(reason.contains("receive the group \"orders\""), "{reason}");
        assert_eq!(refused(free, Role::Publisher, "orders"), None);
        let mut other = hello("writer", "prices/eur");
        assert!(!table.takes(node, &mut other) && table.takes(free, &mut other));
        let mut own = hello("reader", "orders");
        assert!(table.takes(node, &mut own) && own.groups.is_empty());
        table.forget(node);
        assert_eq!(
            (table.summary(node), table.takes(node, &mut other)),
            (None, true)
        );
    }
}
