//! The nftables rules of a host that damage what arrives there: one bit of a packet changes, and
//! UDP's checksum does not find it.
//!
//! That of IPv4 is taken out of the packet (0: none was made). A veth that leaves checksums to its
//! card, as they do if nobody says otherwise, makes none at all, so that this holds for IPv6 as well.
//! Of a GSO train only the first packet is damaged.

use std::fmt::Write;

use crate::error::LabError;
use crate::rules::{LOSS_PPM_MAX, push_line};

/// Most first bytes of a payload of which a bit may change.
const WITHIN_MAX: u16 = 256;
/// Bits of UDP's header, and of the word in it where the checksum begins.
const HEADER_BITS: u16 = 64;
const CHECKSUM_AT: u16 = 48;
/// Bits that a rule reads and writes at once.
const WORD_BITS: u16 = 16;

/// Damage to the UDP packets that arrive at a host from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Damage {
    /// So many of a million packets.
    pub ppm: u32,
    /// A bit changes within so many first bytes of the payload; packets that end before it stay as
    /// they are. At most 256.
    pub within: u16,
    /// Packets that are spared.
    pub spared: Option<Spared>,
}

/// Packets with a certain byte in a certain place of their payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spared {
    /// The place, from 0.
    pub at: u16,
    /// The byte there.
    pub byte: u8,
}

/// Replaces the damage.
pub(crate) fn damage(of: Damage) -> Result<String, LabError> {
    if of.ppm > LOSS_PPM_MAX {
        return Err(LabError::LossOutOfRange { ppm: of.ppm });
    }
    let mut text = String::from("flush chain inet lab damage\n");
    let bits = 8 * of.within.min(WITHIN_MAX);
    if of.ppm == 0 || bits == 0 {
        return Ok(text);
    }
    let mut chains = String::new();
    for bit in 0..bits {
        push_bit(&mut text, bit);
        // Writing to a String cannot fail.
        write!(chains, "{bit} : goto bit{bit}, ").unwrap_or_default();
    }
    if let Some(spared) = of.spared {
        let at = HEADER_BITS + 8 * spared.at;
        let rule = format_args!("add rule inet lab damage @th,{at},8 {} return", spared.byte);
        push_line(&mut text, rule);
    }
    // `numgen … >= modulus` is never true, which nft refuses as out of range.
    if of.ppm < LOSS_PPM_MAX {
        let chance = format_args!(
            "add rule inet lab damage numgen random mod {LOSS_PPM_MAX} >= {} return",
            of.ppm
        );
        push_line(&mut text, chance);
    }
    let checksum = format_args!(
        "add rule inet lab damage meta nfproto ipv4 @th,{CHECKSUM_AT},{WORD_BITS} set 0"
    );
    push_line(&mut text, checksum);
    let drawn =
        format_args!("add rule inet lab damage numgen random mod {bits} vmap {{ {chains} }}");
    push_line(&mut text, drawn);
    Ok(text)
}

/// A chain that changes this bit of the payload. A packet that is too short ends its rule, and does
/// not count.
fn push_bit(text: &mut String, bit: u16) {
    let at = HEADER_BITS + bit / WORD_BITS * WORD_BITS;
    let mask = 1u16 << (WORD_BITS - 1 - bit % WORD_BITS);
    let word = format_args!("@th,{at},{WORD_BITS}");
    push_line(text, format_args!("add chain inet lab bit{bit}"));
    push_line(text, format_args!("flush chain inet lab bit{bit}"));
    let rule = format_args!(
        "add rule inet lab bit{bit} {word} set {word} ^ {mask:#06x} counter name damaged"
    );
    push_line(text, rule);
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: Damage = Damage {
        ppm: LOSS_PPM_MAX,
        within: 2,
        spared: None,
    };

    #[test]
    fn none_leaves_an_empty_chain() {
        let none = Damage { ppm: 0, ..ALL };
        assert_eq!(damage(none).unwrap(), "flush chain inet lab damage\n");
    }

    #[test]
    fn each_bit_has_a_chain() {
        let text = damage(ALL).unwrap();
        assert!(
            text.contains("bit0 @th,64,16 set @th,64,16 ^ 0x8000 "),
            "{text}"
        );
        assert!(
            text.contains("bit15 @th,64,16 set @th,64,16 ^ 0x0001 "),
            "{text}"
        );
        assert!(!text.contains("bit16"), "{text}");
    }

    #[test]
    fn damage_of_more_than_all_packets_is_refused() {
        let more = Damage {
            ppm: LOSS_PPM_MAX + 1,
            ..ALL
        };
        let error = damage(more).unwrap_err();
        assert!(matches!(error, LabError::LossOutOfRange { ppm: 1_000_001 }));
    }
}
