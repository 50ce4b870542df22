use super::*;

#[test]
fn a_message_leaves_at_once_when_nothing_else_waits() {
    let mut bench = Bench::new(&base());
    bench.push(1, b"hello").expect("room");
    assert_eq!(bench.stream.next_timeout(), None, "it can be polled now");
    assert_eq!(bench.train(), Some(1));
    assert_eq!(bench.train(), None);
    assert!(bench.expected.is_empty());
}

// Rule R-DATA-3.
#[test]
fn messages_of_many_groups_share_a_packet() {
    let mut bench = Bench::new(&base());
    for at in 0..12u8 {
        bench.push(u32::from(at % 4), &[at; 100]).expect("room");
    }
    assert_eq!(bench.trains(), 1);
    assert!(bench.expected.is_empty());
}

#[test]
fn equal_messages_make_trains_of_a_whole_block() {
    let mut bench = Bench::new(&base());
    bench.acknowledge_all();
    for _ in 0..176 {
        bench.push(0, &[1; 1402]).expect("room");
    }
    assert_eq!(bench.trains(), 176);
    assert_eq!(bench.trains, vec![vec![1456; 44]; 4]);
    assert_eq!(bench.stream.counters().padding_bytes, 0);
}

#[test]
fn a_train_ends_after_64_packets() {
    let mut config = base();
    config.datagram_bytes = 512;
    let mut bench = Bench::new(&config);
    for _ in 0..100 {
        bench.push(0, &[1; 400]).expect("room");
    }
    bench.trains();
    let lengths: Vec<usize> = bench.trains.iter().map(Vec::len).collect();
    assert_eq!(lengths, [64, 36]);
}

#[test]
fn mixed_messages_are_padded_to_trains_by_an_eighth_at_most() {
    let mut random = Random::new(Seed(3), "mixed");
    let mut bench = Bench::new(&base());
    bench.acknowledge_all();
    let mut bytes = 0;
    for _ in 0..4000 {
        let length = random.below(181) as usize + 10;
        bytes += length as u64;
        bench.push(0, &vec![3; length]).expect("room");
    }
    bench.trains();
    assert!(bench.expected.is_empty());
    let counters = *bench.stream.counters();
    assert!(counters.padding_bytes * 8 <= counters.bytes);
    assert!(counters.padding_bytes * 10 <= bytes, "{counters:?}");
    let mean = counters.packets / counters.trains;
    assert!(mean >= 15, "{mean} packets per train: {counters:?}");
}

#[test]
fn a_packet_that_misses_more_than_an_eighth_is_not_padded() {
    let mut bench = Bench::new(&base());
    bench.push(0, &[1; 1400]).expect("room");
    bench.push(0, &[2; 1200]).expect("room");
    bench.push(0, &[3; 1390]).expect("room");
    for _ in 0..4 {
        bench.push(0, &[4; 1000]).expect("room");
    }
    bench.trains();
    // 44 + 10 + 1400 = 1454 closes first; 1254 lacks 200 > 181 and ends the train; 1444 lacks 10;
    // packets of 1054 are too short, and from the second on a run of their own.
    assert_eq!(bench.stream.counters().padding_bytes, 10);
    assert_eq!(
        bench.trains,
        [vec![1454, 1254], vec![1454, 1054], vec![1054; 3]]
    );
}

#[test]
fn gaps_too_small_for_a_padding_chunk_are_filled_too() {
    for gap in 0..30 {
        let mut bench = Bench::new(&base());
        bench.push(0, &[1; 1300]).expect("room");
        bench.push(0, &vec![2; 1300 - gap]).expect("room");
        bench.push(0, &[3; 1300]).expect("room");
        bench.trains();
        assert_eq!(bench.trains, [vec![1354; 3]], "gap {gap}");
        assert_eq!(bench.stream.counters().padding_bytes, gap as u64);
        assert!(bench.expected.is_empty());
    }
}

#[test]
fn padding_starts_anew_after_a_pause() {
    let mut bench = Bench::new(&base());
    bench.push(0, &[1; 1400]).expect("room");
    bench.trains();
    bench.push(0, &[1; 1350]).expect("room");
    bench.push(0, &[1; 1350]).expect("room");
    bench.trains();
    assert_eq!(bench.stream.counters().padding_bytes, 0);
}

// Rule R-DATA-4.
#[test]
fn a_message_that_fits_an_empty_packet_is_never_split() {
    let mut bench = Bench::new(&base());
    bench.push(0, &[1; 700]).expect("room");
    bench.push(0, &[1; 1402]).expect("room");
    assert_eq!(bench.trains(), 2);
    let mut bench = Bench::new(&base());
    bench.push(0, &[1; 1403]).expect("room");
    assert_eq!(bench.trains(), 2, "one byte more needs two");
}

#[test]
fn a_large_message_begins_in_the_open_packet_and_the_last_part_shares_its_own() {
    let mut bench = Bench::new(&base());
    bench.push(0, &[1; 100]).expect("room");
    bench.push(1, &[2; 5000]).expect("room");
    bench.push(2, &[3; 100]).expect("room");
    // 110 + (5000 + 14 + 3 * 10) + 110 bytes in packets of 1412.
    assert_eq!(bench.trains(), 4);
    assert!(bench.expected.is_empty());
}

#[test]
fn sixteen_mebibytes_are_taken_at_once_and_arrive_whole() {
    let mut bench = Bench::new(&base());
    let payload: Vec<u8> = (0..16u32 << 20).map(|at| (at / 7) as u8).collect();
    bench.push(0, &payload).expect("nothing is unsent");
    assert_eq!(bench.push(0, b"next"), Err(PushError::Full));
    while bench.trains() > 0 {
        bench.acknowledge_all();
    }
    assert!(bench.expected.is_empty());
    assert!(bench.stream.is_idle());
    assert_eq!(bench.pool.lent_blocks(), 0);
    let counters = bench.stream.counters();
    assert!(counters.packets / counters.trains >= 40, "{counters:?}");
}

