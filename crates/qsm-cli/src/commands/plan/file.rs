//! A file of subscriptions.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use qsm_plan::layouts::Layout;
use qsm_plan::{Names, Planner};
use qsm_wire::{GroupId, NodeId, Seed};

use super::names::PlanNames;

/// Nodes, their groups, and what is known of rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscriptions {
    /// Names in ascending order: the order of lines decides nothing.
    pub(super) names: PlanNames,
    /// By node.
    pub(super) sets: Vec<Vec<GroupId>>,
    /// Messages per 1000 seconds.
    rates: Vec<(GroupId, u32)>,
}

/// A file of subscriptions that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FileError {
    /// A line is neither a node nor a rate.
    Syntax { line: usize, text: String },
    /// A node has two lines.
    Twice { node: String, lines: [usize; 2] },
    /// A rate is no number, or too large.
    Rate { line: usize, text: String },
    /// Nobody subscribes to a group with a rate.
    Unknown { line: usize, group: String },
    /// There is no node in it.
    Empty,
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { line, text } => write!(
                f,
                "line {line}: `{text}` is neither a node nor a rate; write `node: group group …` or \
                 `group rate`"
            ),
            Self::Twice {
                node,
                lines: [one, two],
            } => write!(
                f,
                "lines {one} and {two}: {node} has two lines; put its groups in one"
            ),
            Self::Rate { line, text } => write!(
                f,
                "line {line}: `{text}` is no rate; write messages per second, 0.001 to 4000000"
            ),
            Self::Unknown { line, group } => write!(
                f,
                "line {line}: nobody subscribes to {group}; check the name, or remove the rate"
            ),
            Self::Empty => f.write_str(
                "no line names a node; write a line `node: group group …` for each node",
            ),
        }
    }
}

impl Subscriptions {
    /// Draws a layout. Nodes are called `n0`, `n1` …, groups `g0`, `g1` ….
    pub(super) fn drawn(layout: &Layout, seed: Seed) -> Self {
        let sets = layout.draw(seed);
        let last = sets.iter().filter_map(|set| set.last()).max();
        let groups = last.map_or(0, |group| group.0 + 1);
        Self {
            names: PlanNames {
                nodes: (0..sets.len()).map(|node| format!("n{node}")).collect(),
                groups: (0..groups).map(|group| format!("g{group}")).collect(),
            },
            sets,
            rates: Vec::new(),
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// A line cannot be understood, or lines contradict each other.
    pub(super) fn parse(text: &str) -> Result<Self, FileError> {
        let mut nodes: BTreeMap<&str, (usize, BTreeSet<&str>)> = BTreeMap::new();
        let mut rates: Vec<(usize, &str, u32)> = Vec::new();
        for (line, whole) in (1..).zip(text.lines()) {
            let whole = whole.split('#').next().unwrap_or_default().trim();
            let words: Vec<&str> = whole.split_whitespace().collect();
            let node = words.first().and_then(|word| word.strip_suffix(':'));
            match (node, &words[..]) {
                (_, []) => {}
                (Some(node), [_, groups @ ..]) if !node.is_empty() => {
                    let groups = groups.iter().copied().collect();
                    if let Some((first, _)) = nodes.insert(node, (line, groups)) {
                        let node = node.to_owned();
                        let lines = [first, line];
                        return Err(FileError::Twice { node, lines });
                    }
                }
                (None, [group, rate]) => {
                    let wrong = || FileError::Rate {
                        line,
                        text: (*rate).to_owned(),
                    };
                    rates.push((line, group, milli(rate).ok_or_else(wrong)?));
                }
                _ => {
                    let text = whole.to_owned();
                    return Err(FileError::Syntax { line, text });
                }
            }
        }
        if nodes.is_empty() {
            return Err(FileError::Empty);
        }
        let all: BTreeSet<&str> = nodes.values().flat_map(|(_, set)| set).copied().collect();
        let groups: Vec<String> = all.into_iter().map(str::to_owned).collect();
        let number = |name: &str| {
            let found = groups.binary_search_by(|known| known.as_str().cmp(name));
            found
                .ok()
                .and_then(|at| u32::try_from(at).ok())
                .map(GroupId)
        };
        let sets = nodes
            .values()
            .map(|(_, set)| set.iter().filter_map(|name| number(name)));
        let sets = sets.map(Iterator::collect).collect();
        let rates = rates
            .into_iter()
            .map(|(line, name, rate)| match number(name) {
                Some(group) => Ok((group, rate)),
                None => Err(FileError::Unknown {
                    line,
                    group: name.to_owned(),
                }),
            });
        let rates = rates.collect::<Result<Vec<_>, _>>()?;
        let nodes = nodes.into_keys().map(str::to_owned).collect();
        let names = PlanNames { nodes, groups };
        Ok(Self { names, sets, rates })
    }

    /// Gives all of it to a planner; the names are left.
    pub(super) fn load(self, planner: &mut Planner) -> PlanNames {
        for (group, rate) in self.rates {
            planner.set_rate(group, rate);
        }
        for (node, groups) in (0..).zip(self.sets) {
            planner.load(NodeId(node), groups);
        }
        self.names
    }
}

impl Names for Subscriptions {
    fn node(&self, name: &str) -> Option<NodeId> {
        let at = self.names.nodes.iter().position(|known| known == name)?;
        Some(NodeId(at as u64))
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        let at = self.names.groups.iter().position(|known| known == name)?;
        u32::try_from(at).ok().map(GroupId)
    }
}

/// A rate in messages per 1000 seconds.
fn milli(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 3 {
        return None;
    }
    let part: u32 = format!("{part:0<3}").parse().ok()?;
    let rate = whole
        .parse::<u32>()
        .ok()?
        .checked_mul(1000)?
        .checked_add(part)?;
    (1..=4_000_000_000).contains(&rate).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_lines_and_groups_decides_nothing() {
        let one = Subscriptions::parse("a: x y\nb: y\nx 2.5\n").unwrap();
        let two = Subscriptions::parse("# all\nx 2.5\nb: y\n\na: y x y # twice\n").unwrap();
        assert_eq!(one, two);
        assert_eq!(one.sets, [vec![GroupId(0), GroupId(1)], vec![GroupId(1)]]);
        assert_eq!(one.rates, [(GroupId(0), 2500)]);
    }

    #[test]
    fn faults_are_named_with_their_lines() {
        for (text, says) in [
            ("", "no line names a node"),
            ("a: x\nb x y", "line 2: `b x y` is neither"),
            (": x", "line 1: `: x` is neither"),
            ("a: x\na: y", "lines 1 and 2: a has two lines"),
            ("a: x\nx fast", "line 2: `fast` is no rate"),
            ("a: x\nx 0", "line 2: `0` is no rate"),
            ("a: x\nx 1.0001", "line 2: `1.0001` is no rate"),
            ("a: x\nx 4000001", "no rate"),
            ("a: x\ny 5", "line 2: nobody subscribes to y"),
        ] {
            let error = Subscriptions::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
    }
}
