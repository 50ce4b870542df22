//! What is counted.

use std::error::Error;
use std::hint::black_box;

use qsm_seal::{Cipher, ClusterKey, Opener, Sealer};
use qsm_wire::{
    Body, ChannelId, Chunk, Coverage, DataHeader, GroupId, Header, Packet, Part, TAG_BYTES,
    ViewNumber,
};

use crate::lan::Lan;

/// A path through the protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Where it begins: whatever is executed until these functions return is counted, but for those of them that
    /// another of them calls.
    pub(crate) functions: &'static [&'static str],
    /// Messages of the shorter run and of the longer.
    pub(crate) messages: (u64, u64),
    work: Work,
}

#[derive(Debug, Clone, Copy)]
enum Work {
    /// A cluster of so many members that is sent messages of that length; what is counted.
    Traffic(u64, usize, Unit),
    /// Packets full of messages of that length.
    Decode(usize),
    /// Data packets of that length, sealed.
    Seal(Cipher, usize),
    /// The same, opened.
    Open(Cipher, usize),
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Message,
    Packet,
    Token,
}

const SEND: &[&str] = &["step_publish", "step_transmit"];
/// The cipher itself is left out: which instructions its library takes depends on the processor (AES-NI, VAES, none),
/// and callgrind knows not all of them.
const SEAL: &[&str] = &["step_seal", "EVP_AEAD_CTX_seal_scatter"];
const OPEN: &[&str] = &["step_open", "EVP_AEAD_CTX_open_gather"];
const AEGIS_SEAL: &[&str] = &["step_seal", "aegis128x2_encrypt_detached"];
const AEGIS_OPEN: &[&str] = &["step_open", "aegis128x2_decrypt_detached"];
const GCM: Cipher = Cipher::Aes256Gcm;
const AEGIS: Cipher = Cipher::Aegis128X2;
const MESSAGES: (u64, u64) = (5_000, 15_000);

pub(crate) const SUBJECTS: [Subject; 17] = [
    Subject {
        name: "send a message of 100 bytes",
        functions: SEND,
        messages: MESSAGES,
        work: Work::Traffic(3, 100, Unit::Message),
    },
    Subject {
        name: "send a message of 1000 bytes",
        functions: SEND,
        messages: MESSAGES,
        work: Work::Traffic(3, 1000, Unit::Message),
    },
    Subject {
        name: "receive a packet, messages of 100 bytes",
        functions: &["step_data"],
        messages: MESSAGES,
        work: Work::Traffic(3, 100, Unit::Packet),
    },
    Subject {
        name: "receive a packet, a message of 1000 bytes",
        functions: &["step_data"],
        messages: MESSAGES,
        work: Work::Traffic(3, 1000, Unit::Packet),
    },
    Subject {
        name: "take a token and pass it on",
        functions: &["step_token"],
        messages: MESSAGES,
        work: Work::Traffic(12, 1000, Unit::Token),
    },
    Subject {
        name: "decode a packet, messages of 100 bytes",
        functions: &["step_decode"],
        messages: MESSAGES,
        work: Work::Decode(100),
    },
    Subject {
        name: "decode a packet, a message of 1000 bytes",
        functions: &["step_decode"],
        messages: MESSAGES,
        work: Work::Decode(1000),
    },
    Subject {
        name: "seal a packet of 100 bytes, but for the cipher",
        functions: SEAL,
        messages: MESSAGES,
        work: Work::Seal(GCM, 100),
    },
    Subject {
        name: "seal a packet of 1400 bytes, but for the cipher",
        functions: SEAL,
        messages: MESSAGES,
        work: Work::Seal(GCM, 1400),
    },
    Subject {
        name: "seal a packet of 8192 bytes, but for the cipher",
        functions: SEAL,
        messages: MESSAGES,
        work: Work::Seal(GCM, 8192),
    },
    Subject {
        name: "open a packet of 100 bytes, but for the cipher",
        functions: OPEN,
        messages: MESSAGES,
        work: Work::Open(GCM, 100),
    },
    Subject {
        name: "open a packet of 1400 bytes, but for the cipher",
        functions: OPEN,
        messages: MESSAGES,
        work: Work::Open(GCM, 1400),
    },
    Subject {
        name: "open a packet of 8192 bytes, but for the cipher",
        functions: OPEN,
        messages: MESSAGES,
        work: Work::Open(GCM, 8192),
    },
    Subject {
        name: "seal a packet of 100 bytes with AEGIS, but for the cipher",
        functions: AEGIS_SEAL,
        messages: MESSAGES,
        work: Work::Seal(AEGIS, 100),
    },
    Subject {
        name: "seal a packet of 1400 bytes with AEGIS, but for the cipher",
        functions: AEGIS_SEAL,
        messages: MESSAGES,
        work: Work::Seal(AEGIS, 1400),
    },
    Subject {
        name: "open a packet of 100 bytes with AEGIS, but for the cipher",
        functions: AEGIS_OPEN,
        messages: MESSAGES,
        work: Work::Open(AEGIS, 100),
    },
    Subject {
        name: "open a packet of 1400 bytes with AEGIS, but for the cipher",
        functions: AEGIS_OPEN,
        messages: MESSAGES,
        work: Work::Open(AEGIS, 1400),
    },
];

