//! A ring of records in shared memory, from one writer to one reader in another process.
//!
//! ```text
//!   words   0      1       8        16       24     32       64                  64 + capacity
//!           ├ tail ┼ total ┼─ head ─┼ dropped┼ over ┼ wanted ┼─ data ──────────────┤
//!            writer  writer  reader   writer  writer  writer   writer
//!
//!   record     ├─ length: 32, tag: 32 ──────┼─ EXTRA words ─┼─ bytes, up to whole words ─┤
//!   reference  ├─ REFERENCE: 32, tag: 32 ───┼─ EXTRA words ─┤
//! ```
//!
//! Positions are words since the beginning and only grow; the place is the position modulo the
//! capacity, a power of two. The writer stores `tail` with `Release` after the record, the reader
//! loads it with `Acquire`, and the other way round with `head`.
//!
//! A *reference* stands for records that lie elsewhere, each of them at least as long as it. They
//! count as if they lay in the ring: `total` is how far the writer would be then, and `head` how
//! far the reader is. What waits never exceeds the capacity so counted, and a reference takes no
//! more than what it stands for; so what was not read is not written over.
//!
//! A writer that keeps what has no room, and so drops nothing, says in `wanted` where the reader has
//! to be for it to go on, or 0. A reader that has come there says so outside of the ring, once.
//!
//! **Neither side trusts the other.** Each keeps its own position in its own memory and never
//! reads it back. Of the other's position it takes one copy, and goes on only if the distance lies
//! within the capacity. The reader takes one copy of a record's length, and goes on only if the
//! record lies within what is there. So whatever the other side writes, and whenever, nothing
//! outside of the ring is touched, no more than its capacity is copied, and all that can go wrong
//! is [`Nonsense`].

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use qsm_net::SharedMemory;

use super::bell::Bell;

/// Words before the data of a ring; each used one has a cache line of its own.
const HEADER_WORDS: usize = 64;
const TAIL: usize = 0;
const TOTAL: usize = 1;
const HEAD: usize = 8;
const DROPPED: usize = 16;
const OVER: usize = 24;
const WANTED: usize = 32;
const WORD: usize = size_of::<u64>();
/// Words that have to be read of a full ring before a writer that waits goes on, or a quarter of it if
/// that is less: it is not woken for each record.
const STEP_WORDS: usize = (1 << 20) / WORD;
/// In the place of a length.
const REFERENCE: u32 = u32::MAX;

/// Says why the other side of a ring cannot be talked to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nonsense {
    /// Its position lies outside of the ring.
    Position,
    /// A record is longer than what is there.
    Length,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    Yes,
    /// There is no room now.
    Full,
    /// It is longer than the ring.
    Never,
}

/// Where a ring lies in its memory.
#[derive(Debug, Clone)]
struct Place {
    memory: Arc<SharedMemory>,
    first: usize,
    /// A power of two.
    capacity: usize,
}

impl Place {
    /// The ring with this number in a memory of rings of equal capacity.
    fn new(memory: Arc<SharedMemory>, number: usize, capacity: usize) -> Self {
        let first = number * (HEADER_WORDS + capacity);
        assert!(
            capacity.is_power_of_two() && first + HEADER_WORDS + capacity <= memory.words().len(),
            "a ring lies within its memory"
        );
        Self {
            memory,
            first,
            capacity,
        }
    }

    fn header(&self, at: usize) -> &AtomicU64 {
        &self.memory.words()[self.first + at]
    }

    fn data(&self) -> &[AtomicU64] {
        let first = self.first + HEADER_WORDS;
        &self.memory.words()[first..first + self.capacity]
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.data()[self.at(position)]
    }

    /// The place of a position.
    fn at(&self, position: u64) -> usize {
        // The mask is below the capacity, which is a length in memory.
        (position & (self.capacity as u64 - 1)) as usize
    }

    /// So many words from a position on: those up to the end of the ring, and the rest from its
    /// beginning.
    fn span(&self, position: u64, words: usize) -> (&[AtomicU64], &[AtomicU64]) {
        let at = self.at(position);
        let first = words.min(self.capacity - at);
        let data = self.data();
        (&data[at..at + first], &data[..words - first])
    }

