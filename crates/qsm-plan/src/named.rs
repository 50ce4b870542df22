//! Hints for a running service, which knows nodes and groups by the names that they have when they
//! come, if they come.
//!
//! ```text
//!   domain red: a b     ┐                    node a: compartment 1
//!   apart: c d          ├─► ServiceHints ──► node c: compartment 0, as all that are not named
//!   together: e f       │                    node d: compartment 2
//!   pin fast: prices    ┘                    node e: compartment 0, set 0 ...
//! ```
//!
//! Nodes share regions only with those of their *compartment*. So each place of a node follows from its
//! name alone, whoever is there already. The price is that of two nodes that are apart one is
//! apart from all others as well that are not named, unless these are of its compartment.

use core::time::Duration;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use qsm_wire::membership::OriginDemand;
use qsm_wire::{GroupId, NodeId};

use crate::hints::{HintError, Hints, Names, Reader, Written, lines, words};
use crate::origin::origin_word;
use crate::pace::GroupPace;

/// Hints in the order in which they are given, for [`ServiceHints`]. Errors name them by their number,
/// from 1 on, as those of a file by its line.
///
/// ```
/// use qsm_plan::HintList;
///
/// let hints = HintList::new()
///     .domain("red", ["alpha", "beta"])
///     .apart(["gamma", "delta"])
///     .finish()
///     .unwrap();
/// assert_ne!(hints.node("gamma").compartment, hints.node("delta").compartment);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HintList {
    hints: Vec<Entry>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    head: Vec<String>,
    names: Vec<String>,
}

/// Checked hints for a membership service, by names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServiceHints {
    nodes: BTreeMap<String, NodeHint>,
    /// By the name of a group its channel.
    pins: BTreeMap<String, u32>,
    /// Names of channels.
    channels: Vec<String>,
    /// Names of domains; the first one is 1.
    domains: Vec<String>,
    /// Number of sets of nodes that are together.
    sets: u32,
    /// Lifetimes of messages.
    lifetimes: ByName<Duration>,
    paces: ByName<GroupPace>,
    /// Proof that groups demand; `None`: none, by name.
    origins: ByName<Option<OriginDemand>>,
}

/// Properties of groups by their names, or by the beginnings of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ByName<T> {
    exact: BTreeMap<String, T>,
    by_start: BTreeMap<String, T>,
}

impl<T> Default for ByName<T> {
    fn default() -> Self {
        Self {
            exact: BTreeMap::new(),
            by_start: BTreeMap::new(),
        }
    }
}

impl<T: Copy> ByName<T> {
    fn insert(&mut self, names: &str, value: T) {
        match names.strip_suffix('*') {
            Some(start) => self.by_start.insert(start.to_owned(), value),
            None => self.exact.insert(names.to_owned(), value),
        };
    }

    fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.by_start.is_empty()
    }

    fn any(&self, is: impl Fn(T) -> bool) -> bool {
        let mut all = self.exact.values().chain(self.by_start.values());
        all.any(|value| is(*value))
    }

    /// A line that names the group itself goes before those that name the beginning of its name, of
    /// which the longest one counts.
    fn of(&self, group: &str) -> Option<T> {
        let by_start = || {
            let starts = self.by_start.iter();
            let fitting = starts.filter(|(start, _)| group.starts_with(start.as_str()));
            fitting
                .max_by_key(|(start, _)| start.len())
                .map(|(_, value)| value)
        };
        self.exact.get(group).or_else(by_start).copied()
    }
}

/// Hints for a node; the default is that of one that is not named.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeHint {
    /// The security domain; 0: the common one.
    pub domain: u32,
    /// Nodes of other compartments share no region with it; 0: that of all that are not named.
    pub compartment: u32,
    /// The set of nodes that it shares one region with.
    pub set: Option<u32>,
}

impl HintList {
    /// No hint.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These nodes are a security domain: they share no region and no multicast address with others.
    #[must_use]
    pub fn domain<N: Into<String>>(
        self,
        name: impl Into<String>,
        nodes: impl IntoIterator<Item = N>,
    ) -> Self {
        self.with(["domain".to_owned(), name.into()], nodes)
    }

    /// No two of these nodes share a region.
    #[must_use]
    pub fn apart<N: Into<String>>(self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.with(["apart".to_owned()], nodes)
    }

    /// These nodes share one region, whatever it costs.
    #[must_use]
    pub fn together<N: Into<String>>(self, nodes: impl IntoIterator<Item = N>) -> Self {
        self.with(["together".to_owned()], nodes)
    }

