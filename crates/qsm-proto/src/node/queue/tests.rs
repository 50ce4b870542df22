//! The control by itself, and in a loop with senders whose data waits at a receiver of some speed.

use std::collections::VecDeque;

use super::*;

const TARGET: Duration = Duration::from_millis(1);
const MOST: u32 = 4 << 20;
const NEEDS: Needs = Needs {
    streams: 1,
    datagram_bytes: 1472,
};

fn round(number: u64) -> Round {
    Round {
        region: RegionId(1),
        number,
    }
}

/// Credit after so many rounds, 5 ms apart, in each of which datagrams have waited so long.
fn after(rounds: u64, waits_ms: &[u64], needs: Needs) -> u32 {
    let mut control = QueueControl::new(TARGET, MOST);
    for number in 0..rounds {
        let ms = waits_ms.iter().map(|ms| Duration::from_millis(*ms));
        ms.for_each(|wait| control.note_wait(wait));
        control.note_round(Instant(number * 5_000_000), round(number), needs);
    }
    control.credit()
}

#[test]
fn what_stands_takes_credit_and_what_comes_and_goes_does_not() {
    assert_eq!(after(4, &[9, 5], NEEDS), MOST - MOST / 5);
    assert_eq!(after(4, &[9, 10], NEEDS), MOST / 2);
    assert_eq!(after(1000, &[9, 0, 9], NEEDS), MOST);
    assert_eq!(after(1000, &[], NEEDS), MOST);
}

#[test]
fn some_credit_is_always_left_and_for_each_stream() {
    assert_eq!(after(1000, &[9], NEEDS), LEAST_BYTES);
    let many = Needs {
        streams: 50,
        ..NEEDS
    };
    assert_eq!(after(1000, &[9], many), 50 * 8 * 1472);
    let mut control = QueueControl::new(TARGET, 10_000);
    for number in 0..100 {
        control.note_wait(TARGET * 2);
        control.note_round(Instant(number * 5_000_000), round(number), many);
    }
    assert_eq!(control.credit(), 10_000, "never more than there is");
}

#[test]
fn credit_comes_back_within_a_second() {
    let mut control = QueueControl::new(TARGET, MOST);
    let mut run = |from: u64, to: u64, wait: Duration| {
        for number in from..to {
            control.note_wait(wait);
            control.note_round(Instant(number * 5_000_000), round(number), NEEDS);
        }
        control.credit()
    };
    assert_eq!(run(0, 1000, TARGET * 3), LEAST_BYTES);
    assert_eq!(run(1000, 1200, Duration::ZERO), MOST);
}

#[test]
fn a_round_counts_once_and_those_of_other_regions_do_not() {
    let mut control = QueueControl::new(TARGET, MOST);
    for step in 0..1000_u64 {
        control.note_wait(TARGET * 3);
        let other = Round {
            region: RegionId(2),
            number: step,
        };
        control.note_round(Instant(step * 900_000), round(0), NEEDS);
        control.note_round(Instant(step * 900_000), other, NEEDS);
    }
    assert_eq!(control.credit(), MOST);
    let mut off = QueueControl::new(Duration::ZERO, MOST);
    (0..1000).for_each(|number| {
        off.note_wait(TARGET * 3);
        off.note_round(Instant(number * 5_000_000), round(number), NEEDS);
    });
    assert_eq!(off.credit(), MOST);
}

#[test]
fn a_silent_region_leaves_the_count_and_long_silence_gives_all_back() {
    let mut control = QueueControl::new(TARGET, MOST);
    let mut rounds = |region: u32, from_ms: u64, wait: Duration| {
        for number in 1..200 {
            control.note_wait(wait);
            let region = RegionId(region);
            let now = Instant((from_ms + number * 5) * 1_000_000);
            control.note_round(now, Round { region, number }, NEEDS);
        }
        control.credit()
    };
    assert!(rounds(1, 0, Duration::ZERO) == MOST);
    assert_eq!(rounds(2, 3000, TARGET * 3), LEAST_BYTES);
    assert!(rounds(3, 6000, TARGET * 3) == LEAST_BYTES);
    assert_eq!(rounds(3, 60_000, Duration::ZERO), MOST);
}

/// Senders that always have more to send, as one, and a receiver that reads so many bytes a second.
#[derive(Clone, Copy)]
struct Path {
    round_trip: Duration,
    /// Beside the round trip, for a round.
    visits: Duration,
    bytes_per_second: u64,
    needs: Needs,
}

