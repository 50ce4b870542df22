use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures_core::Stream;

use crate::error::RecvError;
use crate::event::Event;
use crate::handoff::mailbox::Mailbox;
use crate::handoff::message::{Capacity, Overflow};

/// A reader of a node's events; made by [`Node::events`](crate::Node::events). Each reader gets
/// all events from its making on. It keeps at most [`Events::CAPACITY`]; beyond that the oldest
/// are dropped, and [`Event::Dropped`] says in their place how many.
///
/// It is an iterator, for a thread of its own, and a [`Stream`] for tasks.
///
/// ```
/// use std::time::Duration;
/// use qsm::{Event, Node};
///
/// let node = Node::builder()
/// #   .cluster(format!("doc-events-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
///     .interface("lo")
///     .start()?;
/// let events = node.events();
/// let watcher = std::thread::spawn(move || {
///     for event in events {
///         match event {
///             Event::Admitted { .. } => println!("a member of the cluster"),
///             Event::Excluded => println!("taken for dead; back soon"),
///             Event::ServiceLost => println!("nobody can join or leave for now"),
///             other => println!("{other:?}"),
///         }
///     }
/// });
/// node.wait_admitted(Duration::from_secs(10))?;
/// node.shutdown(Duration::from_secs(5))?;
/// watcher.join().expect("it ends with the node");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
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
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let cluster = format!("doc-e-timeout-{}", std::process::id());
    /// # let builder = qsm::Node::builder().cluster(cluster).interface("lo");
    /// # let node = builder.embedded_service(qsm::Embedded::Always).start()?;
    /// use std::time::Duration;
    ///
    /// let events = node.events();
    /// while let Some(event) = events.recv_timeout(Duration::from_millis(10))? {
    ///     println!("{event:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Events::try_recv`].
    pub fn recv_timeout(&self, timeout: Duration) -> Result<Option<Event>, RecvError> {
        let received = self.mailbox.recv(Instant::now().checked_add(timeout));
        received.or_else(|end| self.tell(end))
    }

    /// Events dropped because nobody read them in time; [`Event::Dropped`] tells them one by one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_that_nobody_took_in_time_are_told_in_their_place() {
        let events = Events::new(1);
        let inbox = events.mailbox.first();
        let offer = |event: &Event| _ = inbox.offer(0, || event.clone());
        let excess = 5;
        (0..Events::CAPACITY + excess).for_each(|_| offer(&Event::ServiceLost));
        let dropped = excess as u64;
        assert_eq!(
            events.try_recv(),
            Ok(Some(Event::Dropped { events: dropped }))
        );
        for _ in 0..Events::CAPACITY {
            assert_eq!(events.try_recv(), Ok(Some(Event::ServiceLost)));
        }
        offer(&Event::Excluded);
        assert_eq!(events.try_recv(), Ok(Some(Event::Excluded)));
        assert_eq!((events.try_recv(), events.dropped()), (Ok(None), dropped));
    }
}
