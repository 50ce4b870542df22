//! Region views and everything that follows from them: partitions, cachers, leaders and rings are
//! pure functions of a view (R030). No elections, no agreement among nodes.
//!
//! ```text
//!  members, in the order of the view      0  1  2  3  4  5  6  7     n = 8, R = 3: p = 2
//!  partition k mod p (R026)               0  1  0  1  0  1  0  1
//!  block b of the stream (B packets)      cached by partition b mod p (R027, algorithms §0.7)
//! ```
//!
//! Members that are away come last. They are receivers, and nothing else: partitions, cachers,
//! leaders and rings are those of the live members before them (R-VIEW-12).

use std::net::SocketAddr;

use qsm_wire::membership::Member;
use qsm_wire::{ChannelId, MemberIndex, Origin, Parity, RegionId, SeqRange, ViewNumber};

use crate::Path;

/// Largest replication factor with the fast plane: ranks in a partition of up to 2R-1 members must
/// fit the 32 bits of `tried` in a NAK. The token plane has no such limit.
pub const REPLICATION_MAX: usize = 16;
/// Largest region: member indexes are 16 bits on the wire.
pub const MEMBERS_MAX: usize = 60_000;

/// How regions are cut; the same on every node of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// R: how many nodes at least cache each packet (R096). 0 means: 3 below 15 members, else 5
    /// (requirements section 22).
    pub replication: usize,
    /// B: packets per caching block. 1 is the paper's round robin (R027).
    pub block_packets: u64,
    /// Longest ring (R031).
    pub ring_max: usize,
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            replication: 0,
            block_packets: 16,
            ring_max: 25,
        }
    }
}

impl Layout {
    /// R for a region of that size.
    #[must_use]
    pub fn replication(&self, members: usize) -> usize {
        match self.replication {
            0 if members < 15 => 3,
            0 => 5,
            fixed => fixed,
        }
    }

    /// p = max(1, ⌊n/R⌋) (R025, X13).
    #[must_use]
    pub fn partitions(&self, members: usize) -> usize {
        (members / self.replication(members).max(1)).max(1)
    }
}

/// An immutable, numbered membership of a region (R036).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegionView {
    region: RegionId,
    number: ViewNumber,
    channel: ChannelId,
    path: Path,
    members: Vec<Member>,
    /// How many of them are not away; they come first.
    live: usize,
    /// The members by identity, for look-ups.
    index: Vec<(Origin, MemberIndex)>,
    layout: Layout,
    /// What the layout makes of so many live members: asked for with every packet.
    partitions: usize,
}

impl RegionView {
    /// A view. Members beyond [`MEMBERS_MAX`] are cut (the membership service refuses them).
    #[must_use]
    pub fn new(
        region: RegionId,
        number: ViewNumber,
        channel: (ChannelId, SocketAddr),
        mut members: Vec<Member>,
        layout: Layout,
    ) -> Self {
        members.truncate(MEMBERS_MAX);
        // Stable: live members keep the order that everybody knows.
        members.sort_by_key(Member::is_away);
        let live = members.partition_point(|member| !member.is_away());
        let mut index: Vec<_> = members
            .iter()
            .map(|member| member.origin)
            .zip((0..).map(MemberIndex))
            .collect();
        index.sort_unstable();
        Self {
            region,
            number,
            channel: channel.0,
            path: path(channel.1, &members),
            partitions: layout.partitions(live),
            members,
            live,
            index,
            layout,
        }
    }

    /// Which region.
    #[must_use]
    pub fn region(&self) -> RegionId {
        self.region
    }

    /// Its number.
    #[must_use]
    pub fn number(&self) -> ViewNumber {
        self.number
    }

    /// The channel that reaches it.
    #[must_use]
    pub fn channel(&self) -> ChannelId {
        self.channel
    }

    /// How the channel's packets reach the members.
    #[must_use]
    pub fn path(&self) -> Path {
        self.path
    }

