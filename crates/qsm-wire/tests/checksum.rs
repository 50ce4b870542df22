//! Damage is found out before anything of a datagram is looked at (R-PKT-8).

mod support;

use qsm_wire::{
    ChannelId, Coverage, DATA_HEADER_BYTES, DataHeader, GroupId, Header, Hop, Incarnation, Kind,
    NodeId, Origin, Packet, Part, ViewNumber, is_intact, seal,
};
use support::dice::Dice;
use support::{Owned, OwnedChunk, draw};

const SAMPLES: u64 = 30;

fn sealed(kind: Kind, seed: u64, coverage: Coverage) -> Vec<u8> {
    let mut dice = Dice(seed);
    let header = draw::header(&mut dice);
    let mut bytes = draw::packet(&mut dice, kind).encode(&header);
    seal(&mut bytes, coverage);
    bytes
}

/// The bytes that are covered, but for the hop.
fn covered(kind: Kind, coverage: Coverage, length: usize) -> impl Iterator<Item = usize> {
    let whole = kind != Kind::Data || coverage == Coverage::Whole;
    let upto = if whole { length } else { DATA_HEADER_BYTES };
    (0..upto).filter(|at| *at != 3)
}

fn each(mut check: impl FnMut(Kind, Coverage, Vec<u8>)) {
    for kind in Kind::ALL {
        for seed in 0..SAMPLES {
            for coverage in [Coverage::Head, Coverage::Whole] {
                check(*kind, coverage, sealed(*kind, seed, coverage));
            }
        }
    }
}

#[test]
fn no_flipped_bit_passes_where_the_checksum_covers_it() {
    each(|kind, coverage, mut bytes| {
        assert!(is_intact(&bytes), "{kind:?}");
        for at in covered(kind, coverage, bytes.len()) {
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(!is_intact(&bytes), "{kind:?}, {coverage:?}, byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
    });
}

#[test]
fn no_datagram_passes_that_was_cut_short_or_is_longer() {
    each(|kind, coverage, mut bytes| {
        for length in 0..bytes.len() {
            assert!(
                !is_intact(&bytes[..length]),
                "{kind:?}, {coverage:?}, {length}"
            );
        }
        bytes.push(0);
        assert!(!is_intact(&bytes), "{kind:?}, {coverage:?}");
    });
}

#[test]
fn the_hop_may_change_on_the_way() {
    each(|kind, _, mut bytes| {
        Hop::CacherRepair.stamp(&mut bytes);
        assert!(is_intact(&bytes), "{kind:?}");
    });
}

#[test]
fn damage_within_a_message_is_found_only_if_it_is_covered() {
    for coverage in [Coverage::Head, Coverage::Whole] {
        let long = |seed| Some(sealed(Kind::Data, seed, coverage)).filter(|b| b.len() > 60);
        let mut bytes = (0..).find_map(long).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        assert_eq!(is_intact(&bytes), coverage == Coverage::Head);
    }
}

/// Lower halves of XXH3-64, computed by other means: of the first 44 bytes with a hop of 0 and the
/// length in the checksum's place; or of the first 24 with zeros for both, and of the rest.
#[test]
fn checksums_are_those_of_the_format() {
    let head = DataHeader {
        channel: ChannelId(0x0a),
        view: ViewNumber(6),
        sequence: 0x0102_0304_0506_0708,
        view_age: 5,
    };
    let chunks = vec![OwnedChunk {
        group: GroupId(7),
        message: 1,
        part: Part::Whole,
        content: b"abc".to_vec(),
    }];
    let header = Header {
        cluster: 0xc1c2_c3c4,
        origin: Origin {
            node: NodeId(0x1122_3344_5566_7788),
            incarnation: Incarnation(3),
        },
        hop: Hop::Direct,
    };
    let hex = |bytes: &[u8]| {
        bytes
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    let packet = Owned::Data { head, chunks }.encode(&header);
    for (coverage, flags, expected) in [
        (Coverage::Head, 0, "a6d9c977"),
        (Coverage::Whole, 1, "53e6af7b"),
    ] {
        let mut sealed = packet.clone();
        seal(&mut sealed, coverage);
        assert_eq!(
            (sealed[2], hex(&sealed[20..24])),
            (flags, expected.to_owned())
        );
        assert!(Packet::decode(&sealed).is_ok());
    }
    let mut solicit = Owned::Solicit.encode(&header);
    seal(&mut solicit, Coverage::Head);
    assert_eq!(
        (solicit[2], hex(&solicit[20..24])),
        (1, "1675293b".to_owned())
    );
}
