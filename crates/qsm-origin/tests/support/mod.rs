//! A signed stream, and what holds of any packets that come in its name.
//!
//! Shared by the tests of this crate and by the target in `fuzz/`, so that both check the same.

use std::collections::BTreeMap;
use std::time::Duration;

use qsm_identity::NodeKey;
use qsm_origin::{SEAL_GROUP, Sealer, Verdict, Verifier};
use qsm_wire::{
    CHECKSUM_AT, ChannelId, Chunk, Coverage, Data, DataHeader, FLAGS_AT, GroupId, HOP_AT, Header,
    Part, StreamId, ViewNumber, seal,
};

/// Packets of the stream; each fourth one is a seal.
pub(crate) const PACKETS: usize = 32;
/// Number of a step from which on what is left of the input is the packet.
const ARBITRARY: u8 = 224;
const SEED: [u8; 32] = [7; 32];
/// Head of the first packet.
const HEAD: DataHeader = DataHeader {
    channel: ChannelId(3),
    view: ViewNumber(2),
    sequence: 1,
    view_age: 0,
};

/// Judgements on packets of one input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) proven: usize,
    /// Not taken.
    pub(crate) refused: usize,
}

/// A stream that its sender has signed.
pub(crate) struct Stream {
    key: NodeKey,
    header: Header,
    packets: Vec<Vec<u8>>,
}

impl Stream {
    pub(crate) fn new() -> Self {
        let key = NodeKey::from_seed(&SEED).unwrap();
        let header = Header::default();
        let mut head = HEAD;
        let mut sealer = Sealer::new(stream_of(&header), 1456).unwrap();
        let mut packets = Vec::new();
        for sequence in 1..=PACKETS {
            head.sequence = sequence as u64;
            head.view_age = u32::try_from(sequence - 1).unwrap();
            let sealed = sequence.is_multiple_of(4);
            let sealed = sealed.then(|| sealer.seal(&key, &header, &head).unwrap());
            let (group, content) = match &sealed {
                Some(content) => (SEAL_GROUP, content.as_slice()),
                None => (GroupId(5), b"a message".as_slice()),
            };
            let packet = packet(&header, &head, group, content);
            if sealed.is_none() {
                sealer.note(Duration::from_secs(1), &packet).unwrap();
            }
            packets.push(packet);
        }
        Self {
            key,
            header,
            packets,
        }
    }

    /// Judges packets in an order, and with changes, that the input says, and checks that nothing is proven but what was
    /// signed. Each step is four bytes: which packet, a place in it, highest byte first, and what the byte there is changed
    /// by. From the packet 224 on the rest of the input is the packet.
    pub(crate) fn check(&self, input: &[u8]) -> Judged {
        let (id, key) = (stream_of(&self.header), self.key.public());
        let mut verifier = Verifier::new(self.header.cluster, id, key);
        // By number, the packets that came first.
        let mut waiting: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
        let mut judged = Judged::default();
        let mut rest = input;
        while let [which, high, low, change, behind @ ..] = rest {
            rest = behind;
            let mut datagram = match *which >= ARBITRARY {
                true => core::mem::take(&mut rest).to_vec(),
                false => self.packets[usize::from(*which) % PACKETS].clone(),
            };
            let at = usize::from(*high) << 8 | usize::from(*low);
            if let Some(byte) = datagram.get_mut(at) {
                *byte ^= change;
            }
            let mut findings = Vec::new();
            match verifier.take(&datagram, &mut findings) {
                Verdict::Proven => {
                    self.check_signed(&datagram);
                    judged.proven += 1;
                }
                Verdict::Waits => {
                    let data = Data::read_again(&datagram).unwrap();
                    waiting.insert(data.head.sequence, datagram);
                }
                Verdict::Unsealed => panic!("nobody has signed that: {datagram:02x?}"),
                _ => judged.refused += 1,
            }
            for found in findings {
                assert_ne!(found.verdict, Verdict::Waits);
                if found.verdict == Verdict::Proven {
                    self.check_signed(&waiting[&found.sequence]);
                    judged.proven += 1;
                }
            }
        }
        judged
    }

    /// Checks that the packet is one that was signed, but for how it travels.
    fn check_signed(&self, datagram: &[u8]) {
        let travels = |at: usize| at == FLAGS_AT || at == HOP_AT || CHECKSUM_AT.contains(&at);
        let same = |packet: &Vec<u8>| {
            packet.len() == datagram.len()
                && (0..packet.len()).all(|at| travels(at) || packet[at] == datagram[at])
        };
        assert!(self.packets.iter().any(same), "proven: {datagram:02x?}");
    }
}

fn stream_of(header: &Header) -> StreamId {
    StreamId {
        origin: header.origin,
        channel: HEAD.channel,
    }
}

fn packet(header: &Header, head: &DataHeader, group: GroupId, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    head.encode(header, &mut bytes);
    let chunk = Chunk {
        group,
        message: 0,
        part: Part::Whole,
        content,
    };
    chunk.encode(&mut bytes);
    seal(&mut bytes, Coverage::Head);
    bytes
}
