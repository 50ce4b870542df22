use core::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use qsm_net::SharedMemory;
use qsm_wire::{GroupId, Incarnation, NodeId, Origin};

use super::link::{Link, lock};
use super::requests::{EXTRA, Request};
use super::ring::{Reader, memory_words, readers_bell};
use crate::error::{CloseReason, RecvError, RequestError};
use crate::event::Event;
use crate::handoff::message::{Delivery, Message, Overflow};
use crate::shard::CORES_MAX;

/// How often one subscription's drops are told.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);

/// How a subscription of an attached process queues.
///
/// ```
/// use qsm::Overflow;
/// use qsm::attach::SubscribeOptions;
///
/// let options = SubscribeOptions::default()
///     .ring_bytes(1 << 20)
///     .overflow(Overflow::Disconnect);
/// # let _ = options;
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SubscribeOptions {
    /// `None`: what the engine gives without being asked.
    pub(super) ring_bytes: Option<usize>,
    pub(super) overflow: Overflow,
}

impl SubscribeOptions {
    /// Default of [`SubscribeOptions::ring_bytes`], if the engine gives as much. A message takes its length and 32 bytes, so
    /// that it holds about 30,000 of 100 bytes.
    pub const RING_BYTES: usize = 4 << 20;

    /// Bytes that wait to be read; rounded up to a power of two. A message longer than the ring
    /// is dropped. The engine gives at most
    /// [`ring_bytes_max`](super::ShareOptions::ring_bytes_max). Where groups lie on several core
    /// threads of the engine, each has its share.
    #[must_use]
    pub fn ring_bytes(mut self, bytes: usize) -> Self {
        self.ring_bytes = Some(bytes);
        self
    }

    /// What happens when the ring is full: [`Overflow::DropNewest`], the default, or
    /// [`Overflow::Disconnect`]. [`Overflow::DropOldest`] is refused: what lies in the ring belongs
    /// to the reader.
    #[must_use]
    pub fn overflow(mut self, overflow: Overflow) -> Self {
        self.overflow = overflow;
        self
    }
}

/// The reading side of a subscription's rings.
pub(super) struct Inbound {
    pub(super) memory: Arc<SharedMemory>,
    names: Arc<[Arc<str>]>,
    reading: Mutex<Reading>,
    /// The reader wants nothing more.
    left: AtomicBool,
}

struct Reading {
    /// One for each core thread that has some of the groups.
    readers: Vec<Reader<EXTRA>>,
    /// Whose turn it is.
    turn: usize,
    told_dropped: u64,
    tell_again: Option<Instant>,
}

