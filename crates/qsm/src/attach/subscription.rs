use core::fmt;
use core::task::{Context, Poll};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, Mutex, TryLockError, Weak};
use std::thread;
use std::time::Instant;

use qsm_net::SharedMemory;

use super::funnel::Funnel;
use super::lane::{Lane, Taken};
use super::link::{Link, Shelf, lock};
use super::log::View;
use super::requests::Request;
use super::ring::{Reader, memory_words, readers_bell};
use super::watch::{Sleep, Watch};
use crate::error::{CloseReason, RecvError, RequestError};
use crate::handoff::received::{Delivery, Received};
use crate::handoff::sink::ForeignQueue;
use crate::shard::CORES_MAX;

/// Most that is taken before it is looked whether the process ends the attachment.
const AT_ONCE: usize = 64;

/// The reading side of a subscription's rings.
pub(super) struct Inbound {
    memory: Arc<SharedMemory>,
    names: Arc<[Arc<str>]>,
    log: Arc<View>,
    reading: Mutex<Reading>,
    /// The reader wants nothing more.
    left: AtomicBool,
    /// By which the engine knows it, if it holds senders up.
    holder: Option<u32>,
}

/// Rings of a subscription, as the engine has answered.
pub(super) struct Rings {
    pub(super) count: u32,
    /// Of each.
    pub(super) words: u64,
    /// The key of the subscription, if it holds senders up.
    pub(super) holder: Option<u32>,
}

struct Reading {
    /// One for each core thread that has some of the groups.
    lanes: Vec<Lane>,
    /// Whose turn it is.
    turn: usize,
}

