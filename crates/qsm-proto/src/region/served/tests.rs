use std::net::SocketAddr;

use qsm_wire::membership::AwayReason;
use qsm_wire::{ChannelId, Header, Incarnation, NodeId, RegionId, StreamId};

use super::*;
use crate::Config;
use crate::send::{AckOutcome, BlockPool, Message, SendConfig};
use crate::stats::Histogram;
use crate::view::Layout;

const NOW: Instant = Instant(1000);

fn origin(node: u64) -> Origin {
    Origin {
        node: NodeId(node),
        incarnation: Incarnation(1),
    }
}

fn member(node: u64, left: Option<u32>) -> Member {
    Member {
        origin: origin(node),
        address: SocketAddr::from(([10, 0, 0, 1], u16::try_from(node).unwrap())),
        joined: ViewNumber(1),
        left: left.map(ViewNumber),
        away: None,
    }
}

fn view(number: u32, members: Vec<Member>) -> Arc<RegionView> {
    let channel = (ChannelId(9), SocketAddr::from(([239, 0, 0, 1], 7)));
    let (region, number) = (RegionId(1), ViewNumber(number));
    Arc::new(RegionView::new(
        region,
        number,
        channel,
        members,
        Layout::default(),
    ))
}

/// A sender's stream to a region, and its receivers.
struct Bench {
    served: Served,
    pool: BlockPool,
    stream: SendStream,
}

impl Bench {
    fn new() -> Self {
        Self::with_retention(1 << 20)
    }

    fn with_retention(bytes: usize) -> Self {
        let mut config = Config::new(NodeId(1), SocketAddr::from(([127, 0, 0, 1], 1)));
        config.limits.send_bytes = 1 << 20;
        let id = StreamId {
            origin: origin(1),
            channel: ChannelId(9),
        };
        let header = Header {
            origin: origin(1),
            ..Header::default()
        };
        let config = SendConfig::new(&config);
        Self {
            served: Served::default(),
            pool: BlockPool::new(1 << 20, bytes),
            stream: SendStream::new(config, header, id, ViewNumber(1)),
        }
    }

    fn follow(&mut self, view: &Arc<RegionView>) {
        self.stream.open_view(NOW, view.number());
        self.served.follow(view, NOW, origin(1), Some(&self.stream));
    }

    /// The members of that view that are live have everything up to here.
    fn acknowledge(&mut self, view: u32, upto: u64) {
        let ack = Ack {
            stream: self.stream.id(),
            region: RegionId(1),
            view: ViewNumber(view),
            round: u64::from(view),
            stable_upto: upto,
            cached_upto: upto,
            arrived_upto: upto,
            rate_packets: u32::MAX,
            credit_bytes: u32::MAX,
            losers: 0,
        };
        self.served.note_ack(&ack, &self.stream);
        let times = &mut Histogram::default();
        let outcome = self.stream.handle_ack(NOW, &mut self.pool, &ack, times);
        assert_ne!(outcome, AckOutcome::Malformed);
        self.served.note_taken(&ack, &self.stream);
    }

    /// A message that fills a packet.
    fn push(&mut self, number: u64) {
        let message = Message {
            group: GroupId(1),
            number,
            payload: &[1; 1200],
        };
        self.stream.push(NOW, &mut self.pool, message).unwrap();
    }

    /// Looks at what has been freed for want of room.
    fn note_let_go(&mut self) {
        let freed = self.stream.take_freed();
        self.served.note_freed(&freed, &self.stream);
    }

    /// Senders reported, and the packet up to which they are.
    fn reported(&mut self) -> Vec<(Vec<Origin>, u64)> {
        let unserved = self.served.take().into_iter();
        unserved.map(|it| (it.receivers, it.upto)).collect()
    }
}

/// Sends two messages, of which the second is not for member 2, which leaves before it.
fn leaving() -> Bench {
    let mut bench = Bench::new();
    bench.follow(&view(1, vec![member(2, None), member(3, None)]));
    bench.push(1);
    bench.follow(&view(2, vec![member(2, Some(2)), member(3, None)]));
    bench.push(2);
    bench
}

