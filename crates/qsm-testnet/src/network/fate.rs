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
    /// It was multicast, which does not pass there.
    Filtered,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 8] = [
        Self::Lost,
        Self::Shared,
        Self::Burst,
        Self::Doomed,
        Self::Split,
        Self::Queue,
        Self::Site,
        Self::Filtered,
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
            Self::Filtered => "multicast filtered",
        })
    }
}

qsm_metrics::metrics! {
    /// Counts of what the network has done.
    #[derive(Copy)]
    pub struct NetworkCounters of "network" {
        /// Datagrams given to the network.
        sent: counter(datagrams),
        /// Copies on their way to a host.
        copies: counter(copies),
        /// Copies dropped, by [`Cause`].
        dropped: group(DropCounters),
        /// Datagrams larger than the MTU.
        oversized: counter(datagrams),
        /// Copies damaged or cut short.
        damaged: counter(copies),
        /// Copies doubled.
        duplicated: counter(copies),
        /// Copies held back so that others overtake them.
        reordered: counter(copies),
        /// Copies held up on a clogged link.
        clogged: counter(copies),
        /// Datagrams of the membership protocol held up.
        lagged: counter(datagrams),
        /// Copies dropped because the receiver's buffer was full.
        overflowed: counter(copies),
        /// Copies that came to a host that was asleep.
        slept_through: counter(copies),
        /// Of the copies that did not reach a running host: those of data packets.
        data_lost: counter(copies),
        /// Copies of data packets missed by hosts that wait for the switch to let them join.
        data_unheard: counter(copies),
        /// Copies of data packets so late that later ones may have come before.
        data_late: counter(copies),
    }
}

qsm_metrics::metrics! {
    /// Copies dropped, by [`Cause`].
    #[derive(Copy)]
    pub struct DropCounters of "drop" {
        /// At random, alone.
        lost: counter(copies),
        /// At random, with all others.
        shared: counter(copies),
        /// In a bad time of their receiver.
        burst: counter(copies),
        /// Doomed beforehand.
        doomed: counter(copies),
        /// The network was split.
        split: counter(copies),
        /// The receiver's port of the switch was full.
        queue: counter(copies),
        /// Between two places.
        site: counter(copies),
        /// Multicast where only unicast passed.
        filtered: counter(copies),
    }
}

impl DropCounters {
    /// The count of this cause.
    pub(crate) fn of(&mut self, cause: Cause) -> &mut u64 {
        match cause {
            Cause::Lost => &mut self.lost,
            Cause::Shared => &mut self.shared,
            Cause::Burst => &mut self.burst,
            Cause::Doomed => &mut self.doomed,
            Cause::Split => &mut self.split,
            Cause::Queue => &mut self.queue,
            Cause::Site => &mut self.site,
            Cause::Filtered => &mut self.filtered,
        }
    }
}

impl NetworkCounters {
    /// Copies dropped for this cause.
    #[must_use]
    pub fn of(mut self, cause: Cause) -> u64 {
        *self.dropped.of(cause)
    }

    /// Copies lost on the way: dropped for any cause but a split.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let causes = Cause::ALL.into_iter();
        let lost = causes.filter(|cause| *cause != Cause::Split);
        lost.map(|cause| self.of(cause)).sum()
    }
}
