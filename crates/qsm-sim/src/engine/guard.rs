//! A cipher that encrypts nothing, and still tags: what strangers send is refused by their tags.
//!
//! A tag is a hash of the bytes under a key of the run's own, which members have and strangers have
//! not: these can only repeat tags that they have heard.

use qsm_proto::Seed;

use crate::digest::Digest;
use crate::mischief::Mischief;

/// Guard between a host's socket and its machine.
#[derive(Debug)]
pub(super) struct Guard {
    /// The members' key; `None` in runs without tags.
    key: Option<u64>,
    /// Everything is let through, if there is that bug.
    open: bool,
    pub(super) refused: u64,
}

impl Guard {
    pub(super) fn new(tagged: bool, mischief: Mischief, seed: Seed) -> Self {
        Self {
            key: tagged.then_some(!seed.0),
            open: mischief == Mischief::TagIgnored,
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

    pub(super) fn fits(&self, tag: u64, bytes: &[u8]) -> bool {
        self.key.is_none() || self.tag(bytes) == tag
    }
}
