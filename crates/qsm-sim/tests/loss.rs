//! Repairs take time in proportion to the requests that losses cost, from a few lost packets up to
//! three in five on all ways at once.

use core::time::Duration;

use qsm_proto::stats::Histogram;
use qsm_sim::{Report, Scenario};

/// A publisher, three receivers, a thousand packets a second, and a patient service.
fn run(loss_percent: u32, seed: u64) -> Report {
    let text = format!(
        "scenario 1\nseed {seed}\nnodes 4\nduration 12s\nsizes small\n\
         group members 2 3 4 publishers 1\n\
         flow host 1 group 0 start 6s interval 1ms burst 1 messages 4000\n\
         patience heartbeats 30 probes 50\n\
         network delay 50us\nnetwork loss {loss_percent}%\n\
         expect deaths = 0\nexpect messages_lost = 0\n"
    );
    Scenario::parse(&text).unwrap().run().unwrap()
}

/// Half of the repairs of some runs, and all but one in a hundred, take at most so long.
fn assert_repaired_within(loss_percent: u32, [median, most]: [Duration; 2]) {
    let mut repairs = Histogram::new();
    (1..=5).for_each(|seed| repairs += run(loss_percent, seed).repairs);
    let [p50, p99] = [500, 990].map(|permille| repairs.quantile(permille));
    assert!(
        p50 <= median && p99 <= most,
        "{loss_percent} % lost: repairs took {p50:?}, at most {p99:?}"
    );
}

// Rules R-NAK-5, R-NAK-13.
#[test]
fn repairs_take_time_in_proportion_to_the_requests_that_losses_cost() {
    assert_repaired_within(5, [Duration::from_micros(300), millis(5)]);
    assert_repaired_within(20, [Duration::from_micros(500), millis(20)]);
    assert_repaired_within(30, [millis(4), millis(35)]);
    assert_repaired_within(40, [millis(5), millis(60)]);
    assert_repaired_within(50, [millis(10), millis(150)]);
}

// Rule R-NAK-5.
#[test]
fn half_of_the_repairs_take_16_ms_where_three_packets_in_five_are_lost() {
    assert_repaired_within(60, [millis(16), millis(5000)]);
}

fn millis(count: u64) -> Duration {
    Duration::from_millis(count)
}

// Rule R-TOK-3.
#[test]
fn rounds_go_on_where_two_tokens_in_five_are_lost() {
    for seed in 1..=3 {
        let counters = run(40, seed).counters();
        // 4 s with packets; without losses there are 800.
        assert!(counters["rounds"] >= 400, "{}", counters["rounds"]);
        assert!(counters["rounds_abandoned"] <= 10);
    }
}