    /// How far the writer is before the reader; `None` if that cannot be.
    fn distance(&self, tail: u64, head: u64) -> Option<usize> {
        let words = tail.wrapping_sub(head);
        // Below a length in memory.
        (words <= self.capacity as u64).then_some(words as usize)
    }
}

/// Words of a memory for so many rings of this capacity.
pub(super) fn memory_words(rings: usize, capacity: usize) -> usize {
    rings * (HEADER_WORDS + capacity)
}

/// The longest message that a ring of this capacity in words can carry, bytes.
pub(super) fn message_bytes_max(capacity: usize, extra: usize) -> usize {
    capacity.saturating_sub(1 + extra) * WORD
}

/// Words of a record with so many of its own and so many bytes.
pub(super) fn words_for(extra: usize, bytes: usize) -> usize {
    1 + extra + bytes.div_ceil(WORD)
}

/// How far the reader of a ring is, as it says.
#[derive(Debug, Clone)]
pub(super) struct HeadOf(Place);

impl HeadOf {
    pub(super) fn position(&self) -> u64 {
        self.0.header(HEAD).load(Ordering::Acquire)
    }
}

/// The side that writes records, each with `EXTRA` words of its own.
#[derive(Debug)]
pub(super) struct Writer<const EXTRA: usize> {
    place: Place,
    tail: u64,
    /// As if everything lay in the ring.
    total: u64,
    /// As last seen.
    head: u64,
    dropped: u64,
    /// Position that it waits for, or 0.
    wanted: u64,
}

impl<const EXTRA: usize> Writer<EXTRA> {
    pub(super) fn new(memory: Arc<SharedMemory>, number: usize, capacity: usize) -> Self {
        Self {
            place: Place::new(memory, number, capacity),
            tail: 0,
            total: 0,
            head: 0,
            dropped: 0,
            wanted: 0,
        }
    }

    /// Writes a record if there is room, without waking the reader.
    pub(super) fn write(
        &mut self,
        tag: u32,
        extra: [u64; EXTRA],
        bytes: &[u8],
    ) -> Result<Written, Nonsense> {
        let words = words_for(EXTRA, bytes.len());
        let claimed = self.claim(words)?;
        if claimed != Written::Yes {
            return Ok(claimed);
        }
        // Not longer than the ring.
        self.begin(bytes.len() as u32, tag, extra);
        let start = self.tail + 1 + EXTRA as u64;
        let (one, two) = self.place.span(start, words - 1 - EXTRA);
        let (before, after) = bytes.split_at(bytes.len().min(one.len() * WORD));
        store(one, before);
        store(two, after);
        self.advance(words);
        Ok(Written::Yes)
    }

    /// Counts a record of so many words that lies elsewhere, if there is room for it. A reference
    /// to it has to follow.
    pub(super) fn claim(&mut self, words: usize) -> Result<Written, Nonsense> {
        let room = self.has_room_for(words)?;
        if room == Written::Yes {
            self.total += words as u64;
        }
        Ok(room)
    }

    /// Tells whether a record of so many words has room when all has been read.
    pub(super) fn fits_ever(&self, words: usize) -> bool {
        words <= self.place.capacity
    }

    /// Says what would become of a record of so many words.
    pub(super) fn has_room_for(&mut self, words: usize) -> Result<Written, Nonsense> {
        if !self.fits_ever(words) {
            return Ok(Written::Never);
        }
        Ok(match self.fits(words)? {
            true => Written::Yes,
            false => Written::Full,
        })
    }

    /// Refers to all records that were claimed since the last one.
    pub(super) fn refer(&mut self, tag: u32, extra: [u64; EXTRA]) {
        self.begin(REFERENCE, tag, extra);
        self.advance(1 + EXTRA);
    }

    /// Writes the words with which a record or reference begins.
    fn begin(&self, length: u32, tag: u32, extra: [u64; EXTRA]) {
        let first = u64::from(length) | (u64::from(tag) << 32);
        self.place.word(self.tail).store(first, Ordering::Relaxed);
        for (at, value) in (self.tail + 1..).zip(extra) {
            self.place.word(at).store(value, Ordering::Relaxed);
        }
    }

