//! Hints: the designer knows better than a cost model (R021).

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_wire::{GroupId, NodeId};

use crate::origin::{Proven, demand_of};
use crate::pace::{GroupPace, pace_of, span};

/// Finds nodes and groups by the names that a file of hints has for them.
pub trait Names {
    /// The node of this name.
    fn node(&self, name: &str) -> Option<NodeId>;
    /// The group of this name.
    fn group(&self, name: &str) -> Option<GroupId>;
}

/// Groups that are sent on one channel of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// The channel's name.
    pub name: String,
    /// The line that says so.
    pub line: usize,
    /// The groups.
    pub groups: Vec<GroupId>,
}

/// Time after which messages of groups are not repaired any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lifetime {
    /// The groups: a name, or the beginning of names in front of a `*`.
    pub names: String,
    /// The line that says so.
    pub line: usize,
    /// The time, whole milliseconds.
    pub time: Duration,
}

/// Groups with a pace of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paced {
    /// The groups: a name, or the beginning of names in front of a `*`.
    pub names: String,
    /// The line that says so.
    pub line: usize,
    /// The pace.
    pub pace: GroupPace,
}

/// Hints of the designer: pins, nodes that are together or apart, and security domains.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    pins: Vec<Pin>,
    lifetimes: Vec<Lifetime>,
    paces: Vec<Paced>,
    origins: Vec<Proven>,
    /// By node: the lines that keep it apart from others.
    apart: BTreeMap<NodeId, Vec<u32>>,
    /// By node: the set it has to be together with, and the sets' nodes.
    together: BTreeMap<NodeId, u32>,
    domains: BTreeMap<NodeId, u32>,
    domain_names: Vec<String>,
}

/// A file of hints that cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum HintError {
    /// A line is none of the seven kinds, or names nothing.
    Syntax {
        /// The line.
        line: usize,
        /// Its text.
        text: String,
    },
    /// No node has this name.
    Node {
        /// The line.
        line: usize,
        /// The name.
        name: String,
    },
    /// No group has this name.
    Group {
        /// The line.
        line: usize,
        /// The name.
        name: String,
    },
    /// A group is pinned to two channels.
    PinnedTwice {
        /// The group.
        group: String,
        /// The lines.
        lines: [usize; 2],
    },
    /// A lifetime is none.
    Lifetime {
        /// The line.
        line: usize,
        /// The time as it is written.
        time: String,
    },
    /// Groups have two lifetimes.
    TwoLifetimes {
        /// The groups, as both lines name them.
        group: String,
        /// The lines.
        lines: [usize; 2],
    },
    /// A pace is none.
    Pace {
        /// The line.
        line: usize,
        /// The pace as it is written.
        pace: String,
    },
    /// Groups have two paces.
    TwoPaces {
        /// The groups, as both lines name them.
        group: String,
        /// The lines.
        lines: [usize; 2],
    },
    /// A demand for proof of origin is none.
    Origin {
        /// The line.
        line: usize,
        /// The demand as it is written.
        demand: String,
    },
    /// Groups have two demands for proof of origin.
    TwoOrigins {
        /// The groups, as both lines name them.
        group: String,
        /// The lines.
        lines: [usize; 2],
    },
    /// Two nodes are to be together and apart.
    TogetherAndApart {
        /// The nodes.
        nodes: [String; 2],
        /// The lines: that of `together`, and that of `apart`.
        lines: [usize; 2],
    },
    /// Nodes of different security domains are to be together.
    TogetherAcrossDomains {
        /// The nodes.
        nodes: [String; 2],
        /// The line of `together`.
        line: usize,
    },
    /// A node is in two security domains.
    TwoDomains {
        /// The node.
        node: String,
        /// The lines.
        lines: [usize; 2],
    },
    /// A membership service is to keep nodes together and to pin groups.
    TogetherAndPinned {
        /// The lines: the first of `together`, and the first of `pin`.
        lines: [usize; 2],
    },
}

