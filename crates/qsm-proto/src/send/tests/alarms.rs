use super::*;

const MS: u64 = 1_000_000;

fn content(bytes: &[u8]) -> (u64, bool, Vec<(u32, u64)>) {
    let packet = Packet::decode(bytes).expect("decodes");
    let Body::Heartbeat(heartbeat) = packet.body else {
        panic!("not a heartbeat: {packet:?}");
    };
    assert_eq!(heartbeat.stream, id());
    let openings = heartbeat.openings().map(|o| (o.view.0, o.start)).collect();
    (heartbeat.highest, heartbeat.finished, openings)
}

/// Runs the timers until `until`; returns when something was sent, what, and how much.
fn run(bench: &mut Bench, until: Instant) -> Vec<(u64, Reason, usize)> {
    let mut log: Vec<(u64, Reason, usize)> = Vec::new();
    while let Some(next) = bench.stream.next_timeout().filter(|next| *next <= until) {
        bench.now = bench.now.max(next);
        for (reason, _) in bench.timeout() {
            match log.last_mut() {
                Some(last) if (last.0, last.1) == (bench.now.0, reason) => last.2 += 1,
                _ => log.push((bench.now.0, reason, 1)),
            }
        }
    }
    bench.now = until;
    log
}

// Rule R-DATA-6.
#[test]
fn heartbeats_follow_the_last_data_ever_slower_until_all_is_stable() {
    // G01.
    let mut bench = Bench::new(&base());
    assert_eq!(
        bench.stream.next_timeout(),
        None,
        "silent before the first packet"
    );
    bench.now = Instant(0);
    bench.push(0, b"tail").expect("room");
    bench.trains();
    let log = run(&mut bench, Instant(4500 * MS));
    let at: Vec<u64> = log
        .iter()
        .filter(|entry| entry.1 == Reason::Status)
        .map(|entry| entry.0 / MS)
        .collect();
    assert_eq!(
        at,
        [2, 6, 14, 30, 62, 126, 254, 510, 1022, 2022, 3022, 4022]
    );
    bench.acknowledge_all();
    assert_eq!(bench.stream.next_timeout(), None);
    assert!(bench.timeout().is_empty());
}

#[test]
fn data_puts_the_heartbeat_off() {
    let mut bench = Bench::new(&base());
    for _ in 0..100 {
        bench.push(0, b"data").expect("room");
        bench.trains();
        bench.wait(Duration::from_millis(1));
        assert!(bench.timeout().is_empty());
    }
    bench.wait(Duration::from_millis(1));
    let sent = bench.timeout();
    assert_eq!(content(&sent[0].1), (100, false, vec![(1, 1)]));
    assert_eq!(bench.stream.counters().heartbeats, 1);
}

#[test]
fn a_new_view_is_announced_at_once_and_until_its_members_have_all() {
    let mut bench = Bench::new(&base());
    bench.push(0, b"x").expect("room");
    bench.trains();
    bench.acknowledge_all();
    bench.wait(Duration::from_secs(60));
    bench.stream.open_view(bench.now, ViewNumber(2));
    let start = bench.now.0;
    let until = bench.now.after(Duration::from_millis(31));
    let log = run(&mut bench, until);
    let at: Vec<u64> = log.iter().map(|entry| (entry.0 - start) / MS).collect();
    assert_eq!(at, [0, 2, 6, 14, 30]);
    // The old view's word does not end it, the new one's does.
    bench.round += 1;
    let mut ack = bench.ack(1, 1);
    ack.view = ViewNumber(1);
    assert_eq!(bench.handle(&ack), AckOutcome::Applied);
    assert!(bench.stream.next_timeout().is_some());
    bench.acknowledge(1, 1);
    assert_eq!(bench.stream.next_timeout(), None);
    let mut bytes = Vec::new();
    bench.stream.heartbeat(&mut bytes);
    assert_eq!(content(&bytes), (1, false, vec![(2, 2), (1, 1)]));
}

#[test]
fn data_sent_with_a_new_view_does_not_swallow_its_announcement() {
    let mut bench = Bench::new(&base());
    bench.push(0, b"x").expect("room");
    bench.trains();
    bench.stream.open_view(bench.now, ViewNumber(2));
    bench.push(0, b"y").expect("room");
    bench.trains();
    assert_eq!(bench.timeout().len(), 1);
}

