//! One key of a cipher, and what it does to a packet.

use core::fmt;

use aegis::aegis128x2::Aegis128X2;
use aws_lc_rs::aead::{self, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use qsm_wire::TAG_BYTES;
use zeroize::Zeroizing;

use crate::key::{Cipher, SECRET_BYTES};

/// Bytes of a nonce. AEGIS has 16: four zeros follow.
pub(crate) const NONCE_BYTES: usize = 12;
const AEGIS_BYTES: usize = 16;

/// A key. AEGIS takes the first half of what is derived for it.
pub(crate) enum PacketKey {
    Library(LessSafeKey),
    Aegis(Zeroizing<[u8; AEGIS_BYTES]>),
}

impl PacketKey {
    /// `None` if the library refuses, which it does not for keys of this length.
    pub(crate) fn new(cipher: Cipher, bytes: &[u8; SECRET_BYTES]) -> Option<Self> {
        let library = |algorithm: &'static aead::Algorithm| {
            let key = UnboundKey::new(algorithm, bytes).ok()?;
            Some(Self::Library(LessSafeKey::new(key)))
        };
        match cipher {
            Cipher::Aes256Gcm => library(&AES_256_GCM),
            Cipher::ChaCha20Poly1305 => library(&CHACHA20_POLY1305),
            Cipher::Aegis128X2 => {
                cipher.check().ok()?;
                let mut key = Zeroizing::new([0; AEGIS_BYTES]);
                key.copy_from_slice(&bytes[..AEGIS_BYTES]);
                Some(Self::Aegis(key))
            }
        }
    }

    /// Encrypts the body, and authenticates it with what stays readable. Returns the tag; `None` if the cipher refuses.
    pub(crate) fn seal(
        &self,
        nonce: [u8; NONCE_BYTES],
        known: &[u8],
        body: &mut [u8],
    ) -> Option<[u8; TAG_BYTES]> {
        match self {
            Self::Library(key) => {
                let nonce = aead::Nonce::assume_unique_for_key(nonce);
                let sealed = key.seal_in_place_separate_tag(nonce, Aad::from(known), body);
                sealed.ok()?.as_ref().try_into().ok()
            }
            Self::Aegis(key) => Some(aegis(key, nonce).encrypt_in_place(body, known)),
        }
    }

    /// Decrypts a body with its tag behind it. `None`: it was not sealed by this key.
    pub(crate) fn open(
        &self,
        nonce: [u8; NONCE_BYTES],
        known: &[u8],
        sealed: &mut [u8],
    ) -> Option<()> {
        match self {
            Self::Library(key) => {
                let nonce = aead::Nonce::assume_unique_for_key(nonce);
                let opened = key.open_in_place(nonce, Aad::from(known), sealed);
                opened.is_ok().then_some(())
            }
            Self::Aegis(key) => {
                let (body, tag) = sealed.split_last_chunk_mut::<TAG_BYTES>()?;
                let opened = aegis(key, nonce).decrypt_in_place(body, tag, known);
                opened.is_ok().then_some(())
            }
        }
    }
}

fn aegis(key: &[u8; AEGIS_BYTES], nonce: [u8; NONCE_BYTES]) -> Aegis128X2<TAG_BYTES> {
    let mut long = [0; AEGIS_BYTES];
    long[..NONCE_BYTES].copy_from_slice(&nonce);
    Aegis128X2::new(key, &long)
}

/// Without the key.
impl fmt::Debug for PacketKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketKey")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(digits: &str) -> Vec<u8> {
        let pairs = digits.as_bytes().chunks_exact(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
        pairs.map(byte).collect()
    }

    /// Test vectors 1 and 2 of draft-irtf-cfrg-aegis-aead, AEGIS-128X2, with tags of 128 bits.
    #[test]
    fn aegis_is_that_of_its_specification() {
        if Cipher::Aegis128X2.check().is_err() {
            return;
        }
        let message = "04050607".repeat(30);
        for (known, message, sealed, tag) in [
            ("", "", "", "63117dc57756e402819a82e13eca8379"),
            (
                "0102030401020304",
                &message,
                "5795544301997f93621b278809d6331b3bfa6f18e90db12c4aa35965b5e98c5fc6fb4e54bcb6111842c20637252eff74\
                 7cb3a8f85b37de80919a589fe0f24872bc926360696739e05520647e390989e1eb5fd42f99678a0276a498f8c454761c\
                 9d6aacb647ad56be62b29c22cd4b5761b38f43d5a5ee062f",
                "1aebc200804f405cab637f2adebb6d77",
            ),
        ] {
            let [key, nonce] = [0, 16].map(|first| core::array::from_fn(|at| at as u8 + first));
            let cipher = Aegis128X2::<TAG_BYTES>::new(&key, &nonce);
            let (known, mut body) = (bytes(known), bytes(message));
            assert_eq!(cipher.encrypt_in_place(&mut body, &known), *bytes(tag));
            assert_eq!(body, bytes(sealed));
        }
    }

    #[test]
    fn aegis_takes_half_of_the_key_and_zeros_behind_the_nonce() {
        if Cipher::Aegis128X2.check().is_err() {
            return;
        }
        let secret: [u8; SECRET_BYTES] = core::array::from_fn(|at| at as u8);
        let key = PacketKey::new(Cipher::Aegis128X2, &secret).unwrap();
        let mut body = *b"a message";
        let tag = key.seal([9; NONCE_BYTES], b"known", &mut body).unwrap();
        let (half, mut nonce) = (secret[..AEGIS_BYTES].try_into().unwrap(), [0; AEGIS_BYTES]);
        nonce[..NONCE_BYTES].fill(9);
        let mut same = *b"a message";
        let cipher = Aegis128X2::<TAG_BYTES>::new(&half, &nonce);
        assert_eq!(cipher.encrypt_in_place(&mut same, b"known"), tag);
        assert_eq!(same, body);
    }
}