impl core::fmt::Display for HintError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Syntax { line, text } => write!(
                f,
                "line {line}: `{text}` is no hint; write `pin CHANNEL: GROUP…`, `together: NODE…`, \
                 `apart: NODE…`, `domain NAME: NODE…`, `lifetime TIME: GROUP…`, `pace …: GROUP…` or \
                 `origin …: GROUP…`"
            ),
            Self::Node { line, name } => write!(
                f,
                "line {line}: no node is called {name}; check it against the subscriptions"
            ),
            Self::Group { line, name } => write!(
                f,
                "line {line}: no group is called {name}; check it against the subscriptions"
            ),
            Self::PinnedTwice { group, lines } => {
                twice(f, *lines, group, "is pinned to two channels")
            }
            Self::Lifetime { line, time } => write!(
                f,
                "line {line}: `{time}` is no lifetime; write a whole number and its unit, from 1ms \
                 to 24h, as in `200ms`, `5s`, `10min` or `2h`"
            ),
            Self::TwoLifetimes { group, lines } => twice(f, *lines, group, "has two lifetimes"),
            Self::Pace { line, pace } => write!(
                f,
                "line {line}: `{pace}` is no pace; write `slowest`, `uncontrolled`, or `bounded` and a \
                 time from 1s to 24h, as in `bounded 10s`, with or without what becomes of who is slow \
                 for longer, as in `bounded 10s then demote` (or `then expel`, `then apart`), or the \
                 packets that each sender may send in a second all the same, as in \
                 `bounded 10s min 2000/s`"
            ),
            Self::TwoPaces { group, lines } => twice(f, *lines, group, "has two paces"),
            Self::Origin { line, demand } => write!(
                f,
                "line {line}: `{demand}` is no demand for proof of origin; write `off`, `audit` or `verified`"
            ),
            Self::TwoOrigins { group, lines } => {
                twice(f, *lines, group, "has two demands for proof of origin")
            }
            Self::TogetherAndApart {
                nodes: [one, two],
                lines: [together, apart],
            } => write!(
                f,
                "lines {together} and {apart}: {one} and {two} are to be together and apart; remove \
                 one of the hints"
            ),
            Self::TogetherAcrossDomains {
                nodes: [one, two],
                line,
            } => write!(
                f,
                "line {line}: {one} and {two} are of different security domains, which never share \
                 a region; remove one of them from this line"
            ),
            Self::TwoDomains { node, lines } => {
                twice(f, *lines, node, "is in two security domains")
            }
            Self::TogetherAndPinned {
                lines: [together, pin],
            } => write!(
                f,
                "lines {together} and {pin}: a running service cannot both keep nodes together, which \
                 then get all their groups in one region, and give groups a channel of their own; \
                 remove the `together` lines or the `pin` lines"
            ),
        }
    }
}

/// A name is in two lines, of which one is too many.
fn twice(
    f: &mut core::fmt::Formatter<'_>,
    lines: [usize; 2],
    name: &str,
    what: &str,
) -> core::fmt::Result {
    let [one, two] = lines;
    write!(
        f,
        "lines {one} and {two}: {name} {what}; remove it from one"
    )
}

impl core::error::Error for HintError {}

/// A hint as it is written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    /// Its line.
    pub(crate) line: usize,
    /// The words before the colon.
    pub(crate) head: &'a [&'a str],
    /// Those after it.
    pub(crate) rest: &'a [&'a str],
}

impl Written<'_> {
    fn wrong(&self) -> HintError {
        let text = format!("{}: {}", self.head.join(" "), self.rest.join(" "));
        HintError::Syntax {
            line: self.line,
            text: text.trim_end().to_owned(),
        }
    }
}

/// A line's nodes, by name.
type Line = (usize, Vec<(String, NodeId)>);

/// Hints while they are read.
#[derive(Default)]
pub(crate) struct Reader {
    hints: Hints,
    pinned: BTreeMap<GroupId, usize>,
    together: Vec<Line>,
    apart: Vec<Line>,
    domain_lines: BTreeMap<NodeId, usize>,
}

