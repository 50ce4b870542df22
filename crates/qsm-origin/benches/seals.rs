//! Time that digests, seals and their proofs take for each packet, beside the bare hash: the shortest of several runs, in
//! nanoseconds, since what else the machine does only adds to them.
//!
//! `cargo bench -p qsm-origin`

use core::time::Duration;
use std::hint::black_box;
use std::time::Instant;

use qsm_identity::NodeKey;
use qsm_origin::{Digest, SEAL_GROUP, Seal, Sealer, SealerError, Verifier};
use qsm_wire::{ChannelId, Chunk, DataHeader, Header, Part, StreamId, ViewNumber};

/// Runs of each figure.
const RUNS: usize = 60;

fn main() {
    println!("ns for a packet: the shortest of {RUNS} runs");
    let key = NodeKey::generate().unwrap_or_else(|error| panic!("{error}"));
    for bytes in [100, 1054, 1456, 8119, 8956] {
        let packet = packet(1, bytes);
        let bare = least(1000, || blake3::hash(black_box(&packet)));
        let alone = least(1000, || Digest::of(black_box(&packet)));
        println!("{bytes:>5} B: digest {alone:.0} alone, BLAKE3 {bare:.0}");
        if bytes > 134 {
            seals(&key, bytes).unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

fn seals(key: &NodeKey, bytes: usize) -> Result<(), SealerError> {
    let header = Header::default();
    let stream = StreamId {
        origin: header.origin,
        channel: ChannelId(3),
    };
    let most = Sealer::new(stream, bytes)?.packets_max();
    let packets: Vec<Vec<u8>> = (1..=most as u64).map(|at| packet(at, bytes)).collect();
    let head = head(most as u64 + 1);
    let sealed = || {
        let mut sealer = Sealer::new(stream, bytes)?;
        for packet in &packets {
            sealer.note(Duration::ZERO, black_box(packet))?;
        }
        sealer.seal(key, &header, &head)
    };
    let content = sealed()?;
    let sign = least(10, sealed);
    let mut seal = Vec::new();
    head.encode(&header, &mut seal);
    Chunk {
        group: SEAL_GROUP,
        message: 0,
        part: Part::Whole,
        content: &content,
    }
    .encode(&mut seal);
    let public = key.public();
    let mut findings = Vec::new();
    let prove = least(10, || {
        let mut verifier = Verifier::new(header.cluster, stream, public);
        findings.clear();
        for packet in packets.iter().chain([&seal]) {
            black_box(verifier.take(black_box(packet), &mut findings));
        }
    });
    let signature = least(50, || key.sign(black_box(&content)));
    let proof = least(50, || {
        let proven = Seal::read(black_box(&seal)).map(|seal| seal.map(|seal| seal.prove(&public)));
        assert!(matches!(proven, Ok(Some(Ok(_)))));
    });
    let each = |nanoseconds: f64| nanoseconds / most as f64;
    println!(
        "         {most} under a seal: {:.0} to sign, {:.0} of them the signature; {:.0} to prove, {:.0} of them the seal",
        each(sign),
        each(signature),
        each(prove),
        each(proof)
    );
    Ok(())
}

fn head(sequence: u64) -> DataHeader {
    DataHeader {
        channel: ChannelId(3),
        view: ViewNumber(1),
        sequence,
        view_age: 0,
    }
}

fn packet(sequence: u64, bytes: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    head(sequence).encode(&Header::default(), &mut packet);
    packet.resize(bytes, 0x5a);
    packet
}

/// Nanoseconds of one call, in the shortest of several runs.
fn least<T>(times: u32, mut each: impl FnMut() -> T) -> f64 {
    let mut run = || {
        let begun = Instant::now();
        (0..times).for_each(|_| drop(black_box(each())));
        begun.elapsed().as_nanos() as f64 / f64::from(times)
    };
    (0..RUNS).map(|_| run()).fold(f64::INFINITY, f64::min)
}
