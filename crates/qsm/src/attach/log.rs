//! The engine's log: memory in which each message lies once, for all attached processes that want
//! it, who read it where it lies.
//!
//! ```text
//!   blocks   ├── 0 ──┼── 1 ──┼── 2 ──┼── 3 ──┼─ … ─┼── last ──┤   one part for each core thread
//!   held by    A, B      B     being                one long
//!                             written               message: A
//!
//!   record   ├─ length ─┼─ group, incarnation ─┼─ node ─┼─ number ─┼─ bytes, up to whole words ─┤
//! ```
//!
//! A block is written from its beginning to its end, and again only when nobody holds it. A
//! subscription holds a block from the first of its messages in it until its reader has passed the
//! last one; the engine looks when it has the next message for that reader in another block. So a
//! reader sees nothing that is being written, and nobody waits for it: it holds its share of the log
//! at most, and what comes beyond that is copied into its own ring.
//!
//! The next block is the first one that is free: while all keep up these are the same few, which
//! stay in the caches. A message longer than a block takes several, from the end of the log, so
//! that short ones do not lie between.
//!
//! One core thread writes. All of this is its own, but for counts of who holds what, which the end
//! of a subscription may change from another thread.

use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use qsm_net::{ReadOnlyMemory, SharedMemory};

use super::extra::{message_extra, message_of};
use super::requests::EXTRA;
use super::ring::{store, words_for};
use crate::handoff::message::MessageRef;

/// Words of a block: large enough that holding one costs nothing beside writing it, small enough
/// that a few of them stay in a core's own cache.
pub(super) const BLOCK_WORDS: usize = 8192;
/// Words of a record beside its bytes.
const HEADER_WORDS: usize = 1 + EXTRA;
/// Number of no delivery.
const NONE: u64 = u64::MAX;

/// Words that a message takes, in the log as in a ring.
#[inline]
pub(super) fn message_words(bytes: usize) -> usize {
    words_for(EXTRA, bytes)
}

/// The engine's memory, with a part for each core thread.
pub(super) struct Logs {
    descriptor: OwnedFd,
    words: usize,
    parts: Vec<Arc<Log>>,
}

impl Logs {
    /// For so many core threads, with so many bytes for each, whole blocks.
    pub(super) fn create(cores: usize, bytes: usize) -> io::Result<Self> {
        let blocks = bytes / (BLOCK_WORDS * size_of::<u64>());
        let words = cores * blocks * BLOCK_WORDS;
        let (memory, descriptor) = SharedMemory::create_for_readers(words)?;
        let memory = Arc::new(memory);
        let part = |core| Arc::new(Log::new(&memory, core * blocks, blocks));
        Ok(Self {
            descriptor,
            words,
            parts: (0..cores).map(part).collect(),
        })
    }

    /// By which others map it.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }

    /// The part of a core thread.
    pub(super) fn part(&self, core: usize) -> &Arc<Log> {
        &self.parts[core]
    }
}

/// The part of one core thread.
pub(super) struct Log {
    memory: Arc<SharedMemory>,
    /// Its first block in the memory.
    first: usize,
    /// Number of those that hold each block.
    holders: Vec<AtomicU32>,
    /// Subscriptions that read it.
    readers: AtomicUsize,
    // Of the core thread alone.
    /// The delivery whose message was written last, and where it begins.
    delivery: AtomicU64,
    start: AtomicUsize,
    /// The first delivery of those before it, without a gap, whose messages lie one behind the other.
    joined: AtomicU64,
    /// The block being written, how far, in words, and where it ends; at the beginning none.
    block: AtomicUsize,
    at: AtomicUsize,
    end: AtomicUsize,
}

impl Log {
    fn new(memory: &Arc<SharedMemory>, first: usize, blocks: usize) -> Self {
        Self {
            memory: Arc::clone(memory),
            first,
            holders: (0..blocks).map(|_| AtomicU32::new(0)).collect(),
            readers: AtomicUsize::new(0),
            delivery: AtomicU64::new(NONE),
            start: AtomicUsize::new(0),
            joined: AtomicU64::new(NONE),
            block: AtomicUsize::new(0),
            at: AtomicUsize::new(0),
            end: AtomicUsize::new(0),
        }
    }

    /// Blocks that one subscription may hold.
    fn share(&self) -> usize {
        let readers = self.readers.load(Ordering::Relaxed);
        (self.holders.len() / (readers + 1)).max(1)
    }

    /// The block in which the message of a delivery lies, of so many words, or will lie if none has to
    /// be begun for it.
    fn place(&self, delivery: u64, words: usize) -> Option<usize> {
        let start = match self.delivery.load(Ordering::Relaxed) == delivery {
            true => self.start.load(Ordering::Relaxed),
            false => {
                let at = self.at.load(Ordering::Relaxed);
                let fits = at + words <= self.end.load(Ordering::Relaxed);
                fits.then_some(at)?
            }
        };
        Some(self.block_of(start))
    }

