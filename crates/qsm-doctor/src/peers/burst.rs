//! Sending of probes.

use std::time::{Duration, Instant};

use qsm_net::{Interface, Port, PortConfig, SendError};

use super::probe::{HEAD_BYTES, Head};
use super::words::{Burst, Part, Sent};

/// Most datagrams of a burst, and so the most that a leader may ask of a host at once.
const DATAGRAMS_MAX: u32 = 8192;
/// Longest time between two calls.
const GAP_MAX: Duration = Duration::from_millis(100);
/// Time for which a full send buffer is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

/// Sends probes out of a socket of their own: a firewall that lets answers pass takes none for one.
pub(crate) fn send(interface: &Interface, session: u32, burst: &Burst) -> Sent {
    let config = PortConfig {
        ttl: burst.ttl,
        loopback: false,
        ..PortConfig::new(interface.clone())
    };
    let mut sent = Sent::default();
    let mut port = match Port::open(config) {
        Ok(port) => port,
        Err(error) => {
            sent.refused = Some(error.to_string());
            return sent;
        }
    };
    let gap = Duration::from_micros(burst.gap_micros.into()).min(GAP_MAX);
    let mut number = 0;
    let calls = burst.parts.iter();
    let calls = calls.flat_map(|part| std::iter::repeat_n(part, part.calls as usize));
    for part in calls.take(DATAGRAMS_MAX as usize) {
        if number >= DATAGRAMS_MAX {
            break;
        }
        let head = Head {
            session,
            step: burst.step,
            number,
            bytes: part.bytes,
            way: burst.way,
        };
        let bytes = train(&head, part);
        number += part.train;
        push(&mut port, burst, &bytes, part.bytes as usize, &mut sent);
        std::thread::sleep(gap);
    }
    sent
}

/// The payloads of one call.
fn train(head: &Head, part: &Part) -> Vec<u8> {
    let size = (part.bytes as usize).clamp(HEAD_BYTES, 65_507);
    let mut bytes = vec![0; size * part.train.clamp(1, 64) as usize];
    for (number, datagram) in (head.number..).zip(bytes.chunks_mut(size)) {
        Head { number, ..*head }.write(datagram);
    }
    bytes
}

fn push(port: &mut Port, burst: &Burst, bytes: &[u8], size: usize, sent: &mut Sent) {
    let (mut at, start) = (0, Instant::now());
    while at < bytes.len() {
        let (done, error) = match port.send(burst.to, &bytes[at..], size) {
            Ok(done) => (done, None),
            Err(error) => (error.sent(), Some(error)),
        };
        at += done.bytes;
        sent.taken += done.datagrams as u64;
        match error {
            None => {}
            Some(SendError::WouldBlock { .. }) if start.elapsed() < PATIENCE => {
                // It ends when there is room; an error shows again when sending.
                drop(port.wait(Some(Duration::from_millis(10))));
            }
            Some(error) => {
                sent.refused.get_or_insert_with(|| error.to_string());
                return;
            }
        }
    }
}
