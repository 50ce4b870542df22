//! The service's part: it makes keys, hands them out, and says from when on they are used (R-SEC-9).

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use qsm_wire::NodeId;

use crate::key::{Cipher, ClusterKey, KeyError};
use crate::order::{Epoch, EpochOrder, EpochReceipt};

/// An epoch is activated after so long, though not all have its key.
pub const ACTIVATE_AFTER: Duration = Duration::from_millis(500);
/// Members that leave or crash cost one epoch in so long.
pub const LEAVES_APART: Duration = Duration::from_secs(1);
/// A key is used no longer.
pub const PERIOD: Duration = Duration::from_secs(24 * 3600);
/// No epoch is made sooner after an activation.
pub const SPACING: Duration = Duration::from_millis(20);

/// Why somebody is no member any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leaving {
    /// By its own will.
    Left,
    /// It is not heard any more.
    Crashed,
    /// It was shut out.
    Expelled,
}

/// A member that has had a key for [`ACTIVATE_AFTER`] and has not said that it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Silent {
    /// The member.
    pub node: NodeId,
    /// The epoch.
    pub epoch: Epoch,
}

/// An order for a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The member.
    pub node: NodeId,
    /// The order, for its session.
    pub order: EpochOrder,
}

/// Makes a cluster's epochs, one after the other.
#[derive(Debug)]
pub struct EpochIssuer {
    active: Epoch,
    key: ClusterKey,
    activated_at: Duration,
    /// The last number that was given out.
    newest: Epoch,
    offered: Option<Offered>,
    members: BTreeMap<NodeId, Member>,
    /// Members that have not said that they have the newest key.
    missing: BTreeSet<NodeId>,
    /// No member is to be named before.
    name_at: Option<Duration>,
    /// Somebody waits to be let in.
    joins: bool,
    /// When a key is needed that who has gone does not have.
    fresh_at: Option<Duration>,
    left_at: Option<Duration>,
    orders: VecDeque<Told>,
    silent: VecDeque<Silent>,
}

/// An epoch that is not active yet.
#[derive(Debug)]
struct Offered {
    epoch: Epoch,
    key: ClusterKey,
    since: Duration,
}

#[derive(Debug, Default)]
struct Member {
    /// The newest epoch whose key it has.
    has: Epoch,
    offered_at: Duration,
    named: bool,
}

