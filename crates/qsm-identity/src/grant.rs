//! Rights that a token gives.

use crate::keys::{NodePublic, RootKey};
use crate::pattern::Pattern;
use crate::role::{Role, Roles};
use crate::serial::Serial;

/// Rights of a token that has been verified. It holds until [`Grant::expires`]; whoever keeps it looks at the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub(crate) root: RootKey,
    pub(crate) serial: Serial,
    pub(crate) name: Pattern,
    pub(crate) node_key: Option<NodePublic>,
    pub(crate) roles: Roles,
    pub(crate) expires: u64,
    pub(crate) publish: Vec<Pattern>,
    pub(crate) subscribe: Vec<Pattern>,
}

impl Grant {
    /// The root that signed the token.
    #[must_use]
    pub fn root(&self) -> RootKey {
        self.root
    }

    /// Number of the token.
    #[must_use]
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// All roles.
    #[must_use]
    pub fn roles(&self) -> Roles {
        self.roles
    }

    /// The key that the token is bound to, if it is to one.
    #[must_use]
    pub fn node_key(&self) -> Option<NodePublic> {
        self.node_key
    }

    /// First second at which it holds no more.
    #[must_use]
    pub fn expires(&self) -> u64 {
        self.expires
    }

    /// Groups that the node may publish to, if it has that role.
    #[must_use]
    pub fn publish(&self) -> &[Pattern] {
        &self.publish
    }

    /// Groups that the node may receive, if it has that role.
    #[must_use]
    pub fn subscribe(&self) -> &[Pattern] {
        &self.subscribe
    }

    /// Returns whether a node may have this name.
    #[must_use]
    pub fn may_join(&self, name: &str) -> bool {
        self.name.matches(name)
    }

    /// Returns whether the node may publish to the group of this name.
    #[must_use]
    pub fn may_publish(&self, group: &str) -> bool {
        self.roles.has(Role::Publish) && any(&self.publish, group)
    }

    /// Returns whether the node may receive the group of this name.
    #[must_use]
    pub fn may_subscribe(&self, group: &str) -> bool {
        self.roles.has(Role::Subscribe) && any(&self.subscribe, group)
    }
}

fn any(patterns: &[Pattern], group: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(group))
}