    /// Writes the message of a delivery, the first time that it is asked for; where it begins.
    /// `None`: there is no room.
    fn write(&self, delivery: u64, message: &MessageRef<'_>) -> Option<usize> {
        if self.delivery.load(Ordering::Relaxed) == delivery {
            return Some(self.start.load(Ordering::Relaxed));
        }
        let words = message_words(message.bytes.len());
        let before = self.at.load(Ordering::Relaxed);
        let start = self.room(words)?;
        if start != before || self.delivery.load(Ordering::Relaxed).wrapping_add(1) != delivery {
            self.joined.store(delivery, Ordering::Relaxed);
        }
        let places = &self.memory.words()[start..start + words];
        places[0].store(message.bytes.len() as u64, Ordering::Relaxed);
        for (place, word) in places[1..].iter().zip(message_extra(message)) {
            place.store(word, Ordering::Relaxed);
        }
        store(&places[HEADER_WORDS..], message.bytes);
        self.delivery.store(delivery, Ordering::Relaxed);
        self.start.store(start, Ordering::Relaxed);
        Some(start)
    }

    /// Where the messages of these deliveries lie, of so many words together, if they were written last,
    /// one behind the other, in one block.
    fn run(&self, deliveries: Range<u64>, words: usize) -> Option<Run> {
        let last = self.delivery.load(Ordering::Relaxed);
        let joined = self.joined.load(Ordering::Relaxed) <= deliveries.start;
        let end = self.at.load(Ordering::Relaxed);
        let start = end.checked_sub(words)?;
        (deliveries.end.wrapping_sub(1) == last && joined).then_some(Run { start, end })
    }

    /// Room for so many words that lie together.
    fn room(&self, words: usize) -> Option<usize> {
        if words > BLOCK_WORDS {
            return self.long_room(words.div_ceil(BLOCK_WORDS));
        }
        let at = self.at.load(Ordering::Relaxed);
        if at + words <= self.end.load(Ordering::Relaxed) {
            self.at.store(at + words, Ordering::Relaxed);
            return Some(at);
        }
        let block = self.holders.iter().position(is_free)?;
        if self.end.load(Ordering::Relaxed) > 0 {
            self.release(self.block.load(Ordering::Relaxed), 1);
        }
        self.hold(block, 1);
        let at = self.word_of(block);
        self.block.store(block, Ordering::Relaxed);
        self.at.store(at + words, Ordering::Relaxed);
        self.end.store(at + BLOCK_WORDS, Ordering::Relaxed);
        Some(at)
    }

    /// So many blocks that follow each other, as far back as there are.
    fn long_room(&self, blocks: usize) -> Option<usize> {
        let mut free = 0;
        for (block, holders) in self.holders.iter().enumerate().rev() {
            free = if is_free(holders) { free + 1 } else { 0 };
            if free == blocks {
                return Some(self.word_of(block));
            }
        }
        None
    }

    fn word_of(&self, block: usize) -> usize {
        (self.first + block) * BLOCK_WORDS
    }

    fn block_of(&self, word: usize) -> usize {
        word / BLOCK_WORDS - self.first
    }

    fn hold(&self, block: usize, blocks: usize) {
        for holders in &self.holders[block..block + blocks] {
            holders.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Gives blocks back: what the holder has read of them it has read before.
    fn release(&self, block: usize, blocks: usize) {
        for holders in &self.holders[block..block + blocks] {
            holders.fetch_sub(1, Ordering::Release);
        }
    }
}

/// Whoever held it has read what it wanted.
fn is_free(holders: &AtomicU32) -> bool {
    holders.load(Ordering::Acquire) == 0
}

/// Blocks that a subscription holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Hold {
    block: usize,
    blocks: usize,
    /// The position of its reader at which it needs them no more.
    until: u64,
}

/// Part of a core thread's log that one subscription holds.
pub(super) struct Holds {
    log: Arc<Log>,
    /// In the order in which they are read.
    held: VecDeque<Hold>,
    blocks: usize,
}

impl Holds {
    pub(super) fn new(log: &Arc<Log>) -> Self {
        log.readers.fetch_add(1, Ordering::Relaxed);
        Self {
            log: Arc::clone(log),
            held: VecDeque::new(),
            blocks: 0,
        }
    }

