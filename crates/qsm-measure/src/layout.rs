//! What receivers subscribe to beside the groups that all of them have.
//!
//! The groups of a layout are numbered. Every process computes the same layout from its name and
//! the number of receivers, so that only these have to be told.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use clap::Args;
use qsm_console::options::{Threshold, loss_ppm};

/// Groups of a layout, at most.
const GROUPS_MAX: u32 = 100_000;
/// Groups that a receiver draws, at most.
const EACH_MAX: u32 = 100;
/// Parts of a share.
const MILLION: u64 = 1_000_000;
/// Largest share of the messages that goes to groups of the layout: most go to the common groups.
const SHARE_MAX: u32 = 500_000;

/// How the groups of receivers overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// As many groups as there are receivers; all receivers have all of them.
    Identical,
    /// Each receiver has a group of its own.
    Private,
    /// Each receiver has some of these groups, drawn evenly.
    Extras {
        /// Groups of a receiver.
        each: u32,
        /// Groups to draw from.
        groups: u32,
    },
    /// The same; the n-th group has a share of 1/n.
    Zipf {
        /// Groups of a receiver.
        each: u32,
        /// Groups to draw from.
        groups: u32,
    },
    /// A tree of topics: the receivers are halved until each half is one of them, and each half
    /// has a group.
    Hierarchical,
}

impl Layout {
    /// The usual ones, `identical` first: with 5 of 1,000 groups where some are drawn.
    pub const ALL: [Self; 5] = [
        Self::Identical,
        Self::Private,
        Self::Extras {
            each: 5,
            groups: 1000,
        },
        Self::Zipf {
            each: 5,
            groups: 1000,
        },
        Self::Hierarchical,
    ];

    /// As it is written.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Identical => "identical".to_owned(),
            Self::Private => "private".to_owned(),
            Self::Extras { each, groups } => format!("extras:{each},{groups}"),
            Self::Zipf { each, groups } => format!("zipf:{each},{groups}"),
            Self::Hierarchical => "hierarchical".to_owned(),
        }
    }

    /// Whether the membership service plans how its groups go: other than by each node's exact
    /// groups, and a while after they have changed.
    #[must_use]
    pub(crate) fn is_planned(self) -> bool {
        !matches!(self, Self::Identical | Self::Private)
    }

    /// The groups of the receiver with this number, from 0, among so many.
    #[must_use]
    pub fn groups_of(self, receiver: u32, receivers: u32) -> BTreeSet<u32> {
        match self {
            Self::Identical => (0..receivers).collect(),
            Self::Private => BTreeSet::from([receiver]),
            Self::Extras { each, groups } => {
                let mut draw = Draw::new(receiver);
                distinct(each, || draw.below(groups.into()) as u32)
            }
            Self::Zipf { each, groups } => {
                let sums = shares(groups);
                let all = sums.last().copied().unwrap_or(1);
                let mut draw = Draw::new(receiver);
                distinct(each, || {
                    let value = draw.below(all);
                    sums.partition_point(|&sum| sum <= value) as u32
                })
            }
            Self::Hierarchical => halves(receiver, receivers),
        }
    }

    /// The groups that somebody has, and how many receivers each has.
    #[must_use]
    pub fn audience(self, receivers: u32) -> BTreeMap<u32, u32> {
        let mut audience = BTreeMap::new();
        for receiver in 0..receivers {
            for group in self.groups_of(receiver, receivers) {
                *audience.entry(group).or_insert(0) += 1;
            }
        }
        audience
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, rest) = match text.split_once(':') {
            Some((kind, rest)) => (kind, Some(rest)),
            None => (text, None),
        };
        let plain = |layout| match rest {
            None => Ok(layout),
            Some(_) => Err(format!("{kind} has no numbers; write just `{kind}`")),
        };
        match kind {
            "identical" => plain(Self::Identical),
            "private" => plain(Self::Private),
            "hierarchical" => plain(Self::Hierarchical),
            "extras" => numbers(kind, rest).map(|(each, groups)| Self::Extras { each, groups }),
            "zipf" => numbers(kind, rest).map(|(each, groups)| Self::Zipf { each, groups }),
            _ => Err(format!(
                "there is no layout {kind}; choose among identical, private, extras:EACH,GROUPS, \
                 zipf:EACH,GROUPS and hierarchical"
            )),
        }
    }
}