#[test]
fn a_message_that_can_never_fit_is_refused_for_good() {
    let mut bench = Bench::with(SendConfig::new(&base()), 4 * BLOCK_BYTES);
    let max = 4 * 44 * 1402 - 4;
    let large = vec![5; max + 1];
    assert_eq!(bench.push(0, &large), Err(PushError::TooLarge { max }));
    bench.push(0, &large[..max]).expect("it just fits");
    assert_eq!(bench.push(0, b""), Err(PushError::Full));
    while bench.trains() > 0 {
        bench.acknowledge_all();
    }
    bench.push(0, b"small").expect("room");
    assert_eq!(
        bench.push(0, &large[..max]),
        Err(PushError::Full),
        "passes with time"
    );
}

#[test]
fn room_is_what_push_takes() {
    let mut random = Random::new(Seed(8), "room");
    let mut bench = Bench::with(SendConfig::new(&base()), 3 * BLOCK_BYTES);
    for _ in 0..3000 {
        let room = bench.stream.room_bytes(bench.pool.free_blocks());
        let length = match random.below(20) {
            0 => room,
            1 => (random.below(room as u64 + 1)) as usize,
            _ => room.min(random.below(2000) as usize),
        };
        if room > 0 {
            bench.push(0, &vec![1; length]).expect("room was promised");
        }
        if random.below(4) == 0 {
            bench.trains();
            bench.acknowledge_all();
        }
    }
    bench.trains();
}

#[test]
fn an_unbounded_producer_is_stopped_at_the_backlog() {
    // R139.
    let mut bench = Bench::new(&base());
    let mut taken = 0;
    while bench.push(0, &[0; 1000]).is_ok() {
        taken += 1;
    }
    assert!(taken <= 1100, "{taken}");
    assert!(bench.stream.unsent_bytes() <= bench.config.backlog_bytes + 1456);
    assert_eq!(bench.stream.room_bytes(bench.pool.free_blocks()), 0);
}

// Rule R-DATA-4.
#[test]
fn a_packet_waits_for_company_as_long_as_it_may() {
    // R244.
    let mut config = base();
    config.pace.batch_delay = Duration::from_millis(3);
    let mut bench = Bench::new(&config);
    let start = bench.now;
    bench.push(0, &[1; 100]).expect("room");
    assert_eq!(bench.train(), None);
    assert_eq!(
        bench.stream.next_timeout(),
        Some(start.after(config.pace.batch_delay))
    );
    // Rule R-RATE-13: no sooner than the node may send again.
    let opens = start.after(Duration::from_millis(5));
    assert_eq!(bench.stream.next_timeout_from(opens), Some(opens));
    bench.wait(Duration::from_millis(2));
    bench.push(0, &[1; 100]).expect("room");
    assert_eq!(bench.train(), None);
    bench.wait(Duration::from_millis(1));
    assert_eq!(bench.trains(), 1, "the delay counts from the first message");
    // A full packet does not wait.
    for _ in 0..13 {
        bench.push(0, &[1; 100]).expect("room");
    }
    assert_eq!(bench.trains(), 1);
    bench.wait(Duration::from_millis(3));
    assert_eq!(bench.trains(), 1);
    assert!(bench.expected.is_empty());
}

#[test]
fn messages_keep_the_view_they_were_pushed_in() {
    // R054.
    let mut bench = Bench::new(&base());
    for _ in 0..30 {
        bench.push(0, &[1; 400]).expect("room");
    }
    bench.stream.open_view(bench.now, ViewNumber(4));
    bench.stream.open_view(bench.now, ViewNumber(3));
    bench.push(0, &[2; 400]).expect("room");
    bench.stream.open_view(bench.now, ViewNumber(5));
    bench.stream.open_view(bench.now, ViewNumber(6));
    bench.push(0, &[3; 400]).expect("room");
    bench.stream.check_invariants();
    bench.trains();
    assert!(bench.expected.is_empty());
    let seen: Vec<(u32, u64)> = bench
        .stream
        .openings()
        .iter()
        .map(|opening| (opening.view.0, opening.start))
        .collect();
    assert_eq!(seen, [(1, 1), (4, 11), (5, 12), (6, 12)]);
}

#[test]
fn the_newest_openings_are_kept() {
    let mut bench = Bench::new(&base());
    for view in 2..=50 {
        bench.push(0, b"x").expect("room");
        bench.stream.open_view(bench.now, ViewNumber(view));
    }
    let views: Vec<u32> = bench.stream.openings().iter().map(|o| o.view.0).collect();
    assert_eq!(views, (19..=50).collect::<Vec<_>>());
}

// Rule R-VIEW-6.
#[test]
fn of_views_that_begin_at_the_same_packet_the_first_and_the_last_are_kept() {
    let mut bench = Bench::new(&base());
    bench.push(0, b"x").expect("room");
    for view in 2..=50 {
        bench.stream.open_view(bench.now, ViewNumber(view));
    }
    let views: Vec<u32> = bench.stream.openings().iter().map(|o| o.view.0).collect();
    assert_eq!(views, [1, 2, 50]);
}

#[test]
fn a_finished_stream_takes_no_message() {
    let mut bench = Bench::new(&base());
    bench.push(0, b"last").expect("room");
    bench.stream.finish(bench.now);
    assert_eq!(bench.push(0, b"more"), Err(PushError::Finished));
    assert_eq!(bench.trains(), 1);
}
