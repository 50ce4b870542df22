//! Notices about subjects that change again and again: each is told at most once in a time.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

/// Time between two notices about one subject.
pub const PAUSE: Duration = Duration::from_secs(10);
/// Subjects that are remembered; notices about others are not held back.
const SUBJECTS_MAX: usize = 1 << 12;

/// Notices by subject, of which the newest is held back until its time has come.
#[derive(Debug)]
pub struct Restraint<K, T> {
    subjects: BTreeMap<K, Subject<T>>,
}

#[derive(Debug)]
struct Subject<T> {
    told_at: SystemTime,
    held: Option<T>,
    /// Notices since then.
    changes: u32,
}

/// A notice whose time has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told<T> {
    /// The newest one.
    pub notice: T,
    /// Notices since the one that was told before, this one included.
    pub changes: u32,
}

impl<T> Told<T> {
    /// Words for the end of a line, where other changes were not told of.
    #[must_use]
    pub fn suffix(&self) -> String {
        match self.changes {
            0 | 1 => String::new(),
            changes => format!(
                "; it comes and goes: {changes} changes in {} s",
                PAUSE.as_secs()
            ),
        }
    }
}

impl<K, T> Default for Restraint<K, T> {
    fn default() -> Self {
        Self {
            subjects: BTreeMap::new(),
        }
    }
}

impl<K: Ord, T> Restraint<K, T> {
    /// Takes a notice; returns it if its subject's time has come.
    pub fn take(&mut self, subject: K, notice: T, now: SystemTime) -> Option<Told<T>> {
        if let Some(known) = self.subjects.get_mut(&subject)
            && !is_over(known.told_at, now)
        {
            known.changes = known.changes.saturating_add(1);
            known.held = Some(notice);
            return None;
        }
        self.subjects
            .retain(|_, known| known.held.is_some() || !is_over(known.told_at, now));
        let mut told = Told { notice, changes: 1 };
        if let Some(known) = self.subjects.get_mut(&subject) {
            // It has come just before the one that was held would have been told.
            told.changes += known.changes;
            *known = Subject::new(now);
        } else if self.subjects.len() < SUBJECTS_MAX {
            self.subjects.insert(subject, Subject::new(now));
        }
        Some(told)
    }

    /// Those held back whose time has come.
    pub fn due(&mut self, now: SystemTime) -> Vec<Told<T>> {
        let due = self.subjects.values_mut().filter_map(|known| {
            let notice = known.held.take_if(|_| is_over(known.told_at, now))?;
            let changes = known.changes;
            *known = Subject::new(now);
            Some(Told { notice, changes })
        });
        due.collect()
    }
}

impl<T> Subject<T> {
    fn new(now: SystemTime) -> Self {
        Self {
            told_at: now,
            held: None,
            changes: 0,
        }
    }
}

/// The pause after a notice; a clock that was set back ends it.
fn is_over(told_at: SystemTime, now: SystemTime) -> bool {
    now.duration_since(told_at)
        .map_or(true, |since| since >= PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)
    }

    #[test]
    fn a_subject_that_flaps_is_told_once_in_ten_seconds_and_last_as_it_is() {
        let mut restraint = Restraint::default();
        let mut told = Vec::new();
        for second in 0..60 {
            let state = if second % 2 == 0 { "deaf" } else { "hears" };
            told.extend(restraint.due(at(second)));
            told.extend(restraint.take("sink", state, at(second)));
        }
        told.extend(restraint.due(at(70)));
        assert_eq!(told.len(), 7, "{told:?}");
        assert_eq!(
            told[0],
            Told {
                notice: "deaf",
                changes: 1
            }
        );
        assert_eq!(told.last().map(|told| told.notice), Some("hears"));
        let all: u32 = told.iter().map(|told| told.changes).sum();
        assert_eq!(all, 60);
        assert!(told[1].suffix().contains("changes in 10 s"));
        assert_eq!(told[0].suffix(), "");
        assert_eq!(restraint.due(at(200)), []);
    }

    #[test]
    fn subjects_do_not_hold_each_other_back() {
        let mut restraint = Restraint::default();
        let subjects = 2 * SUBJECTS_MAX;
        let told = (0..subjects).filter_map(|subject| restraint.take(subject, (), at(1)));
        assert_eq!(told.count(), subjects);
        assert_eq!(restraint.subjects.len(), SUBJECTS_MAX);
        assert_eq!(restraint.take(0, (), at(2)), None);
        // Those that are over make room.
        assert!(restraint.take(subjects, (), at(12)).is_some());
        assert_eq!(restraint.subjects.len(), 2);
        assert_eq!(
            restraint.due(at(12)),
            [Told {
                notice: (),
                changes: 1
            }]
        );
    }

    #[test]
    fn a_clock_that_is_set_back_silences_nobody() {
        let mut restraint = Restraint::default();
        assert!(restraint.take(1, "a", at(100)).is_some());
        assert!(restraint.take(1, "b", at(50)).is_some());
    }
}
