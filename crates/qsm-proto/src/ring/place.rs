//! Where this node sits in the rings of a view.

use std::net::SocketAddr;
use std::sync::Arc;

use qsm_wire::{MemberIndex, Origin, Token};

use crate::view::RegionView;

/// One ring this node is in.
#[derive(Debug)]
pub(super) struct RingSeat {
    pub(super) level: u8,
    pub(super) ring: u16,
    /// Its members; the first is its leader.
    members: Vec<MemberIndex>,
    /// This node's place among them.
    pub(super) position: usize,
}

impl RingSeat {
    pub(super) fn leads(&self) -> bool {
        self.position == 0
    }

    /// The place after this one, around the ring.
    pub(super) fn after(&self, position: usize) -> usize {
        (position + 1) % self.members.len().max(1)
    }

    /// How many members it has.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn member(&self, position: usize) -> Option<MemberIndex> {
        self.members.get(position).copied()
    }

    /// How a token came here from the member at `from`. A host that has restarted may have the
    /// address of a member that is not excluded yet: what is meant for that one is not taken.
    pub(super) fn leaps(&self, from: usize, token: &Token<'_>) -> SkippedMembers {
        if from == self.position {
            return SkippedMembers::Strays;
        }
        let mut at = self.after(from);
        while at != self.position {
            let named = |index| token.suspects().any(|suspect| suspect == index);
            if !self.member(at).is_some_and(named) {
                return match token.suspects().count() < Token::SUSPECTS_MAX {
                    true => SkippedMembers::Strays,
                    false => SkippedMembers::Unknown,
                };
            }
            at = self.after(at);
        }
        SkippedMembers::Named
    }
}

/// Whether a token has been passed over members on its way to a place in the ring (R-TOK-3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SkippedMembers {
    /// Only over those that it names.
    Named,
    /// It names as many as it can, and there may be more.
    Unknown,
    /// Over others: it was for another life at this address, or is this node's own.
    Strays,
}

/// A view as seen by one of its members.
#[derive(Debug)]
pub(super) struct RingPlace {
    pub(super) view: Arc<RegionView>,
    pub(super) me: Origin,
    pub(super) leader: Origin,
    /// Its rings, from its partition's upwards: one more for each ring it leads.
    pub(super) seats: Vec<RingSeat>,
}

impl RingPlace {
    /// `None` if the node is not a live member of the view.
    pub(super) fn new(view: Arc<RegionView>, me: Origin) -> Option<Self> {
        let index = view.index_of(me).filter(|at| view.is_live(*at))?;
        let leader = view.member(view.leader()?)?.origin;
        let size = view.layout().ring_max.max(2);
        let top = view.top_level();
        let mut seats: Vec<RingSeat> = Vec::new();
        let mut ring = view.partition_of(index);
        for level in 0..=top {
            let number = u16::try_from(ring).ok()?;
            let members = view.ring(level, number);
            let position = members.iter().position(|member| *member == index)?;
            seats.push(RingSeat {
                level,
                ring: number,
                members,
                position,
            });
            if position != 0 {
                break;
            }
            ring /= size;
        }
        Some(Self {
            view,
            me,
            leader,
            seats,
        })
    }

    /// Whether this node opens the region's rounds (R028).
    pub(super) fn leads_region(&self) -> bool {
        self.leader == self.me
    }

    /// The place in a ring of somebody who forwarded a token there.
    pub(super) fn neighbour(&self, seat: &RingSeat, origin: Origin) -> Option<usize> {
        let is = |index: &MemberIndex| self.origin(*index) == Some(origin);
        seat.members.iter().position(is)
    }

    pub(super) fn origin(&self, index: MemberIndex) -> Option<Origin> {
        self.view.member(index).map(|member| member.origin)
    }

    pub(super) fn address(&self, index: MemberIndex) -> Option<SocketAddr> {
        self.view.member(index).map(|member| member.address)
    }

    pub(super) fn contains(&self, origin: Origin) -> bool {
        origin == self.leader || self.view.index_of(origin).is_some()
    }

    /// How many silent intervals this node waits before it suspects the region leader: partition
    /// leaders one; the leader's own partition takes turns, so that the next one is enough when
    /// only the leader is gone and not all speak at once. `None`: others watch.
    pub(super) fn watch_turn(&self) -> Option<u32> {
        let leaf = self.seats.first()?;
        if self.leads_region() || (leaf.ring != 0 && !leaf.leads()) {
            return None;
        }
        u32::try_from(leaf.position.max(1)).ok()
    }
}
