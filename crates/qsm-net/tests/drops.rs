//! What the kernel drops is counted, exactly, and apart for unicast and multicast (R221, R239).

mod common;

use common::{PATIENCE, config, group, open};
use qsm_net::{Offload, Port, PortConfig};

const DATAGRAMS: usize = 2000;
const SMALL_BYTES: usize = 64 << 10;

/// Receives until received and dropped datagrams add up to what was sent.
fn settle(port: &mut Port, sent: u64) {
    loop {
        while port.receive().unwrap() > 0 {}
        port.refresh_drops();
        let counters = port.counters();
        let received = counters.unicast.datagrams + counters.multicast.datagrams;
        let dropped = counters.unicast.kernel_drops + counters.multicast.kernel_drops;
        assert!(
            received + dropped <= sent,
            "{received} + {dropped} > {sent}"
        );
        if received + dropped == sent {
            return;
        }
        assert!(
            port.wait(Some(PATIENCE)).unwrap().readable,
            "{received} + {dropped} of {sent}"
        );
    }
}

#[test]
fn overflow_is_counted_apart_for_unicast_and_multicast() {
    let group = group();
    let mut sender = open(Offload::Off);
    let small = PortConfig {
        receive_buffer_bytes: SMALL_BYTES,
        offload: Offload::Off,
        ..config()
    };
    let mut receiver = Port::open(small).unwrap();
    receiver.join(group).unwrap();
    assert_eq!(receiver.receive_buffer_granted(), SMALL_BYTES);

    sender
        .send(group, &vec![1; DATAGRAMS * 1000], 1000)
        .unwrap();
    settle(&mut receiver, DATAGRAMS as u64);
    let first = *receiver.counters();
    assert!(
        first.multicast.kernel_drops > 0 && first.multicast.datagrams > 0,
        "{first:?}"
    );
    assert_eq!(first.unicast.kernel_drops, 0);

    sender
        .send(receiver.local_addr(), &vec![1; DATAGRAMS * 1000], 1000)
        .unwrap();
    settle(&mut receiver, 2 * DATAGRAMS as u64);
    let second = *receiver.counters();
    assert!(second.unicast.kernel_drops > 0, "{second:?}");
    assert_eq!(second.multicast, first.multicast);
}

#[test]
fn drops_come_with_the_next_datagram_and_survive_leaving() {
    let group = group();
    let mut sender = open(Offload::Off);
    let small = PortConfig {
        receive_buffer_bytes: SMALL_BYTES,
        offload: Offload::Off,
        ..config()
    };
    let mut receiver = Port::open(small).unwrap();
    receiver.join(group).unwrap();
    sender
        .send(group, &vec![1; DATAGRAMS * 1000], 1000)
        .unwrap();
    settle(&mut receiver, DATAGRAMS as u64);
    let exact = receiver.counters().multicast.kernel_drops;

    let mut other = Port::open(PortConfig {
        receive_buffer_bytes: SMALL_BYTES,
        ..config()
    })
    .unwrap();
    other.join(group).unwrap();
    for _ in 0..DATAGRAMS {
        sender.send(group, &[1; 1000], 1000).unwrap();
    }
    // The count travels with what is queued after a drop, so once the queue has room one more datagram brings it.
    for _ in 0..DATAGRAMS {
        if other.counters().multicast.kernel_drops > 0 {
            break;
        }
        sender.send(group, &[2; 10], 10).unwrap();
        common::collect(&mut other, 1);
    }
    let with_datagram = other.counters().multicast.kernel_drops;
    assert!(with_datagram > 0);
    other.leave(group);
    assert!(other.counters().multicast.kernel_drops >= with_datagram);

    receiver.leave(group);
    assert!(
        receiver.counters().multicast.kernel_drops > exact,
        "leaving takes the last count"
    );
}

#[test]
fn the_report_names_the_remedy_for_a_small_buffer() {
    let port = Port::open(PortConfig {
        receive_buffer_bytes: usize::MAX,
        ..config()
    })
    .unwrap();
    // Privileged or not, no kernel grants this.
    let report = port.report();
    assert!(report.receive_buffer_granted < report.receive_buffer_asked);
    let remedy = format!("allow it with `sysctl -w net.core.rmem_max={}`", usize::MAX);
    assert!(report.to_string().contains(&remedy), "{report}");
    let port = Port::open(PortConfig {
        receive_buffer_bytes: SMALL_BYTES,
        ..config()
    })
    .unwrap();
    assert_eq!(port.report().receive_buffer_remedy(), None);
}