    /// These groups go by a channel of this name, which no others use.
    #[must_use]
    pub fn pin<N: Into<String>>(
        self,
        channel: impl Into<String>,
        groups: impl IntoIterator<Item = N>,
    ) -> Self {
        self.with(["pin".to_owned(), channel.into()], groups)
    }

    /// Messages to these groups are not repaired any more once they are older than this: whole
    /// milliseconds, at most a day. A name that ends with `*` stands for all that begin so.
    #[must_use]
    pub fn lifetime<N: Into<String>>(
        self,
        time: Duration,
        groups: impl IntoIterator<Item = N>,
    ) -> Self {
        let time = format!("{}ms", time.as_millis());
        self.with(["lifetime".to_owned(), time], groups)
    }

    /// Senders to these groups follow the slowest receiver for as long as this pace says. A name that
    /// ends with `*` stands for all that begin so.
    #[must_use]
    pub fn pace<N: Into<String>>(
        self,
        pace: GroupPace,
        groups: impl IntoIterator<Item = N>,
    ) -> Self {
        let pace = pace.to_string();
        let words = pace.split(' ').map(str::to_owned);
        let head = core::iter::once("pace".to_owned()).chain(words);
        self.with(head, groups)
    }

    /// Those who publish to these groups have to prove what they send (R-SEC-34); `None`: they do not, although a shorter
    /// name with `*` says so. Only a service that takes tokens can demand it.
    #[must_use]
    pub fn origin<N: Into<String>>(
        self,
        demand: Option<OriginDemand>,
        groups: impl IntoIterator<Item = N>,
    ) -> Self {
        let word = origin_word(demand).to_owned();
        self.with(["origin".to_owned(), word], groups)
    }

    fn with<N: Into<String>>(
        mut self,
        head: impl IntoIterator<Item = String>,
        names: impl IntoIterator<Item = N>,
    ) -> Self {
        self.hints.push(Entry {
            head: head.into_iter().collect(),
            names: names.into_iter().map(Into::into).collect(),
        });
        self
    }

    /// The hints, checked.
    ///
    /// # Errors
    /// They contradict each other, or one names nothing.
    pub fn finish(&self) -> Result<ServiceHints, HintError> {
        let mut builder = Builder::default();
        for (line, entry) in (1..).zip(&self.hints) {
            let head: Vec<&str> = entry.head.iter().map(String::as_str).collect();
            let rest: Vec<&str> = entry.names.iter().map(String::as_str).collect();
            let (head, rest) = (&head[..], &rest[..]);
            builder.take(Written { line, head, rest })?;
        }
        builder.finish()
    }
}

impl ServiceHints {
    /// Reads a file of hints; `docs/operate/planning.md` has the grammar. Any name may be that of a
    /// node or a group.
    ///
    /// # Errors
    /// A line cannot be understood, or lines contradict each other.
    pub fn parse(text: &str) -> Result<Self, HintError> {
        let mut builder = Builder::default();
        for (line, text) in lines(text) {
            let (head, rest) = words(line, text)?;
            let (head, rest) = (&head[..], &rest[..]);
            builder.take(Written { line, head, rest })?;
        }
        builder.finish()
    }

    /// Hints for the node of this name.
    #[must_use]
    pub fn node(&self, name: &str) -> NodeHint {
        self.nodes.get(name).copied().unwrap_or_default()
    }

    /// The channel that a group is pinned to.
    #[must_use]
    pub fn channel(&self, group: &str) -> Option<u32> {
        self.pins.get(group).copied()
    }

    /// The lifetime of messages to the group of this name. A line that names the group itself goes
    /// before those that name the beginning of its name, of which the longest one counts.
    #[must_use]
    pub fn lifetime(&self, group: &str) -> Option<Duration> {
        self.lifetimes.of(group)
    }

    /// The pace of the group of this name, chosen likewise; `None`: none is given, and its senders follow
    /// a slow receiver for as long as the service does in general.
    #[must_use]
    pub fn pace(&self, group: &str) -> Option<GroupPace> {
        self.paces.of(group)
    }

    /// The proof of origin that the group of this name demands, chosen likewise.
    #[must_use]
    pub fn origin(&self, group: &str) -> Option<OriginDemand> {
        self.origins.of(group).flatten()
    }

    /// True if some groups demand proof of origin.
    #[must_use]
    pub fn has_origins(&self) -> bool {
        self.origins.any(|demand| demand.is_some())
    }

