//! The worked numbers of *Topics in High-Performance Messaging*, and those of the book.

use qsm_advise::calculators as calculate;
use qsm_advise::{Advice, AdviceError, BitRate, Bytes, Count, Frequency, Metres, Seconds, Share};

#[track_caller]
fn result(advice: Result<Advice, AdviceError>, name: &str) -> f64 {
    let advice = advice.unwrap();
    assert!(!advice.sources.is_empty() && !advice.equations.is_empty());
    let found = advice.result(name);
    found.unwrap_or_else(|| panic!("no {name}: {advice}")).value
}

#[track_caller]
fn near(got: f64, expected: f64, tolerance: f64) {
    let off = (got - expected).abs() / expected;
    assert!(off <= tolerance, "{got}, and not {expected}");
}

/// Requirement R218: 500 Mbit/s and 20 ms are 1.25 MB.
#[test]
fn a_buffer_is_latency_times_rate_and_latency_is_buffer_over_rate() {
    let (rate, pause) = (BitRate(5e8), Seconds(0.02));
    let one = Count(1.0);
    near(
        result(calculate::buffer(rate, pause, one), "data"),
        1.25e6,
        1e-12,
    );
    near(
        result(calculate::buffer(rate, pause, one), "buffer"),
        1.25e6,
        1e-12,
    );
    near(
        result(
            calculate::buffer(rate, pause, calculate::OVERHEAD),
            "buffer",
        ),
        2.5e6,
        1e-12,
    );
    near(
        result(calculate::delay(Bytes(1.25e6), rate, one), "latency"),
        0.02,
        1e-12,
    );
}

/// The table of "Tuning a host".
#[test]
fn the_table_of_the_book_follows_from_the_equation() {
    for (rate, stall) in [(10e6, 1.6), (100e6, 0.16), (1e9, 0.016)] {
        let buffer = Bytes(32.0 * 1024.0 * 1024.0);
        let advice = calculate::delay(buffer, BitRate(8.0 * rate), calculate::OVERHEAD);
        near(result(advice, "latency"), stall, 0.06);
    }
}

/// Requirement R224, section 8.4: ten receivers with 32 MB take 320 MB.
#[test]
fn buffers_of_all_receivers_add_up() {
    let advice = calculate::memory(Bytes(32e6), Count(10.0), Count(1.0));
    near(result(advice, "memory"), 320e6, 1e-12);
}

/// Requirement R247, section 17.10.
#[test]
fn serialization_is_as_the_paper_says() {
    for (rate, delay) in [(56e3, 0.214), (1.5e6, 0.008), (100e6, 120e-6)] {
        let advice = calculate::serialization(Bytes(1500.0), BitRate(rate), Count(1.0));
        near(result(advice, "delay"), delay, 0.002);
    }
    let advice = calculate::serialization(Bytes(1500.0), BitRate(1e9), Count(3.0));
    near(result(advice, "all hops"), 36e-6, 1e-9);
}

/// Requirement R248, section 17.11. The paper's examples are those of 65 % of the speed of light; it
/// says "about 60 %".
#[test]
fn propagation_is_nearly_as_the_paper_says() {
    for (distance, delay) in [(3e6, 0.015), (6.4e6, 0.033)] {
        let of = |speed| result(calculate::propagation(Metres(distance), speed), "delay");
        near(of(calculate::MEDIUM), delay, 0.12);
        near(of(Share(0.65)), delay, 0.03);
    }
}

/// Requirement R257, section 18.1: 8,000 interrupts a second are 125 µs.
#[test]
fn interrupts_add_the_time_between_them() {
    let advice = calculate::coalescing(Frequency(8000.0), Some(Frequency(80_000.0)));
    near(result(advice.clone(), "latency"), 125e-6, 1e-12);
    near(
        result(advice.clone(), "packets for an interrupt"),
        10.0,
        1e-12,
    );
    let notes = advice.unwrap().notes.concat();
    assert!(notes.contains("rx-usecs 125"), "{notes}");
    // Requirement R258.
    assert!(notes.contains("never set rx-usecs and rx-frames both to 0"));
}

/// Section 18.4.1. The paper says 2 MB for 2048 descriptors of 2 KB, which are 4.
#[test]
fn rings_take_memory_and_give_time() {
    let advice = calculate::ring(Count(2048.0), Frequency(81_920.0), calculate::DESCRIPTOR);
    near(result(advice.clone(), "memory"), 4194304.0, 1e-12);
    near(result(advice, "time"), 0.025, 1e-12);
}

/// Requirement R197, section 2.2: 172 of 2854 are 6 %.
#[test]
fn packets_that_tcp_holds_back_are_a_share() {
    let advice = calculate::tcp_order(Count(2854.0), Count(172.0));
    near(result(advice, "held back"), 0.06, 0.01);
    assert!(calculate::tcp_order(Count(1.0), Count(2.0)).is_err());
}

