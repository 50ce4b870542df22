use qsm::{GroupRow, NodeRow, RegionRow};

use super::here::HereNode;

/// State of what a line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Health {
    /// Nobody waits for it, or something is lost.
    Bad,
    /// Something costs more than it should.
    Doubtful,
    /// Nothing is wrong.
    Good,
}

impl Health {
    pub(crate) fn of_node(row: &NodeRow) -> Self {
        match (row.away.is_some(), row.deaf) {
            (true, _) => Self::Bad,
            (false, true) => Self::Doubtful,
            (false, false) => Self::Good,
        }
    }

    pub(crate) fn of_group(row: &GroupRow) -> Self {
        match row.members == 0 && row.publishers > 0 {
            true => Self::Doubtful,
            false => Self::Good,
        }
    }

    pub(crate) fn of_region(row: &RegionRow) -> Self {
        let away = row.members.iter().filter(|member| member.is_away()).count();
        match (away, row.members.len()) {
            (0, _) => Self::Good,
            (away, all) if away == all => Self::Bad,
            _ => Self::Doubtful,
        }
    }

    pub(crate) fn of_here(node: &HereNode) -> Self {
        match node.trouble() {
            None => Self::Good,
            Some(_) if node.is_bad() => Self::Bad,
            Some(_) => Self::Doubtful,
        }
    }
}
