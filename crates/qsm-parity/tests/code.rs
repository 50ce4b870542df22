//! Any k of k packets and r parities are enough, whatever is lost; and the field's known code
//! agrees on what can be restored.

use proptest::prelude::*;
use proptest::sample::subsequence;
use qsm_parity::{PACKETS_MAX, ROWS_MAX, Restorer, add_row, factor, subtract_row};
use reed_solomon_erasure::galois_8::ReedSolomon;

fn longest(packets: &[Vec<u8>]) -> usize {
    packets.iter().map(Vec::len).max().unwrap_or(0)
}

fn parities(packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let rows = 0..ROWS_MAX;
    let parity = |row| {
        let mut parity = vec![0; longest(packets)];
        for (index, packet) in packets.iter().enumerate() {
            add_row(row, index, packet, &mut parity);
        }
        parity
    };
    rows.map(parity).collect()
}

/// Packets of a block that the parities of these rows restore, padded with zeros.
fn restored(packets: &[Vec<u8>], rows: &[usize], lost: &[usize]) -> Option<Vec<Vec<u8>>> {
    let restorer = Restorer::new(rows, lost)?;
    let all = parities(packets);
    let sums: Vec<Vec<u8>> = rows
        .iter()
        .map(|row| {
            let mut sum = all[*row].clone();
            for index in (0..packets.len()).filter(|index| !lost.contains(index)) {
                subtract_row(*row, index, &packets[index], &mut sum);
            }
            sum
        })
        .collect();
    let restore = |at| {
        let mut into = vec![0; longest(packets)];
        restorer.restore(at, sums.iter().map(Vec::as_slice), &mut into);
        into
    };
    Some((0..lost.len()).map(restore).collect())
}

fn padded(packet: &[u8], length: usize) -> Vec<u8> {
    let mut packet = packet.to_vec();
    packet.resize(length, 0);
    packet
}

fn blocks() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let packet = prop::collection::vec(any::<u8>(), 0..100);
    prop::collection::vec(packet, 1..=PACKETS_MAX)
}

/// A block, packets that are lost, and rows of as many parities.
fn losses() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<usize>, Vec<usize>)> {
    blocks().prop_flat_map(|packets| {
        let most = packets.len().min(ROWS_MAX);
        let indexes: Vec<usize> = (0..packets.len()).collect();
        (Just(packets), 0..=most).prop_flat_map(move |(packets, count)| {
            let rows: Vec<usize> = (0..ROWS_MAX).collect();
            let lost = subsequence(indexes.clone(), count);
            (Just(packets), lost, subsequence(rows, count).prop_shuffle())
        })
    })
}

proptest! {
    #[test]
    fn as_many_parities_as_packets_are_lost_restore_them((packets, lost, rows) in losses()) {
        let restored = restored(&packets, &rows, &lost).expect("rows and packets exist");
        let expected: Vec<Vec<u8>> = lost
            .iter()
            .map(|index| padded(&packets[*index], longest(&packets)))
            .collect();
        prop_assert_eq!(restored, expected);
    }

    // The matrices differ, so only what can be restored is compared, not the parities.
    #[test]
    fn the_known_code_restores_the_same_losses((packets, lost, rows) in losses()) {
        let length = longest(&packets).max(1);
        let code = ReedSolomon::new(packets.len(), ROWS_MAX).expect("few shards");
        let mut shards: Vec<Vec<u8>> = packets.iter().map(|packet| padded(packet, length)).collect();
        shards.resize(packets.len() + ROWS_MAX, vec![0; length]);
        code.encode(&mut shards).expect("equal lengths");
        let whole = shards.clone();
        let mut left: Vec<Option<Vec<u8>>> = shards.into_iter().map(Some).collect();
        lost.iter().for_each(|index| left[*index] = None);
        let other_rows = (0..ROWS_MAX).filter(|row| !rows.contains(row));
        other_rows.for_each(|row| left[packets.len() + row] = None);
        code.reconstruct_data(&mut left).expect("any k are enough");
        let by_known: Vec<Vec<u8>> = lost.iter().map(|index| left[*index].clone().expect("restored")).collect();
        let ours = restored(&packets, &rows, &lost).expect("rows and packets exist");
        let ours: Vec<Vec<u8>> = ours.iter().map(|packet| padded(packet, length)).collect();
        prop_assert_eq!(&ours, &by_known);
        let expected: Vec<Vec<u8>> = lost.iter().map(|index| whole[*index].clone()).collect();
        prop_assert_eq!(&ours, &expected);
    }

    #[test]
    fn fewer_parities_than_losses_restore_nothing((packets, lost, rows) in losses()) {
        prop_assume!(!lost.is_empty());
        prop_assert!(restored(&packets, &rows[1..], &lost).is_none());
    }
}

/// Every choice of up to four rows and packets, which proptest only samples.
#[test]
fn every_small_square_of_the_matrix_can_be_inverted() {
    let choices = |count: u32, of: usize| {
        (0u32..1 << of)
            .filter(move |bits| bits.count_ones() == count)
            .map(move |bits| (0..of).filter(|at| bits >> at & 1 == 1).collect::<Vec<_>>())
    };
    let mut squares = 0;
    for count in 1..=4 {
        for rows in choices(count, ROWS_MAX) {
            for lost in choices(count, PACKETS_MAX) {
                assert!(Restorer::new(&rows, &lost).is_some(), "{rows:?} {lost:?}");
                squares += 1;
            }
        }
    }
    assert_eq!(squares, 8 * 16 + 28 * 120 + 56 * 560 + 70 * 1820);
}

#[test]
fn rows_and_packets_that_repeat_or_do_not_exist_are_refused() {
    assert!(Restorer::new(&[0, 0], &[1, 2]).is_none());
    assert!(Restorer::new(&[0, 1], &[2, 2]).is_none());
    assert!(Restorer::new(&[ROWS_MAX], &[0]).is_none());
    assert!(Restorer::new(&[0], &[PACKETS_MAX]).is_none());
    let all: Vec<usize> = (0..=ROWS_MAX).collect();
    assert!(Restorer::new(&all, &all).is_none());
    assert!(Restorer::new(&[], &[]).is_some());
}

#[test]
fn a_block_that_lacks_one_packet_takes_only_exclusive_ors() {
    assert!((0..PACKETS_MAX).all(|index| factor(0, index) == 1));
}
