//! Roles of nodes.

use core::fmt;
use core::str::FromStr;

/// A thing that a node may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Role {
    /// Publish to groups, which the token names.
    Publish,
    /// Receive groups, which the token names.
    Subscribe,
    /// Pass packets on, without reading them.
    Relay,
    /// Change the cluster: expel nodes, give hints, read all lists.
    Admin,
    /// Be a membership service.
    Service,
}

impl Role {
    /// All of them, in the order of their bits.
    pub const ALL: [Self; 5] = [
        Self::Publish,
        Self::Subscribe,
        Self::Relay,
        Self::Admin,
        Self::Service,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::Subscribe => "subscribe",
            Self::Relay => "relay",
            Self::Admin => "admin",
            Self::Service => "service",
        }
    }

    fn bit(self) -> u8 {
        1 << self as u8
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Role {
    type Err = RoleError;

    fn from_str(text: &str) -> Result<Self, RoleError> {
        let found = Self::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or(RoleError)
    }
}

/// There is no role of this name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleError;

impl fmt::Display for RoleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "roles are {}", Roles(Roles::KNOWN))
    }
}

impl core::error::Error for RoleError {}

/// A set of roles.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Roles(u8);

impl Roles {
    /// None.
    pub const NONE: Self = Self(0);
    /// Bits that have a meaning.
    const KNOWN: u8 = 0b1_1111;

    /// The set with one more.
    #[must_use]
    pub fn with(self, role: Role) -> Self {
        Self(self.0 | role.bit())
    }

    /// Returns whether the role is in it.
    #[must_use]
    pub fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// Returns whether there is none in it.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The roles in it, in order.
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.has(*role))
    }

    pub(crate) fn bits(self) -> u8 {
        self.0
    }

    /// Of bits; `None` if one has no meaning.
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        (bits & !Self::KNOWN == 0).then_some(Self(bits))
    }
}

/// Their names with commas.
impl fmt::Display for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.iter().map(Role::name).collect();
        f.write_str(&names.join(", "))
    }
}

impl fmt::Debug for Roles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_bits_are_those_of_all_roles() {
        let all = Role::ALL.into_iter().fold(Roles::NONE, Roles::with);
        assert_eq!(all.bits(), Roles::KNOWN);
        for bits in 0..=u8::MAX {
            let roles = Roles::from_bits(bits);
            assert_eq!(roles.is_some(), bits <= Roles::KNOWN, "{bits}");
            assert!(roles.is_none_or(|roles| roles.bits() == bits));
        }
    }

    #[test]
    fn roles_are_read_by_name_and_told_apart() {
        for role in Role::ALL {
            assert_eq!(role.name().parse(), Ok(role));
            let alone = Roles::NONE.with(role);
            assert!(
                Role::ALL
                    .iter()
                    .all(|other| alone.has(*other) == (*other == role))
            );
        }
        assert!(
            "root"
                .parse::<Role>()
                .unwrap_err()
                .to_string()
                .contains("relay, admin")
        );
    }
}
