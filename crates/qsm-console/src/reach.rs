//! Members that multicast does not reach, as lines for people.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use qsm::{Deafness, Origin};

use crate::table::printable;

/// What to do where multicast does not pass; with the page that says more.
pub const REMEDY: &str = "let UDP to that address and port through the firewalls of both hosts, and \
                          let a switch that snoops IGMP have a querier (docs/operate/multicast.md)";
/// Members that a line names.
const SHOWN: usize = 4;
/// Members that are remembered.
const MEMBERS_MAX: usize = 1 << 12;

/// Names of nodes, as others learn them.
#[derive(Debug, Clone, Default)]
pub struct Names(Arc<Mutex<BTreeMap<Origin, String>>>);

impl Names {
    /// Names kept.
    const MAX: usize = 1 << 16;

    /// A node calls itself so.
    pub fn learn(&self, origin: Origin, name: String) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if names.len() < Self::MAX {
            names.insert(origin, name);
        }
    }

    /// A node's name for people, or its identity.
    #[must_use]
    pub fn of(&self, origin: Origin) -> String {
        match self.get(origin) {
            Some(name) => printable(&name),
            None => format!("node {origin}"),
        }
    }

    /// The name of a node, if that is known.
    #[must_use]
    pub fn get(&self, origin: Origin) -> Option<String> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&origin).cloned()
    }
}

/// The members that a node's multicast does not reach at present.
#[derive(Debug, Default)]
pub(crate) struct Unheard(BTreeMap<Origin, Deafness>);

impl Unheard {
    pub(crate) fn begin(&mut self, deafness: &Deafness) {
        if !deafness.here && self.0.len() < MEMBERS_MAX {
            self.0.insert(deafness.listener, *deafness);
        }
    }

    pub(crate) fn end(&mut self, deafness: &Deafness) {
        self.0.remove(&deafness.listener);
    }

    /// Which members, and by which address; `None`: there are none.
    pub(crate) fn sentence(&self, names: &Names) -> Option<String> {
        let address = self.0.values().next()?.address;
        let shown: Vec<String> = self
            .0
            .keys()
            .take(SHOWN)
            .map(|one| names.of(*one))
            .collect();
        let more = match self.0.len() - shown.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "multicast to {address} does not reach {}{more}",
            shown.join(", ")
        ))
    }
}

/// A line about multicast that does not arrive.
#[must_use]
pub(crate) fn deaf(deafness: &Deafness, names: &Names) -> String {
    let Deafness { address, .. } = deafness;
    match deafness.here {
        true => format!(
            "DEAF: multicast of {} to {address} does not reach this node, which lives on repairs; \
             {REMEDY}",
            peer(deafness, names)
        ),
        false => format!(
            "NOT HEARD: multicast of this node to {address} does not reach {}; {REMEDY}",
            peer(deafness, names)
        ),
    }
}

/// A line about the end of it.
#[must_use]
pub(crate) fn hears(deafness: &Deafness, names: &Names) -> String {
    let peer = peer(deafness, names);
    match deafness.here {
        true => format!("multicast of {peer} reaches this node again, or it is gone"),
        false => format!("multicast of this node reaches {peer} again, or it is gone"),
    }
}

/// The other one, and where it is.
fn peer(deafness: &Deafness, names: &Names) -> String {
    let who = match deafness.here {
        true => deafness.speaker,
        false => deafness.listener,
    };
    let name = names.of(who);
    match deafness.peer {
        Some(at) => format!("{name} at {at}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId, RegionId};

    use super::*;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn deafness(listener: u64, here: bool) -> Deafness {
        Deafness {
            region: RegionId(1),
            address: "239.192.0.1:4482".parse().unwrap(),
            listener: origin(listener),
            speaker: origin(1),
            peer: Some("10.0.0.9:5000".parse().unwrap()),
            here,
        }
    }

    #[test]
    fn both_sides_name_the_other_one_the_address_and_the_remedy() {
        let names = Names::default();
        names.learn(origin(9), "sink\n".to_owned());
        let line = deaf(&deafness(9, false), &names);
        let begin = "NOT HEARD: multicast of this node to 239.192.0.1:4482 does not reach sink\\n at \
                     10.0.0.9:5000; let UDP";
        assert!(line.starts_with(begin), "{line}");
        let line = deaf(&deafness(9, true), &names);
        let begin = "DEAF: multicast of node 1.1 at 10.0.0.9:5000 to 239.192.0.1:4482 does not reach \
                     this node";
        assert!(line.starts_with(begin), "{line}");
    }

    #[test]
    fn members_are_unheard_until_they_hear() {
        let (names, mut unheard) = (Names::default(), Unheard::default());
        assert_eq!(unheard.sentence(&names), None);
        for listener in 2..8 {
            unheard.begin(&deafness(listener, false));
        }
        unheard.begin(&deafness(1, true));
        let all = "multicast to 239.192.0.1:4482 does not reach node 2.1, node 3.1, node 4.1, \
                   node 5.1 and 2 more";
        assert_eq!(unheard.sentence(&names).as_deref(), Some(all));
        for listener in 3..8 {
            unheard.end(&deafness(listener, false));
        }
        let one = "multicast to 239.192.0.1:4482 does not reach node 2.1";
        assert_eq!(unheard.sentence(&names).as_deref(), Some(one));
    }
}
