//! Order in which replicas apply updates.

use serde::{Deserialize, Serialize};

/// Order in which the replicas of a group apply updates: the same one at all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Order {
    /// Updates of one replica in its order, those of several in another order at each replica: they must commute.
    #[default]
    Source,
    /// All updates in one sequence, which a sequencer among the replicas gives: they need not commute. Two replicas
    /// that apply an update at the same position of the same [`History`](crate::History) apply the same one, also
    /// those that die or bind anew afterwards. An update is applied a round trip later than it would be otherwise.
    Total,
}
