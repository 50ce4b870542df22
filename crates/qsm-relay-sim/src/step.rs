//! Record of what happens in a network.

use core::fmt;

use qsm_relay::{Body, Kind, Packet};
use qsm_wire::Instant;

/// Fate of a datagram at one end of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// It was sent, and is on its way.
    Sent,
    /// It was sent, and will not arrive.
    Lost,
    /// It has arrived.
    Arrived,
}

/// A datagram at one end of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// Virtual time.
    pub at: Instant,
    /// Fate of the datagram.
    pub what: What,
    /// Node that has sent it.
    pub from: usize,
    /// Node that it is for; [`NOBODY`] if it is for an address that nobody has.
    pub to: usize,
    /// Its kind.
    pub kind: Kind,
    /// Packets that it carries, asks for or is about.
    pub numbers: Vec<u64>,
    /// Its length, without the headers of IP and UDP.
    pub bytes: usize,
}

/// Number of no node.
pub const NOBODY: usize = usize::MAX;

impl Step {
    /// Tells whether it was sent, whatever became of it.
    #[must_use]
    pub fn is_sent(&self) -> bool {
        self.what != What::Arrived
    }

    /// First number in it; 0 if there is none.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.numbers.first().copied().unwrap_or(0)
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::Sent => "sends",
            What::Lost => "loses",
            What::Arrived => "hears",
        };
        let (own, other) = match self.what {
            What::Arrived => (self.to, self.from),
            What::Sent | What::Lost => (self.from, self.to),
        };
        write!(f, "{} {own:>4} {what} ", self.at)?;
        match other {
            NOBODY => write!(f, "   -")?,
            other => write!(f, "{other:>4}")?,
        }
        write!(f, " {:?}", self.kind)?;
        for number in &self.numbers {
            write!(f, " {number}")?;
        }
        Ok(())
    }
}

/// Packets that a datagram carries, asks for or is about.
pub(crate) fn numbers(packet: &Packet<'_>) -> Vec<u64> {
    match &packet.body {
        Body::Data(data) | Body::Repair(data) => vec![data.sequence],
        Body::Nack(nack) | Body::Lost(nack) => nack.missing.iter().collect(),
        Body::Parity(parity) => parity.numbers().collect(),
        _ => Vec::new(),
    }
}

/// News that a receiver's application has got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct News {
    /// Virtual time.
    pub at: Instant,
    /// The receiver.
    pub node: usize,
    /// News that it was told.
    pub told: Told,
}

/// Word to an application: an event of a receiver, with its payload compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It gets everything from this packet on.
    Joined(u64),
    /// A packet.
    Delivered {
        /// Its number.
        sequence: u64,
        /// The payload is the one that was sent.
        intact: bool,
    },
    /// Packets from the first to the last one are lost.
    Lost {
        /// The first.
        first: u64,
        /// The last.
        last: u64,
    },
    /// The stream has ended.
    Ended,
}

/// Account of what a receiver's application was told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// It gets everything from here on.
    pub first: u64,
    /// Packets, in the order in which they came.
    pub delivered: Vec<u64>,
    /// Packets that it was told are lost.
    pub lost: Vec<u64>,
    /// Number of times that the stream has ended.
    pub ended: u32,
    /// Packets whose payload was another one.
    pub damaged: Vec<u64>,
}

impl Heard {
    pub(crate) fn take(&mut self, told: Told) {
        match told {
            Told::Joined(first) => self.first = first,
            Told::Delivered { sequence, intact } => {
                self.delivered.push(sequence);
                if !intact {
                    self.damaged.push(sequence);
                }
            }
            Told::Lost { first, last } => self.lost.extend(first..=last),
            Told::Ended => self.ended += 1,
        }
    }
}
