//! SHA-256, as `sha256sum` writes it.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

/// A hash.
pub(crate) type Hash = [u8; 32];

/// Of these bytes.
#[must_use]
pub(crate) fn sha256(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// In lower-case hexadecimal digits.
#[must_use]
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('?');
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}

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
            let group = crate::table::printable(group);
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
        assert_eq!(hex(&sha256(b"abc")), abc);
    }
}