fn numbers(kind: &str, rest: Option<&str>) -> Result<(u32, u32), String> {
    let pair = rest.and_then(|rest| rest.split_once(','));
    let pair = pair.and_then(|(each, groups)| Some((each.parse().ok()?, groups.parse().ok()?)));
    match pair {
        Some((each, groups))
            if (1..=EACH_MAX).contains(&each) && (each..=GROUPS_MAX).contains(&groups) =>
        {
            Ok((each, groups))
        }
        _ => Err(format!(
            "write {kind}:EACH,GROUPS, such as {kind}:5,1000: 1 to {EACH_MAX} groups for each \
             receiver, out of at least as many and at most {GROUPS_MAX}"
        )),
    }
}

/// So many different ones.
fn distinct(count: u32, mut draw: impl FnMut() -> u32) -> BTreeSet<u32> {
    let mut drawn = BTreeSet::new();
    while drawn.len() < count as usize {
        drawn.insert(draw());
    }
    drawn
}

/// The sums of the shares up to each group, in parts of 2³².
fn shares(groups: u32) -> Vec<u64> {
    let shares = (1..=u64::from(groups)).scan(0, |sum, n| {
        *sum += (1 << 32) / n;
        Some(*sum)
    });
    shares.collect()
}

/// The halves that a receiver is in, of all of them down to itself. They are numbered like the
/// nodes of a heap, whose root would be all receivers.
fn halves(receiver: u32, receivers: u32) -> BTreeSet<u32> {
    let (mut first, mut count, mut node) = (0, receivers, 0);
    let mut topics = BTreeSet::new();
    while count > 1 {
        let left = count.div_ceil(2);
        if receiver < first + left {
            (node, count) = (2 * node + 1, left);
        } else {
            (node, first, count) = (2 * node + 2, first + left, count - left);
        }
        topics.insert(node);
    }
    topics
}

/// Numbers that follow from a receiver's.
struct Draw(u64);

impl Draw {
    fn new(receiver: u32) -> Self {
        Self(u64::from(receiver) << 32)
    }

    /// SplitMix64 (Steele, Lea and Flood 2014), reduced by a multiplication.
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^= word >> 31;
        ((u128::from(word) * u128::from(bound)) >> 64) as u64
    }
}

/// How much goes to the groups of a layout, and how the service plans them.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Layout")]
pub(crate) struct LayoutLoad {
    /// Share of the messages that goes to the layout's groups, in turn
    #[arg(
        long, value_name = "PERCENT", default_value = "1", value_parser = share_ppm,
        requires = "layout"
    )]
    pub(crate) layout_share: u32,
    /// Share of the deliveries in a region that its receivers may not want, as qsm gms --plan-unwanted
    #[arg(long, value_name = "PERCENT", value_parser = loss_ppm, requires = "layout")]
    pub(crate) layout_unwanted: Option<u32>,
    /// Packets a second that a region for what several others have in common has to save, as qsm gms
    /// --plan-common
    #[arg(long, value_name = "PACKETS", requires = "layout")]
    pub(crate) layout_common: Option<Threshold>,
}

/// A layout, and how much goes to its groups.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Layout")]
pub(crate) struct LayoutOptions {
    /// What receivers subscribe to beside the common groups: identical, private, extras:EACH,GROUPS,
    /// zipf:EACH,GROUPS, hierarchical
    #[arg(long, value_name = "LAYOUT", value_parser = Layout::from_str)]
    pub(crate) layout: Option<Layout>,
    /// Share of the messages that goes to its groups.
    #[command(flatten)]
    pub(crate) load: LayoutLoad,
}

