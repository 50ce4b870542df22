//! Signatures of what goes to all: one is made for all copies of a packet (R-SEC-17), and few of strange addresses are
//! checked (R-SEC-18).

use std::collections::{BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use qsm_wire::{HOP_AT, Hop, NodeId};

/// Least mean time between two checks of a member's packets, from where it was believed: 4,000 a second. At 10,000 packets
/// a second with four parities ahead of each block of 16 it sends 2,500.
const OF_A_MEMBER: Duration = Duration::from_micros(250);
/// The same of all packets that come from elsewhere: 500 a second.
const OF_OTHERS: Duration = Duration::from_millis(2);
/// Checks that may come at once.
const AT_ONCE: u32 = 256;
/// Most members whose addresses are known; the longest silent one makes room. A service has fewer sessions.
const MEMBERS_MAX: usize = 1 << 15;

/// The packet that was signed last. Its copies for single members are the same bytes.
#[derive(Debug, Default)]
pub(super) struct LastSigned {
    plain: Vec<u8>,
    sealed: Vec<u8>,
    /// Where it has gone: what is the same and goes there again is another packet, and not a copy.
    sent_to: BTreeSet<SocketAddr>,
}

impl LastSigned {
    /// Appends the sealed bytes of this packet, if it is a copy of the last one. Returns whether it was.
    pub(super) fn copy(&mut self, to: SocketAddr, datagram: &[u8], sealed: &mut Vec<u8>) -> bool {
        let is_copy = Hop::peek(datagram) == Some(Hop::Copy) && self.is_of(datagram);
        if !is_copy || !self.sent_to.insert(to) {
            return false;
        }
        let begin = sealed.len();
        sealed.extend_from_slice(&self.sealed);
        sealed[begin + HOP_AT] = datagram[HOP_AT];
        true
    }

    /// Tells whether this packet is the last one, but for its hop.
    fn is_of(&self, datagram: &[u8]) -> bool {
        datagram.len() == self.plain.len()
            && datagram[..HOP_AT] == self.plain[..HOP_AT]
            && datagram[HOP_AT + 1..] == self.plain[HOP_AT + 1..]
    }

    /// Notes a packet that was signed, and goes there.
    pub(super) fn note(&mut self, to: SocketAddr, datagram: &[u8], sealed: &[u8]) {
        for (kept, bytes) in [(&mut self.plain, datagram), (&mut self.sealed, sealed)] {
            kept.clear();
            kept.extend_from_slice(bytes);
        }
        self.sent_to.clear();
        self.sent_to.insert(to);
    }
}

/// How many signatures may be checked.
#[derive(Debug)]
pub(super) struct Checks {
    members: HashMap<NodeId, Believed>,
    others: Allowance,
}

/// A member that has been believed, at the addresses that it spoke from last: one on each network.
#[derive(Debug)]
struct Believed {
    from: [SocketAddr; 2],
    allowance: Allowance,
}

/// Checks at a mean pace (the generic cell rate algorithm, ITU-T I.371).
#[derive(Debug, Clone, Copy)]
struct Allowance {
    spent_until: Instant,
}

impl Allowance {
    fn take(&mut self, now: Instant, pause: Duration) -> bool {
        let spent_until = self.spent_until.max(now) + pause;
        let allowed = spent_until <= now + pause * AT_ONCE;
        if allowed {
            self.spent_until = spent_until;
        }
        allowed
    }
}

impl Checks {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            members: HashMap::new(),
            others: Allowance { spent_until: now },
        }
    }

    /// Tells whether a signature may be checked that came from there in this member's name. It counts.
    pub(super) fn allow(&mut self, now: Instant, maker: NodeId, from: SocketAddr) -> bool {
        match self.members.get_mut(&maker) {
            Some(known) if known.from.contains(&from) => known.allowance.take(now, OF_A_MEMBER),
            _ => self.others.take(now, OF_OTHERS),
        }
    }

    /// The signature was that of the member.
    pub(super) fn believe(&mut self, now: Instant, maker: NodeId, from: SocketAddr) {
        if let Some(known) = self.members.get_mut(&maker) {
            if !known.from.contains(&from) {
                known.from = [from, known.from[0]];
            }
            return;
        }
        if self.members.len() >= MEMBERS_MAX {
            let silent = self.members.iter();
            let silent = silent.min_by_key(|(_, known)| known.allowance.spent_until);
            if let Some(silent) = silent.map(|(node, _)| *node) {
                self.members.remove(&silent);
            }
        }
        let allowance = Allowance { spent_until: now };
        let from = [from; 2];
        self.members.insert(maker, Believed { from, allowance });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    // Rule R-SEC-18.
    #[test]
    fn who_forges_in_a_members_name_uses_up_what_is_there_for_strange_addresses() {
        const ONE: NodeId = NodeId(1);
        let now = Instant::now();
        let mut checks = Checks::new(now);
        assert!(checks.allow(now, ONE, at(1)));
        checks.believe(now, ONE, at(1));
        let posed = |checks: &mut Checks, now| {
            (0..10_000)
                .filter(|port| checks.allow(now, ONE, at(2 + port)))
                .count()
        };
        assert_eq!(posed(&mut checks, now), AT_ONCE as usize - 1);
        assert!(checks.allow(now, ONE, at(1)), "its own are checked");
        assert!(!checks.allow(now, NodeId(2), at(2)), "others' wait");
        let later = now + Duration::from_millis(100);
        assert_eq!(posed(&mut checks, later), 50);
        // A member's own are not without limit either.
        let mut own = 0;
        for millisecond in 0..1000 {
            let now = later + Duration::from_millis(millisecond);
            own += (0..20).filter(|_| checks.allow(now, ONE, at(1))).count();
        }
        assert!((4000..=4000 + AT_ONCE as usize).contains(&own), "{own}");
    }

    #[test]
    fn a_member_on_two_networks_is_known_at_both() {
        let now = Instant::now();
        let mut checks = Checks::new(now);
        for port in [1, 2, 1, 3] {
            checks.believe(now, NodeId(1), at(port));
        }
        let known = &checks.members[&NodeId(1)];
        assert_eq!(known.from, [at(3), at(2)]);
    }

    #[test]
    fn no_more_members_are_known_than_there_is_room_for() {
        let now = Instant::now();
        let mut checks = Checks::new(now);
        for node in 0..=MEMBERS_MAX as u64 {
            checks.believe(now + OF_A_MEMBER * node as u32, NodeId(node), at(1));
        }
        assert_eq!(checks.members.len(), MEMBERS_MAX);
        assert!(!checks.members.contains_key(&NodeId(0)));
    }

    // Rule R-SEC-17.
    #[test]
    fn a_copy_for_one_is_the_same_bytes_and_what_is_said_again_is_not() {
        let mut last = LastSigned::default();
        let mut packet = vec![1; 40];
        last.note(at(1), &packet, &[2; 50]);
        let mut sealed = vec![9];
        assert!(!last.copy(at(2), &packet, &mut sealed), "it is no copy");
        Hop::Copy.stamp(&mut packet);
        for to in [2, 3] {
            sealed.truncate(1);
            assert!(last.copy(at(to), &packet, &mut sealed));
            let mut copy = vec![2; 50];
            Hop::Copy.stamp(&mut copy);
            assert_eq!(sealed[1..], copy);
        }
        assert!(!last.copy(at(2), &packet, &mut sealed), "it has gone there");
        packet[30] = 0;
        assert!(!last.copy(at(4), &packet, &mut sealed), "it is another one");
    }
}
