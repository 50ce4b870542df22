//! Packets of a site's stream: records one behind the other, cut where a packet is full.
//!
//! A packet has a version, the site's name, and the place of the first record that begins in it, by which a
//! receiver goes on after a loss. A record has its length, its group, and a message with its trailer.

use std::collections::VecDeque;

use qsm::{GROUP_NAME_BYTES_MAX, Relayed};

/// First byte of each packet.
const VERSION: u8 = 1;
/// Longest packet, bytes: with all headers it fits the usual 1,500 of a network, and tunnels' 1,400.
const PACKET_BYTES: usize = 1200;
/// In the place of a record's beginning: none begins in this packet.
const NONE: u16 = u16::MAX;
/// Length of a record, in front of it.
const LENGTH_BYTES: usize = 4;
/// Longest message of a site, bytes, without its trailer.
pub(super) const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Longest record, bytes.
const RECORD_BYTES_MAX: usize = 1 + GROUP_NAME_BYTES_MAX + MESSAGE_BYTES_MAX + Relayed::BYTES_MAX;

/// Makes packets of records. Rule R-RELAY-27.
#[derive(Debug)]
pub(super) struct Packer {
    /// Beginning of each packet.
    head: Vec<u8>,
    packet: Vec<u8>,
    /// A record begins in the packet.
    begun: bool,
    full: VecDeque<Vec<u8>>,
}

impl Packer {
    pub(super) fn new(site: &str) -> Self {
        let length = u8::try_from(site.len()).unwrap_or(u8::MAX);
        let mut head = vec![VERSION, length];
        head.extend_from_slice(&site.as_bytes()[..usize::from(length)]);
        head.extend_from_slice(&NONE.to_le_bytes());
        Self {
            packet: head.clone(),
            head,
            begun: false,
            full: VecDeque::new(),
        }
    }

    /// Adds a record.
    pub(super) fn push(&mut self, group: &str, message: &[u8]) {
        let name = u8::try_from(group.len()).unwrap_or(u8::MAX);
        let group = &group.as_bytes()[..usize::from(name)];
        let length = u32::try_from(1 + group.len() + message.len()).unwrap_or(u32::MAX);
        if !self.begun {
            let place = self.head.len() - 2;
            let at = u16::try_from(self.packet.len() - self.head.len()).unwrap_or(NONE);
            self.packet[place..place + 2].copy_from_slice(&at.to_le_bytes());
            self.begun = true;
        }
        self.add(&length.to_le_bytes());
        self.add(&[name]);
        self.add(group);
        self.add(message);
    }

    fn add(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.packet.len() == PACKET_BYTES {
                self.end();
            }
            let (now, later) = bytes.split_at(bytes.len().min(PACKET_BYTES - self.packet.len()));
            self.packet.extend_from_slice(now);
            bytes = later;
        }
        if self.packet.len() == PACKET_BYTES {
            self.end();
        }
    }

    /// Ends the packet, so that nothing waits for what comes later.
    pub(super) fn flush(&mut self) {
        if self.packet.len() > self.head.len() {
            self.end();
        }
    }

    fn end(&mut self) {
        let packet = core::mem::replace(&mut self.packet, self.head.clone());
        self.full.push_back(packet);
        self.begun = false;
    }

    /// Packets that are ready.
    pub(super) fn ready(&self) -> usize {
        self.full.len()
    }

    /// The next packet that is ready.
    pub(super) fn poll(&mut self) -> Option<Vec<u8>> {
        self.full.pop_front()
    }
}

/// Parts of a packet.
struct Parts<'a> {
    site: &'a str,
    /// Where the first record begins in the body.
    place: u16,
    body: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(packet: &'a [u8]) -> Option<Self> {
        let (&[version, length], rest) = packet.split_first_chunk()?;
        let (site, rest) = rest.split_at_checked(length.into())?;
        let (place, body) = rest.split_first_chunk()?;
        let (site, place) = (str::from_utf8(site).ok()?, u16::from_le_bytes(*place));
        (version == VERSION).then_some(Self { site, place, body })
    }
}

/// Why a packet is not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Refused {
    /// It is no packet of a site.
    Malformed,
    /// Of another site, which has this name.
    Site(String),
}

/// A record as it has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) group: String,
    /// With its trailer.
    pub(super) message: Vec<u8>,
}

impl Record {
    fn read(mut bytes: Vec<u8>) -> Option<Self> {
        let name = usize::from(*bytes.first()?);
        let group = bytes.get(1..=name)?;
        let group = str::from_utf8(group).ok()?.to_owned();
        let message = bytes.split_off(1 + name);
        Some(Self { group, message })
    }
}

/// Makes records of packets; of a record that lacks a part nothing is left. Rule R-RELAY-27.
#[derive(Debug)]
pub(super) struct Unpacker {
    site: String,
    /// Number that the next packet has if none is missing.
    next: u64,
    /// Bytes of the record that has begun, with its length; none while its beginning is missing.
    partial: Option<Vec<u8>>,
    records: VecDeque<Record>,
}

impl Unpacker {
    /// Of a stream of this site.
    pub(super) fn new(site: &str) -> Self {
        Self {
            site: site.to_owned(),
            next: 0,
            partial: None,
            records: VecDeque::new(),
        }
    }

