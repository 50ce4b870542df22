//! A bounded run of what `fuzz/fuzz_targets/history.rs` does without bound: changed words in drawn orders.

mod support;

/// Drawn numbers (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Words as they are written: of the version, for keeper 1 and subscriber 2, of the sender 7 in its life 1.
const WORDS: [&[u8]; 6] = [
    &[1, 0, 2, 1],
    &[1, 0, 9, 1],
    // Has messages 11 to 20; and of another sender 5 to 300.
    &[1, 1, 1, 1, 1, 7, 1, 11, 20],
    &[1, 1, 3, 1, 2, 7, 1, 1, 25, 8, 1, 5, 0xac, 2],
    // Is asked for messages 11 to 20.
    &[1, 2, 2, 1, 1, 1, 7, 1, 11, 20],
    // Sends the message 12 and is at its end.
    &[1, 3, 1, 1, 1, 7, 1, 11, 12, 1, 12, 1, 2, b'h', b'i', 1],
];

/// R-HIST-1.
#[test]
fn changed_words_in_any_order_do_no_harm() {
    for seed in 1..=3000_u64 {
        let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut input = Vec::new();
        for _ in 0..dice.below(40) {
            let mut word = WORDS[dice.below(WORDS.len())].to_vec();
            for _ in 0..dice.below(3) {
                let place = dice.below(word.len());
                match dice.below(4) {
                    0 => word.truncate(place.max(1)),
                    1 => word.insert(place, dice.next() as u8),
                    _ => word[place] = dice.next() as u8,
                }
            }
            input.push(word.len() as u8);
            input.extend(word);
        }
        support::check(&input);
    }
}
