//! What each end of a link says of itself, once, on a stream of the connection.

use qsm_identity::{NODE_NAME_BYTES_MAX, TOKEN_BYTES_MAX};

const VERSION: u8 = 1;
const FIXED_BYTES: usize = 1 + 4 + 8 + 1 + 2;
/// Longest hello.
pub(crate) const HELLO_BYTES_MAX: usize = FIXED_BYTES + NODE_NAME_BYTES_MAX + TOKEN_BYTES_MAX;

/// An end of a link, as it says. Numbers have their lowest byte first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Number that the other end is to write into datagrams for this one.
    pub(crate) link: u32,
    /// Number that its process has drawn.
    pub(crate) life: u64,
    pub(crate) name: String,
    pub(crate) token: Vec<u8>,
}

impl Hello {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![VERSION];
        bytes.extend_from_slice(&self.link.to_le_bytes());
        bytes.extend_from_slice(&self.life.to_le_bytes());
        // Both lengths are bounded where names and tokens are made.
        bytes.push(u8::try_from(self.name.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(self.name.as_bytes());
        let length = u16::try_from(self.token.len()).unwrap_or(u16::MAX);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&self.token);
        bytes
    }

    /// Reads a whole hello, and nothing behind it.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes;
        let [version] = take(&mut rest)?;
        let link = u32::from_le_bytes(take(&mut rest)?);
        let life = u64::from_le_bytes(take(&mut rest)?);
        let [length] = take(&mut rest)?;
        let (name, behind) = rest.split_at_checked(usize::from(length))?;
        rest = behind;
        let length = u16::from_le_bytes(take(&mut rest)?);
        let fits = name.len() <= NODE_NAME_BYTES_MAX && rest.len() <= TOKEN_BYTES_MAX;
        let whole = rest.len() == usize::from(length);
        (version == VERSION && fits && whole).then_some(())?;
        Some(Self {
            link,
            life,
            name: std::str::from_utf8(name).ok()?.to_owned(),
            token: rest.to_vec(),
        })
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_is_read_back_and_nothing_shorter_or_longer_is() {
        let hello = Hello {
            link: 7,
            life: 1 << 40,
            name: "fra/relay".to_owned(),
            token: vec![3; 200],
        };
        let bytes = hello.encode();
        assert_eq!(Hello::decode(&bytes), Some(hello));
        for length in 0..bytes.len() {
            assert_eq!(Hello::decode(&bytes[..length]), None, "{length}");
        }
        assert_eq!(Hello::decode(&[&bytes[..], &[0]].concat()), None);
    }
}
