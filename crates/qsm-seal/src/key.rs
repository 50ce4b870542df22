//! The key that all members of a cluster have, and its text.

use core::fmt;
use core::str::FromStr;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use aws_lc_rs::rand;
use zeroize::Zeroize;

/// Bytes of the secret, and of all keys that are derived from it.
pub(crate) const SECRET_BYTES: usize = 32;
/// Word that the text of a key begins with: nothing else is taken for one.
const MARK: &str = "qsm-key-1";
/// Separates this use of HKDF from any other of the same secret.
const SALT: &[u8] = b"quicksilver cluster key 1";

/// The algorithm that protects packets; all members of a cluster use the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Cipher {
    /// AES-256 in Galois/counter mode: the fastest where processors have instructions for AES, as nearly all have.
    #[default]
    Aes256Gcm,
    /// `ChaCha20` with Poly1305 (RFC 8439): some three times as fast where they have none.
    ChaCha20Poly1305,
    /// AEGIS-128X2 (draft-irtf-cfrg-aegis-aead): faster than AES-256-GCM, and only for processors with instructions for
    /// AES ([`Cipher::check`]). Its keys have 128 bits.
    Aegis128X2,
}

impl Cipher {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Aes256Gcm, Self::ChaCha20Poly1305, Self::Aegis128X2];

    /// Its name in key files and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Aes256Gcm => "aes-256-gcm",
            Self::ChaCha20Poly1305 => "chacha20-poly1305",
            Self::Aegis128X2 => "aegis-128x2",
        }
    }

    /// Its number in orders.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Aes256Gcm => 1,
            Self::ChaCha20Poly1305 => 2,
            Self::Aegis128X2 => 3,
        }
    }

    /// Checks that this processor has the instructions that the cipher needs. AEGIS without them would take many times
    /// as long, and its time would tell about the key.
    ///
    /// # Errors
    /// [`KeyError::Processor`].
    pub fn check(self) -> Result<(), KeyError> {
        self.check_with(aes_instructions())
    }

    fn check_with(self, aes_instructions: bool) -> Result<(), KeyError> {
        match self {
            Self::Aegis128X2 if !aes_instructions => Err(KeyError::Processor(self)),
            _ => Ok(()),
        }
    }
}

/// Returns whether this processor has instructions for AES, in the form that AEGIS is made of.
#[cfg(target_arch = "x86_64")]
fn aes_instructions() -> bool {
    std::arch::is_x86_feature_detected!("aes") && std::arch::is_x86_feature_detected!("avx")
}

#[cfg(target_arch = "aarch64")]
fn aes_instructions() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn aes_instructions() -> bool {
    false
}

impl FromStr for Cipher {
    type Err = KeyError;

    /// Reads its name.
    fn from_str(name: &str) -> Result<Self, KeyError> {
        let found = Self::ALL.into_iter().find(|cipher| cipher.name() == name);
        found.ok_or_else(|| KeyError::Cipher(name.chars().take(40).collect()))
    }
}

impl fmt::Display for Cipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Number by which packets name the key that protects them: the same for all who have the key, and nothing about
/// the key follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KeyId(pub u32);

impl KeyId {
    /// Number by which packets of pairs name the key of their epoch, and the key's of that number (R-SEC-15).
    #[must_use]
    pub fn of_pairs(self) -> Self {
        Self(!self.0)
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// The secret of a cluster, wiped from memory when it is dropped. Its text is that of a key file: three words, the
/// mark, the cipher and the secret in hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterKey {
    cipher: Cipher,
    secret: [u8; SECRET_BYTES],
}

impl ClusterKey {
    /// A new key, drawn by the system's generator.
    ///
    /// # Errors
    /// [`KeyError::Random`]: the system has no random numbers.
    pub fn generate(cipher: Cipher) -> Result<Self, KeyError> {
        let mut secret = [0; SECRET_BYTES];
        rand::fill(&mut secret).map_err(|_| KeyError::Random)?;
        Ok(Self { cipher, secret })
    }

