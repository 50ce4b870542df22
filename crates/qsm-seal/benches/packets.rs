//! Time that it takes to seal and to open a data packet, and a packet that is none for all, for one other member
//! by the key of the pair, and for all with a signature: medians of several runs, in nanoseconds, and their spread.
//!
//! `cargo bench -p qsm-seal`

use std::hint::black_box;
use std::time::{Duration, Instant};

use qsm_identity::NodeKey;
use qsm_seal::{Cipher, ClusterKey, Epoch, EpochOrder, Epochs, Opener, PairKey, PairPeer, Sealer};
use qsm_wire::{
    ChannelId, Coverage, DataHeader, Header, Incarnation, Kind, NodeId, Origin, ViewNumber, seal,
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
        let mut members = Members::new(cipher);
        let all = figure(|| members.by_epoch());
        let pair = figure(|| members.by_pair());
        let first = figure(|| members.first_contact());
        println!(
            "{cipher:<18}   100 B of control: seal for all {all}, for one {pair}; first {first}"
        );
        let signed = figure(|| members.sign());
        let proven = figure(|| members.prove());
        println!("{cipher:<18}   100 B of control, signed: seal {signed}, open {proven}");
    }
}

/// A member that speaks to one other.
struct Members {
    own: PairKey,
    other: PairPeer,
    key: NodeKey,
    epochs: Epochs,
    packet: Vec<u8>,
    sealed: Vec<u8>,
}

impl Members {
    fn new(cipher: Cipher) -> Self {
        let key = ClusterKey::generate(cipher).unwrap_or_else(|error| panic!("{error}"));
        let pair_key = |node| PairKey::generate(node).unwrap_or_else(|error| panic!("{error}"));
        let (node, epoch) = (NodeId(8), Epoch(1));
        let public = pair_key(node).public();
        let mut epochs = Epochs::new();
        epochs.take(Duration::ZERO, EpochOrder::Offer { epoch, key });
        epochs.take(Duration::ZERO, EpochOrder::Activate { epoch });
        let mut packet = Vec::new();
        header().encode(Kind::Pull, &mut packet);
        packet.resize(100, 0x5a);
        Self {
            own: pair_key(NodeId(7)),
            other: PairPeer { node, public },
            key: NodeKey::generate().unwrap_or_else(|error| panic!("{error}")),
            epochs,
            packet,
            sealed: Vec::with_capacity(200),
        }
    }

    fn by_epoch(&mut self) -> f64 {
        per_packet(|_| {
            self.sealed.clear();
            let result = self.epochs.seal(black_box(&self.packet), &mut self.sealed);
            black_box((&self.sealed, result.is_ok()));
        })
    }

    fn seal_to(&mut self, other: &PairPeer) {
        self.sealed.clear();
        let packet = black_box(&self.packet);
        let sealed = &mut self.sealed;
        let result = self.epochs.seal_to(&self.own, other, packet, sealed);
        black_box((&self.sealed, result.is_ok()));
    }

    fn by_pair(&mut self) -> f64 {
        let other = self.other;
        per_packet(|_| self.seal_to(&other))
    }

    fn sign(&mut self) -> f64 {
        per_some(|_| {
            self.sealed.clear();
            let packet = black_box(&self.packet);
            let sealed = &mut self.sealed;
            let result = self.epochs.seal_signed(&self.key, packet, sealed);
            black_box((&self.sealed, result.is_ok()));
        })
    }

    /// Opens signed packets and checks their signatures.
    fn prove(&mut self) -> f64 {
        let mut packets = Vec::new();
        for _ in 0..SOME {
            let mut sealed = Vec::new();
            let result = self
                .epochs
                .seal_signed(&self.key, &self.packet, &mut sealed);
            result.unwrap_or_else(|error| panic!("{error}"));
            packets.push(sealed);
        }
        let maker = self.key.public();
        per_some(|at| {
            let packet = black_box(&mut packets[at]);
            let opened = self.epochs.open_signed(packet);
            let opened = opened.unwrap_or_else(|error| panic!("{error}"));
            let length = self.epochs.prove(&opened, &maker, packet);
            black_box(length.unwrap_or_else(|error| panic!("{error}")));
        })
    }

    /// The first packet to each of many.
    fn first_contact(&mut self) -> f64 {
        const OTHERS: u32 = 1000;
        self.other.node.0 += u64::from(OTHERS);
        let begun = Instant::now();
        for at in 0..OTHERS {
            let mut other = self.other;
            other.node.0 += u64::from(at);
            self.seal_to(&other);
        }
        begun.elapsed().as_nanos() as f64 / f64::from(OTHERS)
    }
}

/// Packets of a run that are signed.
const SOME: usize = 2000;

/// Nanoseconds for each of some.
fn per_some(mut one: impl FnMut(usize)) -> f64 {
    let begun = Instant::now();
    for at in 0..SOME {
        one(at);
    }
    begun.elapsed().as_nanos() as f64 / SOME as f64
}

fn figure(mut run: impl FnMut() -> f64) -> String {
    let mut times: Vec<f64> = (0..RUNS).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    let (least, median, most) = (times[0], times[RUNS / 2], times[RUNS - 1]);
    format!("{median:.0} ({least:.0} to {most:.0})")
}

fn header() -> Header {
    Header {
        cluster: 1,
        origin: Origin {
            node: NodeId(7),
            incarnation: Incarnation(1),
        },
        ..Header::default()
    }
}

fn packet(sequence: u64, bytes: usize) -> Vec<u8> {
    let head = DataHeader {
        channel: ChannelId(3),
        view: ViewNumber(1),
        sequence,
        view_age: 0,
    };
    let mut packet = Vec::new();
    head.encode(&header(), &mut packet);
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
