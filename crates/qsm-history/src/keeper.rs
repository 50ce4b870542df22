//! A keeper of one group as a state machine without I/O: a function of what it hears and the time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use qsm::{GroupId, Origin};

use crate::bounds::Bounds;
use crate::pace::Pace;
use crate::ring::Ring;
use crate::word::{Address, Ask, Chunk, Fetch, Have, Part, Span, Word, Written, read, write};

/// Subscribers served at once; more are told that the keeper is busy.
const SERVED_MAX: usize = 64;
/// Subscribers that wait for an answer to what is kept; of more the first are answered.
const ASKING_MAX: usize = 1024;
/// From the first question of a subscriber on nothing goes for its number or age for so long, so that what it is told of is
/// there when it asks for it.
const LEASE: Duration = Duration::from_secs(2);
/// Bytes of a chunk, but for a longer message.
pub(crate) const CHUNK_BYTES: usize = 64 << 10;
/// Bytes for one question; a subscriber asks on when it has them.
const FETCH_BYTES: usize = 1 << 20;
/// Spans in one question.
pub(crate) const SPANS_MAX: usize = 256;
/// Subscribers to be told that this one is busy.
const BUSY_MAX: usize = 1024;

qsm::metrics::metrics! {
    /// State of a keeper, and its account since it began.
    #[derive(Copy)]
    pub struct KeeperStats of "keeper" {
        /// Messages kept now.
        messages: gauge(messages),
        /// Memory that they take, with 96 bytes for each.
        bytes: gauge(bytes),
        /// Senders known now.
        senders: gauge(senders),
        /// Messages that went for newer ones, for their age, or with senders that were silent longest.
        evicted: counter(messages),
        /// Messages sent to subscribers.
        sent_messages: counter(messages),
        /// Bytes sent to subscribers with messages.
        sent_bytes: counter(bytes),
        /// Questions of subscribers for what is kept.
        asks: counter(questions),
        /// Questions of subscribers for messages.
        fetches: counter(questions),
        /// Questions not served, because too many others were.
        refused: counter(questions),
        /// Words that are none of this version, or nonsense.
        malformed: counter(words),
    }
}

/// Keeper of a group without I/O. `now` is the time since any origin that does not change.
#[derive(Debug)]
pub struct KeeperCore {
    address: Address,
    ring: Ring,
    pace: Pace,
    /// Subscribers that ask what is kept, with the last round of each.
    asking: BTreeMap<Address, u32>,
    served: VecDeque<Served>,
    outputs: VecDeque<(Address, Vec<u8>)>,
    stats: KeeperStats,
}

/// A subscriber's question.
#[derive(Debug)]
struct Served {
    to: Address,
    fetch: u32,
    spans: VecDeque<Span>,
    /// Bytes that it may still get.
    left: usize,
}

impl KeeperCore {
    /// Keeper within these bounds. `seed` is to be drawn by chance: it is its address.
    #[must_use]
    pub fn new(bounds: Bounds, seed: u64) -> Self {
        Self {
            address: Address(seed),
            ring: Ring::new(bounds),
            pace: Pace::new(bounds.bytes_per_second),
            asking: BTreeMap::new(),
            served: VecDeque::new(),
            outputs: VecDeque::new(),
            stats: KeeperStats::default(),
        }
    }

    /// Takes a message of the group: its sender, the group's number, its own, and its content with the trailer that a
    /// relayed one has.
    pub fn message(
        &mut self,
        sender: Origin,
        group: GroupId,
        number: u64,
        bytes: Vec<u8>,
        now: Duration,
    ) {
        let group = group.0;
        let message = Written {
            number,
            group,
            bytes,
        };
        self.ring.push(sender, message, now);
    }

    /// Notes that messages of a sender up to this one do not come.
    pub fn lost(&mut self, sender: Origin, last: u64) {
        self.ring.lost(sender, last);
    }

