//! Contents of a relayed stream, sealed end to end: who passes it on holds ciphertext only.

use core::fmt;
use std::collections::VecDeque;

use aws_lc_rs::rand;
use qsm_wire::TAG_BYTES;
use zeroize::Zeroizing;

use crate::aead::PacketKey;
use crate::key::{ClusterKey, KeyError, SECRET_BYTES, expand};
use crate::layout::control_nonce;

/// Bytes of the random number of a source's life.
const LIFE_BYTES: usize = 16;
/// Bytes in front of the ciphertext: the life, and a counter, little-endian.
const HEAD_BYTES: usize = LIFE_BYTES + size_of::<u64>();
/// Bytes by which a content grows.
pub const CONTENT_GROWTH: usize = HEAD_BYTES + TAG_BYTES;
/// Former lives that are told from new ones; older ones are forgotten.
const FORMER_MAX: usize = 64;

type Life = [u8; LIFE_BYTES];

/// Seals the contents of one life of a stream's source. Rule R-RELAY-50.
#[derive(Debug)]
pub struct ContentSealer {
    key: PacketKey,
    life: Life,
    counter: u64,
}

impl ContentSealer {
    /// A new life of the source of the stream of this name.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers. [`KeyError::Processor`]: the cipher needs instructions
    /// that this processor has not.
    pub fn new(key: &ClusterKey, stream: &str) -> Result<Self, KeyError> {
        let mut life = [0; LIFE_BYTES];
        rand::fill(&mut life).map_err(|_| KeyError::Random)?;
        let derived = derive(key, stream, &life);
        Ok(Self {
            key: derived.ok_or_else(|| KeyError::Processor(key.cipher()))?,
            life,
            counter: 0,
        })
    }

    /// The content, sealed: [`CONTENT_GROWTH`] bytes longer. `None` if the cipher refuses, for contents of more than
    /// 64 GB.
    #[must_use]
    pub fn seal(&mut self, content: &[u8]) -> Option<Vec<u8>> {
        self.counter += 1;
        let mut sealed = Vec::with_capacity(content.len() + CONTENT_GROWTH);
        sealed.extend_from_slice(&self.life);
        sealed.extend_from_slice(&self.counter.to_le_bytes());
        sealed.extend_from_slice(content);
        let (head, body) = sealed.split_at_mut(HEAD_BYTES);
        let tag = self.key.seal(control_nonce(self.counter), head, body)?;
        sealed.extend_from_slice(&tag);
        Some(sealed)
    }
}

/// Opens the contents of a stream in the order in which its source has sealed them; some may be missing.
/// Rule R-RELAY-50.
#[derive(Debug)]
pub struct ContentOpener {
    key: ClusterKey,
    stream: String,
    current: Option<Current>,
    /// Lives that are over, the latest last.
    former: VecDeque<Life>,
}

/// The life that contents come from.
#[derive(Debug)]
struct Current {
    life: Life,
    key: PacketKey,
    /// Counter of the newest content that was opened.
    counter: u64,
}

impl ContentOpener {
    /// Opens what is sealed for the stream of this name by this key, and nothing else.
    #[must_use]
    pub fn new(key: ClusterKey, stream: &str) -> Self {
        Self {
            key,
            stream: stream.to_owned(),
            current: None,
            former: VecDeque::new(),
        }
    }

    /// The content, as it was before it was sealed.
    ///
    /// # Errors
    /// [`ContentError`]; then nothing has changed.
    pub fn open(&mut self, sealed: &[u8]) -> Result<Vec<u8>, ContentError> {
        let (head, body) = sealed
            .split_at_checked(HEAD_BYTES)
            .ok_or(ContentError::Short)?;
        if body.len() < TAG_BYTES {
            return Err(ContentError::Short);
        }
        let (life, counter) = head
            .split_first_chunk::<LIFE_BYTES>()
            .ok_or(ContentError::Short)?;
        let counter = counter.try_into().map_err(|_| ContentError::Short)?;
        let counter = u64::from_le_bytes(counter);
        let current = self.current.as_mut().filter(|it| it.life == *life);
        match current {
            Some(current) if counter <= current.counter => Err(ContentError::Again),
            Some(current) => {
                let content = open(&current.key, counter, head, body)?;
                current.counter = counter;
                Ok(content)
            }
            None if self.former.contains(life) => Err(ContentError::Again),
            None => self.begin(*life, counter, head, body),
        }
    }

    /// The first content of a life.
    fn begin(
        &mut self,
        life: Life,
        counter: u64,
        head: &[u8],
        body: &[u8],
    ) -> Result<Vec<u8>, ContentError> {
        let key = derive(&self.key, &self.stream, &life).ok_or(ContentError::Forged)?;
        let content = open(&key, counter, head, body)?;
        let before = self.current.replace(Current { life, key, counter });
        if let Some(before) = before {
            if self.former.len() == FORMER_MAX {
                self.former.pop_front();
            }
            self.former.push_back(before.life);
        }
        Ok(content)
    }
}