    /// The key whose secret this is: one that both ends of a session have, or one that came over it.
    #[must_use]
    pub fn from_secret(cipher: Cipher, secret: [u8; SECRET_BYTES]) -> Self {
        Self { cipher, secret }
    }

    /// The next key of a ratchet (R-SEC-9): who has this one has the next, and who has the next cannot find this one.
    pub(crate) fn ratchet(&self) -> Self {
        let mut secret = [0; SECRET_BYTES];
        let info: [&[u8]; 2] = [b"ratchet", self.cipher.name().as_bytes()];
        // So few bytes can always be had.
        let derived = expand(&self.extract(), &info, &mut secret);
        debug_assert!(derived.is_some());
        Self {
            cipher: self.cipher,
            secret,
        }
    }

    pub(crate) fn secret(&self) -> &[u8; SECRET_BYTES] {
        &self.secret
    }

    /// The algorithm it is for.
    #[must_use]
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The text of its file, a line. It is the secret itself.
    #[must_use]
    pub fn to_text(&self) -> String {
        let digits: String = self.secret.iter().flat_map(|byte| hex(*byte)).collect();
        format!("{MARK} {} {digits}\n", self.cipher)
    }

    /// Number by which packets name it.
    #[must_use]
    pub fn id(&self) -> KeyId {
        let mut id = [0; 4];
        let info: [&[u8]; 2] = [b"id", self.cipher.name().as_bytes()];
        // So few bytes can always be had.
        let derived = expand(&self.extract(), &info, &mut id);
        debug_assert!(derived.is_some());
        KeyId(u32::from_le_bytes(id))
    }

    /// Extracts what keys are derived from, once for all of them (HKDF, RFC 5869).
    pub(crate) fn extract(&self) -> Prk {
        Salt::new(HKDF_SHA256, SALT).extract(&self.secret)
    }
}

/// Derives bytes of a secret that has been extracted. `None` for more than 255 hashes of bytes.
pub(crate) fn expand(secret: &Prk, info: &[&[u8]], out: &mut [u8]) -> Option<()> {
    let key = secret.expand(info, Length(out.len())).ok()?;
    key.fill(out).ok()
}

struct Length(usize);

impl KeyType for Length {
    fn len(&self) -> usize {
        self.0
    }
}

impl FromStr for ClusterKey {
    type Err = KeyError;

    /// Reads the text of a key file. Lines that begin with `#` say nothing.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let lines = text.lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        let line = lines.next().ok_or(KeyError::Empty)?;
        if lines.next().is_some() {
            return Err(KeyError::Several);
        }
        let mut words = line.split_whitespace();
        if words.next() != Some(MARK) {
            return Err(KeyError::NoKey);
        }
        let name = words.next().unwrap_or_default();
        let cipher: Cipher = name.parse()?;
        let digits = words.next().unwrap_or_default();
        let secret = from_hex(digits).ok_or(KeyError::Secret)?;
        match words.next() {
            None => cipher.check().map(|()| Self { cipher, secret }),
            Some(_) => Err(KeyError::Secret),
        }
    }
}

impl Drop for ClusterKey {
    fn drop(&mut self) {
        self.secret.zeroize();
    }
}

/// Without the secret.
impl fmt::Debug for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClusterKey({}, {})", self.cipher, self.id())
    }
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyError {
    /// There is nothing in it.
    Empty,
    /// It does not begin as keys do.
    NoKey,
    /// There is more than one key in it.
    Several,
    /// A cipher of this name is not known.
    Cipher(String),
    /// The cipher is not followed by 64 hexadecimal digits.
    Secret,
    /// This processor has no instructions for AES, which the cipher needs.
    Processor(Cipher),
    /// The system has no random numbers.
    Random,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("it is empty"),
            Self::NoKey => write!(f, "it does not begin with \"{MARK}\""),
            Self::Several => f.write_str("it has more than one line with a key"),
            Self::Cipher(name) => {
                write!(f, "{name:?} is no cipher; there are {}", ciphers())
            }
            Self::Processor(cipher) => write!(
                f,
                "this processor has no instructions for AES, which {cipher} needs; take another cipher for the cluster"
            ),
            Self::Secret => f.write_str("the cipher is not followed by 64 hexadecimal digits"),
            Self::Random => f.write_str("the system gives no random numbers"),
        }
    }
}