#[test]
fn a_repair_takes_detection_and_a_round_trip_or_is_given_up() {
    let repair = |give_up| calculate::repair(Seconds(1e-3), Seconds(4e-3), give_up);
    near(result(repair(None), "retransmission"), 5e-3, 1e-12);
    near(
        result(repair(Some(Seconds(1.0))), "reordering"),
        5e-3,
        1e-12,
    );
    near(
        result(repair(Some(Seconds(2e-3))), "reordering"),
        2e-3,
        1e-12,
    );
    let notes = repair(Some(Seconds(2e-3))).unwrap().notes.concat();
    assert!(notes.contains("give up later"), "{notes}");
}

#[test]
fn repairs_are_judged_by_their_limit() {
    let rate = |loss| calculate::repair_rate(BitRate(1e8), Share(loss), Count(4.0), Share(0.1));
    near(result(rate(0.5), "repairs"), 4e8, 1e-12);
    assert!(rate(0.5).unwrap().notes.concat().contains("do not fit"));
    assert!(rate(0.01).unwrap().notes.concat().contains("repairs fit"));
    assert!(rate(1.0).is_err());
}

#[test]
fn batches_are_bounded_by_room_and_by_time() {
    let batching = |rate, wait| {
        let (packet, headers) = (calculate::PACKET, calculate::HEADERS);
        calculate::batching(
            Bytes(100.0),
            Frequency(rate),
            Seconds(wait),
            packet,
            headers,
        )
    };
    // Nothing is waited for: each message is a packet.
    near(result(batching(1e4, 0.0), "batch"), 1.0, 1e-12);
    near(result(batching(1e4, 0.0), "packets"), 1e4, 1e-12);
    // Room for 14, of which 11 come in a millisecond.
    near(result(batching(1e4, 1e-3), "batch"), 11.0, 1e-12);
    near(result(batching(1e4, 1e-3), "latency"), 1e-3, 1e-12);
    // The packet is full before.
    near(result(batching(1e5, 1e-3), "batch"), 14.0, 1e-12);
    near(result(batching(1e5, 1e-3), "latency"), 130e-6, 1e-9);
    near(
        result(batching(1e5, 1e-3), "overhead"),
        110.0 / 1510.0,
        1e-9,
    );
}

#[test]
fn a_budget_says_what_is_left_and_by_what_it_is_exceeded() {
    let parts = ["network=120us", "cpu=1ms"].map(|part| part.parse().unwrap());
    let advice = calculate::budget(Seconds(2e-3), &parts);
    near(result(advice, "left"), 880e-6, 1e-9);
    let advice = calculate::budget(Seconds(1e-3), &parts).unwrap();
    near(advice.result("exceeded by").unwrap().value, 120e-6, 1e-9);
    assert!(advice.notes[0].contains("begin with cpu"), "{advice}");
    assert!(calculate::budget(Seconds(1.0), &[]).is_err());
}

#[test]
fn other_equations() {
    let advice = calculate::queue(Bytes(36.0 * 1500.0), BitRate(1e9));
    near(result(advice, "wait"), 432e-6, 1e-9);
    let advice = calculate::retention(BitRate(8e7), Seconds(30.0));
    near(result(advice, "retention"), 3e8, 1e-12);
}

#[test]
fn nonsense_is_refused_with_a_remedy() {
    let (rate, pause) = (BitRate(1e9), Seconds(0.05));
    let faults = [
        calculate::buffer(BitRate(0.0), pause, Count(2.0)),
        calculate::buffer(rate, Seconds(0.0), Count(2.0)),
        calculate::buffer(rate, pause, Count(0.5)),
        calculate::delay(Bytes(0.0), rate, Count(1.0)),
        calculate::memory(Bytes(1.0), Count(1.5), Count(1.0)),
        calculate::serialization(Bytes(1.0), rate, Count(0.0)),
        calculate::propagation(Metres(1.0), Share(1.5)),
        calculate::coalescing(Frequency(0.0), None),
        calculate::ring(Count(0.0), Frequency(1.0), Bytes(1.0)),
        calculate::repair(Seconds(0.0), Seconds(0.0), None),
        calculate::batching(
            Bytes(9000.0),
            Frequency(1.0),
            Seconds(1.0),
            calculate::PACKET,
            calculate::HEADERS,
        ),
    ];
    for fault in faults {
        let error = fault.unwrap_err();
        assert!(!error.cause.is_empty() && !error.remedy.is_empty());
        assert!(error.to_string().contains("; "), "{error}");
    }
}

#[test]
fn json_has_base_units_and_text_has_all_parts() {
    let advice = calculate::buffer(BitRate(1e9), Seconds(0.05), calculate::OVERHEAD).unwrap();
    let json = advice.to_json();
    for part in [
        r#""results":[{"name":"buffer","value":12500000,"unit":"B","text":"12.5 MB"}"#,
        r#"{"name":"pause","value":0.05,"unit":"s","text":"50 ms"}"#,
        r#""section":"8.6""#,
    ] {
        assert!(json.contains(part), "{part}: {json}");
    }
    let text = advice.to_string();
    for part in [
        "data = pause × rate",
        "1 Gbit/s",
        "12.5 MB",
        "rmem_max=12500000",
        "section 8.6",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
