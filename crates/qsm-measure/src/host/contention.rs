use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use qsm_console::stop::Stop;
use rustix::net::sockopt::{
    set_ip_add_membership, set_ip_multicast_if, set_ip_multicast_loop, set_socket_reuseaddr,
};
use rustix::net::{AddressFamily, SocketType, bind, socket};

use crate::latencies::Latencies;

/// Of a block for tests within one organisation (RFC 2365), which nothing else uses over loopback.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 255, 78, 79);
/// Time after which a receiver that hears nothing looks whether it is over.
const LOOK: Duration = Duration::from_millis(100);
/// Ends the receivers.
const LAST: u64 = u64::MAX;

/// Measures how long after it is sent so many receivers of a packet have read it, each on a thread of its own.
///
/// # Errors
/// Multicast cannot be used over loopback.
pub(super) fn measure(
    receivers: u32,
    interval: Duration,
    time: Duration,
    stop: &Stop,
) -> io::Result<Latencies> {
    let first = receiver(0)?;
    let port = first.local_addr()?.port();
    let mut sockets = vec![first];
    for _ in 1..receivers {
        sockets.push(receiver(port)?);
    }
    let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    set_ip_multicast_if(&sender, &Ipv4Addr::LOCALHOST)?;
    set_ip_multicast_loop(&sender, true)?;
    let begun = Instant::now();
    let mut latencies = Latencies::new();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let over = &over;
        let read = |socket| scope.spawn(move || read(&socket, begun, over));
        let readers: Vec<_> = sockets.into_iter().map(read).collect();
        let sent = send(&sender, port, begun, interval, begun + time, stop);
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            if let Ok(read) = reader.join() {
                latencies.merge(&read);
            }
        }
        sent
    })?;
    Ok(latencies)
}

/// A socket that several on this host may have, for packets to the group.
fn receiver(port: u16) -> io::Result<UdpSocket> {
    let receiver = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    set_socket_reuseaddr(&receiver, true)?;
    bind(&receiver, &SocketAddrV4::new(GROUP, port))?;
    set_ip_add_membership(&receiver, &GROUP, &Ipv4Addr::LOCALHOST)?;
    let receiver = UdpSocket::from(receiver);
    receiver.set_read_timeout(Some(LOOK))?;
    Ok(receiver)
}

fn send(
    sender: &UdpSocket,
    port: u16,
    begun: Instant,
    interval: Duration,
    end: Instant,
    stop: &Stop,
) -> io::Result<()> {
    let to = SocketAddr::from((GROUP, port));
    let mut due = begun + interval;
    while due < end && !stop.is_asked() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        sender.send_to(&nanos(begun).to_be_bytes(), to)?;
        due += interval;
    }
    sender.send_to(&LAST.to_be_bytes(), to)?;
    Ok(())
}

/// Reads until the last packet, or until it is over and nothing comes.
fn read(socket: &UdpSocket, begun: Instant, over: &AtomicBool) -> Latencies {
    let mut latencies = Latencies::new();
    let mut bytes = [0; 8];
    loop {
        match socket.recv(&mut bytes) {
            Ok(8) => {}
            // Nobody else knows the port; what is not of the sender is passed over.
            Ok(_) => continue,
            Err(_) if over.load(Ordering::Relaxed) => return latencies,
            Err(_) => continue,
        }
        let sent = u64::from_be_bytes(bytes);
        if sent == LAST {
            return latencies;
        }
        latencies.record(nanos(begun).saturating_sub(sent));
    }
}

fn nanos(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_nanos()).unwrap_or(LAST - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_receivers_read_all_packets() {
        let (interval, time) = (Duration::from_millis(5), Duration::from_millis(102));
        let latencies = measure(3, interval, time, &Stop::default()).unwrap();
        assert_eq!(latencies.count(), 3 * 20);
        assert!(latencies.max() > Some(0));
    }
}