impl Inbound {
    /// Maps the memory that came with the engine's answer.
    pub(super) fn open(
        names: Vec<Arc<str>>,
        log: &Arc<View>,
        descriptors: Vec<OwnedFd>,
        rings: &Rings,
    ) -> io::Result<Arc<Self>> {
        let invalid = || io::Error::from(io::ErrorKind::InvalidData);
        let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors).map_err(|_| invalid())?;
        let capacity = usize::try_from(rings.words).map_err(|_| invalid())?;
        let (holder, rings) = (rings.holder, rings.count as usize);
        if !capacity.is_power_of_two() || rings == 0 || rings > CORES_MAX {
            return Err(invalid());
        }
        let memory = SharedMemory::open(descriptor, memory_words(rings, capacity))?;
        let memory = Arc::new(memory);
        let lane = |number| Lane::new(Reader::new(Arc::clone(&memory), number, capacity));
        let reading = Reading {
            lanes: (0..rings).map(lane).collect(),
            turn: 0,
        };
        Ok(Arc::new(Self {
            memory,
            names: names.into(),
            log: Arc::clone(log),
            reading: Mutex::new(reading),
            left: AtomicBool::new(false),
            holder,
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
                let more = || lock(&inbound.reading).lanes.iter().any(Lane::has_more);
                (over || more()).then_some(over)
            };
            // Without a deadline a wait ends only with a result.
            let over = readers_bell(&inbound.memory).wait(None, changed);
            over.unwrap_or(true)
        })
    }

    /// Takes what comes next, so many at most; or says why nothing will come. What is lent lies in
    /// the engine's memory, until `use_it` returns.
    fn take(
        &self,
        link: &Link,
        most: usize,
        mut use_it: impl FnMut(Taken<'_>),
    ) -> Result<usize, RecvError> {
        // Read first: what was there before the end must still come out.
        let closed = link.closed();
        if self.left.load(Ordering::Relaxed) {
            return Err(RecvError::Closed(CloseReason::ShutDown));
        }
        let (over, taken) = self.take_there(most, &mut use_it);
        if let Some(key) = self.holder
            && self.owes_word()
        {
            link.tell(&Request::Room { key });
        }
        // Either this sees that the process has ended the attachment meanwhile, or whoever ends it
        // sees that nothing is lent here.
        fence(Ordering::SeqCst);
        if link.is_parting() {
            link.part();
        }
        match (taken?, over, closed) {
            (0, true, _) => Err(RecvError::Overflow),
            (0, false, Some(reason)) => Err(RecvError::Closed(reason.clone())),
            (taken, _, _) => Ok(taken),
        }
    }

    /// The engine waits for what has been taken, and is to be told.
    fn owes_word(&self) -> bool {
        let mut reading = lock(&self.reading);
        let lanes = reading.lanes.iter_mut();
        // Of all of them: each says so once.
        lanes.map(Lane::owes_word).filter(|owes| *owes).count() > 0
    }

    /// Takes what is there, and says whether one of the rings has ended.
    fn take_there(
        &self,
        most: usize,
        use_it: &mut impl FnMut(Taken<'_>),
    ) -> (bool, Result<usize, RecvError>) {
        let mut reading = lock(&self.reading);
        let over = reading.lanes.iter().any(Lane::is_over);
        let (count, first) = (reading.lanes.len(), reading.turn);
        let mut taken = 0;
        for step in 0..count {
            let at = (first + step) % count;
            let lane = &mut reading.lanes[at];
            let before = taken;
            while taken < most && !self.left.load(Ordering::Relaxed) {
                let most = most - taken;
                match lane.take(&self.names, &self.log, most, use_it) {
                    Ok(0) => break,
                    Ok(more) => taken += more,
                    Err(error) => return (over, Err(error)),
                }
            }
            if taken > before {
                reading.turn = at + 1;
            }
        }
        (over, Ok(taken))
    }

    /// Takes what comes next, so many at most, waiting for it; nothing when the deadline passed.
    fn wait(
        &self,
        link: &Link,
        deadline: Option<Instant>,
        most: usize,
        mut use_it: impl FnMut(Taken<'_>),
    ) -> Result<(), RecvError> {
        let attempt = || match self.take(link, most, &mut use_it) {
            Ok(0) => None,
            taken => Some(taken.map(drop)),
        };
        let waited = readers_bell(&self.memory).wait(deadline, attempt);
        waited.unwrap_or(Ok(()))
    }
}

impl Shelf for Inbound {
    fn wake(&self) {
        readers_bell(&self.memory).ring();
    }

    fn settle(&self) -> bool {
        let mut reading = match self.reading.try_lock() {
            Ok(reading) => reading,
            Err(TryLockError::Poisoned(reading)) => reading.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        for lane in &mut reading.lanes {
            lane.keep(&self.names, &self.log);
        }
        true
    }
}

/// Messages of some groups, read right out of the memory that the engine writes them to. Dropping
/// it leaves the groups.
pub(crate) struct AttachedSubscription {
    link: Arc<Link>,
    key: u32,
    inbound: Arc<Inbound>,
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
        let mut received = None;
        let keep = |taken: Taken<'_>| received = Some(taken.own());
        self.inbound.wait(&self.link, deadline, 1, keep)?;
        Ok(received)
    }

    pub(crate) fn try_recv(&self) -> Result<Option<Received>, RecvError> {
        let mut received = None;
        let keep = |taken: Taken<'_>| received = Some(taken.own());
        self.inbound.take(&self.link, 1, keep)?;
        Ok(received)
    }

    pub(crate) fn poll_recv(&self, context: &Context<'_>) -> Poll<Result<Received, RecvError>> {
        let attempt = || self.try_recv().transpose();
        let sleep = || Inbound::sleep_for_more(&self.inbound, &self.link);
        self.tasks.poll(context, attempt, sleep)
    }

    /// Waits for what comes next and lends it, one after the other, where it lies.
    fn recv_with(&self, mut use_it: impl FnMut(Delivery<'_>)) -> Result<(), RecvError> {
        let lend = |taken: Taken<'_>| match &taken {
            // It has been dropped meanwhile.
            _ if self.inbound.left.load(Ordering::Relaxed) => {}
            Taken::Message(_, message) => use_it(Delivery::Message(*message)),
            Taken::Notice(notice) => use_it(Delivery::from(notice)),
        };
        self.inbound.wait(&self.link, None, AT_ONCE, lend)
    }

    /// For the list of those that the attachment has.
    pub(super) fn shelf(&self) -> Weak<dyn Shelf> {
        let inbound: Weak<Inbound> = Arc::downgrade(&self.inbound);
        inbound
    }

    pub(crate) fn names(&self) -> &[Arc<str>] {
        &self.inbound.names
    }

    pub(crate) fn queued_bytes(&self) -> usize {
        let reading = lock(&self.inbound.reading);
        reading.lanes.iter().map(Lane::queued_bytes).sum()
    }

    /// Tells whether senders wait for its reader.
    pub(crate) fn holds(&self) -> bool {
        let reading = lock(&self.inbound.reading);
        reading.lanes.iter().any(Lane::is_awaited)
    }

    pub(crate) fn dropped(&self) -> u64 {
        let reading = lock(&self.inbound.reading);
        reading.lanes.iter().map(Lane::dropped).sum()
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
                    // Nobody else is offered it.
                    Taken::Message(_, message) => drop(queue.offer(0, message)),
                    Taken::Notice(notice) => queue.tell(notice),
                };
                let (inbound, link) = (&subscription.inbound, &subscription.link);
                match inbound.wait(link, None, AT_ONCE, write) {
                    Ok(()) => queue.wake(),
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
mod tests;
