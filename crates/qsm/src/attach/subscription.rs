use core::fmt;
use core::task::{Context, Poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use qsm_net::SharedMemory;

use super::funnel::Funnel;
use super::link::{Link, lock};
use super::record::Read;
use super::requests::{EXTRA, Request};
use super::ring::{Reader, memory_words, readers_bell};
use super::watch::{Sleep, Watch};
use crate::error::{CloseReason, RecvError, RequestError};
use crate::handoff::message::{Message, MessageRef};
use crate::handoff::received::{Delivery, Dropped, Received};
use crate::handoff::sink::ForeignQueue;
use crate::shard::CORES_MAX;

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
    /// How many dropped records each has told of.
    told_dropped: Vec<u64>,
    /// Whose turn it is.
    turn: usize,
}

/// What was taken out of a ring.
enum Taken<'a> {
    Message(&'a Arc<str>, MessageRef<'a>),
    Notice(Received),
}

impl Reading {
    /// Something can be taken, or the end is there.
    fn has_more(&self) -> bool {
        let mut readers = self.readers.iter().zip(&self.told_dropped);
        readers.any(|(reader, told)| {
            !reader.is_empty() || reader.is_over() || reader.dropped() > *told
        })
    }

    /// Takes what comes next in one of the rings.
    fn take<T>(
        &mut self,
        at: usize,
        names: &[Arc<str>],
        use_it: &mut impl FnMut(Taken<'_>) -> T,
    ) -> Result<Option<T>, RecvError> {
        let (reader, told) = (&mut self.readers[at], &mut self.told_dropped[at]);
        let mut dropped = |total: u64| {
            let messages = total.saturating_sub(*told);
            *told = total.max(*told);
            (messages > 0).then_some(Received::Dropped(Dropped { messages }))
        };
        while let Some(record) = reader.next().map_err(|_| strange())? {
            let notice = match Read::of(record, names).ok_or_else(strange)? {
                Read::Message(name, message) => {
                    return Ok(Some(use_it(Taken::Message(name, message))));
                }
                Read::Lost(lost) => Some(Received::Lost(lost)),
                Read::LostPackets(lost) => Some(Received::LostPackets(lost)),
                Read::Back(back) => Some(Received::Back(back)),
                Read::Excluded(excluded) => Some(Received::Excluded(excluded)),
                Read::Dropped(total) => dropped(total),
            };
            if let Some(notice) = notice {
                return Ok(Some(use_it(Taken::Notice(notice))));
            }
        }
        // The record of these is not written before the next one. They lie behind all that was
        // there, if nothing has come since they were counted.
        let total = reader.dropped();
        let notice = match reader.is_empty() && !reader.is_over() {
            true => dropped(total),
            false => None,
        };
        Ok(notice.map(|notice| use_it(Taken::Notice(notice))))
    }
}

impl Inbound {
    /// Maps the memory that came with the engine's answer: so many rings of so many words.
    pub(super) fn open(
        names: Vec<Arc<str>>,
        descriptors: Vec<OwnedFd>,
        rings: u32,
        words: u64,
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
            told_dropped: vec![0; rings],
            turn: 0,
        };
        Ok(Arc::new(Self {
            memory,
            names: names.into(),
            reading: Mutex::new(reading),
            left: AtomicBool::new(false),
        }))
    }

    /// Nothing more is wanted.
    fn leave(&self) {
        self.left.store(true, Ordering::Relaxed);
        readers_bell(&self.memory).ring();
    }

    /// For the thread that sleeps in place of tasks.
    fn sleep_for_more(inbound: &Arc<Self>, link: &Arc<Link>) -> Sleep {
        let (inbound, link) = (Arc::clone(inbound), Arc::clone(link));
        Box::new(move || {
            let changed = || {
                let over = inbound.left.load(Ordering::Relaxed) || link.closed().is_some();
                (over || lock(&inbound.reading).has_more()).then_some(over)
            };
            // Without a deadline a wait ends only with a result.
            let over = readers_bell(&inbound.memory).wait(None, changed);
            over.unwrap_or(true)
        })
    }

