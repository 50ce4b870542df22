//! A publisher that keeps a pace, and a receiver that writes down when and in which order the
//! messages come, and looks into each: what a pause costs those who do not stand still.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use qsm::{Delivery, MessageRef, Origin, Publisher};
use rustix::time::{ClockId, clock_gettime};

use crate::Failure;
use crate::check::{content, number_in};

/// Longest time that a publisher makes up for after it stood still.
const BEHIND_MAX: Duration = Duration::from_millis(100);
/// Shortest sleep between two messages.
const NAP: Duration = Duration::from_micros(200);
/// Longest sleep: a new rate, and the end, are seen then.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Bytes of a message before its content: when it was published.
const TIME_BYTES: usize = 8;
/// Bytes of a content that follow from group and number, and are looked at. More would cost as much as what is
/// measured.
const CONTENT_MAX: usize = 512;
/// Latencies kept of one sender and phase.
const SAMPLES_MAX: usize = 1 << 22;

/// A time that all processes of the machine share, nanoseconds.
fn clock() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let [seconds, nanos] = [time.tv_sec, time.tv_nsec].map(i64::cast_unsigned);
    seconds * 1_000_000_000 + nanos
}

/// The publishing thread.
#[derive(Debug)]
pub(crate) struct Pulse {
    state: Arc<State>,
    thread: JoinHandle<Result<(), qsm::SendError>>,
}

#[derive(Debug, Default)]
struct State {
    ends: AtomicBool,
    sent: AtomicU64,
    /// Messages a second; 0: as many as possible.
    rate: AtomicU64,
}

impl Pulse {
    /// Publishes messages of so many bytes, to these in turn, so many a second; with 0 as fast as it
    /// can.
    pub(crate) fn start(publishers: Vec<Publisher>, bytes: usize, rate: u64) -> Self {
        let state = Arc::new(State {
            rate: rate.into(),
            ..State::default()
        });
        let own = state.clone();
        let thread = std::thread::spawn(move || publish(&publishers, bytes, &own));
        Self { state, thread }
    }

    /// Changes the rate.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.state.rate.store(rate, Ordering::Release);
    }

    /// Messages published so far.
    pub(crate) fn published(&self) -> u64 {
        self.state.sent.load(Ordering::Acquire)
    }

    /// Ends it; returns how many messages it has published.
    pub(crate) fn stop(self) -> Result<u64, Failure> {
        self.state.ends.store(true, Ordering::Release);
        let result = self.thread.join().map_err(|_| "the publisher panicked")?;
        result?;
        Ok(self.state.sent.load(Ordering::Acquire))
    }
}

fn publish(publishers: &[Publisher], bytes: usize, state: &State) -> Result<(), qsm::SendError> {
    let mut message = vec![0x5a; bytes.max(2 * TIME_BYTES)];
    let checked = message.len().min(TIME_BYTES + CONTENT_MAX) - TIME_BYTES;
    let mut known = Vec::new();
    let mut pace = Pace::new(state.rate.load(Ordering::Acquire));
    if publishers.is_empty() {
        return Ok(());
    }
    let mut turns = (1..).flat_map(|number| publishers.iter().map(move |one| (one, number)));
    while !state.ends.load(Ordering::Acquire) {
        if let Some(time) = pace.time_left(state.rate.load(Ordering::Acquire)) {
            std::thread::sleep(time);
            continue;
        }
        let Some((publisher, number)) = turns.next() else {
            return Ok(());
        };
        content(publisher.group(), number, checked, &mut known);
        message[TIME_BYTES..][..checked].copy_from_slice(&known);
        message[..TIME_BYTES].copy_from_slice(&clock().to_le_bytes());
        publisher.send(&message)?;
        state.sent.fetch_add(1, Ordering::Release);
        pace.sent += 1;
    }
    Ok(())
}

/// Time from which on so many messages have been sent at a rate.
#[derive(Debug)]
struct Pace {
    start: Instant,
    sent: u64,
    rate: u64,
}

impl Pace {
    fn new(rate: u64) -> Self {
        Self {
            start: Instant::now(),
            sent: 0,
            rate,
        }
    }

    /// Time before the next message, at this rate; `None`: it is due.
    fn time_left(&mut self, rate: u64) -> Option<Duration> {
        if self.rate != rate {
            *self = Self::new(rate);
        }
        if rate == 0 {
            return None;
        }
        let due = self.start + Duration::from_micros(self.sent * 1_000_000 / rate);
        let now = Instant::now();
        if due > now {
            return Some((due - now).clamp(NAP, SLEEP_MAX));
        }
        if now - due > BEHIND_MAX {
            *self = Self::new(rate);
        }
        None
    }
}

/// The number that a message has in itself. Its content is that which group and number demand, or the
/// process ends.
fn read(message: &MessageRef<'_>, wanted: &mut Vec<u8>) -> u64 {
    let content = message.bytes.get(TIME_BYTES..).unwrap_or_default();
    let content = &content[..content.len().min(CONTENT_MAX)];
    number_in(message.group, content, wanted).unwrap_or_else(|| {
        eprintln!(
            "wrong message: group {} sender {} number {}",
            message.group, message.sender, message.number
        );
        std::process::exit(3)
    })
}

fn word(bytes: &[u8]) -> Option<u64> {
    bytes.first_chunk().map(|word| u64::from_le_bytes(*word))
}

