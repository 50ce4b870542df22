//! Subscriptions that a thread reads, each in its way, and a check of every message that they yield.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use qsm::{
    Delivery, DeliveryMode, Group, Latest, MessageRef, Overflow, Received, RecvError, RequestError,
    Subscription,
};

use crate::Failure;
use crate::check::Stamp;
use crate::pulse::Record;
use qsm_system::pacer::Pacer;

/// Longest wait for a message, and sleep between two, after which the thread looks for its end.
const LOOK: Duration = Duration::from_millis(20);

/// A way in which a group is read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Way {
    /// By upcalls, so many messages a second at most; 0: no limit.
    Upcalls(u64),
    /// All messages, in order.
    Ordered,
    /// All messages, as they come.
    Arrival,
    /// In order; what has been missing for so long is given up.
    Within(Duration),
    /// The newest message of each of so many keys.
    Newest(u64),
    /// All messages, in order; senders wait where so many have not been read.
    Hold(usize),
}

impl Way {
    /// Reads a way: none, or a word and perhaps a number.
    ///
    /// # Errors
    /// There is no such way.
    pub(crate) fn parse(words: &[&str]) -> Result<Self, Failure> {
        Ok(match *words {
            [] => Self::Upcalls(0),
            ["paced", rate] => Self::Upcalls(rate.parse()?),
            ["ordered"] => Self::Ordered,
            ["arrival"] => Self::Arrival,
            ["within", ms] => Self::Within(Duration::from_millis(ms.parse()?)),
            ["newest", keys] => Self::Newest(keys.parse()?),
            ["hold", messages] => Self::Hold(messages.parse()?),
            _ => return Err(format!("there is no way {words:?}").into()),
        })
    }

    fn keys(self) -> Option<u64> {
        match self {
            Self::Newest(keys) => Some(keys.max(1)),
            _ => None,
        }
    }
}

/// A thread that reads a subscription.
#[derive(Debug)]
pub(crate) struct Reader {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct State {
    ends: AtomicBool,
    /// Messages a second at most; 0: no limit.
    rate: AtomicU64,
    check: Mutex<Check>,
}

impl Reader {
    /// Joins the group, and reads it; what comes is written into the record as well.
    ///
    /// # Errors
    /// The group cannot be joined.
    pub(crate) fn start(
        group: &Group,
        way: Way,
        record: Arc<Record>,
    ) -> Result<Self, RequestError> {
        let source = Source::open(group, way)?;
        let state = Arc::new(State {
            ends: AtomicBool::new(false),
            rate: AtomicU64::new(0),
            check: Mutex::new(Check::new(way.keys())),
        });
        let own = state.clone();
        let thread = std::thread::spawn(move || own.read(&source, &record));
        let thread = Some(thread);
        Ok(Self { state, thread })
    }

    /// Lets it read so many messages a second at most; 0: no limit.
    pub(crate) fn set_rate(&self, rate: u64) {
        self.state.rate.store(rate, Ordering::Release);
    }

    /// Messages that it is done with: they have come, are lost, or were replaced by newer ones.
    pub(crate) fn settled(&self) -> u64 {
        self.state.lock().settled()
    }

