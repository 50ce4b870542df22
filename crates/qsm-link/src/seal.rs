//! Datagrams between the ends of a link, sealed by keys that the connection exports. Rule R-RELAY-23.
//!
//! ```text
//!  0x84 │ generation (1) │ link (4) │ number (8) │ packet, encrypted │ tag (16)
//! ```
//!
//! Numbers have their lowest byte first. The first 14 bytes are authenticated, too.

use core::ops::Range;
use core::time::Duration;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use qsm_wire::Instant;
use zeroize::Zeroizing;

use crate::window::Window;

/// First byte of such a datagram. Bit 0x40 is set in all of QUIC's.
pub(crate) const SEALED: u8 = 0x84;
/// First byte of a datagram that asks the other end to speak on its connection.
pub(crate) const SPEAK: u8 = 0x85;
/// Bytes in front of the packet.
const HEADER_BYTES: usize = 14;
const TAG_BYTES: usize = 16;
/// Bytes that sealing adds to a packet.
pub const SEAL_BYTES: usize = HEADER_BYTES + TAG_BYTES;
pub(crate) const SECRET_BYTES: usize = 32;
/// A key seals so many datagrams, far fewer than AES-GCM allows (2^24.5 of full size, RFC 9001, B.1).
const KEY_DATAGRAMS: u64 = 1 << 20;
/// And for so long.
const KEY_TIME: Duration = Duration::from_secs(3600);
/// Generations of which all datagrams may be lost: each costs a derivation for whatever says that it is of a later one.
const SKIPPED_MAX: u8 = 7;

pub(crate) type Secret = Zeroizing<[u8; SECRET_BYTES]>;

/// A key of 32 bytes.
struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        SECRET_BYTES
    }
}

fn derive(secret: &Secret, label: &[u8]) -> Option<Secret> {
    let mut out = Zeroizing::new([0; SECRET_BYTES]);
    let prk = Prk::new_less_safe(HKDF_SHA256, &secret[..]);
    let labels = [label];
    let made = prk
        .expand(&labels, Length)
        .and_then(|key| key.fill(&mut out[..]));
    made.ok().map(|()| out)
}

/// A generation of keys of one direction.
struct Generation {
    number: u64,
    secret: Secret,
    key: LessSafeKey,
}

impl Generation {
    fn new(number: u64, secret: Secret) -> Option<Self> {
        let key = derive(&secret, b"key")?;
        let key = UnboundKey::new(&AES_256_GCM, &key[..]).ok()?;
        Some(Self {
            number,
            secret,
            key: LessSafeKey::new(key),
        })
    }

    /// The one that follows, from which this one cannot be found.
    fn next(&self) -> Option<Self> {
        Self::new(self.number + 1, derive(&self.secret, b"next")?)
    }

    /// The one that datagrams name by this part of its number, if it follows soon.
    fn later(&self, low: u8) -> Option<Self> {
        let steps = low.wrapping_sub(self.low());
        if !(1..=SKIPPED_MAX + 1).contains(&steps) {
            return None;
        }
        let next = self.next();
        (1..steps).fold(next, |later, _| later?.next())
    }

    /// Part of it that datagrams say.
    fn low(&self) -> u8 {
        self.number.to_le_bytes()[0]
    }
}

fn nonce(number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&number.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Seals what one end sends.
pub(crate) struct Sealer {
    generation: Generation,
    /// The other end's number of the link.
    link: u32,
    /// Datagrams sealed so far.
    number: u64,
    /// First number of the generation, and when it began.
    first: u64,
    since: Instant,
}

impl Sealer {
    /// None if no key can be made, which no secret is known to cause.
    pub(crate) fn new(secret: Secret, link: u32, now: Instant) -> Option<Self> {
        Some(Self {
            generation: Generation::new(0, secret)?,
            link,
            number: 0,
            first: 0,
            since: now,
        })
    }

    /// Writes the sealed packet; false if it cannot be.
    pub(crate) fn seal(&mut self, now: Instant, packet: &[u8], out: &mut Vec<u8>) -> bool {
        let due = now.since(self.since) >= KEY_TIME || self.number - self.first >= KEY_DATAGRAMS;
        if due && !self.renew(now) {
            return false;
        }
        self.number += 1;
        out.clear();
        out.extend_from_slice(&[SEALED, self.generation.low()]);
        out.extend_from_slice(&self.link.to_le_bytes());
        out.extend_from_slice(&self.number.to_le_bytes());
        out.extend_from_slice(packet);
        let (header, body) = out.split_at_mut(HEADER_BYTES);
        let key = &self.generation.key;
        let sealed = key.seal_in_place_separate_tag(nonce(self.number), Aad::from(header), body);
        sealed.is_ok_and(|tag| {
            out.extend_from_slice(tag.as_ref());
            true
        })
    }

    /// Goes on with the next key.
    fn renew(&mut self, now: Instant) -> bool {
        let Some(next) = self.generation.next() else {
            return false;
        };
        self.generation = next;
        (self.first, self.since) = (self.number, now);
        true
    }
}

/// Reason for which a datagram is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// Not sealed by the other end, or damaged.
    Forged,
    /// Has come before, or is too old to tell.
    Replayed,
}