impl Hints {
    /// Reads a file of hints; `docs/operate/planning.md` has the grammar.
    ///
    /// # Errors
    /// A line cannot be understood, or lines contradict each other.
    pub fn parse(text: &str, names: &dyn Names) -> Result<Self, HintError> {
        let mut reader = Reader::default();
        for (line, text) in lines(text) {
            let (head, rest) = words(line, text)?;
            let (head, rest) = (&head[..], &rest[..]);
            reader.take(Written { line, head, rest }, names)?;
        }
        reader.finish()
    }

    /// Groups with a channel of their own.
    #[must_use]
    pub fn pins(&self) -> &[Pin] {
        &self.pins
    }

    /// Groups whose messages have a lifetime. A plan does not follow them.
    #[must_use]
    pub fn lifetimes(&self) -> &[Lifetime] {
        &self.lifetimes
    }

    /// Groups with a pace of their own. A plan does not follow them.
    #[must_use]
    pub fn paces(&self) -> &[Paced] {
        &self.paces
    }

    /// Groups that demand proof of origin, or none. A plan does not follow them.
    #[must_use]
    pub fn origins(&self) -> &[Proven] {
        &self.origins
    }

    /// The security domain of a node; 0: the common one.
    #[must_use]
    pub fn domain(&self, node: NodeId) -> u32 {
        self.domains.get(&node).copied().unwrap_or(0)
    }

    /// Puts a node into a security domain; 0: the common one.
    pub(crate) fn put(&mut self, node: NodeId, domain: u32) {
        match domain {
            0 => self.domains.remove(&node),
            _ => self.domains.insert(node, domain),
        };
    }

    /// The names of domains; the first one is 1.
    pub(crate) fn domain_names(&self) -> &[String] {
        &self.domain_names
    }

    /// The name of a domain.
    #[must_use]
    pub fn domain_name(&self, domain: u32) -> Option<&str> {
        let at = (domain as usize).checked_sub(1)?;
        self.domain_names.get(at).map(String::as_str)
    }

    /// The hints that keep a node apart from others.
    pub(crate) fn apart_of(&self, node: NodeId) -> &[u32] {
        self.apart.get(&node).map_or(&[], Vec::as_slice)
    }

    /// The set of nodes that a node has to be together with.
    pub(crate) fn together_of(&self, node: NodeId) -> Option<u32> {
        self.together.get(&node).copied()
    }

    /// The nodes that a node has to be together with.
    pub(crate) fn companions(&self, node: NodeId) -> Vec<NodeId> {
        let Some(set) = self.together_of(node) else {
            return Vec::new();
        };
        let others = self.together.iter();
        let others = others.filter(|(other, of)| **of == set && **other != node);
        others.map(|(other, _)| *other).collect()
    }
}

/// The lines of a file of hints that say something, numbered.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = (1..).zip(text.lines());
    let said = lines.map(|(line, text)| {
        let text = text.split('#').next().unwrap_or_default().trim();
        (line, text)
    });
    said.filter(|(_, text)| !text.is_empty())
}

/// The words of a line before its colon, and those after it.
pub(crate) fn words(line: usize, text: &str) -> Result<(Vec<&str>, Vec<&str>), HintError> {
    let wrong = || HintError::Syntax {
        line,
        text: text.to_owned(),
    };
    let (head, rest) = text.split_once(':').ok_or_else(wrong)?;
    Ok((
        head.split_whitespace().collect(),
        rest.split_whitespace().collect(),
    ))
}

impl Reader {
    /// Reads one hint.
    pub(crate) fn take(&mut self, hint: Written<'_>, names: &dyn Names) -> Result<(), HintError> {
        let (line, rest) = (hint.line, hint.rest);
        if rest.is_empty() {
            return Err(hint.wrong());
        }
        match *hint.head {
            ["pin", channel] => self.pin(line, channel, rest, names),
            ["together"] => {
                self.together.push((line, nodes(line, rest, names)?));
                Ok(())
            }
            ["apart"] => {
                self.apart.push((line, nodes(line, rest, names)?));
                Ok(())
            }
            ["domain", name] => self.domain(line, name, rest, names),
            ["lifetime", time] => self.lifetime(line, time, rest),
            ["pace", ref pace @ ..] => self.pace(line, pace, rest),
            ["origin", demand] => self.origin(line, demand, rest),
            _ => Err(hint.wrong()),
        }
    }

