use core::fmt;

use qsm_wire::{Instant, Seed};

/// Fate of one copy of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It reaches its host then.
    Arrives(Instant),
    /// It reaches its host then, as [`damaged`](crate::damaged) makes it by this seed.
    Damaged(Instant, Seed),
    /// It does not.
    Dropped(Cause),
}

/// Reason for which a copy does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// At random, alone.
    Lost,
    /// At random, with all others.
    Shared,
    /// In a bad time of its receiver.
    Burst,
    /// Packets of this sender had been doomed.
    Doomed,
    /// The network is split.
    Split,
    /// The receiver's port of the switch was full.
    Queue,
    /// Between two places.
    Site,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 7] = [
        Self::Lost,
        Self::Shared,
        Self::Burst,
        Self::Doomed,
        Self::Split,
        Self::Queue,
        Self::Site,
    ];
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lost => "lost",
            Self::Shared => "lost for all",
            Self::Burst => "lost in a burst",
            Self::Doomed => "doomed",
            Self::Split => "split",
            Self::Queue => "switch queue full",
            Self::Site => "lost between places",
        })
    }
}

/// Counts of what the network has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NetworkCounters {
    /// Datagrams given to the network.
    pub sent: u64,
    /// Copies on their way to a host.
    pub copies: u64,
    /// Copies dropped, by [`Cause`].
    pub dropped: [u64; Cause::ALL.len()],
    /// Datagrams larger than the MTU.
    pub oversized: u64,
    /// Copies damaged or cut short.
    pub damaged: u64,
    /// Copies doubled.
    pub duplicated: u64,
    /// Copies held back so that others overtake them.
    pub reordered: u64,
    /// Copies held up on a clogged link.
    pub clogged: u64,
    /// Datagrams of the membership protocol held up.
    pub lagged: u64,
    /// Copies dropped because the receiver's buffer was full.
    pub overflowed: u64,
    /// Copies that came to a host that was asleep.
    pub slept_through: u64,
    /// Of the copies that did not reach a running host: those of data packets.
    pub data_lost: u64,
    /// Copies of data packets missed by hosts that wait for the switch to let them join.
    pub data_unheard: u64,
    /// Copies of data packets so late that later ones may have come before.
    pub data_late: u64,
}

impl NetworkCounters {
    /// Copies dropped for this cause.
    #[must_use]
    pub fn of(&self, cause: Cause) -> u64 {
        self.dropped[cause as usize]
    }

    /// Copies lost at random, alone or with all others.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.dropped.iter().sum::<u64>() - self.of(Cause::Split)
    }

    /// Adds what another network has done.
    pub fn add(&mut self, other: &Self) {
        for (sum, more) in self.dropped.iter_mut().zip(other.dropped) {
            *sum += more;
        }
        self.sent += other.sent;
        self.copies += other.copies;
        self.oversized += other.oversized;
        self.damaged += other.damaged;
        self.duplicated += other.duplicated;
        self.reordered += other.reordered;
        self.clogged += other.clogged;
        self.lagged += other.lagged;
        self.overflowed += other.overflowed;
        self.slept_through += other.slept_through;
        self.data_lost += other.data_lost;
        self.data_unheard += other.data_unheard;
        self.data_late += other.data_late;
    }
}
