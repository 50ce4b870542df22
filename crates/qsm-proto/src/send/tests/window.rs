use super::*;
use crate::view::{Layout, RegionView};

fn fill(bench: &mut Bench) {
    while bench.push(0, &[1; 1402]).is_ok() {}
}

#[test]
fn the_first_window_is_64_kib() {
    let mut bench = Bench::new(&base());
    fill(&mut bench);
    assert_eq!(bench.trains(), FIRST_WINDOW_BYTES / 1456);
    assert_eq!(
        bench.stream.next_timeout().map(|at| at > bench.now),
        Some(true)
    );
}

#[test]
fn stability_opens_the_window_by_what_it_frees() {
    // R134: bytes above stable_upto.
    let mut bench = Bench::new(&base());
    fill(&mut bench);
    bench.trains();
    bench.round += 1;
    let mut ack = bench.ack(45, 10);
    ack.credit_bytes = 64 << 10;
    assert_eq!(bench.handle(&ack), AckOutcome::Applied);
    assert_eq!(bench.stream.in_flight_bytes(), 35 * 1456);
    assert_eq!(bench.trains(), 10);
}

// Rule R-RATE-4.
#[test]
fn what_has_arrived_behind_a_gap_leaves_room_for_four_times_the_credit() {
    let mut bench = Bench::new(&base());
    let credit = 64 << 10;
    let one = FIRST_WINDOW_BYTES / 1456;
    for windows in 1..=4 {
        fill(&mut bench);
        assert_eq!(bench.trains(), one, "window {windows}");
        bench.round += 1;
        let mut ack = bench.ack(0, 0);
        (ack.arrived_upto, ack.credit_bytes) = (bench.stream.highest(), credit);
        bench.handle(&ack);
    }
    // Their buffers are empty, but they keep all they should.
    fill(&mut bench);
    assert_eq!(bench.trains(), 0);
    bench.round += 1;
    let mut ack = bench.ack(one as u64, one as u64);
    (ack.arrived_upto, ack.credit_bytes) = (bench.stream.highest(), credit);
    bench.handle(&ack);
    assert_eq!(bench.trains(), one);
}

// S0 §5.1 bounds what is not acknowledged.
#[test]
fn in_the_papers_mode_what_has_arrived_behind_a_gap_counts() {
    let mut bench = Bench::new(&base().seed_faithful());
    fill(&mut bench);
    let sent = bench.trains();
    bench.round += 1;
    let mut ack = bench.ack(0, 0);
    (ack.arrived_upto, ack.credit_bytes) = (bench.stream.highest(), 64 << 10);
    bench.handle(&ack);
    assert_eq!((sent, bench.trains()), (FIRST_WINDOW_BYTES / 1456, 0));
}

// Rule R-RATE-4.
#[test]
fn the_window_follows_the_credit_up_to_the_configured_one() {
    let mut bench = Bench::new(&base());
    fill(&mut bench);
    for (credit, window) in [
        (10_000, 10_000),
        (u32::MAX, bench.config.window_bytes),
        (0, 0),
    ] {
        bench.trains();
        bench.round += 1;
        let highest = bench.stream.highest();
        let mut ack = bench.ack(highest, highest);
        ack.credit_bytes = credit;
        bench.handle(&ack);
        assert_eq!(bench.stream.window_bytes(), window);
    }
    // Without any credit packets go one by one, so that the stream never stands still.
    fill(&mut bench);
    assert_eq!(bench.trains(), 1);
    let highest = bench.stream.highest();
    bench.acknowledge(highest - 1, highest - 1);
    bench.round += 1;
    let mut ack = bench.ack(highest, highest);
    ack.credit_bytes = 0;
    bench.handle(&ack);
    assert_eq!(bench.trains(), 1);
}

// Rule R-DATA-5.
#[test]
fn memory_comes_back_when_all_have_it() {
    let mut bench = Bench::new(&base());
    bench.acknowledge_all();
    for _ in 0..88 {
        bench.push(0, &[1; 1402]).expect("room");
    }
    bench.trains();
    assert_eq!(bench.pool.lent_blocks(), 2);
    bench.acknowledge(50, 0);
    assert_eq!(bench.pool.lent_blocks(), 2);
    assert!(bench.stream.packet(50).is_some());
    assert_eq!(bench.stream.in_flight_bytes(), 88 * 1456);
    bench.acknowledge(88, 50);
    assert_eq!(bench.pool.lent_blocks(), 1);
    assert_eq!(bench.stream.packet(50), None);
    assert!(bench.stream.packet(51).is_some());
    bench.acknowledge(88, 88);
    assert_eq!(bench.pool.lent_blocks(), 0);
    assert_eq!(bench.pool.allocated_blocks(), 2, "kept for the next");
}

