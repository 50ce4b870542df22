//! What connected sockets must not change: who is heard, and who is answered. No privileges needed,
//! but for the last test.

use std::net::{SocketAddr, UdpSocket};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use groupcast::wire::{Namespace, Wire};
use groupcast::{BackEnd, Errno, Error, Message, Recipient, Sender};

const RECEIVERS: u16 = 16;
/// Calls until every recipient has its socket.
const CALLS: usize = 4;
/// How long a datagram may take within this machine.
const ARRIVAL_MAX: Duration = Duration::from_secs(20);

/// A sender of this address; `None`, and says so, without io_uring.
fn sender(local: &str) -> Option<Sender> {
    let socket = UdpSocket::bind(local).unwrap();
    socket.set_read_timeout(Some(ARRIVAL_MAX)).unwrap();
    match Sender::with(vec![socket], BackEnd::Connected) {
        Ok(sender) => Some(sender),
        Err(Error::Unavailable(reason)) => {
            lab::pass_over(format_args!("connected sockets: {reason}"));
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn receivers(addresses: impl Iterator<Item = SocketAddr>) -> Vec<UdpSocket> {
    let bound = addresses.map(|address| {
        let socket = UdpSocket::bind(address).unwrap();
        socket.set_read_timeout(Some(ARRIVAL_MAX)).unwrap();
        socket
    });
    bound.collect()
}

/// Sends to everybody, and checks what comes; where it came from.
fn deliver(sender: &mut Sender, receivers: &[UdpSocket]) -> SocketAddr {
    let to: Vec<_> = receivers.iter().map(|r| r.local_addr().unwrap()).collect();
    let own: Vec<_> = to.iter().map(|to| to.to_string()).collect();
    let list = to.iter().zip(&own);
    let recipients: Vec<_> = list
        .map(|(to, own)| Recipient::new(*to).prepend(own.as_bytes()))
        .collect();
    let sent = sender.send(&Message::new(b" heard"), &recipients, None);
    assert_eq!(sent.unwrap(), receivers.len());
    let heard = receivers.iter().zip(&own).map(|(receiver, own)| {
        let mut buffer = [0; 100];
        let (len, from) = receiver.recv_from(&mut buffer).unwrap();
        assert_eq!(buffer[..len], *format!("{own} heard").as_bytes());
        from
    });
    let mut heard: Vec<_> = heard.collect();
    heard.dedup();
    assert_eq!(heard.len(), 1, "all hear from the same address");
    heard[0]
}

/// One test at a time: a process that another one starts has this one's sockets open until it has
/// begun its own program, and their ports are not free before.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn answers_and_refusals_come_to_the_callers_socket() {
    let _alone = alone();
    for (any, own) in [("0.0.0.0:0", "127.0.0.1:0"), ("[::]:0", "[::1]:0")] {
        let Some(mut sender) = sender(any) else {
            return;
        };
        let port = sender.socket(0).unwrap().local_addr().unwrap().port();
        let mut receivers = receivers((0..RECEIVERS).map(|_| own.parse().unwrap()));
        for _ in 0..CALLS {
            assert_eq!(deliver(&mut sender, &receivers).port(), port);
        }
        let stats = sender.stats();
        assert!(stats.connected >= u64::from(RECEIVERS), "{stats:?}");
        let to = SocketAddr::new(receivers[0].local_addr().unwrap().ip(), port);
        for receiver in &receivers {
            receiver.send_to(b"answer", to).unwrap();
            let (len, from) = sender.socket(0).unwrap().recv_from(&mut [0; 100]).unwrap();
            assert_eq!((len, from), (6, receiver.local_addr().unwrap()));
        }
        let gone = receivers.pop().unwrap().local_addr().unwrap();
        let left = receivers.iter().map(|r| r.local_addr().unwrap());
        let recipients: Vec<_> = left.chain([gone]).map(Recipient::new).collect();
        let mut errors = vec![Errno::SENT; recipients.len()];
        let start = Instant::now();
        // Told by the next call after the kernel's coarse clock has ticked.
        while errors[recipients.len() - 1] != Errno::REFUSED {
            assert!(start.elapsed() < ARRIVAL_MAX, "no refusal came");
            let sent = sender.send(&Message::new(b"x"), &recipients, Some(&mut errors));
            assert!(sent.unwrap() >= receivers.len(), "{errors:?}");
        }
    }
}

#[test]
fn the_port_is_the_callers_alone_and_free_afterwards() {
    let _alone = alone();
    let Some(mut sender) = sender("0.0.0.0:0") else {
        return;
    };
    let receivers = receivers((0..RECEIVERS).map(|_| "127.0.0.1:0".parse().unwrap()));
    for _ in 0..CALLS {
        deliver(&mut sender, &receivers);
    }
    assert!(sender.stats().connected > 0);
    let own = sender.socket(0).unwrap().local_addr().unwrap();
    let error = UdpSocket::bind(own).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
    drop(sender);
    UdpSocket::bind(own).unwrap();
}

#[test]
fn a_socket_bound_to_an_address_sends_from_there() {
    let _alone = alone();
    let Some(mut sender) = sender("127.0.0.9:0") else {
        return;
    };
    let own = sender.socket(0).unwrap().local_addr().unwrap();
    let receivers = receivers((0..RECEIVERS).map(|_| "127.0.0.1:0".parse().unwrap()));
    for _ in 0..CALLS {
        assert_eq!(deliver(&mut sender, &receivers), own);
    }
    assert_eq!(sender.stats().connected, 0);
}

#[test]
fn a_change_of_routes_changes_the_source_address() {
    let _alone = alone();
    if let Err(reason) = Namespace::new() {
        return lab::skip(reason);
    }
    let wire = Wire::new(1500).unwrap();
    wire.near.ip("addr add 10.79.7.7/16 dev wire0\n").unwrap();
    let addresses = (1..=RECEIVERS).map(|n| SocketAddr::new(Wire::receiver_v4(n), 9000));
    let receivers = wire.far.run(|| receivers(addresses));
    wire.near.run(|| {
        let Some(mut sender) = sender("0.0.0.0:7000") else {
            return;
        };
        let routes = [
            (
                "10.79.0.1:7000",
                "route replace 10.81.0.0/16 via 10.79.0.2\n",
            ),
            (
                "10.79.7.7:7000",
                "route replace 10.81.0.0/16 via 10.79.0.2 src 10.79.7.7\n",
            ),
            (
                "10.79.0.1:7000",
                "route replace 10.81.0.0/16 via 10.79.0.2 src 10.79.0.1\n",
            ),
        ];
        for (from, route) in routes {
            wire.near.ip(route).unwrap();
            let before = sender.stats().connected;
            for _ in 0..CALLS {
                let heard = deliver(&mut sender, &receivers);
                assert_eq!(heard, from.parse().unwrap());
            }
            assert!(sender.stats().connected > before);
        }
    });
}
