//! Words of one end of a session, in order and each once: a window of them, repeated until they are receipted (R-SEC-14).
//!
//! ```text
//!  number (4) | heard up to (4) | word          a number of 0: a receipt alone
//! ```

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

/// Words on their way at a time.
const WINDOW: usize = 8;
/// Words that wait; an end that does not receipt more is not there any more.
pub(super) const WORDS_MAX: usize = 256;
/// First pause before a word is said again; it doubles.
const AGAIN_MIN: Duration = Duration::from_millis(100);
/// Longest pause.
const AGAIN_MAX: Duration = Duration::from_secs(1);
const HEAD_BYTES: usize = 8;

/// One end's words, and what it has heard of the other's.
#[derive(Debug, Default)]
pub(super) struct Words {
    /// Without receipt, the oldest first. Its number is one above `receipted`.
    said: VecDeque<Zeroizing<Vec<u8>>>,
    receipted: u32,
    /// Of them, those that have been sent since the last repetition.
    sent: usize,
    heard: u32,
    owes_receipt: bool,
    again_at: Option<Instant>,
    pause: Duration,
}

impl Words {
    /// Queues a word. `false`: too many wait.
    pub(super) fn say(&mut self, word: Zeroizing<Vec<u8>>) -> bool {
        if self.said.len() >= WORDS_MAX {
            return false;
        }
        self.said.push_back(word);
        true
    }

    /// True if none waits for a receipt.
    pub(super) fn is_idle(&self) -> bool {
        self.said.is_empty()
    }

    /// Takes what the other end has sent: the word that is next, if it is that.
    pub(super) fn take<'a>(&mut self, content: &'a [u8]) -> Option<&'a [u8]> {
        let (number, rest) = content.split_first_chunk::<4>()?;
        let (heard, word) = rest.split_first_chunk::<4>()?;
        let (number, heard) = (u32::from_le_bytes(*number), u32::from_le_bytes(*heard));
        self.receipt(heard);
        if number == 0 {
            return None;
        }
        self.owes_receipt = true;
        if number != self.heard + 1 {
            return None;
        }
        self.heard = number;
        Some(word)
    }

    fn receipt(&mut self, upto: u32) {
        while self.receipted < upto && self.sent > 0 && self.said.pop_front().is_some() {
            self.receipted += 1;
            self.sent -= 1;
            self.again_at = None;
            self.pause = AGAIN_MIN;
        }
    }

    /// The next thing to send.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Zeroizing<Vec<u8>>> {
        if self.again_at.is_some_and(|at| at <= now) {
            self.sent = 0;
            self.pause = (self.pause * 2).min(AGAIN_MAX);
            self.again_at = None;
        }
        if self.sent < WINDOW.min(self.said.len()) {
            let number = self.receipted + 1 + u32::try_from(self.sent).unwrap_or(0);
            let content = self.content(number, &self.said[self.sent]);
            self.sent += 1;
            let pause = self.pause.max(AGAIN_MIN);
            self.again_at.get_or_insert(now + pause);
            self.owes_receipt = false;
            return Some(content);
        }
        if self.sent > 0 {
            let pause = self.pause.max(AGAIN_MIN);
            self.again_at.get_or_insert(now + pause);
        }
        if core::mem::take(&mut self.owes_receipt) {
            return Some(self.content(0, &[]));
        }
        None
    }

    fn content(&self, number: u32, word: &[u8]) -> Zeroizing<Vec<u8>> {
        let mut content = Zeroizing::new(Vec::with_capacity(HEAD_BYTES + word.len()));
        content.extend_from_slice(&number.to_le_bytes());
        content.extend_from_slice(&self.heard.to_le_bytes());
        content.extend_from_slice(word);
        content
    }

    /// When [`Words::poll`] has something again.
    pub(super) fn due(&self) -> Option<Instant> {
        self.again_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(number: u8) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(vec![number])
    }

    /// Carries everything but what `lost` says, and returns what was heard at the second end.
    fn carry(ends: &mut [Words; 2], now: Instant, mut lost: impl FnMut() -> bool) -> Vec<u8> {
        let mut heard = Vec::new();
        let mut from = 0;
        let mut quiet = 0;
        while quiet < 2 {
            let Some(content) = ends[from].poll(now) else {
                from = 1 - from;
                quiet += 1;
                continue;
            };
            quiet = 0;
            if !lost() {
                heard.extend_from_slice(ends[1 - from].take(&content).unwrap_or_default());
            }
        }
        heard
    }

    // Rule R-SEC-14.
    #[test]
    fn words_come_once_and_in_order_whatever_is_lost() {
        let start = Instant::now();
        let mut ends = [Words::default(), Words::default()];
        for number in 0..100 {
            assert!(ends[0].say(word(number)));
        }
        let mut dice = 1_u32;
        let mut heard = Vec::new();
        for step in 0..200 {
            let now = start + step * AGAIN_MAX;
            heard.extend(carry(&mut ends, now, || {
                dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                dice >> 30 == 0
            }));
        }
        assert_eq!(heard, (0..100).collect::<Vec<u8>>());
        assert_eq!((ends[0].due(), ends[1].due()), (None, None));
    }

    #[test]
    fn no_more_words_wait_than_there_is_room_for() {
        let mut words = Words::default();
        assert!((0..WORDS_MAX).all(|_| words.say(word(1))));
        assert!(!words.say(word(1)));
        let now = Instant::now();
        let sent = std::iter::from_fn(|| words.poll(now)).count();
        assert_eq!(sent, WINDOW);
        // A receipt of what was never sent says nothing.
        let mut receipt = vec![0; 4];
        receipt.extend_from_slice(&1000_u32.to_le_bytes());
        assert_eq!(words.take(&receipt), None);
        assert_eq!(words.said.len(), WORDS_MAX - WINDOW);
        assert!(words.take(&[1, 2, 3]).is_none());
    }
}
