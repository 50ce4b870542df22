//! Keys of nodes and of the cluster's root, and their texts.

use core::fmt;
use core::str::FromStr;

use aws_lc_rs::rand;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use zeroize::Zeroizing;

use crate::text::{self, TextError};

/// Bytes of a key, secret or public.
const KEY_BYTES: usize = 32;
/// Bytes of a signature.
pub(crate) const SIGNATURE_BYTES: usize = 64;

/// Reason for which a text is no key, or there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// The text is not that of such a key.
    Text(TextError),
    /// It has more or fewer bytes than keys have: this many.
    Length(usize),
    /// The system has no random numbers, or refuses to calculate with keys.
    Random,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Length(length) => write!(f, "it has {length} bytes, and keys have {KEY_BYTES}"),
            Self::Random => f.write_str("the system gives no random numbers"),
        }
    }
}

impl core::error::Error for KeyError {}

impl From<TextError> for KeyError {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

/// A secret and what follows of it. The secret is wiped from memory when it is dropped; so is the copy that the
/// cryptographic library has, which wipes what it frees.
struct Secret {
    seed: Zeroizing<[u8; KEY_BYTES]>,
    pair: Ed25519KeyPair,
    public: [u8; KEY_BYTES],
}

impl Secret {
    fn generate() -> Result<Self, KeyError> {
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        rand::fill(&mut *seed).map_err(|_| KeyError::Random)?;
        Self::of(seed)
    }

    fn of(seed: Zeroizing<[u8; KEY_BYTES]>) -> Result<Self, KeyError> {
        let pair = Ed25519KeyPair::from_seed_unchecked(&*seed).map_err(|_| KeyError::Random)?;
        let public = pair.public_key().as_ref();
        let public = public.try_into().map_err(|_| KeyError::Random)?;
        Ok(Self { seed, pair, public })
    }

    fn read(mark: &'static str, text: &str) -> Result<Self, KeyError> {
        let bytes = text::read(mark, text)?;
        let mut seed = Zeroizing::new([0; KEY_BYTES]);
        if bytes.len() != KEY_BYTES {
            return Err(KeyError::Length(bytes.len()));
        }
        seed.copy_from_slice(&bytes);
        Self::of(seed)
    }

    fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut signature = [0; SIGNATURE_BYTES];
        signature.copy_from_slice(self.pair.sign(message).as_ref());
        signature
    }
}

fn verify(key: &[u8; KEY_BYTES], message: &[u8], signature: &[u8]) -> bool {
    let key = UnparsedPublicKey::new(&ED25519, key);
    key.verify(message, signature).is_ok()
}

fn read_public(mark: &'static str, text: &str) -> Result<[u8; KEY_BYTES], KeyError> {
    let bytes = text::read(mark, text)?;
    let wrong = KeyError::Length(bytes.len());
    bytes.as_slice().try_into().map_err(|_| wrong)
}

/// The secret key of a node (Ed25519), by which it proves who it is. Wiped from memory when it is dropped, and
/// never printed.
pub struct NodeKey(Secret);

impl NodeKey {
    /// A new key, drawn by the system's generator.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        Secret::generate().map(Self)
    }

    /// The key that follows from this secret (RFC 8032 §5.1.5), for who has it already or draws keys of its own, as a
    /// simulation does.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the library refuses to calculate with it.
    pub fn from_seed(seed: &[u8; KEY_BYTES]) -> Result<Self, KeyError> {
        Secret::of(Zeroizing::new(*seed)).map(Self)
    }

    /// The text of its file, without an end of line: `qsm-node-secret-1.` and 43 digits. It is the secret itself.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        text::write(text::NODE_SECRET, &*self.0.seed)
    }

    /// The secret itself (RFC 8032 §5.1.5), for who proves by another library to have it.
    #[must_use]
    pub fn seed(&self) -> &[u8; KEY_BYTES] {
        &self.0.seed
    }

    /// The half of it that others may know.
    #[must_use]
    pub fn public(&self) -> NodePublic {
        NodePublic(self.0.public)
    }

    /// Signature of a message, 64 bytes (RFC 8032 §5.1.6). What is signed for one purpose must not be a message of
    /// another: let messages begin with a word of their own.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(message)
    }
}

impl FromStr for NodeKey {
    type Err = KeyError;

    /// Reads the text of a file. Lines that begin with `#` say nothing.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        Secret::read(text::NODE_SECRET, text).map(Self)
    }
}

/// Without the secret.
impl fmt::Debug for NodeKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodeKey({})", self.public())
    }
}

/// The secret key of a cluster's root (Ed25519): who has it makes members, and revokes them. Wiped from memory when
/// it is dropped, and never printed.
pub struct ClusterRoot(Secret);

impl ClusterRoot {
    /// A new key, drawn by the system's generator.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        Secret::generate().map(Self)
    }

    /// The text of its file, without an end of line: `qsm-root-secret-1.` and 43 digits. It is the secret itself.
    #[must_use]
    pub fn to_text(&self) -> Zeroizing<String> {
        text::write(text::ROOT_SECRET, &*self.0.seed)
    }

    /// The half of it that all nodes and services know.
    #[must_use]
    pub fn public(&self) -> RootKey {
        RootKey(self.0.public)
    }

    /// Signs a message of one kind: its signature follows it from now on. Kinds end with a zero byte, so that none is
    /// the beginning of another.
    pub(crate) fn sign(&self, kind: &[u8], message: &mut Vec<u8>) {
        let signature = self.0.sign(&[kind, message].concat());
        message.extend_from_slice(&signature);
    }
}

impl FromStr for ClusterRoot {
    type Err = KeyError;

