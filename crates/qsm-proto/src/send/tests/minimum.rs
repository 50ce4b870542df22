//! Rates below which no receiver holds a stream (R-RATE-10).

use super::*;

fn fill(bench: &mut Bench) {
    while bench.push(0, &[1; 1402]).is_ok() {}
}

/// A stream that receivers may not hold below that rate, with a window of 256 KiB at most.
fn bench(packets_per_second: u32) -> Bench {
    let mut config = base();
    config.limits.send_bytes = 1 << 20;
    let mut bench = Bench::new(&config);
    let now = bench.now;
    bench.stream.set_minimum(now, packets_per_second);
    bench
}

// Rule R-RATE-10.
#[test]
fn without_control_all_leaves_and_the_oldest_is_passed_over() {
    let mut bench = bench(rate::UNLIMITED);
    let mut sent = 0;
    for _ in 0..20 {
        fill(&mut bench);
        sent += bench.trains();
        bench.stream.check_invariants();
        assert!(!bench.stream.is_held());
        assert_eq!(bench.stream.unsent_bytes(), 0);
    }
    let stream = &bench.stream;
    assert_eq!(stream.highest(), sent as u64);
    assert!(sent * 1456 > 4 << 20, "{sent} packets");
    // What is waited for is a window, and what fills the backlog before it is sent.
    let most = bench.config.window_bytes + bench.config.backlog_bytes;
    assert!(stream.in_flight_bytes() <= most + (64 << 10));
    let counters = stream.minimum_counters();
    assert!(counters.passed_over > 0 && counters.beyond_window > 0);
    // Nobody has said anything.
    assert_eq!((stream.stable_upto(), stream.is_idle()), (0, false));
    assert!(stream.packet(1).is_none(), "it was let go");
    assert!(stream.overrun() > 0);
    assert!(stream.packet(stream.overrun() + 1).is_some());
}

// Rule R-RATE-10.
#[test]
fn what_was_passed_over_is_kept_until_all_have_it() {
    let mut bench = bench(rate::UNLIMITED);
    // More than the window, less than what is retained besides.
    for _ in 0..2 {
        fill(&mut bench);
        bench.trains();
    }
    assert!(bench.stream.minimum_counters().passed_over > 0);
    assert!(bench.stream.packet(1).is_some());
    let highest = bench.stream.highest();
    for stable in [10, highest] {
        bench.round += 1;
        let ack = bench.ack(highest, stable);
        let (stream, pool) = (&mut bench.stream, &mut bench.pool);
        stream.confirm_retained(pool, ack.stable_upto, false);
        assert_eq!(bench.handle(&ack), AckOutcome::Applied);
        assert_eq!(bench.stream.stable_upto(), stable);
        bench.stream.check_invariants();
    }
    assert!(bench.stream.is_idle() && !bench.stream.retains());
    assert!(bench.stream.packet(highest).is_none());
}

// Rules R-RATE-10, R-VIEW-13.
#[test]
fn what_all_have_by_an_acknowledgement_takes_no_room_from_what_is_kept() {
    let mut bench = bench(rate::UNLIMITED);
    // There is room for one block beside those that are in flight.
    bench.pool = BlockPool::new(1 << 20, BLOCK_BYTES);
    for _ in 0..20 {
        fill(&mut bench);
        bench.trains();
    }
    let overrun = bench.stream.overrun();
    assert!(bench.stream.retains() && overrun > 0);
    let highest = bench.stream.highest();
    bench.round += 1;
    let ack = bench.ack(highest, highest);
    let (stream, pool) = (&mut bench.stream, &mut bench.pool);
    stream.confirm_retained(pool, highest, false);
    assert_eq!(bench.handle(&ack), AckOutcome::Applied);
    assert!(bench.stream.overrun() <= overrun, "more was let go");
    assert_eq!(bench.pool.retained_blocks(), 0);
    bench.stream.check_invariants();
}

// Rule R-RATE-10.
#[test]
fn below_its_minimum_rate_a_closed_window_holds_nobody() {
    let mut bench = bench(1000);
    fill(&mut bench);
    assert_eq!(bench.trains(), FIRST_WINDOW_BYTES / 1456);
    let mut sent = 0;
    for _ in 0..1000 {
        let due = bench.stream.next_timeout();
        let soon = bench.now.after(Duration::from_millis(2));
        assert!(due.is_some_and(|due| due <= soon), "{due:?}");
        bench.wait(Duration::from_millis(1));
        fill(&mut bench);
        sent += bench.trains();
    }
    assert!((980..=1001).contains(&sent), "{sent} packets in a second");
    assert!(bench.stream.is_held(), "it may say so");
    bench.stream.check_invariants();
}

// Rule R-RATE-10.
#[test]
fn receivers_name_no_rate_below_it() {
    let mut config = base();
    config.pace.rate_min_packets = 100;
    let mut bench = Bench::new(&config);
    let now = bench.now;
    for (minimum, expected) in [(0, 100), (700, 700), (0, 100)] {
        bench.stream.set_minimum(now, minimum);
        fill(&mut bench);
        bench.trains();
        bench.round += 1;
        let highest = bench.stream.highest();
        let mut ack = bench.ack(highest, highest);
        ack.rate_packets = 1;
        bench.handle(&ack);
        assert_eq!(bench.stream.rate(), expected, "{minimum}");
    }
    bench.stream.set_minimum(now, rate::UNLIMITED);
    assert_eq!(bench.stream.rate(), rate::UNLIMITED);
}
