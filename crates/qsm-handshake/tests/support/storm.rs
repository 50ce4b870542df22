//! Arbitrary datagrams at both ends of a handshake, at any moment of it: passed over or the end of that handshake;
//! never a panic, never more state than the limits, never a node that is let in without its credential.

use std::time::Duration;

use qsm_handshake::{Admission, Client, Event, Identity, Limits, Now, Refused, Server};

const CREDENTIAL: &[u8] = b"right";
const LIMITS: Limits = Limits {
    open: 8,
    open_from_one: 4,
    burst: 16,
    per_second: 8,
};

struct Right;

impl Admission for Right {
    type Grant = ();

    fn admit(&self, _key: &[u8; 32], credential: &[u8], _now: u64) -> Result<(), Refused> {
        if credential == CREDENTIAL {
            Ok(())
        } else {
            Err(Refused::new("wrong"))
        }
    }
}

/// Reads the bytes as instructions, and carries them out.
pub(crate) fn check(bytes: &[u8]) {
    let identity = Identity::from_seed(&[7; 32]).expect("a seed is a key");
    let mut now = Now::default();
    let from = "192.0.2.1:5000".parse().expect("an address");
    let server = Server::new(&identity, CREDENTIAL, Right).expect("a server");
    let mut server = server.with_limits(LIMITS);
    let mut client = Client::new(now, &identity, b"wrong", Right).expect("a client");
    let mut rest = bytes;
    // An instruction: what to do, then how long the datagram is that is made up or how far a real one is changed.
    while let [what, length, tail @ ..] = rest {
        let (made, tail) = tail.split_at(tail.len().min(usize::from(*length)));
        rest = tail;
        now.elapsed += Duration::from_millis(u64::from(*what >> 3));
        match what & 7 {
            0 => server.receive(now, from, made),
            1 => client.receive(now, made),
            2 | 3 => {
                if let Some(mut datagram) = client.poll_transmit() {
                    mix(&mut datagram, if what & 1 == 0 { &[] } else { made });
                    server.receive(now, from, &datagram);
                }
            }
            4 | 5 => {
                if let Some((_, mut datagram)) = server.poll_transmit() {
                    mix(&mut datagram, if what & 1 == 0 { &[] } else { made });
                    client.receive(now, &datagram);
                }
            }
            6 => client.tick(now),
            _ => server.tick(now),
        }
        assert!(server.known() <= 64);
    }
    while let Some(event) = server.poll_event() {
        assert!(
            !matches!(event, Event::Admitted { .. }),
            "a wrong credential"
        );
    }
}

/// Changes a datagram by these bytes, spread over it.
fn mix(datagram: &mut [u8], by: &[u8]) {
    for pair in by.chunks_exact(3) {
        let place = usize::from(pair[0]) << 8 | usize::from(pair[1]);
        if let Some(byte) = datagram.get_mut(place % 1400) {
            *byte ^= pair[2];
        }
    }
}
