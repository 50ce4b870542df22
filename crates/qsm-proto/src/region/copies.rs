//! Members that get copies by unicast of what this node multicasts, because its multicast does not
//! reach them (R-REACH-4).

use core::time::Duration;
use std::collections::BTreeMap;
use std::net::SocketAddr;

use qsm_wire::Origin;

use super::RegionCx;
use crate::Instant;

/// Most members of a region that get copies of one node's multicast; others live on repairs.
const RECIPIENTS_MAX: usize = 256;
/// Time for which a member gets copies that asks whether it is reached. It asks again before that,
/// as long as it is in doubt.
const IN_DOUBT: Duration = Duration::from_secs(1);

/// Members that get copies.
#[derive(Debug, Default)]
pub(crate) struct CopyRecipients {
    /// Their addresses, and until when they get copies.
    members: BTreeMap<Origin, (SocketAddr, Instant)>,
}

impl CopyRecipients {
    pub(crate) fn addresses(&self) -> impl ExactSizeIterator<Item = SocketAddr> + '_ {
        self.members.values().map(|(address, _)| *address)
    }

    pub(super) fn contains(&self, member: Origin) -> bool {
        self.members.contains_key(&member)
    }

    /// Time at which the first of them is forgotten.
    pub(super) fn due(&self) -> Instant {
        let ends = self.members.values().map(|(_, until)| *until);
        ends.fold(Instant::NEVER, Instant::min)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }

    /// Adds a member, or goes on with it; `false`: there is no room.
    fn add(&mut self, member: Origin, address: SocketAddr, until: Instant) -> bool {
        let room = self.members.len() < RECIPIENTS_MAX;
        match self.members.get_mut(&member) {
            Some(known) => *known = (address, until.max(known.1)),
            None if room => _ = self.members.insert(member, (address, until)),
            None => return false,
        }
        true
    }
}

impl RegionCx<'_> {
    /// A member asks whether it is reached: it gets copies until that is clear.
    pub(super) fn copy_in_doubt(&mut self, member: Origin) {
        self.copy(member, self.node.now.after(IN_DOUBT));
    }

    /// A member gets copies of what this node multicasts, until then.
    pub(super) fn copy(&mut self, member: Origin, until: Instant) {
        let Some(address) = self.region.address_of(member) else {
            return;
        };
        let before = self.region.recipients.len();
        if !self.region.recipients.add(member, address, until) {
            self.node.stats.copies_refused += 1;
        }
        self.node.copied += self.region.recipients.len() - before;
    }

    /// A member does not need copies any more.
    pub(super) fn stop_copies(&mut self, member: Origin) {
        let stopped = self.region.recipients.members.remove(&member);
        self.node.copied -= usize::from(stopped.is_some());
    }

    /// Forgets members that have not said lately that they need copies.
    pub(super) fn forget_recipients(&mut self) {
        let now = self.node.now;
        let members = &mut self.region.recipients.members;
        let before = members.len();
        members.retain(|_, (_, until)| *until > now);
        self.node.copied -= before - members.len();
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId};

    use super::*;

    fn member(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    // Rule R-REACH-4.
    #[test]
    fn recipients_are_limited_and_those_known_go_on() {
        let mut recipients = CopyRecipients::default();
        let address = SocketAddr::from(([10, 0, 0, 1], 1));
        let at = |seconds: u64| Instant(seconds * 1_000_000_000);
        for node in 0..300 {
            let has_room = node < RECIPIENTS_MAX as u64;
            assert_eq!(
                recipients.add(member(node), address, at(1 + node)),
                has_room
            );
        }
        assert!(recipients.add(member(0), address, at(9)));
        assert!(recipients.add(member(0), address, at(3)), "not shortened");
        assert_eq!((recipients.len(), recipients.due()), (256, at(2)));
        assert_eq!(recipients.members[&member(0)].1, at(9));
    }
}
