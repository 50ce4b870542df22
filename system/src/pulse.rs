//! A publisher that keeps a pace, and a receiver that writes down when and in which order the
//! messages come: what a pause costs those who do not stand still.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use qsm::{Delivery, Origin, Publisher};
use rustix::time::{ClockId, clock_gettime};

use crate::Failure;

/// Longest time that a publisher makes up for after it stood still.
const BEHIND_MAX: Duration = Duration::from_millis(100);
/// Shortest sleep between two messages.
const NAP: Duration = Duration::from_micros(200);
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
}

impl Pulse {
    /// Publishes messages of so many bytes, to these in turn, so many a second; with 0 as fast as it
    /// can.
    pub(crate) fn start(publishers: Vec<Publisher>, bytes: usize, rate: u64) -> Self {
        let state = Arc::new(State::default());
        let own = state.clone();
        let thread = std::thread::spawn(move || publish(&publishers, bytes, rate, &own));
        Self { state, thread }
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

fn publish(
    publishers: &[Publisher],
    bytes: usize,
    rate: u64,
    state: &State,
) -> Result<(), qsm::SendError> {
    let mut message = vec![0x5a; bytes.max(8)];
    let mut start = Instant::now();
    let mut of_pace = 0;
    let mut turns = publishers.iter().cycle();
    while !state.ends.load(Ordering::Acquire) {
        let due = start + Duration::from_micros(of_pace * 1_000_000 / rate.max(1));
        let now = Instant::now();
        if rate > 0 && due > now {
            std::thread::sleep((due - now).max(NAP));
            continue;
        }
        if rate > 0 && now - due > BEHIND_MAX {
            (start, of_pace) = (now, 0);
        }
        message[..8].copy_from_slice(&clock().to_le_bytes());
        if let Some(publisher) = turns.next() {
            publisher.send(&message)?;
        }
        state.sent.fetch_add(1, Ordering::Release);
        of_pace += 1;
    }
    Ok(())
}

/// What has come of each sender.
#[derive(Debug, Default)]
pub(crate) struct Record {
    senders: Mutex<BTreeMap<Origin, Stream>>,
}

#[derive(Debug)]
struct Stream {
    first: u64,
    /// The number that has to come next.
    next: u64,
    messages: u64,
    /// Numbers that came instead of others.
    disorder: u64,
    lost: Vec<(u64, u64)>,
    last_at: u64,
    phase: Phase,
}

#[derive(Debug, Default)]
struct Phase {
    messages: u64,
    gap: u64,
    latencies: Vec<u32>,
}

impl Stream {
    fn new(first: u64) -> Self {
        Self {
            first,
            next: first,
            messages: 0,
            disorder: 0,
            lost: Vec::new(),
            last_at: clock(),
            phase: Phase::default(),
        }
    }

    fn follow(&mut self, first: u64, last: u64) {
        self.disorder += u64::from(first != self.next);
        self.next = last + 1;
    }

    fn deliver(&mut self, number: u64, bytes: &[u8]) {
        self.follow(number, number);
        let now = clock();
        let sent = bytes
            .first_chunk()
            .map_or(now, |word| u64::from_le_bytes(*word));
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
        move |delivery| record.take(delivery)
    }

    fn take(&self, delivery: Delivery<'_>) {
        let mut senders = self.lock();
        match delivery {
            Delivery::Message(message) => {
                let new = || Stream::new(message.number);
                let stream = senders.entry(message.sender).or_insert_with(new);
                stream.deliver(message.number, message.bytes);
            }
            Delivery::Lost(lost) => {
                let new = || Stream::new(lost.first);
                let stream = senders.entry(lost.sender).or_insert_with(new);
                stream.follow(lost.first, lost.last);
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
        let streams = senders.values();
        streams.map(|stream| stream.next - stream.first).sum()
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
                first,
                next,
                messages,
                disorder,
                ..
            } = stream;
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
