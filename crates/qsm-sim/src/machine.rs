//! What runs on a host: the one place that knows which state machines there are.

use std::net::SocketAddr;

use qsm_proto::{Config, Deliver, Delivery, Event, Instant, PublishError, Seed, Stats, Transmit};
use qsm_wire::membership::Role;
use qsm_wire::{GroupId, Origin};

use crate::toy::Toy;
use crate::violation::Violation;

/// A state machine on a host, driven by the engine.
#[derive(Debug)]
pub(crate) enum Machine {
    /// A small stand-in that tests of the simulator itself use.
    Toy(Box<Toy>),
}

impl Machine {
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        from: SocketAddr,
        datagram: &[u8],
        out: &mut dyn Deliver,
    ) {
        match self {
            Self::Toy(toy) => toy.handle_datagram(now, from, datagram, out),
        }
    }

    pub(crate) fn handle_timeout(&mut self, now: Instant, _out: &mut dyn Deliver) {
        match self {
            Self::Toy(toy) => toy.handle_timeout(now),
        }
    }

    pub(crate) fn poll_transmit(&mut self, _now: Instant) -> Option<Transmit<'_>> {
        match self {
            Self::Toy(toy) => toy.poll_transmit(),
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        match self {
            Self::Toy(toy) => toy.poll_event(),
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        match self {
            Self::Toy(toy) => toy.next_timeout(),
        }
    }

    /// Takes up a role in groups; `None` where this machine has none.
    pub(crate) fn enter(&mut self, _now: Instant, role: Role, names: Vec<String>) -> Option<u32> {
        match self {
            Self::Toy(toy) => Some(toy.enter(role, &names)),
        }
    }

    /// Gives up a role in groups.
    pub(crate) fn exit(&mut self, _now: Instant, role: Role, names: Vec<String>) -> Option<u32> {
        match self {
            Self::Toy(toy) => Some(toy.exit(role, &names)),
        }
    }

    pub(crate) fn group(&self, name: &str) -> Option<GroupId> {
        match self {
            Self::Toy(toy) => toy.group(name),
        }
    }

    /// Who this node would send a message of the group to now.
    pub(crate) fn receivers(&self, group: GroupId) -> Vec<Origin> {
        match self {
            Self::Toy(toy) => toy.receivers(group),
        }
    }

    pub(crate) fn publish(
        &mut self,
        now: Instant,
        group: GroupId,
        payload: &[u8],
        _out: &mut dyn Deliver,
    ) -> Result<u64, PublishError> {
        match self {
            Self::Toy(toy) => toy.publish(now, group, payload),
        }
    }

    pub(crate) fn close(&mut self, _now: Instant) {
        match self {
            Self::Toy(toy) => toy.close(),
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Self::Toy(toy) => toy.is_closed(),
        }
    }

    pub(crate) fn stats(&self) -> Option<Stats> {
        match self {
            Self::Toy(_) => None,
        }
    }

    /// Panics when the machine's state contradicts itself.
    pub(crate) fn check_invariants(&self) {
        match self {
            Self::Toy(toy) => toy.check_invariants(),
        }
    }

    /// One line about its state.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Toy(_) => "toy".to_owned(),
        }
    }
}

/// Who plays the nodes.
#[derive(Debug, Clone)]
pub(crate) enum Cast {
    /// Real nodes and a real membership service.
    Real,
    /// Toys, all of which receive all groups.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for tests of the simulator itself")
    )]
    Toys(Vec<(SocketAddr, qsm_wire::NodeId)>),
}

impl Cast {
    pub(crate) fn machine(
        &self,
        host: usize,
        config: Config,
        _seed: Seed,
        _now: Instant,
    ) -> Result<Machine, Violation> {
        match self {
            Self::Real => Err(Violation::new(
                "machine",
                format!("host {host}: no real nodes yet"),
            )),
            Self::Toys(peers) => {
                let peers = peers.iter().filter(|peer| peer.1 != config.node);
                Ok(Machine::Toy(Box::new(Toy::new(
                    config.node,
                    peers.copied().collect(),
                ))))
            }
        }
    }
}

/// Spoils deliveries on purpose. Nothing but the simulator's own test uses it: a checker that
/// does not notice is no checker (style 3.10: mutation check).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mischief {
    /// Everything is delivered as it should be.
    #[default]
    None,
    /// Every so many deliveries one is withheld.
    Drop {
        /// How many.
        every: u64,
    },
    /// Every so many deliveries one is made twice.
    Double {
        /// How many.
        every: u64,
    },
    /// Every so many deliveries two change places, if both come from one call.
    Swap {
        /// How many.
        every: u64,
    },
    /// Every so many deliveries a bit of the content is flipped.
    Corrupt {
        /// How many.
        every: u64,
    },
}

/// A delivery of which the bytes are kept elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Delivered {
    pub(crate) group: GroupId,
    pub(crate) sender: Origin,
    pub(crate) number: u64,
    start: usize,
    end: usize,
}

/// What one call of a machine has delivered.
#[derive(Debug, Default)]
pub(crate) struct Deliveries {
    bytes: Vec<u8>,
    rows: Vec<Delivered>,
    mischief: Mischief,
    count: u64,
}

impl Deliveries {
    pub(crate) fn new(mischief: Mischief) -> Self {
        Self {
            mischief,
            ..Self::default()
        }
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    pub(crate) fn rows(&self) -> &[Delivered] {
        &self.rows
    }

    pub(crate) fn bytes(&self, row: &Delivered) -> &[u8] {
        &self.bytes[row.start..row.end]
    }

    fn add(&mut self, message: Delivery<'_>) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message.bytes);
        self.rows.push(Delivered {
            group: message.group,
            sender: message.sender,
            number: message.number,
            start,
            end: self.bytes.len(),
        });
    }
}

impl Deliver for Deliveries {
    fn deliver(&mut self, message: Delivery<'_>) {
        self.count += 1;
        let count = self.count;
        let due = |every: u64| count.is_multiple_of(every.max(1));
        match self.mischief {
            Mischief::Drop { every } if due(every) => return,
            Mischief::Double { every } if due(every) => self.add(message),
            _ => {}
        }
        self.add(message);
        let last = self.rows.len() - 1;
        match self.mischief {
            Mischief::Swap { every } if count % every.max(1) < 2 && last > 0 => {
                self.rows.swap(last - 1, last);
            }
            Mischief::Corrupt { every } if due(every) => {
                if let Some(byte) = self.bytes.last_mut() {
                    *byte ^= 0x10;
                }
            }
            _ => {}
        }
    }
}