    /// The word at which the message of this delivery lies; its block is held until the reader is
    /// at this position. `None`: it is not in the log, or may not be held as well. `passed` says
    /// where the reader is.
    pub(super) fn write(
        &mut self,
        delivery: u64,
        message: &MessageRef<'_>,
        until: u64,
        passed: impl FnOnce() -> u64,
    ) -> Option<usize> {
        let words = message_words(message.bytes.len());
        let blocks = words.div_ceil(BLOCK_WORDS);
        let last = self.held.back().map(|hold| hold.block);
        if last.is_none() || last != self.log.place(delivery, words) {
            self.release(passed());
            if self.blocks + blocks > self.log.share() {
                return None;
            }
        }
        let start = self.log.write(delivery, message)?;
        let block = self.log.block_of(start);
        match self.held.back_mut() {
            Some(hold) if hold.block == block => hold.until = until,
            _ => self.push(block, blocks, until),
        }
        Some(start)
    }

    /// As [`Holds::write`] for the messages of deliveries that follow each other, of so many words together,
    /// if they lie in the log already, one behind the other.
    pub(super) fn join(
        &mut self,
        deliveries: Range<u64>,
        words: usize,
        until: u64,
        passed: impl FnOnce() -> u64,
    ) -> Option<Run> {
        let run = self.log.run(deliveries, words)?;
        let block = self.log.block_of(run.start);
        match self.held.back_mut() {
            Some(hold) if hold.block == block => hold.until = until,
            _ => {
                self.release(passed());
                if self.blocks + 1 > self.log.share() {
                    return None;
                }
                self.push(block, 1, until);
            }
        }
        Some(run)
    }

    fn push(&mut self, block: usize, blocks: usize, until: u64) {
        self.log.hold(block, blocks);
        self.blocks += blocks;
        self.held.push_back(Hold {
            block,
            blocks,
            until,
        });
    }

