//! The receivers of a publisher: names of those who are there, and what those lack who have gone.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use qsm::{Flushed, Lacking, Node, Origin, Unconfirmed, UnservedCause};
use qsm_console::failure::{Code, Failure};
use qsm_console::figures;
use qsm_console::reach::Names;
use qsm_console::table::printable;

/// Shortest time between two questions who is there.
const PAUSE: Duration = Duration::from_secs(1);

/// Receivers, and groups of each, that a line names.
const SHOWN: usize = 4;

/// Names of receivers. Who has gone is in no list any more, so they are learnt while they are there.
pub(crate) struct Audience {
    names: Names,
    questions: SyncSender<()>,
    /// Views seen when it was asked last, and the time.
    views: u64,
    asked: Instant,
}

impl Audience {
    /// Of those who are there now. A service that does not answer only costs the names.
    ///
    /// # Errors
    /// There is no thread for it.
    pub(crate) fn new(node: &Node, names: Names) -> Result<Self, Failure> {
        learn(node, &names);
        let (questions, asked) = sync_channel(1);
        let (node, known) = (node.clone(), names.clone());
        thread::Builder::new()
            .name("names".to_owned())
            .spawn(move || answer(&asked, &node, &known))
            .map_err(|error| Failure::io("start a thread", &error))?;
        Ok(Self {
            names,
            questions,
            views: 0,
            asked: Instant::now(),
        })
    }

    /// Asks again, without waiting, if there have been views since; so many there have been in all.
    pub(crate) fn look(&mut self, views: u64) {
        if views != self.views && self.asked.elapsed() >= PAUSE {
            (self.views, self.asked) = (views, Instant::now());
            // If the last question is still waiting, it will do.
            let _asked = self.questions.try_send(());
        }
    }

    /// Those who have gone, each with all that it may lack.
    #[must_use]
    pub(crate) fn gone(&self, flushed: &Flushed) -> Gone {
        let unserved = &flushed.unserved;
        let mut lacking: BTreeMap<Origin, (Vec<Unconfirmed>, bool)> = BTreeMap::new();
        for unserved in unserved {
            for receiver in &unserved.receivers {
                let (ranges, back) = lacking.entry(*receiver).or_insert((Vec::new(), true));
                ranges.extend(unserved.messages.iter().cloned());
                *back &= unserved.cause == UnservedCause::Overrun;
            }
        }
        let receivers = lacking.into_iter();
        let receivers = receivers.map(|(origin, (ranges, back))| GoneReceiver {
            name: self.names.of(origin),
            ranges,
            back,
        });
        Gone {
            receivers: receivers.collect(),
            more: unserved
                .iter()
                .map(|unserved| unserved.receivers_more)
                .sum::<u64>()
                + flushed.more,
        }
    }
}

fn answer(asked: &Receiver<()>, node: &Node, names: &Names) {
    while asked.recv().is_ok() {
        learn(node, names);
    }
}

/// Asks the membership service for the names of all nodes.
pub(crate) fn learn(node: &Node, names: &Names) {
    let Ok(rows) = node.list_nodes() else {
        return;
    };
    for row in rows {
        names.learn(row.origin, row.name);
    }
}

/// Receivers that have gone without being known to have everything.
pub(crate) struct Gone {
    receivers: Vec<GoneReceiver>,
    /// Number of further ones.
    more: u64,
}

struct GoneReceiver {
    name: String,
    /// Messages that it may lack.
    ranges: Vec<Unconfirmed>,
    /// It is there again: it was away for longer than is kept for it.
    back: bool,
}

impl Gone {
    /// How many.
    #[must_use]
    pub(crate) fn count(&self) -> u64 {
        self.receivers.len() as u64 + self.more
    }

    /// How many of them are there again.
    #[must_use]
    pub(crate) fn back(&self) -> u64 {
        self.receivers.iter().filter(|one| one.back).count() as u64
    }

    /// Each with the message at which it left: `host-2 left at 4,801`.
    #[must_use]
    pub(crate) fn sentence(&self) -> String {
        let receivers = self.receivers.iter().map(GoneReceiver::sentence);
        let shown: Vec<_> = receivers.take(SHOWN).collect();
        match self.count() - shown.len() as u64 {
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
        if self.count() == 0 {
            return Ok(());
        }
        let receivers = self.receivers.iter().map(GoneReceiver::account);
        let shown: Vec<_> = receivers.take(SHOWN).collect();
        let more = match self.count() - shown.len() as u64 {
            0 => String::new(),
            more => format!(", and {} more", figures::count(more)),
        };
        Err(Failure::new(
            Code::Incomplete,
            format!(
                "receivers are not known to have everything: {}{more}",
                shown.join(", ")
            ),
            match self.back() == self.count() {
                true => {
                    "keep more for receivers that are away, with a larger --retention; send these \
                     messages again to whom they matter"
                }
                false => {
                    "end receivers after their publishers; send these messages again to whom they \
                     matter"
                }
            },
        ))
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
        let (name, firsts) = (&self.name, shown.join(", "));
        match self.back {
            true => {
                format!("{name} was away while more than is kept was sent, from {firsts}{more} on")
            }
            false => format!("{name} left at {firsts}{more}"),
        }
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
            let kept = match lacking.kept {
                true => "are kept",
                false => "are more than is kept",
            };
            format!(
                "{} {is} away for {:.1} s, and {} messages {kept} for {it}",
                names_of(lacking),
                lacking.away.unwrap_or_default().as_secs_f64(),
                figures::count(lacking.messages()),
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

    fn gone(receivers: usize, groups: &[&str]) -> Gone {
        let firsts = (4801..).step_by(10);
        let ranges = groups.iter().zip(firsts);
        let ranges: Vec<_> = ranges.map(|(group, first)| range(group, first)).collect();
        let receiver = |index| GoneReceiver {
            name: format!("host-{index}"),
            ranges: ranges.clone(),
            back: false,
        };
        Gone {
            receivers: (0..receivers).map(receiver).collect(),
            more: 0,
        }
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
