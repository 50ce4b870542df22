//! Speed of making parities and restoring packets, on one core:
//! `cargo run --release -p qsm-parity --example speed`.

use std::time::{Duration, Instant};

use qsm_parity::{PACKETS_MAX, Restorer, add_row, subtract_row};

const PACKET_BYTES: usize = 1418;
/// Time for each figure.
const TIME: Duration = Duration::from_millis(300);

fn main() {
    let packets: Vec<Vec<u8>> = (0..PACKETS_MAX)
        .map(|index| {
            (0..PACKET_BYTES)
                .map(|at| (at * 31 + index * 7) as u8)
                .collect()
        })
        .collect();
    println!("parities  made: µs a block, GB/s of packets   restored: µs a block, GB/s of packets");
    for count in [1, 2, 4, 8] {
        let mut parities = vec![vec![0; PACKET_BYTES]; count];
        let made = time(|| make(&packets, &mut parities));
        let rows: Vec<usize> = (0..count).collect();
        let mut restored = vec![vec![0; PACKET_BYTES]; count];
        let mut sums = parities.clone();
        let back = time(|| {
            sums.clone_from(&parities);
            restore(&packets, &rows, &mut sums, &mut restored);
        });
        assert!(
            restored
                .iter()
                .zip(&packets)
                .all(|(back, packet)| back == packet)
        );
        println!("{count:>8}  {}   {}", figures(made), figures(back));
    }
}

fn make(packets: &[Vec<u8>], parities: &mut [Vec<u8>]) {
    for (row, parity) in parities.iter_mut().enumerate() {
        parity.fill(0);
        for (index, packet) in packets.iter().enumerate() {
            add_row(row, index, packet, parity);
        }
    }
}

/// The first packets are lost, as many as there are parities.
fn restore(packets: &[Vec<u8>], rows: &[usize], sums: &mut [Vec<u8>], restored: &mut [Vec<u8>]) {
    for (row, sum) in sums.iter_mut().enumerate() {
        for (index, packet) in packets.iter().enumerate().skip(rows.len()) {
            subtract_row(row, index, packet, sum);
        }
    }
    let restorer = Restorer::new(rows, rows).expect("so many exist");
    for (at, into) in restored.iter_mut().enumerate() {
        into.fill(0);
        restorer.restore(at, sums.iter().map(Vec::as_slice), into);
    }
}

/// Seconds that a call takes, the shortest of many runs.
fn time(mut call: impl FnMut()) -> f64 {
    let (begin, mut best) = (Instant::now(), f64::MAX);
    while begin.elapsed() < TIME {
        let run = Instant::now();
        (0..16).for_each(|_| call());
        best = best.min(run.elapsed().as_secs_f64() / 16.0);
    }
    best
}

fn figures(seconds: f64) -> String {
    let bytes = (PACKETS_MAX * PACKET_BYTES) as f64;
    format!("{:>21.2} {:>18.1}", seconds * 1e6, bytes / seconds / 1e9)
}
