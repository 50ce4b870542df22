//! What goes wrong, besides the network's everyday losses.

use core::time::Duration;

use qsm_proto::{Random, Seed};
use qsm_wire::{Body, Chunk, Coverage, DataHeader, HEADER_BYTES, Packet, Part, VERSION, seal};

/// Something that goes wrong at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The process on this host dies.
    Crash {
        /// The host.
        host: usize,
    },
    /// A process starts on this host: a new one with no memory, at the same address.
    Restart {
        /// The host.
        host: usize,
        /// Whether it keeps its node id (and is a new incarnation), or draws a new one.
        same_node: bool,
    },
    /// The process on this host ends in order: it hands over what it has sent, says goodbye and
    /// is gone.
    Close {
        /// The host.
        host: usize,
    },
    /// The host stands still.
    Freeze {
        /// The host.
        host: usize,
        /// For how long.
        time: Duration,
    },
    /// The host sleeps as a laptop does: it stands still, hears nothing, and its clock stops.
    Sleep {
        /// The host.
        host: usize,
        /// For how long.
        time: Duration,
    },
    /// The host is slow.
    Slow {
        /// The host.
        host: usize,
        /// What each datagram takes it at least.
        per_datagram: Duration,
        /// For how long.
        time: Duration,
    },
    /// The application on this host reads no more.
    Full {
        /// The host.
        host: usize,
    },
    /// It reads again all that comes.
    Read {
        /// The host.
        host: usize,
    },
    /// What goes from these hosts to those is held up and then arrives all at once.
    Clog {
        /// From here.
        from: Vec<usize>,
        /// To there.
        to: Vec<usize>,
        /// For how long.
        time: Duration,
    },
    /// The path is narrow: larger datagrams vanish.
    Narrow {
        /// Bytes.
        bytes: usize,
        /// For how long.
        time: Duration,
    },
    /// Nothing passes from these hosts to those.
    Split {
        /// From here.
        from: Vec<usize>,
        /// To there.
        to: Vec<usize>,
        /// Nor the other way.
        both_ways: bool,
    },
    /// One of two networks carries nothing.
    Outage {
        /// 0: the first one, 1: the second one.
        network: usize,
        /// For how long.
        time: Duration,
    },
    /// Multicast of these hosts does not reach those, although unicast does.
    Filter {
        /// From here.
        from: Vec<usize>,
        /// To there.
        to: Vec<usize>,
        /// For how long.
        time: Duration,
    },
    /// All splits end.
    Heal,
    /// The next data packets of this host are lost for all receivers.
    Doom {
        /// The host.
        host: usize,
        /// How many packets.
        packets: u32,
    },
    /// Packets of another cluster come to all multicast addresses of the host's regions.
    Foreign {
        /// The host.
        host: usize,
    },
    /// The host receives datagrams that nobody should have sent.
    Garbage {
        /// The host.
        host: usize,
        /// Of which kind.
        kind: Garbage,
        /// How many.
        count: u32,
    },
}

impl Fault {
    /// Whether it says anything of this host.
    #[must_use]
    pub fn concerns(&self, which: usize) -> bool {
        match self {
            Self::Crash { host }
            | Self::Restart { host, .. }
            | Self::Close { host }
            | Self::Freeze { host, .. }
            | Self::Sleep { host, .. }
            | Self::Slow { host, .. }
            | Self::Full { host }
            | Self::Read { host }
            | Self::Doom { host, .. }
            | Self::Foreign { host }
            | Self::Garbage { host, .. } => *host == which,
            Self::Split { from, to, .. }
            | Self::Clog { from, to, .. }
            | Self::Filter { from, to, .. } => from.contains(&which) || to.contains(&which),
            Self::Heal | Self::Narrow { .. } | Self::Outage { .. } => false,
        }
    }
}

/// A kind of bad datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Garbage {
    /// Random bytes.
    Random,
    /// The beginning of a true packet.
    Truncated,
    /// A true packet with flipped bits, where its checksum covers them.
    Flipped,
    /// The header of a true packet, followed by random bytes, with a right checksum: what a node
    /// with a fault of its own may send.
    Malformed,
    /// A true packet of a version to come.
    FutureVersion,
    /// A true packet once more, at its destination.
    Replayed,
    /// A true packet at a host that it was not meant for.
    Strayed,
    /// A changed packet that is well formed, with a right checksum. Without authentication nobody can tell, so that only
    /// crashes and growth are checked from here on.
    Forged,
    /// A true packet in which a number has jumped to 2^63. As `Forged`.
    Jump,
    /// The packet behind a true one, in its sender's name, by a member that has all keys. As `Forged`, but that nodes
    /// which wait for proof can tell.
    InName,
}

impl Garbage {
    /// All kinds.
    pub const ALL: [Self; 10] = [
        Self::Random,
        Self::Truncated,
        Self::Flipped,
        Self::Malformed,
        Self::FutureVersion,
        Self::Replayed,
        Self::Strayed,
        Self::Forged,
        Self::Jump,
        Self::InName,
    ];

