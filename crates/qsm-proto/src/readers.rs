//! Groups whose readers take no more at present (R-DATA-13).

use qsm_wire::{Data, GroupId};

/// Groups whose messages this node's application has no room for now.
///
/// Delivery of a stream stops before the first packet that has a message of one of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FullReaders {
    /// There is room for all.
    #[default]
    None,
    /// There is none for these: ascending, each once, and some.
    Of(Vec<GroupId>),
    /// There is none for any group.
    All,
}

impl FullReaders {
    /// There is no room for these groups, in any order.
    #[must_use]
    pub fn of(mut groups: Vec<GroupId>) -> Self {
        groups.sort_unstable();
        groups.dedup();
        match groups.is_empty() {
            true => Self::None,
            false => Self::Of(groups),
        }
    }

    /// Tells whether there is room for all.
    #[must_use]
    #[inline]
    pub fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }

    /// Tells whether there is no room for messages of this group.
    #[must_use]
    #[inline]
    pub fn holds(&self, group: GroupId) -> bool {
        match self {
            Self::None => false,
            Self::Of(groups) => groups.binary_search(&group).is_ok(),
            Self::All => true,
        }
    }

    /// Tells whether a packet has to wait.
    #[inline]
    pub(crate) fn stops(&self, packet: &Data<'_>) -> bool {
        !self.is_none() && packet.chunks().any(|chunk| self.holds(chunk.group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_held_by_number_and_none_is_nothing() {
        let full = FullReaders::of(vec![GroupId(9), GroupId(3), GroupId(9)]);
        assert_eq!(full, FullReaders::Of(vec![GroupId(3), GroupId(9)]));
        let holds = |group| full.holds(GroupId(group));
        assert_eq!([3, 4, 9].map(holds), [true, false, true]);
        assert_eq!(FullReaders::of(Vec::new()), FullReaders::None);
        assert!(FullReaders::All.holds(GroupId(4)));
        assert!(!FullReaders::None.holds(GroupId(4)));
    }
}
