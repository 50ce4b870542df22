//! The receivers of a publisher: names of those who are there, and what those lack who have gone.

use std::collections::{BTreeMap, BTreeSet};

use qsm::{Flushed, Lacking, NodeId, Origin, Unconfirmed, UnservedCause};
use qsm_console::failure::{Code, Failure};
use qsm_console::figures::{self, counted};
use qsm_console::names::Names;
use qsm_console::table::printable;

/// Receivers, and groups of each, that a line names.
const SHOWN: usize = 4;

/// Receivers that have gone without being known to have everything.
pub(crate) struct Gone {
    receivers: Vec<GoneReceiver>,
    /// Number of further ones.
    more: u64,
}

struct GoneReceiver {
    node: NodeId,
    name: String,
    fate: Fate,
    /// Messages that it may lack.
    ranges: Vec<Unconfirmed>,
}

/// Why a receiver does not get messages any more that it may lack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Left,
    /// It was excluded, and has come back in a new life.
    Excluded,
    /// It was away while more was sent than is kept for it.
    Overrun,
}

impl Gone {
    /// As a flush has told, each with all that it may lack.
    #[must_use]
    pub(crate) fn of(flushed: &Flushed, names: &Names) -> Self {
        let unserved = &flushed.unserved;
        let mut lacking: BTreeMap<Origin, (Vec<Unconfirmed>, bool)> = BTreeMap::new();
        for unserved in unserved {
            for receiver in &unserved.receivers {
                let (ranges, there) = lacking.entry(*receiver).or_insert((Vec::new(), true));
                ranges.extend(unserved.messages.iter().cloned());
                *there &= matches!(
                    unserved.cause,
                    UnservedCause::Overrun | UnservedCause::Demoted
                );
            }
        }
        let receivers = lacking.into_iter();
        let receivers = receivers.map(|(origin, (ranges, there))| GoneReceiver {
            node: origin.node,
            name: names.of(origin),
            fate: match there {
                true => Fate::Overrun,
                false if names.is_back(origin) => Fate::Excluded,
                false => Fate::Left,
            },
            ranges,
        });
        Self {
            receivers: receivers.collect(),
            more: unserved
                .iter()
                .map(|unserved| unserved.receivers_more)
                .sum::<u64>()
                + flushed.more,
        }
    }

    /// Lives of receivers.
    fn lives(&self) -> u64 {
        self.receivers.len() as u64 + self.more
    }

    /// Number of receivers, each once.
    #[must_use]
    pub(crate) fn count(&self) -> u64 {
        let nodes: BTreeSet<NodeId> = self.receivers.iter().map(|one| one.node).collect();
        nodes.len() as u64 + self.more
    }

    /// Number of these that are there, in this life or a new one.
    #[must_use]
    pub(crate) fn back(&self) -> u64 {
        let back = self.receivers.iter().filter(|one| one.fate != Fate::Left);
        back.map(|one| one.node).collect::<BTreeSet<_>>().len() as u64
    }

    /// Each with the message at which it left: `host-2 left at 4,801`.
    #[must_use]
    pub(crate) fn sentence(&self) -> String {
        let receivers = self.receivers.iter().map(GoneReceiver::sentence);
        let shown: Vec<_> = receivers.take(SHOWN).collect();
        match self.lives() - shown.len() as u64 {
            0 => shown.join("; "),
            more => format!(
                "{}; and {} more left",
                shown.join("; "),
                figures::count(more)
            ),
        }
    }

    /// Fails if there are some, and says exactly what they may lack.
    ///
    /// # Errors
    /// [`Code::Incomplete`].
    pub(crate) fn complete(&self) -> Result<(), Failure> {
        if self.lives() == 0 {
            return Ok(());
        }
        let receivers = self.receivers.iter().map(GoneReceiver::account);
        let shown: Vec<_> = receivers.take(SHOWN).collect();
        let more = match self.lives() - shown.len() as u64 {
            0 => String::new(),
            more => format!(", and {} more", figures::count(more)),
        };
        Err(Failure::new(
            Code::Incomplete,
            format!(
                "receivers {} and are not known to have everything: {}{more}",
                self.fates(),
                shown.join(", ")
            ),
            self.remedy(),
        ))
    }

