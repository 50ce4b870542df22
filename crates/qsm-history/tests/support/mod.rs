//! Words of nobody knows whom, to a keeper and a subscriber.
//!
//! Shared by the tests of this crate and by the target in `fuzz/`, so that both check the same.

use std::collections::BTreeMap;
use std::time::Duration;

use qsm::{GroupId, Incarnation, NodeId, Origin};
use qsm_history::{Bounds, Item, JoinLimits, JoinerCore, KeeperCore, Start};

const KEPT: u64 = 10;
const HELD_BYTES: usize = 1 << 16;

/// A keeper and a subscriber that talk to each other.
struct Pair {
    keeper: KeeperCore,
    joiner: JoinerCore,
    next: BTreeMap<Origin, u64>,
}

/// Gives a keeper and a subscriber the words that the input has, each with its length before it, while they talk to each
/// other. Nothing panics, what they hold has its bounds, and of each sender numbers follow each other (R-HIST-1,
/// R-HIST-2, R-HIST-4).
pub(crate) fn check(input: &[u8]) {
    let mut pair = Pair::new();
    let (mut now, mut rest) = (Duration::ZERO, input);
    while let Some((&length, behind)) = rest.split_first() {
        let (word, behind) = behind.split_at(usize::from(length).min(behind.len()));
        rest = behind;
        pair.keeper.word(word, now);
        pair.joiner.word(word, now);
        now += Duration::from_millis(100);
        pair.turn(now);
    }
}

impl Pair {
    fn new() -> Self {
        let mut keeper = KeeperCore::new(Bounds::default().messages(KEPT as usize), 1);
        let sender = Origin {
            node: NodeId(7),
            incarnation: Incarnation(1),
        };
        for number in 1..=2 * KEPT {
            keeper.message(sender, GroupId(1), number, vec![7; 10], Duration::ZERO);
        }
        let limits = JoinLimits::default().held_bytes(HELD_BYTES);
        Self {
            keeper,
            joiner: JoinerCore::new("g", Start::Last(2 * KEPT), limits, 2),
            next: BTreeMap::new(),
        }
    }

    fn turn(&mut self, now: Duration) {
        self.keeper.tick(now);
        self.joiner.tick(Some(1), now);
        while let Some(question) = self.joiner.take_word() {
            self.keeper.word(&question, now);
        }
        while let Some((_, answer)) = self.keeper.take() {
            self.joiner.word(&answer, now);
        }
        while let Some(item) = self.joiner.take_item() {
            let (sender, first, last) = match item {
                Item::Kept(message) => (message.sender(), message.number(), message.number()),
                Item::Missing(missing) => (missing.sender, missing.first, missing.last),
                Item::Joined(_) => continue,
                other => panic!("from nowhere: {other:?}"),
            };
            let next = self.next.entry(sender).or_insert(first);
            assert_eq!(*next, first, "of {sender}");
            *next = last.saturating_add(1);
        }
        assert!(self.joiner.stats().held_bytes <= HELD_BYTES as u64);
        assert!(self.keeper.stats().messages <= KEPT);
    }
}