/// View 1 of so many nodes in partitions of one, which cache one packet each in turn.
fn alone(nodes: u16) -> RegionView {
    let members = (1..=nodes).map(|node| qsm_wire::membership::Member {
        origin: Origin {
            node: NodeId(u64::from(node)),
            incarnation: Incarnation(3),
        },
        address: SocketAddr::from(([10, 0, 0, 1], node)),
        joined: ViewNumber(1),
        left: None,
        away: None,
    });
    let layout = Layout {
        replication: 1,
        block_packets: 1,
        ..Layout::default()
    };
    let channel = (id().channel, SocketAddr::from(CHANNEL));
    RegionView::new(
        RegionId(1),
        ViewNumber(1),
        channel,
        members.collect(),
        layout,
    )
}

// R094.
#[test]
fn what_partitions_have_behind_a_gap_is_not_in_flight() {
    let mut bench = Bench::new(&base());
    let view = alone(4);
    bench.acknowledge_all();
    for _ in 0..8 {
        bench.push(0, &[1; 1402]).expect("room");
    }
    bench.trains();
    // Partition 2, which caches packets 2 and 6, has neither; partition 3 is not spoken of.
    bench.acknowledge(1, 1);
    bench.stream.handle_marks(&view, &[8, 8, 1]);
    bench.stream.check_invariants();
    assert_eq!(bench.stream.in_flight_packets(), 4, "2, 3, 6, 7");
    assert_eq!(bench.stream.in_flight_bytes(), 4 * 1456);
    assert!(bench.stream.packet(5).is_some(), "for repairs");
    // What was relieved is not returned twice.
    bench.acknowledge(4, 4);
    assert_eq!(bench.stream.in_flight_bytes(), 4 * 1456);
    bench.stream.handle_marks(&view, &[8, 8, 8, 8]);
    assert_eq!(bench.stream.in_flight_bytes(), 0);
    bench.stream.check_invariants();
    bench.acknowledge_all();
    assert!(bench.stream.is_idle());
}

// R094.
#[test]
fn partitions_of_another_view_have_no_word_on_packets_before_it() {
    let mut bench = Bench::new(&base());
    bench.acknowledge_all();
    bench.push(0, &[1; 1402]).expect("room");
    bench.trains();
    bench.stream.open_view(bench.now, ViewNumber(2));
    bench.stream.handle_marks(&alone(1), &[u64::MAX]);
    assert_eq!(bench.stream.in_flight_packets(), 0);
    bench.acknowledge(0, 0);
    let later = RegionView::new(
        RegionId(1),
        ViewNumber(2),
        (id().channel, SocketAddr::from(CHANNEL)),
        alone(1).members().to_vec(),
        alone(1).layout(),
    );
    bench.stream.handle_marks(&later, &[u64::MAX]);
    assert_eq!(bench.stream.in_flight_packets(), 1);
}

#[test]
fn a_repair_is_the_original_and_nothing_unsent_is_one() {
    let mut bench = Bench::new(&base());
    bench.push(0, &[1; 1402]).expect("room");
    bench.push(0, &[1; 1402]).expect("room");
    assert_eq!(bench.stream.packet(1), None, "not sent yet");
    bench.trains();
    assert_eq!(bench.stream.packet(2).map(<[u8]>::len), Some(1456));
    assert_eq!(bench.stream.packet(0), None);
    assert_eq!(bench.stream.packet(3), None);
    assert_eq!(bench.stream.packet(u64::MAX), None);
}

#[test]
fn old_rounds_change_neither_rate_nor_credit() {
    let mut bench = Bench::new(&base());
    fill(&mut bench);
    bench.trains();
    bench.round = 7;
    bench.acknowledge(20, 10);
    let mut ack = bench.ack(30, 20);
    ack.credit_bytes = 1;
    ack.rate_packets = 1;
    for round in [8, 3] {
        ack.round = round;
        assert_eq!(bench.handle(&ack), AckOutcome::Stale);
    }
    assert_eq!(bench.stream.window_bytes(), bench.config.window_bytes);
    assert_eq!(bench.stream.rate(), u32::MAX);
    assert_eq!(bench.stream.counters().acks_stale, 2);
    assert_eq!(bench.stream.stable_upto(), 20, "what all have stays true");
}