    /// Reads the text of a file. Lines that begin with `#` say nothing.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        Secret::read(text::ROOT_SECRET, text).map(Self)
    }
}

/// Without the secret.
impl fmt::Debug for ClusterRoot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterRoot({})", self.public())
    }
}

/// The public key of a cluster's root, by which tokens are checked.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RootKey([u8; KEY_BYTES]);

impl RootKey {
    /// Returns whether this root signed these bytes, a message of that kind and the signature behind it.
    pub(crate) fn has_signed(&self, kind: &[u8], bytes: &[u8]) -> bool {
        let end = bytes.len().saturating_sub(SIGNATURE_BYTES);
        let (message, signature) = bytes.split_at(end);
        verify(&self.0, &[kind, message].concat(), signature)
    }
}

/// `qsm-root-1.` and 43 digits.
impl fmt::Display for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::write(text::ROOT_PUBLIC, &self.0))
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RootKey({self})")
    }
}

impl FromStr for RootKey {
    type Err = KeyError;

    /// Reads what is displayed, or a file of it.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        read_public(text::ROOT_PUBLIC, text).map(Self)
    }
}

/// The public key of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePublic([u8; KEY_BYTES]);

impl NodePublic {
    /// Of its bytes (RFC 8032 §5.1.5).
    #[must_use]
    pub fn from_bytes(bytes: [u8; KEY_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; KEY_BYTES] {
        &self.0
    }

    /// Returns whether the node with this key signed the message.
    #[must_use]
    pub fn verifies(&self, message: &[u8], signature: &[u8]) -> bool {
        verify(&self.0, message, signature)
    }
}

/// `qsm-node-1.` and 43 digits.
impl fmt::Display for NodePublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::write(text::NODE_PUBLIC, &self.0))
    }
}

impl fmt::Debug for NodePublic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NodePublic({self})")
    }
}

impl FromStr for NodePublic {
    type Err = KeyError;

    /// Reads what is displayed, or a file of it.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        read_public(text::NODE_PUBLIC, text).map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Test 1 of RFC 8032 §7.1.
    const SEED: [u8; KEY_BYTES] = [
        0x9d, 0x61, 0xb1, 0x9d, 0xef, 0xfd, 0x5a, 0x60, 0xba, 0x84, 0x4a, 0xf4, 0x92, 0xec, 0x2c,
        0xc4, 0x44, 0x49, 0xc5, 0x69, 0x7b, 0x32, 0x69, 0x19, 0x70, 0x3b, 0xac, 0x03, 0x1c, 0xae,
        0x7f, 0x60,
    ];
    const PUBLIC: [u8; KEY_BYTES] = [
        0xd7, 0x5a, 0x98, 0x01, 0x82, 0xb1, 0x0a, 0xb7, 0xd5, 0x4b, 0xfe, 0xd3, 0xc9, 0x64, 0x07,
        0x3a, 0x0e, 0xe1, 0x72, 0xf3, 0xda, 0xa6, 0x23, 0x25, 0xaf, 0x02, 0x1a, 0x68, 0xf7, 0x07,
        0x51, 0x1a,
    ];

    #[test]
    fn keys_and_signatures_are_those_of_rfc_8032() {
        let key = NodeKey(Secret::of(Zeroizing::new(SEED)).unwrap());
        assert_eq!(key.public().as_bytes(), &PUBLIC);
        let signature = key.sign(b"");
        assert_eq!(signature[..4], [0xe5, 0x56, 0x43, 0x00]);
        assert_eq!(signature[60..], [0x8e, 0x7a, 0x10, 0x0b]);
        assert!(key.public().verifies(b"", &signature));
        assert!(!key.public().verifies(b"x", &signature));
        assert!(!key.public().verifies(b"", &signature[..63]));
    }

    #[test]
    fn keys_are_read_back_from_their_texts_and_not_taken_for_others() {
        let node = NodeKey::generate().unwrap();
        let root = ClusterRoot::generate().unwrap();
        let read: NodeKey = node.to_text().parse().unwrap();
        assert_eq!(read.public(), node.public());
        let read: ClusterRoot = root.to_text().parse().unwrap();
        assert_eq!(read.public(), root.public());
        assert_eq!(node.public().to_string().parse(), Ok(node.public()));
        assert_eq!(root.public().to_string().parse(), Ok(root.public()));
        for text in [root.to_text().to_string(), node.public().to_string()] {
            let error = text.parse::<NodeKey>().unwrap_err();
            assert!(matches!(error, KeyError::Text(TextError::Other { .. })));
        }
        let short = text::write(text::NODE_SECRET, &[1; 31]);
        assert_eq!(short.parse::<NodeKey>().unwrap_err(), KeyError::Length(31));
        let long = text::write(text::ROOT_PUBLIC, &[1; 33]);
        assert_eq!(long.parse::<RootKey>().unwrap_err(), KeyError::Length(33));
    }

    #[test]
    fn nobody_sees_a_secret_by_printing_a_key() {
        let node = NodeKey::generate().unwrap();
        let root = ClusterRoot::generate().unwrap();
        for (printed, secret) in [
            (format!("{node:?}"), node.to_text()),
            (format!("{root:?}"), root.to_text()),
        ] {
            let (_, digits) = secret.split_once('.').unwrap();
            assert!((0..digits.len() - 8).all(|at| !printed.contains(&digits[at..at + 8])));
        }
    }

    #[test]
    fn a_signature_of_one_kind_is_none_of_another() {
        let root = ClusterRoot::generate().unwrap();
        let mut bytes = b"message".to_vec();
        root.sign(b"a\0", &mut bytes);
        assert!(root.public().has_signed(b"a\0", &bytes));
        assert!(!root.public().has_signed(b"b\0", &bytes));
    }
}
