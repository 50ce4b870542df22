//! Time that ciphers take by themselves: what a protected run cannot be faster than.

use std::hint::black_box;
use std::time::Instant;

use qsm::{Cipher, ClusterKey};
use qsm_console::failure::Failure;
use qsm_seal::{Opener, Sealer};
use qsm_wire::{
    ChannelId, Coverage, DataHeader, Header, Incarnation, NodeId, Origin, ViewNumber, seal,
};

/// Runs, of which the shortest counts: what else the machine does only adds to them.
const RUNS: usize = 25;
/// Packets of a run.
const PACKETS: u32 = 500;

/// Nanoseconds that one data packet takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Primitives {
    /// Length of the packet, bytes.
    pub(crate) bytes: usize,
    /// To seal it.
    pub(crate) seal: f64,
    /// To open it.
    pub(crate) open: f64,
}

impl Primitives {
    /// Measures them with the default cipher, on one thread.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn measure(bytes: usize) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(
                format!("no packet can be sealed: {error}"),
                "try again later",
            )
        };
        let key = ClusterKey::generate(Cipher::default()).map_err(|error| failed(&error))?;
        let (mut sealer, mut opener) = (Sealer::new(&key), Opener::new(&key));
        let plain = packet(bytes);
        let mut sealed = Vec::with_capacity(bytes + Sealer::growth(&plain));
        let seal = least(|| {
            sealed.clear();
            black_box(sealer.seal(black_box(&plain), &mut sealed).is_ok());
        });
        sealed.clear();
        let again = sealer.seal(&plain, &mut sealed);
        again.map_err(|error| failed(&error))?;
        let mut received = sealed.clone();
        let copied = least(|| received.copy_from_slice(black_box(&sealed)));
        let opened = least(|| {
            received.copy_from_slice(black_box(&sealed));
            black_box(opener.open(black_box(&mut received)).is_ok());
        });
        Ok(Self {
            bytes,
            seal,
            open: (opened - copied).max(0.0),
        })
    }

    /// Seconds for a million messages, of so many packets each, at a sender and so many receivers.
    pub(crate) fn seconds_per_million(&self, packets_per_message: f64, receivers: f64) -> f64 {
        packets_per_message * (self.seal + receivers * self.open) / 1e3
    }
}

/// Nanoseconds of one call, in the shortest of several runs.
fn least(mut call: impl FnMut()) -> f64 {
    let mut run = || {
        let start = Instant::now();
        for _ in 0..PACKETS {
            call();
        }
        start.elapsed().as_nanos() as f64 / f64::from(PACKETS)
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn packet(bytes: usize) -> Vec<u8> {
    let header = Header {
        cluster: 1,
        origin: Origin {
            node: NodeId(7),
            incarnation: Incarnation(1),
        },
        ..Header::default()
    };
    let head = DataHeader {
        channel: ChannelId(3),
        view: ViewNumber(1),
        sequence: 1,
        view_age: 0,
    };
    let mut packet = Vec::new();
    head.encode(&header, &mut packet);
    packet.resize(bytes.max(packet.len()), 0x5a);
    seal(&mut packet, Coverage::Head);
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_is_longer_takes_longer() {
        let [short, long] = [100, 60_000].map(|bytes| Primitives::measure(bytes).unwrap());
        assert!(
            short.seal > 0.0 && long.seal > short.seal,
            "{short:?} {long:?}"
        );
        assert!(long.open > short.open, "{short:?} {long:?}");
        let one = Primitives {
            bytes: 1,
            seal: 300.0,
            open: 400.0,
        };
        assert!((one.seconds_per_million(0.5, 2.0) - 0.55).abs() < 1e-9);
    }
}
