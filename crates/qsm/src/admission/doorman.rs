//! Who is let in: the roster decides on nodes that shake hands.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use qsm_gms::Rights;
use qsm_handshake::{Admission, Refused};
use qsm_identity::{
    Admission as _, Entrant, Grant, NodePublic, Refused as NotAdmitted, RevocationError,
    Revocations, Roster, Update, utc,
};
use qsm_seal::PAIR_KEY_BYTES;
use qsm_wire::NodeId;
use qsm_wire::membership::Role;
use qsm_x509::{Anchors, CertificateError, Chain};

use super::certified::{Certified, Shown, refused as not_certified, told as told_of_certificate};
use super::claim::Claim;
use super::identity::{Identity, unix_now};
use crate::shard::CORES_MAX;

/// A node that has not been heard for so long may have ended: another one with its key takes its place.
const QUIET: Duration = Duration::from_secs(1);
/// Longest summary of rights, bytes.
const SUMMARY_BYTES_MAX: usize = 200;

/// Decides on nodes by their tokens or certificates, names and keys.
#[derive(Debug)]
pub(super) struct Doorman(RefCell<Book>);

#[derive(Debug)]
struct Book {
    roster: Roster,
    cluster: String,
    /// Authorities whose certificates are taken.
    anchors: Option<Arc<Anchors>>,
    present: BTreeMap<NodePublic, Present>,
    /// Lives in whose place another one came.
    replaced: Vec<NodeId>,
}

/// A node that is in. Each of its core threads is a member; to the roster they are one node.
#[derive(Debug)]
struct Present {
    /// Number of the node's first core thread.
    first: NodeId,
    /// Those that are in.
    cores: BTreeSet<NodeId>,
    heard_at: Instant,
    /// The certificates that let it in.
    chain: Option<Arc<Chain>>,
    /// Reason for which they hold no more.
    refused: Option<CertificateError>,
}

/// Number of the first core thread of the node that this one is of.
fn first_core(core: NodeId) -> NodeId {
    NodeId(core.0 - core.0 % CORES_MAX as u64)
}

/// Name of the node that a core thread of this name is of: all but the first have their place behind it.
fn node_name(core: NodeId, name: &str) -> Option<&str> {
    match core.0 % CORES_MAX as u64 {
        0 => Some(name),
        place => name.strip_suffix(&format!("/{}", place + 1)),
    }
}

/// A node that was let in, and its rights.
#[derive(Debug, Clone)]
pub(super) struct Guest {
    pub(super) node: NodeId,
    pub(super) key: NodePublic,
    pub(super) name: String,
    pub(super) observes: bool,
    pub(super) resumes: bool,
    /// Its key for pairs with other members.
    pub(super) pair_key: Option<[u8; PAIR_KEY_BYTES]>,
    pub(super) grant: Grant,
    /// The certificates that give these rights, where no token does.
    pub(super) chain: Option<Arc<Chain>>,
}

/// A node that may not stay, and the reason.
#[derive(Debug)]
pub(super) struct Outcast {
    pub(super) node: NodeId,
    pub(super) reason: String,
}

impl Doorman {
    /// Of a service with this identity, in this cluster.
    pub(super) fn new(cluster: &str, identity: &Identity) -> Self {
        let roster = match identity.root() {
            Some(root) => Roster::new(cluster, root),
            None => Roster::without_root(cluster),
        };
        Self(RefCell::new(Book {
            roster,
            cluster: cluster.to_owned(),
            anchors: identity.anchors().cloned(),
            present: BTreeMap::new(),
            replaced: Vec::new(),
        }))
    }

    /// A node has been heard.
    pub(super) fn heard(&self, now: Instant, key: &NodePublic) {
        if let Some(present) = self.0.borrow_mut().present.get_mut(key) {
            present.heard_at = now;
        }
    }

    /// A life has ended.
    pub(super) fn leave(&self, key: &NodePublic, node: NodeId) {
        self.0.borrow_mut().leave(key, node);
    }

    /// The next life in whose place another one came.
    pub(super) fn take_replaced(&self) -> Option<NodeId> {
        self.0.borrow_mut().replaced.pop()
    }

    /// Takes a list of revocations. Returns whether it is a newer one.
    pub(super) fn update(&self, list: Revocations) -> Result<bool, RevocationError> {
        let updated = self.0.borrow_mut().roster.update(list)?;
        Ok(updated == Update::Taken)
    }

    /// Takes authorities, and what they have revoked, in the place of others.
    pub(super) fn trust(&self, anchors: &Arc<Anchors>) {
        let mut book = self.0.borrow_mut();
        for here in book.present.values_mut() {
            let chain = here.chain.as_ref();
            here.refused = chain.and_then(|chain| anchors.check(chain).err());
        }
        book.anchors = Some(Arc::clone(anchors));
    }

    /// Those who are in and may not stay.
    pub(super) fn outcasts(&self) -> Vec<Outcast> {
        let book = self.0.borrow();
        let by_roster = book
            .roster
            .outcast(unix_now())
            .filter_map(|(entrant, refused)| {
                let here = book.present.get(entrant.key)?;
                Some((here, told(&refused)))
            });
        let by_certificate = book.present.values().filter_map(|here| {
            let refused = here.refused.as_ref()?;
            Some((here, told_of_certificate(refused)))
        });
        // Once each, whatever is wrong with it.
        let mut outcasts = BTreeMap::new();
        for (here, reason) in by_roster.chain(by_certificate) {
            for node in &here.cores {
                outcasts.entry(*node).or_insert_with(|| reason.clone());
            }
        }
        let outcasts = outcasts.into_iter();
        outcasts
            .map(|(node, reason)| Outcast { node, reason })
            .collect()
    }
}

