//! Credentials that are a word.

use qsm_handshake::{Admission, Refused};

/// Seconds since 1970 at which the tests begin.
pub(crate) const UNIX: u64 = 1_800_000_000;

/// Takes who shows the word, until its time.
#[derive(Debug, Clone)]
pub(crate) struct Word {
    pub(crate) word: &'static [u8],
    pub(crate) until: u64,
}

impl Admission for Word {
    type Grant = [u8; 32];

    fn admit(&self, key: &[u8; 32], credential: &[u8], now: u64) -> Result<[u8; 32], Refused> {
        if credential != self.word {
            return Err(Refused::new("its word is another one"));
        }
        if now > self.until {
            return Err(Refused::new("its time is over"));
        }
        Ok(*key)
    }
}

pub(crate) const SERVICE: Word = Word {
    word: b"the service",
    until: u64::MAX,
};
