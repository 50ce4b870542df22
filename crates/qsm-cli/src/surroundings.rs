//! The place of a node, for its first line: interface, cluster and the others.

use qsm::{Node, NodeId};
use qsm_console::figures;
use qsm_console::names::Names;
use qsm_console::options::{AttachOptions, NodeOptions};
use qsm_console::table::printable;

/// Groups that a line names.
const GROUPS_SHOWN: usize = 4;

/// The place of a node, and the number of the others.
#[derive(Debug)]
pub(crate) struct Surroundings {
    /// Its interfaces, or its engine.
    by: String,
    /// Unknown of an engine.
    cluster: Option<String>,
    /// Unknown where no service answers.
    others: Option<usize>,
}

impl Surroundings {
    /// As the node and the membership service say; learns the names of the others.
    pub(crate) fn of(
        node: &Node,
        options: &NodeOptions,
        attach: &AttachOptions,
        names: &Names,
    ) -> Self {
        let (by, cluster) = match &attach.attach {
            Some(path) => (format!("the engine at {}", path.display()), None),
            None => (interfaces(node, options), Some(&options.network.cluster)),
        };
        let rows = node.list_nodes().ok();
        let own: Vec<NodeId> = node.ids().collect();
        let others = rows.map(|rows| {
            let others = rows.iter().filter(|row| !own.contains(&row.origin.node));
            let others = others.count();
            names.learn(rows);
            others
        });
        Self {
            by,
            cluster: cluster.cloned(),
            others,
        }
    }

    /// `by eth0 (10.0.0.1), in cluster default, with 2 other nodes`.
    #[must_use]
    pub(crate) fn sentence(&self) -> String {
        let cluster = self.cluster.as_ref();
        let cluster = cluster.map(|name| format!(", in cluster {}", printable(name)));
        let others = match self.others {
            None => String::new(),
            Some(0) => ", with no other node so far".to_owned(),
            Some(1) => ", with 1 other node".to_owned(),
            Some(many) => format!(", with {} other nodes", figures::count(many as u64)),
        };
        format!("by {}{}{others}", self.by, cluster.unwrap_or_default())
    }
}

/// By name and address; the second one as it was given.
fn interfaces(node: &Node, options: &NodeOptions) -> String {
    let first = match node.io_report() {
        Ok(report) => report.interface.to_string(),
        Err(_) => "an unknown interface".to_owned(),
    };
    match options.network.interface.get(1) {
        Some(second) => format!("{first} and {second}"),
        None => first,
    }
}

/// The first few of the groups.
#[must_use]
pub(crate) fn groups(names: &[String]) -> String {
    let shown = names.iter().take(GROUPS_SHOWN).map(|name| printable(name));
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(GROUPS_SHOWN) {
        0 => shown,
        more => format!("{shown} and {} more", figures::count(more as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings(others: Option<usize>) -> String {
        let cluster = Some("blue\n".to_owned());
        let by = "eth0 (10.0.0.1)".to_owned();
        let here = Surroundings {
            by,
            cluster,
            others,
        };
        here.sentence()
    }

    #[test]
    fn a_node_says_where_it_is_and_with_whom() {
        let begin = "by eth0 (10.0.0.1), in cluster blue\\n";
        assert_eq!(surroundings(None), begin);
        for (others, end) in [
            (0, "no other node so far"),
            (1, "1 other node"),
            (2000, "2,000 other nodes"),
        ] {
            assert_eq!(surroundings(Some(others)), format!("{begin}, with {end}"));
        }
    }

    #[test]
    fn a_few_groups_are_named() {
        let names = ["a", "b\n", "c", "d", "e", "f"].map(str::to_owned);
        assert_eq!(groups(&names[..2]), "a, b\\n");
        assert_eq!(groups(&names), "a, b\\n, c, d and 2 more");
    }
}