#[test]
fn acks_that_cannot_be_true_are_counted_and_ignored() {
    let mut bench = Bench::new(&base());
    fill(&mut bench);
    bench.trains();
    let good = bench.ack(5, 5);
    let mut beyond = good;
    beyond.cached_upto = bench.stream.highest() + 1;
    let mut crossed = good;
    crossed.stable_upto = 6;
    let mut foreign = good;
    foreign.stream.channel = ChannelId(1);
    for mut bad in [beyond, crossed, foreign] {
        bad.round = 1000;
        assert_eq!(bench.handle(&bad), AckOutcome::Malformed);
    }
    assert_eq!(bench.stream.counters().acks_malformed, 3);
    assert_eq!(bench.stream.stable_upto(), 0);
    assert_eq!(bench.acknowledge(5, 5), AckOutcome::Applied);
}

#[test]
fn an_old_view_cannot_speak_for_packets_of_a_newer_one() {
    // Members of the new view may lack what all members of the old one have.
    let mut bench = Bench::new(&base());
    bench.push(0, b"old").expect("room");
    bench.trains();
    bench.stream.open_view(bench.now, ViewNumber(2));
    bench.push(0, b"new").expect("room");
    bench.trains();
    bench.round += 1;
    let mut ack = bench.ack(2, 2);
    ack.view = ViewNumber(1);
    assert_eq!(bench.handle(&ack), AckOutcome::Applied);
    assert_eq!(
        (bench.stream.cached_upto(), bench.stream.stable_upto()),
        (1, 1)
    );
    ack.view = ViewNumber(2);
    assert_eq!(bench.handle(&ack), AckOutcome::Applied);
    assert!(bench.stream.is_idle());
    // A view before the first known one speaks for nothing.
    bench.push(0, b"more").expect("room");
    bench.trains();
    ack = bench.ack(3, 3);
    ack.view = ViewNumber(0);
    bench.handle(&ack);
    assert_eq!(bench.stream.stable_upto(), 2);
}

#[test]
fn without_receivers_everything_is_forgotten_but_the_numbers() {
    let mut bench = Bench::new(&base());
    fill(&mut bench);
    bench.trains();
    let assembled = bench.stream.highest() + (bench.stream.closed_bytes / 1456) as u64;
    bench.stream.no_receivers(&mut bench.pool);
    bench.stream.check_invariants();
    assert!(bench.stream.is_idle());
    assert_eq!(bench.pool.lent_blocks(), 0);
    assert_eq!(bench.stream.next_timeout(), None);
    assert_eq!(bench.stream.highest(), assembled);
    // New receivers come: the stream goes on.
    bench.stream.open_view(bench.now, ViewNumber(2));
    bench.received = assembled;
    bench.expected.clear();
    bench.push(0, b"again").expect("room");
    assert_eq!(bench.trains(), 1);
}

#[test]
fn packets_of_views_of_which_nobody_is_left_are_forgotten() {
    let mut bench = Bench::new(&base());
    fill(&mut bench);
    bench.trains();
    let first = bench.stream.openings()[0].view;
    let next = ViewNumber(first.0 + 1);
    bench.stream.open_view(bench.now, next);
    let upto = bench.stream.openings()[1].start - 1;
    assert!(bench.stream.highest() < upto, "not all has been sent");
    // Somebody of the first view is left.
    bench
        .stream
        .forget_views_before(bench.now, &mut bench.pool, first);
    assert_eq!(bench.stream.stable_upto(), 0);
    bench
        .stream
        .forget_views_before(bench.now, &mut bench.pool, next);
    bench.stream.check_invariants();
    assert!(bench.stream.is_idle());
    assert_eq!(bench.stream.highest(), upto);
    assert_eq!(bench.pool.lent_blocks(), 0);
    // Who came with the second view gets what is sent in it.
    bench.received = upto;
    bench.expected.clear();
    bench.push(0, b"again").expect("room");
    assert_eq!(bench.trains(), 1);
    assert_eq!(bench.acknowledge(upto + 1, upto + 1), AckOutcome::Applied);
    assert!(bench.stream.is_idle());
}

#[test]
fn pacing_holds_trains_back_and_says_until_when() {
    let mut config = base();
    config.pace.rate_min_packets = 64_000;
    config.pace.rate_max_packets = 64_000;
    let mut bench = Bench::new(&config);
    bench.acknowledge_all();
    let start = bench.now;
    let mut sent = 0;
    while bench.now < start.after(Duration::from_secs(1)) {
        fill(&mut bench);
        sent += bench.trains();
        let highest = bench.stream.highest();
        bench.acknowledge(highest, highest);
        fill(&mut bench);
        let next = bench
            .stream
            .next_timeout()
            .expect("packets wait for credit");
        assert!(next > bench.now);
        bench.now = next;
    }
    assert!((63_400..=64_700).contains(&sent), "{sent}");
    let mean = sent / bench.trains.len();
    assert!(mean >= 20, "paced traffic still goes in trains: {mean}");
}