/// Layouts that are compared.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Layout")]
pub(crate) struct LayoutAxis {
    /// What receivers subscribe to beside the common groups: identical, private, extras:EACH,GROUPS,
    /// zipf:EACH,GROUPS, hierarchical. Given several times: each is run in turn, and compared with
    /// identical. all: these five, with 5 of 1,000 groups
    #[arg(long, value_name = "LAYOUT", value_parser = LayoutChoice::from_str)]
    layout: Vec<LayoutChoice>,
    /// Share of the messages that goes to their groups.
    #[command(flatten)]
    load: LayoutLoad,
}

/// One layout, or the usual ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LayoutChoice {
    One(Layout),
    All,
}

impl FromStr for LayoutChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            text => text.parse().map(Self::One),
        }
    }
}

impl LayoutAxis {
    /// The layouts, each once; where there are several, `identical` is the first.
    #[must_use]
    pub(crate) fn layouts(&self) -> Vec<LayoutOptions> {
        let chosen = self.layout.iter().flat_map(|choice| match choice {
            LayoutChoice::One(layout) => vec![*layout],
            LayoutChoice::All => Layout::ALL.to_vec(),
        });
        let mut layouts: Vec<Layout> = Vec::new();
        for layout in chosen {
            if !layouts.contains(&layout) {
                layouts.push(layout);
            }
        }
        if layouts.len() > 1 {
            layouts.retain(|layout| *layout != Layout::Identical);
            layouts.insert(0, Layout::Identical);
        }
        let options = layouts.into_iter().map(|layout| LayoutOptions {
            layout: Some(layout),
            load: self.load,
        });
        options.collect()
    }

    /// Share of the messages that goes to the groups of a layout, percent.
    #[must_use]
    pub(crate) fn share_percent(&self) -> f64 {
        self.load.share_percent()
    }
}

impl LayoutLoad {
    /// Share of the messages that goes to the groups of a layout, percent.
    #[must_use]
    pub(crate) fn share_percent(&self) -> f64 {
        f64::from(self.layout_share) / 1e4
    }
}

impl LayoutOptions {
    /// Without a layout.
    pub(crate) const NONE: Self = Self {
        layout: None,
        load: LayoutLoad {
            layout_share: 0,
            layout_unwanted: None,
            layout_common: None,
        },
    };

    /// The same, as arguments of a sender.
    #[must_use]
    pub(crate) fn arguments(&self) -> Vec<String> {
        let Some(layout) = self.layout else {
            return Vec::new();
        };
        vec![
            format!("--layout={}", layout.name()),
            format!("--layout-share={}", self.load.share_percent()),
        ]
    }

    /// Of so many messages, those that go to the layout's groups.
    #[must_use]
    pub(crate) fn part_of(&self, messages: u64) -> u64 {
        let share = u128::from(self.load.layout_share);
        (u128::from(messages) * share / u128::from(MILLION)) as u64
    }

    /// Those that go there beside so many that go to the common groups.
    #[must_use]
    pub(crate) fn beside(&self, common: u64) -> u64 {
        let share = u128::from(self.load.layout_share);
        let rest = u128::from(MILLION).saturating_sub(share).max(1);
        (u128::from(common) * share / rest) as u64
    }
}

fn share_ppm(text: &str) -> Result<u32, String> {
    loss_ppm(text)
        .ok()
        .filter(|share| *share <= SHARE_MAX)
        .ok_or_else(|| {
            "most messages go to the common groups; give 0 to 50 percent for the layout's"
                .to_owned()
        })
}

/// Which one of several receivers a process is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seat {
    /// From 0.
    pub(crate) receiver: u32,
    /// Of so many.
    pub(crate) receivers: u32,
}