    /// Takes a word of a subscriber.
    pub fn word(&mut self, bytes: &[u8], now: Duration) {
        match read(bytes) {
            Some(Word::Ask(ask)) => self.ask(ask, now),
            Some(Word::Fetch(fetch)) if fetch.to == self.address => self.fetch(fetch),
            // Of another keeper, or of one that takes this one for a subscriber.
            Some(_) => {}
            None => self.stats.malformed += 1,
        }
    }

    /// Lets time pass: drops what is too old, and sends what the rate allows. To be called every few milliseconds.
    pub fn tick(&mut self, now: Duration) {
        self.ring.age(now);
        while self.pace.is_open(now)
            && let Some((to, word)) = self.next_answer()
        {
            self.pace.spend(word.len(), now);
            self.outputs.push_back((to, word));
        }
    }

    /// Takes a word that is to be said, and to whom.
    pub fn take(&mut self) -> Option<(Address, Vec<u8>)> {
        self.outputs.pop_front()
    }

    /// Counts what is kept and was sent.
    #[must_use]
    pub fn stats(&self) -> KeeperStats {
        let [messages, bytes, senders, evicted] = self.ring.size();
        KeeperStats {
            messages,
            bytes,
            senders,
            evicted,
            ..self.stats
        }
    }

    fn ask(&mut self, ask: Ask, now: Duration) {
        let Ask { from, round } = ask;
        self.stats.asks += 1;
        if self.asking.len() >= ASKING_MAX && !self.asking.contains_key(&from) {
            self.stats.refused += 1;
            return;
        }
        self.asking.insert(from, round);
        if round == 1 {
            self.ring.lease(now + LEASE);
        }
    }

    fn fetch(&mut self, fetch: Fetch) {
        let Fetch {
            from: to,
            fetch,
            spans,
            ..
        } = fetch;
        let spans = spans.into_iter().take(SPANS_MAX);
        let served = Served {
            to,
            fetch,
            spans: spans.filter(|span| span.first <= span.last).collect(),
            left: FETCH_BYTES,
        };
        self.stats.fetches += 1;
        // In the place of its former question.
        if let Some(former) = self.served.iter_mut().find(|former| former.to == to) {
            *former = served;
        } else if self.served.len() < SERVED_MAX {
            self.served.push_back(served);
        } else {
            self.stats.refused += 1;
            if self.outputs.len() < BUSY_MAX {
                let busy = self.chunk(fetch, Vec::new(), true);
                self.outputs.push_back((to, busy));
            }
        }
    }

    /// The next thing to send: what is kept, to who asks that; else a chunk, to each in turn (R-HIST-6).
    fn next_answer(&mut self) -> Option<(Address, Vec<u8>)> {
        if let Some((to, round)) = self.asking.pop_first() {
            let have = Have {
                from: self.address,
                round,
                spans: self.ring.spans(),
            };
            return Some((to, write(&Word::Have(have))));
        }
        let mut served = self.served.pop_front()?;
        let mut room = CHUNK_BYTES.min(served.left);
        let mut parts = Vec::new();
        while let Some(span) = served.spans.front_mut()
            && room > 0
        {
            let (part, used) = self.ring.part(span, room);
            room = room.saturating_sub(used.max(1));
            served.left = served.left.saturating_sub(used);
            self.stats.sent_messages += part.messages.len() as u64;
            // The rest is not known here, or has no room in this chunk.
            let full = !part.messages.is_empty() && part.through < span.last;
            span.first = part.through.saturating_add(1);
            parts.push(part);
            if full {
                room = 0;
            } else {
                served.spans.pop_front();
            }
        }
        let end = served.spans.is_empty() || served.left == 0;
        let to = served.to;
        let word = self.chunk(served.fetch, parts, end);
        if !end {
            self.served.push_back(served);
        }
        Some((to, word))
    }

