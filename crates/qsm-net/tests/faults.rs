//! Injected faults over real sockets: after the split, to all datagrams, the same for the same seed.

mod common;

use common::{collect, config, drain, group, open};
use qsm_net::{FaultConfig, Offload, Port, PortConfig};

const DATAGRAMS: usize = 10_000;

/// Numbered datagrams through a faulty port: the numbers that were delivered, and the port.
fn run(offload: Offload, fault: FaultConfig) -> (Vec<u32>, Port) {
    let group = group();
    let mut sender = open(offload);
    let mut receiver = Port::open(PortConfig {
        fault: Some(fault),
        offload,
        ..config()
    })
    .unwrap();
    receiver.join(group).unwrap();
    let mut received = Vec::new();
    // Small enough to wait in any receive buffer.
    let numbers: Vec<u32> = (0..DATAGRAMS as u32).collect();
    for some in numbers.chunks(100) {
        let bytes: Vec<u8> = some
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        sender.send(group, &bytes, 4).unwrap();
        while receiver.counters().multicast.datagrams <= u64::from(some[some.len() - 1]) {
            assert!(receiver.wait(Some(common::PATIENCE)).unwrap().readable);
            drain(&mut receiver, &mut received);
        }
    }
    let numbers = received
        .iter()
        .map(|datagram| u32::from_le_bytes(datagram.bytes[..].try_into().unwrap()));
    (numbers.collect(), receiver)
}

#[test]
fn loss_hits_the_same_datagrams_with_and_without_trains() {
    let fault = FaultConfig {
        seed: 42,
        loss_ppm: 10_000,
        duplicate_ppm: 20_000,
        reorder_ppm: 0,
        ..FaultConfig::default()
    };
    let (with, port) = run(Offload::Auto, fault);
    let (without, _) = run(Offload::Off, fault);
    assert_eq!(with, without);
    let faults = port.counters().faults;
    // Exact for this seed; the rates would give 100 and 198.
    assert_eq!(
        (faults.lost, faults.duplicated, faults.reordered),
        (93, 196, 0)
    );
    assert_eq!(
        with.len() as u64,
        DATAGRAMS as u64 - faults.lost + faults.duplicated
    );
}

#[test]
fn reordering_swaps_neighbours_and_loses_nothing() {
    let (mut numbers, port) = run(
        Offload::Auto,
        FaultConfig {
            seed: 1,
            reorder_ppm: 100_000,
            ..Default::default()
        },
    );
    let swaps = numbers.windows(2).filter(|pair| pair[0] > pair[1]).count();
    assert_eq!(swaps as u64, port.counters().faults.reordered);
    // 10 % less those without a successor or whose predecessor was held already; see the unit tests for exact rates.
    assert!((800..1000).contains(&swaps), "{swaps}");
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..DATAGRAMS as u32));
}

#[test]
fn total_loss_also_hits_unicast_and_still_counts_what_came() {
    let fault = FaultConfig {
        loss_ppm: 1_000_000,
        ..Default::default()
    };
    let mut receiver = Port::open(PortConfig {
        fault: Some(fault),
        ..config()
    })
    .unwrap();
    let mut sender = open(Offload::Auto);
    sender
        .send(receiver.local_addr(), &[0; 3000], 1000)
        .unwrap();
    while receiver.counters().unicast.datagrams < 3 {
        assert!(receiver.wait(Some(common::PATIENCE)).unwrap().readable);
        assert!(receiver.receive().unwrap() > 0, "0 means drained, not lost");
        assert_eq!(receiver.datagrams().count(), 0);
    }
    assert_eq!(receiver.counters().faults.lost, 3);
    assert_eq!(collect(&mut receiver, 0), []);
}
