use qsm_wire::{Incarnation, NodeId, RegionId};

use super::*;

const SPEAKER: Origin = Origin {
    node: NodeId(7),
    incarnation: Incarnation(1),
};

fn at(seconds: u64) -> Instant {
    Instant(seconds * 1_000_000_000)
}

fn deaf(now: Instant) -> Speaker {
    let mut speaker = Speaker::new(now, 0);
    speaker.step = Step::Deaf {
        heard: None,
        tell_at: now,
    };
    speaker
}

// Rule R-REACH-1.
#[test]
fn each_multicast_that_does_not_come_counts_once() {
    let mut speaker = Speaker::new(at(0), 0);
    for (nonce, spoken) in [(1, 5), (2, 5), (3, 6), (4, 6), (2, 5), (5, 9)] {
        speaker.answered(
            at(1),
            &ReachReply {
                region: RegionId(1),
                nonce,
                spoken,
                multicast: false,
            },
        );
    }
    assert_eq!(speaker.answers, 3);
}

// Rule R-REACH-3.
#[test]
fn a_word_that_was_held_up_is_none_after_a_newer_one() {
    let mut earshot = Earshot::default();
    let mut is_news = |seconds, nonce| earshot.is_news(at(seconds), SPEAKER, nonce);
    assert!(is_news(1, 54));
    assert!(is_news(2, 55));
    assert!(!is_news(2, 54));
    // It tells each thing again, each second.
    assert!(is_news(3, 56));
    // Numbers go round.
    assert!(is_news(14, u32::MAX), "long after");
    assert!(is_news(15, 0));
    assert!(!is_news(15, u32::MAX));
    assert!(is_news(26, u32::MAX), "long after");
}

// Rule R-REACH-3.
#[test]
fn words_of_a_former_stay_are_older_than_those_of_a_new_one() {
    let (mut former, mut asks) = (Earshot::default(), Earshot::default());
    let (mut listens, second) = (Earshot::default(), 1_000_000_000);
    let words: Vec<u32> = (0..50)
        .map(|_| former.next_nonce(Instant(7 * second)))
        .collect();
    let first = asks.next_nonce(Instant(8 * second));
    assert!(listens.is_news(at(8), SPEAKER, first));
    assert!(
        !words
            .into_iter()
            .any(|word| listens.is_news(at(8), SPEAKER, word))
    );
    let next = asks.next_nonce(Instant(9 * second));
    assert_eq!(next, first + 1, "others are asked in turn by it");
    assert!(listens.is_news(at(9), SPEAKER, next));
}

/// Signs at these milliseconds, while packets up to `arrived` have come and `unheard` more were
/// sent; when there is something to do after them.
fn signs(earshot: &mut Earshot, milliseconds: &[u64], arrived: u64, unheard: u64) -> Instant {
    for ms in milliseconds {
        let sign = Sign { arrived, unheard };
        earshot.doubt(Instant(ms * 1_000_000), SPEAKER, sign);
    }
    earshot.due()
}

// Rule R-REACH-1.
#[test]
fn who_is_heard_is_in_doubt_no_longer() {
    let mut earshot = Earshot::default();
    // Signs of one moment are one.
    let at_once = signs(&mut earshot, &[0, 1, 39, 40, 41], 3, 1);
    assert_eq!(at_once, Instant::NEVER);
    let due = Instant(0).after(DOUBT);
    assert_eq!(signs(&mut earshot, &[80, 120], 3, 1), due);
    earshot.hear(at(1), SPEAKER);
    assert_eq!(earshot.due(), Instant::NEVER);
    // So is what comes from itself.
    assert_eq!(signs(&mut earshot, &[2000, 2100], 3, 1), Instant::NEVER);
    assert_eq!(signs(&mut earshot, &[2200, 2300], 4, 1), Instant::NEVER);
    let late = Instant(2_900_000_000);
    assert_eq!(signs(&mut earshot, &[2900], 4, 1), late);
}

// Rule R-REACH-1.
#[test]
fn one_sign_of_three_packets_is_enough_after_half_a_second() {
    let mut earshot = Earshot::default();
    assert_eq!(signs(&mut earshot, &[0], 3, 2), Instant::NEVER);
    let due = Instant(100_000_000).after(LONG_DOUBT);
    assert_eq!(signs(&mut earshot, &[100], 3, 3), due);
    // What comes after it does not put it off.
    assert_eq!(signs(&mut earshot, &[101], 3, 4), due);
    // Something has come from itself.
    assert_eq!(signs(&mut earshot, &[102], 5, 2), Instant::NEVER);
    assert_eq!(signs(&mut earshot, &[103], 5, 3), Instant(603_000_000));
    earshot.hear(at(0), SPEAKER);
    assert_eq!(earshot.due(), Instant::NEVER);
}

// Rule R-REACH-3.
#[test]
fn who_was_not_heard_is_watched_longer_each_time() {
    let mut earshot = Earshot::default();
    let mut holds = Vec::new();
    for second in 0..8 {
        earshot.count(at(second), SPEAKER);
        holds.push(earshot.hold(SPEAKER).as_secs());
    }
    assert_eq!(holds, [2, 4, 8, 16, 32, 64, 64, 64]);
    earshot.count(at(8).after(FORGIVEN), SPEAKER);
    assert_eq!(earshot.hold(SPEAKER), HOLD);
    // Heard again, it stays known as long as it is watched.
    earshot.speakers.insert(SPEAKER, deaf(at(0)));
    earshot.hear(at(1), SPEAKER);
    earshot.hear(at(2), SPEAKER);
    let Step::Deaf { heard, .. } = earshot.speakers[&SPEAKER].step else {
        panic!("it is not watched any more");
    };
    assert_eq!(heard, Some((at(1), at(2))));
}
