//! Rights that a token gives, or another authority.

use crate::form::{self, GROUP_BYTES_MAX, Malformed, NODE_NAME_BYTES_MAX};
use crate::keys::{NodePublic, RootKey};
use crate::pattern::Pattern;
use crate::role::{Role, Roles};
use crate::serial::Serial;

/// Most patterns of groups to publish to, and most to receive.
pub const PATTERNS_MAX: usize = 64;

/// Rights that another authority than a cluster's root gives a node, by its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// Names that the node may have, 1 to [`NODE_NAME_BYTES_MAX`] bytes.
    pub name: Pattern,
    /// The key that the node must have.
    pub node_key: NodePublic,
    /// Roles of the node; at least one.
    pub roles: Roles,
    /// First second at which they hold no more.
    pub expires: u64,
    /// Groups that it may publish to, in order: at least one with [`Role::Publish`], none without.
    pub publish: Vec<Pattern>,
    /// Groups that it may receive, in order: at least one with [`Role::Subscribe`], none without.
    pub subscribe: Vec<Pattern>,
}

/// Origin of a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Issuer {
    /// A root, by a token of this number.
    Root { root: RootKey, serial: Serial },
    /// Another authority, which whoever asks for the grant has judged.
    Other,
}

/// Rights of a token or certificate that has been verified. It holds until [`Grant::expires`]; whoever keeps it looks at the time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    pub(crate) issuer: Issuer,
    pub(crate) name: Pattern,
    pub(crate) node_key: Option<NodePublic>,
    pub(crate) roles: Roles,
    pub(crate) expires: u64,
    pub(crate) publish: Vec<Pattern>,
    pub(crate) subscribe: Vec<Pattern>,
}

impl Grant {
    /// Of an authority whose word has been checked already.
    ///
    /// # Errors
    /// [`Malformed`]: no token could say this either.
    pub fn of_authority(rights: Rights) -> Result<Self, Malformed> {
        let Rights { name, roles, .. } = &rights;
        if roles.is_empty() {
            return Err(Malformed::NoRole);
        }
        form::check_name("the node's name", name.as_str(), NODE_NAME_BYTES_MAX)?;
        check_groups(*roles, &rights.publish, &rights.subscribe)?;
        for groups in [&rights.publish, &rights.subscribe] {
            if groups.len() > PATTERNS_MAX {
                return Err(Malformed::TooMany {
                    of: "patterns of groups",
                    max: PATTERNS_MAX,
                });
            }
            for group in groups {
                form::check_name("a group's name", group.as_str(), GROUP_BYTES_MAX)?;
            }
        }
        Ok(Self {
            issuer: Issuer::Other,
            name: rights.name,
            node_key: Some(rights.node_key),
            roles: rights.roles,
            expires: rights.expires,
            publish: rights.publish,
            subscribe: rights.subscribe,
        })
    }

    /// The root that signed the token, if it is of one.
    #[must_use]
    pub fn root(&self) -> Option<RootKey> {
        match self.issuer {
            Issuer::Root { root, .. } => Some(root),
            Issuer::Other => None,
        }
    }

    /// Number of the token, if it is of one.
    #[must_use]
    pub fn serial(&self) -> Option<Serial> {
        match self.issuer {
            Issuer::Root { serial, .. } => Some(serial),
            Issuer::Other => None,
        }
    }

    /// All roles.
    #[must_use]
    pub fn roles(&self) -> Roles {
        self.roles
    }

    /// The key that it is bound to, if it is to one.
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

/// Checks that there are groups where a role is for groups, and only there, and that they are in order.
pub(crate) fn check_groups(
    roles: Roles,
    publish: &[Pattern],
    subscribe: &[Pattern],
) -> Result<(), Malformed> {
    for (role, groups) in [(Role::Publish, publish), (Role::Subscribe, subscribe)] {
        if roles.has(role) == groups.is_empty() {
            return Err(Malformed::GroupsWithoutRole { role: role.name() });
        }
        form::check_order("patterns of groups", groups)?;
    }
    Ok(())
}

fn any(patterns: &[Pattern], group: &str) -> bool {
    patterns.iter().any(|pattern| pattern.matches(group))
}
