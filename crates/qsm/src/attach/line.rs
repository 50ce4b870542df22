//! The sockets to an attached process, and their end.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use qsm_net::LocalSocket;

use super::error::CutReason;
use super::requests::Reply;
use crate::event::Event;

/// Why a session ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum End {
    /// The process has closed its socket, or died. What is in its ring is still sent.
    Left,
    /// The engine ends.
    Closed { cause: String },
    /// For nonsense.
    Cut(CutReason),
}

/// The sockets to a process, and whether that is over.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) socket: LocalSocket,
    pub(super) doorbell: LocalSocket,
    ended: OnceLock<End>,
    /// Nothing of the process is wanted any more, also not what is in its ring.
    void: AtomicBool,
    /// Events that the process has missed, because its socket was full, and not been told of.
    missed: AtomicU64,
}

impl Line {
    pub(super) fn new(socket: LocalSocket, doorbell: LocalSocket) -> Self {
        Self {
            socket,
            doorbell,
            ended: OnceLock::new(),
            void: AtomicBool::new(false),
            missed: AtomicU64::new(0),
        }
    }

    /// Tells the process of an event, if its socket has room; false if not. Then the process is told
    /// how many it has missed before it is told of another. Never waits. For one thread.
    pub(super) fn tell_event(&self, packet: &[u8]) -> bool {
        let told = self.tell_missed() && self.socket.try_send(packet).is_ok();
        if !told {
            self.missed.fetch_add(1, Ordering::SeqCst);
        }
        told
    }

    /// Tells how many events it has missed, if it has; false if there is no room for that yet.
    pub(super) fn tell_missed(&self) -> bool {
        let events = self.missed.load(Ordering::SeqCst);
        if events == 0 || self.ended().is_some() {
            return true;
        }
        let dropped = Reply::Event(Event::Dropped { events }).encode();
        let told = self.socket.try_send(&dropped).is_ok();
        if told {
            self.missed.store(0, Ordering::SeqCst);
        }
        told
    }

    /// Ends it; the first reason stays. Never waits.
    pub(super) fn end(&self, end: End) {
        let void = end != End::Left;
        let cause = match &end {
            End::Left => None,
            End::Closed { cause } => Some(cause.clone()),
            End::Cut(reason) => Some(format!(
                "this process was cut off: {reason}; its own memory is damaged, or it is of \
                 another version of qsm"
            )),
        };
        let first = self.ended.set(end).is_ok();
        // After the reason: who sees that it is void leaves, and must not be the first to say why.
        if void {
            self.void.store(true, Ordering::SeqCst);
        }
        if !first {
            return;
        }
        if let Some(cause) = cause {
            // One that does not read sees the end of the socket.
            drop(self.socket.try_send(&Reply::Closed { cause }.encode()));
        }
        self.socket.shutdown();
        self.doorbell.shutdown();
    }

    pub(super) fn ended(&self) -> Option<&End> {
        self.ended.get()
    }

    pub(super) fn is_void(&self) -> bool {
        self.void.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::super::requests::PACKET_BYTES_MAX;
    use super::*;

    #[test]
    fn a_process_that_does_not_read_is_told_how_many_events_it_has_missed_before_the_next() {
        let (socket, process) = LocalSocket::pair().unwrap();
        let (doorbell, _other) = LocalSocket::pair().unwrap();
        let line = Line::new(socket, doorbell);
        let event = Reply::Event(Event::ServiceLost).encode();
        let room = (0..).take_while(|_| line.tell_event(&event)).count();
        assert!(!line.tell_event(&event) && !line.tell_missed());
        let mut packet = vec![0; PACKET_BYTES_MAX];
        let mut read = || {
            let length = process.recv(&mut packet).unwrap();
            Reply::decode(&packet[..length]).unwrap()
        };
        for _ in 0..room {
            assert_eq!(read(), Reply::Event(Event::ServiceLost));
        }
        assert!(line.tell_event(&event));
        assert_eq!(read(), Reply::Event(Event::Dropped { events: 2 }));
        assert_eq!(read(), Reply::Event(Event::ServiceLost));
        assert!(line.tell_missed());
    }
}