    fn advance(&mut self, words: usize) {
        self.tail += words as u64;
        self.place
            .header(TOTAL)
            .store(self.total, Ordering::Relaxed);
        self.place.header(TAIL).store(self.tail, Ordering::Release);
    }

    /// Position up to which it has written, in words, as if everything lay in the ring.
    pub(super) fn position(&self) -> u64 {
        self.total
    }

    /// Position that the reader says it is at, if that can be; as last seen otherwise.
    pub(super) fn passed(&mut self) -> u64 {
        let head = self.place.header(HEAD).load(Ordering::Acquire);
        if self.place.distance(self.total, head).is_some() {
            self.head = head;
        }
        self.head
    }

    /// Tells whether a record of so many bytes would find room now; also if it never does.
    pub(super) fn has_room(&mut self, bytes: usize) -> bool {
        self.has_room_for(words_for(EXTRA, bytes)) != Ok(Written::Full)
    }

    /// Tells the reader of one more record that found no room. A reader that sees it sees all
    /// records written before.
    pub(super) fn drop_one(&mut self) {
        self.drop_more(1);
    }

    /// The same of so many.
    pub(super) fn drop_more(&mut self, records: u64) {
        self.dropped += records;
        let header = self.place.header(DROPPED);
        header.store(self.dropped, Ordering::Release);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Where its reader says it is.
    pub(super) fn head(&self) -> HeadOf {
        HeadOf(self.place.clone())
    }

    /// Tells the reader that more comes when it is where a record of so many words has room, and not
    /// before; returns that position.
    pub(super) fn want(&mut self, words: usize) -> u64 {
        let capacity = self.place.capacity;
        let step = words.max(STEP_WORDS.min(capacity / 4)).min(capacity);
        let position = (self.total + step as u64).saturating_sub(capacity as u64);
        // 0 is for nothing.
        self.wanted = position.max(1);
        self.say_wanted();
        self.wanted
    }

    /// Tells the reader that nothing is waited for.
    pub(super) fn want_nothing(&mut self) {
        if self.wanted != 0 {
            self.wanted = 0;
            self.say_wanted();
        }
    }

    fn say_wanted(&self) {
        let header = self.place.header(WANTED);
        header.store(self.wanted, Ordering::SeqCst);
    }

    /// Tells the reader that nothing more will come.
    pub(super) fn end(&self) {
        self.place.header(OVER).store(1, Ordering::Release);
    }

    /// Bytes that wait to be read, as far as the reader says the truth.
    pub(super) fn queued_bytes(&self) -> usize {
        let head = self.place.header(HEAD).load(Ordering::Relaxed);
        self.place.distance(self.total, head).unwrap_or(0) * WORD
    }

    fn fits(&mut self, words: usize) -> Result<bool, Nonsense> {
        let free = |writer: &Self| {
            let used = writer.place.distance(writer.total, writer.head);
            used.map(|used| writer.place.capacity - used)
        };
        if free(self).is_some_and(|free| words <= free) {
            return Ok(true);
        }
        self.head = self.place.header(HEAD).load(Ordering::Acquire);
        free(self)
            .map(|free| words <= free)
            .ok_or(Nonsense::Position)
    }
}

/// Copies bytes into words; the last word is filled up with zeros.
pub(super) fn store(places: &[AtomicU64], bytes: &[u8]) {
    let (whole, rest) = bytes.as_chunks::<WORD>();
    for (place, word) in places.iter().zip(whole) {
        place.store(u64::from_le_bytes(*word), Ordering::Relaxed);
    }
    if let Some(place) = places.get(whole.len()).filter(|_| !rest.is_empty()) {
        place.store(last_word(bytes, rest.len()), Ordering::Relaxed);
    }
}

/// The last bytes, so many, as a word. Out of what is read alone: a word that was put together in memory
/// could not be loaded before all stores ahead of it were done, and these wait for other processors' caches.
fn last_word(bytes: &[u8], rest: usize) -> u64 {
    match bytes.last_chunk() {
        Some(last) => u64::from_le_bytes(*last) >> (8 * (WORD - rest)),
        None => {
            let next = |word, byte: &u8| (word << 8) | u64::from(*byte);
            bytes.iter().rev().fold(0, next)
        }
    }
}

/// Copies whole words.
fn load(places: &[AtomicU64], bytes: &mut [u8]) {
    for (word, place) in bytes.as_chunks_mut::<WORD>().0.iter_mut().zip(places) {
        *word = place.load(Ordering::Relaxed).to_le_bytes();
    }
}

/// A record as the reader gets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record<'a, const EXTRA: usize> {
    pub(super) tag: u32,
    pub(super) extra: [u64; EXTRA],
    pub(super) bytes: &'a [u8],
}