    /// The reader is at this position.
    pub(super) fn release(&mut self, passed: u64) {
        while let Some(hold) = self.held.front().filter(|hold| hold.until <= passed) {
            self.log.release(hold.block, hold.blocks);
            self.blocks -= hold.blocks;
            self.held.pop_front();
        }
    }
}

impl Drop for Holds {
    fn drop(&mut self) {
        self.release(u64::MAX);
        self.log.readers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where messages of one group lie, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// Words.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The log as an attached process sees it.
pub(super) struct View(ReadOnlyMemory);

impl View {
    pub(super) fn open(descriptor: OwnedFd, words: u64) -> io::Result<Self> {
        let words = usize::try_from(words).map_err(|_| io::ErrorKind::InvalidData)?;
        ReadOnlyMemory::open(descriptor, words).map(Self)
    }

    /// The first message of a run; `None` if there is none. It stays while it is held, that is,
    /// until the engine sees that the reader has passed it.
    #[inline]
    pub(super) fn first<'a>(&'a self, run: Run, group: &'a str) -> Option<MessageRef<'a>> {
        let [length, extra @ ..] = self.0.load::<HEADER_WORDS>(run.start)?;
        let length = usize::try_from(length).ok()?;
        let there = run.end.checked_sub(run.start)?;
        if message_words(length) > there {
            return None;
        }
        let bytes = self.0.bytes(run.start + HEADER_WORDS, length)?;
        Some(message_of(group, extra, bytes))
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{GroupId, Incarnation, NodeId, Origin};

    use super::*;

    const BLOCK_BYTES: usize = BLOCK_WORDS * size_of::<u64>();
    /// So that eight fill a block.
    const LENGTH: usize = BLOCK_BYTES / 8 - HEADER_WORDS * size_of::<u64>();

    fn message(number: u64, bytes: &[u8]) -> MessageRef<'_> {
        MessageRef {
            group: "x",
            group_id: GroupId(3),
            sender: Origin {
                node: NodeId(u64::MAX),
                incarnation: Incarnation(7),
            },
            number,
            bytes,
        }
    }

    struct Scene {
        log: Arc<Log>,
        view: View,
        delivered: u64,
    }

    impl Scene {
        fn new(blocks: usize) -> Self {
            let logs = Logs::create(2, blocks * BLOCK_BYTES).unwrap();
            let descriptor = logs.descriptor().try_clone_to_owned().unwrap();
            let words = logs.words() as u64;
            Self {
                log: Arc::clone(logs.part(1)),
                view: View::open(descriptor, words).unwrap(),
                delivered: 0,
            }
        }

        /// Delivers a message to them; the block in which each has it. Positions are numbers.
        fn deliver(&mut self, length: usize, to: &mut [&mut Holds]) -> Vec<Option<usize>> {
            self.delivered += 1;
            let number = self.delivered;
            let bytes = vec![number as u8; length];
            let message = message(number, &bytes);
            let mut places = Vec::new();
            for holds in to {
                let start = holds.write(number, &message, number, || 0);
                if let Some(start) = start {
                    let end = start + message_words(length);
                    assert_eq!(self.view.first(Run { start, end }, "x"), Some(message));
                    let short = Run {
                        end: end - 1,
                        start,
                    };
                    assert_eq!(self.view.first(short, "x"), None);
                }
                places.push(start.map(|start| self.log.block_of(start)));
            }
            places
        }
    }

    #[test]
    fn a_message_lies_once_and_what_nobody_holds_is_written_again() {
        let mut scene = Scene::new(9);
        let (mut one, mut other) = (Holds::new(&scene.log), Holds::new(&scene.log));
        for round in 0..100 {
            for _ in 0..8 {
                let places = scene.deliver(LENGTH, &mut [&mut one, &mut other]);
                assert_eq!(places, [Some(round % 2); 2]);
            }
            one.release(scene.delivered);
            other.release(scene.delivered);
        }
        drop((one, other));
        let holders = scene.log.holders.iter().map(|it| it.load(Ordering::SeqCst));
        assert_eq!(holders.sum::<u32>(), 1, "what is being written");
    }

    #[test]
    fn one_that_stands_still_keeps_what_it_holds_and_takes_no_more_than_its_share() {
        let mut scene = Scene::new(9);
        let (mut fast, mut still) = (Holds::new(&scene.log), Holds::new(&scene.log));
        assert_eq!(scene.log.share(), 3);
        for number in 1..=200 {
            let places = scene.deliver(LENGTH, &mut [&mut still, &mut fast]);
            fast.release(number);
            // The other goes on, elsewhere.
            let expected = match number {
                1..=24 => [Some((number as usize - 1) / 8); 2],
                _ => [None, Some(3 + (number as usize).div_ceil(8) % 2)],
            };
            assert_eq!(places, expected, "{number}");
        }
        assert_eq!(still.blocks, 3);
        still.release(8);
        assert_eq!(still.blocks, 2);
        assert!(scene.deliver(LENGTH, &mut [&mut still])[0].is_some());
    }

    #[test]
    fn a_further_reader_joins_messages_that_lie_together_and_no_others() {
        let mut scene = Scene::new(9);
        let (mut one, mut other) = (Holds::new(&scene.log), Holds::new(&scene.log));
        let (words, first) = (message_words(LENGTH), scene.log.word_of(0));
        let mut join = |deliveries, count| {
            let run = other.join(deliveries, count * words, 8, || 0);
            run.map(|run| (run.start - first, run.end - first))
        };
        for _ in 0..8 {
            scene.deliver(LENGTH, &mut [&mut one]);
        }
        assert_eq!(join(7..9, 2), Some((6 * words, 8 * words)));
        assert_eq!(join(1..9, 8), Some((0, 8 * words)));
        assert_eq!((join(1..8, 7), join(8..10, 2)), (None, None));
        // A number that nobody was offered here.
        scene.delivered += 1;
        scene.deliver(10, &mut [&mut one]);
        assert_eq!(scene.log.run(9..11, 2 * message_words(10)), None);
        assert!(scene.log.run(10..11, message_words(10)).is_some());
    }

    #[test]
    fn one_that_holds_its_share_joins_nothing_in_another_block() {
        let mut scene = Scene::new(3);
        let (mut one, mut other) = (Holds::new(&scene.log), Holds::new(&scene.log));
        let words = message_words(LENGTH);
        for number in 1..=16 {
            scene.deliver(LENGTH, &mut [&mut one]);
            one.release(number);
            let joined = other.join(number..number + 1, words, number, || 0);
            assert_eq!(joined.is_some(), number <= 8, "{number}");
        }
        assert!(other.join(16..17, words, 16, || 8).is_some());
    }

    #[test]
    fn a_long_message_takes_blocks_at_the_end_and_one_that_has_no_room_none() {
        let mut scene = Scene::new(12);
        let mut holds = Holds::new(&scene.log);
        assert_eq!(scene.deliver(10, &mut [&mut holds]), [Some(0)]);
        assert_eq!(scene.deliver(2 * BLOCK_BYTES, &mut [&mut holds]), [Some(9)]);
        assert_eq!(scene.deliver(10, &mut [&mut holds]), [Some(0)]);
        assert_eq!(scene.deliver(3 * BLOCK_BYTES, &mut [&mut holds]), [None]);
        assert_eq!(scene.deliver(99 * BLOCK_BYTES, &mut [&mut holds]), [None]);
        holds.release(2);
        assert_eq!(scene.deliver(2 * BLOCK_BYTES, &mut [&mut holds]), [Some(9)]);
    }

    #[test]
    fn nonsense_in_the_log_is_no_message() {
        let scene = Scene::new(2);
        let words = scene.log.memory.words();
        for length in [u64::MAX, 1 << 40, 8 * 8192 * 8] {
            words[0].store(length, Ordering::SeqCst);
            for end in [0, 3, 4, words.len(), usize::MAX] {
                assert_eq!(scene.view.first(Run { start: 0, end }, "x"), None);
            }
        }
        let (start, end) = (usize::MAX, 4);
        assert_eq!(scene.view.first(Run { start, end }, "x"), None);
    }
}
