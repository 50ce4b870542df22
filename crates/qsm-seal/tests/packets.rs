//! Packets come out as they went in, and nothing else comes out.

mod support;

use proptest::prelude::*;
use qsm_seal::{Cipher, ClusterKey, OpenError, Opener, SealError, Sealer};
use qsm_wire::{CHECKSUM_AT, DecodeError, FLAGS_AT, HEADER_BYTES, HOP_AT, NodeId, Packet, SEALED};
use support::{data, question};

fn key() -> ClusterKey {
    key_of(Cipher::Aes256Gcm, 'a')
}

fn key_of(cipher: Cipher, digit: char) -> ClusterKey {
    let digits: String = [digit; 64].iter().collect();
    format!("qsm-key-1 {cipher} {digits}").parse().unwrap()
}

/// Seals a packet. It grows by what packets leave free at their end (R-SEC-5).
fn sealed(sealer: &mut Sealer, packet: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    sealer.seal(packet, &mut bytes).unwrap();
    assert_eq!(bytes.len(), packet.len() + Sealer::growth(packet));
    bytes
}

fn opened(opener: &mut Opener, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut bytes = sealed.to_vec();
    let length = opener.open(&mut bytes)?;
    bytes.truncate(length);
    Ok(bytes)
}

proptest! {
    #[test]
    fn what_was_sealed_is_opened_as_it_was(
        body in prop::collection::vec(any::<u8>(), 0..1500),
        sequence in 1_u64..,
        cipher in prop::sample::select(Cipher::ALL.to_vec()),
    ) {
        let key = key_of(cipher, 'b');
        let (mut sealer, mut opener) = (Sealer::new(&key), Opener::new(&key));
        for packet in [data(5, sequence, &body), question(5)] {
            let bytes = sealed(&mut sealer, &packet);
            prop_assert_eq!(Packet::open(&bytes).unwrap_err(), DecodeError::Sealed);
            prop_assert_eq!(opened(&mut opener, &bytes), Ok(packet));
        }
    }

    #[test]
    fn a_bit_that_changes_anywhere_but_in_the_hop_spoils_it(
        body in prop::collection::vec(any::<u8>(), 0..100),
        is_data in any::<bool>(),
        at in any::<prop::sample::Index>(),
        bit in 0_u32..8,
        cipher in prop::sample::select(Cipher::ALL.to_vec()),
    ) {
        let packet = if is_data { data(5, 1, &body) } else { question(5) };
        let key = key_of(cipher, 'a');
        let bytes = sealed(&mut Sealer::new(&key), &packet);
        let mut opener = Opener::new(&key);
        let mut changed = bytes.clone();
        let at = at.index(changed.len());
        changed[at] ^= 1 << bit;
        let outcome = opened(&mut opener, &changed);
        prop_assert_eq!(outcome.is_ok(), at == HOP_AT);
        if at != HOP_AT {
            // And the packet itself is as new as before.
            prop_assert_eq!(opened(&mut opener, &bytes), Ok(packet));
        }
    }

    #[test]
    fn nothing_of_what_nobody_sealed_is_opened(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for cipher in Cipher::ALL {
            let mut opener = Opener::new(&key_of(cipher, 'a'));
            let mut named = bytes.clone();
            prop_assert!(opened(&mut opener, &named).is_err());
            if named.len() >= HEADER_BYTES {
                named[FLAGS_AT] = SEALED;
                named[CHECKSUM_AT].copy_from_slice(&opener.key().0.to_le_bytes());
                prop_assert!(opened(&mut opener, &named).is_err());
            }
        }
    }
}