impl Book {
    fn leave(&mut self, key: &NodePublic, node: NodeId) {
        let Some(here) = self.present.get_mut(key) else {
            return;
        };
        here.cores.remove(&node);
        if here.cores.is_empty() {
            self.roster.leave(key, here.first.0);
            self.present.remove(key);
        }
    }

    /// Enters a node with this name, or another core thread of it. A life with the same key that is not heard any more
    /// ends.
    fn enter(&mut self, guest: &Guest, name: &str) -> Result<(), NotAdmitted> {
        let first = first_core(guest.node);
        let entrant = Entrant {
            name,
            key: &guest.key,
            life: first.0,
        };
        let now = Instant::now();
        let entered = match self.roster.enter(&entrant, &guest.grant) {
            Err(NotAdmitted::KeyInUse { by }) => {
                let former = self.present.get(&guest.key);
                let former = former.filter(|here| now >= here.heard_at + QUIET);
                let Some(cores) = former.map(|here| here.cores.clone()) else {
                    return Err(NotAdmitted::KeyInUse { by });
                };
                for core in cores {
                    self.leave(&guest.key, core);
                    self.replaced.push(core);
                }
                self.roster.enter(&entrant, &guest.grant)
            }
            entered => entered,
        };
        entered?;
        let here = self.present.entry(guest.key).or_insert_with(|| Present {
            first,
            cores: BTreeSet::new(),
            heard_at: now,
            chain: None,
            refused: None,
        });
        here.cores.insert(guest.node);
        here.heard_at = now;
        here.chain.clone_from(&guest.chain);
        here.refused = None;
        Ok(())
    }

    /// Rights by a token or by certificates, and these.
    fn judge(&self, shown: &Shown<'_>) -> Result<(Grant, Option<Arc<Chain>>), Refused> {
        if Chain::is_chain(shown.credential) {
            let certified = Certified::verify(self.anchors.as_deref(), &self.cluster, shown);
            let certified = certified.map_err(|error| not_certified(&error))?;
            return Ok((certified.grant, Some(certified.chain)));
        }
        let key = shown.key.as_bytes();
        let admitted = self.roster.admit(key, shown.credential, shown.now);
        let grant = admitted.map_err(|refused| Refused::new(told(&refused)))?;
        Ok((grant, None))
    }

    /// True if the node of this number is another key's.
    fn is_taken(&self, node: NodeId, key: &NodePublic) -> bool {
        let first = first_core(node);
        let mut present = self.present.iter();
        present.any(|(other, here)| here.first == first && other != key)
    }
}

impl Admission for Doorman {
    type Grant = Guest;

    fn admit(&self, key: &[u8; 32], credential: &[u8], now: u64) -> Result<Guest, Refused> {
        let claim = Claim::decode(credential);
        let claim = claim.ok_or_else(|| Refused::new("what it shows is no token"))?;
        let mut book = self.0.borrow_mut();
        let key = NodePublic::from_bytes(*key);
        let (grant, chain) = book.judge(&Shown {
            key: &key,
            credential: claim.credential,
            now,
        })?;
        let guest = Guest {
            node: claim.node,
            key,
            name: claim.name.to_owned(),
            observes: claim.observes,
            resumes: claim.resumes,
            pair_key: claim.pair_key,
            grant,
            chain,
        };
        if guest.observes {
            return Ok(guest);
        }
        if book.is_taken(guest.node, &guest.key) {
            return Err(Refused::new("another node has its number; start it again"));
        }
        let name = node_name(guest.node, &guest.name);
        let name = name.ok_or_else(|| {
            Refused::new(
                "a core thread has its node's name with its place behind it; start it again",
            )
        })?;
        let entered = book.enter(&guest, name);
        entered.map_err(|refused| Refused::new(told(&refused)))?;
        Ok(guest)
    }
}

/// Cause and remedy.
fn told(refused: &NotAdmitted) -> String {
    format!("{refused}; {}", refused.remedy())
}

impl Rights for Guest {
    fn name(&self) -> &str {
        &self.name
    }

    fn permits(&self, role: Role, group: &str) -> bool {
        match role {
            Role::Subscriber => self.grant.may_subscribe(group),
            Role::Publisher => self.grant.may_publish(group),
        }
    }

    fn key(&self) -> String {
        self.key.to_string()
    }

    fn summary(&self) -> String {
        let key = self.key.to_string();
        let mut text = key.rsplit('.').next().unwrap_or_default().to_owned();
        text.truncate(8);
        for (what, patterns) in [
            ("publishes", self.grant.publish()),
            ("receives", self.grant.subscribe()),
        ] {
            let patterns: Vec<&str> = patterns.iter().map(qsm_identity::Pattern::as_str).collect();
            if !patterns.is_empty() {
                // Into a text nothing fails.
                write!(text, ", {what} {}", patterns.join(" ")).ok();
            }
        }
        let mut end = text.len().min(SUMMARY_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        format!("{text}, until {}", utc(self.grant.expires()))
    }
}
