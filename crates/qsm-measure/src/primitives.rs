//! Time that ciphers, digests and signatures take by themselves: what a protected run cannot be faster than.

use std::hint::black_box;
use std::time::{Duration, Instant};

use qsm::{Cipher, ClusterKey};
use qsm_console::failure::Failure;
use qsm_identity::NodeKey;
use qsm_origin::{SEAL_GROUP, Sealer as Signer, Verifier};
use qsm_seal::{Opener, Sealer};
use qsm_wire::{
    ChannelId, Chunk, Coverage, DataHeader, Header, Incarnation, NodeId, Origin, Part, StreamId,
    ViewNumber, seal,
};

/// Runs, of which the shortest counts: what else the machine does only adds to them.
const RUNS: usize = 25;
/// Packets of a run.
const PACKETS: u32 = 500;
/// Seals of a run.
const SEALS: u32 = 2;
/// Shortest packets that have room for a seal, bytes.
const SEALED_MIN: usize = 134;

/// Nanoseconds that one data packet takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Primitives {
    /// The cipher that seals and opens it.
    pub(crate) cipher: Cipher,
    /// Length of the packet, bytes.
    pub(crate) bytes: usize,
    /// To seal it.
    pub(crate) seal: f64,
    /// To open it.
    pub(crate) open: f64,
    /// To note it for a seal, with its share of the signature.
    pub(crate) sign: f64,
    /// To judge it, with its share of the seal.
    pub(crate) prove: f64,
}

impl Primitives {
    /// Measures them with this cipher, on one thread.
    ///
    /// # Errors
    /// The system has no random numbers, or the processor no instructions for the cipher.
    pub(crate) fn measure(cipher: Cipher, bytes: usize) -> Result<Self, Failure> {
        let failed = |error: &dyn std::fmt::Display| {
            Failure::failed(
                format!("no packet can be sealed: {error}"),
                "try again later, or another cipher",
            )
        };
        let key = ClusterKey::generate(cipher).map_err(|error| failed(&error))?;
        let (mut sealer, mut opener) = (Sealer::new(&key), Opener::new(&key));
        let plain = packet(bytes, 1);
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
        let (sign, prove) = proof(bytes).map_err(|error| failed(&error))?;
        Ok(Self {
            cipher,
            bytes,
            seal,
            open: (opened - copied).max(0.0),
            sign,
            prove,
        })
    }

    /// Seconds for a million messages, of so many packets each, at a sender and so many receivers; `sealed`: senders sign.
    pub(crate) fn seconds_per_million(
        &self,
        packets_per_message: f64,
        receivers: f64,
        sealed: bool,
    ) -> f64 {
        let (sign, prove) = if sealed {
            (self.sign, self.prove)
        } else {
            (0.0, 0.0)
        };
        packets_per_message * (self.seal + sign + receivers * (self.open + prove)) / 1e3
    }
}

/// Nanoseconds that a packet of this length takes its sender, and each receiver, where seals are as full as they may be.
fn proof(bytes: usize) -> Result<(f64, f64), Box<dyn std::error::Error>> {
    let key = NodeKey::generate()?;
    let (header, head) = heads(1);
    let stream = StreamId {
        origin: header.origin,
        channel: head.channel,
    };
    let most = Signer::new(stream, bytes.max(SEALED_MIN))?.packets_max();
    let packets: Vec<Vec<u8>> = (1..=most as u64)
        .map(|number| packet(bytes, number))
        .collect();
    let (_, head) = heads(most as u64 + 1);
    let sealed = || {
        let mut sealer = Signer::new(stream, bytes.max(SEALED_MIN))?;
        for packet in &packets {
            sealer.note(Duration::ZERO, black_box(packet))?;
        }
        sealer.seal(&key, &header, &head)
    };
    let content = sealed()?;
    let sign = least_of(SEALS, || {
        black_box(sealed().is_ok());
    });
    let mut seal = Vec::new();
    head.encode(&header, &mut seal);
    Chunk {
        group: SEAL_GROUP,
        message: 0,
        part: Part::Whole,
        content: &content,
    }
    .encode(&mut seal);
    let mut findings = Vec::new();
    let prove = least_of(SEALS, || {
        let mut verifier = Verifier::new(header.cluster, stream, key.public());
        findings.clear();
        for packet in packets.iter().chain([&seal]) {
            black_box(verifier.take(black_box(packet), &mut findings));
        }
    });
    let each = most as f64;
    Ok((sign / each, prove / each))
}

/// Nanoseconds of one call, in the shortest of several runs.
fn least(call: impl FnMut()) -> f64 {
    least_of(PACKETS, call)
}

fn least_of(calls: u32, mut call: impl FnMut()) -> f64 {
    let mut run = || {
        let start = Instant::now();
        for _ in 0..calls {
            call();
        }
        start.elapsed().as_nanos() as f64 / f64::from(calls)
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}

fn heads(sequence: u64) -> (Header, DataHeader) {
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
        sequence,
        view_age: 0,
    };
    (header, head)
}

fn packet(bytes: usize, sequence: u64) -> Vec<u8> {
    let (header, head) = heads(sequence);
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
        let [short, long] =
            [100, 60_000].map(|bytes| Primitives::measure(Cipher::default(), bytes).unwrap());
        assert!(
            short.seal > 0.0 && long.seal > short.seal,
            "{short:?} {long:?}"
        );
        assert!(long.open > short.open, "{short:?} {long:?}");
        assert!(
            long.sign > short.sign && short.prove > 0.0,
            "{short:?} {long:?}"
        );
        let one = Primitives {
            cipher: Cipher::default(),
            bytes: 1,
            seal: 300.0,
            open: 400.0,
            sign: 100.0,
            prove: 200.0,
        };
        assert!((one.seconds_per_million(0.5, 2.0, false) - 0.55).abs() < 1e-9);
        assert!((one.seconds_per_million(0.5, 2.0, true) - 0.8).abs() < 1e-9);
    }
}