impl Inbound {
    /// Maps the memory that came with the engine's answer: so many rings of so many words.
    pub(super) fn open(
        names: Vec<Arc<str>>,
        descriptors: Vec<OwnedFd>,
        (rings, words): (u32, u64),
    ) -> io::Result<Arc<Self>> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| invalid())?;
        let capacity = usize::try_from(words).map_err(|_| invalid())?;
        let rings = rings as usize;
        if !capacity.is_power_of_two() || rings == 0 || rings > CORES_MAX {
            return Err(invalid());
        }
        let memory = SharedMemory::open(descriptor, memory_words(rings, capacity))?;
        let memory = Arc::new(memory);
        let reader = |number| Reader::new(Arc::clone(&memory), number, capacity);
        let reading = Reading {
            readers: (0..rings).map(reader).collect(),
            turn: 0,
            told_dropped: 0,
            tell_again: None,
        };
        Ok(Arc::new(Self {
            memory,
            names: names.into(),
            reading: Mutex::new(reading),
            left: AtomicBool::new(false),
        }))
    }

    /// Lets those who wait look again.
    pub(super) fn wake(&self) {
        readers_bell(&self.memory).ring();
    }

    /// Takes the next message, if one is there, or says why none will come.
    fn take<T>(
        &self,
        link: &Link,
        mut use_it: impl FnMut(&Arc<str>, Delivery<'_>) -> T,
    ) -> Result<Option<T>, RecvError> {
        // Read first: what was there before the end must still come out.
        let closed = link.closed();
        if self.left.load(Ordering::Relaxed) {
            return Err(RecvError::Closed(CloseReason::ShutDown));
        }
        let mut reading = lock(&self.reading);
        self.tell_slow(&mut reading, link);
        let over = reading.readers.iter().any(Reader::is_over);
        let (count, first) = (reading.readers.len(), reading.turn);
        for step in 0..count {
            let at = (first + step) % count;
            reading.turn = at + 1;
            let Ok(record) = reading.readers[at].next() else {
                return Err(strange());
            };
            let Some(record) = record else {
                continue;
            };
            let [group, node, number] = record.extra;
            let Some(name) = self.names.get(record.tag as usize) else {
                return Err(strange());
            };
            let delivery = Delivery {
                group: name,
                // Both halves were 32 bits long.
                group_id: GroupId(group as u32),
                sender: Origin {
                    node: NodeId(node),
                    incarnation: Incarnation((group >> 32) as u32),
                },
                number,
                bytes: record.bytes,
            };
            return Ok(Some(use_it(name, delivery)));
        }
        match (over, closed) {
            (true, _) => Err(RecvError::Overflow),
            (false, Some(reason)) => Err(RecvError::Closed(reason.clone())),
            (false, None) => Ok(None),
        }
    }

    /// Takes the next message, waiting for it.
    fn wait<T>(
        &self,
        link: &Link,
        deadline: Option<Instant>,
        mut use_it: impl FnMut(&Arc<str>, Delivery<'_>) -> T,
    ) -> Result<Option<T>, RecvError> {
        let attempt = || self.take(link, &mut use_it).transpose();
        let waited = readers_bell(&self.memory).wait(deadline, attempt);
        waited.transpose()
    }

    /// Tells of drops, at most once in a while.
    fn tell_slow(&self, reading: &mut Reading, link: &Link) {
        let dropped_total = reading.readers.iter().map(Reader::dropped).sum();
        if dropped_total <= reading.told_dropped {
            return;
        }
        let now = Instant::now();
        if reading.tell_again.is_some_and(|at| now < at) {
            return;
        }
        link.tell_event(&Event::SlowConsumer {
            groups: Arc::clone(&self.names),
            dropped: dropped_total - reading.told_dropped,
            dropped_total,
        });
        reading.told_dropped = dropped_total;
        reading.tell_again = now.checked_add(SLOW_INTERVAL);
    }
}

fn strange() -> RecvError {
    RecvError::Closed(CloseReason::EngineGone {
        cause: "its side of a ring says what cannot be".to_owned(),
    })
}

/// Messages of some groups, read right out of the memory that the engine writes them to. Made by
/// [`Attached::subscribe`](super::Attached::subscribe); dropping it leaves the groups.
///
/// It can be read from several threads; each message goes to one of them.
pub struct Subscription {
    link: Arc<Link>,
    key: u32,
    pub(super) inbound: Arc<Inbound>,
}

impl Subscription {
    /// Leaves again if the memory could not be mapped.
    pub(super) fn new(
        link: &Arc<Link>,
        key: u32,
        inbound: Result<Arc<Inbound>, RequestError>,
    ) -> Result<Self, RequestError> {
        let inbound = inbound.inspect_err(|_| link.tell(&Request::Unsubscribe { key }))?;
        let link = Arc::clone(link);
        Ok(Self { link, key, inbound })
    }

    /// Waits for the next message.
    ///
    /// # Errors
    /// [`RecvError`], after all queued messages were taken, when no more will come.
    pub fn recv(&self) -> Result<Message, RecvError> {
        loop {
            // Without a deadline a wait ends with a message or an error.
            if let Some(message) = self.inbound.wait(&self.link, None, own)? {
                return Ok(message);
            }
        }
    }

    /// Waits for the next message at most this long; `None` when none came.
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Message>, RecvError> {
        let deadline = Instant::now().checked_add(timeout);
        self.inbound.wait(&self.link, deadline, own)
    }

    /// The next message, or `None` when none is there.
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub fn try_recv(&self) -> Result<Option<Message>, RecvError> {
        self.inbound.take(&self.link, own)
    }

    /// Waits for the next message and lends it, without copying it into an allocation of its own.
    ///
    /// # Errors
    /// As [`Subscription::recv`].
    pub fn recv_with<T>(&self, mut use_it: impl FnMut(Delivery<'_>) -> T) -> Result<T, RecvError> {
        loop {
            let taken = self
                .inbound
                .wait(&self.link, None, |_, message| use_it(message))?;
            if let Some(result) = taken {
                return Ok(result);
            }
        }
    }

    /// Waits for messages until the subscription ends.
    pub fn iter(&self) -> impl Iterator<Item = Message> {
        std::iter::from_fn(|| self.recv().ok())
    }

    /// The groups subscribed.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.inbound.names.iter().map(|name| &**name)
    }

    /// Bytes that wait to be read, what each message takes beside its length included.
    #[must_use]
    pub fn queued_bytes(&self) -> usize {
        let reading = lock(&self.inbound.reading);
        reading.readers.iter().map(Reader::queued_bytes).sum()
    }

    /// Messages that found no room in the ring.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        let reading = lock(&self.inbound.reading);
        reading.readers.iter().map(Reader::dropped).sum()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("groups", &self.inbound.names)
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.link.tell(&Request::Unsubscribe { key: self.key });
    }
}

fn own(name: &Arc<str>, message: Delivery<'_>) -> Message {
    Message {
        group: Arc::clone(name),
        group_id: message.group_id,
        sender: message.sender,
        number: message.number,
        bytes: message.bytes.to_vec(),
    }
}

/// Upcalls for some groups; made by
/// [`Attached::subscribe_with`](super::Attached::subscribe_with). Dropping it leaves the groups;
/// an upcall that runs at that moment runs to its end.
pub struct Upcalls {
    inbound: Arc<Inbound>,
}

impl Upcalls {
    /// Runs until this is dropped, or no more messages will come.
    pub(super) fn start(
        subscription: Subscription,
        mut upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Self, RequestError> {
        let inbound = Arc::clone(&subscription.inbound);
        let thread = thread::Builder::new().name("qsm-upcalls".to_owned());
        let started = thread.spawn(move || while subscription.recv_with(&mut upcall).is_ok() {});
        started.map_err(|error| RequestError::Refused {
            reason: format!("cannot start a thread: {error}; check `ulimit -u`"),
        })?;
        Ok(Self { inbound })
    }

    /// The groups subscribed.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.inbound.names.iter().map(|name| &**name)
    }
}

impl fmt::Debug for Upcalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upcalls")
            .field("groups", &self.inbound.names)
            .finish_non_exhaustive()
    }
}

impl Drop for Upcalls {
    fn drop(&mut self) {
        self.inbound.left.store(true, Ordering::Relaxed);
        self.inbound.wake();
    }
}
