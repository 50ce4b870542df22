//! Times in which a subscriber was excluded, and whose messages it may have missed then.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use qsm::{Message, Origin};

use crate::names::Names;

/// Pairs of sender and group that are kept apart.
const PAIRS_MAX: usize = 1 << 16;
/// Senders that a text names.
const SENDERS_SHOWN: usize = 8;
/// One who looks twice a second or more often was not stopped in between.
const STALL: Duration = Duration::from_millis(500);

type Pairs = BTreeMap<Origin, BTreeSet<String>>;

/// What is known of them.
#[derive(Debug)]
pub struct Absences {
    /// Who was heard in which groups.
    heard: Pairs,
    pairs: usize,
    /// The sender and group of the last message.
    recent: Option<(Origin, String)>,
    /// Of these nothing has come since an exclusion, so that it is not known what was missed.
    unheard: Pairs,
    /// From when to when; the last one may not have ended.
    spans: Vec<(SystemTime, Option<SystemTime>)>,
    /// What was received before the last exclusion has not all been read.
    settling: bool,
    /// A subscription has told of the last exclusion: what it tells next came after that.
    returned: bool,
    /// A message has come since the last look.
    fresh: bool,
    /// Senders heard for the first time since somebody asked.
    newcomers: u64,
    heard_at: SystemTime,
    looked_at: SystemTime,
    /// When this process stood still last, and until when.
    stall: (SystemTime, SystemTime),
}

impl Absences {
    /// None yet.
    #[must_use]
    pub fn new(now: SystemTime) -> Self {
        Self {
            heard: Pairs::new(),
            pairs: 0,
            recent: None,
            unheard: Pairs::new(),
            spans: Vec::new(),
            settling: false,
            returned: false,
            fresh: false,
            newcomers: 0,
            heard_at: now,
            looked_at: now,
            stall: (now, now),
        }
    }

    /// A message has been read.
    pub fn heard(&mut self, message: &Message) {
        self.note(message.sender(), message.group());
    }

    fn note(&mut self, sender: Origin, group: &str) {
        self.fresh = true;
        let again = |(last, name): &(Origin, String)| *last == sender && name == group;
        if self.recent.as_ref().is_some_and(again) && self.unheard.is_empty() {
            return;
        }
        self.recent = Some((sender, group.to_owned()));
        if !self.settling {
            self.resolve(sender, group);
        }
        self.newcomers += u64::from(!self.heard.contains_key(&sender));
        let groups = self.heard.entry(sender).or_default();
        if self.pairs < PAIRS_MAX && !groups.contains(group) {
            groups.insert(group.to_owned());
            self.pairs += 1;
        }
    }

    /// Number of senders that have been heard for the first time since this was asked last.
    pub(crate) fn take_newcomers(&mut self) -> u64 {
        core::mem::take(&mut self.newcomers)
    }

    /// Nothing more waits to be read.
    pub fn idle(&mut self) {
        self.settling &= self.spans.last().is_some_and(|(_, until)| until.is_none());
    }

    /// It is exactly known what was missed of this sender in this group.
    fn resolve(&mut self, sender: Origin, group: &str) {
        if let Some(groups) = self.unheard.get_mut(&sender) {
            groups.remove(group);
            if groups.is_empty() {
                self.unheard.remove(&sender);
            }
        }
    }

    /// To be called often, before events are looked at.
    pub fn look(&mut self, now: SystemTime) {
        let gap = now.duration_since(self.looked_at).unwrap_or_default();
        if gap >= STALL {
            self.stall = (self.looked_at, now);
        }
        if core::mem::take(&mut self.fresh) {
            self.heard_at = now;
        }
        self.looked_at = now;
    }

    /// Since when this process stood still, if it has just gone on.
    #[must_use]
    pub fn stalled(&self, now: SystemTime) -> Option<SystemTime> {
        let since = now.duration_since(self.stall.1).unwrap_or_default();
        let stalled = self.stall.0 != self.stall.1 && since < 4 * STALL;
        stalled.then_some(self.stall.0)
    }

    /// The node learns that it was excluded: it has missed what was sent since it stood still, or
    /// since the last message.
    pub fn begin(&mut self, now: SystemTime) {
        let from = self.stalled(now).unwrap_or(self.heard_at);
        self.spans.push((from, None));
        for (sender, groups) in core::mem::take(&mut self.heard) {
            self.unheard.entry(sender).or_default().extend(groups);
        }
        self.pairs = 0;
        self.recent = None;
        self.settling = true;
        self.returned = false;
    }