    /// The name of a channel.
    #[must_use]
    pub fn channel_name(&self, channel: u32) -> Option<&str> {
        let name = self.channels.get(channel as usize);
        name.map(String::as_str)
    }

    /// The name of a domain; the common one has none.
    #[must_use]
    pub fn domain_name(&self, domain: u32) -> Option<&str> {
        let at = (domain as usize).checked_sub(1)?;
        self.domains.get(at).map(String::as_str)
    }

    /// True if there are groups with a channel of their own.
    #[must_use]
    pub fn has_pins(&self) -> bool {
        !self.pins.is_empty()
    }

    /// True if some nodes share no region with others.
    #[must_use]
    pub fn divides(&self) -> bool {
        self.nodes.values().any(|node| node.compartment > 0)
    }

    /// Number of sets of nodes that are together.
    #[must_use]
    pub fn sets(&self) -> u32 {
        self.sets
    }

    /// True if messages to some groups have a lifetime.
    #[must_use]
    pub fn has_lifetimes(&self) -> bool {
        !self.lifetimes.is_empty()
    }

    /// True if some groups have a pace of their own.
    #[must_use]
    pub fn has_paces(&self) -> bool {
        !self.paces.is_empty()
    }

    /// True if hints say where some nodes or groups are.
    #[must_use]
    pub fn places(&self) -> bool {
        !self.nodes.is_empty() || !self.pins.is_empty()
    }

    /// True if senders to some groups are not held below a rate of their own.
    #[must_use]
    pub fn has_minima(&self) -> bool {
        self.paces.any(|pace| pace.minimum_packets() > 0)
    }

    /// True if there is no hint.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.places() && !self.has_lifetimes() && !self.has_paces() && !self.has_origins()
    }

    /// Multicast addresses that are needed so that no domain and no channel shares one with another.
    #[must_use]
    pub fn addresses(&self) -> usize {
        1 + self.domains.len() + self.channels.len()
    }
}

/// Names, by the numbers that they are given when they are asked for.
#[derive(Debug, Default)]
struct Lexicon {
    nodes: RefCell<BTreeMap<String, u32>>,
    groups: RefCell<BTreeMap<String, u32>>,
}

impl Names for Lexicon {
    fn node(&self, name: &str) -> Option<NodeId> {
        let number = number(&self.nodes, name);
        Some(NodeId(u64::from(number)))
    }

    fn group(&self, name: &str) -> Option<GroupId> {
        Some(GroupId(number(&self.groups, name)))
    }
}

fn number(names: &RefCell<BTreeMap<String, u32>>, name: &str) -> u32 {
    let mut names = names.borrow_mut();
    let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
    *names.entry(name.to_owned()).or_insert(next)
}

/// Hints while they are taken up.
#[derive(Default)]
struct Builder {
    lexicon: Lexicon,
    reader: Reader,
}

impl Builder {
    fn take(&mut self, hint: Written<'_>) -> Result<(), HintError> {
        self.reader.take(hint, &self.lexicon)
    }

    fn finish(self) -> Result<ServiceHints, HintError> {
        let together = self.reader.first_together();
        let hints = self.reader.finish()?;
        let pinned = hints.pins().iter().map(|pin| pin.line).min();
        if let (Some(together), Some(pin)) = (together, pinned) {
            let lines = [together, pin];
            return Err(HintError::TogetherAndPinned { lines });
        }
        let nodes = self.lexicon.nodes.into_inner();
        let groups = self.lexicon.groups.into_inner();
        let mut named = ServiceHints {
            pins: pins(&hints, groups),
            channels: hints.pins().iter().map(|pin| pin.name.clone()).collect(),
            domains: hints.domain_names().to_vec(),
            ..ServiceHints::default()
        };
        for lifetime in hints.lifetimes() {
            named.lifetimes.insert(&lifetime.names, lifetime.time);
        }
        for paced in hints.paces() {
            named.paces.insert(&paced.names, paced.pace);
        }
        for proven in hints.origins() {
            named.origins.insert(&proven.names, proven.demand);
        }
        let mut sets: BTreeMap<u32, u32> = BTreeMap::new();
        let compartments = compartments(&hints, nodes.len());
        for (name, number) in nodes {
            let node = NodeId(u64::from(number));
            let set = hints.together_of(node).map(|set| {
                let next = u32::try_from(sets.len()).unwrap_or(u32::MAX);
                *sets.entry(set).or_insert(next)
            });
            let hint = NodeHint {
                domain: hints.domain(node),
                compartment: compartments.get(&node).copied().unwrap_or(0),
                set,
            };
            named.nodes.insert(name, hint);
        }
        named.sets = u32::try_from(sets.len()).unwrap_or(u32::MAX);
        Ok(named)
    }
}

