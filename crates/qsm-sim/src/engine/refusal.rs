//! Datagrams whose tags do not fit, and what they must not do.

use super::{Datagram, Engine};
use crate::checkers::tagged;
use crate::violation::Violation;

impl Engine {
    /// Datagrams whose tags did not fit.
    pub(crate) fn refused(&self) -> u64 {
        self.guard.refused
    }

    /// State of the host's machine as far as it is shown, if the tag of this datagram does not fit.
    pub(super) fn unguarded(&mut self, host: usize, datagram: &Datagram) -> Option<String> {
        if self.guard.fits(datagram.tag, &datagram.bytes) {
            return None;
        }
        self.guard.refused += 1;
        self.note(host, "refuses a datagram by its tag".to_owned());
        self.shown(host)
    }

    /// Judges whether a datagram whose tag did not fit has changed anything.
    pub(super) fn check_unchanged(
        &self,
        host: usize,
        before: Option<String>,
    ) -> Result<(), Violation> {
        // Showing the state takes much longer than a datagram does: only of what was refused.
        let Some(before) = before else {
            return Ok(());
        };
        match self.shown(host) {
            Some(after) => tagged::check(host, &before, &after),
            None => Ok(()),
        }
    }

    fn shown(&self, host: usize) -> Option<String> {
        self.machine(host).map(|machine| {
            let (counters, due) = (machine.counters(), machine.next_timeout());
            format!("{} {counters:?} {due:?}", machine.describe())
        })
    }
}
