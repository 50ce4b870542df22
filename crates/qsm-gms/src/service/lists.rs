//! Answers to those who only look: lists in parts, to whoever asks (R-MEM-18).
//!
//! A list is encoded once and cut by offsets. The newest two versions of each list are kept for a
//! few seconds, so that an asker gets all parts of one version while others ask for newer ones.

use core::time::Duration;

use qsm_proto::Instant;
use qsm_wire::LIST_BYTES_MAX;
use qsm_wire::membership::QueryKind;

use super::allowance::Allowance;

/// Parts sent per second, to all askers together: a thirtieth of a gigabit per second.
const PARTS_PER_SECOND: u64 = 2048;
/// Parts that may be sent at once.
const PARTS_BURST: u64 = 256;
/// A list is made anew at most once in this time for each [`WORK_BYTES`] of it.
const WORK: Duration = Duration::from_millis(10);
const WORK_BYTES: u64 = 64 << 10;
/// A version that nobody has asked for in so long is forgotten.
const KEPT: Duration = Duration::from_secs(5);
/// Versions kept of each list.
const VERSIONS: usize = 2;

/// One version of a list.
#[derive(Debug)]
pub(super) struct Version {
    pub(super) number: u64,
    made: Instant,
    asked: Instant,
    bytes: Vec<u8>,
}

impl Version {
    /// Length of the whole list.
    pub(super) fn total(&self) -> u32 {
        u32::try_from(self.bytes.len()).unwrap_or(u32::MAX)
    }

    /// A part of at most so many bytes.
    pub(super) fn part(&self, offset: u32, room: usize) -> &[u8] {
        part(&self.bytes, offset, room)
    }

    /// Whether it may serve as the newest one, because making another would be too much work.
    fn is_fresh(&self, now: Instant) -> bool {
        let units = self.bytes.len() as u64 / WORK_BYTES;
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        now.since(self.made) < WORK.saturating_mul(units)
    }
}

/// Versions of the lists, and the right to send parts of them.
#[derive(Debug)]
pub(super) struct Lists {
    /// By list, newest first.
    kept: [Vec<Version>; 3],
    last: u64,
    parts: Allowance,
}

impl Default for Lists {
    fn default() -> Self {
        Self {
            kept: Default::default(),
            last: 0,
            parts: Allowance::new(PARTS_PER_SECOND, PARTS_BURST),
        }
    }
}

impl Lists {
    /// Takes the right to send one part, if there is one.
    pub(super) fn admit(&mut self, now: Instant) -> bool {
        self.parts.admit(now)
    }

    /// Forgets what nobody asks for.
    pub(super) fn tidy(&mut self, now: Instant) {
        for versions in &mut self.kept {
            versions.retain(|version| now.since(version.asked) < KEPT);
        }
    }

    /// A list as it is now, under the number of the newest version if it is the same.
    pub(super) fn add(&mut self, now: Instant, list: QueryKind, bytes: Vec<u8>) {
        let versions = &mut self.kept[place(list)];
        if let Some(newest) = versions.first_mut().filter(|newest| newest.bytes == bytes) {
            newest.made = now;
            return;
        }
        self.last += 1;
        versions.truncate(VERSIONS - 1);
        let version = Version {
            number: self.last,
            made: now,
            asked: now,
            bytes,
        };
        versions.insert(0, version);
    }

    pub(super) fn has(&self, list: QueryKind, number: u64) -> bool {
        let mut versions = self.kept[place(list)].iter();
        versions.any(|version| version.number == number)
    }

    pub(super) fn needs_new(&self, now: Instant, list: QueryKind) -> bool {
        let newest = self.kept[place(list)].first();
        !newest.is_some_and(|newest| newest.is_fresh(now))
    }

    /// The version with this number, else the newest.
    pub(super) fn version(
        &mut self,
        now: Instant,
        list: QueryKind,
        number: u64,
    ) -> Option<&Version> {
        let versions = &mut self.kept[place(list)];
        let at = versions.iter().position(|version| version.number == number);
        let version = versions.get_mut(at.unwrap_or(0))?;
        version.asked = now;
        Some(version)
    }
}

fn place(list: QueryKind) -> usize {
    match list {
        QueryKind::Nodes => 0,
        QueryKind::Groups => 1,
        QueryKind::Regions => 2,
    }
}

/// Of a list that is too long there are no parts: its length says so.
fn part(bytes: &[u8], offset: u32, room: usize) -> &[u8] {
    if bytes.len() > LIST_BYTES_MAX {
        return &[];
    }
    let offset = usize::try_from(offset).unwrap_or(usize::MAX);
    let rest = bytes.get(offset..).unwrap_or_default();
    &rest[..rest.len().min(room)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: QueryKind = QueryKind::Nodes;

    fn at(ms: u64) -> Instant {
        Instant(ms * 1_000_000)
    }

    #[test]
    fn two_versions_are_kept_and_the_same_list_is_the_same_version() {
        let mut lists = Lists::default();
        lists.add(at(0), LIST, vec![1]);
        lists.add(at(1), LIST, vec![1]);
        assert_eq!(lists.version(at(1), LIST, 0).unwrap().number, 1);
        lists.add(at(2), LIST, vec![2]);
        assert!(lists.has(LIST, 1) && lists.has(LIST, 2));
        lists.add(at(3), LIST, vec![3]);
        assert!(!lists.has(LIST, 1) && lists.has(LIST, 2));
        assert!(!lists.has(QueryKind::Groups, 2));
        assert_eq!(lists.version(at(4), LIST, 2).unwrap().bytes, [2]);
        lists.tidy(at(5003));
        assert!(!lists.has(LIST, 3) && lists.has(LIST, 2));
    }

    #[test]
    fn a_long_list_is_made_more_rarely_than_a_short_one() {
        let mut lists = Lists::default();
        lists.add(at(0), LIST, vec![0; 1000]);
        assert!(lists.needs_new(at(0), LIST));
        lists.add(at(0), LIST, vec![0; 1 << 20]);
        assert!(!lists.needs_new(at(159), LIST));
        assert!(lists.needs_new(at(160), LIST));
    }

    #[test]
    fn parts_lie_within_the_list() {
        let bytes: Vec<u8> = (0..10).collect();
        assert_eq!(part(&bytes, 0, 4), [0, 1, 2, 3]);
        assert_eq!(part(&bytes, 8, 4), [8, 9]);
        assert_eq!(part(&bytes, 10, 4), []);
        assert_eq!(part(&bytes, u32::MAX, 4), []);
        assert_eq!(part(&vec![0; LIST_BYTES_MAX + 1], 0, 4), []);
    }
}