fn pins(hints: &Hints, groups: BTreeMap<String, u32>) -> BTreeMap<String, u32> {
    let channels = (0..).zip(hints.pins());
    let pinned = channels.flat_map(|(channel, pin)| {
        let groups = pin.groups.iter();
        groups.map(move |group| (*group, channel))
    });
    let pinned: BTreeMap<GroupId, u32> = pinned.collect();
    let named = groups.into_iter();
    let named = named.filter_map(|(name, number)| Some((name, *pinned.get(&GroupId(number))?)));
    named.collect()
}

/// Compartments of this many nodes: of a domain, each node that is apart from others has the first one
/// that none of them has, in the order of their names in the hints.
fn compartments(hints: &Hints, count: usize) -> BTreeMap<NodeId, u32> {
    /// Of a domain the ranks that nodes of a hint have.
    type Ranks = BTreeMap<(u32, u32), BTreeSet<u32>>;
    let mut taken: Ranks = BTreeMap::new();
    let mut of_set: BTreeMap<u32, u32> = BTreeMap::new();
    let mut numbers: BTreeMap<(u32, u32), u32> = BTreeMap::from([((0, 0), 0)]);
    let mut found = BTreeMap::new();
    for node in (0..count as u64).map(NodeId) {
        let domain = hints.domain(node);
        let apart = hints.apart_of(node);
        let set = hints.together_of(node);
        let known = set.and_then(|set| of_set.get(&set).copied());
        let rank = known.unwrap_or_else(|| {
            let is_free = |rank: &u32| {
                let others = apart.iter().filter_map(|hint| taken.get(&(*hint, domain)));
                !others.into_iter().any(|ranks| ranks.contains(rank))
            };
            (0..).find(is_free).unwrap_or(0)
        });
        of_set.extend(set.map(|set| (set, rank)));
        for hint in apart {
            taken.entry((*hint, domain)).or_default().insert(rank);
        }
        let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
        let number = *numbers.entry((domain, rank)).or_insert(next);
        found.insert(node, number);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compartment(hints: &ServiceHints, name: &str) -> u32 {
        hints.node(name).compartment
    }

    #[test]
    fn nodes_apart_or_of_other_domains_have_other_compartments() {
        let text = "domain red: a b\ndomain blue: c\napart: a x y\napart: y z\napart: b a\n";
        let hints = ServiceHints::parse(text).unwrap();
        let of = |name| compartment(&hints, name);
        for (one, other) in [
            ("a", "b"),
            ("a", "x"),
            ("x", "y"),
            ("y", "z"),
            ("a", "c"),
            ("b", "c"),
            ("a", "nobody"),
            ("c", "nobody"),
        ] {
            assert_ne!(of(one), of(other), "{one} and {other}");
        }
        // Of those that are apart one is with all others.
        assert_eq!((of("nobody"), of("x"), of("z")), (0, 0, 0));
        assert_eq!((hints.node("b").domain, hints.node("x").domain), (1, 0));
        assert_eq!(hints.domain_name(2), Some("blue"));
        assert_eq!(hints.addresses(), 3);
        assert!(hints.divides() && !hints.has_pins());
    }

    #[test]
    fn nodes_together_have_one_set_and_one_compartment() {
        let text = "apart: a c\ntogether: a b\ntogether: c d\ntogether: d e\n";
        let hints = ServiceHints::parse(text).unwrap();
        let of = |name| compartment(&hints, name);
        assert_eq!((of("a"), of("c"), of("d")), (of("b"), of("e"), of("e")));
        assert_ne!(of("a"), of("c"));
        let set = |name: &str| hints.node(name).set;
        assert_eq!((set("a"), set("c")), (set("b"), set("e")));
        assert_ne!(set("a"), set("c"));
        assert_eq!((set("f"), hints.sets()), (None, 2));
    }

    #[test]
    fn groups_are_pinned_by_name() {
        let hints = HintList::new()
            .pin("fast", ["prices/eur", "prices/usd"])
            .pin("slow", ["a name with blanks"])
            .finish()
            .unwrap();
        let channel = |name: &str| {
            let channel = hints.channel(name)?;
            hints.channel_name(channel)
        };
        assert_eq!(channel("prices/usd"), Some("fast"));
        assert_eq!(channel("a name with blanks"), Some("slow"));
        assert_eq!(channel("prices"), None);
        assert!(hints.has_pins() && !hints.divides() && !hints.is_empty());
    }

    #[test]
    fn lifetimes_are_by_name_or_by_the_beginning_of_names() {
        let hints = HintList::new()
            .lifetime(Duration::from_millis(200), ["prices/*", "news"])
            .lifetime(
                Duration::from_secs(5),
                ["prices/slow/*", "prices/slow/gold"],
            )
            .lifetime(Duration::from_secs(60), ["prices/slow/tin"])
            .finish()
            .unwrap();
        let ms = |name| hints.lifetime(name).map(|time| time.as_millis());
        for (name, expected) in [
            ("prices/eur", Some(200)),
            ("news", Some(200)),
            ("newspaper", None),
            ("prices", None),
            ("prices/slow/lead", Some(5000)),
            ("prices/slow/tin", Some(60_000)),
        ] {
            assert_eq!(ms(name), expected, "{name}");
        }
        assert!(hints.has_lifetimes() && !hints.places() && !hints.is_empty());
        let never = HintList::new().lifetime(Duration::ZERO, ["a"]).finish();
        assert!(never.is_err());
    }

    #[test]
    fn paces_are_by_name_as_well() {
        let soon = GroupPace::Bounded(Duration::from_secs(3));
        let hints = HintList::new()
            .pace(GroupPace::Slowest, ["orders/*"])
            .pace(soon, ["orders/test", "prices/*"])
            .finish()
            .unwrap();
        let paces = ["orders/eu", "orders/test", "prices/eur", "news"].map(|name| hints.pace(name));
        assert_eq!(
            paces,
            [Some(GroupPace::Slowest), Some(soon), Some(soon), None]
        );
        assert!(hints.has_paces() && !hints.has_lifetimes() && !hints.places());
        assert!(!hints.has_minima());
        let quick = GroupPace::AtLeast {
            time: Duration::from_secs(10),
            packets_per_second: 2000,
        };
        let hints = HintList::new()
            .pace(quick, ["prices/*"])
            .pace(GroupPace::Uncontrolled, ["ticks"]);
        let hints = hints.finish().unwrap();
        let paces = ["prices/eur", "ticks"].map(|name| hints.pace(name));
        assert_eq!(paces, [Some(quick), Some(GroupPace::Uncontrolled)]);
        assert!(hints.has_minima());
    }

    #[test]
    fn proof_of_origin_is_demanded_by_name_as_well() {
        let text =
            "origin audit: orders/*\norigin verified: orders/eu\norigin off: orders/test/*\n";
        let hints = ServiceHints::parse(text).unwrap();
        let listed = HintList::new()
            .origin(Some(OriginDemand::Audit), ["orders/*"])
            .origin(Some(OriginDemand::Verified), ["orders/eu"])
            .origin(None, ["orders/test/*"]);
        assert_eq!(hints, listed.finish().unwrap());
        let demands = ["orders/us", "orders/eu", "orders/test/a", "news"];
        let (audit, verified) = (OriginDemand::Audit, OriginDemand::Verified);
        assert_eq!(
            demands.map(|name| hints.origin(name)),
            [Some(audit), Some(verified), None, None]
        );
        assert!(hints.has_origins() && !hints.is_empty() && !hints.places());
        let off = ServiceHints::parse("origin off: a").unwrap();
        assert!(!off.has_origins());
    }

    #[test]
    fn what_cannot_be_followed_is_an_error_that_names_the_lines() {
        for (text, says) in [
            (
                "# both\ntogether: a b\npin fast: g",
                "lines 2 and 3: a running service cannot both keep nodes together",
            ),
            ("together: a b\napart: b a", "lines 1 and 2: b and a are"),
            (
                "domain red: a\ndomain blue: a",
                "lines 1 and 2: a is in two",
            ),
            ("apart a b", "line 1: `apart a b` is no hint"),
        ] {
            let error = ServiceHints::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text:?}: {error}");
        }
        let nothing: [&str; 0] = [];
        let error = HintList::new().apart(["a", "b"]).together(nothing).finish();
        let error = error.unwrap_err().to_string();
        assert!(
            error.starts_with("line 2: `together:` is no hint"),
            "{error}"
        );
    }
}
