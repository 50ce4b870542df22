//! A publisher that keeps a pace, and a receiver that writes down when and in which order the
//! messages come, and looks into each: what a pause costs those who do not stand still.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use qsm::{Delivery, MessageRef, Origin, Publisher};
use qsm_system::clock::nanos as clock;
use qsm_system::pacer::{NAP, Pacer};

use crate::Failure;
use crate::check::{Stamp, refuse};

/// Longest sleep: a new rate, and the end, are seen then.
const SLEEP_MAX: Duration = Duration::from_millis(50);
/// Latencies kept of one sender and phase.
const SAMPLES_MAX: usize = 1 << 22;

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
    /// Messages a second; 0: as many as it can.
    rate: AtomicU64,
}

impl Pulse {
    /// Publishes messages of so many bytes, to these in turn, so many a second; with 0 as fast as it
    /// can.
    pub(crate) fn start(publishers: Vec<Publisher>, bytes: usize, rate: u64) -> Self {
        let state = Arc::new(State {
            rate: AtomicU64::new(rate),
            ..State::default()
        });
        let own = state.clone();
        let thread = std::thread::spawn(move || publish(&publishers, bytes, &own));
        Self { state, thread }
    }

    /// Publishes so many messages a second from now on; with 0 as fast as it can.
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
    if publishers.is_empty() {
        return Ok(());
    }
    let mut message = vec![0x5a; bytes.max(Stamp::BYTES)];
    let mut room = Vec::new();
    let mut pacer = Pacer::new();
    // Each of them numbers its own messages.
    let mut turns = (1..).flat_map(|number| publishers.iter().map(move |one| (number, one)));
    while !state.ends.load(Ordering::Acquire) {
        if let Some(wait) = pacer.wait(state.rate.load(Ordering::Acquire)) {
            std::thread::sleep(wait.clamp(NAP, SLEEP_MAX));
            continue;
        }
        let Some((number, publisher)) = turns.next() else {
            break;
        };
        let stamp = Stamp {
            at: clock(),
            number,
        };
        stamp.write(publisher.group(), &mut message, &mut room);
        publisher.send(&message)?;
        state.sent.fetch_add(1, Ordering::Release);
        pacer.pass();
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

    /// Takes a message, which has this stamp.
    fn deliver(&mut self, message: &MessageRef<'_>, stamp: Stamp) {
        let cursor = self.follow(message.group, message.number, message.number);
        let again = stamp.number <= cursor.written;
        cursor.written = stamp.number;
        self.disorder += u64::from(again);
        let now = clock();
        self.messages += 1;
        self.phase.messages += 1;
        self.phase.gap = self.phase.gap.max(now - self.last_at);
        self.last_at = now;
        if self.phase.latencies.len() < SAMPLES_MAX {
            let micros = now.saturating_sub(stamp.at) / 1000;
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
    /// An upcall that writes into it, and lets the node read so many messages a second at most; 0: no
    /// limit.
    pub(crate) fn upcall(self: &Arc<Self>, rate: u64) -> impl FnMut(Delivery<'_>) + Send + 'static {
        let record = self.clone();
        let mut room = Vec::new();
        let mut pacer = Pacer::new();
        move |delivery| {
            record.take(delivery, &mut room);
            pacer.pass();
            let wait = pacer.wait(rate).filter(|wait| *wait >= NAP);
            if let Some(wait) = wait {
                std::thread::sleep(wait);
            }
        }
    }

    /// Writes down what has come. A message that is not what its group and number demand ends the process. `room` is
    /// room to look into it.
    pub(crate) fn take(&self, delivery: Delivery<'_>, room: &mut Vec<u8>) {
        let mut senders = self.lock();
        match delivery {
            Delivery::Message(message) => {
                let stamp = Stamp::read(&message, room).unwrap_or_else(|| refuse(&message));
                let stream = senders.entry(message.sender).or_insert_with(Stream::new);
                stream.deliver(&message, stamp);
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
