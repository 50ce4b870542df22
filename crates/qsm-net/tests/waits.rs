//! Times that datagrams have waited at their sockets.

mod common;

use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{PATIENCE, group, open};
use qsm_net::{Offload, Port};

const NAP: Duration = Duration::from_millis(20);

/// Receives all that is there, and something at least.
fn receive(port: &mut Port) -> usize {
    port.wait(Some(PATIENCE)).unwrap();
    core::iter::from_fn(|| Some(port.receive().unwrap()).filter(|count| *count > 0)).sum()
}

/// Waits until the kernel stamps what comes, which it begins to do some time after the first socket has asked for it.
fn stamped(sender: &mut Port, receiver: &mut Port) {
    let start = Instant::now();
    loop {
        sender
            .send(receiver.local_addr(), &[1; 1000], 1000)
            .unwrap();
        sleep(NAP);
        receive(receiver);
        if receiver.take_waited().is_some_and(|waited| waited >= NAP) {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "nothing is stamped");
    }
}

fn the_oldest_counts(offload: Offload) {
    let group = group();
    let [mut sender, mut receiver] = [open(offload), open(offload)];
    receiver.join(group).unwrap();
    assert_eq!(receiver.take_waited(), None);
    stamped(&mut sender, &mut receiver);
    for to in [group, receiver.local_addr()] {
        sender.send(to, &[1; 4000], 1000).unwrap();
        sleep(NAP);
        sender.send(to, &[1; 4000], 1000).unwrap();
        assert_eq!(receive(&mut receiver), 8);
        let waited = receiver.take_waited().unwrap();
        assert!(waited >= NAP && waited < PATIENCE, "{to}: {waited:?}");
        assert_eq!(receiver.take_waited(), None);
    }
}

#[test]
fn of_single_datagrams() {
    the_oldest_counts(Offload::Off);
}

#[test]
fn of_trains() {
    the_oldest_counts(Offload::Auto);
}
