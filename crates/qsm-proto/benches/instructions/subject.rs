//! What is counted.

use std::error::Error;
use std::hint::black_box;

use qsm_wire::{
    Body, ChannelId, Chunk, DataHeader, GroupId, Header, Packet, Part, TAG_BYTES, ViewNumber,
};

use crate::lan::Lan;

/// A path through the protocol.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Subject {
    pub(crate) name: &'static str,
    /// Where it begins: whatever is executed until these functions return is counted.
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
}

#[derive(Debug, Clone, Copy)]
enum Unit {
    Message,
    Packet,
    Token,
}

const SEND: &[&str] = &["step_publish", "step_transmit"];
const MESSAGES: (u64, u64) = (5_000, 15_000);

pub(crate) const SUBJECTS: [Subject; 7] = [
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
];

/// Goes the way of this subject with so many messages, and says how many units that were.
pub(crate) fn run(name: &str, messages: u64) -> Result<(), Box<dyn Error>> {
    let subject = SUBJECTS.iter().find(|subject| subject.name == name);
    let units = match subject.ok_or("no such subject")?.work {
        Work::Traffic(members, length, unit) => traffic(members, messages, length, unit),
        Work::Decode(length) => decode(messages, length),
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

/// A packet of 1472 bytes, full of whole messages of this length.
fn packet(length: usize) -> Vec<u8> {
    let head = DataHeader {
        channel: ChannelId(1),
        view: ViewNumber(1),
        sequence: 7,
        view_age: 6,
    };
    let mut packet = Vec::new();
    head.encode(&Header::default(), &mut packet);
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
