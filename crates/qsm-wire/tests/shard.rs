//! Shards, of which parities are sums: a packet comes back from its shard and any other packet of its block.

mod support;

use qsm_wire::{
    ChannelId, Coverage, DataHeader, GroupId, Header, Hop, Packet, Part, Shard, ViewNumber, seal,
};
use support::dice::Dice;
use support::{Owned, OwnedChunk, draw};

/// The packet of this number, of a view that began with number 10.
fn packet(sequence: u64, content: &[u8], coverage: Coverage) -> Vec<u8> {
    let head = DataHeader {
        channel: ChannelId(3),
        view: ViewNumber(7),
        sequence,
        view_age: u32::try_from(sequence - 10).unwrap(),
    };
    with_head(head, content, coverage)
}

fn with_head(head: DataHeader, content: &[u8], coverage: Coverage) -> Vec<u8> {
    let header = Header {
        cluster: 9,
        ..draw::header(&mut Dice(5))
    };
    let header = Header {
        hop: Hop::Direct,
        ..header
    };
    let chunk = OwnedChunk {
        group: GroupId(1),
        message: 2,
        part: Part::Whole,
        content: content.to_vec(),
    };
    let chunks = vec![chunk];
    let mut bytes = Owned::Data { head, chunks }.encode(&header);
    seal(&mut bytes, coverage);
    bytes
}

fn shard(packet: &[u8]) -> Vec<u8> {
    let shard = Shard::of(packet).expect("a data packet");
    [&shard.head[..], shard.chunks].concat()
}

#[test]
fn a_packet_comes_back_byte_for_byte_but_for_its_hop() {
    for coverage in [Coverage::Head, Coverage::Whole] {
        let (mut lost, other) = (
            packet(20, b"lost", coverage),
            packet(31, b"other one", coverage),
        );
        let mut padded = shard(&lost);
        padded.extend_from_slice(&[0; 5]);
        let mut restored = b"before".to_vec();
        assert!(Shard::restore(&padded, 20, &other, &mut restored));
        Hop::Push.stamp(&mut lost);
        assert_eq!(&restored[6..], lost);
        assert!(Packet::open(&restored[6..]).is_ok());
    }
}

// Rule R-PKT-8.
#[test]
fn what_was_damaged_on_the_way_is_no_packet() {
    let (lost, other) = (
        packet(20, b"lost", Coverage::Whole),
        packet(21, b"", Coverage::Whole),
    );
    let whole = shard(&lost);
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        assert!(
            !Shard::restore(&damaged, 20, &other, &mut Vec::new()),
            "byte {at}"
        );
    }
    for length in 0..whole.len() {
        assert!(!Shard::restore(
            &whole[..length],
            20,
            &other,
            &mut Vec::new()
        ));
    }
    assert!(
        !Shard::restore(&whole, 22, &other, &mut Vec::new()),
        "another number"
    );
    assert!(!Shard::restore(&whole, 20, &other[..43], &mut Vec::new()));
    assert!(
        !Shard::restore(&whole, 9, &other, &mut Vec::new()),
        "before the view"
    );
}

#[test]
fn packets_of_another_view_or_checksum_are_of_another_block() {
    let one = packet(20, b"one", Coverage::Head);
    assert!(Shard::are_of_one_block(
        &one,
        &packet(25, b"longer", Coverage::Head)
    ));
    assert!(!Shard::are_of_one_block(
        &one,
        &packet(25, b"one", Coverage::Whole)
    ));
    let head = DataHeader {
        channel: ChannelId(3),
        view: ViewNumber(8),
        sequence: 25,
        view_age: 15,
    };
    assert!(!Shard::are_of_one_block(
        &one,
        &with_head(head, b"", Coverage::Head)
    ));
    let view = ViewNumber(7);
    let young = DataHeader {
        view,
        view_age: 2,
        ..head
    };
    assert!(!Shard::are_of_one_block(
        &one,
        &with_head(young, b"", Coverage::Head)
    ));
    assert!(!Shard::are_of_one_block(&one, &one[..40]));
    assert_eq!(Shard::of(&one[..43]), None);
}

#[test]
fn a_view_that_began_too_long_ago_to_tell_says_so_again() {
    let old = |sequence| {
        let head = DataHeader {
            channel: ChannelId(3),
            view: ViewNumber(7),
            sequence,
            view_age: u32::MAX,
        };
        with_head(head, b"x", Coverage::Head)
    };
    let (lost, other) = (old(1 << 40), old((1 << 40) + 3));
    assert!(Shard::are_of_one_block(&lost, &other));
    let mut restored = Vec::new();
    assert!(Shard::restore(
        &shard(&lost),
        1 << 40,
        &other,
        &mut restored
    ));
    assert_eq!(
        Packet::open(&restored)
            .map(|packet| Owned::of(&packet))
            .unwrap(),
        Owned::of(&Packet::open(&lost).unwrap())
    );
}