impl EpochIssuer {
    /// Without members. `first` is the number of its first epoch: above all that a service before it has given out,
    /// so that the members take it for a later one.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn new(now: Duration, cipher: Cipher, first: Epoch) -> Result<Self, KeyError> {
        Ok(Self {
            active: first,
            key: ClusterKey::generate(cipher)?,
            activated_at: now,
            newest: first,
            offered: None,
            members: BTreeMap::new(),
            missing: BTreeSet::new(),
            name_at: None,
            joins: false,
            fresh_at: None,
            left_at: None,
            orders: VecDeque::new(),
            silent: VecDeque::new(),
        })
    }

    /// The epoch that is active.
    #[must_use]
    pub fn active(&self) -> Epoch {
        self.active
    }

    /// True while an epoch is handed out that is not active yet.
    #[must_use]
    pub fn is_changing(&self) -> bool {
        self.offered.is_some()
    }

    /// The next order to send by a member's session.
    pub fn poll_order(&mut self) -> Option<Told> {
        self.orders.pop_front()
    }

    /// The next member to be named.
    pub fn poll_silent(&mut self) -> Option<Silent> {
        self.silent.pop_front()
    }

    /// A node is let in. It gets the key of an epoch that is yet to come, and cannot read what was sent before. The
    /// first view that it is in must come to the members after that epoch's activation.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn join(&mut self, now: Duration, node: NodeId) -> Result<(), KeyError> {
        if self.members.contains_key(&node) {
            return Ok(());
        }
        self.members.insert(node, Member::default());
        if self.offered.is_some() {
            self.offer(now, node);
        } else {
            self.joins = true;
        }
        self.tick(now)
    }

    /// A member is gone: soon it opens nothing any more of what is sealed from then on; at once if it was expelled.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn leave(&mut self, now: Duration, node: NodeId, why: Leaving) -> Result<(), KeyError> {
        if self.members.remove(&node).is_none() {
            return Ok(());
        }
        self.missing.remove(&node);
        let at = match why {
            Leaving::Expelled => now,
            Leaving::Left | Leaving::Crashed => self
                .left_at
                .map_or(now, |last| now.max(last + LEAVES_APART)),
        };
        self.fresh_at = Some(self.fresh_at.map_or(at, |known| known.min(at)));
        if why == Leaving::Expelled {
            // What is offered is known to whoever is shut out.
            self.offered = None;
        }
        self.tick(now)
    }

    /// A new key is wanted, though nobody has gone.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn renew(&mut self, now: Duration) -> Result<(), KeyError> {
        self.fresh_at = Some(self.fresh_at.map_or(now, |known| known.min(now)));
        self.tick(now)
    }

    /// A member has a key.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn take(
        &mut self,
        now: Duration,
        node: NodeId,
        receipt: EpochReceipt,
    ) -> Result<(), KeyError> {
        let epoch = receipt.epoch;
        // Nobody has what has not been made.
        if let Some(member) = self.members.get_mut(&node)
            && epoch <= self.newest
        {
            member.has = member.has.max(epoch);
            if epoch == self.newest {
                self.missing.remove(&node);
            }
        }
        self.tick(now)
    }

    /// When [`Self::tick`] has something to do at the earliest.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        let period = Some(self.activated_at + PERIOD);
        let spaced = |at: Duration| at.max(self.activated_at + SPACING);
        let change = match &self.offered {
            Some(offered) => Some(offered.since + ACTIVATE_AFTER),
            None if self.joins => Some(self.activated_at + SPACING),
            None => self.fresh_at.map(spaced),
        };
        [period, change, self.name_at].into_iter().flatten().min()
    }

    /// Time has passed.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn tick(&mut self, now: Duration) -> Result<(), KeyError> {
        self.name(now);
        let ready =
            |offered: &Offered| self.missing.is_empty() || now >= offered.since + ACTIVATE_AFTER;
        if let Some(offered) = self.offered.take_if(|offered| ready(offered)) {
            self.activate(now, offered);
        }
        if self.offered.is_none() && now >= self.activated_at + SPACING {
            self.issue(now)?;
        }
        Ok(())
    }

    /// Names the members whose time to answer is over.
    fn name(&mut self, now: Duration) {
        if self.name_at.is_none_or(|at| at > now) {
            return;
        }
        self.name_at = None;
        let epoch = self.newest;
        for node in &self.missing {
            let Some(member) = self.members.get_mut(node).filter(|member| !member.named) else {
                continue;
            };
            let at = member.offered_at + ACTIVATE_AFTER;
            if at <= now {
                member.named = true;
                self.silent.push_back(Silent { node: *node, epoch });
            } else {
                self.name_at = Some(self.name_at.map_or(at, |known| known.min(at)));
            }
        }
    }

    fn activate(&mut self, now: Duration, offered: Offered) {
        self.active = offered.epoch;
        self.key = offered.key;
        self.activated_at = now;
        let epoch = self.active;
        let order = EpochOrder::Activate { epoch };
        self.orders.extend(self.members.keys().map(|node| Told {
            node: *node,
            order: order.clone(),
        }));
    }

    /// Makes the epoch that is needed, if one is.
    fn issue(&mut self, now: Duration) -> Result<(), KeyError> {
        let periodic = now >= self.activated_at + PERIOD;
        let fresh = periodic || self.fresh_at.is_some_and(|at| at <= now);
        if !fresh && !self.joins {
            return Ok(());
        }
        let ratcheted = (!fresh).then(|| self.key.ratchet());
        // Two keys that packets would call by the same number are one too many.
        let ratcheted = ratcheted.filter(|key| key.id() != self.key.id());
        let is_ratchet = ratcheted.is_some();
        let key = match ratcheted {
            Some(key) => key,
            None => self.draw()?,
        };
        if fresh {
            self.fresh_at = None;
            self.left_at = Some(now);
        }
        self.joins = false;
        self.newest = Epoch(self.newest.0 + 1);
        let epoch = self.newest;
        self.offered = Some(Offered {
            epoch,
            key,
            since: now,
        });
        self.missing.clear();
        let nodes: Vec<NodeId> = self.members.keys().copied().collect();
        for node in nodes {
            let has = self.members.get(&node).map(|member| member.has);
            if is_ratchet && has == Some(self.active) {
                let of = self.active;
                self.tell(now, node, EpochOrder::Ratchet { epoch, of });
            } else {
                self.offer(now, node);
            }
        }
        Ok(())
    }

    fn draw(&self) -> Result<ClusterKey, KeyError> {
        loop {
            let key = ClusterKey::generate(self.key.cipher())?;
            if key.id() != self.key.id() {
                return Ok(key);
            }
        }
    }

    fn offer(&mut self, now: Duration, node: NodeId) {
        if let Some(Offered { epoch, key, .. }) = &self.offered {
            let order = EpochOrder::Offer {
                epoch: *epoch,
                key: key.clone(),
            };
            self.tell(now, node, order);
        }
    }

    fn tell(&mut self, now: Duration, node: NodeId, order: EpochOrder) {
        if let Some(member) = self.members.get_mut(&node) {
            member.offered_at = now;
            member.named = false;
        }
        self.missing.insert(node);
        let at = now + ACTIVATE_AFTER;
        self.name_at = Some(self.name_at.map_or(at, |known| known.min(at)));
        self.orders.push_back(Told { node, order });
    }
}
