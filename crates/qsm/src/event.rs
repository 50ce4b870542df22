use core::pin::Pin;
use core::task::{Context, Poll};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_core::Stream;
use qsm_proto::UnconfirmedCause;
use qsm_wire::{Incarnation, Origin, RegionId, ViewNumber};

use crate::error::{CloseReason, RecvError, Unconfirmed};
use crate::inbox::Capacity;
use crate::mailbox::Mailbox;
use crate::subscription::Overflow;

/// Something that happened to a node, beside messages.
///
/// Each core thread of a node is a member of the cluster and tells what happens to itself: of a
/// node with several ([`Builder::cores`](crate::Builder::cores)) most events come once for each.
/// One that is excluded misses messages of its own groups only.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The node is a member of the cluster; after [`Event::Excluded`], again, in a new life.
    Admitted {
        /// Its incarnation.
        incarnation: Incarnation,
    },
    /// The node has ended, with all its cores. The last event.
    Closed {
        /// Why.
        reason: CloseReason,
    },
    /// The cluster took this node for dead: it was silent too long. It comes back by itself, in a
    /// new life, and misses what was sent meanwhile.
    Excluded,
    /// These messages will never be delivered here: numbers `first..=last` of this sender in this
    /// group. They were lost with a sender that died, or were sent while this node was excluded:
    /// then this comes with the first message that the sender sends afterwards.
    Lost {
        /// The group's name; empty if the node has left it.
        group: Arc<str>,
        /// The sender.
        sender: Origin,
        /// First message lost.
        first: u64,
        /// Last message lost.
        last: u64,
    },
    /// Packets of a dead sender that nobody holds any more. Which messages were in them is not
    /// known, except where later messages show it by [`Event::Lost`].
    LostPackets {
        /// The sender.
        sender: Origin,
        /// How many packets.
        packets: u64,
    },
    /// A multicast address of the cluster cannot be received; the messages sent to it will not
    /// arrive here.
    NotListening {
        /// The address.
        address: SocketAddr,
        /// Why, and what to do.
        reason: String,
    },
    /// A region of this node has a new view.
    RegionView {
        /// The region.
        region: RegionId,
        /// The view.
        view: ViewNumber,
        /// Its members.
        members: u32,
    },
    /// This node's own membership service runs, because no other was found, or always.
    ServiceEmbedded {
        /// Where.
        address: SocketAddr,
    },
    /// The membership service answers: for the first time, again, or another one.
    ServiceFound {
        /// Where.
        address: SocketAddr,
    },
    /// The membership service does not answer. Messages go on among those who know each other;
    /// joining and leaving have to wait.
    ServiceLost,
    /// This node's own membership service could not start.
    ServiceNotEmbedded {
        /// Why, and what to do.
        reason: String,
    },
    /// This node's own membership service has given way to another one.
    ServiceYielded,
    /// Messages that this node had accepted are not sent any more, and not all receivers are known
    /// to have them.
    Unconfirmed {
        /// Which.
        messages: Unconfirmed,
        /// Why. After [`UnconfirmedCause::NewLife`] they are also named by the error of
        /// [`Node::flush`](crate::Node::flush); after [`UnconfirmedCause::NoReceivers`] there was
        /// nobody left to have them.
        cause: UnconfirmedCause,
    },
    /// A subscription's queue is full, and messages were dropped: its reader is too slow. Told at
    /// most once a second for each subscription.
    SlowConsumer {
        /// The subscription's groups, those of one core.
        groups: Arc<[Arc<str>]>,
        /// Messages dropped since the last such event.
        dropped: u64,
        /// Messages dropped in all.
        dropped_total: u64,
    },
}

/// A reader of a node's events; made by [`Node::events`](crate::Node::events). Each reader gets
/// all events from its making on. It keeps at most [`Events::CAPACITY`]; beyond that the oldest
/// are dropped and counted.
#[derive(Debug)]
pub struct Events {
    pub(crate) mailbox: Mailbox<Event>,
    /// The end was told.
    pub(crate) ended: AtomicBool,
}

impl Events {
    /// Events that wait to be read.
    pub const CAPACITY: usize = 4096;

    /// From so many cores.
    pub(crate) fn new(cores: usize) -> Self {
        let (messages, bytes) = (Self::CAPACITY, usize::MAX);
        let capacity = Capacity { messages, bytes };
        Self {
            mailbox: Mailbox::new(cores, capacity, Overflow::DropOldest),
            ended: AtomicBool::new(false),
        }
    }

    /// The next event, or `None` when none is there.
    ///
    /// # Errors
    /// [`RecvError::Closed`] after the last event, [`Event::Closed`].
    pub fn try_recv(&self) -> Result<Option<Event>, RecvError> {
        self.mailbox.try_recv().or_else(|end| self.tell(end))
    }

    /// Waits for the next event at most this long; `None` when none came.
    ///
    /// # Errors
    /// As [`Events::try_recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Event>, RecvError> {
        let received = self.mailbox.recv(Instant::now().checked_add(timeout));
        received.or_else(|end| self.tell(end))
    }

    /// Events dropped because nobody read them in time.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.mailbox.dropped()
    }

    /// The end comes once as an event.
    fn tell(&self, end: RecvError) -> Result<Option<Event>, RecvError> {
        match end {
            RecvError::Closed(reason) if !self.ended.swap(true, Ordering::Relaxed) => {
                Ok(Some(Event::Closed { reason }))
            }
            end => Err(end),
        }
    }
}

/// Waits for events; ends after [`Event::Closed`].
impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        loop {
            match self.mailbox.recv(None).or_else(|end| self.tell(end)) {
                Ok(Some(event)) => return Some(event),
                // Without a deadline a wait ends with an event or an error.
                Ok(None) => {}
                Err(_) => return None,
            }
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let received = self.mailbox.poll_recv(context);
        received.map(|result| match result {
            Ok(event) => Some(event),
            Err(end) => self.tell(end).ok().flatten(),
        })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.mailbox.leave();
    }
}
