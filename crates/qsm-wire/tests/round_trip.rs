//! What is encoded decodes to the same, for every kind of packet and every membership message.

mod support;

use qsm_wire::membership::{FromService, GroupAnswer, ToService};
use qsm_wire::{ChannelId, Chunk, DataHeader, Header, Hop, Kind, Packet, ViewNumber};
use support::dice::Dice;
use support::{Owned, borrowed, draw, message};

const SAMPLES: u64 = 2000;

#[test]
fn every_kind_of_packet_decodes_to_what_was_encoded() {
    for kind in Kind::ALL {
        for seed in 0..SAMPLES {
            let mut dice = Dice(seed);
            let header = draw::header(&mut dice);
            let body = draw::packet(&mut dice, *kind);
            let bytes = body.encode(&header);
            let packet = Packet::decode(&bytes)
                .unwrap_or_else(|error| panic!("{kind:?} of seed {seed}: {error}: {body:?}"));
            assert_eq!(packet.header, header, "{kind:?} of seed {seed}");
            assert_eq!(Owned::of(&packet), body, "{kind:?} of seed {seed}");
            assert_eq!(bytes[1], *kind as u8, "the kind stands in the second byte");
        }
    }
}

#[test]
fn every_message_to_the_service_decodes_to_what_was_encoded() {
    for seed in 0..SAMPLES * 4 {
        let mut dice = Dice(seed);
        let variant = dice.below(message::TO_SERVICE);
        let message = message::to_service(&mut dice, variant);
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert_eq!(ToService::decode(&bytes), Ok(message), "seed {seed}");
    }
}

#[test]
fn every_message_from_the_service_decodes_to_what_was_encoded() {
    for seed in 0..SAMPLES * 4 {
        let mut dice = Dice(seed);
        let variant = dice.below(message::FROM_SERVICE);
        let message = message::from_service(&mut dice, variant);
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        assert_eq!(FromService::decode(&bytes), Ok(message), "seed {seed}");
    }
}

#[test]
fn every_answer_on_a_group_decodes_to_what_was_encoded() {
    for seed in 0..SAMPLES {
        let answer = message::group_answer(&mut Dice(seed));
        let mut bytes = Vec::new();
        answer.encode(&mut bytes);
        assert_eq!(GroupAnswer::decode(&bytes), Ok(answer), "seed {seed}");
    }
}

/// R-PKT-5: packets of a train have equal lengths; what fills them up says nothing.
#[test]
fn padding_of_every_length_is_skipped() {
    let header = Header::default();
    let mut dice = Dice(1);
    for gap in 0..2000 {
        let chunk = draw::chunk(&mut dice);
        let bytes = padded(&header, &[borrowed(&chunk)], gap);
        let packet = Packet::decode(&bytes).expect("padding is legal");
        let Owned::Data { chunks, .. } = Owned::of(&packet) else {
            panic!("not data")
        };
        assert_eq!(chunks, [chunk], "gap of {gap}");
    }
}

#[test]
fn padding_between_chunks_is_skipped_too() {
    let mut dice = Dice(2);
    let (one, other) = (draw::chunk(&mut dice), draw::chunk(&mut dice));
    let mut bytes = padded(&Header::default(), &[borrowed(&one)], 40);
    borrowed(&other).encode(&mut bytes);
    let packet = Packet::decode(&bytes).expect("legal");
    let Owned::Data { chunks, .. } = Owned::of(&packet) else {
        panic!("not data")
    };
    assert_eq!(chunks, [one, other]);
}

#[test]
fn a_gap_longer_than_a_chunk_is_refused_and_changes_nothing() {
    let mut bytes = vec![1, 2, 3];
    assert!(!Chunk::pad(
        &mut bytes,
        qsm_wire::CHUNK_HEADER_BYTES + qsm_wire::CHUNK_LENGTH_MAX + 1
    ));
    assert_eq!(bytes, [1, 2, 3]);
}

/// R-PKT-4: a repair is the original datagram with another hop byte.
#[test]
fn stamping_changes_the_hop_and_nothing_else() {
    for kind in Kind::ALL {
        let mut dice = Dice(7);
        let header = Header {
            hop: Hop::Direct,
            ..draw::header(&mut dice)
        };
        let original = draw::packet(&mut dice, *kind).encode(&header);
        let mut stamped = original.clone();
        Hop::CacherRepair.stamp(&mut stamped);
        let packet = Packet::decode(&stamped).expect("still legal");
        assert_eq!(
            packet.header,
            Header {
                hop: Hop::CacherRepair,
                ..header
            }
        );
        Hop::Direct.stamp(&mut stamped);
        assert_eq!(stamped, original);
    }
    Hop::Push.stamp(&mut [0; 3]);
}

/// R-VIEW-2: `sequence - view_age` is where the packet's view begins.
#[test]
fn the_view_start_is_told_unless_it_is_too_long_ago() {
    let head = |sequence, view_age| DataHeader {
        channel: ChannelId(1),
        view: ViewNumber(1),
        sequence,
        view_age,
    };
    assert_eq!(head(10, 0).view_start(), Some(10));
    assert_eq!(head(10, 9).view_start(), Some(1));
    assert_eq!(head(u64::MAX, u32::MAX).view_start(), None);
}

fn padded(header: &Header, chunks: &[Chunk<'_>], gap: usize) -> Vec<u8> {
    let head = DataHeader {
        channel: ChannelId(1),
        view: ViewNumber(1),
        sequence: 9,
        view_age: 0,
    };
    let mut bytes = Vec::new();
    head.encode(header, &mut bytes);
    for chunk in chunks {
        chunk.encode(&mut bytes);
    }
    let length = bytes.len();
    assert!(Chunk::pad(&mut bytes, gap));
    assert_eq!(bytes.len(), length + gap);
    bytes
}