    /// The hints, if none contradicts another one.
    pub(crate) fn finish(mut self) -> Result<Hints, HintError> {
        self.unite()?;
        self.separate()?;
        Ok(self.hints)
    }

    /// The first line that has nodes together.
    pub(crate) fn first_together(&self) -> Option<usize> {
        self.together.iter().map(|(line, _)| *line).min()
    }

    fn pin(
        &mut self,
        line: usize,
        channel: &str,
        groups: &[&str],
        names: &dyn Names,
    ) -> Result<(), HintError> {
        let mut pinned = Vec::new();
        for name in groups {
            let name = (*name).to_owned();
            let Some(group) = names.group(&name) else {
                return Err(HintError::Group { line, name });
            };
            if let Some(first) = self.pinned.insert(group, line) {
                let lines = [first, line];
                return Err(HintError::PinnedTwice { group: name, lines });
            }
            pinned.push(group);
        }
        let known = self.hints.pins.iter_mut().find(|pin| pin.name == channel);
        match known {
            Some(pin) => pin.groups.extend(pinned),
            None => self.hints.pins.push(Pin {
                name: channel.to_owned(),
                line,
                groups: pinned,
            }),
        }
        Ok(())
    }

    fn lifetime(&mut self, line: usize, time: &str, groups: &[&str]) -> Result<(), HintError> {
        let Some(time) = span(time) else {
            let time = time.to_owned();
            return Err(HintError::Lifetime { line, time });
        };
        let lifetimes = &mut self.hints.lifetimes;
        for name in groups {
            let names = (*name).to_owned();
            if let Some(former) = lifetimes.iter().find(|one| one.names == names) {
                let (group, lines) = (names, [former.line, line]);
                return Err(HintError::TwoLifetimes { group, lines });
            }
            lifetimes.push(Lifetime { names, line, time });
        }
        Ok(())
    }

    fn pace(&mut self, line: usize, pace: &[&str], groups: &[&str]) -> Result<(), HintError> {
        let Some(known) = pace_of(pace) else {
            let pace = pace.join(" ");
            return Err(HintError::Pace { line, pace });
        };
        let paces = &mut self.hints.paces;
        for name in groups {
            let names = (*name).to_owned();
            if let Some(former) = paces.iter().find(|one| one.names == names) {
                let (group, lines) = (names, [former.line, line]);
                return Err(HintError::TwoPaces { group, lines });
            }
            let pace = known;
            paces.push(Paced { names, line, pace });
        }
        Ok(())
    }

    fn origin(&mut self, line: usize, word: &str, groups: &[&str]) -> Result<(), HintError> {
        let Some(demand) = demand_of(word) else {
            let demand = word.to_owned();
            return Err(HintError::Origin { line, demand });
        };
        let origins = &mut self.hints.origins;
        for name in groups {
            let names = (*name).to_owned();
            if let Some(former) = origins.iter().find(|one| one.names == names) {
                let (group, lines) = (names, [former.line, line]);
                return Err(HintError::TwoOrigins { group, lines });
            }
            origins.push(Proven {
                names,
                line,
                demand,
            });
        }
        Ok(())
    }

    fn domain(
        &mut self,
        line: usize,
        name: &str,
        members: &[&str],
        names: &dyn Names,
    ) -> Result<(), HintError> {
        let known = self
            .hints
            .domain_names
            .iter()
            .position(|known| known == name);
        let at = known.unwrap_or_else(|| {
            self.hints.domain_names.push(name.to_owned());
            self.hints.domain_names.len() - 1
        });
        let domain = u32::try_from(at + 1).unwrap_or(u32::MAX);
        for (name, node) in nodes(line, members, names)? {
            let former = self.hints.domains.insert(node, domain);
            let first = self.domain_lines.insert(node, line).unwrap_or(line);
            if former.is_some_and(|former| former != domain) {
                let node = name;
                let lines = [first, line];
                return Err(HintError::TwoDomains { node, lines });
            }
        }
        Ok(())
    }