/// Opens what the other end has sealed.
pub(crate) struct Opener {
    current: Generation,
    /// For what comes late after a change.
    former: Option<Generation>,
    window: Window,
}

impl Opener {
    /// None if no key can be made.
    pub(crate) fn new(secret: Secret) -> Option<Self> {
        Some(Self {
            current: Generation::new(0, secret)?,
            former: None,
            window: Window::default(),
        })
    }

    /// The number of the link in a sealed datagram.
    pub(crate) fn link_of(datagram: &[u8]) -> Option<u32> {
        let bytes = datagram.get(2..6)?;
        bytes.try_into().ok().map(u32::from_le_bytes)
    }

    /// Opens in place; where the packet is. What fails changes nothing but the datagram.
    pub(crate) fn open(&mut self, datagram: &mut [u8]) -> Result<Range<usize>, OpenError> {
        let (header, body) = datagram
            .split_at_mut_checked(HEADER_BYTES)
            .ok_or(OpenError::Forged)?;
        let number = header[6..].try_into().map_err(|_| OpenError::Forged)?;
        let number = u64::from_le_bytes(number);
        if !self.window.is_new(number) {
            return Err(OpenError::Replayed);
        }
        let low = header[1];
        let mut next = None;
        let by = if low == self.current.low() {
            &self.current
        } else if self
            .former
            .as_ref()
            .is_some_and(|former| low == former.low())
        {
            self.former.as_ref().ok_or(OpenError::Forged)?
        } else {
            next = self.current.later(low);
            next.as_ref().ok_or(OpenError::Forged)?
        };
        let opened = by.key.open_in_place(nonce(number), Aad::from(header), body);
        let length = opened.map_err(|_| OpenError::Forged)?.len();
        if let Some(next) = next {
            self.former = Some(core::mem::replace(&mut self.current, next));
        }
        self.window.take(number);
        Ok(HEADER_BYTES..HEADER_BYTES + length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Sealer, Opener) {
        let secret = || Zeroizing::new([7; SECRET_BYTES]);
        let sealer = Sealer::new(secret(), 0x0102_0304, Instant(0)).unwrap();
        (sealer, Opener::new(secret()).unwrap())
    }

    fn sealed(sealer: &mut Sealer, packet: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        assert!(sealer.seal(Instant(1), packet, &mut out));
        assert_eq!(out.len(), packet.len() + SEAL_BYTES);
        out
    }

    /// R-RELAY-23.
    #[test]
    fn what_is_sealed_is_opened_once_and_nothing_that_was_changed() {
        let (mut sealer, mut opener) = pair();
        let mut datagram = sealed(&mut sealer, b"a packet");
        assert_eq!(Opener::link_of(&datagram), Some(0x0102_0304));
        for bit in 8..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(opener.open(&mut changed).is_err(), "{bit}");
        }
        for length in 0..datagram.len() {
            assert!(opener.open(&mut datagram[..length].to_vec()).is_err());
        }
        let mut once = datagram.clone();
        let range = opener.open(&mut once).unwrap();
        assert_eq!(&once[range], b"a packet");
        assert_eq!(opener.open(&mut datagram), Err(OpenError::Replayed));
    }

    /// R-RELAY-23.
    #[test]
    fn keys_change_and_what_comes_late_is_opened_by_the_former_one() {
        let (mut sealer, mut opener) = pair();
        for generation in 0..300 {
            let late = sealed(&mut sealer, b"late");
            assert!(sealer.renew(Instant(2)));
            let mut now = sealed(&mut sealer, b"now");
            assert_ne!(late[1], now[1]);
            assert!(opener.open(&mut now).is_ok(), "{generation}");
            assert!(opener.open(&mut late.clone()).is_ok(), "{generation}");
        }
        let hour = Instant(0).after(KEY_TIME * 2);
        let mut out = Vec::new();
        assert!(sealer.seal(hour, b"later", &mut out));
        assert_eq!(sealer.generation.number, 301);
        assert!(opener.open(&mut out).is_ok());
    }

    /// R-RELAY-23.
    #[test]
    fn generations_of_which_everything_is_lost_are_passed_over() {
        let (mut sealer, mut opener) = pair();
        for lost in 1..=SKIPPED_MAX {
            (0..=lost).for_each(|_| assert!(sealer.renew(Instant(2))));
            let mut now = sealed(&mut sealer, b"now");
            assert!(opener.open(&mut now).is_ok(), "{lost} lost");
        }
        (0..SKIPPED_MAX + 2).for_each(|_| assert!(sealer.renew(Instant(3))));
        let mut far = sealed(&mut sealer, b"far");
        assert_eq!(opener.open(&mut far), Err(OpenError::Forged));
    }
}
