//! A cipher that encrypts nothing, and still tags: what strangers send is refused by their tags.
//!
//! A tag is a hash of the bytes under a key of the run's own, which members have and strangers have
//! not: these can only repeat tags that they have heard.

use qsm_proto::Seed;

use super::{Datagram, Engine, EngineOptions};
use crate::checkers::tagged;
use crate::digest::Digest;
use crate::mischief::Mischief;
use crate::violation::Violation;

/// What stands between a host's socket and its machine.
#[derive(Debug)]
pub(super) struct Guard {
    /// The members' key; `None` in runs without tags.
    key: Option<u64>,
    /// Everything is let through, if there is that bug.
    open: bool,
    refused: u64,
}

impl Guard {
    pub(super) fn new(options: EngineOptions, seed: Seed) -> Self {
        Self {
            key: options.tagged.then_some(!seed.0),
            open: options.mischief == Mischief::TagIgnored,
            refused: 0,
        }
    }

    /// The tag that a member gives to these bytes.
    pub(super) fn tag(&self, bytes: &[u8]) -> u64 {
        self.key.map_or(0, |key| {
            let mut digest = Digest::new(key);
            digest.bytes(bytes);
            digest.value()
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.open
    }

    fn fits(&self, datagram: &Datagram) -> bool {
        self.key.is_none() || self.tag(&datagram.bytes) == datagram.tag
    }
}

impl Engine {
    /// Datagrams whose tags did not fit.
    pub(crate) fn refused(&self) -> u64 {
        self.guard.refused
    }

    /// What the host's machine shows of its state, if the tag of this datagram does not fit.
    pub(super) fn unguarded(&mut self, host: usize, datagram: &Datagram) -> Option<String> {
        if self.guard.fits(datagram) {
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
        match (before, self.shown(host)) {
            (Some(before), Some(after)) => tagged::check(host, &before, &after),
            _ => Ok(()),
        }
    }

    fn shown(&self, host: usize) -> Option<String> {
        self.machine(host).map(|machine| {
            let (counters, due) = (machine.counters(), machine.next_timeout());
            format!("{} {counters:?} {due:?}", machine.describe())
        })
    }
}