    /// Lines of `together` that share a node are one set.
    fn unite(&mut self) -> Result<(), HintError> {
        for (set, (line, nodes)) in (0..).zip(&self.together) {
            let known = nodes
                .iter()
                .filter_map(|(_, node)| self.hints.together.get(node));
            let known: Vec<u32> = known.copied().collect();
            for of in self.hints.together.values_mut() {
                if known.contains(of) {
                    *of = set;
                }
            }
            for (_, node) in nodes {
                self.hints.together.insert(*node, set);
            }
            let domain = |node: &NodeId| self.hints.domain(*node);
            if let Some((first, rest)) = nodes.split_first()
                && let Some(other) = rest
                    .iter()
                    .find(|other| domain(&other.1) != domain(&first.1))
            {
                let nodes = [first.0.clone(), other.0.clone()];
                return Err(HintError::TogetherAcrossDomains { nodes, line: *line });
            }
        }
        Ok(())
    }

    /// The first line that has a node together with others.
    fn line_of(&self, node: NodeId) -> Option<usize> {
        let has = |line: &&Line| line.1.iter().any(|(_, other)| *other == node);
        self.together.iter().find(has).map(|line| line.0)
    }

    fn separate(&mut self) -> Result<(), HintError> {
        for (hint, (line, nodes)) in (0..).zip(&self.apart) {
            for (at, (name, node)) in nodes.iter().enumerate() {
                let set = self.hints.together_of(*node);
                let same = |other: &&(String, NodeId)| {
                    other.1 == *node || set.is_some() && self.hints.together_of(other.1) == set
                };
                if let Some((other, _)) = nodes[..at].iter().find(same) {
                    let together = self.line_of(*node).unwrap_or(*line);
                    return Err(HintError::TogetherAndApart {
                        nodes: [other.clone(), name.clone()],
                        lines: [together, *line],
                    });
                }
                // Who has to be where it is, is kept apart from the same.
                let companions = self.hints.companions(*node);
                for node in companions.into_iter().chain([*node]) {
                    self.hints.apart.entry(node).or_default().push(hint);
                }
            }
        }
        Ok(())
    }
}

