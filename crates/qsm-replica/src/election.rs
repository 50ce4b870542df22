//! The other replicas as far as they are known, and who founds a history when nobody is live.
//!
//! A replica founds when all other members that the service counts have given it their vote, are not live, and this
//! has been so for longer than a silent one is remembered. Who has voted votes for nobody else before that vote has
//! expired for whom it was given to.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::word::{Address, Beat, History, Kept, Source, Standing, Vote, Voter};

/// A replica that has said nothing for so long is not counted on.
pub(crate) const FRESH: Duration = Duration::from_secs(1);
/// Whoever asked for a vote may use it for so long by its own clock.
const VOTE: Duration = Duration::from_secs(1);
/// Whoever has given it keeps it for so long: more, as clocks differ and words take time.
const PROMISE: Duration = Duration::from_secs(3);
/// Another replica has had more, and neither has changed, for so long.
const BEHIND: Duration = Duration::from_secs(3);

/// Preference as a founder: the most kept, then the smaller address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rank {
    pub(crate) kept: Kept,
    pub(crate) address: Address,
}

impl Rank {
    fn key(self) -> impl Ord {
        (self.kept, Reverse(self.address))
    }
}

/// A live replica that can give a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Live {
    pub(crate) address: Address,
    pub(crate) history: History,
    pub(crate) publishes: bool,
}

#[derive(Debug)]
struct Peer {
    beat: Beat,
    heard: Duration,
    differs: Option<Differs>,
}

#[derive(Debug, Clone, Copy)]
struct Differs {
    own: (u64, u64),
    theirs: (u64, u64),
    since: Duration,
}

#[derive(Debug, Default)]
pub(crate) struct Peers {
    peers: BTreeMap<Address, Peer>,
    promise: Option<Promise>,
    /// Since when this replica could found.
    ready: Option<Duration>,
}

#[derive(Debug, Clone, Copy)]
struct Promise {
    founder: Address,
    until: Duration,
}

impl Peers {
    pub(crate) fn hear(&mut self, beat: &Beat, now: Duration) {
        let peer = self.peers.entry(beat.from).or_insert(Peer {
            beat: *beat,
            heard: now,
            differs: None,
        });
        (peer.beat, peer.heard) = (*beat, now);
    }

    pub(crate) fn forget_silent(&mut self, now: Duration) {
        self.peers
            .retain(|_, peer| now.saturating_sub(peer.heard) < FRESH);
    }

    /// This replica is live, or is not any more: it could not found until now.
    pub(crate) fn restart(&mut self) {
        self.ready = None;
    }

    /// The live ones of the greatest history.
    pub(crate) fn donors(&self) -> Vec<Live> {
        let live = |peer: &Peer| match peer.beat.standing {
            Standing::Live {
                history,
                publishes,
                serves: true,
                ..
            } => Some(Live {
                address: peer.beat.from,
                history,
                publishes,
            }),
            Standing::Live { .. } | Standing::Binding { .. } => None,
        };
        let mut donors: Vec<_> = self.peers.values().filter_map(live).collect();
        let newest = donors.iter().map(|donor| donor.history).max();
        donors.retain(|donor| Some(donor.history) == newest);
        donors
    }

    /// Number of replicas that were heard of late.
    pub(crate) fn len(&self) -> usize {
        self.peers.len()
    }

    /// Their present lives.
    pub(crate) fn lives(&self) -> impl Iterator<Item = Source> {
        self.peers.values().map(|peer| peer.beat.life)
    }

    /// The present life at an address, if it was heard of late.
    pub(crate) fn life_of(&self, address: Address) -> Option<Source> {
        self.peers.get(&address).map(|peer| peer.beat.life)
    }

    /// Those that are live in this history.
    pub(crate) fn live_in(&self, history: History) -> Vec<Voter> {
        let live = |peer: &&Peer| match peer.beat.standing {
            Standing::Live { history: other, .. } => other == history,
            Standing::Binding { .. } => false,
        };
        let found = self.peers.values().filter(live);
        let voter = |peer: &Peer| Voter {
            address: peer.beat.from,
            life: peer.beat.life,
        };
        found.map(voter).collect()
    }

    fn binding(&self) -> impl Iterator<Item = (Rank, u64, Option<Vote>)> {
        self.peers
            .values()
            .filter_map(|peer| match peer.beat.standing {
                Standing::Binding { kept, asked } => Some((
                    Rank {
                        kept,
                        address: peer.beat.from,
                    },
                    asked,
                    peer.beat.vote,
                )),
                Standing::Live { .. } => None,
            })
    }

    /// The vote of this replica: none for itself, none while it keeps one for another that is no longer preferred.
    pub(crate) fn vote(&mut self, me: Rank, now: Duration) -> Option<Vote> {
        if !self.donors().is_empty() {
            return None;
        }
        let (best, asked, _) = self.binding().max_by_key(|(rank, ..)| rank.key())?;
        let other = self
            .promise
            .filter(|promise| promise.until > now && promise.founder != best.address);
        if other.is_some() || me.key() > best.key() {
            return None;
        }
        self.promise = Some(Promise {
            founder: best.address,
            until: now + PROMISE,
        });
        Some(Vote {
            founder: best.address,
            asked,
        })
    }

    /// Tells whether this replica may begin a history now.
    pub(crate) fn may_found(&mut self, me: Rank, members: Option<u32>, now: Duration) -> bool {
        let promised = self.promise.is_some_and(|promise| promise.until > now);
        let everybody = members == u32::try_from(self.peers.len()).ok();
        let valid = |vote: Option<Vote>| {
            vote.is_some_and(|vote| {
                vote.founder == me.address && Duration::from_millis(vote.asked) + VOTE > now
            })
        };
        let votes = self.binding().filter(|(.., vote)| valid(*vote)).count();
        if promised || !everybody || votes != self.peers.len() {
            self.ready = None;
            return false;
        }
        let since = *self.ready.get_or_insert(now);
        now.saturating_sub(since) > FRESH
    }

    /// Tells whether a live replica of the same history has had more for so long that this one lacks something.
    pub(crate) fn is_behind(
        &mut self,
        from: Address,
        own: (u64, u64),
        theirs: (u64, u64),
        now: Duration,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&from) else {
            return false;
        };
        if theirs <= own {
            peer.differs = None;
            return false;
        }
        let fresh = Differs {
            own,
            theirs,
            since: now,
        };
        let differs = *peer.differs.get_or_insert(fresh);
        if (differs.own, differs.theirs) != (own, theirs) {
            peer.differs = Some(fresh);
        }
        peer.differs
            .is_some_and(|differs| now.saturating_sub(differs.since) >= BEHIND)
    }
}
