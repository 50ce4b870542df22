//! Keys and rights of nodes, for those who are to judge what these send.

use std::sync::Arc;

use crate::service::Rights;

/// Key that a node has proven, as a text, and its rights, if it has been let in by any.
#[derive(Debug, Clone)]
pub(super) struct Proven {
    pub(super) key: String,
    pub(super) rights: Option<Arc<dyn Rights>>,
}

/// Rights follow from the key.
impl PartialEq for Proven {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Proven {}
