//! What a core knows of addresses that its interfaces have lost.

use std::time::Duration;

use qsm_proto::Instant;

/// Pause before the interface is looked at again although the kernel tells of no change, and time
/// after which an address that is not there is spoken of.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// What is known of an address that is not there.
#[derive(Default)]
pub(super) struct Addresses {
    /// When to look again.
    due: Option<Instant>,
    missing_since: Option<Instant>,
    /// The application knows.
    told: bool,
}

impl Addresses {
    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it is time to look again.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.due.is_some_and(|due| due <= now)
    }

    /// Tells if one is not there.
    pub(super) fn is_missing(&self) -> bool {
        self.missing_since.is_some()
    }

    /// All are there. `true`: the application was told that one is not.
    pub(super) fn find(&mut self) -> bool {
        core::mem::take(self).told
    }

    /// One is not there. `true`: that is to be told now.
    pub(super) fn miss(&mut self, now: Instant) -> bool {
        self.due = Some(now.after(LOOK_AGAIN));
        let since = *self.missing_since.get_or_insert(now);
        let tell = !self.told && now.since(since) >= LOOK_AGAIN;
        self.told |= tell;
        tell
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_is_gone_for_a_moment_is_not_spoken_of() {
        let at = |milliseconds| Instant(0).after(Duration::from_millis(milliseconds));
        let mut addresses = Addresses::default();
        assert!(!addresses.miss(at(0)));
        assert!(!addresses.miss(at(900)));
        assert!(addresses.miss(at(1000)));
        assert_eq!(addresses.next_timeout(), Some(at(2000)));
        assert!(!addresses.miss(at(5000)), "it is said once");
        assert!(addresses.is_missing());
        assert!(addresses.find() && !addresses.is_missing());
    }
}