/// Outcome: bytes read in all but the first part, and how long data waited in the queue.
struct Outcome {
    read: u64,
    waits: Vec<Duration>,
}

impl Outcome {
    fn wait(&self, percent: usize) -> Duration {
        let mut waits = self.waits.clone();
        waits.sort_unstable();
        waits[(waits.len() - 1) * percent / 100]
    }
}

/// Lets them run, in steps, for so many round trips and two seconds at least.
fn run(path: Path, target: Duration) -> Outcome {
    let step = (path.round_trip / 40).max(Duration::from_micros(20));
    let time = Duration::from_secs(2).max(path.round_trip * 40);
    let steps = crate::nanoseconds(time) / crate::nanoseconds(step);
    let per_step = path.bytes_per_second * crate::nanoseconds(step) / 1_000_000_000;
    let half = usize::try_from(path.round_trip.as_nanos() / step.as_nanos() / 2).unwrap();
    let mut control = QueueControl::new(target, MOST);
    let mut under_way = VecDeque::from(vec![0_u64; half.max(1)]);
    let [mut sent, mut come, mut read, mut known, mut window] = [0, 0, 0, 0, 64 << 10];
    let [mut opened, mut number] = [0_u64; 2];
    // The round on its way: when the senders hear of it, and what of.
    let mut flying: Option<(Instant, u64)> = None;
    let mut outcome = Outcome {
        read: 0,
        waits: Vec::new(),
    };
    for at in 0..steps {
        let now = Instant(at * crate::nanoseconds(step));
        if let Some((_, upto)) = flying.take_if(|round| round.0 <= now) {
            known = upto;
            window = u64::from(control.credit());
        }
        let fresh = (known + window).saturating_sub(sent);
        sent += fresh;
        under_way.push_back(fresh);
        come += under_way.pop_front().unwrap_or(0);
        let wait = Duration::from_nanos((come - read) * 1_000_000_000 / path.bytes_per_second);
        control.note_wait(wait);
        let bytes = per_step.min(come - read);
        read += bytes;
        if at > steps / 2 {
            outcome.read += bytes;
            outcome.waits.push(wait);
        }
        let due = u64::from(control.credit()) / 16;
        if flying.is_none() && (read - opened >= due || at % 250 == 0) {
            (opened, number) = (read, number + 1);
            flying = Some((now.after(path.round_trip + path.visits), read));
            control.note_round(now, round(number), path.needs);
        }
    }
    outcome
}

/// Round trips of 0.05 to 100 ms, 2 to 200 receivers, 1 to 50 senders, slow and fast ones: the rate
/// is what it is without control, and queues that would stand do not.
// Rule R-RATE-9.
#[test]
fn the_rate_stays_and_the_queue_goes() {
    let mut shorter = 0;
    for [micros, receivers, streams, megabytes] in paths() {
        let path = Path {
            round_trip: Duration::from_micros(micros),
            visits: Duration::from_micros(5 * receivers),
            bytes_per_second: megabytes * 1_000_000,
            needs: Needs {
                streams: usize::try_from(streams).unwrap(),
                ..NEEDS
            },
        };
        let [free, held] = [Duration::ZERO, TARGET].map(|target| run(path, target));
        let what =
            format!("{micros} us, {receivers} receivers, {streams} senders, {megabytes} MB/s");
        assert!(
            held.read * 100 >= free.read * 97,
            "{what}: {} of {}",
            held.read,
            free.read
        );
        let least = path.needs.bytes();
        let floor =
            Duration::from_secs(least.into()) / u32::try_from(megabytes * 1_000_000).unwrap();
        let round = path.round_trip + path.visits;
        let bound = TARGET * 3 + 2 * floor + 2 * round;
        assert!(
            held.wait(99) <= bound.max(free.wait(99)),
            "{what}: {:?}",
            held.wait(99)
        );
        shorter += usize::from(free.wait(50) > 4 * held.wait(50));
    }
    assert!(shorter >= 20, "queues stood on {shorter} paths only");
}

fn paths() -> impl Iterator<Item = [u64; 4]> {
    [50, 200, 1000, 5000, 20_000, 100_000]
        .into_iter()
        .flat_map(|micros| {
            [2, 20, 200].into_iter().flat_map(move |receivers| {
                [1, 50].into_iter().flat_map(move |streams| {
                    [10, 100, 1000]
                        .into_iter()
                        .map(move |megabytes| [micros, receivers, streams, megabytes])
                })
            })
        })
}
