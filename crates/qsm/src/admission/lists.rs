//! A list of revocations on its way from a service to a node, cut into words of their session.
//!
//! ```text
//!  | 10 | ends | part |          ends: 1 the first part, 2 the last, 3 the only one
//! ```

use std::sync::Arc;

use qsm_identity::Revocations;
use zeroize::Zeroizing;

const KIND: u8 = 10;
const FIRST: u8 = 1;
const LAST: u8 = 2;
/// Bytes of a list in one word.
const PART_BYTES: usize = 1024;
/// Longest list, bytes: one of all that it may have is a little shorter.
const LIST_BYTES_MAX: usize = 66 << 10;

/// A list that is being said to a node, the next part when the former one is receipted.
#[derive(Debug, Default)]
pub(super) struct ListWords {
    list: Option<Arc<Revocations>>,
    said: usize,
}

impl ListWords {
    /// Says this one from its beginning, in the place of another.
    pub(super) fn begin(&mut self, list: Arc<Revocations>) {
        self.list = Some(list);
        self.said = 0;
    }

    /// The next part.
    pub(super) fn next(&mut self) -> Option<Zeroizing<Vec<u8>>> {
        let list = self.list.as_ref()?;
        let rest = &list.as_bytes()[self.said..];
        let (part, later) = rest.split_at(rest.len().min(PART_BYTES));
        let first = if self.said == 0 { FIRST } else { 0 };
        let last = if later.is_empty() { LAST } else { 0 };
        let mut word = Zeroizing::new(vec![KIND, first | last]);
        word.extend_from_slice(part);
        self.said += part.len();
        if later.is_empty() {
            self.list = None;
        }
        Some(word)
    }
}

/// Parts of a list that have come.
#[derive(Debug, Default)]
pub(super) struct ListParts(Vec<u8>);

impl ListParts {
    /// Takes a word. Returns the list with its last part, not verified. Words that are no parts, and parts of what is no
    /// list, change nothing.
    pub(super) fn take(&mut self, word: &[u8]) -> Option<Revocations> {
        let [KIND, ends @ 0..=3, part @ ..] = word else {
            return None;
        };
        if ends & FIRST != 0 {
            self.0.clear();
        }
        if self.0.len() + part.len() > LIST_BYTES_MAX {
            self.0.clear();
            return None;
        }
        self.0.extend_from_slice(part);
        if ends & LAST == 0 {
            return None;
        }
        Revocations::decode(&core::mem::take(&mut self.0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use qsm_identity::{
        ClusterRoot, NodePublic, REVOKED_KEYS_MAX, REVOKED_SERIALS_MAX, RevokedParts, Serial,
    };
    use qsm_seal::EpochOrder;

    use super::super::orders::Over;
    use super::*;

    fn list(number: u64, serials: usize, keys: usize) -> Arc<Revocations> {
        let key = |number: usize| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&number.to_be_bytes());
            NodePublic::from_bytes(bytes)
        };
        let root = ClusterRoot::generate().unwrap();
        let list = root.revoke(RevokedParts {
            cluster: "c".repeat(64),
            number,
            serials: (1..=serials as u64).map(Serial).collect(),
            keys: (0..keys).map(key).collect(),
        });
        Arc::new(list.unwrap())
    }

    fn carry(words: &mut ListWords, parts: &mut ListParts) -> Option<Revocations> {
        let heard = std::iter::from_fn(|| words.next()).map(|word| parts.take(&word));
        heard.last().flatten()
    }

    // Rule R-SEC-12.
    #[test]
    fn lists_of_all_lengths_come_whole() {
        let (mut words, mut parts) = (ListWords::default(), ListParts::default());
        for (serials, keys) in [
            (0, 0),
            (1, 1),
            (200, 40),
            (REVOKED_SERIALS_MAX, REVOKED_KEYS_MAX),
        ] {
            let list = list(1, serials, keys);
            words.begin(Arc::clone(&list));
            assert_eq!(carry(&mut words, &mut parts).as_ref(), Some(&*list));
            assert!(words.next().is_none() && parts.0.is_empty());
        }
    }

    #[test]
    fn a_newer_list_takes_the_place_of_one_on_its_way() {
        let (mut words, mut parts) = (ListWords::default(), ListParts::default());
        words.begin(list(1, 500, 0));
        assert!(parts.take(&words.next().unwrap()).is_none());
        let newer = list(2, 300, 0);
        words.begin(Arc::clone(&newer));
        assert_eq!(carry(&mut words, &mut parts).as_ref(), Some(&*newer));
    }

    #[test]
    fn what_is_no_list_takes_no_memory_and_is_none() {
        let mut parts = ListParts::default();
        let endless = [&[KIND, 0][..], &[7; PART_BYTES]].concat();
        for _ in 0..200 {
            assert!(parts.take(&endless).is_none());
            assert!(parts.0.len() <= LIST_BYTES_MAX);
        }
        for word in [&[][..], &[KIND], &[KIND, 4, 1], &[KIND, 3, 1, 2]] {
            assert!(parts.take(word).is_none());
            assert_eq!((EpochOrder::decode(word), Over::decode(word)), (None, None));
        }
        assert!(parts.take(&Over::Again.encode()).is_none());
    }
}
