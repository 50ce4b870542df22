//! Marks of congestion (ECN) in the place of losses: at a bottleneck that marks, beside flows that heed marks or do not,
//! and on ways that break them.

mod support;

use std::time::Duration;

use support::{Bottleneck, Growth, Link, Marking, Net, PACKET_BYTES, SOURCE, Tcp, ms};

const SECOND: Duration = Duration::from_secs(1);
/// Way from the relay to receivers.
const BELOW_MS: u64 = 2;

/// A link between the source and its relay, and its queue.
#[derive(Debug, Clone, Copy)]
struct Way {
    /// From the source to a receiver.
    delay_ms: u64,
    /// Bytes a second.
    rate: u64,
    /// In hundredths of what is on its way in a round trip.
    queue: u64,
    /// Milliseconds of the queue behind which packets are marked; none: the source does without marks, too.
    mark_ms: Option<u64>,
    marks: Marking,
}

impl Way {
    /// With a queue of two products of rate and round trip.
    fn of(delay_ms: u64, rate: u64, mark_ms: Option<u64>) -> Self {
        Self {
            delay_ms,
            rate,
            queue: 200,
            mark_ms,
            marks: Marking::Kept,
        }
    }

    /// A source above it, and two receivers below.
    fn open(&self) -> Bed {
        let mut net = Net::rated(1, Link::clean(BELOW_MS));
        if self.mark_ms.is_some() {
            net.source_mut().use_marks();
        }
        let relay = net.relay(SOURCE);
        let receivers = net.receivers_below(relay, 2);
        let link = Link {
            marks: self.marks,
            ..Link::clean(self.delay_ms - BELOW_MS)
        };
        net.set_link(SOURCE, relay, link);
        let product = self.rate * self.delay_ms * 2 / 1000;
        let queue = (product * self.queue / 100).max(2 * PACKET_BYTES);
        let bottleneck = Bottleneck::new(self.rate, queue);
        let mark = self.mark_ms.map(|mark| self.rate * mark / 1000);
        let bottleneck = match mark {
            Some(mark) => bottleneck.marking(mark),
            None => bottleneck,
        };
        net.narrow(SOURCE, relay, bottleneck);
        net.settle(2);
        let rate = self.rate;
        Bed {
            net,
            receiver: receivers[0],
            rate,
        }
    }
}

/// A source and its receivers behind a bottleneck.
struct Bed {
    net: Net,
    receiver: usize,
    rate: u64,
}

/// Use of a bottleneck in some time.
#[derive(Debug, Clone, Copy)]
struct Use {
    /// Share of the rate, which a receiver got.
    used: f64,
    /// Bytes that were dropped.
    dropped: u64,
    /// Mean time for which packets waited.
    wait: Duration,
}

impl Bed {
    fn got(&self) -> u64 {
        self.net.heard(self.receiver).delivered.len() as u64
    }

    /// Floods the bottleneck for so long, and looks at its queue each millisecond.
    fn flood(&mut self, duration: Duration) -> Use {
        let (got, dropped) = (self.got(), self.net.shared_mut().dropped());
        let (mut bytes, mut looks) = (0, 0);
        let end = self.net.now().after(duration);
        while self.net.now() < end {
            self.net.flood(ms(1));
            let now = self.net.now();
            bytes += self.net.shared_mut().waiting(now);
            looks += 1;
        }
        let got = ((self.got() - got) * PACKET_BYTES) as f64;
        Use {
            used: got / duration.as_secs_f64() / self.rate as f64,
            dropped: self.net.shared_mut().dropped() - dropped,
            wait: SECOND * u32::try_from(bytes / looks / (self.rate / 1000)).unwrap() / 1000,
        }
    }
}

/// R-RELAY-80: from the beginning on.
#[test]
fn a_queue_that_marks_stays_short_and_loses_nothing_and_the_link_is_filled() {
    for (delay_ms, rate) in [(20, 2_500_000), (100, 1_250_000)] {
        let without = Way::of(delay_ms, rate, None).open().flood(SECOND * 25);
        for mark_ms in [2, 5, 20] {
            let way = Way {
                queue: 300,
                ..Way::of(delay_ms, rate, Some(mark_ms))
            };
            let mut bed = way.open();
            let first = bed.flood(SECOND * 8);
            let then = bed.flood(SECOND * 17);
            let place = format!("{way:?}: {first:?}, {then:?}; without {without:?}");
            assert_eq!(first.dropped + then.dropped, 0, "{place}");
            assert!(then.used >= 0.9, "{place}");
            assert!(then.wait <= without.wait, "{place}");
            assert!(bed.net.source().stats().marks > 0, "{place}");
        }
    }
}