#[test]
fn a_member_that_dies_while_it_leaves_is_reported_with_what_was_sent_before_it_left() {
    let mut bench = leaving();
    bench.follow(&view(3, vec![member(3, None)]));
    assert_eq!(bench.reported(), []);
    bench.served.note_death(origin(2));
    assert_eq!(bench.reported(), [(vec![origin(2)], 1)]);
    bench.served.note_death(origin(2));
    assert_eq!(bench.reported(), [], "once");
}

#[test]
fn who_has_not_acknowledged_everything_is_named_at_the_end_of_its_sender() {
    for acknowledged in [1, 2] {
        let mut bench = Bench::new();
        bench.follow(&view(1, vec![member(2, None), member(3, None)]));
        bench.push(1);
        bench.push(2);
        while bench.stream.poll_train(NOW).is_some() {}
        bench.acknowledge(1, acknowledged);
        bench.served.leave(origin(1), &bench.stream);
        let named = bench.served.take();
        let named: Vec<_> = named
            .iter()
            .map(|it| (it.receivers.len(), it.after, it.cause))
            .collect();
        let expected = [(2, 1, UnservedCause::Ended)];
        assert_eq!(named, expected[..usize::from(acknowledged == 1)]);
    }
}

#[test]
fn what_was_let_go_while_a_member_was_away_is_named_when_it_has_given_it_up() {
    let mut bench = Bench::new();
    let away = |reason| Member {
        away: reason,
        ..member(2, None)
    };
    let mut named = UnconfirmedNumbers::default();
    named.note(GroupId(1), 7);
    named.note(GroupId(1), 8);
    let freed = [7, 8].map(|low| FreedMessage {
        sequence: u64::from(low),
        group: GroupId(1),
        low,
    });
    for back in [false, true] {
        bench.follow(&view(1, vec![member(3, None), away(None)]));
        let silent = away(Some(AwayReason::Silent));
        bench.follow(&view(2, vec![member(3, None), silent]));
        bench.served.note_freed(&freed, &bench.stream);
        if back {
            bench.follow(&view(3, vec![member(3, None), away(None)]));
        }
        bench.served.note_question(origin(3), 9);
        assert_eq!(bench.reported(), [], "it has everything");
        bench.served.note_question(origin(2), 9);
        let [one] = &bench.served.take()[..] else {
            panic!("one is told of");
        };
        assert_eq!(one.receivers, [origin(2)]);
        assert_eq!((one.cause, &one.released), (UnservedCause::Overrun, &named));
        bench.served.note_question(origin(2), 9);
        assert_eq!(bench.reported(), [], "once");
        // It may give up more without another question.
        bench.served.note_freed(&freed, &bench.stream);
        bench.served.note_refusal(origin(3));
        assert_eq!(bench.reported(), [], "it has everything");
        bench.served.note_refusal(origin(2));
        assert_eq!(bench.reported(), [(vec![origin(2)], 0)]);
        bench.served.note_freed(&freed, &bench.stream);
        bench.follow(&view(4, vec![member(3, None), away(None)]));
        let again = if back {
            vec![]
        } else {
            vec![(vec![origin(2)], 0)]
        };
        assert_eq!(bench.reported(), again);
    }
}