/// Why a content is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ContentError {
    /// It is shorter than anything that was sealed.
    Short,
    /// It was not sealed by this key for this stream, or was changed on its way.
    Forged,
    /// It, or one behind it, has come before.
    Again,
}

impl fmt::Display for ContentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Short => "it is shorter than anything that was sealed",
            Self::Forged => "it was sealed by another key or for another stream, or was changed",
            Self::Again => "it has come before, or out of its order",
        })
    }
}

impl core::error::Error for ContentError {}

/// The key of a life. `None` if the processor lacks what the cipher needs.
fn derive(key: &ClusterKey, stream: &str, life: &Life) -> Option<PacketKey> {
    let mut bytes = Zeroizing::new([0; SECRET_BYTES]);
    let cipher = key.cipher();
    let info = [
        b"content",
        cipher.name().as_bytes(),
        life,
        stream.as_bytes(),
    ];
    expand(&key.extract(), &info, bytes.as_mut_slice())?;
    PacketKey::new(cipher, &bytes)
}

fn open(key: &PacketKey, counter: u64, head: &[u8], body: &[u8]) -> Result<Vec<u8>, ContentError> {
    let mut content = body.to_vec();
    key.open(control_nonce(counter), head, &mut content)
        .ok_or(ContentError::Forged)?;
    content.truncate(body.len() - TAG_BYTES);
    Ok(content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Cipher;

    fn ends() -> (ClusterKey, ContentSealer, ContentOpener) {
        let key = ClusterKey::generate(Cipher::Aes256Gcm).unwrap();
        let sealer = ContentSealer::new(&key, "news").unwrap();
        let opener = ContentOpener::new(key.clone(), "news");
        (key, sealer, opener)
    }

    /// R-RELAY-50.
    #[test]
    fn contents_come_out_as_they_went_in() {
        for cipher in Cipher::ALL.into_iter().filter(|it| it.check().is_ok()) {
            let key = ClusterKey::generate(cipher).unwrap();
            let mut sealer = ContentSealer::new(&key, "news").unwrap();
            let mut opener = ContentOpener::new(key, "news");
            for length in [0, 1, 1000, 60_000] {
                let content = vec![7; length];
                let sealed = sealer.seal(&content).unwrap();
                assert_eq!(sealed.len(), length + CONTENT_GROWTH);
                assert!(length < 1000 || !sealed.windows(8).any(|part| part == [7; 8]));
                assert_eq!(opener.open(&sealed), Ok(content));
            }
        }
    }

    #[test]
    fn a_changed_byte_is_found_wherever_it_is() {
        let (_, mut sealer, mut opener) = ends();
        let first = sealer.seal(b"first").unwrap();
        opener.open(&first).unwrap();
        let sealed = sealer.seal(b"a content").unwrap();
        for at in 0..sealed.len() {
            for bit in 0..8 {
                let mut changed = sealed.clone();
                changed[at] ^= 1 << bit;
                assert!(opener.open(&changed).is_err(), "byte {at}, bit {bit}");
            }
        }
        for length in 0..sealed.len() {
            assert!(opener.open(&sealed[..length]).is_err(), "{length} bytes");
        }
        assert_eq!(opener.open(&sealed).as_deref(), Ok(&b"a content"[..]));
    }

    #[test]
    fn contents_come_once_and_in_their_order() {
        let (_, mut sealer, mut opener) = ends();
        let sealed: Vec<_> = (0..4u8).map(|at| sealer.seal(&[at]).unwrap()).collect();
        assert_eq!(opener.open(&sealed[1]), Ok(vec![1]));
        for again in &sealed[..2] {
            assert_eq!(opener.open(again), Err(ContentError::Again));
        }
        assert_eq!(opener.open(&sealed[3]), Ok(vec![3]));
        assert_eq!(opener.open(&sealed[2]), Err(ContentError::Again));
    }

    #[test]
    fn a_life_that_is_over_does_not_come_back() {
        let (key, mut first, mut opener) = ends();
        let old: Vec<_> = (0..2u8).map(|at| first.seal(&[at]).unwrap()).collect();
        opener.open(&old[0]).unwrap();
        let mut second = ContentSealer::new(&key, "news").unwrap();
        assert_eq!(
            opener.open(&second.seal(b"new").unwrap()),
            Ok(b"new".to_vec())
        );
        assert_eq!(opener.open(&old[1]), Err(ContentError::Again));
        assert_eq!(
            opener.open(&second.seal(b"more").unwrap()),
            Ok(b"more".to_vec())
        );
    }

    #[test]
    fn other_keys_and_streams_open_nothing() {
        let (key, mut sealer, _) = ends();
        let sealed = sealer.seal(b"a content").unwrap();
        let other = ClusterKey::generate(Cipher::Aes256Gcm).unwrap();
        for mut opener in [
            ContentOpener::new(key, "new"),
            ContentOpener::new(other, "news"),
        ] {
            assert_eq!(opener.open(&sealed), Err(ContentError::Forged));
        }
    }
}