/// A record or reference that comes next in a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next<'a, const EXTRA: usize> {
    Record(Record<'a, EXTRA>),
    /// To records that lie elsewhere; each counts until it is [passed](Reader::pass).
    Reference {
        tag: u32,
        extra: [u64; EXTRA],
    },
}

/// The side that reads records.
#[derive(Debug)]
pub(super) struct Reader<const EXTRA: usize> {
    place: Place,
    /// The place of the next record.
    at: u64,
    /// As if everything lay in the ring.
    head: u64,
    /// As last seen.
    tail: u64,
    /// What it has told the writer last that it has come to.
    told: u64,
    /// Where a record's bytes are copied to; as long as the longest so far, in whole words.
    buffer: Vec<u8>,
}

impl<const EXTRA: usize> Reader<EXTRA> {
    pub(super) fn new(memory: Arc<SharedMemory>, number: usize, capacity: usize) -> Self {
        Self {
            place: Place::new(memory, number, capacity),
            at: 0,
            head: 0,
            tail: 0,
            told: 0,
            buffer: Vec::new(),
        }
    }

    /// Takes the next record of a ring without references; its place is free again when this
    /// returns.
    pub(super) fn next(&mut self) -> Result<Option<Record<'_, EXTRA>>, Nonsense> {
        match self.take()? {
            None => Ok(None),
            Some(Next::Record(record)) => Ok(Some(record)),
            Some(Next::Reference { .. }) => Err(Nonsense::Length),
        }
    }

    /// As [`Reader::next`], also of a ring with references.
    pub(super) fn take(&mut self) -> Result<Option<Next<'_, EXTRA>>, Nonsense> {
        let Some(there) = self.there()? else {
            return Ok(None);
        };
        let place = &self.place;
        // One copy of what the other side may be changing.
        let first = place.word(self.at).load(Ordering::Relaxed);
        let (length, tag) = (first as u32, (first >> 32) as u32);
        let is_reference = length == REFERENCE;
        let length = if is_reference { 0 } else { length as usize };
        let needed = words_for(EXTRA, length);
        if needed > there {
            return Err(Nonsense::Length);
        }
        let start = self.at + 1;
        let extra =
            core::array::from_fn(|at| place.word(start + at as u64).load(Ordering::Relaxed));
        self.at += needed as u64;
        if is_reference {
            return Ok(Some(Next::Reference { tag, extra }));
        }
        let room = length.next_multiple_of(WORD);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
        let (one, two) = place.span(start + EXTRA as u64, needed - 1 - EXTRA);
        let (before, after) = self.buffer[..room].split_at_mut(one.len() * WORD);
        load(one, before);
        load(two, after);
        self.pass(needed);
        let bytes = &self.buffer[..length];
        Ok(Some(Next::Record(Record { tag, extra, bytes })))
    }

    /// So many words were read, and are free again.
    pub(super) fn pass(&mut self, words: usize) {
        self.head += words as u64;
        self.place.header(HEAD).store(self.head, Ordering::Release);
    }

    /// Position up to which it has read, in words, as if everything lay in the ring.
    pub(super) fn position(&self) -> u64 {
        self.head
    }

    /// Nothing is there.
    pub(super) fn is_empty(&self) -> bool {
        self.place.header(TAIL).load(Ordering::Acquire) == self.at
    }

    /// Records that found no room, as the writer says.
    pub(super) fn dropped(&self) -> u64 {
        self.place.header(DROPPED).load(Ordering::Acquire)
    }

    /// The writer waits until more has been read.
    pub(super) fn is_awaited(&self) -> bool {
        self.place.header(WANTED).load(Ordering::Relaxed) != 0
    }

    /// After something was read: the writer waits for that, and is to be told, once.
    pub(super) fn owes_word(&mut self) -> bool {
        // Either this sees that the writer waits, or the writer sees what was read.
        fence(Ordering::SeqCst);
        let wanted = self.place.header(WANTED).load(Ordering::Relaxed);
        let owes = wanted != 0 && self.head >= wanted && self.told != wanted;
        if owes {
            self.told = wanted;
        }
        owes
    }

    /// The writer has ended it; what is there can still be read.
    pub(super) fn is_over(&self) -> bool {
        self.place.header(OVER).load(Ordering::Acquire) != 0
    }

    /// Bytes that wait to be read.
    pub(super) fn queued_bytes(&self) -> usize {
        let total = self.place.header(TOTAL).load(Ordering::Relaxed);
        self.place.distance(total, self.head).unwrap_or(0) * WORD
    }

    /// Words of records that are there, if any.
    fn there(&mut self) -> Result<Option<usize>, Nonsense> {
        if self.tail == self.at {
            self.tail = self.place.header(TAIL).load(Ordering::Acquire);
        }
        match self.place.distance(self.tail, self.at) {
            None => Err(Nonsense::Position),
            Some(0) => Ok(None),
            words => Ok(words),
        }
    }
}

