//! The head of a probe: a datagram whose way is known from itself alone.

/// The beginning of each probe. Packets of nodes begin otherwise.
pub(crate) const MARK: [u8; 4] = *b"qsDr";
/// The head's length, and the least payload of a probe.
pub(crate) const HEAD_BYTES: usize = 24;

/// Where a probe was sent to.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// The other's own address.
    Unicast,
    /// The multicast address.
    Multicast,
    /// Another multicast address with the same port.
    Beside,
}

/// Head of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Drawn for each examination, so that two at a time do not disturb each other.
    pub(crate) session: u32,
    /// The step of the examination.
    pub(crate) step: u32,
    /// Number within the step, from 0.
    pub(crate) number: u32,
    /// Payload, bytes.
    pub(crate) bytes: u32,
    /// Where it was sent to.
    pub(crate) way: Way,
}

impl Head {
    /// Writes itself.
    pub(crate) fn write(self, to: &mut [u8]) {
        let way = match self.way {
            Way::Unicast => 0,
            Way::Multicast => 1,
            Way::Beside => 2_u32,
        };
        let words = [self.session, self.step, self.number, self.bytes, way];
        to[..4].copy_from_slice(&MARK);
        for (place, word) in to[4..HEAD_BYTES].chunks_mut(4).zip(words) {
            place.copy_from_slice(&word.to_be_bytes());
        }
    }

    /// Reads it; `None` if this is no probe.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let head = bytes.get(..HEAD_BYTES)?.strip_prefix(&MARK)?;
        let word = |at: usize| {
            let [a, b, c, d] = *head[4 * at..].first_chunk::<4>()?;
            Some(u32::from_be_bytes([a, b, c, d]))
        };
        Some(Self {
            session: word(0)?,
            step: word(1)?,
            number: word(2)?,
            bytes: word(3)?,
            way: match word(4)? {
                0 => Way::Unicast,
                1 => Way::Multicast,
                2 => Way::Beside,
                _ => return None,
            },
        })
    }
}

/// Counts of what a tap saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// So many probes of this kind, in one packet.
    Probes(Head, u64),
    /// A query for memberships, of IGMP or MLD.
    Query,
}

/// Reads a packet from the header of IP on.
pub(crate) fn passed(packet: &[u8]) -> Option<Passed> {
    match packet.first()? >> 4 {
        4 => {
            let header = 4 * usize::from(packet[0] & 15);
            match *packet.get(9)? {
                2 => (*packet.get(header)? == 0x11).then_some(Passed::Query),
                17 => probes(packet.get(header..)?),
                _ => None,
            }
        }
        6 => match *packet.get(6)? {
            // The hop-by-hop options of MLD are eight bytes.
            0 => (*packet.get(40)? == 58 && *packet.get(48)? == 130).then_some(Passed::Query),
            17 => probes(packet.get(40..)?),
            // The fragment's header is eight bytes.
            44 => probes(packet.get(48..)?),
            _ => None,
        },
        _ => None,
    }
}

/// From the header of UDP on. A train that passes whole has the length of all together.
fn probes(datagram: &[u8]) -> Option<Passed> {
    let length = u64::from(u16::from_be_bytes(*datagram.get(4..)?.first_chunk()?));
    let head = Head::read(datagram.get(8..)?)?;
    let count = length
        .saturating_sub(8)
        .div_ceil(u64::from(head.bytes.max(1)));
    Some(Passed::Probes(head, count.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: Head = Head {
        session: 7,
        step: 3,
        number: 9,
        bytes: 1000,
        way: Way::Beside,
    };

    fn datagram(length: u16) -> Vec<u8> {
        let mut bytes = vec![0; 8 + HEAD_BYTES];
        bytes[4..6].copy_from_slice(&length.to_be_bytes());
        HEAD.write(&mut bytes[8..]);
        bytes
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let bytes = datagram(0);
        assert_eq!(Head::read(&bytes[8..]), Some(HEAD));
        assert_eq!(Head::read(&bytes[9..]), None);
        assert_eq!(Head::read(&bytes[8..20]), None);
    }

    #[test]
    fn trains_and_fragments_are_counted_by_their_length() {
        let mut packet = vec![0; 20];
        (packet[0], packet[9]) = (0x45, 17);
        for (length, count) in [(1008, 1), (3008, 3), (2508, 3), (0, 1)] {
            let whole = [packet.clone(), datagram(length)].concat();
            assert_eq!(passed(&whole), Some(Passed::Probes(HEAD, count)));
        }
        let mut packet = vec![0; 48];
        (packet[0], packet[6], packet[40]) = (0x60, 44, 17);
        let first = [packet, datagram(1008)].concat();
        assert_eq!(passed(&first), Some(Passed::Probes(HEAD, 1)));
    }

    #[test]
    fn queries_are_told_from_reports() {
        let mut igmp = vec![0; 24];
        (igmp[0], igmp[9]) = (0x46, 2);
        let query = [igmp.clone(), vec![0x11]].concat();
        let report = [igmp, vec![0x22]].concat();
        assert_eq!(passed(&query), Some(Passed::Query));
        assert_eq!(passed(&report), None);
        assert_eq!(passed(&[]), None);
        assert_eq!(passed(&[0x45]), None);
    }
}