    /// Some have this fate. Of those who are only counted it is not known: they left.
    fn some(&self, fate: Fate) -> bool {
        let unknown = fate == Fate::Left && self.more > 0;
        unknown || self.receivers.iter().any(|one| one.fate == fate)
    }

    /// The texts that apply.
    fn told(&self, texts: [(Fate, &'static str); 3], between: &str) -> String {
        let texts = texts.into_iter().filter(|(fate, _)| self.some(*fate));
        let texts: Vec<&str> = texts.map(|(_, text)| text).collect();
        texts.join(between)
    }

    fn fates(&self) -> String {
        let fates = [
            (Fate::Left, "left"),
            (Fate::Excluded, "were excluded"),
            (
                Fate::Overrun,
                "were away while more was sent than is kept for them",
            ),
        ];
        self.told(fates, " or ")
    }

    fn remedy(&self) -> String {
        let excluded = "a node that pauses for longer than --gone-after (of the membership service, \
                        or of all nodes that may run one) is excluded: give a longer one, and hosts \
                        that do not pause";
        let remedies = [
            (Fate::Left, "end receivers after their publishers"),
            (Fate::Excluded, excluded),
            (
                Fate::Overrun,
                "keep more for receivers that are away, with a larger --retention",
            ),
        ];
        format!(
            "{}; send these messages again to whom they matter",
            self.told(remedies, "; ")
        )
    }
}

impl GoneReceiver {
    fn sentence(&self) -> String {
        let mut firsts: BTreeMap<&str, u64> = BTreeMap::new();
        for range in &self.ranges {
            let first = firsts.entry(&range.group).or_insert(range.first);
            *first = range.first.min(*first);
        }
        let alone = firsts.len() == 1;
        let groups = firsts.iter().take(SHOWN).map(|(group, first)| match alone {
            true => figures::count(*first),
            false => format!("{} of {}", figures::count(*first), printable(group)),
        });
        let shown: Vec<_> = groups.collect();
        let more = match firsts.len() - shown.len() {
            0 => String::new(),
            more => format!(" and of {more} more groups"),
        };
        let verb = match self.fate {
            Fate::Left => "left at",
            Fate::Excluded => "was excluded at",
            Fate::Overrun => "was away for longer than is kept, from",
        };
        format!("{} {verb} {}{more}", self.name, shown.join(", "))
    }

    fn account(&self) -> String {
        format!("{} ({})", self.name, ranges_of(&self.ranges))
    }
}

/// Receivers that are away and lack something, which is kept for them.
pub(crate) struct AwayReceivers<'a>(pub(crate) &'a [Lacking]);

impl AwayReceivers<'_> {
    /// How many.
    #[must_use]
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(Lacking::receivers).sum()
    }

    /// Each with what is kept for it: `host-2 is away for 3.2 s, and 4,900 messages are kept for it`.
    #[must_use]
    pub(crate) fn sentence(&self) -> String {
        let sentence = |lacking: &Lacking| {
            let one = lacking.receivers() == 1;
            let (is, it) = if one { ("is", "it") } else { ("are", "them") };
            let kept = match (lacking.kept, lacking.messages()) {
                (true, 1) => "is kept",
                (true, _) => "are kept",
                (false, 1) => "is more than is kept",
                (false, _) => "are more than is kept",
            };
            format!(
                "{} {is} away for {:.1} s, and {} {kept} for {it}",
                names_of(lacking),
                lacking.away.unwrap_or_default().as_secs_f64(),
                counted(lacking.messages(), "message"),
            )
        };
        let shown: Vec<_> = self.0.iter().take(SHOWN).map(sentence).collect();
        match self.0.iter().skip(SHOWN).map(Lacking::receivers).sum() {
            0 => shown.join("; "),
            more => format!(
                "{}; and {} more are away",
                shown.join("; "),
                figures::count(more)
            ),
        }
    }

    /// Fails if there are some, and says exactly what they do not have yet.
    ///
    /// # Errors
    /// [`Code::Incomplete`].
    pub(crate) fn complete(&self) -> Result<(), Failure> {
        if self.0.is_empty() {
            return Ok(());
        }
        let account = |lacking: &Lacking| {
            let ranges = ranges_of(&lacking.messages);
            format!("{} ({ranges})", names_of(lacking))
        };
        let shown: Vec<_> = self.0.iter().take(SHOWN).map(account).collect();
        Err(Failure::new(
            Code::Incomplete,
            format!(
                "receivers are away and are not known to have everything: {}",
                shown.join(", ")
            ),
            "nothing, if they are back soon: other receivers keep it for them, and tell them of what \
             they have not; see who is away with `qsm nodes`",
        ))
    }
}