/// Goes the way of this subject with so many messages, and says how many units that were.
pub(crate) fn run(name: &str, messages: u64) -> Result<(), Box<dyn Error>> {
    let subject = SUBJECTS.iter().find(|subject| subject.name == name);
    let units = match subject.ok_or("no such subject")?.work {
        Work::Traffic(members, length, unit) => traffic(members, messages, length, unit),
        Work::Decode(length) => decode(messages, length),
        Work::Seal(cipher, length) => seal(messages, cipher, length)?,
        Work::Open(cipher, length) => open(messages, cipher, length)?,
    };
    println!("{units}");
    Ok(())
}

/// Groups that messages go to in turn.
const GROUPS: u32 = 64;

fn traffic(members: u64, messages: u64, length: usize, unit: Unit) -> u64 {
    let mut lan = Lan::new(members, GROUPS);
    lan.run(messages, &vec![7; length]);
    match unit {
        Unit::Message => messages,
        Unit::Packet => lan.members(|stats| stats.data_received),
        Unit::Token => lan.members(|stats| stats.ring.tokens_received),
    }
}

fn decode(packets: u64, length: usize) -> u64 {
    let packet = packet(length);
    (0..packets).for_each(|_| assert!(step_decode(&packet) > 0));
    packets
}

fn seal(packets: u64, cipher: Cipher, length: usize) -> Result<u64, Box<dyn Error>> {
    let mut sealer = Sealer::new(&ClusterKey::from_secret(cipher, [7; 32]));
    let (packet, mut sealed) = (data_packet(length), Vec::with_capacity(2 * length));
    for _ in 0..packets {
        sealed.clear();
        step_seal(&mut sealer, &packet, &mut sealed)?;
    }
    Ok(packets)
}

fn open(packets: u64, cipher: Cipher, length: usize) -> Result<u64, Box<dyn Error>> {
    let key = ClusterKey::from_secret(cipher, [7; 32]);
    let (mut opener, mut sealed) = (Opener::new(&key), Vec::new());
    Sealer::new(&key).seal(&data_packet(length), &mut sealed)?;
    let mut received = sealed.clone();
    for _ in 0..packets {
        received.copy_from_slice(&sealed);
        step_open(&mut opener, &mut received)?;
    }
    Ok(packets)
}

#[inline(never)]
fn step_seal(
    sealer: &mut Sealer,
    packet: &[u8],
    sealed: &mut Vec<u8>,
) -> Result<(), qsm_seal::SealError> {
    sealer.seal(black_box(packet), black_box(sealed))
}

#[inline(never)]
fn step_open(opener: &mut Opener, packet: &mut [u8]) -> Result<usize, qsm_seal::OpenError> {
    opener.open(black_box(packet))
}

/// A data packet of this length, whatever is in it.
fn data_packet(length: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    head().encode(&Header::default(), &mut packet);
    packet.resize(length, 7);
    qsm_wire::seal(&mut packet, Coverage::Head);
    packet
}

fn head() -> DataHeader {
    DataHeader {
        channel: ChannelId(1),
        view: ViewNumber(1),
        sequence: 7,
        view_age: 6,
    }
}

/// A packet of 1472 bytes, full of whole messages of this length.
fn packet(length: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    head().encode(&Header::default(), &mut packet);
    let content = vec![7; length];
    for message in 0.. {
        let chunk = Chunk {
            group: GroupId(message % GROUPS),
            message,
            part: Part::Whole,
            content: &content,
        };
        if packet.len() + chunk.encoded_bytes() + TAG_BYTES > 1472 {
            break;
        }
        chunk.encode(&mut packet);
    }
    packet
}

/// Decodes a packet and looks at each message, as a receiver does.
#[inline(never)]
fn step_decode(packet: &[u8]) -> usize {
    let Ok(packet) = Packet::decode(black_box(packet)) else {
        return 0;
    };
    let Body::Data(data) = packet.body else {
        return 0;
    };
    data.chunks()
        .map(|chunk| black_box(chunk).content.len())
        .sum()
}