fn nodes(
    line: usize,
    members: &[&str],
    names: &dyn Names,
) -> Result<Vec<(String, NodeId)>, HintError> {
    let found = members.iter().map(|name| match names.node(name) {
        Some(node) => Ok(((*name).to_owned(), node)),
        None => Err(HintError::Node {
            line,
            name: (*name).to_owned(),
        }),
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::PATIENCE_MIN;

    struct Letters;

    impl Names for Letters {
        fn node(&self, name: &str) -> Option<NodeId> {
            let number: u64 = name.strip_prefix('n')?.parse().ok()?;
            (number < 10).then_some(NodeId(number))
        }

        fn group(&self, name: &str) -> Option<GroupId> {
            name.strip_prefix('g')?.parse().ok().map(GroupId)
        }
    }

    #[test]
    fn hints_are_read() {
        let text = "# a comment\npin fast: g1 g2\n\ntogether: n1 n2\ntogether: n2 n3 # more\n\
                    apart: n1 n4\ndomain red: n8 n9\npin fast: g3\n";
        let hints = Hints::parse(text, &Letters).unwrap();
        assert_eq!(hints.pins().len(), 1);
        assert_eq!(hints.pins()[0].groups, [1, 2, 3].map(GroupId));
        assert_eq!(hints.companions(NodeId(1)), [NodeId(2), NodeId(3)]);
        assert_eq!(
            (hints.apart_of(NodeId(4)), hints.apart_of(NodeId(3))),
            (&[0][..], &[0][..])
        );
        assert_eq!((hints.domain(NodeId(9)), hints.domain(NodeId(1))), (1, 0));
        assert_eq!(hints.domain_name(1), Some("red"));
    }

    #[test]
    fn lifetimes_have_units() {
        let text = "lifetime 200ms: a\nlifetime 5s: b c\nlifetime 10min: d*\nlifetime 24h: e";
        let hints = Hints::parse(text, &Letters).unwrap();
        let lifetimes = hints.lifetimes().iter();
        let times: Vec<(&str, u64)> = lifetimes
            .map(|one| (one.names.as_str(), one.time.as_secs()))
            .collect();
        let expected = [("a", 0), ("b", 5), ("c", 5), ("d*", 600), ("e", 86_400)];
        assert_eq!(times, expected);
        assert_eq!(hints.lifetimes()[0].time, Duration::from_millis(200));
    }

    #[test]
    fn paces_are_read_as_they_are_written() {
        for text in [
            "slowest",
            "bounded 1500ms",
            "bounded 1500ms then demote",
            "bounded 1500ms then expel",
            "bounded 10000ms min 2000/s",
            "uncontrolled",
        ] {
            let hints = Hints::parse(&format!("pace {text}: a"), &Letters).unwrap();
            assert_eq!(hints.paces()[0].pace.to_string(), text);
        }
        let minima = [
            (GroupPace::Slowest, 0),
            (GroupPace::Bounded(PATIENCE_MIN), 0),
            (GroupPace::Demotes(PATIENCE_MIN), 0),
            (GroupPace::Expels(PATIENCE_MIN), 0),
            (GroupPace::Uncontrolled, u32::MAX),
        ];
        for (pace, minimum) in minima {
            assert_eq!(pace.minimum_packets(), minimum, "{pace}");
        }
    }

    #[test]
    fn contradictions_are_named_with_their_lines() {
        for (text, says) in [
            ("near: n1", "line 1: `near: n1` is no hint"),
            ("pin a:", "line 1: `pin a:` is no hint"),
            ("pin a b: g1", "line 1: `pin a b: g1` is no hint"),
            ("\napart: n1 n77", "line 2: no node is called n77"),
            ("pin a: g1 h", "line 1: no group is called h"),
            (
                "pin a: g1\npin b: g2 g1",
                "lines 1 and 2: g1 is pinned to two channels",
            ),
            ("lifetime 200: g1", "line 1: `200` is no lifetime"),
            ("origin signed: g1", "line 1: `signed` is no demand"),
            ("origin: g1", "line 1: `origin: g1` is no hint"),
            (
                "origin audit: g1\norigin off: g1",
                "lines 1 and 2: g1 has two demands",
            ),
            ("lifetime 0ms: g1", "line 1: `0ms` is no lifetime"),
            ("lifetime 25h: g1", "line 1: `25h` is no lifetime"),
            ("lifetime 1.5s: g1", "line 1: `1.5s` is no lifetime"),
            ("lifetime 5s:", "line 1: `lifetime 5s:` is no hint"),
            ("pace fast: g1", "line 1: `fast` is no pace"),
            ("pace bounded: g1", "line 1: `bounded` is no pace"),
            ("pace bounded 10ms: g1", "line 1: `bounded 10ms` is no pace"),
            (
                "pace bounded 10s min 0/s: g1",
                "line 1: `bounded 10s min 0/s` is no pace",
            ),
            (
                "pace bounded 10s then wait: g1",
                "line 1: `bounded 10s then wait` is no pace",
            ),
            (
                "pace slowest then expel: g1",
                "line 1: `slowest then expel` is no pace",
            ),
            (
                "pace bounded 10s min 200: g1",
                "line 1: `bounded 10s min 200` is no pace",
            ),
            (
                "pace uncontrolled 10s: g1",
                "line 1: `uncontrolled 10s` is no pace",
            ),
            (
                "pace slowest: g1\npace bounded 5s: g1",
                "lines 1 and 2: g1 has two paces",
            ),
            (
                "lifetime 5s: g1 g*\n\nlifetime 1s: g*",
                "lines 1 and 3: g* has two lifetimes",
            ),
            (
                "together: n1 n2\ntogether: n2 n3\napart: n1 n3",
                "lines 2 and 3: n1 and n3 are to be together and apart",
            ),
            ("apart: n1 n1", "lines 1 and 1: n1 and n1 are"),
            (
                "domain red: n1\n\ndomain blue: n1",
                "lines 1 and 3: n1 is in two security domains",
            ),
            (
                "domain red: n1\ntogether: n1 n2",
                "line 2: n1 and n2 are of different security domains",
            ),
        ] {
            let error = Hints::parse(text, &Letters).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
