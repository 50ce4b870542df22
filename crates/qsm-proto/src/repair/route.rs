//! Whom a request goes to: along edges that a node has anyway (R011).
//!
//! ```text
//!  its own partition caches        asker ─► neighbour ─► neighbour ─► ...
//!  another partition caches        asker ─► counterpart ─► neighbour of that ─► ...
//!  the counterpart does not serve  asker ─► neighbour ─► its counterpart ─► ...
//! ```
//!
//! Neighbours are those in the ring of a node's own partition; its counterpart in another partition
//! has the same place in the ring there, and where that ring is shorter there may be none. Whoever
//! has the packet sends it to all who wait for it.

use core::time::Duration;

use qsm_wire::{MemberIndex, Origin, ViewNumber};

use super::bit;
use crate::history::History;
use crate::receive::ReceiveStream;
use crate::view::RegionView;
use crate::{Instant, mix};

/// Times as long as others for which cachers of a dead sender are waited for that are silent or away.
pub(super) const PATIENCE_AFTER_DEATH: u32 = 5;

/// Finds the next node that a request for packets of one block goes to.
#[derive(Debug)]
pub(crate) struct RequestRoute<'a> {
    /// The region's views.
    pub(crate) history: &'a History,
    /// The stream, which knows who is silent.
    pub(crate) stream: &'a ReceiveStream,
    /// The view that the packets were sent in.
    pub(crate) view: &'a RegionView,
    /// This node's place in it.
    pub(crate) me: Option<MemberIndex>,
    /// One of the packets.
    pub(crate) sequence: u64,
    /// Bit r: the cacher of rank r misses them.
    pub(crate) known_missing: u32,
    /// The time.
    pub(crate) now: Instant,
    /// Time for which a member counts as silent.
    pub(crate) give_up: Duration,
}

