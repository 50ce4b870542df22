//! Roots, revocations, and the nodes that are in.

use std::collections::BTreeMap;

use crate::admission::{Admission, Refused};
use crate::grant::{Grant, Issuer};
use crate::keys::{NodePublic, RootKey};
use crate::revocations::{RevocationError, Revocations};
use crate::token::{Token, TokenError};

/// Most roots that are trusted at once: one, and while it is replaced the next one.
pub const ROOTS_MAX: usize = 2;
/// Most nodes whose names and keys are remembered, if nothing else is said.
pub const BINDINGS_MAX: usize = 16_384;

/// A node that comes in or leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entrant<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its key, which it has proven to have.
    pub key: &'a NodePublic,
    /// Number that no other start of a node has.
    pub life: u64,
}

/// Effect of a list of revocations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// It is in force.
    Taken,
    /// It was known already.
    Known,
}

/// Decides by tokens of one cluster, and remembers which name belongs to which key: one name, one key.
///
/// A name belongs to the key that came in with it first, also after its node left. It is released by
/// [`Roster::release`], when the key comes in with another name, or when room is needed for others: then the one
/// that left first goes.
#[derive(Debug)]
pub struct Roster {
    cluster: String,
    roots: Vec<Trusted>,
    capacity: usize,
    by_key: BTreeMap<NodePublic, Binding>,
    by_name: BTreeMap<String, NodePublic>,
    /// Keys of nodes that left, by when: the next to be forgotten first.
    gone: BTreeMap<u64, NodePublic>,
    departures: u64,
}

#[derive(Debug)]
struct Trusted {
    root: RootKey,
    revocations: Option<Revocations>,
}

#[derive(Debug)]
struct Binding {
    name: String,
    issuer: Issuer,
    expires: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// In, in this life.
    In(u64),
    /// Not in; its place among those that left.
    Gone(u64),
}

impl Roster {
    /// Of one root, without revocations, for [`BINDINGS_MAX`] nodes.
    #[must_use]
    pub fn new(cluster: impl Into<String>, root: RootKey) -> Self {
        let mut roster = Self::without_root(cluster);
        roster.roots.push(Trusted {
            root,
            revocations: None,
        });
        roster
    }

    /// Of no root: nobody is admitted by a token, and nodes enter by the grants of other authorities alone.
    #[must_use]
    pub fn without_root(cluster: impl Into<String>) -> Self {
        Self {
            cluster: cluster.into(),
            roots: Vec::new(),
            capacity: BINDINGS_MAX,
            by_key: BTreeMap::new(),
            by_name: BTreeMap::new(),
            gone: BTreeMap::new(),
            departures: 0,
        }
    }

    /// The same for so many nodes, which have not entered yet.
    #[must_use]
    pub fn with_capacity(mut self, capacity: usize) -> Self {
        self.capacity = capacity;
        self
    }

    /// Trusts tokens of another root as well, up to [`ROOTS_MAX`]. Returns whether it is trusted.
    #[must_use]
    pub fn trust(&mut self, root: RootKey) -> bool {
        let known = self.roots.iter().any(|trusted| trusted.root == root);
        let room = self.roots.len() < ROOTS_MAX;
        if room && !known {
            let revocations = None;
            self.roots.push(Trusted { root, revocations });
        }
        known || room
    }

    /// Trusts a root no more. Nodes that are in by its tokens are then among [`Roster::outcast`]. Its list of
    /// revocations is forgotten: keys in it that are to stay out must be in a list of the other root.
    pub fn distrust(&mut self, root: &RootKey) {
        self.roots.retain(|trusted| trusted.root != *root);
    }

    /// Takes a list of revocations, in place of the former one of the same root. Nodes that it concerns are then
    /// among [`Roster::outcast`].
    ///
    /// # Errors
    /// [`RevocationError`]: no trusted root made it, it is for another cluster, or it is older than the one that is
    /// known. The known one stays in force.
    pub fn update(&mut self, list: Revocations) -> Result<Update, RevocationError> {
        let cluster = &self.cluster;
        let verified = |trusted: &&mut Trusted| {
            let verified = list.verify(&trusted.root, cluster);
            !matches!(verified, Err(RevocationError::Signature))
        };
        let found = self.roots.iter_mut().find(verified);
        let trusted = found.ok_or(RevocationError::Signature)?;
        list.verify(&trusted.root, cluster)?;
        if let Some(former) = &trusted.revocations {
            list.check_after(former)?;
            if list.parts().number == former.parts().number {
                return Ok(Update::Known);
            }
        }
        trusted.revocations = Some(list);
        Ok(Update::Taken)
    }

    /// Lets a node in under its name, by the grant that [`Admission::admit`], or another authority, gave its key at this
    /// handshake. A node
    /// that is in and comes again in the same life changes its grant.
    ///
    /// # Errors
    /// Errors of [`Admission::admit`] for what was revoked since; [`Refused::Name`], [`Refused::KeyInUse`], [`Refused::NameInUse`], [`Refused::Full`]; and
    /// [`Refused::OtherKey`] of a grant that was given to another key. Nothing is changed then.
    pub fn enter(&mut self, node: &Entrant<'_>, grant: &Grant) -> Result<(), Refused> {
        self.check(node, grant)?;
        self.forget(node.key);
        self.by_name.insert(node.name.to_owned(), *node.key);
        let binding = Binding {
            name: node.name.to_owned(),
            issuer: grant.issuer,
            expires: grant.expires(),
            state: State::In(node.life),
        };
        self.by_key.insert(*node.key, binding);
        Ok(())
    }

