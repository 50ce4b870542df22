//! Time that it takes to seal and to open a data packet: medians of several runs, in nanoseconds, and their spread.
//!
//! `cargo bench -p qsm-seal`

use std::hint::black_box;
use std::time::Instant;

use qsm_seal::{Cipher, ClusterKey, Opener, Sealer};
use qsm_wire::{
    ChannelId, Coverage, DataHeader, Header, Incarnation, NodeId, Origin, ViewNumber, seal,
};

/// Runs of each figure.
const RUNS: usize = 9;
/// Packets of a run.
const PACKETS: u64 = 20_000;

fn main() {
    println!("ns per packet: median (least to most) of {RUNS} runs of {PACKETS} packets");
    for cipher in Cipher::ALL {
        for bytes in [100, 1456, 8972] {
            let key = ClusterKey::generate(cipher).unwrap_or_else(|error| panic!("{error}"));
            let sealed = figure(|| sealing(&key, bytes));
            let opened = figure(|| opening(&key, bytes));
            println!("{cipher:<18} {bytes:>5} B: seal {sealed}, open {opened}");
        }
    }
}

fn figure(mut run: impl FnMut() -> f64) -> String {
    let mut times: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    let (least, median, most) = (times[0], times[RUNS / 2], times[RUNS - 1]);
    format!("{median:.0} ({least:.0} to {most:.0})")
}

fn packet(sequence: u64, bytes: usize) -> Vec<u8> {
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
    let mut packet = Vec::new();
    head.encode(&header, &mut packet);
    packet.resize(bytes, 0x5a);
    seal(&mut packet, Coverage::Head);
    packet
}

fn sealing(key: &ClusterKey, bytes: usize) -> f64 {
    let mut sealer = Sealer::new(key);
    let packet = packet(1, bytes);
    let mut sealed = Vec::with_capacity(bytes + 64);
    per_packet(|_| {
        sealed.clear();
        let result = sealer.seal(black_box(&packet), &mut sealed);
        black_box((&sealed, result.is_ok()));
    })
}

fn opening(key: &ClusterKey, bytes: usize) -> f64 {
    let (mut sealer, mut opener) = (Sealer::new(key), Opener::new(key));
    let mut sealed = Vec::new();
    if let Err(error) = sealer.seal(&packet(1, bytes), &mut sealed) {
        panic!("{error}");
    }
    let mut received = sealed.clone();
    per_packet(|_| {
        // As it would come from the kernel: a copy, whose time counts.
        received.copy_from_slice(&sealed);
        let result = opener.open(black_box(&mut received));
        assert!(result.is_ok());
    })
}

fn per_packet(mut each: impl FnMut(u64)) -> f64 {
    let begun = Instant::now();
    (0..PACKETS).for_each(&mut each);
    begun.elapsed().as_nanos() as f64 / PACKETS as f64
}
