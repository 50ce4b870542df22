//! SHA-256 of everything received, by group.

use std::collections::BTreeMap;

use qsm_console::digest::hex;
use qsm_console::table::printable;
use sha2::{Digest as _, Sha256};

/// Hashes of what was received, by group.
#[derive(Debug, Default)]
pub(crate) struct GroupHashes(BTreeMap<String, GroupHash>);

#[derive(Debug, Default)]
struct GroupHash {
    hash: Sha256,
    messages: u64,
    bytes: u64,
}

impl GroupHashes {
    /// Adds a message as it is written.
    pub(crate) fn add(&mut self, group: &str, written: &[u8]) {
        if !self.0.contains_key(group) {
            self.0.insert(group.to_owned(), GroupHash::default());
        }
        if let Some(entry) = self.0.get_mut(group) {
            entry.hash.update(written);
            entry.messages += 1;
            entry.bytes += written.len() as u64;
        }
    }

    /// A line for each group: hash, messages, bytes, name.
    #[must_use]
    pub(crate) fn lines(&self) -> String {
        let line = |(group, entry): (&String, &GroupHash)| {
            let hash = hex(&entry.hash.clone().finalize());
            let group = printable(group);
            format!("{hash}  {}  {}  {group}\n", entry.messages, entry.bytes)
        };
        self.0.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_all_messages_in_a_row() {
        let mut hashes = GroupHashes::default();
        hashes.add("b", b"x");
        hashes.add("a", b"ab");
        hashes.add("a", b"c");
        let lines = hashes.lines();
        // The vector of FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert!(lines.starts_with(&format!("{abc}  2  3  a\n")), "{lines}");
        assert_eq!(lines.lines().count(), 2);
    }
}