impl core::error::Error for KeyError {}

fn ciphers() -> String {
    let [names @ .., last] = Cipher::ALL.map(Cipher::name);
    format!("{} and {last}", names.join(", "))
}

fn hex(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or_default())
}

fn from_hex(digits: &str) -> Option<[u8; SECRET_BYTES]> {
    let digits = digits.as_bytes();
    let mut secret = [0; SECRET_BYTES];
    if digits.len() != 2 * SECRET_BYTES {
        return None;
    }
    for (byte, pair) in secret.iter_mut().zip(digits.chunks_exact(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = u8::try_from(high? << 4 | low?).ok()?;
    }
    Some(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_back_from_its_text() {
        for cipher in Cipher::ALL {
            let key = ClusterKey::generate(cipher).unwrap();
            assert_eq!(key.to_text().parse::<ClusterKey>().unwrap(), key);
            let commented = format!("# of the test cluster\n\n{}", key.to_text());
            assert_eq!(commented.parse::<ClusterKey>().unwrap(), key);
        }
    }

    #[test]
    fn a_processor_without_instructions_for_aes_is_told_so_by_aegis_alone() {
        for cipher in Cipher::ALL {
            assert_eq!(cipher.check_with(true), Ok(()));
            let without = cipher.check_with(false);
            assert_eq!(without.is_err(), cipher == Cipher::Aegis128X2);
        }
        let error = Cipher::Aegis128X2.check_with(false).unwrap_err();
        assert!(error.to_string().contains("take another cipher"), "{error}");
    }

    #[test]
    fn two_keys_differ_and_so_do_their_numbers() {
        let [one, other] = [(); 2].map(|()| ClusterKey::generate(Cipher::default()).unwrap());
        assert_ne!(one, other);
        assert_ne!(one.id(), other.id());
        assert_eq!(one.id(), one.to_text().parse::<ClusterKey>().unwrap().id());
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_reason() {
        let digits = "0".repeat(64);
        for (text, error) in [
            (String::new(), KeyError::Empty),
            ("# nothing\n".into(), KeyError::Empty),
            (format!("ssh-rsa {digits}"), KeyError::NoKey),
            (
                format!("{MARK} rot13 {digits}"),
                KeyError::Cipher("rot13".into()),
            ),
            (format!("{MARK} aes-256-gcm"), KeyError::Secret),
            (
                format!("{MARK} aes-256-gcm {}", &digits[1..]),
                KeyError::Secret,
            ),
            (format!("{MARK} aes-256-gcm {digits}0"), KeyError::Secret),
            (
                format!("{MARK} aes-256-gcm g{}", &digits[1..]),
                KeyError::Secret,
            ),
            (format!("{MARK} aes-256-gcm {digits} x"), KeyError::Secret),
            (
                format!("{MARK} aes-256-gcm {digits}\n{MARK} aes-256-gcm {digits}"),
                KeyError::Several,
            ),
        ] {
            assert_eq!(text.parse::<ClusterKey>(), Err(error), "{text:?}");
        }
    }

    #[test]
    fn nobody_sees_the_secret_by_printing_a_key() {
        let key = ClusterKey::generate(Cipher::default()).unwrap();
        let text = key.to_text();
        let digits = text.split_whitespace().last().unwrap();
        let printed = format!("{key:?}");
        assert!((0..digits.len() - 8).all(|at| !printed.contains(&digits[at..at + 8])));
    }
}