// Rule R-VIEW-13.
#[test]
fn what_was_let_go_before_its_sender_knew_who_is_away_is_named_to_those_it_was_for() {
    let mut bench = Bench::new();
    let silent = |node, joined| Member {
        joined: ViewNumber(joined),
        away: Some(AwayReason::Silent),
        ..member(node, None)
    };
    let (two, three) = (member(2, None), member(3, None));
    bench.follow(&view(1, vec![two, three]));
    (1..=2).for_each(|number| bench.push(number));
    let four = Member {
        joined: ViewNumber(2),
        ..member(4, None)
    };
    bench.follow(&view(2, vec![two, three, four]));
    bench.push(3);
    while bench.stream.poll_train(NOW).is_some() {}
    bench.acknowledge(2, 1);
    bench.acknowledge(3, 3);
    let freed = [1, 2, 3].map(|low| FreedMessage {
        sequence: u64::from(low),
        group: GroupId(1),
        low,
    });
    bench.served.note_freed(&freed, &bench.stream);
    bench.follow(&view(3, vec![three, silent(2, 1), silent(4, 2)]));
    for (node, first) in [(2, 2), (4, 3)] {
        let mut lacks = UnconfirmedNumbers::default();
        (first..=3).for_each(|number| lacks.note(GroupId(1), number));
        bench.served.note_question(origin(node), 9);
        let [one] = &bench.served.take()[..] else {
            panic!("{node} is told of");
        };
        assert_eq!(one.receivers, [origin(node)]);
        let ranges = |numbers: &UnconfirmedNumbers| numbers.clone().ranges(9, |_| None);
        assert_eq!(ranges(&one.released), ranges(&lacks), "{node}");
    }
}

// Rules R-RATE-10, R-VIEW-13: those live in a view that the sender does not know yet have what was let go, and
// say nothing of who is away in it.
#[test]
fn what_was_let_go_is_named_to_who_is_away_in_a_view_that_others_have_confirmed_it_in() {
    let mut bench = Bench::with_retention(0);
    let (two, three) = (member(2, None), member(3, None));
    bench.follow(&view(1, vec![two, three]));
    bench.stream.set_minimum(NOW, u32::MAX);
    for number in 1.. {
        bench.push(number);
        while bench.stream.poll_train(NOW).is_some() {}
        if bench.stream.overrun() > 0 {
            break;
        }
    }
    bench.note_let_go();
    for upto in [bench.stream.overrun(), bench.stream.highest()] {
        bench.acknowledge(2, upto);
        bench.note_let_go();
    }
    assert!(!bench.served.knows_views());
    let silent = Member {
        away: Some(AwayReason::Silent),
        ..two
    };
    bench.follow(&view(2, vec![three, silent]));
    assert!(bench.served.knows_views());
    assert_eq!(bench.served.away()[&origin(2)].after, 0);
    bench.served.note_question(origin(3), 9);
    assert_eq!(bench.reported(), [], "it has everything");
    bench.served.note_question(origin(2), 9);
    let [one] = &bench.served.take()[..] else {
        panic!("one is told of");
    };
    let (ranges, more) = one.released.clone().ranges(9, |_| None);
    let ranges: Vec<_> = ranges.iter().map(|it| (it.first, it.last)).collect();
    assert_eq!((ranges, more), (vec![(1, bench.stream.overrun())], 0));
}

// Rule R-VIEW-13.
#[test]
fn who_goes_away_again_before_it_has_what_it_lacked_still_lacks_it() {
    let away = |reason| Member {
        away: reason,
        ..member(2, None)
    };
    let silent = away(Some(AwayReason::Silent));
    for confirmed in [false, true] {
        let mut bench = Bench::new();
        bench.follow(&view(1, vec![member(3, None), away(None)]));
        bench.follow(&view(2, vec![member(3, None), silent]));
        bench.push(1);
        while bench.stream.poll_train(NOW).is_some() {}
        bench.acknowledge(2, 1);
        bench.follow(&view(3, vec![member(3, None), away(None)]));
        bench.acknowledge(if confirmed { 3 } else { 2 }, 1);
        bench.follow(&view(4, vec![member(3, None), silent]));
        let lacks_after = bench.served.away()[&origin(2)].after;
        assert_eq!(lacks_after, u64::from(confirmed));
        bench.follow(&view(5, vec![member(3, None)]));
        let after = bench.served.take().into_iter().map(|it| it.after);
        let expected = if confirmed { vec![1] } else { vec![0] };
        assert_eq!(after.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn a_member_that_has_left_with_everything_is_not_reported_when_it_dies_later() {
    let mut bench = leaving();
    bench.follow(&view(3, vec![member(3, None)]));
    bench.follow(&view(4, vec![member(3, None), member(4, None)]));
    bench.served.note_death(origin(2));
    assert_eq!(bench.reported(), []);
}
