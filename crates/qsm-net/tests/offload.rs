//! Trains and single datagrams must be indistinguishable to the receiver: every test body runs with offload and without.

mod common;

use std::net::{Ipv4Addr, SocketAddr};

use common::{collect, group, open, pattern};
use qsm_net::{Gso, Offload, Port, SendError, SendFailure};

const BOTH: [Offload; 2] = [Offload::Auto, Offload::Off];

/// Sends to a group and checks that each receiver gets the same cut of the bytes.
fn round_trip(sending: Offload, receiving: Offload, length: usize, segment: usize) -> (Port, Port) {
    let (mut sender, mut receiver) = (open(sending), open(receiving));
    let (group, bytes) = (group(), pattern(length));
    receiver.join(group).unwrap();
    let sent = sender.send(group, &bytes, segment).unwrap();
    let expected: Vec<&[u8]> = bytes.chunks(segment).collect();
    assert_eq!((sent.bytes, sent.datagrams), (length, expected.len()));
    let received = collect(&mut receiver, expected.len());
    assert!(
        received
            .iter()
            .map(|datagram| &datagram.bytes[..])
            .eq(expected.iter().copied())
    );
    assert!(
        received
            .iter()
            .all(|datagram| datagram.group == Some(group))
    );
    assert!(
        received
            .iter()
            .all(|datagram| datagram.source == sender.local_addr())
    );
    let counters = receiver.counters().multicast;
    assert_eq!(
        (counters.datagrams, counters.bytes),
        (expected.len() as u64, length as u64)
    );
    assert_eq!(sender.counters().sent.datagrams, expected.len() as u64);
    (sender, receiver)
}

#[test]
fn every_cut_arrives_the_same_on_every_path() {
    // Single; full train; short last segment; a last one of one byte; more than a train; more than a system call takes
    // without offload; jumbo; the largest datagram.
    let cuts = [
        (1, 1),
        (1000, 1000),
        (64_000, 1000),
        (63_001, 1000),
        (62_001, 1000),
        (500_000, 1400),
        (4001, 40),
        (60_000, 9000),
        (131_014, 65_507),
    ];
    for sending in BOTH {
        for receiving in BOTH {
            for (length, segment) in cuts {
                round_trip(sending, receiving, length, segment);
            }
        }
    }
}

#[test]
fn a_train_crosses_the_kernel_whole() {
    let (sender, receiver) = round_trip(Offload::Auto, Offload::Auto, 63_500, 1000);
    // On a kernel without the offloads the report says so, and there is nothing more to see.
    if sender.report().gso == Gso::On && receiver.report().gro {
        assert_eq!(
            (sender.counters().sent.calls, sender.counters().sent.trains),
            (1, 1)
        );
        let received = receiver.counters().multicast;
        assert_eq!(
            (received.calls, received.trains, received.datagrams),
            (1, 1, 64)
        );
    }
}

#[test]
fn without_offload_there_are_no_trains() {
    let (sender, receiver) = round_trip(Offload::Off, Offload::Off, 63_500, 1000);
    assert_eq!(
        (sender.counters().sent.trains, sender.counters().sent.calls),
        (0, 2)
    );
    assert_eq!(receiver.counters().multicast.trains, 0);
    assert_eq!(sender.report().gso, Gso::OffByConfiguration);
    assert!(!receiver.report().gro);
}

#[test]
fn unicast_is_received_and_told_apart() {
    for offload in BOTH {
        let (mut sender, mut receiver) = (open(offload), open(offload));
        sender
            .send(receiver.local_addr(), &pattern(2500), 1000)
            .unwrap();
        let received = collect(&mut receiver, 3);
        assert!(received.iter().all(|datagram| datagram.group.is_none()));
        assert_eq!(received[2].bytes, pattern(2500)[2000..]);
        assert_eq!(receiver.counters().unicast.datagrams, 3);
        assert_eq!(receiver.counters().multicast.datagrams, 0);
    }
}

#[test]
fn nothing_and_impossible_sizes() {
    let mut port = open(Offload::Auto);
    let group = group();
    assert_eq!(port.send(group, &[], 1000).unwrap().datagrams, 0);
    for segment_bytes in [0, 65_508] {
        let error = port.send(group, &[1], segment_bytes).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("datagrams of {segment_bytes} bytes are impossible; use 1 to 65507")
        );
    }
}

#[test]
fn errors_are_named_counted_and_do_not_end_offload() {
    for offload in BOTH {
        let mut port = open(offload);
        let gso = port.report().gso;
        // Port 0 is refused whatever the form, so the train is not to blame.
        let error = port
            .send(
                SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
                &pattern(3000),
                1000,
            )
            .unwrap_err();
        assert!(
            matches!(
                error,
                SendError::Failed {
                    failure: SendFailure::Other,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(port.report().gso, gso);
        // Broadcast needs a permission that a port never asks for.
        let error = port
            .send(SocketAddr::from((Ipv4Addr::BROADCAST, 9)), &[1], 1)
            .unwrap_err();
        assert!(
            matches!(
                error,
                SendError::Failed {
                    failure: SendFailure::Forbidden,
                    ..
                }
            ),
            "{error}"
        );
        assert_eq!(error.sent().bytes, 0);
        let errors = port.counters().sent.errors;
        assert_eq!(
            (errors.other, errors.forbidden, errors.would_block),
            (1, 1, 0)
        );
    }
}