    /// Checks that a node may enter, and makes room for it.
    fn check(&mut self, node: &Entrant<'_>, grant: &Grant) -> Result<(), Refused> {
        let Entrant { name, key, life } = *node;
        if grant.node_key().is_some_and(|bound| bound != *key) {
            return Err(Refused::OtherKey);
        }
        self.standing(key, grant.issuer)?;
        if !grant.may_join(name) {
            let name = name.to_owned();
            return Err(Refused::Name { name });
        }
        let former = self.by_key.get(key);
        if let Some(former) = former {
            let again = former.state == State::In(life) && former.name == name;
            if matches!(former.state, State::In(_)) && !again {
                let by = former.name.clone();
                return Err(Refused::KeyInUse { by });
            }
        }
        if self.by_name.get(name).is_some_and(|owner| owner != key) {
            let name = name.to_owned();
            return Err(Refused::NameInUse { name });
        }
        if former.is_none() && self.by_key.len() >= self.capacity {
            let oldest = self.gone.first_key_value().map(|(_, key)| *key);
            let max = self.capacity;
            let oldest = oldest.ok_or(Refused::Full { max })?;
            self.forget(&oldest);
        }
        Ok(())
    }

    /// Notes that a life of a node has ended. Another life of it stays in.
    pub fn leave(&mut self, key: &NodePublic, life: u64) {
        let Some(binding) = self.by_key.get_mut(key) else {
            return;
        };
        if binding.state == State::In(life) {
            self.departures += 1;
            binding.state = State::Gone(self.departures);
            self.gone.insert(self.departures, *key);
        }
    }

    /// Releases a name whose node is not in, so that another key may have it. Returns whether it is free.
    #[must_use]
    pub fn release(&mut self, name: &str) -> bool {
        let Some(key) = self.by_name.get(name).copied() else {
            return true;
        };
        let binding = self.by_key.get(&key);
        let gone = binding.is_some_and(|binding| matches!(binding.state, State::Gone(_)));
        if gone {
            self.forget(&key);
        }
        gone
    }

    fn forget(&mut self, key: &NodePublic) {
        if let Some(binding) = self.by_key.remove(key) {
            self.by_name.remove(&binding.name);
            if let State::Gone(place) = binding.state {
                self.gone.remove(&place);
            }
        }
    }

    /// Nodes that are in and may not stay at this time, in seconds since 1970, with the reason: their token or their
    /// key was revoked, its root is trusted no more, or it expired.
    pub fn outcast(&self, now: u64) -> impl Iterator<Item = (Entrant<'_>, Refused)> {
        self.by_key.iter().filter_map(move |(key, binding)| {
            let State::In(life) = binding.state else {
                return None;
            };
            let name = binding.name.as_str();
            let revoked = self.standing(key, binding.issuer).err();
            let expires = binding.expires;
            let expired = match binding.issuer {
                Issuer::Root { .. } => Refused::Token(TokenError::Expired { expires, now }),
                Issuer::Other => Refused::CertificateExpired { expires, now },
            };
            let refused = revoked.or_else(|| (now >= expires).then_some(expired))?;
            Some((Entrant { name, key, life }, refused))
        })
    }

    /// Nodes whose names are remembered, in or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    /// Returns whether no node is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Checks that a root is trusted, and revoked neither a token of its nor the node's key; nor any other root the
    /// key.
    fn standing(&self, key: &NodePublic, issuer: Issuer) -> Result<(), Refused> {
        let mut lists = self
            .roots
            .iter()
            .filter_map(|root| root.revocations.as_ref());
        if lists.any(|list| list.has_key(key)) {
            return Err(Refused::KeyRevoked);
        }
        let Issuer::Root { root, serial } = issuer else {
            return Ok(());
        };
        let found = self.roots.iter().find(|trusted| trusted.root == root);
        let trusted = found.ok_or(Refused::Token(TokenError::Signature))?;
        let list = trusted.revocations.as_ref();
        match list.is_some_and(|list| list.has_serial(serial)) {
            true => Err(Refused::Revoked(serial)),
            false => Ok(()),
        }
    }

    fn verify(&self, token: &Token, now: u64) -> Result<Grant, TokenError> {
        for trusted in &self.roots {
            match token.verify(&trusted.root, now, &self.cluster) {
                Err(TokenError::Signature) => {}
                known => return known,
            }
        }
        Err(TokenError::Signature)
    }
}

/// By tokens, as [`Token::as_bytes`] has them.
impl Admission for Roster {
    fn admit(&self, node_key: &[u8; 32], credential: &[u8], now: u64) -> Result<Grant, Refused> {
        let key = NodePublic::from_bytes(*node_key);
        let token = Token::decode(credential).map_err(TokenError::from)?;
        let grant = self.verify(&token, now)?;
        if grant.node_key().is_some_and(|bound| bound != key) {
            return Err(Refused::OtherKey);
        }
        self.standing(&key, grant.issuer)?;
        Ok(grant)
    }
}
