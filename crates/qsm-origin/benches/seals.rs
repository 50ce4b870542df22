//! Time that digests, seals and their proofs take for each packet, beside the bare primitives: medians of several runs,
//! in nanoseconds, and their spread.
//!
//! `cargo bench -p qsm-origin`

use core::time::Duration;
use std::hint::black_box;
use std::time::Instant;

use aws_lc_rs::digest::{SHA256, digest};
use qsm_identity::NodeKey;
use qsm_origin::{Digest, SEAL_GROUP, Seal, Sealer, SealerError};
use qsm_wire::{ChannelId, Chunk, DataHeader, Header, Part, StreamId, ViewNumber};

/// Runs of each figure.
const RUNS: usize = 9;

fn main() {
    println!("ns: median (least to most) of {RUNS} runs");
    for bytes in [100, 1456, 8972] {
        let packet = packet(1, bytes);
        let bare = figure(10_000, || digest(&SHA256, black_box(&packet)));
        let whole = figure(10_000, || Digest::of(black_box(&packet)));
        println!("{bytes:>5} B: digest {whole}, SHA-256 alone {bare}");
    }
    let key = NodeKey::generate().unwrap_or_else(|error| panic!("{error}"));
    for bytes in [1456, 8972] {
        seals(&key, bytes).unwrap_or_else(|error| panic!("{error}"));
    }
}

fn seals(key: &NodeKey, bytes: usize) -> Result<(), SealerError> {
    let header = Header::default();
    let stream = StreamId {
        origin: header.origin,
        channel: ChannelId(3),
    };
    let mut sealer = Sealer::new(stream, bytes)?;
    let mut sequence = 1;
    while !sealer.is_full() {
        sealer.note(Duration::ZERO, &packet(sequence, bytes))?;
        sequence += 1;
    }
    let content = sealer.seal(key, &header, &head(sequence))?;
    let mut seal = Vec::new();
    head(sequence).encode(&header, &mut seal);
    Chunk {
        group: SEAL_GROUP,
        message: 0,
        part: Part::Whole,
        content: &content,
    }
    .encode(&mut seal);
    let packets = sealer.packets_max();
    let public = key.public();
    let prove = figure(200, || {
        let proven = Seal::read(black_box(&seal)).map(|seal| seal.map(|seal| seal.prove(&public)));
        assert!(matches!(proven, Ok(Some(Ok(_)))));
    });
    let sign = figure(200, || key.sign(black_box(&content)));
    println!("a seal of {packets} packets of {bytes} B: to sign {sign}, to read and prove {prove}");
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

fn figure<T>(times: u32, mut each: impl FnMut() -> T) -> String {
    let mut run = || {
        let begun = Instant::now();
        (0..times).for_each(|_| drop(black_box(each())));
        begun.elapsed().as_nanos() / u128::from(times)
    };
    let mut figures: Vec<u128> = (0..RUNS).map(|_| run()).collect();
    figures.sort_unstable();
    let (least, median, most) = (figures[0], figures[RUNS / 2], figures[RUNS - 1]);
    format!("{median} ({least} to {most})")
}