fn names_of(lacking: &Lacking) -> String {
    let receivers = lacking.receivers.iter().take(SHOWN);
    let names = receivers.map(|receiver| printable(&receiver.to_string()));
    let names: Vec<_> = names.collect();
    match lacking.receivers() - names.len() as u64 {
        0 => names.join(", "),
        more => format!("{} and {} more", names.join(", "), figures::count(more)),
    }
}

fn ranges_of(ranges: &[Unconfirmed]) -> String {
    let shown = ranges.iter().take(SHOWN).map(Unconfirmed::to_string);
    let shown: Vec<_> = shown.map(|range| printable(&range)).collect();
    let more = match ranges.len() - shown.len() {
        0 => "",
        _ => ", and more",
    };
    format!("{}{more}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use qsm::Incarnation;

    use super::*;

    fn range(group: &str, first: u64) -> Unconfirmed {
        Unconfirmed {
            group: group.into(),
            incarnation: Incarnation(1),
            first,
            last: 9999,
        }
    }

    fn gone(receivers: u64, groups: &[&str]) -> Gone {
        let firsts = (4801..).step_by(10);
        let ranges = groups.iter().zip(firsts);
        let ranges: Vec<_> = ranges.map(|(group, first)| range(group, first)).collect();
        let receiver = |index| GoneReceiver {
            node: NodeId(index),
            name: format!("host-{index}"),
            fate: Fate::Left,
            ranges: ranges.clone(),
        };
        Gone {
            receivers: (0..receivers).map(receiver).collect(),
            more: 0,
        }
    }

    #[test]
    fn who_was_excluded_is_one_receiver_and_gets_another_remedy() {
        let mut some = gone(2, &["news"]);
        // Two lives of one node, which is there again.
        for receiver in &mut some.receivers {
            (receiver.node, receiver.fate) = (NodeId(7), Fate::Excluded);
        }
        assert_eq!((some.count(), some.back()), (1, 1));
        assert!(some.sentence().starts_with("host-0 was excluded at 4,801"));
        let failure = some.complete().unwrap_err();
        assert!(failure.cause.starts_with("receivers were excluded"));
        assert!(failure.remedy.contains("--gone-after"), "{failure}");
        assert!(!failure.remedy.contains("end receivers"), "{failure}");
        let left = gone(1, &["news"]);
        assert_eq!((left.count(), left.back()), (1, 0));
        let failure = left.complete().unwrap_err();
        assert!(
            failure.remedy.starts_with("end receivers after"),
            "{failure}"
        );
        some.receivers.extend(left.receivers);
        let failure = some.complete().unwrap_err();
        let both = failure.cause.starts_with("receivers left or were excluded");
        assert!(
            both && failure.remedy.contains("end receivers"),
            "{failure}"
        );
        assert_eq!((some.count(), some.back()), (2, 1));
    }

    #[test]
    fn who_has_gone_is_named_with_the_message_at_which_it_left() {
        assert_eq!(gone(1, &["news"]).sentence(), "host-0 left at 4,801");
        assert_eq!(
            gone(2, &["news", "sport"]).sentence(),
            "host-0 left at 4,801 of news, 4,811 of sport; \
             host-1 left at 4,801 of news, 4,811 of sport"
        );
        let many = gone(6, &["a", "b", "c", "d", "e", "f"]).sentence();
        assert!(
            many.contains("4,831 of d and of 2 more groups; host-1"),
            "{many}"
        );
        assert!(many.ends_with("; and 2 more left"), "{many}");
    }

    #[test]
    fn what_the_gone_lack_is_incomplete_and_named_exactly() {
        assert_eq!(gone(0, &[]).complete(), Ok(()));
        let failure = gone(1, &["news"]).complete().unwrap_err();
        assert_eq!(failure.code, Code::Incomplete);
        let part = "host-0 (group news 4801..=9999 of life 1)";
        assert!(failure.cause.ends_with(part), "{}", failure.cause);
    }
}
