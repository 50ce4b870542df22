//! The copies alone: each message to a hundred sockets by one call of `groupcast`, and nothing else. No relay
//! that sends a datagram for each receiver can take less.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use groupcast::{Group, Message, Recipient, Sender};
use lab::Lab;
use rustix::time::{ClockId, clock_gettime};

use super::{RECEIVERS, paced, wait_until};
use crate::cluster::Failure;
use crate::sites::stream::Load;

/// Bytes of a datagram: a relay's pieces.
const SEGMENT: u16 = 1400;

/// Microseconds of CPU time of the sender for each message that came.
///
/// # Errors
/// Sockets, or the sender, fail; not all messages come.
pub(super) fn run(load: &Load) -> Result<f64, Failure> {
    let mut lab = Lab::new()?;
    let (near, far) = (lab.add_host()?, lab.add_host()?);
    let address = lab.host(far).address();
    let came = Arc::new(AtomicU64::new(0));
    let mut group = Group::new();
    for _ in 0..RECEIVERS {
        let socket = {
            let _inside = lab.enter(far)?;
            UdpSocket::bind(SocketAddr::from((address, 0)))?
        };
        group.add(&Recipient::new(socket.local_addr()?))?;
        let came = came.clone();
        // It ends with the process.
        thread::spawn(move || count(&socket, &came));
    }
    let _inside = lab.enter(near)?;
    let own = SocketAddr::from((lab.host(near).address(), 0));
    let mut sender = Sender::new(vec![UdpSocket::bind(own)?])?;
    let payload = vec![7; load.bytes];
    let message = Message::train(&payload, SEGMENT);
    let before = cpu_time();
    let sent = paced(load, || Ok(_ = sender.send_group(&message, &group, None)?))?;
    let used = cpu_time() - before;
    let bytes = sent * (RECEIVERS * load.bytes) as u64;
    wait_until(|| Ok(came.load(Ordering::Relaxed) >= bytes))?;
    Ok(used.as_secs_f64() * 1e6 / (sent * RECEIVERS as u64) as f64)
}

/// Counts bytes.
fn count(socket: &UdpSocket, came: &AtomicU64) {
    let mut datagram = [0; 1 << 16];
    while let Ok(bytes) = socket.recv(&mut datagram) {
        came.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
