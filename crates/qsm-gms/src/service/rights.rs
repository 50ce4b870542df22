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

    /// The public key that it has proven, as a text.
    fn key(&self) -> String;

    /// Its key and its rights in one line, for lists.
    fn summary(&self) -> String;
}

/// The rights of nodes. Where none are needed, who has none may do everything; where they are, nothing.
#[derive(Debug)]
pub(super) struct RightsTable {
    needed: bool,
    nodes: BTreeMap<NodeId, Arc<dyn Rights>>,
}

impl RightsTable {
    pub(super) fn new(needed: bool) -> Self {
        let nodes = BTreeMap::new();
        Self { needed, nodes }
    }

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
            return !self.needed;
        };
        let groups = &mut hello.groups;
        groups.retain(|report| rights.permits(report.role, &report.name));
        hello.name == rights.name()
    }

    /// Reason for which a node may not have a role in all of these groups, if there is one.
    pub(super) fn refusal(&self, node: NodeId, role: Role, names: &[String]) -> Option<String> {
        let Some(rights) = self.nodes.get(&node) else {
            let reason = "the node has not been admitted, or not any more; start it again";
            return self.needed.then(|| reason.to_owned());
        };
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

        fn key(&self) -> String {
            "qsm-node-1.x".to_owned()
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
            repairs: qsm_wire::membership::ToldLimit::default(),
        }
    }

    // Rule R-SEC-13.
    #[test]
    fn a_node_with_rights_has_its_name_and_its_groups_and_no_others() {
        let mut table = RightsTable::new(true);
        let node = NodeId(2);
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
        assert!(!table.takes(node, &mut hello("writer", "prices/eur")));
        let mut own = hello("reader", "orders");
        assert!(table.takes(node, &mut own) && own.groups.is_empty());
    }

    // Rule R-SEC-13.
    #[test]
    fn a_node_without_rights_may_do_nothing_where_they_are_needed() {
        let node = NodeId(2);
        let group = ["prices/eur".to_owned()];
        let mut named = hello("reader", "prices/eur");
        let mut table = RightsTable::new(true);
        let is_out = |table: &RightsTable, named: &mut Hello| {
            let refusal = table.refusal(node, Role::Subscriber, &group);
            refusal.is_some() && !table.takes(node, named) && table.summary(node).is_none()
        };
        assert!(is_out(&table, &mut named));
        table.set(node, Arc::new(Reader));
        assert!(!is_out(&table, &mut named));
        table.forget(node);
        assert!(is_out(&table, &mut named));

        let open = RightsTable::new(false);
        assert_eq!(open.refusal(node, Role::Publisher, &group), None);
        assert!(open.takes(node, &mut named) && named.groups.len() == 1);
    }
}
