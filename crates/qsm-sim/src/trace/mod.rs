//! What happened, kept in a compact form and put in words only when somebody asks.

mod describe;
mod event;

use core::fmt;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

use qsm_proto::{Event, Instant, Reason};
use qsm_testnet::Cause;
use qsm_wire::{GroupId, Origin};

pub(crate) use self::describe::Names;
use crate::engine::Datagram;
use crate::machine::Loss;

/// The last things that happened.
#[derive(Debug)]
pub(crate) struct Trace {
    lines: VecDeque<(Instant, usize, TraceEntry)>,
    limit: usize,
}

#[derive(Debug)]
pub(crate) enum TraceEntry {
    Sent(Rc<Datagram>),
    /// Will not arrive here.
    Dropped(Cause, Rc<Datagram>),
    Arrived(Rc<Datagram>),
    Overflowed(Rc<Datagram>),
    Delivered(GroupId, Origin, u64, usize),
    Event(Box<Event>),
    Lost(Loss),
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

    pub(crate) fn add(&mut self, at: Instant, host: usize, entry: TraceEntry) {
        if self.limit == 0 {
            return;
        }
        if self.lines.len() >= self.limit {
            self.lines.pop_front();
        }
        self.lines.push_back((at, host, entry));
    }

    /// What is kept, in words, with the hosts' names for those who have names.
    pub(crate) fn rows(&self, names: &Names) -> Vec<TraceRow> {
        self.lines
            .iter()
            .map(|(at, host, entry)| row(*at, *host, entry, names))
            .collect()
    }
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceRow {
    /// When.
    pub at: Instant,
    /// Where: the host's number.
    pub host: usize,
    /// What.
    pub step: Step,
    /// More, for people.
    pub text: String,
}

/// What kind of thing happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// A datagram leaves. Datagrams are numbered in the order of sending.
    Sends {
        /// Its number.
        datagram: u64,
        /// To which host; `None`: multicast.
        to: Option<usize>,
        /// What for.
        reason: Option<Reason>,
    },
    /// A datagram is handled.
    Receives {
        /// Its number; 0 if nobody has sent it.
        datagram: u64,
        /// From which host.
        from: Option<usize>,
        /// What for.
        reason: Option<Reason>,
    },
    /// A datagram does not reach this host.
    Misses {
        /// Its number.
        datagram: u64,
        /// From which host.
        from: Option<usize>,
        /// What for.
        reason: Option<Reason>,
    },
    /// A message is handed to the application.
    Delivers,
    /// The application is told something.
    Event,
    /// The simulator does something: faults, starts and ends.
    Note,
}

impl Step {
    /// A word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Sends { .. } => "sends",
            Self::Receives { .. } => "receives",
            Self::Misses { .. } => "misses",
            Self::Delivers => "delivers",
            Self::Event => "event",
            Self::Note => "note",
        }
    }

    /// The host at the other end.
    #[must_use]
    pub fn peer(self) -> Option<usize> {
        match self {
            Self::Sends { to, .. } => to,
            Self::Receives { from, .. } | Self::Misses { from, .. } => from,
            _ => None,
        }
    }
}

impl TraceRow {
    /// Whether it is part of the membership protocol: sessions, beacons and probes.
    #[must_use]
    pub fn is_membership(&self) -> bool {
        match self.step {
            Step::Sends { reason, .. }
            | Step::Receives { reason, .. }
            | Step::Misses { reason, .. } => reason == Some(Reason::Membership),
            _ => false,
        }
    }
}

impl fmt::Display for TraceRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let peer = match self.step {
            Step::Sends { to: None, .. } => "all".to_owned(),
            step => step
                .peer()
                .map_or_else(String::new, |peer| peer.to_string()),
        };
        let (at, host, step) = (self.at, self.host, self.step.name());
        write!(f, "{at} {host:>4} {step:<8} {peer:<4} {}", self.text)
    }
}

fn row(at: Instant, host: usize, entry: &TraceEntry, names: &Names) -> TraceRow {
    let described = |datagram: &Datagram| describe::datagram(&datagram.bytes, names);
    let (step, text) = match entry {
        TraceEntry::Sent(sent) => {
            let step = Step::Sends {
                datagram: sent.serial,
                to: names.host_at(sent.to),
                reason: sent.reason,
            };
            (step, described(sent))
        }
        TraceEntry::Dropped(cause, sent) => {
            let step = Step::Misses {
                datagram: sent.serial,
                from: names.host_at(sent.from),
                reason: sent.reason,
            };
            (step, format!("{cause}: {}", described(sent)))
        }
        TraceEntry::Overflowed(sent) => {
            let step = Step::Misses {
                datagram: sent.serial,
                from: names.host_at(sent.from),
                reason: sent.reason,
            };
            (step, format!("receive buffer full: {}", described(sent)))
        }
        TraceEntry::Arrived(sent) => {
            let step = Step::Receives {
                datagram: sent.serial,
                from: names.host_at(sent.from),
                reason: sent.reason,
            };
            (step, described(sent))
        }
        TraceEntry::Delivered(group, sender, number, length) => {
            let sender = names.node(*sender);
            let text = format!("{sender} {group}#{number} ({length} bytes)");
            (Step::Delivers, text)
        }
        TraceEntry::Event(event) => (Step::Event, event::event(event, names)),
        TraceEntry::Lost(loss) => (Step::Event, event::loss(loss, names)),
        TraceEntry::Listens(address, true) => (Step::Note, format!("listens to {address}")),
        TraceEntry::Listens(address, false) => {
            (Step::Note, format!("no longer listens to {address}"))
        }
        TraceEntry::Note(note) => (Step::Note, note.clone()),
    };
    TraceRow {
        at,
        host,
        step,
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_keeps_the_newest_lines() {
        let mut trace = Trace::new(2);
        for note in ["a", "b", "c"] {
            trace.add(Instant(7), 1, TraceEntry::Note(note.to_owned()));
        }
        let rows = trace.rows(&Names::default());
        let notes: Vec<_> = rows.iter().map(|row| row.text.as_str()).collect();
        assert_eq!(notes, ["b", "c"]);
    }
}