    fn chunk(&mut self, fetch: u32, parts: Vec<Part>, end: bool) -> Vec<u8> {
        let chunk = Chunk {
            from: self.address,
            fetch,
            parts,
            end,
        };
        let word = write(&Word::Chunk(chunk));
        self.stats.sent_bytes += word.len() as u64;
        word
    }
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId};

    use super::*;

    fn origin() -> Origin {
        Origin {
            node: NodeId(7),
            incarnation: Incarnation(1),
        }
    }

    /// A keeper of so many messages of 1,000 bytes.
    fn keeper(messages: u64, bytes_per_second: u64) -> KeeperCore {
        let bounds = Bounds::default().messages(100_000);
        let mut keeper = KeeperCore::new(bounds.bytes_per_second(bytes_per_second), 1);
        for number in 1..=messages {
            let bytes = vec![7; 1000];
            keeper.message(origin(), GroupId(1), number, bytes, Duration::ZERO);
        }
        keeper
    }

    fn fetch(from: u64, last: u64) -> Vec<u8> {
        let span = Span {
            sender: origin().into(),
            first: 1,
            last,
        };
        write(&Word::Fetch(Fetch {
            from: Address(from),
            to: Address(1),
            fetch: 1,
            spans: vec![span],
        }))
    }

    fn chunks(keeper: &mut KeeperCore) -> Vec<(u64, Chunk)> {
        let mut chunks = Vec::new();
        while let Some((to, word)) = keeper.take() {
            if let Some(Word::Chunk(chunk)) = read(&word) {
                chunks.push((to.0, chunk));
            }
        }
        chunks
    }

    /// R-HIST-6.
    #[test]
    fn subscribers_are_served_in_turn_at_the_rate_and_others_told_to_wait() {
        let mut keeper = keeper(3000, 10 << 20);
        for from in 2..=SERVED_MAX as u64 + 3 {
            keeper.word(&fetch(from, 3000), Duration::ZERO);
        }
        let busy = chunks(&mut keeper);
        assert_eq!(busy.len(), 2, "told at once");
        assert!(
            busy.iter()
                .all(|(_, chunk)| chunk.end && chunk.parts.is_empty())
        );
        assert_eq!(keeper.stats().refused, 2);
        let mut served = Vec::new();
        for millisecond in 0..1000 {
            keeper.tick(Duration::from_millis(millisecond));
            served.extend(chunks(&mut keeper));
        }
        let sent = keeper.stats().sent_bytes;
        assert!(
            (9 << 20..11 << 20).contains(&sent),
            "{sent} bytes in a second"
        );
        // Nobody has its second chunk before all have their first.
        let first: Vec<u64> = served.iter().take(SERVED_MAX).map(|(to, _)| *to).collect();
        let all: Vec<u64> = (2..SERVED_MAX as u64 + 2).collect();
        assert_eq!(first, all);
    }

    /// R-HIST-3.
    #[test]
    fn a_question_is_answered_in_chunks_until_it_has_had_its_share() {
        let mut keeper = keeper(3000, u64::MAX);
        keeper.word(&fetch(2, 5000), Duration::ZERO);
        keeper.tick(Duration::from_secs(1));
        let served = chunks(&mut keeper);
        let mut next = 1;
        for (at, (_, chunk)) in served.iter().enumerate() {
            assert_eq!(chunk.end, at + 1 == served.len());
            for message in chunk.parts.iter().flat_map(|part| &part.messages) {
                assert_eq!(message.number, next);
                next += 1;
            }
        }
        let share = u64::try_from(FETCH_BYTES / 1096).unwrap();
        assert!(
            (share - 60..=share + 60).contains(&next),
            "{next} of {share}"
        );
        // What is not known yet is no reason to wait.
        keeper.word(&fetch(2, 10), Duration::ZERO);
        keeper.tick(Duration::from_secs(2));
        let last = chunks(&mut keeper).pop().unwrap().1;
        assert!(last.end && last.parts[0].through == 10);
        // Of another keeper.
        let foreign = write(&Word::Fetch(Fetch {
            from: Address(2),
            to: Address(9),
            fetch: 1,
            spans: Vec::new(),
        }));
        keeper.word(&foreign, Duration::ZERO);
        keeper.word(b"nonsense", Duration::ZERO);
        keeper.tick(Duration::from_secs(3));
        assert!(keeper.take().is_none());
        assert_eq!(keeper.stats().malformed, 1);
    }
}
