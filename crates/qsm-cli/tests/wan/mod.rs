//! A long link between two hosts of a lab: a forwarder of datagrams on a host between them, with delay,
//! loss, a rate and a queue. For the parent it is a translator of addresses, whose port may change.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use lab::{HostId, Lab};

/// How soon a thread notices that the link is gone.
const LOOK: Duration = Duration::from_millis(20);
/// Bytes of the headers of IP and UDP.
const OVERHEAD_BYTES: u64 = 28;

/// Treatment of each direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) delay: Duration,
    /// Each so-manieth datagram is lost.
    pub(crate) lost_each: u64,
    /// Bytes a second.
    pub(crate) rate: u64,
    /// Bytes that wait at most.
    pub(crate) queue: u64,
}

/// What the threads of a link share.
struct Ends {
    stop: AtomicBool,
    near: UdpSocket,
    /// Made anew when the port changes.
    far: Mutex<Arc<UdpSocket>>,
    parent: SocketAddr,
    child: Mutex<Option<SocketAddr>>,
    host: Ipv4Addr,
}

/// A link that is there until this is dropped.
pub(crate) struct Wan {
    ends: Arc<Ends>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Wan {
    fn drop(&mut self) {
        self.ends.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            drop(thread.join());
        }
    }
}

impl Wan {
    /// A link on a host: a child reaches it at this port, and by it the parent.
    pub(crate) fn new(lab: &Lab, on: HostId, port: u16, parent: SocketAddr, shape: Shape) -> Self {
        let _inside = lab.enter(on).unwrap();
        let host = lab.host(on).address();
        let near = UdpSocket::bind((host, port)).unwrap();
        near.set_read_timeout(Some(LOOK)).unwrap();
        let ends = Arc::new(Ends {
            stop: AtomicBool::new(false),
            near,
            far: Mutex::new(Arc::new(any_port(host))),
            parent,
            child: Mutex::new(None),
            host,
        });
        let mut threads = Vec::new();
        for upward in [true, false] {
            let (put, late) = channel();
            let reader = Arc::clone(&ends);
            threads.push(thread::spawn(move || read(&reader, upward, shape, &put)));
            let sender = Arc::clone(&ends);
            threads.push(thread::spawn(move || send(&sender, upward, &late)));
        }
        Self { ends, threads }
    }

    /// The translator forgets the child, and gives it another port.
    pub(crate) fn change_port(&self, lab: &Lab, on: HostId) {
        let _inside = lab.enter(on).unwrap();
        let other = Arc::new(any_port(self.ends.host));
        *self.ends.far.lock().unwrap() = other;
    }
}

fn any_port(host: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((host, 0)).unwrap();
    socket.set_read_timeout(Some(LOOK)).unwrap();
    socket
}

/// Takes datagrams of one direction, and says when they have passed.
fn read(ends: &Ends, upward: bool, shape: Shape, put: &Sender<(Instant, Vec<u8>)>) {
    let (mut buffer, mut count, mut free) = (vec![0; 65_536], 0, Instant::now());
    while !ends.stop.load(Ordering::Relaxed) {
        let far = Arc::clone(&ends.far.lock().unwrap());
        let socket = if upward { &ends.near } else { &far };
        let Ok((length, from)) = socket.recv_from(&mut buffer) else {
            continue;
        };
        if upward {
            *ends.child.lock().unwrap() = Some(from);
        }
        count += 1;
        let now = Instant::now();
        let bytes = length as u64 + OVERHEAD_BYTES;
        free = free.max(now);
        let waits = (free - now).as_nanos() * u128::from(shape.rate) / 1_000_000_000;
        if count % shape.lost_each == 0 || waits + u128::from(bytes) > u128::from(shape.queue) {
            continue;
        }
        free += Duration::from_nanos(bytes * 1_000_000_000 / shape.rate);
        if put
            .send((free + shape.delay, buffer[..length].to_vec()))
            .is_err()
        {
            return;
        }
    }
}

/// Sends what has passed, in its time.
fn send(ends: &Ends, upward: bool, late: &Receiver<(Instant, Vec<u8>)>) {
    while let Ok((at, bytes)) = late.recv() {
        thread::sleep(at.saturating_duration_since(Instant::now()));
        let far = Arc::clone(&ends.far.lock().unwrap());
        let child = *ends.child.lock().unwrap();
        let sent = match (upward, child) {
            (true, _) => far.send_to(&bytes, ends.parent),
            (false, Some(child)) => ends.near.send_to(&bytes, child),
            (false, None) => continue,
        };
        // As in a network, what does not go out is lost.
        drop(sent);
    }
}