    /// The address that packets for all members are sent to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.path.address()
    }

    /// Addresses of the members that are not `me`.
    pub fn others(&self, me: Origin) -> impl Iterator<Item = SocketAddr> + Clone + '_ {
        let others = self.members.iter();
        let others = others.filter(move |member| member.origin != me);
        others.map(|member| member.address)
    }

    /// The members, in the order of the membership service; those that are away come last.
    #[must_use]
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// The members that take part: all that are not away.
    #[must_use]
    pub fn live_members(&self) -> &[Member] {
        &self.members[..self.live]
    }

    /// The members that nobody waits for.
    #[must_use]
    pub fn away_members(&self) -> &[Member] {
        &self.members[self.live..]
    }

    /// Whether the member at this index takes part.
    #[must_use]
    pub fn is_live(&self, index: MemberIndex) -> bool {
        usize::from(index.0) < self.live
    }

    /// The layout it is cut by.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The member at this index.
    #[must_use]
    pub fn member(&self, index: MemberIndex) -> Option<&Member> {
        self.members.get(usize::from(index.0))
    }

    /// Where this node stands in the view.
    #[must_use]
    pub fn index_of(&self, origin: Origin) -> Option<MemberIndex> {
        let at = self
            .index
            .binary_search_by_key(&origin, |entry| entry.0)
            .ok()?;
        Some(self.index[at].1)
    }

    /// p, the number of partitions.
    #[must_use]
    pub fn partitions(&self) -> usize {
        self.partitions
    }

    /// The partition of a live member (R026, R-VIEW-1).
    #[must_use]
    pub fn partition_of(&self, index: MemberIndex) -> usize {
        usize::from(index.0) % self.partitions()
    }

    /// The partition that caches this packet (R027, R-VIEW-1).
    #[must_use]
    pub fn caching_partition(&self, sequence: u64) -> usize {
        // Asked for every packet: it saves two divisions.
        if self.partitions == 1 {
            return 0;
        }
        let block = sequence / self.layout.block_packets.max(1);
        let partitions = u64::try_from(self.partitions()).unwrap_or(1);
        usize::try_from(block % partitions).unwrap_or(0)
    }

    /// Whether the member at this index is a cacher of that packet.
    #[must_use]
    pub fn is_cacher(&self, index: MemberIndex, sequence: u64) -> bool {
        self.is_live(index) && self.partition_of(index) == self.caching_partition(sequence)
    }

    /// The caching block that holds this packet; `None` where blocks have one packet, or too many for
    /// parities (R-NAK-15).
    #[must_use]
    pub fn parity_block(&self, sequence: u64) -> Option<SeqRange> {
        let size = self.layout.block_packets;
        if !(2..=u64::from(Parity::PACKETS_MAX)).contains(&size) {
            return None;
        }
        let first = sequence - sequence % size;
        SeqRange::new(first.max(1), first.checked_add(size - 1)?)
    }

    /// The next packet after this one that the same partition caches.
    #[must_use]
    pub fn next_cached(&self, sequence: u64) -> u64 {
        let size = self.layout.block_packets.max(1);
        let skipped = u64::try_from(self.partitions() - 1).unwrap_or(0);
        let next = sequence.saturating_add(1);
        if next.is_multiple_of(size) {
            next.saturating_add(skipped.saturating_mul(size))
        } else {
            next
        }
    }

    /// The members of a partition in the order of the view; their place here is their rank.
    pub fn partition(&self, partition: usize) -> impl Iterator<Item = MemberIndex> + '_ {
        (partition..self.live)
            .step_by(self.partitions())
            .filter_map(|at| u16::try_from(at).ok().map(MemberIndex))
    }

    /// How many members a partition has.
    #[must_use]
    pub fn partition_len(&self, partition: usize) -> usize {
        (self.live + self.partitions() - 1 - partition.min(self.live)) / self.partitions()
    }

    /// The rank of a member in its partition.
    #[must_use]
    pub fn rank_of(&self, index: MemberIndex) -> usize {
        usize::from(index.0) / self.partitions()
    }

    /// The member of a partition with this rank.
    #[must_use]
    pub fn by_rank(&self, partition: usize, rank: usize) -> Option<MemberIndex> {
        let at = rank * self.partitions() + partition;
        if at < self.live {
            u16::try_from(at).ok().map(MemberIndex)
        } else {
            None
        }
    }

    /// The leader of a partition: its member with the smallest address (R028).
    #[must_use]
    pub fn partition_leader(&self, partition: usize) -> Option<MemberIndex> {
        self.partition(partition)
            .min_by_key(|index| self.leader_key(*index))
    }

    /// The member of a partition that has the same place in its ring as this one in its own, and
    /// has this one as its counterpart likewise (R-NAK-2). `None`: that ring is shorter. In a
    /// member's own partition it is itself.
    #[must_use]
    pub fn counterpart(&self, partition: usize, member: MemberIndex) -> Option<MemberIndex> {
        let at = self.place_in_ring(member);
        self.leaf_ring(partition).get(at).copied()
    }

    /// The ring of a partition, beginning with the counterpart of this member. Those who have none
    /// there spread over the ring.
    #[must_use]
    pub fn ring_from(&self, partition: usize, member: MemberIndex) -> Vec<MemberIndex> {
        let mut ring = self.leaf_ring(partition);
        if !ring.is_empty() {
            let at = Some(self.place_in_ring(member)).filter(|at| *at < ring.len());
            let at = at.unwrap_or_else(|| self.partition_of(member)) % ring.len();
            ring.rotate_left(at);
        }
        ring
    }

    fn place_in_ring(&self, member: MemberIndex) -> usize {
        let mut ring = self.leaf_ring(self.partition_of(member)).into_iter();
        ring.position(|index| index == member).unwrap_or(0)
    }

    /// The region leader: the leader of the first partition (R028).
    #[must_use]
    pub fn leader(&self) -> Option<MemberIndex> {
        self.partition_leader(0)
    }

    /// The ring of a level and number: partitions' members on level 0, above that groups of at
    /// most `ring_max` leaders of the level below (R031, R033). The leader of a ring is its first
    /// entry; on level 0 the others follow in the order of the view.
    #[must_use]
    pub fn ring(&self, level: u8, ring: u16) -> Vec<MemberIndex> {
        if level == 0 {
            return self.leaf_ring(usize::from(ring));
        }
        let below = self.rings_on(level - 1);
        let size = self.layout.ring_max.max(2);
        let first = usize::from(ring) * size;
        (first..below.min(first + size))
            .filter_map(|at| self.ring_leader(level - 1, u16::try_from(at).ok()?))
            .collect()
    }

    /// How many rings a level has; the level with one ring is the top.
    #[must_use]
    pub fn rings_on(&self, level: u8) -> usize {
        let size = self.layout.ring_max.max(2);
        (0..level).fold(self.partitions(), |below, _| below.div_ceil(size))
    }

    /// The topmost level.
    #[must_use]
    pub fn top_level(&self) -> u8 {
        let mut level = 0;
        while self.rings_on(level) > 1 {
            level += 1;
        }
        level
    }

    /// The leader of a ring.
    #[must_use]
    pub fn ring_leader(&self, level: u8, ring: u16) -> Option<MemberIndex> {
        let size = self.layout.ring_max.max(2);
        let partition = (0..level).fold(usize::from(ring), |at, _| at * size);
        if partition < self.partitions() {
            self.partition_leader(partition)
        } else {
            None
        }
    }

    fn leaf_ring(&self, partition: usize) -> Vec<MemberIndex> {
        let Some(leader) = self.partition_leader(partition) else {
            return Vec::new();
        };
        let others = self.partition(partition).filter(|index| *index != leader);
        core::iter::once(leader).chain(others).collect()
    }

    fn leader_key(&self, index: MemberIndex) -> (SocketAddr, Origin) {
        let member = &self.members[usize::from(index.0)];
        (member.address, member.origin)
    }
}