    /// A subscription tells, in its order, that the node was excluded.
    pub fn returned(&mut self) {
        self.returned = true;
    }

    /// A subscription tells exactly what is missing of this sender in this group. What it tells
    /// of the time before an exclusion says nothing about that.
    pub fn lost(&mut self, sender: Origin, group: &str) {
        if self.returned || !self.settling {
            self.resolve(sender, group);
        }
    }

    /// It is back.
    pub fn end(&mut self, now: SystemTime) {
        if let Some((_, until)) = self.spans.last_mut() {
            until.get_or_insert(now);
        }
    }

    /// When, and what may be missing; `None` if it was never excluded.
    #[must_use]
    pub fn tell(&self, names: &Names) -> Option<String> {
        let span = |(from, until): &(SystemTime, Option<SystemTime>)| {
            let until = until.map_or_else(|| "the end".to_owned(), clock);
            format!("from {} to {until}", clock(*from))
        };
        let spans: Vec<String> = self.spans.iter().map(span).collect();
        if spans.is_empty() {
            return None;
        }
        let senders = self.unheard.keys().take(SENDERS_SHOWN);
        let senders: Vec<String> = senders.map(|one| names.with_identity(*one)).collect();
        let more = self.unheard.len() - senders.len();
        let whose = match (senders.len(), more) {
            (0, _) => "of senders not heard before".to_owned(),
            (1, _) => format!("of sender {}", senders[0]),
            (_, 0) => format!("of senders {}", senders.join(", ")),
            (_, more) => format!("of senders {} and {more} more", senders.join(", ")),
        };
        Some(format!(
            "excluded {}: messages {whose} sent meanwhile may be missing",
            spans.join(", and ")
        ))
    }
}

/// The time of day, UTC.
fn clock(time: SystemTime) -> String {
    let seconds = time
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
    format!("{hours:02}:{minutes:02}:{:02} UTC", seconds % 60)
}

#[cfg(test)]
mod tests {
    use qsm::{Incarnation, NodeId};

    use super::*;

    fn origin(node: u64) -> Origin {
        Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        }
    }

    fn at(milliseconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(3_600_000 + milliseconds)
    }

    fn told(absences: &Absences) -> String {
        absences.tell(&Names::default()).unwrap_or_default()
    }

    #[test]
    fn who_stood_still_misses_what_was_sent_since_then() {
        let mut absences = Absences::new(at(0));
        absences.note(origin(1), "a");
        absences.note(origin(2), "a");
        absences.look(at(1000));
        assert_eq!(absences.tell(&Names::default()), None);
        absences.look(at(6000));
        // What had been received before is read now.
        absences.note(origin(1), "a");
        absences.look(at(6010));
        absences.begin(at(6010));
        absences.end(at(6020));
        absences.note(origin(2), "a");
        assert_eq!(
            told(&absences),
            "excluded from 01:00:01 UTC to 01:00:06 UTC: messages of senders 1.1, 2.1 sent \
             meanwhile may be missing"
        );
        absences.resolve(origin(1), "a");
        absences.idle();
        absences.note(origin(2), "b");
        assert!(
            told(&absences).contains("of sender 2.1 sent"),
            "{absences:?}"
        );
        absences.note(origin(2), "a");
        assert!(told(&absences).contains("not heard before"), "{absences:?}");
    }

    #[test]
    fn a_loss_told_after_the_exclusion_says_what_was_missed_and_one_before_does_not() {
        let mut absences = Absences::new(at(0));
        absences.note(origin(1), "a");
        absences.begin(at(10));
        absences.end(at(20));
        absences.lost(origin(1), "a");
        assert!(
            told(&absences).contains("of sender 1.1 sent"),
            "{absences:?}"
        );
        absences.returned();
        absences.lost(origin(1), "a");
        assert!(told(&absences).contains("not heard before"), "{absences:?}");
        absences.note(origin(1), "a");
        absences.begin(at(30));
        absences.lost(origin(1), "a");
        assert!(
            told(&absences).contains("of sender 1.1 sent"),
            "{absences:?}"
        );
    }

    #[test]
    fn who_was_cut_off_misses_what_was_sent_since_the_last_message() {
        let mut absences = Absences::new(at(0));
        absences.note(origin(1), "a");
        for look in 1..=100 {
            absences.look(at(100 * look));
        }
        absences.begin(at(10_000));
        assert!(told(&absences).starts_with("excluded from 01:00:00 UTC to the end"));
    }
}