    /// Takes what comes next, if it is there, or says why nothing will come.
    fn take<T>(
        &self,
        link: &Link,
        mut use_it: impl FnMut(Taken<'_>) -> T,
    ) -> Result<Option<T>, RecvError> {
        // Read first: what was there before the end must still come out.
        let closed = link.closed();
        if self.left.load(Ordering::Relaxed) {
            return Err(RecvError::Closed(CloseReason::ShutDown));
        }
        let mut reading = lock(&self.reading);
        let over = reading.readers.iter().any(Reader::is_over);
        let (count, first) = (reading.readers.len(), reading.turn);
        for step in 0..count {
            let at = (first + step) % count;
            reading.turn = at + 1;
            if let Some(taken) = reading.take(at, &self.names, &mut use_it)? {
                return Ok(Some(taken));
            }
        }
        match (over, closed) {
            (true, _) => Err(RecvError::Overflow),
            (false, Some(reason)) => Err(RecvError::Closed(reason.clone())),
            (false, None) => Ok(None),
        }
    }

    /// Takes what comes next, waiting for it.
    fn wait<T>(
        &self,
        link: &Link,
        deadline: Option<Instant>,
        mut use_it: impl FnMut(Taken<'_>) -> T,
    ) -> Result<Option<T>, RecvError> {
        let attempt = || self.take(link, &mut use_it).transpose();
        let waited = readers_bell(&self.memory).wait(deadline, attempt);
        waited.transpose()
    }
}

fn strange() -> RecvError {
    RecvError::Closed(CloseReason::EngineGone {
        cause: "its side of a ring says what cannot be".to_owned(),
    })
}

/// Messages of some groups, read right out of the memory that the engine writes them to. Dropping
/// it leaves the groups.
pub(crate) struct AttachedSubscription {
    link: Arc<Link>,
    key: u32,
    pub(super) inbound: Arc<Inbound>,
    tasks: Watch,
}

impl AttachedSubscription {
    /// Leaves again if the memory could not be mapped.
    pub(super) fn new(
        link: &Arc<Link>,
        key: u32,
        inbound: Result<Arc<Inbound>, RequestError>,
    ) -> Result<Self, RequestError> {
        let inbound = inbound.inspect_err(|_| link.tell(&Request::Unsubscribe { key }))?;
        let link = Arc::clone(link);
        Ok(Self {
            link,
            key,
            inbound,
            tasks: Watch::default(),
        })
    }

    pub(crate) fn wait(&self, deadline: Option<Instant>) -> Result<Option<Received>, RecvError> {
        self.inbound.wait(&self.link, deadline, own)
    }

    pub(crate) fn try_recv(&self) -> Result<Option<Received>, RecvError> {
        self.inbound.take(&self.link, own)
    }

    pub(crate) fn poll_recv(&self, context: &Context<'_>) -> Poll<Result<Received, RecvError>> {
        let attempt = || self.try_recv().transpose();
        let sleep = || Inbound::sleep_for_more(&self.inbound, &self.link);
        self.tasks.poll(context, attempt, sleep)
    }

    /// Waits for what comes next and lends it, without copying a message into an allocation of its
    /// own.
    fn recv_with<T>(&self, mut use_it: impl FnMut(Delivery<'_>) -> T) -> Result<T, RecvError> {
        loop {
            let lend = |taken: Taken<'_>| match &taken {
                Taken::Message(_, message) => use_it(Delivery::Message(*message)),
                Taken::Notice(notice) => use_it(Delivery::from(notice)),
            };
            if let Some(result) = self.inbound.wait(&self.link, None, lend)? {
                return Ok(result);
            }
        }
    }

    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.inbound.names
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        let reading = lock(&self.inbound.reading);
        reading.readers.iter().map(Reader::queued_bytes).sum()
    }

    pub(crate) fn dropped(&self) -> u64 {
        let reading = lock(&self.inbound.reading);
        reading.readers.iter().map(Reader::dropped).sum()
    }
}

impl fmt::Debug for AttachedSubscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedSubscription")
            .field("groups", &self.inbound.names)
            .field("link", &self.link)
            .finish_non_exhaustive()
    }
}

impl Drop for AttachedSubscription {
    fn drop(&mut self) {
        self.inbound.leave();
        self.link.tell(&Request::Unsubscribe { key: self.key });
    }
}

fn own(taken: Taken<'_>) -> Received {
    match taken {
        Taken::Notice(notice) => notice,
        Taken::Message(name, message) => Received::Message(Message {
            group: Arc::clone(name),
            group_id: message.group_id,
            sender: message.sender,
            number: message.number,
            bytes: message.bytes.to_vec(),
        }),
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), RequestError> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    let started = started.map_err(|error| RequestError::Refused {
        reason: format!("cannot start a thread: {error}; check `ulimit -u`"),
    });
    started.map(drop)
}

/// Upcalls for some groups, on a thread of this process. Dropping it leaves the groups; an upcall
/// that runs at that moment runs to its end.
pub(crate) struct AttachedUpcalls {
    inbound: Arc<Inbound>,
}

impl AttachedUpcalls {
    /// Runs until this is dropped, or no more messages will come.
    pub(crate) fn start(
        subscription: AttachedSubscription,
        mut upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Self, RequestError> {
        let inbound = Arc::clone(&subscription.inbound);
        spawn("qsm-upcalls", move || {
            while subscription.recv_with(&mut upcall).is_ok() {}
        })?;
        Ok(Self { inbound })
    }

    /// Writes everything to a queue of this process, as a core thread would.
    pub(crate) fn post(
        subscription: AttachedSubscription,
        mut queue: impl ForeignQueue + 'static,
    ) -> Result<Self, RequestError> {
        let inbound = Arc::clone(&subscription.inbound);
        spawn("qsm-latest", move || {
            loop {
                let write = |taken: Taken<'_>| match taken {
                    Taken::Message(_, message) => drop(queue.offer(message)),
                    Taken::Notice(notice) => queue.tell(notice),
                };
                match subscription.inbound.wait(&subscription.link, None, write) {
                    Ok(_) => queue.wake(),
                    Err(end) => return queue.close(end),
                }
            }
        })?;
        Ok(Self { inbound })
    }