// Rule R-SEC-1.
#[test]
fn what_is_cut_short_or_made_longer_is_refused() {
    for (packet, cipher) in [data(5, 1, &[7; 50]), question(5)]
        .into_iter()
        .flat_map(|packet| Cipher::ALL.map(|cipher| (packet.clone(), cipher)))
    {
        let key = key_of(cipher, 'a');
        let bytes = sealed(&mut Sealer::new(&key), &packet);
        let mut opener = Opener::new(&key);
        for length in 0..bytes.len() {
            assert!(opened(&mut opener, &bytes[..length]).is_err(), "{length}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert!(opened(&mut opener, &longer).is_err());
    }
}

// Rule R-SEC-3.
#[test]
fn whoever_repairs_a_data_packet_makes_the_same_bytes_again() {
    let packet = data(5, 8, b"of node 5");
    let by_maker = sealed(&mut Sealer::new(&key()), &packet);
    let mut held = opened(&mut Opener::new(&key()), &by_maker).unwrap();
    held[HOP_AT] = 2;
    let mut by_cacher = sealed(&mut Sealer::new(&key()), &held);
    assert_eq!(by_cacher[HOP_AT], 2);
    by_cacher[HOP_AT] = by_maker[HOP_AT];
    assert_eq!(by_cacher, by_maker);
}

// Rule R-SEC-4.
#[test]
fn control_packets_are_opened_once_in_any_order() {
    let mut sealer = Sealer::new(&key());
    let mut opener = Opener::new(&key());
    let packets: Vec<_> = (0..3).map(|_| sealed(&mut sealer, &question(5))).collect();
    for place in [2, 0, 1] {
        assert_eq!(opened(&mut opener, &packets[place]), Ok(question(5)));
    }
    for packet in &packets {
        assert_eq!(opened(&mut opener, packet), Err(OpenError::Replayed));
    }
    // Counters are each maker's own.
    let other = sealed(&mut Sealer::new(&key()), &question(6));
    assert_eq!(opened(&mut opener, &other), Ok(question(6)));
}

#[test]
fn a_packet_of_another_key_or_of_none_is_refused_as_such() {
    let mut opener = Opener::new(&key());
    let other = key_of(Cipher::Aes256Gcm, 'c');
    let foreign = sealed(&mut Sealer::new(&other), &question(5));
    assert_eq!(
        opened(&mut opener, &foreign),
        Err(OpenError::OtherKey(other.id()))
    );
    assert_eq!(opened(&mut opener, &question(5)), Err(OpenError::Plain));
    assert_eq!(
        opened(&mut opener, &data(5, 1, b"x")),
        Err(OpenError::Plain)
    );
    // The same secret for another cipher is another key, whatever the packet says.
    for cipher in [Cipher::ChaCha20Poly1305, Cipher::Aegis128X2] {
        let other = key_of(cipher, 'a');
        let mut posed = sealed(&mut Sealer::new(&other), &question(5));
        posed[20..24].copy_from_slice(&opener.key().0.to_le_bytes());
        assert_eq!(opened(&mut opener, &posed), Err(OpenError::Forged));
    }
}

// Rule R-SEC-2.
#[test]
fn nobody_makes_control_packets_in_anothers_name() {
    let mut sealer = Sealer::new(&key());
    let mut bytes = sealed(&mut sealer, &question(5));
    let length = bytes.len();
    assert_eq!(
        sealer.seal(&question(6), &mut bytes),
        Err(SealError::OtherMaker(NodeId(6)))
    );
    assert_eq!(sealer.seal(&[1, 2, 3], &mut bytes), Err(SealError::Short));
    assert_eq!(bytes.len(), length);
    // But repairs others' data.
    sealer.seal(&data(6, 1, b"x"), &mut bytes).unwrap();
}

#[test]
fn lives_and_makers_have_keys_of_their_own() {
    let mut opener = Opener::new(&key());
    let bytes = sealed(&mut Sealer::new(&key()), &data(5, 1, b"of node 5"));
    for (place, byte) in [(8, 6), (16, 4)] {
        let mut posed = bytes.clone();
        posed[place] = byte;
        assert_eq!(opened(&mut opener, &posed), Err(OpenError::Forged));
    }
}