/// R-RELAY-80: the mark of a link below the relay, and of one above it.
#[test]
fn marks_of_each_hop_are_heard() {
    for above in [true, false] {
        let mut net = Net::rated(1, Link::clean(10));
        net.source_mut().use_marks();
        let relay = net.relay(SOURCE);
        let receivers = net.receivers_below(relay, 2);
        let bottleneck = Bottleneck::new(1_000_000, 200_000).marking(5000);
        let (from, to) = if above {
            (SOURCE, relay)
        } else {
            (relay, receivers[1])
        };
        net.narrow(SOURCE, relay, Bottleneck::new(10_000_000, 1_000_000));
        net.narrow(from, to, bottleneck);
        net.settle(2);
        net.flood(SECOND * 10);
        let dropped = net.bottleneck_mut(from, to).unwrap().dropped();
        // The first word on marks of a receiver that has become the slowest comes later.
        let most = if above { 0 } else { 50_000 };
        assert!(dropped <= most, "{dropped}, {above}");
        assert!(net.source().stats().marks > 0, "{above}");
        let got = net.heard(receivers[1]).delivered.len() as u64;
        assert!(got * PACKET_BYTES >= 8_000_000, "{got}");
    }
}

/// The rate of a stream in that of a flow beside it, and what was dropped.
#[track_caller]
fn share_beside(left_by_mark: Option<f64>, way: Way) -> (f64, u64) {
    let mut bed = way.open();
    let mut flow = Tcp::new(Growth::Cubic, ms(way.delay_ms));
    if let Some(left) = left_by_mark {
        flow = flow.marking(left);
    }
    bed.net.add_flow(flow);
    bed.net.flood(SECOND * 10);
    let before = bed.net.flow_at(0).delivered();
    let ours = bed.flood(SECOND * 30);
    let tcp = (bed.net.flow_at(0).delivered() - before) * PACKET_BYTES / 30;
    let tcp = tcp as f64 / way.rate as f64;
    let place = format!("{ours:?} beside {tcp}, {left_by_mark:?}, {way:?}");
    assert!(ours.used + tcp >= 0.9, "{place}");
    (ours.used / tcp, ours.dropped)
}

/// R-RELAY-80: beside CUBIC as kernels have it, and with the answer of RFC 8511.
#[test]
fn beside_a_flow_that_heeds_marks_a_stream_keeps_its_share_and_both_lose_nothing() {
    for left in [0.7, 0.85] {
        for (delay_ms, rate) in [(20, 2_500_000), (50, 1_250_000)] {
            for mark_ms in [5, 20, 40] {
                let way = Way::of(delay_ms, rate, Some(mark_ms));
                let (share, dropped) = share_beside(Some(left), way);
                assert!((0.5..=2.0).contains(&share), "{share} of {left}, {way:?}");
                assert_eq!(dropped, 0, "{left}, {way:?}");
            }
        }
    }
}

/// R-RELAY-81: it keeps the queue long, so that all packets of the stream are marked.
#[test]
fn beside_a_flow_that_heeds_losses_alone_a_stream_does_not_starve() {
    for (delay_ms, rate) in [(20, 2_500_000), (50, 1_250_000)] {
        for mark_ms in [5, 20] {
            let way = Way {
                queue: 100,
                ..Way::of(delay_ms, rate, Some(mark_ms))
            };
            let (share, _) = share_beside(None, way);
            assert!((0.5..=3.0).contains(&share), "{share} of {way:?}");
        }
    }
}

/// R-RELAY-81: as if the source knew no marks.
#[test]
fn a_way_without_marks_is_used_as_without() {
    let mut without = Way::of(20, 2_500_000, None).open();
    let way = Way {
        marks: Marking::Bleached,
        ..Way::of(20, 2_500_000, Some(5))
    };
    let mut bleached = way.open();
    for _ in 0..10 {
        let found = [&mut without, &mut bleached].map(|bed| bed.flood(SECOND));
        assert_eq!(found[0].used, found[1].used);
        assert_eq!(found[0].dropped, found[1].dropped);
    }
    let stats = bleached.net.source().stats();
    assert_eq!((stats.marks, stats.unmarkable), (0, 1));
}

/// R-RELAY-81: from the beginning, or from then on.
#[test]
fn a_way_that_marks_all_packets_makes_a_stream_neither_stall_nor_starve() {
    for delay_ms in [20, 100] {
        let way = Way {
            marks: Marking::All,
            ..Way::of(delay_ms, 1_250_000, Some(20))
        };
        let mut bed = way.open();
        bed.flood(SECOND * 3);
        let used = bed.flood(SECOND * 10).used;
        assert!(used >= 0.9, "{used} of {way:?}");
        let stats = bed.net.source().stats();
        assert_eq!((stats.marks, stats.unmarkable), (0, 1));
        let way = Way {
            marks: Marking::Kept,
            ..way
        };
        let mut bed = way.open();
        bed.flood(SECOND * 8);
        let link = bed.net.link(SOURCE, 1);
        let broken = Link {
            marks: Marking::All,
            ..link
        };
        bed.net.set_link(SOURCE, 1, broken);
        for second in 0..20 {
            let used = bed.flood(SECOND).used;
            let least = if second < 6 { 0.2 } else { 0.85 };
            assert!(used >= least, "{used} in second {second}, {way:?}");
        }
        assert_eq!(bed.net.source().stats().unmarkable, 1);
    }
}
