//! What is damaged or hostile is rejected, or read as something that could have been sent; it
//! never panics (R-PKT-1).

mod support;

use qsm_wire::membership::{FromService, GroupAnswer, ToService};
use qsm_wire::{DecodeError, HEADER_BYTES, Kind, ListQuery, Packet, VERSION};
use support::dice::Dice;
use support::{Owned, check_datagram, draw, message};

const SAMPLES: u64 = 100;

/// Data packets, session frames, parities, questions for lists and their parts end where the datagram ends (UDP
/// keeps its length), and tokens and ACKs may end before their marks, so a shorter one may be legal: it then says a part of the
/// same, and nothing else.
#[test]
fn every_truncation_of_every_packet_is_rejected_or_says_a_part_of_it() {
    for kind in Kind::ALL {
        for seed in 0..SAMPLES {
            let mut dice = Dice(seed);
            let header = draw::header(&mut dice);
            let body = draw::packet(&mut dice, *kind);
            let bytes = body.encode(&header);
            for length in 0..bytes.len() {
                let Some((_, part)) = check_datagram(&bytes[..length]) else {
                    continue;
                };
                assert!(
                    is_part(&part, &body),
                    "{kind:?}, seed {seed}, {length} bytes: {part:?}"
                );
            }
        }
    }
}

fn is_part(part: &Owned, whole: &Owned) -> bool {
    match (part, whole) {
        (
            Owned::Data {
                head: a,
                chunks: part,
            },
            Owned::Data {
                head: b,
                chunks: whole,
            },
        ) => {
            a == b && whole.starts_with(part) && part.len() < whole.len() || a == b && part == whole
        }
        (
            Owned::Session {
                head: a,
                content: part,
            },
            Owned::Session {
                head: b,
                content: whole,
            },
        ) => a == b && whole.starts_with(part),
        (Owned::Admission(a, part), Owned::Admission(b, whole)) => {
            a == b && whole.starts_with(part)
        }
        (Owned::Parity(a, part), Owned::Parity(b, whole)) => a == b && whole.starts_with(part),
        (Owned::ListQuery(part), Owned::ListQuery(whole)) => {
            let padding = whole.padding;
            part.padding <= padding && ListQuery { padding, ..*part } == *whole
        }
        (Owned::ListReply(a, part), Owned::ListReply(b, whole)) => {
            a == b && whole.starts_with(part)
        }
        (
            Owned::GroupQuery {
                nonce,
                name,
                padding,
            },
            Owned::GroupQuery {
                nonce: same,
                name: named,
                padding: most,
            },
        ) => (nonce, name) == (same, named) && padding <= most,
        (
            Owned::GroupReply {
                nonce,
                answer: part,
            },
            Owned::GroupReply {
                nonce: same,
                answer: whole,
            },
        ) => nonce == same && whole.starts_with(part),
        (Owned::Token { marks, .. }, whole) if marks.iter().all(Vec::is_empty) => {
            *part == unmarked(whole)
        }
        (Owned::Ack(_, marks), whole) if marks.is_empty() => *part == unmarked(whole),
        _ => false,
    }
}

/// The same without marks.
fn unmarked(packet: &Owned) -> Owned {
    let mut packet = packet.clone();
    match &mut packet {
        Owned::Token { marks, .. } => marks.iter_mut().for_each(Vec::clear),
        Owned::Ack(_, marks) => marks.clear(),
        _ => {}
    }
    packet
}

#[test]
fn every_truncation_of_every_membership_message_is_rejected() {
    for seed in 0..SAMPLES * 4 {
        let mut dice = Dice(seed);
        let mut bytes = Vec::new();
        let variant = dice.below(message::TO_SERVICE);
        message::to_service(&mut dice, variant).encode(&mut bytes);
        for length in 0..bytes.len() {
            assert!(
                ToService::decode(&bytes[..length]).is_err(),
                "seed {seed}, {length} bytes"
            );
        }
        bytes.clear();
        message::group_answer(&mut dice).encode(&mut bytes);
        for length in 0..bytes.len() {
            assert!(
                GroupAnswer::decode(&bytes[..length]).is_err(),
                "seed {seed}, {length} bytes"
            );
        }
        bytes.clear();
        let variant = dice.below(message::FROM_SERVICE);
        message::from_service(&mut dice, variant).encode(&mut bytes);
        for length in 0..bytes.len() {
            assert!(
                FromService::decode(&bytes[..length]).is_err(),
                "seed {seed}, {length} bytes"
            );
        }
    }
}