    /// The kinds that must change nothing.
    pub const HARMLESS: [Self; 7] = [
        Self::Random,
        Self::Truncated,
        Self::Flipped,
        Self::Malformed,
        Self::FutureVersion,
        Self::Replayed,
        Self::Strayed,
    ];

    /// Its name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Truncated => "truncated",
            Self::Flipped => "flipped",
            Self::Malformed => "malformed",
            Self::FutureVersion => "future-version",
            Self::Replayed => "replayed",
            Self::Strayed => "strayed",
            Self::Forged => "forged",
            Self::Jump => "jump",
            Self::InName => "in-name",
        }
    }

    /// Whether nothing but survival can be asked for afterwards.
    #[must_use]
    pub fn is_forgery(self) -> bool {
        matches!(self, Self::Forged | Self::Jump | Self::InName)
    }

    /// Makes a datagram of this kind from a true one; `None` when that one does not serve.
    #[must_use]
    pub fn make(self, model: &[u8], seed: Seed) -> Option<Vec<u8>> {
        let mut random = Random::new(seed, "garbage");
        let mut bytes = model.to_vec();
        match self {
            Self::Replayed | Self::Strayed => return Some(bytes),
            Self::Random => {
                let length = index(&mut random, 1500);
                bytes = (0..length).map(|_| byte(&mut random)).collect();
                if let Some(version) = bytes.first_mut() {
                    *version = VERSION;
                }
            }
            Self::Truncated => bytes.truncate(index(&mut random, model.len())),
            Self::Flipped | Self::Forged => {
                for _ in 0..=index(&mut random, 8) {
                    let at = index(&mut random, bytes.len());
                    *bytes.get_mut(at)? ^= 1 << index(&mut random, 8);
                }
            }
            Self::Malformed => {
                bytes.truncate(HEADER_BYTES);
                let length = index(&mut random, 300);
                bytes.extend((0..length).map(|_| byte(&mut random)));
            }
            Self::InName => bytes = next_in_name(model)?,
            Self::FutureVersion => *bytes.first_mut()? = VERSION + 1 + byte(&mut random) % 100,
            Self::Jump => {
                let words = bytes.len().checked_sub(32)? / 4;
                let at = 24 + 4 * index(&mut random, words + 1);
                let jump = (1u64 << 63) + random.below(100);
                bytes
                    .get_mut(at..at + 8)?
                    .copy_from_slice(&jump.to_le_bytes());
            }
        }
        if self.is_forgery() || self == Self::Malformed {
            seal(&mut bytes, Coverage::Whole);
        }
        let believed = Packet::open(&bytes).is_ok();
        (believed == self.is_forgery()).then_some(bytes)
    }
}

/// The packet that a sender may send next, with a message that it has not published.
fn next_in_name(model: &[u8]) -> Option<Vec<u8>> {
    let packet = Packet::decode(model).ok()?;
    let Body::Data(data) = packet.body else {
        return None;
    };
    let head = DataHeader {
        sequence: data.head.sequence + 1,
        view_age: data.head.view_age.saturating_add(1),
        ..data.head
    };
    let chunk = data.chunks().next()?;
    let mut bytes = Vec::new();
    head.encode(&packet.header, &mut bytes);
    let forged = Chunk {
        message: chunk.message.wrapping_add(1),
        part: Part::Whole,
        content: b"in another's name",
        ..chunk
    };
    forged.encode(&mut bytes);
    Some(bytes)
}

fn index(random: &mut Random, bound: usize) -> usize {
    usize::try_from(random.below(bound as u64)).unwrap_or(0)
}

fn byte(random: &mut Random) -> u8 {
    random.bits().to_le_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::*;
    use qsm_wire::{ChannelId, Header, Origin, StreamQuery};

    fn query() -> Vec<u8> {
        let query = StreamQuery {
            channel: ChannelId(3),
            stream: Origin::default(),
        };
        let mut bytes = Vec::new();
        query.encode(&Header::default(), &mut bytes);
        seal(&mut bytes, Coverage::Head);
        bytes
    }

    #[test]
    fn harmless_garbage_is_no_packet_and_forgery_is_one() {
        let model = query();
        for seed in 0..300 {
            let harmless = Garbage::HARMLESS.into_iter();
            let true_ones = [Garbage::Replayed, Garbage::Strayed];
            for kind in harmless.filter(|kind| !true_ones.contains(kind)) {
                let made = kind.make(&model, Seed(seed));
                assert!(made.is_none_or(|bytes| Packet::open(&bytes).is_err()));
            }
            let forged = Garbage::Forged.make(&model, Seed(seed));
            assert!(forged.is_none_or(|bytes| Packet::open(&bytes).is_ok()));
        }
        assert_eq!(Garbage::InName.make(&model, Seed(0)), None, "it is no data");
        assert!((0..50).any(|seed| Garbage::Jump.make(&model, Seed(seed)).is_some()));
        assert_eq!(Garbage::Replayed.make(&model, Seed(0)), Some(model));
    }
}