    /// The check's result so far, as ` NAME=VALUE ...`.
    pub(crate) fn line(&self) -> String {
        self.state.lock().to_string()
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.state.ends.store(true, Ordering::Release);
        // It has nothing to say if it has panicked but that, which stands on standard error.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl State {
    fn read(&self, source: &Source, record: &Record) {
        let mut pacer = Pacer::new();
        let mut room = Vec::new();
        while !self.ends.load(Ordering::Acquire) {
            if let Some(wait) = pacer.wait(self.rate.load(Ordering::Acquire)) {
                std::thread::sleep(wait.min(LOOK));
                continue;
            }
            match source.next() {
                Ok(None) => {}
                Ok(Some(received)) => {
                    pacer.pass();
                    let delivery = Delivery::from(&received);
                    self.lock().note(&delivery, &mut room);
                    record.take(delivery, &mut room);
                }
                Err(_) => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Check> {
        self.check.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue of messages.
#[derive(Debug)]
enum Source {
    All(Subscription),
    Newest(Latest),
}

impl Source {
    fn open(group: &Group, way: Way) -> Result<Self, RequestError> {
        let group = group.clone();
        let group = match way {
            Way::Upcalls(_) | Way::Ordered => group,
            Way::Arrival => group.delivery(DeliveryMode::Arrival),
            Way::Within(time) => group.delivery(DeliveryMode::Within(time)),
            Way::Hold(messages) => group.capacity_messages(messages).overflow(Overflow::Hold),
            Way::Newest(keys) => {
                let key = move |message: MessageRef<'_>| message.number % keys.max(1);
                return Ok(Self::Newest(group.latest_by(key)?));
            }
        };
        Ok(Self::All(group.subscribe()?))
    }

    fn next(&self) -> Result<Option<Received>, RecvError> {
        match self {
            Self::All(subscription) => subscription.recv_timeout(LOOK),
            Self::Newest(latest) => latest.recv_timeout(LOOK),
        }
    }
}

/// Account of one sender in one life, message by message.
#[derive(Debug, Default)]
struct Check {
    /// Where the newest message of each key is read: how many keys there are.
    keys: Option<u64>,
    /// By number: it has come, or is told to be lost.
    known: Vec<bool>,
    came: u64,
    lost: u64,
    /// Numbers that came or were lost more than once.
    twice: u64,
    /// Messages that are not those that their number demands.
    wrong: u64,
    /// Messages that came after a later one; with keys, after a later one of their key.
    backward: u64,
    highest: u64,
    /// By key the newest message.
    newest: BTreeMap<u64, u64>,
}

impl Check {
    fn new(keys: Option<u64>) -> Self {
        Self {
            keys,
            ..Self::default()
        }
    }

    fn note(&mut self, delivery: &Delivery<'_>, room: &mut Vec<u8>) {
        match delivery {
            Delivery::Message(message) => self.note_message(message, room),
            Delivery::Lost(lost) => {
                self.lost += lost.last + 1 - lost.first;
                self.backward += u64::from(self.keys.is_none() && lost.first <= self.highest);
                self.settle(lost.first..=lost.last);
            }
            other => eprintln!("[{}] {other:?}", std::process::id()),
        }
    }

    fn note_message(&mut self, message: &MessageRef<'_>, room: &mut Vec<u8>) {
        let number = message.number;
        self.came += 1;
        let stamp = Stamp::read(message, room);
        self.wrong += u64::from(stamp.is_none_or(|stamp| stamp.number != number));
        let before = match self.keys {
            None => self.highest,
            Some(keys) => self.newest.insert(number % keys, number).unwrap_or(0),
        };
        self.backward += u64::from(number <= before);
        self.settle(number..=number);
    }

    fn settle(&mut self, numbers: RangeInclusive<u64>) {
        self.highest = self.highest.max(*numbers.end());
        for number in numbers {
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            if self.known.len() <= at {
                self.known.resize(at + 1, false);
            }
            self.twice += u64::from(std::mem::replace(&mut self.known[at], true));
        }
    }

    fn settled(&self) -> u64 {
        match self.keys {
            None => self.came + self.lost,
            // The newest ones are the last messages of all, if each key has one.
            Some(keys) if self.newest.len() as u64 == keys => self.oldest() + keys - 1,
            Some(_) => 0,
        }
    }

    fn oldest(&self) -> u64 {
        self.newest.values().min().copied().unwrap_or(0)
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            " came={} lost={} twice={} wrong={} backward={} keys={} oldest={}",
            self.came,
            self.lost,
            self.twice,
            self.wrong,
            self.backward,
            self.newest.len(),
            self.oldest(),
        )
    }
}