impl RequestRoute<'_> {
    /// The cachers that may have the packets, but for this node and the sender.
    pub(crate) fn open(&self) -> Vec<MemberIndex> {
        others_who_cache(
            self.history,
            self.stream.id().origin,
            self.view.number(),
            self.sequence,
        )
        .filter(|(rank, _)| self.known_missing & bit(*rank) == 0)
        .map(|(_, index)| index)
        .collect()
    }

    /// The node to ask for the `attempts`-th time; if all are silent, the one that has been left
    /// alone for longest. A node that is away has no place, and asks cachers alone, by block.
    /// `None`: no cacher may have the packets.
    pub(crate) fn next(&self, attempts: u8) -> Option<MemberIndex> {
        let open = self.open();
        let on_edge = self.me.and_then(|me| {
            let own = self.view.partition_of(me);
            match own == self.caching_partition() {
                true => self.along_ring(me, &open),
                false => self.across(me, &open, attempts),
            }
        });
        // A node without an edge, such as one that is away, spreads its requests.
        let block = self.sequence / self.view.layout().block_packets.max(1);
        let order = |index: &MemberIndex| (self.silent(*index), mix(block ^ u64::from(index.0)));
        let longest_silent = || open.iter().copied().min_by_key(order);
        on_edge.or_else(longest_silent)
    }

    /// The cacher to which a node that is none passes on the request of a neighbour: its own
    /// counterpart, or the next one along the ring from there.
    pub(crate) fn beside(&self) -> Option<MemberIndex> {
        let open = self.open();
        let mut ring = self.view.ring_from(self.caching_partition(), self.me?);
        ring.retain(|index| open.contains(index));
        ring.into_iter().min_by_key(|index| self.silent(*index))
    }

    /// The cacher to ask where nobody answers at once: each in turn.
    pub(crate) fn in_turn(&self, attempts: u8) -> Option<MemberIndex> {
        let open = self.open();
        let mut ring = match self.me {
            Some(me) => self.view.ring_from(self.caching_partition(), me),
            None => open.clone(),
        };
        ring.retain(|index| open.contains(index));
        ring.get(usize::from(attempts) % ring.len().max(1)).copied()
    }

    /// The cacher to ask where the sender is dead and those that are live do not have the packets:
    /// each in turn of those that are away, which may still be reached.
    pub(crate) fn away(&self, attempts: u8) -> Option<MemberIndex> {
        if !awaits_away(self.now, self.give_up, self.stream) {
            return None;
        }
        let away = others_away(
            self.history,
            self.stream.id().origin,
            self.view.number(),
            self.sequence,
        );
        let open = away.filter(|(rank, _)| self.known_missing & bit(*rank) == 0);
        let open: Vec<MemberIndex> = open.map(|(_, index)| index).collect();
        open.get(usize::from(attempts) % open.len().max(1)).copied()
    }

    /// The neighbour from which the nearest open cacher is reached. A silent one is not asked as
    /// long as the other one answers; if both are silent, the ring is as if they were not in it.
    fn along_ring(&self, me: MemberIndex, open: &[MemberIndex]) -> Option<MemberIndex> {
        let mut ring = self.others_in_ring(me);
        let silent = |index: &MemberIndex| self.silent(*index).is_some();
        if ring.first().is_some_and(silent) && ring.last().is_some_and(silent) {
            ring.retain(|index| !silent(index));
        }
        let (first, last) = (*ring.first()?, *ring.last()?);
        let ahead = ring.iter().position(|index| open.contains(index))?;
        let behind = ring.iter().rev().position(|index| open.contains(index))?;
        // Neighbours that have missed the same packets do not all ask in the same direction.
        let block = self.sequence / self.view.layout().block_packets.max(1);
        let backward = mix(u64::from(me.0) ^ block) & 1 == 0;
        match (silent(&first), silent(&last)) {
            (true, false) => Some(last),
            (false, true) => Some(first),
            _ if ahead < behind || (ahead == behind && !backward) => Some(first),
            _ => Some(last),
        }
    }

    /// The counterpart in the caching partition; if that does not serve, a neighbour, whose
    /// counterpart is another one; if no neighbour does, the next one along the ring there.
    fn across(&self, me: MemberIndex, open: &[MemberIndex], attempts: u8) -> Option<MemberIndex> {
        let partition = self.caching_partition();
        let serves = |index: MemberIndex| open.contains(&index) && self.silent(index).is_none();
        let facing = |index| {
            self.view
                .counterpart(partition, index)
                .filter(|facing| serves(*facing))
        };
        if let Some(counterpart) = facing(me) {
            return Some(counterpart);
        }
        let ring = self.others_in_ring(me);
        let mut neighbours: Vec<MemberIndex> = ring
            .first()
            .into_iter()
            .chain(ring.last())
            .copied()
            .collect();
        neighbours.retain(|index| self.silent(*index).is_none() && facing(*index).is_some());
        if !neighbours.is_empty() {
            return Some(neighbours[usize::from(attempts) % neighbours.len()]);
        }
        let mut others = self.view.ring_from(partition, me).into_iter();
        others.find(|index| serves(*index))
    }

    /// The living members of this node's ring but itself and the sender, in the order in which they
    /// follow it.
    fn others_in_ring(&self, me: MemberIndex) -> Vec<MemberIndex> {
        let sender = self.stream.id().origin;
        let mut ring = self.view.ring_from(self.view.partition_of(me), me);
        ring.retain(|index| {
            let member = self.view.member(*index).map(|member| member.origin);
            *index != me
                && member.is_some_and(|member| member != sender && self.history.takes_part(member))
        });
        ring
    }

    fn caching_partition(&self) -> usize {
        self.view.caching_partition(self.sequence)
    }

    /// When this member was found to be silent, if that was not long ago.
    fn silent(&self, index: MemberIndex) -> Option<Instant> {
        let since = self.stream.silent_at(index);
        since.filter(|since| self.now.since(*since) < self.give_up)
    }
}

/// The living cachers of a packet but this node and its sender: rank and place.
pub(crate) fn others_who_cache(
    history: &History,
    sender: Origin,
    view: ViewNumber,
    sequence: u64,
) -> impl Iterator<Item = (usize, MemberIndex)> + '_ {
    let cachers = history.cachers(view, sequence);
    cachers.filter(but(history.nearest(view), sender))
}

/// The cachers of a packet that are away, but for its sender: rank and place.
pub(crate) fn others_away(
    history: &History,
    sender: Origin,
    view: ViewNumber,
    sequence: u64,
) -> impl Iterator<Item = (usize, MemberIndex)> + '_ {
    let cachers = history.cachers_away(view, sequence);
    cachers.filter(but(history.nearest(view), sender))
}

/// All members of a view but the sender.
fn but(view: &RegionView, sender: Origin) -> impl Fn(&(usize, MemberIndex)) -> bool + '_ {
    move |(_, index)| view.member(*index).is_some_and(|m| m.origin != sender)
}