    /// Reads everything into a queue of this process, in the same way.
    pub(super) fn pump(
        subscription: AttachedSubscription,
        funnel: &Arc<Funnel>,
    ) -> Result<Self, RequestError> {
        let inbound = Arc::clone(&subscription.inbound);
        let funnel = Arc::clone(funnel);
        spawn("qsm-follow", move || {
            loop {
                match subscription.wait(None) {
                    Ok(received) => received.into_iter().for_each(|next| funnel.put(next)),
                    Err(end) if subscription.link.closed().is_some() => {
                        return funnel.tell_end(end);
                    }
                    Err(end) => return funnel.close(end),
                }
            }
        })?;
        Ok(Self { inbound })
    }

    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.inbound.names
    }
}

impl fmt::Debug for AttachedUpcalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AttachedUpcalls")
            .field("groups", &self.inbound.names)
            .finish_non_exhaustive()
    }
}

impl Drop for AttachedUpcalls {
    fn drop(&mut self) {
        self.inbound.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use qsm_net::LocalSocket;
    use qsm_wire::{GroupId, Incarnation, Origin};

    use super::super::line::Line;
    use super::super::ring::Writer;
    use super::super::sink::RingSink;
    use super::*;
    use crate::handoff::message::Overflow;
    use crate::handoff::received::{Excluded, Lost, LostPackets};
    use crate::handoff::sink::ForeignQueue;

    /// A ring of 4 KiB, both ends.
    fn ring() -> (RingSink, Arc<Inbound>) {
        const WORDS: usize = 512;
        let names: Arc<[Arc<str>]> = Arc::new([Arc::from("x"), Arc::from("y")]);
        let (memory, descriptor) = SharedMemory::create(memory_words(1, WORDS)).unwrap();
        let memory = Arc::new(memory);
        let (socket, doorbell) = LocalSocket::pair().unwrap();
        let line = Arc::new(Line::new(socket, doorbell));
        let writer = Writer::new(Arc::clone(&memory), 0, WORDS);
        let (overflow, tally) = (Overflow::DropNewest, Arc::default());
        let sink = RingSink::new(&names, &memory, writer, overflow, &line, &tally, 77);
        let inbound = Inbound::open(names.to_vec(), vec![descriptor], 1, WORDS as u64);
        (sink, inbound.unwrap())
    }

    fn offer(sink: &mut RingSink, number: u64) -> bool {
        let message = MessageRef {
            group: "y",
            group_id: GroupId(1),
            sender: Origin::default(),
            number,
            bytes: &[7; 1000],
        };
        sink.offer(message).kept
    }

    fn lost(first: u64, last: u64) -> Received {
        Received::Lost(Lost::new("y", Origin::default(), first, last))
    }

    fn next(inbound: &Inbound) -> Option<Received> {
        let mut reading = lock(&inbound.reading);
        reading.take(0, &inbound.names, &mut own).unwrap()
    }

    fn rest(inbound: &Inbound) -> VecDeque<Received> {
        std::iter::from_fn(|| next(inbound)).collect()
    }

    fn number(received: Option<Received>) -> u64 {
        received.and_then(Received::into_message).unwrap().number()
    }

    #[test]
    fn what_is_missing_comes_in_its_place_also_when_the_ring_was_full() {
        let (mut sink, inbound) = ring();
        sink.tell(lost(1, 2));
        assert!(sink.catch_up());
        for number in 3..=5 {
            assert!(offer(&mut sink, number));
        }
        assert!(!offer(&mut sink, 6) && !offer(&mut sink, 7));
        sink.tell(lost(8, 9));
        let packets = Received::LostPackets(LostPackets {
            sender: Origin::default(),
            packets: 3,
        });
        sink.tell(packets.clone());
        let excluded = Received::Excluded(Excluded {
            incarnation: Incarnation(2),
        });
        sink.tell(excluded.clone());
        assert_eq!(next(&inbound), Some(lost(1, 2)));
        assert_eq!(number(next(&inbound)), 3);
        // There is room for what is missing, and one more.
        assert!(offer(&mut sink, 10));
        assert!(!offer(&mut sink, 11));
        assert_eq!(number(next(&inbound)), 4);
        assert_eq!(number(next(&inbound)), 5);
        let dropped = |messages| Received::Dropped(Dropped { messages });
        let told = [
            next(&inbound),
            next(&inbound),
            next(&inbound),
            next(&inbound),
        ];
        assert_eq!(
            told.map(Option::unwrap),
            [dropped(2), lost(8, 9), packets, excluded]
        );
        assert_eq!(number(next(&inbound)), 10);
        // Nothing was written after it, and it is told all the same, once.
        assert_eq!(rest(&inbound), [dropped(1)]);
        assert!(offer(&mut sink, 12));
        assert_eq!(number(next(&inbound)), 12);
        assert_eq!(rest(&inbound), []);
    }
}