/// Where the reader of a memory's rings sleeps.
pub(super) fn readers_bell(memory: &SharedMemory) -> Bell<'_> {
    Bell(&memory.bells()[0])
}

/// Where the writer sleeps when there is no room; on a cache line of its own.
pub(super) fn writers_bell(memory: &SharedMemory) -> Bell<'_> {
    Bell(&memory.bells()[16])
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn ring(capacity: usize) -> (Writer<2>, Reader<2>, Arc<SharedMemory>) {
        let (memory, _) = SharedMemory::create(memory_words(2, capacity)).unwrap();
        let memory = Arc::new(memory);
        let writer = Writer::new(Arc::clone(&memory), 1, capacity);
        (
            writer,
            Reader::new(Arc::clone(&memory), 1, capacity),
            memory,
        )
    }

    fn pattern(seed: u64, length: usize) -> Vec<u8> {
        (0..length as u64)
            .map(|at| (at * 31 + seed * 7) as u8)
            .collect()
    }

    #[test]
    fn records_come_out_as_they_went_in_also_around_the_end() {
        let (mut writer, mut reader, _memory) = ring(16);
        for seed in 0..1000 {
            let bytes = pattern(seed, (seed * 13 % 105) as usize);
            let extra = [seed, u64::MAX - seed];
            assert_eq!(writer.write(seed as u32, extra, &bytes), Ok(Written::Yes));
            let tag = seed as u32;
            let bytes = &bytes[..];
            assert_eq!(reader.next(), Ok(Some(Record { tag, extra, bytes })));
            assert_eq!(reader.next(), Ok(None));
        }
        assert_eq!(writer.position(), reader.position());
    }

    #[test]
    fn what_does_not_fit_is_refused_whole() {
        let (mut writer, mut reader, _memory) = ring(16);
        assert_eq!(message_bytes_max(16, 2), 104);
        assert_eq!(writer.write(0, [0; 2], &[1; 105]), Ok(Written::Never));
        assert_eq!(writer.write(0, [0; 2], &[1; 104]), Ok(Written::Yes));
        assert_eq!(writer.write(0, [0; 2], &[]), Ok(Written::Full));
        assert_eq!(writer.queued_bytes(), 128);
        assert_eq!(reader.next().unwrap().unwrap().bytes, [1; 104]);
        assert_eq!(writer.write(0, [0; 2], &[]), Ok(Written::Yes));
        writer.drop_one();
        writer.end();
        assert_eq!((reader.dropped(), writer.dropped()), (1, 1));
        assert!(reader.is_over() && !reader.is_empty());
    }

    #[test]
    fn what_a_reference_stands_for_takes_room_until_it_is_passed() {
        let (mut writer, mut reader, _memory) = ring(16);
        assert_eq!(writer.claim(17), Ok(Written::Never));
        for round in 0..100 {
            assert_eq!(writer.claim(5), Ok(Written::Yes));
            assert_eq!(writer.claim(7), Ok(Written::Yes));
            assert_eq!(writer.claim(5), Ok(Written::Full));
            assert!(reader.is_empty());
            writer.refer(1, [round, 2]);
            assert_eq!(writer.write(2, [3, 4], b"5"), Ok(Written::Yes));
            assert_eq!((reader.queued_bytes(), writer.queued_bytes()), (128, 128));
            let (tag, extra) = (1, [round, 2]);
            assert_eq!(reader.take(), Ok(Some(Next::Reference { tag, extra })));
            assert_eq!(writer.passed(), 16 * round);
            reader.pass(5);
            assert_eq!(
                (writer.queued_bytes(), writer.passed()),
                (88, 16 * round + 5)
            );
            reader.pass(7);
            assert_eq!(reader.next().unwrap().unwrap().bytes, b"5");
            assert_eq!(
                (reader.position(), writer.position()),
                (16 * (round + 1), 16 * (round + 1))
            );
        }
        assert_eq!(writer.claim(4), Ok(Written::Yes));
        writer.refer(0, [0; 2]);
        assert_eq!(reader.next(), Err(Nonsense::Length), "where none may be");
    }

    fn send(writer: &mut Writer<2>, memory: &SharedMemory, seed: u64) {
        let bytes = pattern(seed, (seed * 37 % 300) as usize);
        let wrote = writers_bell(memory).wait(None, || {
            let written = writer.write(0, [seed; 2], &bytes);
            (written == Ok(Written::Yes)).then_some(())
        });
        assert!(wrote.is_some());
        readers_bell(memory).ring();
    }

    /// Both sides at full speed; a lost wake-up hangs, a torn record differs.
    #[test]
    fn two_threads_pass_records_around_the_ring_and_wake_each_other() {
        const RECORDS: u64 = 30_000;
        let (mut writer, mut reader, memory) = ring(64);
        thread::scope(|scope| {
            scope.spawn(|| (0..RECORDS).for_each(|seed| send(&mut writer, &memory, seed)));
            for seed in 0..RECORDS {
                let right = readers_bell(&memory).wait(None, || {
                    let record = reader.next().unwrap()?;
                    let expected = pattern(seed, (seed * 37 % 300) as usize);
                    Some(record.extra == [seed; 2] && record.bytes == expected)
                });
                assert_eq!(right, Some(true), "record {seed}");
                writers_bell(&memory).ring();
            }
        });
    }

    /// Whatever is in the shared words: an answer or [`Nonsense`], never a panic, and never more
    /// bytes than the ring holds.
    #[test]
    fn nonsense_of_the_other_side_is_found_and_harms_nothing() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let (mut nonsense, mut fine) = (0, 0);
        for _ in 0..20_000 {
            let (mut writer, mut reader, memory) = ring(16);
            for _ in 0..4 {
                let at = random() as usize % memory.words().len();
                // Near the truth, or far from it.
                let value = random() >> (random() % 64);
                memory.words()[at].store(value, Ordering::Relaxed);
                let at = [TAIL, HEAD][random() as usize % 2];
                reader
                    .place
                    .header(at)
                    .store(random() % 20, Ordering::Relaxed);
                match reader.next() {
                    Ok(record) => assert!(record.is_none_or(|r| r.bytes.len() <= 128)),
                    Err(_) => nonsense += 1,
                }
                match writer.write(1, [0; 2], &[1; 50]) {
                    Ok(_) => fine += 1,
                    Err(error) => assert_eq!(error, Nonsense::Position),
                }
                assert!(writer.queued_bytes() <= 128 && reader.queued_bytes() <= 128);
            }
        }
        assert!(nonsense > 1000 && fine > 1000, "{nonsense} {fine}");
    }
}
