//! Members that multicast does not reach, as lines for people.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, SystemTime};

use qsm::{Deafness, Event, Origin};

use crate::names::Names;
use crate::restraint::{Restraint, Told};

/// What to do where multicast does not pass; with the page that says more.
pub const REMEDY: &str = "let UDP to that address and port through the firewalls of both hosts, and \
                          let a switch that snoops IGMP have a querier (docs/operate/multicast.md)";
/// Time that a line waits for the name of a node.
const PATIENCE: Duration = Duration::from_millis(500);
/// Lines that wait.
const WAITING_MAX: usize = 1 << 10;
/// Members that a line names.
const SHOWN: usize = 4;
/// Members that are remembered.
const MEMBERS_MAX: usize = 1 << 12;

/// What a node hears of others, and they of it.
#[derive(Debug, Default)]
pub(crate) struct Earshot {
    /// Those that do not hear it.
    pub(crate) unheard: Unheard,
    /// Events of nodes that come and go; by who it is, and whether this node is the listener.
    restraint: Restraint<(Origin, bool), Waiting>,
    /// Events to be told, as soon as the other one's name is known.
    waiting: VecDeque<Told<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    deafness: Deafness,
    /// It hears again.
    hears: bool,
    until: SystemTime,
    /// Lists of nodes that had come by then.
    lists: u64,
}

impl Earshot {
    /// Takes note of what happened.
    pub(crate) fn take(&mut self, event: &Event, now: SystemTime, names: &Names) {
        let (deafness, hears) = match event {
            Event::Deaf(deafness) => (*deafness, false),
            Event::Hears(deafness) => (*deafness, true),
            _ => return,
        };
        match hears {
            true => self.unheard.end(&deafness),
            false => self.unheard.begin(&deafness),
        }
        let waiting = Waiting {
            deafness,
            hears,
            until: now + PATIENCE,
            lists: names.lists(),
        };
        let subject = (other(&deafness), deafness.here);
        let told = self.restraint.take(subject, waiting, now);
        told.into_iter().for_each(|told| self.tell(told));
    }

    fn tell(&mut self, told: Told<Waiting>) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(told);
        }
    }

    /// The next line. Where nobody asks for names (`None`), none waits for one.
    pub(crate) fn next(&mut self, now: SystemTime, names: Option<&Names>) -> Option<String> {
        for told in self.restraint.due(now) {
            self.tell(told);
        }
        let asked = names.is_some();
        let nobody = Names::default();
        let names = names.unwrap_or(&nobody);
        let one = &self.waiting.front()?.notice;
        let known = !one.hears && names.get(other(&one.deafness)).is_some();
        if asked && !known && names.lists() == one.lists && now < one.until {
            return None;
        }
        let told = self.waiting.pop_front()?;
        let suffix = told.suffix();
        let Waiting {
            deafness,
            hears: again,
            lists,
            ..
        } = told.notice;
        let line = match again {
            false => deaf(&deafness, names),
            true if names.lists() > lists => match names.is_there(other(&deafness)) {
                true => hears(&deafness, names),
                false => gone(&deafness, names),
            },
            true => format!("{}, or it is gone", hears(&deafness, names)),
        };
        Some(line + &suffix)
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
fn deaf(deafness: &Deafness, names: &Names) -> String {
    let Deafness { address, .. } = deafness;
    match deafness.here {
        true => format!(
            "DEAF: multicast of {} to {address} does not reach this node, which gets copies by unicast; \
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
fn hears(deafness: &Deafness, names: &Names) -> String {
    let peer = peer(deafness, names);
    match deafness.here {
        true => format!("multicast of {peer} reaches this node again"),
        false => format!("multicast of this node reaches {peer} again"),
    }
}

/// A line about the end of the other one.
fn gone(deafness: &Deafness, names: &Names) -> String {
    let peer = peer(deafness, names);
    match deafness.here {
        true => format!("{peer}, whose multicast did not reach this node, is gone"),
        false => format!("{peer}, which multicast of this node did not reach, is gone"),
    }
}

/// The other one.
fn other(deafness: &Deafness) -> Origin {
    match deafness.here {
        true => deafness.speaker,
        false => deafness.listener,
    }
}

/// The other one, and where it is.
fn peer(deafness: &Deafness, names: &Names) -> String {
    let name = names.of(other(deafness));
    match deafness.peer {
        Some(at) => format!("{name} at {at}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId, NodeRow, RegionId};

    use super::*;
    use crate::restraint;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn row(node: u64, name: &str) -> NodeRow {
        NodeRow {
            origin: origin(node),
            name: name.to_owned(),
            address: ([10, 0, 0, 9], 5000).into(),
            region: None,
            subscriptions: 0,
            publications: 0,
            away: None,
            deaf: false,
            about: None,
            rates: None,
            grant: None,
            description: None,
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
        names.learn(vec![row(9, "sink\n")]);
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
    fn a_line_waits_for_a_name_and_says_if_the_other_one_is_gone() {
        let (names, mut earshot) = (Names::default(), Earshot::default());
        let start = SystemTime::UNIX_EPOCH;
        let one = deafness(9, false);
        earshot.take(&Event::Deaf(one), start, &names);
        assert_eq!(earshot.next(start, Some(&names)), None);
        names.learn(vec![row(9, "sink")]);
        let line = earshot.next(start, Some(&names)).unwrap_or_default();
        assert!(line.contains("does not reach sink at"), "{line}");
        // Not before ten seconds have passed.
        let start = start + restraint::PAUSE;
        earshot.take(&Event::Hears(one), start, &names);
        assert_eq!(earshot.next(start, Some(&names)), None);
        let again = "multicast of this node reaches sink at 10.0.0.9:5000 again";
        let unsure = format!("{again}, or it is gone");
        assert_eq!(earshot.next(start + PATIENCE, Some(&names)), Some(unsure));
        let mut start = start;
        let mut end = |rows: &[NodeRow]| {
            start += restraint::PAUSE;
            earshot.take(&Event::Hears(one), start, &names);
            names.learn(rows.to_vec());
            earshot.next(start, Some(&names)).unwrap_or_default()
        };
        assert_eq!(end(&[row(9, "sink")]), again);
        assert!(end(&[]).starts_with("sink at 10.0.0.9:5000, which"));
    }

    #[test]
    fn where_nobody_asks_for_names_no_line_waits() {
        let (mut earshot, now) = (Earshot::default(), SystemTime::UNIX_EPOCH);
        earshot.take(&Event::Hears(deafness(9, true)), now, &Names::default());
        let line = earshot.next(now, None).unwrap_or_default();
        assert!(line.ends_with("again, or it is gone"), "{line}");
    }

    #[test]
    fn who_comes_and_goes_is_told_of_once_in_ten_seconds() {
        let (names, mut earshot) = (Names::default(), Earshot::default());
        let start = SystemTime::UNIX_EPOCH;
        let one = deafness(9, false);
        let mut lines = Vec::new();
        for second in 0..20 {
            let now = start + Duration::from_secs(second);
            let event = match second % 2 {
                0 => Event::Deaf(one),
                _ => Event::Hears(one),
            };
            earshot.take(&event, now, &names);
            lines.extend(core::iter::from_fn(|| earshot.next(now, None)));
        }
        assert_eq!(lines.len(), 2, "{lines:?}");
        let suffix = "it comes and goes: 10 changes in 10 s";
        assert!(lines[1].ends_with(suffix), "{lines:?}");
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
