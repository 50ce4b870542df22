use core::fmt;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use qsm_proto::{Event, Instant, Reason};
use qsm_wire::{Body, GroupId, Origin, Packet};

use crate::engine::Datagram;
use crate::network::Cause;

/// The last things that happened, kept in a compact form and written out only after a failure.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: VecDeque<(Instant, usize, Entry)>,
    limit: usize,
}

#[derive(Debug)]
pub(crate) enum Entry {
    Sent(Reason, Rc<Datagram>),
    /// Will not arrive here.
    Dropped(Cause, Rc<Datagram>),
    Arrived(Rc<Datagram>),
    Overflowed(Rc<Datagram>),
    Delivered(GroupId, Origin, u64, usize),
    Event(Box<Event>),
    Listens(SocketAddr, bool),
    Note(String),
}

impl Trace {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            limit,
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.limit > 0
    }

    pub(crate) fn add(&mut self, at: Instant, host: usize, entry: Entry) {
        if self.limit == 0 {
            return;
        }
        if self.lines.len() >= self.limit {
            self.lines.pop_front();
        }
        self.lines.push_back((at, host, entry));
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines
            .iter()
            .map(|(at, host, entry)| format!("{at} host {host} {entry}"))
            .collect()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(reason, sent) => {
                write!(f, "-> {} [{reason:?}] {}", sent.to, Described(&sent.bytes))
            }
            Self::Dropped(cause, sent) => {
                write!(f, "xx {} {cause}: {}", sent.from, Described(&sent.bytes))
            }
            Self::Arrived(sent) => write!(f, "<- {} {}", sent.from, Described(&sent.bytes)),
            Self::Overflowed(sent) => write!(f, "overflow {}", Described(&sent.bytes)),
            Self::Delivered(group, sender, number, length) => {
                write!(f, "delivers {sender}/{group}#{number} ({length} bytes)")
            }
            Self::Event(event) => write!(f, "event {event:?}"),
            Self::Listens(address, true) => write!(f, "listens to {address}"),
            Self::Listens(address, false) => write!(f, "no longer listens to {address}"),
            Self::Note(note) => f.write_str(note),
        }
    }
}

/// A datagram in one line.
struct Described<'a>(&'a [u8]);

impl fmt::Display for Described<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let packet = match Packet::decode(self.0) {
            Ok(packet) => packet,
            Err(error) => return write!(f, "{} bytes: {error}", self.0.len()),
        };
        write!(f, "{} ", packet.header.origin)?;
        match packet.body {
            Body::Data(data) => {
                let head = data.head;
                write!(
                    f,
                    "Data channel {} view {} #{} age {} {:?}:",
                    head.channel, head.view, head.sequence, head.view_age, packet.header.hop
                )?;
                for chunk in data.chunks() {
                    write!(f, " {}#{} {:?}", chunk.group, chunk.message, chunk.part)?;
                }
                Ok(())
            }
            Body::Heartbeat(heartbeat) => write!(f, "{heartbeat:?}"),
            Body::Nak(request) | Body::Pull(request) => write!(f, "{request:?}"),
            Body::Token(token) => {
                write!(f, "{:?}", token.head)?;
                token
                    .slots()
                    .try_for_each(|slot| write!(f, " {:?}", slot.head))
            }
            Body::Summary(summary) => {
                write!(
                    f,
                    "Summary region {} round {}",
                    summary.region, summary.round
                )?;
                summary.slots().try_for_each(|slot| write!(f, " {slot:?}"))
            }
            Body::Session(frame) => {
                write!(f, "Session {:?} {} bytes", frame.head, frame.content.len())
            }
            other => write!(f, "{other:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_keeps_the_newest_lines() {
        let mut trace = Trace::new(2);
        for note in ["a", "b", "c"] {
            trace.add(Instant(7), 1, Entry::Note(note.to_owned()));
        }
        assert_eq!(trace.lines(), ["0.000000 host 1 b", "0.000000 host 1 c"]);
        let garbage = Entry::Arrived(Rc::new(Datagram {
            serial: 0,
            from: SocketAddr::from(([1, 2, 3, 4], 5)),
            to: SocketAddr::from(([1, 2, 3, 5], 5)),
            bytes: Box::from([9, 9]),
        }));
        assert_eq!(
            garbage.to_string(),
            "<- 1.2.3.4:5 2 bytes: unknown protocol version"
        );
    }
}
