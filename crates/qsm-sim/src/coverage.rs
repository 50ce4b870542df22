use crate::faults::{Fault, Garbage};

macro_rules! coverage {
    ($($(#[doc = $help:literal])* $name:ident,)*) => {
        /// How often each fault has really happened. A swarm in which one of them never does has
        /// not tested it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Coverage {
            $($(#[doc = $help])* pub $name: u64,)*
            /// Bad datagrams, by [`Garbage`].
            pub garbage: [u64; Garbage::ALL.len()],
        }

        impl Coverage {
            /// Name and count of every fault but garbage.
            pub fn rows(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }

            /// Adds what has happened in another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
                for (sum, more) in self.garbage.iter_mut().zip(other.garbage) {
                    *sum += more;
                }
            }
        }
    };
}

coverage! {
    /// Nodes that crashed.
    crashes,
    /// Crashes of the membership service.
    service_crashes,
    /// Processes started again under their old node id.
    restarts_same_node,
    /// Processes started again under a new node id.
    restarts_new_node,
    /// Nodes closed in order.
    closes,
    /// Hosts that stood still.
    freezes,
    /// Times in which the membership service stood still.
    service_freezes,
    /// Hosts that slept.
    sleeps,
    /// Hosts that were slow.
    slowdowns,
    /// Network splits in both directions.
    splits_both_ways,
    /// Network splits in one direction.
    splits_one_way,
    /// Ends of splits.
    heals,
    /// Links clogged.
    clogs,
    /// Times in which the path was narrow.
    narrows,
    /// Packets doomed.
    doomed,
    /// Roles taken up.
    enters,
    /// Roles given up.
    exits,
}

impl Coverage {
    /// A fault happens.
    pub(crate) fn count(&mut self, fault: &Fault) {
        let counter = match fault {
            Fault::Crash { host: 0 } => &mut self.service_crashes,
            Fault::Crash { .. } => &mut self.crashes,
            Fault::Restart {
                same_node: true, ..
            } => &mut self.restarts_same_node,
            Fault::Restart { .. } => &mut self.restarts_new_node,
            Fault::Close { .. } => &mut self.closes,
            Fault::Freeze { host: 0, .. } | Fault::Sleep { host: 0, .. } => {
                &mut self.service_freezes
            }
            Fault::Freeze { .. } => &mut self.freezes,
            Fault::Sleep { .. } => &mut self.sleeps,
            Fault::Slow { .. } => &mut self.slowdowns,
            Fault::Clog { .. } => &mut self.clogs,
            Fault::Narrow { .. } => &mut self.narrows,
            Fault::Split {
                both_ways: true, ..
            } => &mut self.splits_both_ways,
            Fault::Split { .. } => &mut self.splits_one_way,
            Fault::Heal => &mut self.heals,
            Fault::Doom { packets, .. } => {
                self.doomed += u64::from(*packets);
                return;
            }
            // Garbage is counted piece by piece when it is made; hosts of drawn runs are on one
            // network.
            Fault::Garbage { .. } | Fault::Outage { .. } => return,
        };
        *counter += 1;
    }

    /// A role is taken up or given up.
    pub(crate) fn change(&mut self, enter: bool) {
        *if enter {
            &mut self.enters
        } else {
            &mut self.exits
        } += 1;
    }
}
