use qsm_wire::{
    Body, Header, MemberIndex, Origin, Packet, Ranges, RegionId, SeqRange, TokenHead, ViewNumber,
};

use super::super::Report;
use super::super::gathered::{Gathered, TokenEntry, capacity};
use super::super::sets::NakSet;
use super::network::{origin, sender};

fn token(slots: Vec<TokenEntry>, visited: u16) -> Gathered {
    let head = TokenHead {
        region: RegionId(1),
        view: ViewNumber(1),
        leader: origin(0),
        round: 1,
        level: 0,
        ring: 0,
        visited,
        rate_packets: 1000 / u32::from(visited),
        credit_bytes: 9000 / u32::from(visited),
    };
    Gathered {
        head,
        suspects: vec![MemberIndex(visited)],
        slots,
    }
}

/// A slot opened at watermarks of 5, to which somebody who has everything up to `number` has
/// contributed.
fn entry(sender: Origin, number: u64) -> TokenEntry {
    let mut entry = TokenEntry::new(sender, number, 5, 5);
    entry.contribute(Some(Report {
        highest: number + 1,
        arrived: number + 1,
        contiguous: number,
        cached: number,
        missing: true,
    }));
    entry
}

#[test]
fn sums_of_rings_are_minima_maxima_and_counts() {
    let mut upper = token(vec![entry(sender(1), 9)], 2);
    upper.merge(&token(vec![entry(sender(1), 7)], 3), 10);
    let head = upper.slots[0].head;
    assert_eq!(
        (head.highest, head.stable, head.cached, head.losers),
        (10, 7, 7, 2)
    );
    assert_eq!(head.arrived, 8);
    assert_eq!(upper.head.visited, 5);
    assert_eq!(upper.head.rate_packets, 333);
    assert_eq!(upper.head.credit_bytes, 3000);
    assert_eq!(upper.suspects, [MemberIndex(2), MemberIndex(3)]);
}

#[test]
fn a_stream_that_one_ring_left_out_makes_no_progress() {
    let mut upper = token(vec![entry(sender(1), 9)], 1);
    upper.merge(&token(vec![entry(sender(2), 7)], 1), 10);
    let heads: Vec<_> = upper.slots.iter().map(|entry| entry.head).collect();
    assert_eq!((heads[0].origin, heads[0].highest), (sender(1), 10));
    assert_eq!((heads[0].stable, heads[0].cached), (5, 5));
    assert_eq!((heads[1].origin, heads[1].highest), (sender(2), 8));
    assert_eq!((heads[1].stable, heads[1].cached), (5, 5));

    // Without room, the other ring's stream waits.
    let mut full = token(vec![entry(sender(1), 9)], 1);
    full.merge(&token(vec![entry(sender(2), 7)], 1), 1);
    assert_eq!(full.slots.len(), 1);
}

#[test]
fn a_full_token_cuts_sets_but_leaves_no_stream_out() {
    // R069, G06.
    let ranges: Vec<SeqRange> = (1..=8).map(|at| SeqRange::one(2 * at)).collect();
    for limit in [496, 1456, 8956] {
        let slots = (0..capacity(limit)).map(|number| TokenEntry {
            naks: NakSet::new(&ranges, false),
            common: NakSet::new(&ranges, false),
            ..entry(sender(number as u64), 99)
        });
        let token = token(slots.collect(), 1);
        let mut bytes = Vec::new();
        token.encode(&Header::default(), limit, &mut bytes);
        assert!(bytes.len() <= limit);
        let Body::Token(decoded) = Packet::decode(&bytes).unwrap().body else {
            panic!("not a token");
        };
        let decoded = Gathered::from_wire(&decoded);
        assert_eq!(decoded.slots.len(), token.slots.len());
        for slot in &decoded.slots {
            assert!((1..=Ranges::MAX).contains(&slot.naks.ranges.len()));
            assert!((1..=Ranges::MAX).contains(&slot.common.ranges.len()));
            assert_eq!(slot.naks.cut, slot.naks.ranges.len() < Ranges::MAX);
            assert_eq!(slot.common.cut, slot.common.ranges.len() < Ranges::MAX);
        }
    }
}