/// The path of a channel with this address. One that is not a multicast address stands for the only
/// member of a private region, wherever that is by now. Rule R-VIEW-15.
fn path(address: SocketAddr, members: &[Member]) -> Path {
    match members {
        _ if address.ip().is_multicast() => Path::Multicast(address),
        [member] => Path::Member(member.address),
        _ => Path::Member(address),
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId};

    use super::*;

    fn view(members: u64) -> RegionView {
        let member = |node: u64| Member {
            origin: Origin {
                node: NodeId(node),
                incarnation: Incarnation(1),
            },
            // The leader is not the first member of its partition.
            address: SocketAddr::from(([10, 0, 0, 255 - u8::try_from(node).unwrap()], 1)),
            joined: ViewNumber(1),
            left: None,
            away: None,
        };
        let members = (1..=members).map(member).collect();
        let channel = (ChannelId(1), SocketAddr::from(([239, 0, 0, 1], 1)));
        let layout = Layout::default();
        RegionView::new(RegionId(1), ViewNumber(1), channel, members, layout)
    }

    fn members(view: &RegionView) -> impl Iterator<Item = MemberIndex> + use<> {
        (0..).map(MemberIndex).take(view.members().len())
    }

    // Rule R-VIEW-15.
    #[test]
    fn packets_for_a_private_region_go_to_where_its_member_is() {
        let (shared, was) = (view(1), SocketAddr::from(([10, 0, 0, 9], 1)));
        let [member] = shared.members() else {
            panic!("there is one");
        };
        assert!(shared.path().is_multicast());
        let members = vec![*member];
        let channel = (ChannelId(1), was);
        let layout = Layout::default();
        let private = RegionView::new(RegionId(1), ViewNumber(2), channel, members, layout);
        assert_eq!(private.path(), Path::Member(member.address));
        assert_eq!(private.address(), member.address);
        let nobody = RegionView::new(RegionId(1), ViewNumber(3), channel, Vec::new(), layout);
        assert_eq!(nobody.path(), Path::Member(was));
    }

    // Rule R-NAK-2.
    #[test]
    fn a_member_is_the_counterpart_of_its_counterparts() {
        for view in [60, 64].map(view) {
            for me in members(&view) {
                let own = view.partition_of(me);
                for partition in 0..view.partitions() {
                    let counterpart = view.counterpart(partition, me);
                    let back = counterpart.map(|other| view.counterpart(own, other));
                    assert!(back.is_none_or(|back| back == Some(me)));
                    assert_eq!(counterpart == Some(me), partition == own);
                    let shorter = view.partition_len(partition) < view.partition_len(own);
                    assert!(counterpart.is_some() || shorter);
                }
            }
        }
    }

    #[test]
    fn a_ring_begins_with_the_counterpart_and_has_all_members() {
        let view = view(64);
        for (me, partition) in members(&view).flat_map(|me| (0..12).map(move |of| (me, of))) {
            let mut ring = view.ring_from(partition, me);
            let counterpart = view.counterpart(partition, me);
            assert!(counterpart.is_none_or(|counterpart| counterpart == ring[0]));
            ring.sort_unstable();
            assert!(ring.into_iter().eq(view.partition(partition)));
        }
    }
}