#[test]
fn what_is_appended_is_rejected_where_the_length_is_known() {
    for kind in Kind::ALL {
        let mut dice = Dice(3);
        let header = draw::header(&mut dice);
        let mut bytes = draw::packet(&mut dice, *kind).encode(&header);
        bytes.push(1);
        let verdict = Packet::decode(&bytes).map(|packet| Owned::of(&packet));
        match kind {
            Kind::Session | Kind::Parity | Kind::GroupReply | Kind::Admission => {
                assert!(verdict.is_ok());
            }
            Kind::Data => assert_eq!(verdict, Err(DecodeError::Truncated)),
            // Padding is zeros; a part may be longer, up to the end of its list.
            Kind::ListQuery | Kind::GroupQuery => {
                assert_eq!(verdict, Err(DecodeError::BadValue));
            }
            Kind::ListReply => assert!(matches!(verdict, Ok(_) | Err(DecodeError::BadValue))),
            // What follows may be a list of marks.
            Kind::Token | Kind::Ack => assert!(matches!(
                verdict,
                Err(DecodeError::Truncated | DecodeError::TrailingBytes)
            )),
            _ => assert_eq!(verdict, Err(DecodeError::TrailingBytes), "{kind:?}"),
        }
    }
}

#[test]
fn every_single_bit_flip_is_rejected_or_reencodes_equal() {
    for kind in Kind::ALL {
        for seed in 0..SAMPLES / 4 {
            let mut dice = Dice(seed);
            let header = draw::header(&mut dice);
            let mut bytes = draw::packet(&mut dice, *kind).encode(&header);
            for bit in 0..bytes.len() * 8 {
                bytes[bit / 8] ^= 1 << (bit % 8);
                check_datagram(&bytes);
                bytes[bit / 8] ^= 1 << (bit % 8);
            }
        }
    }
}

#[test]
fn random_bytes_behind_a_valid_header_are_rejected_or_reencode_equal() {
    let mut dice = Dice(4);
    let mut accepted = 0;
    for _ in 0..100_000 {
        let length = dice.below(200);
        let mut bytes = dice.bytes(length);
        if bytes.len() >= 4 {
            bytes[0] = VERSION;
            bytes[1] = 1 + (bytes[1] % 24);
            bytes[2] = 0;
            bytes[3] %= 5;
        }
        accepted += usize::from(check_datagram(&bytes).is_some());
    }
    assert!(
        accepted > 100,
        "only {accepted} of the samples got past the decoder"
    );
}

#[test]
fn foreign_versions_kinds_flags_and_hops_are_told_apart() {
    let mut bytes = vec![0; HEADER_BYTES];
    let with = |bytes: &mut Vec<u8>, at: usize, value| {
        bytes[at] = value;
        Packet::decode(bytes).map(|_| ()).expect_err("illegal")
    };
    assert_eq!(
        with(&mut bytes, 0, VERSION + 1),
        DecodeError::UnknownVersion
    );
    assert_eq!(with(&mut bytes, 0, VERSION), DecodeError::UnknownKind);
    assert_eq!(with(&mut bytes, 1, 99), DecodeError::UnknownKind);
    bytes[1] = Kind::Solicit as u8;
    assert_eq!(with(&mut bytes, 2, 2), DecodeError::Sealed);
    assert_eq!(with(&mut bytes, 2, 3), DecodeError::BadValue);
    assert_eq!(with(&mut bytes, 2, 4), DecodeError::BadValue);
    bytes[2] = 0;
    assert_eq!(with(&mut bytes, 3, 6), DecodeError::BadValue);
    bytes[3] = 5;
    assert!(Packet::decode(&bytes).is_ok());
}

#[test]
fn kind_numbers_are_dense_and_are_read_back() {
    assert!(
        (1..)
            .zip(Kind::ALL)
            .all(|(number, kind)| number == *kind as u8)
    );
    for kind in Kind::ALL {
        assert_eq!(Kind::peek(&[VERSION, *kind as u8]), Some(*kind));
    }
}