#[test]
fn a_stream_that_never_sent_announces_nothing() {
    let mut bench = Bench::new(&base());
    bench.stream.open_view(bench.now, ViewNumber(2));
    assert_eq!(bench.stream.next_timeout(), None);
}

#[test]
fn the_end_of_a_stream_is_told() {
    let mut bench = Bench::new(&base());
    bench.push(0, b"x").expect("room");
    bench.trains();
    bench.push(0, b"y").expect("room");
    bench.stream.finish(bench.now);
    let sent = bench.timeout();
    assert_eq!(
        content(&sent[0].1),
        (1, false, vec![(1, 1)]),
        "one is unsent"
    );
    bench.trains();
    bench.wait(Duration::from_millis(2));
    let sent = bench.timeout();
    assert_eq!(content(&sent[0].1), (2, true, vec![(1, 1)]));
    bench.acknowledge_all();
    assert_eq!(bench.stream.next_timeout(), None);

    let mut idle = Bench::new(&base());
    idle.push(0, b"x").expect("room");
    idle.trains();
    idle.acknowledge_all();
    idle.stream.finish(idle.now);
    assert_eq!(idle.timeout().len(), 1, "told once");
    assert_eq!(idle.stream.next_timeout(), None);
}

// Rule R-DATA-7.
#[test]
fn the_oldest_packets_are_sent_again_when_nothing_moves() {
    // R086.
    let mut bench = Bench::new(&base());
    bench.now = Instant(0);
    for _ in 0..20 {
        bench.push(0, &[1; 1402]).expect("room");
    }
    bench.trains();
    bench.acknowledge(5, 3);
    let log = run(&mut bench, Instant(26_000 * MS));
    let again: Vec<(u64, usize)> = log
        .iter()
        .filter(|entry| entry.1 == Reason::Repair)
        .map(|entry| (entry.0 / MS, entry.2))
        .collect();
    assert_eq!(again, [(3000, 8), (9000, 8), (21_000, 8)]);
    assert_eq!(bench.stream.counters().last_resort, 24);
    bench.acknowledge(18, 3);
    bench.wait(Duration::from_secs(3));
    let repairs: Vec<Vec<u8>> = bench
        .timeout()
        .into_iter()
        .filter(|sent| sent.0 == Reason::Repair)
        .map(|sent| sent.1)
        .collect();
    assert_eq!(repairs.len(), 2, "only what is above cached_upto");
    let packet = Packet::decode(&repairs[0]).expect("decodes");
    assert_eq!(packet.header.hop, Hop::SenderRepair);
    let mut original = repairs[0].clone();
    Hop::Direct.stamp(&mut original);
    assert_eq!(bench.stream.packet(19), Some(&original[..]));
    bench.acknowledge(20, 20);
    assert_eq!(bench.stream.next_timeout(), None);
}

// Rule R-REACH-2.
#[test]
fn members_are_told_ever_more_rarely_while_nobody_acknowledges() {
    let mut bench = Bench::new(&base());
    bench.now = Instant(0);
    bench.push(0, b"x").expect("room");
    bench.trains();
    let told = |bench: &mut Bench, until: u64| {
        run(bench, Instant(until * MS));
        std::mem::take(&mut bench.unanswered)
    };
    assert_eq!(told(&mut bench, 499), 0);
    // At 0.5, 1, 2, 4, 8, 12 s.
    assert_eq!(told(&mut bench, 13_000), 6);
    bench.acknowledge(0, 0);
    assert_eq!(told(&mut bench, 13_499), 0, "somebody has answered");
    assert_eq!(told(&mut bench, 13_500), 1);
    bench.acknowledge_all();
    assert_eq!(told(&mut bench, 60_000), 0);
}

#[test]
fn the_last_resort_stays_away_while_acks_come() {
    let mut bench = Bench::new(&base());
    for _ in 0..2000 {
        bench.push(0, &[1; 1000]).expect("room");
        bench.trains();
        bench.timeout();
        let highest = bench.stream.highest();
        bench.acknowledge(highest - 1, highest.saturating_sub(5));
        bench.wait(Duration::from_millis(5));
    }
    assert_eq!(bench.stream.counters().last_resort, 0);
}

#[test]
fn early_and_repeated_timeouts_do_nothing() {
    let mut bench = Bench::new(&base());
    bench.push(0, b"x").expect("room");
    bench.trains();
    assert!(bench.timeout().is_empty());
    bench.wait(Duration::from_millis(2));
    assert_eq!(bench.timeout().len(), 1);
    assert!(bench.timeout().is_empty());
}
