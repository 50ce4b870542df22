//! The network between two hosts: its rate, and what plain TCP carries over it.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use lab::{HostId, Lab};

use crate::cluster::Failure;

/// Bytes of a write, as much as a chunk of a snapshot has.
const WRITE: usize = 128 * 1024;

/// Limits what a host sends to so many bits in a second.
///
/// # Errors
/// `tc` is missing, or the kernel has no token buckets.
pub fn limit(lab: &Lab, host: HostId, bits: u64) -> Result<(), Failure> {
    let mut command = lab.command(host, "tc");
    let rate = format!("{bits}bit");
    let words = [
        "qdisc",
        "replace",
        "dev",
        lab.host(host).interface(),
        "root",
        "tbf",
    ];
    command
        .args(words)
        .args(["rate", &rate, "burst", "256kb", "latency", "50ms"]);
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let told = String::from_utf8_lossy(&output.stderr);
    let told = told.trim();
    Err(format!(
        "tc cannot limit a host's rate ({told}); install iproute2, and a kernel with sch_tbf"
    )
    .into())
}

/// Bytes a second that TCP carries from one host of a lab to another one in this time, or over
/// loopback.
///
/// # Errors
/// There is no connection.
pub fn tcp_rate(lab: Option<(&Lab, [HostId; 2])>, lasts: Duration) -> Result<f64, Failure> {
    let address = lab.map_or(Ipv4Addr::LOCALHOST, |(lab, [_, to])| lab.host(to).address());
    let listener = {
        let _inside = lab.map(|(lab, [_, to])| lab.enter(to)).transpose()?;
        TcpListener::bind(SocketAddr::from((address, 0)))?
    };
    let to = SocketAddr::new(IpAddr::V4(address), listener.local_addr()?.port());
    let reader = thread::spawn(move || listener.accept().map(|(stream, _)| drain(stream)));
    let stream = {
        let _inside = lab.map(|(lab, [from, _])| lab.enter(from)).transpose()?;
        TcpStream::connect(to)?
    };
    fill(stream, lasts)?;
    let (bytes, time) = reader.join().map_err(|_| "the reader panicked")??;
    Ok(bytes as f64 / time.as_secs_f64())
}

fn fill(mut stream: TcpStream, lasts: Duration) -> Result<(), Failure> {
    let (bytes, until) = (vec![0x5a; WRITE], Instant::now() + lasts);
    while Instant::now() < until {
        stream.write_all(&bytes)?;
    }
    Ok(())
}

/// Reads to the end; bytes, and the time that they took.
fn drain(mut stream: TcpStream) -> (u64, Duration) {
    let (mut room, mut bytes, began) = (vec![0; WRITE], 0, Instant::now());
    while let Ok(read @ 1..) = stream.read(&mut room) {
        bytes += read as u64;
    }
    (bytes, began.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_carries_something_over_loopback() {
        assert!(tcp_rate(None, Duration::from_millis(20)).unwrap() > 0.0);
    }
}