impl FromStr for Seat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let pair = text.split_once('/');
        let pair = pair.and_then(|(at, of)| Some((at.parse().ok()?, of.parse().ok()?)));
        match pair {
            Some((at, receivers)) if (1..=receivers).contains(&at) => Ok(Self {
                receiver: at - 1,
                receivers,
            }),
            _ => Err(
                "write NUMBER/RECEIVERS, such as 2/6 for the second of six receivers".to_owned(),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_read_as_they_are_written() {
        for text in [
            "identical",
            "private",
            "extras:5,1000",
            "zipf:1,1",
            "hierarchical",
        ] {
            assert_eq!(text.parse().map(Layout::name), Ok(text.to_owned()));
        }
        for (text, part) in [
            ("rings", "there is no layout rings; choose among identical"),
            ("private:3", "write just `private`"),
            ("extras", "extras:5,1000"),
            ("extras:5", "extras:5,1000"),
            ("extras:0,10", "1 to 100 groups"),
            ("extras:101,1000", "1 to 100 groups"),
            ("zipf:11,10", "at least as many"),
            ("zipf:1,100001", "at most 100000"),
            ("zipf:a,b", "zipf:5,1000"),
        ] {
            let error = text.parse::<Layout>().unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn several_layouts_are_compared_with_identical() {
        let of = |words: &[&str]| {
            let layout = words.iter().map(|word| word.parse().unwrap()).collect();
            let load = LayoutOptions::NONE.load;
            let layouts = LayoutAxis { layout, load }.layouts();
            let names = layouts.iter().filter_map(|options| options.layout);
            names.map(Layout::name).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), Vec::<String>::new());
        assert_eq!(of(&["private"]), ["private"]);
        assert_eq!(of(&["private", "private"]), ["private"]);
        assert_eq!(of(&["zipf:2,9", "identical"]), ["identical", "zipf:2,9"]);
        let all = [
            "identical",
            "private",
            "extras:5,1000",
            "zipf:5,1000",
            "hierarchical",
        ];
        assert_eq!(of(&["all"]), all);
        assert_eq!(of(&["extras:1,2", "all"]).len(), 6);
        assert!("rings".parse::<LayoutChoice>().is_err());
    }

    #[test]
    fn a_seat_is_one_of_those_there_are() {
        let seat = Seat {
            receiver: 1,
            receivers: 6,
        };
        assert_eq!("2/6".parse(), Ok(seat));
        for text in ["0/6", "7/6", "2", "a/b"] {
            assert!(text.parse::<Seat>().is_err(), "{text}");
        }
    }

    #[test]
    fn receivers_have_what_the_layout_says() {
        let audience = |layout: Layout| layout.audience(6);
        assert_eq!(
            audience(Layout::Identical),
            (0..6).map(|at| (at, 6)).collect()
        );
        assert_eq!(
            audience(Layout::Private),
            (0..6).map(|at| (at, 1)).collect()
        );
        let tree = audience(Layout::Hierarchical);
        let mut sizes: Vec<u32> = tree.into_values().collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [1, 1, 1, 1, 1, 1, 2, 2, 3, 3]);
        assert_eq!(Layout::Hierarchical.audience(1), BTreeMap::new());
    }

    #[test]
    fn groups_are_drawn_without_repetition_and_the_popular_ones_more_often() {
        let each = 5;
        let extras = Layout::Extras { each, groups: 1000 };
        let zipf = Layout::Zipf { each, groups: 1000 };
        for layout in [extras, zipf] {
            for receiver in 0..100 {
                let groups = layout.groups_of(receiver, 100);
                assert_eq!(groups.len(), 5);
                assert!(groups.iter().all(|&group| group < 1000));
            }
        }
        assert_ne!(extras.groups_of(0, 2), extras.groups_of(1, 2));
        let first = |layout: Layout| layout.audience(100).get(&0).copied().unwrap_or(0);
        assert!(first(zipf) > 30 && first(extras) < 10);
        let all = Layout::Zipf {
            each: 100,
            groups: 100,
        };
        assert_eq!(all.groups_of(3, 4), (0..100).collect());
    }

    #[test]
    fn shares_are_of_all_messages() {
        let options = LayoutOptions {
            layout: Some(Layout::Private),
            load: LayoutLoad {
                layout_share: 100_000,
                ..LayoutOptions::NONE.load
            },
        };
        assert_eq!(options.part_of(1000), 100);
        assert_eq!(options.beside(900), 100);
        assert_eq!(options.part_of(u64::MAX), u64::MAX / 10);
        assert_eq!(
            options.arguments(),
            ["--layout=private", "--layout-share=10"]
        );
        assert!(share_ppm("51").is_err() && share_ppm("-1").is_err());
        assert_eq!(share_ppm("0.5"), Ok(5000));
    }
}