#[test]
fn the_stream_starts_fast_and_ends_unlimited() {
    let mut config = base();
    config.pace.rate_min_packets = 100;
    let mut bench = Bench::new(&config);
    let mut rates = Vec::new();
    for _ in 0..20 {
        fill(&mut bench);
        bench.trains();
        bench.wait(Duration::from_millis(5));
        bench.acknowledge_all();
        rates.push(bench.stream.rate());
    }
    assert_eq!(rates[..3], [20_000, 40_000, 80_000]);
    assert_eq!(rates[19], u32::MAX, "100 ms of rounds");
}

#[test]
fn messages_are_pending_until_stable_and_unsent_until_they_leave() {
    let mut bench = Bench::new(&base());
    assert_eq!(bench.stream.pending_messages(), 0);
    // Ten and more share packets, one fills several.
    (0..100).for_each(|_| bench.push(0, &[1; 300]).unwrap());
    bench.push(1, &[2; 5000]).unwrap();
    let taken = |bench: &Bench| {
        let stream = &bench.stream;
        (stream.pending_messages(), stream.unsent_messages())
    };
    assert_eq!(taken(&bench), (101, 101));
    assert_eq!(bench.stream.pending_bytes(), bench.stream.unsent_bytes());
    bench.trains();
    assert_eq!(taken(&bench), (101, 0));
    assert_eq!(bench.stream.pending_bytes(), bench.stream.in_flight_bytes());
    // Four messages of 300 bytes fit a packet.
    bench.acknowledge(10, 10);
    assert_eq!(taken(&bench), (61, 0));
    bench.push(0, &[3; 10]).unwrap();
    assert_eq!(taken(&bench), (62, 1));
    bench.trains();
    bench.acknowledge_all();
    assert_eq!(taken(&bench), (0, 0));
    assert_eq!(bench.stream.pending_bytes(), 0);
}

#[test]
fn messages_that_nobody_is_left_to_receive_are_not_pending() {
    let mut bench = Bench::new(&base());
    (0..10).for_each(|_| bench.push(0, &[1; 1000]).unwrap());
    bench.trains();
    bench.push(0, &[1; 10]).unwrap();
    bench.stream.no_receivers(&mut bench.pool);
    assert_eq!(bench.stream.pending_messages(), 0);
    assert_eq!(bench.stream.pending_bytes(), 0);
}

#[test]
fn packets_are_timed_from_first_sending_to_stability() {
    let mut bench = Bench::new(&base());
    (0..10).for_each(|_| bench.push(0, &[1; 1400]).unwrap());
    bench.trains();
    bench.wait(Duration::from_millis(3));
    bench.acknowledge(10, 4);
    assert_eq!(
        (bench.times.count(), bench.times.sum()),
        (4, Duration::from_millis(12))
    );
    bench.wait(Duration::from_millis(1));
    bench.acknowledge(10, 10);
    let sum = Duration::from_millis(12 + 6 * 4);
    assert_eq!((bench.times.count(), bench.times.sum()), (10, sum));
}

/// What [`SendStream::unstable`] says, without repetitions.
fn unstable(bench: &Bench, upto: u64) -> Vec<(u32, u32)> {
    let all = bench.stream.unstable(0, upto);
    let mut all: Vec<_> = all.map(|(group, low)| (group.0, low)).collect();
    all.dedup();
    all
}

#[test]
fn what_is_not_stable_is_read_from_the_packets_sent_or_not() {
    let mut bench = Bench::new(&base());
    // Two to a packet, of two groups; then one of five packets, and a small one in an open packet.
    for _ in 0..4 {
        bench.push(0, &[1; 600]).expect("room");
        bench.push(1, &[2; 600]).expect("room");
    }
    bench.push(0, &[3; 6000]).expect("room");
    assert_eq!(bench.train(), Some(3), "the large one is not sent");
    bench.push(1, b"open").expect("room");
    let small = (1..=4).flat_map(|number| [(0, number), (1, number)]);
    let all: Vec<_> = small.chain([(0, 5), (1, 5)]).collect();
    assert_eq!(unstable(&bench, u64::MAX), all);
    assert_eq!(unstable(&bench, 2), all[..4]);
    bench.acknowledge(3, 3);
    assert_eq!(unstable(&bench, u64::MAX), all[6..]);
    bench.trains();
    assert_eq!(unstable(&bench, u64::MAX), all[6..], "sent is not stable");
    // Part of the large message has arrived: it counts until all has.
    bench.acknowledge(6, 6);
    assert_eq!(unstable(&bench, u64::MAX), all[8..]);
    bench.acknowledge_all();
    assert_eq!(unstable(&bench, u64::MAX), []);
}