/// What has come of each sender.
#[derive(Debug, Default)]
pub(crate) struct Record {
    senders: Mutex<BTreeMap<Origin, Stream>>,
}

#[derive(Debug)]
struct Stream {
    groups: HashMap<String, Cursor>,
    /// Messages before the first one of each group that came here.
    before: u64,
    /// Messages that have come or are told to be lost.
    known: u64,
    messages: u64,
    /// Numbers that came instead of others.
    disorder: u64,
    lost: Vec<(u64, u64)>,
    last_at: u64,
    phase: Phase,
}

/// Place in the messages of a sender to a group.
#[derive(Debug)]
struct Cursor {
    /// The number that has to come next.
    next: u64,
    /// The number that the last message has in itself.
    written: u64,
}

#[derive(Debug, Default)]
struct Phase {
    messages: u64,
    gap: u64,
    latencies: Vec<u32>,
}

impl Stream {
    fn new() -> Self {
        Self {
            groups: HashMap::new(),
            before: 0,
            known: 0,
            messages: 0,
            disorder: 0,
            lost: Vec::new(),
            last_at: clock(),
            phase: Phase::default(),
        }
    }

    /// These numbers of a group are next.
    fn follow(&mut self, group: &str, first: u64, last: u64) -> &mut Cursor {
        let cursor = match self.groups.entry(group.to_owned()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                self.before += first - 1;
                new.insert(Cursor {
                    next: first,
                    written: 0,
                })
            }
        };
        self.disorder += u64::from(first != cursor.next);
        self.known = self.known.wrapping_add(last + 1).wrapping_sub(cursor.next);
        cursor.next = last + 1;
        cursor
    }

    /// Takes a message, which has this number in itself.
    fn deliver(&mut self, message: &MessageRef<'_>, written: u64) {
        let cursor = self.follow(message.group, message.number, message.number);
        let again = written <= cursor.written;
        cursor.written = written;
        self.disorder += u64::from(again);
        let now = clock();
        let sent = word(message.bytes).unwrap_or(now);
        self.messages += 1;
        self.phase.messages += 1;
        self.phase.gap = self.phase.gap.max(now - self.last_at);
        self.last_at = now;
        if self.phase.latencies.len() < SAMPLES_MAX {
            let micros = now.saturating_sub(sent) / 1000;
            self.phase
                .latencies
                .push(u32::try_from(micros).unwrap_or(u32::MAX));
        }
    }

    /// Begins a new phase; says what was in the former one.
    fn end_phase(&mut self) -> [u64; 4] {
        let mut phase = std::mem::take(&mut self.phase);
        let gap = phase.gap.max(clock() - self.last_at);
        phase.latencies.sort_unstable();
        let quantile = |percent: usize| {
            let at = phase.latencies.len() * percent / 100;
            phase.latencies.get(at).map_or(0, |us| u64::from(*us))
        };
        [phase.messages, gap / 1000, quantile(50), quantile(99)]
    }
}

impl Record {
    /// An upcall that writes into it.
    pub(crate) fn upcall(self: &Arc<Self>) -> impl FnMut(Delivery<'_>) + Send + 'static {
        let record = self.clone();
        let mut wanted = Vec::new();
        move |delivery| record.take(delivery, &mut wanted)
    }

    fn take(&self, delivery: Delivery<'_>, wanted: &mut Vec<u8>) {
        let mut senders = self.lock();
        match delivery {
            Delivery::Message(message) => {
                let written = read(&message, wanted);
                let stream = senders.entry(message.sender).or_insert_with(Stream::new);
                stream.deliver(&message, written);
            }
            Delivery::Lost(lost) => {
                let stream = senders.entry(lost.sender).or_insert_with(Stream::new);
                stream.follow(&lost.group, lost.first, lost.last);
                stream.lost.push((lost.first, lost.last));
            }
            // Which messages they held is told before the next one.
            Delivery::LostPackets(_) => {}
            other => eprintln!("[{}] {other:?}", std::process::id()),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Origin, Stream>> {
        self.senders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Messages that have come or are told to be lost.
    pub(crate) fn known(&self) -> u64 {
        let senders = self.lock();
        senders.values().map(|stream| stream.known).sum()
    }

    /// Ends a phase: ` SENDER=MESSAGES,GAP,P50,P99` for each sender, microseconds.
    pub(crate) fn phase(&self) -> String {
        let mut line = String::new();
        for (sender, stream) in self.lock().iter_mut() {
            let [messages, gap, p50, p99] = stream.end_phase();
            line += &format!(" {}={messages},{gap},{p50},{p99}", sender.node.0);
        }
        line
    }

    /// All that has come: ` NODE=LIFE,FIRST,NEXT,MESSAGES,DISORDER,LOST[,FROM-TO ...]`.
    pub(crate) fn totals(&self) -> String {
        let mut line = String::new();
        for (sender, stream) in self.lock().iter() {
            let lost: u64 = stream
                .lost
                .iter()
                .map(|(first, last)| last - first + 1)
                .sum();
            let Stream {
                messages, disorder, ..
            } = stream;
            let first = stream.before + 1;
            let next = first + stream.known;
            let (node, life) = (sender.node.0, sender.incarnation.0);
            line += &format!(" {node}={life},{first},{next},{messages},{disorder},{lost}");
            for (first, last) in &stream.lost {
                // Writing to a String cannot fail.
                write!(line, ",{first}-{last}").unwrap_or_default();
            }
        }
        line
    }
}