    /// Takes the packet with this number.
    pub(super) fn take(&mut self, number: u64, packet: &[u8]) -> Result<(), Refused> {
        let follows = number == self.next;
        self.next = number + 1;
        if !follows {
            self.partial = None;
        }
        let taken = self.read(packet);
        if taken.is_err() {
            self.partial = None;
        }
        taken
    }

    fn read(&mut self, packet: &[u8]) -> Result<(), Refused> {
        let Some(Parts { site, place, body }) = Parts::of(packet) else {
            return Err(Refused::Malformed);
        };
        if site != self.site {
            return Err(Refused::Site(site.to_owned()));
        }
        let body = match (&self.partial, place) {
            (Some(_), _) => Some(body),
            (None, NONE) => return Ok(()),
            (None, place) => body.get(place.into()..),
        };
        let joined = body.and_then(|body| self.join(body));
        joined.ok_or(Refused::Malformed)
    }

    /// Takes bytes that follow those before; `None` if they make no records.
    fn join(&mut self, mut body: &[u8]) -> Option<()> {
        let mut partial = self.partial.take().unwrap_or_default();
        while !body.is_empty() {
            let wanted = match partial.first_chunk::<LENGTH_BYTES>() {
                None => LENGTH_BYTES,
                Some(length) => LENGTH_BYTES + u32::from_le_bytes(*length) as usize,
            };
            let (now, later) = body.split_at(body.len().min(wanted - partial.len()));
            partial.extend_from_slice(now);
            body = later;
            let length = partial.first_chunk::<LENGTH_BYTES>();
            let Some(length) = length.map(|length| u32::from_le_bytes(*length) as usize) else {
                continue;
            };
            if length == 0 || length > RECORD_BYTES_MAX {
                return None;
            }
            if partial.len() == LENGTH_BYTES + length {
                let record = Record::read(partial.split_off(LENGTH_BYTES))?;
                self.records.push_back(record);
                partial.clear();
            }
        }
        self.partial = Some(partial);
        Some(())
    }

    /// The next record that is whole.
    pub(super) fn poll(&mut self) -> Option<Record> {
        self.records.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(lengths: &[usize]) -> Vec<Vec<u8>> {
        let mut packer = Packer::new("fra");
        for (number, length) in lengths.iter().enumerate() {
            packer.push(&format!("g/{number}"), &vec![number as u8; *length]);
        }
        packer.flush();
        core::iter::from_fn(|| packer.poll()).collect()
    }

    fn groups(unpacker: &mut Unpacker) -> Vec<String> {
        let records = core::iter::from_fn(|| unpacker.poll());
        records.map(|record| record.group).collect()
    }

    /// R-RELAY-27.
    #[test]
    fn records_of_any_length_come_out_as_they_went_in() {
        for length in [0, 1, 1180, 1181, 1182, 1183, 1184, 1185, 1200, 5000] {
            let packets = packed(&[3, length, 0, 9]);
            assert!(packets.iter().all(|packet| packet.len() <= PACKET_BYTES));
            let mut unpacker = Unpacker::new("fra");
            for (number, packet) in packets.iter().enumerate() {
                unpacker.take(7 + number as u64, packet).unwrap();
            }
            let record = |number: u8, length| Record {
                group: format!("g/{number}"),
                message: vec![number; length],
            };
            let all = [record(0, 3), record(1, length), record(2, 0), record(3, 9)];
            let found: Vec<Record> = core::iter::from_fn(|| unpacker.poll()).collect();
            assert_eq!(found, all, "{length}");
        }
    }

    /// R-RELAY-27: only records that had a part in a lost packet are missing.
    #[test]
    fn after_a_loss_it_goes_on_with_the_next_record_that_begins() {
        let packets = packed(&[500, 500, 500, 3000, 500, 500]);
        assert_eq!(packets.len(), 5);
        for lost in 0..packets.len() {
            let mut unpacker = Unpacker::new("fra");
            for (number, packet) in packets.iter().enumerate() {
                if number != lost {
                    unpacker.take(number as u64, packet).unwrap();
                }
            }
            let found = groups(&mut unpacker);
            let missing: Vec<usize> = (0..6)
                .filter(|number| !found.contains(&format!("g/{number}")))
                .collect();
            let expected: [&[usize]; 5] = [&[0, 1, 2], &[2, 3], &[3], &[3, 4], &[4, 5]];
            assert_eq!(missing, expected[lost], "without packet {lost}");
        }
    }

    /// R-RELAY-27.
    #[test]
    fn packets_of_others_are_refused_and_change_nothing_else() {
        let packets = packed(&[10]);
        let mut unpacker = Unpacker::new("lon");
        let other = Refused::Site("fra".to_owned());
        assert_eq!(unpacker.take(1, &packets[0]), Err(other));
        let mut unpacker = Unpacker::new("fra");
        let mut bad = packets[0].clone();
        bad[0] = 9;
        assert_eq!(unpacker.take(1, &bad), Err(Refused::Malformed));
        // A record's length.
        let mut bad = packets[0].clone();
        bad[10] = 0xff;
        assert_eq!(unpacker.take(2, &bad), Err(Refused::Malformed));
        for length in 0..7 {
            let cut = &packets[0][..length];
            assert_eq!(unpacker.take(9, cut), Err(Refused::Malformed), "{length}");
        }
        assert_eq!(unpacker.take(3, &packets[0]), Ok(()));
        assert_eq!(groups(&mut unpacker), ["g/0"]);
    }
}
