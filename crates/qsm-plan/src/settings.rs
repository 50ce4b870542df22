use core::ops::RangeInclusive;
use core::time::Duration;

/// CPU time that the parts of a plan cost, in nanoseconds. [`Costs::of_packets`] makes them of what a
/// machine has measured (algorithms (a), step 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Costs {
    /// A packet sent by multicast.
    pub packet: u32,
    /// A packet that reaches a node that does not want it.
    pub unwanted: u32,
    /// A copy sent to one member, with its acknowledgement and its repairs.
    pub copy: u32,
    /// A region, for each second: its rounds, its leader, its streams at senders.
    pub region: u32,
    /// A node that changes its region: two views, a join and a leave of the address.
    pub relocation: u32,
}

impl Costs {
    /// Range of [`Costs::packet`] that a machine may have, nanoseconds: from less than any system call takes
    /// to far more than a slow machine needs.
    pub const PACKET_NS: RangeInclusive<u32> = 200..=100_000;
    /// Range of [`Costs::unwanted`], likewise.
    pub const UNWANTED_NS: RangeInclusive<u32> = 50..=50_000;

    /// Costs of a machine on which a packet sent, and one that is not wanted, take so many nanoseconds.
    /// The others are to a packet as in the defaults: nobody measures them. A value out of its range
    /// ([`Costs::PACKET_NS`], [`Costs::UNWANTED_NS`]) becomes the nearest within.
    #[must_use]
    pub fn of_packets(packet: u32, unwanted: u32) -> Self {
        let packet = packet.clamp(*Self::PACKET_NS.start(), *Self::PACKET_NS.end());
        let unwanted = unwanted.clamp(*Self::UNWANTED_NS.start(), *Self::UNWANTED_NS.end());
        let defaults = Self::default();
        let scaled = |cost: u32| {
            let cost = u64::from(cost) * u64::from(packet) / u64::from(defaults.packet);
            u32::try_from(cost).unwrap_or(u32::MAX)
        };
        Self {
            packet,
            unwanted,
            copy: scaled(defaults.copy),
            region: scaled(defaults.region),
            relocation: scaled(defaults.relocation),
        }
    }

    /// One message to all of `size` nodes, of which `count` want it: CPU time, nanoseconds.
    #[inline]
    #[must_use]
    pub fn channel(&self, size: u64, count: u64) -> u64 {
        u64::from(self.packet) + u64::from(self.unwanted) * size.saturating_sub(count)
    }

    /// One message as copies to `count` nodes: CPU time, nanoseconds.
    #[inline]
    #[must_use]
    pub fn copies(&self, count: u64) -> u64 {
        u64::from(self.copy) * count
    }
}

impl Default for Costs {
    fn default() -> Self {
        Self {
            packet: 5_000,
            unwanted: 1_500,
            copy: 6_000,
            region: 50_000,
            relocation: 20_000,
        }
    }
}

/// Everything that a planner can be told at its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Costs of packets, copies, regions.
    pub costs: Costs,
    /// Odd groups of a node are served by copies. Without, whoever is in a region receives all
    /// that is sent to it.
    pub residue: bool,
    /// Multicast addresses that may be in use (R231). With fewer than the plan could use, groups
    /// share channels or are sent by copies (R195); with none everything is.
    pub addresses: usize,
    /// Channels of several regions that a node is in, beside its region's own.
    pub ancestors: usize,
    /// Least savings of a change of regions, percent of their cost.
    pub hysteresis: u32,
    /// Time for which it must have been able to save that.
    pub hold: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            costs: Costs::default(),
            residue: true,
            addresses: 512,
            ancestors: 3,
            hysteresis: 20,
            hold: Duration::from_secs(10),
        }
    }
}

/// The highest cost of one thing: sums of a plan then fit their integers.
const COST_MAX: u32 = 1_000_000_000;

/// Settings that a planner cannot work with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettingsError {
    /// A packet, a copy or a region costs nothing, so that any plan is as good as another, or more
    /// than a second.
    Cost {
        /// The cost's name.
        name: &'static str,
        /// The value given, nanoseconds.
        got: u32,
    },
    /// No change can save this much.
    Hysteresis {
        /// The value given, percent.
        got: u32,
    },
}

impl core::fmt::Display for SettingsError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Cost { name, got } => write!(
                f,
                "a cost of {got} ns for a {name} is not between 1 and {COST_MAX}; give the time that \
                 it takes of a CPU"
            ),
            Self::Hysteresis { got } => write!(
                f,
                "a hysteresis of {got} % lets nothing change; give less than 100"
            ),
        }
    }
}

impl core::error::Error for SettingsError {}

impl Settings {
    /// Checks everything that can be wrong.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn check(&self) -> Result<(), SettingsError> {
        let costs = [
            ("packet", self.costs.packet),
            ("copy", self.costs.copy),
            ("region", self.costs.region),
            ("relocation", self.costs.relocation.max(1)),
            ("packet that is not wanted", self.costs.unwanted.max(1)),
        ];
        let wrong = costs
            .into_iter()
            .find(|(_, cost)| !(1..=COST_MAX).contains(cost));
        if let Some((name, got)) = wrong {
            return Err(SettingsError::Cost { name, got });
        }
        if self.hysteresis >= 100 {
            return Err(SettingsError::Hysteresis {
                got: self.hysteresis,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_follow_those_of_packets_within_their_range() {
        let defaults = Costs::default();
        let same = Costs::of_packets(defaults.packet, defaults.unwanted);
        assert_eq!(same, defaults);
        let slow = Costs::of_packets(10_000, 2_000);
        assert_eq!((slow.packet, slow.unwanted), (10_000, 2_000));
        assert_eq!(
            (slow.copy, slow.region, slow.relocation),
            (12_000, 100_000, 40_000)
        );
        for extreme in [0, u32::MAX] {
            let costs = Costs::of_packets(extreme, extreme);
            assert!(Costs::PACKET_NS.contains(&costs.packet), "{costs:?}");
            assert!(Costs::UNWANTED_NS.contains(&costs.unwanted), "{costs:?}");
            let settings = Settings {
                costs,
                ..Settings::default()
            };
            assert_eq!(settings.check(), Ok(()));
        }
    }

    #[test]
    fn the_defaults_work_and_nonsense_is_named() {
        assert_eq!(Settings::default().check(), Ok(()));
        let mut settings = Settings::default();
        settings.costs.copy = 0;
        let error = settings.check().unwrap_err();
        assert!(error.to_string().contains("0 ns for a copy"), "{error}");
        settings = Settings::default();
        settings.hysteresis = 100;
        assert_eq!(
            settings.check(),
            Err(SettingsError::Hysteresis { got: 100 })
        );
    }
}