/// Tells whether cachers that are away are waited for, and asked: the sender is dead, not for long.
pub(crate) fn awaits_away(now: Instant, give_up: Duration, stream: &ReceiveStream) -> bool {
    let died = stream.sender_died_at();
    died.is_some_and(|died| now.since(died) <= give_up * PATIENCE_AFTER_DEATH)
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::sync::Arc;

    use qsm_wire::membership::{AwayReason, Member};
    use qsm_wire::{ChannelId, Incarnation, NodeId, RegionId, SeqRange, StreamId};

    use super::*;
    use crate::receive::{Gaps, StreamMarks};
    use crate::repair::note_missing;
    use crate::view::Layout;

    const GIVE_UP: Duration = Duration::from_secs(2);
    const PARTITIONS: u16 = 3;
    const RING: u16 = 5;

    fn origin(place: u16) -> Origin {
        Origin {
            node: NodeId(u64::from(place)),
            incarnation: Incarnation(1),
        }
    }

    fn place(partition: u16, rank: u16) -> MemberIndex {
        MemberIndex(rank * PARTITIONS + partition)
    }

    /// Three rings of five members each; packets alternate between partitions.
    fn view() -> Arc<RegionView> {
        view_without(1, &[])
    }

    /// The same view with members that are away.
    fn view_without(number: u32, away: &[MemberIndex]) -> Arc<RegionView> {
        let member = |place: u16| Member {
            origin: origin(place),
            address: SocketAddr::from(([10, 0, 0, u8::try_from(place).unwrap()], 1)),
            joined: ViewNumber(1),
            left: None,
            away: away
                .contains(&MemberIndex(place))
                .then_some(AwayReason::Silent),
        };
        let members = (0..PARTITIONS * RING).map(member).collect();
        let channel = (ChannelId(1), SocketAddr::from(([239, 0, 0, 1], 1)));
        let layout = Layout {
            replication: usize::from(RING),
            block_packets: 1,
            ..Layout::default()
        };
        Arc::new(RegionView::new(
            RegionId(1),
            ViewNumber(number),
            channel,
            members,
            layout,
        ))
    }

    /// A node's view of a stream: who sends it, and who does not answer.
    struct Asker {
        history: History,
        stream: ReceiveStream,
        me: MemberIndex,
    }

    impl Asker {
        fn new(me: MemberIndex, sender: Origin) -> Self {
            let id = StreamId {
                origin: sender,
                channel: ChannelId(1),
            };
            Self {
                history: History::new(origin(me.0), view()),
                stream: ReceiveStream::new(id, 1, StreamMarks::default()),
                me,
            }
        }

        fn sets_away(&mut self, away: &[MemberIndex]) {
            self.history.push(view_without(2, away));
        }

        fn silences(&mut self, member: MemberIndex) {
            let mut gaps = Gaps::default();
            gaps.append(SeqRange::one(1), Instant(0), Instant(0));
            let gap = gaps.find_mut(1).unwrap();
            (0..8).for_each(|_| gap.ask(Instant(0), Some(member)));
            self.stream.note_retry(Instant(1), gap);
        }

        fn route(&self, sequence: u64, missing_ranks: &[usize]) -> RequestRoute<'_> {
            RequestRoute {
                history: &self.history,
                stream: &self.stream,
                view: self.history.nearest(ViewNumber(1)),
                me: Some(self.me),
                sequence,
                known_missing: missing_ranks.iter().map(|rank| bit(*rank)).sum(),
                now: Instant(1),
                give_up: GIVE_UP,
            }
        }

        /// Those asked for this packet, one attempt after the other.
        fn asked(&self, sequence: u64, missing_ranks: &[usize]) -> Vec<MemberIndex> {
            let route = self.route(sequence, missing_ranks);
            let mut asked: Vec<_> = (0..4).filter_map(|attempts| route.next(attempts)).collect();
            asked.sort_unstable();
            asked.dedup();
            asked
        }
    }

    // Rules R-NAK-2, R-NAK-3.
    #[test]
    fn what_a_nodes_own_partition_caches_is_asked_of_its_ring_neighbours_only() {
        let asker = Asker::new(place(0, 2), origin(99));
        for sequence in (0..300).step_by(3) {
            let [asked] = asker.asked(sequence, &[])[..] else {
                panic!("one at a time");
            };
            assert!([place(0, 1), place(0, 3)].contains(&asked));
        }
        assert_eq!(
            asker.asked(0, &[1]),
            [place(0, 3)],
            "the other one may have it"
        );
        assert_eq!(
            asker.asked(0, &[1, 3, 0]),
            [place(0, 3)],
            "nearer to the one that may"
        );
        assert_eq!(asker.asked(0, &[1, 3, 4]), [place(0, 1)]);
        assert_eq!(asker.asked(0, &[0, 1, 3, 4]), []);
    }

    // Rule R-NAK-2.
    #[test]
    fn around_a_silent_neighbour_requests_go_the_other_way() {
        let mut asker = Asker::new(place(0, 2), origin(99));
        asker.silences(place(0, 1));
        assert_eq!(asker.asked(0, &[]), [place(0, 3)]);
        assert_eq!(asker.asked(0, &[3, 4, 0]), [place(0, 3)]);
        asker.silences(place(0, 3));
        assert_eq!(asker.asked(0, &[4]), [place(0, 0)], "the next ones");
    }

    // Rule R-NAK-2.
    #[test]
    fn what_another_partition_caches_is_asked_of_the_counterpart_or_by_way_of_a_neighbour() {
        let mut asker = Asker::new(place(0, 2), origin(99));
        let (counterpart, beside) = (place(1, 2), [place(0, 1), place(0, 3)]);
        assert_eq!(asker.asked(1, &[]), [counterpart]);
        assert_eq!(asker.asked(1, &[2]), beside, "it has let the packet go");
        assert_eq!(
            asker.asked(1, &[1, 2]),
            [beside[1]],
            "whose counterpart may have it"
        );
        asker.silences(counterpart);
        assert_eq!(asker.asked(1, &[]), beside);
        asker.silences(beside[0]);
        assert_eq!(asker.asked(1, &[]), [beside[1]]);
        asker.silences(beside[1]);
        assert_eq!(asker.asked(1, &[]), [place(1, 3)], "the next one there");
    }

    // Rule R-NAK-2.
    #[test]
    fn by_way_of_a_neighbour_that_has_let_packets_go_nobody_is_asked() {
        let mut asker = Asker::new(place(0, 2), origin(99));
        let (neighbour, range) = (place(0, 1), SeqRange::one(1));
        asker
            .stream
            .gaps_mut()
            .append(range, Instant(0), Instant(9));
        let hear = |asker: &mut Asker| {
            let (stream, history) = (&mut asker.stream, &asker.history);
            note_missing(Instant(1), stream, history, origin(neighbour.0), range);
            *asker.stream.gaps().find(1).unwrap()
        };
        assert!(!hear(&mut asker).let_go, "it was not asked");
        let gap = asker.stream.gaps_mut().find_mut(1).unwrap();
        gap.ask(Instant(0), Some(neighbour));
        gap.due = Instant(9);
        let gap = hear(&mut asker);
        assert!(gap.let_go && gap.refused);
        assert_eq!((gap.known_missing, gap.due), (0, Instant(1)));
        let route = RequestRoute {
            me: None,
            ..asker.route(1, &[])
        };
        let asked = route.next(1).unwrap();
        assert_eq!(asker.history.newest().partition_of(asked), 1, "a cacher");
    }

    #[test]
    fn a_neighbour_passes_a_request_on_to_its_own_counterpart() {
        let mut neighbour = Asker::new(place(0, 3), origin(99));
        assert_eq!(neighbour.route(1, &[2]).beside(), Some(place(1, 3)));
        neighbour.silences(place(1, 3));
        assert_eq!(neighbour.route(1, &[2]).beside(), Some(place(1, 4)));
        assert_eq!(neighbour.route(1, &[0, 1, 2, 3, 4]).beside(), None);
    }

    // Rule R-NAK-8.
    #[test]
    fn those_that_are_away_are_asked_for_a_while_once_the_sender_is_dead() {
        let mut asker = Asker::new(place(0, 2), origin(99));
        let away = [place(0, 3), place(0, 4)];
        asker.sets_away(&away);
        let asked = |asker: &Asker, missing: &[usize]| {
            let route = asker.route(0, missing);
            let asked = (0..3).map_while(|attempts| route.away(attempts));
            asked.collect::<Vec<_>>()
        };
        assert_eq!(asked(&asker, &[]), [], "the sender lives");
        asker.stream.sender_died(Instant(1));
        assert_eq!(asked(&asker, &[]), [away[0], away[1], away[0]]);
        assert_eq!(asked(&asker, &[3]), [away[1]; 3], "the other one may");
        let live = asker.asked(0, &[]);
        assert!(live.iter().all(|live| !away.contains(live)));
        assert_eq!(asker.asked(0, &[0, 1]), [], "no live one may");
        let long = GIVE_UP * (PATIENCE_AFTER_DEATH + 1);
        let route = RequestRoute {
            now: Instant(1).after(long),
            ..asker.route(0, &[])
        };
        assert_eq!(route.away(0), None);
    }

    // Rule R-NAK-4.
    #[test]
    fn a_sender_that_is_a_member_is_not_asked_as_one() {
        let sender = place(1, 2);
        let asker = Asker::new(place(0, 2), origin(sender.0));
        assert_eq!(asker.asked(1, &[]), [place(0, 1), place(0, 3)]);
        let beside_it = Asker::new(place(1, 1), origin(sender.0));
        for sequence in (1..300).step_by(3) {
            let asked = beside_it.asked(sequence, &[]);
            assert!([[place(1, 0)], [place(1, 3)]].contains(&asked[..].try_into().unwrap()));
        }
    }
}
