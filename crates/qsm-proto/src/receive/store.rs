//! Memory for received packets: those that wait for their turn and those that are cached.
//!
//! One store per node. A packet is kept in one of two ways:
//!
//! - **copied** into equal places of one datagram each, allocated up to sixty-four at a time and
//!   reused (R144);
//! - **where it arrived**, if the runtime lends the buffer ([`Datagram::lent`]): the buffer is
//!   held until the last packet kept in it is freed. Nothing is copied, which at a cacher is half
//!   of the work for a packet.
//!
//! The limit is the node's `receive_bytes`, of which lent buffers may hold half; when it is
//! reached, packets are refused and asked for again later.

use std::sync::Arc;

use super::Datagram;

/// Where a packet lies in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PacketPlace {
    block: u32,
    start: u32,
    length: u32,
}

/// The packets kept by this node, of all streams.
#[derive(Debug)]
pub struct PacketStore {
    blocks: Vec<Block>,
    /// Free places in blocks of the store's own.
    free: Vec<PacketPlace>,
    /// Blocks whose lent buffers are gone.
    vacant: Vec<u32>,
    /// The block of the buffer lent last: its packets come one after the other.
    lent_last: Option<u32>,
    place_bytes: usize,
    limit_bytes: usize,
    own_bytes: usize,
    lent_bytes: usize,
    packet_bytes: usize,
}

#[derive(Debug)]
enum Block {
    Own(Box<[u8]>),
    Lent { buffer: Arc<[u8]>, kept: u32 },
    Vacant,
}

/// Places per allocation, at most.
const SLAB_PLACES: usize = 64;
/// Places of the first allocation. The next ones double what there is: a node that hears little
/// does not take the hundred kilobytes of a whole slab.
const SLAB_PLACES_FIRST: usize = 8;

impl PacketStore {
    /// A store for packets of at most `packet_bytes`, growing to `limit_bytes`.
    #[must_use]
    pub fn new(packet_bytes: usize, limit_bytes: usize) -> Self {
        let place_bytes = packet_bytes.next_multiple_of(64).max(64);
        Self {
            blocks: Vec::new(),
            free: Vec::new(),
            vacant: Vec::new(),
            lent_last: None,
            place_bytes,
            limit_bytes: limit_bytes.max(place_bytes),
            own_bytes: 0,
            lent_bytes: 0,
            packet_bytes: 0,
        }
    }

    /// Keeps a packet, where it lies if it is lent; `None` when there is no memory.
    pub fn keep(&mut self, datagram: Datagram<'_>) -> Option<PacketPlace> {
        let place = match datagram.home {
            Some((buffer, start)) if self.takes(buffer) => {
                self.hold(buffer, start, datagram.bytes.len())
            }
            _ if datagram.bytes.len() > self.place_bytes => self.copy_alone(datagram.bytes),
            _ => self.copy(datagram.bytes),
        }?;
        self.packet_bytes += datagram.bytes.len();
        Some(place)
    }

    /// The packet at this place.
    #[must_use]
    pub fn packet(&self, place: PacketPlace) -> &[u8] {
        let bytes = match &self.blocks[place.block as usize] {
            Block::Own(memory) => memory,
            Block::Lent { buffer, .. } => &**buffer,
            Block::Vacant => &[],
        };
        &bytes[place.start as usize..][..place.length as usize]
    }

    /// Frees a place; it must not be used afterwards.
    pub fn free(&mut self, place: PacketPlace) {
        self.packet_bytes -= place.length as usize;
        let block = &mut self.blocks[place.block as usize];
        let Block::Lent { buffer, kept } = block else {
            self.free.push(place);
            return;
        };
        *kept -= 1;
        if *kept == 0 {
            self.lent_bytes -= buffer.len();
            *block = Block::Vacant;
            self.vacant.push(place.block);
            self.lent_last = self.lent_last.filter(|last| *last != place.block);
        }
    }

    /// Bytes of the packets themselves.
    #[must_use]
    pub fn packet_bytes(&self) -> usize {
        self.packet_bytes
    }

    /// Bytes in use: places taken, and whole buffers that are lent.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        self.own_bytes - self.free.len() * self.place_bytes + self.lent_bytes
    }

    /// How many more packets can be kept for certain.
    #[must_use]
    pub fn room_packets(&self) -> usize {
        let left = self.limit_bytes - (self.own_bytes + self.lent_bytes).min(self.limit_bytes);
        left / self.place_bytes + self.free.len()
    }

    /// Tells if less than half of the limit is left.
    #[must_use]
    pub fn is_half_full(&self) -> bool {
        self.is_full_by(2)
    }

    /// Tells if a quarter of the limit is in use.
    #[must_use]
    pub fn is_filling(&self) -> bool {
        self.is_full_by(1)
    }

    /// Tells if less than a quarter of the limit is left.
    #[must_use]
    pub fn is_nearly_full(&self) -> bool {
        self.is_full_by(3)
    }

    /// So many quarters are in use.
    fn is_full_by(&self, quarters: usize) -> bool {
        let room_bytes = self.room_packets() * self.place_bytes;
        room_bytes.saturating_mul(4) < self.limit_bytes.saturating_mul(4 - quarters)
    }

    /// The most that can be kept for certain, in bytes of packets of full length.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    fn takes(&self, buffer: &Arc<[u8]>) -> bool {
        let lent = self.lent_bytes + buffer.len();
        lent <= self.limit_bytes / 2 && lent + self.own_bytes <= self.limit_bytes
    }

    fn hold(&mut self, buffer: &Arc<[u8]>, start: usize, length: usize) -> Option<PacketPlace> {
        let place = PacketPlace {
            block: self.block_of(buffer)?,
            start: u32::try_from(start).ok()?,
            length: u32::try_from(length).ok()?,
        };
        if let Block::Lent { kept, .. } = &mut self.blocks[place.block as usize] {
            *kept += 1;
        }
        Some(place)
    }

    /// The block that stands for a lent buffer.
    fn block_of(&mut self, buffer: &Arc<[u8]>) -> Option<u32> {
        if let Some(last) = self.lent_last
            && let Block::Lent { buffer: known, .. } = &self.blocks[last as usize]
            && Arc::ptr_eq(known, buffer)
        {
            return Some(last);
        }
        self.lent_bytes += buffer.len();
        let block = Block::Lent {
            buffer: Arc::clone(buffer),
            kept: 0,
        };
        self.lent_last = Some(self.add_block(block)?);
        self.lent_last
    }

    fn add_block(&mut self, block: Block) -> Option<u32> {
        if let Some(at) = self.vacant.pop() {
            self.blocks[at as usize] = block;
            return Some(at);
        }
        self.blocks.push(block);
        u32::try_from(self.blocks.len() - 1).ok()
    }

    /// Copies a packet that is longer than this node's own: senders may have other limits.
    fn copy_alone(&mut self, packet: &[u8]) -> Option<PacketPlace> {
        let buffer: Arc<[u8]> = packet.into();
        let fits = self.takes(&buffer);
        fits.then(|| self.hold(&buffer, 0, packet.len()))?
    }

    fn copy(&mut self, packet: &[u8]) -> Option<PacketPlace> {
        if self.free.is_empty() {
            self.grow()?;
        }
        let mut place = self.free.pop()?;
        place.length = u32::try_from(packet.len()).ok()?;
        if let Block::Own(memory) = &mut self.blocks[place.block as usize] {
            memory[place.start as usize..][..packet.len()].copy_from_slice(packet);
        }
        Some(place)
    }

    /// One slab more; the last one is as large as the limit leaves it.
    fn grow(&mut self) -> Option<()> {
        let places = (self.own_bytes / self.place_bytes).clamp(SLAB_PLACES_FIRST, SLAB_PLACES);
        let places = places.min(self.room_packets());
        if places == 0 {
            return None;
        }
        let bytes = self.place_bytes * places;
        let block = self.add_block(Block::Own(vec![0; bytes].into_boxed_slice()))?;
        self.own_bytes += bytes;
        for start in (0..bytes).step_by(self.place_bytes).rev() {
            self.free.push(PacketPlace {
                block,
                start: u32::try_from(start).ok()?,
                length: 0,
            });
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(bytes: &[u8]) -> Datagram<'_> {
        Datagram::from(bytes)
    }

    #[test]
    fn gives_back_what_it_was_given_and_stops_at_its_limit() {
        let mut store = PacketStore::new(100, 2 * 64 * 128);
        let places: Vec<PacketPlace> = (0..128u8)
            .map(|value| store.keep(plain(&[value; 100])).unwrap())
            .collect();
        assert_eq!(store.keep(plain(&[1])), None);
        assert!(
            places
                .iter()
                .zip(0..)
                .all(|(place, value)| store.packet(*place) == [value; 100])
        );
        store.free(places[5]);
        let again = store.keep(plain(b"short")).unwrap();
        assert_eq!(store.packet(again), b"short");
        assert_eq!(store.used_bytes(), 128 * 128);
    }

    #[test]
    fn keeps_packets_longer_than_its_places_within_the_limit() {
        let mut store = PacketStore::new(100, 1000);
        let place = store.keep(plain(&[7; 500])).unwrap();
        assert_eq!(store.packet(place), [7; 500]);
        assert_eq!(store.keep(plain(&[7; 500])), None);
        store.free(place);
        assert_eq!(store.used_bytes(), 0);
        assert!(store.keep(plain(&[8; 129])).is_some());
    }

    #[test]
    fn holds_a_lent_buffer_until_its_last_packet_is_freed() {
        let buffer: Arc<[u8]> = (0..100).collect();
        let mut store = PacketStore::new(50, 1000);
        let first = store.keep(Datagram::lent(&buffer, 0..50)).unwrap();
        let second = store.keep(Datagram::lent(&buffer, 50..100)).unwrap();
        assert_eq!(store.packet(first), &buffer[..50]);
        assert_eq!(store.packet(second), &buffer[50..]);
        assert_eq!((Arc::strong_count(&buffer), store.used_bytes()), (2, 100));
        store.free(first);
        assert_eq!(Arc::strong_count(&buffer), 2);
        store.free(second);
        assert_eq!((Arc::strong_count(&buffer), store.used_bytes()), (1, 0));
        let third = store.keep(Datagram::lent(&buffer, 10..20)).unwrap();
        assert_eq!(store.packet(third), &buffer[10..20]);
    }

    #[test]
    fn copies_once_lent_buffers_hold_half_of_the_limit() {
        let buffers: [Arc<[u8]>; 3] = [1, 2, 3].map(|value| [value; 128].into());
        let mut store = PacketStore::new(64, 4 * 128);
        let places = buffers.each_ref().map(|buffer| {
            let datagram = Datagram::lent(buffer, 0..64);
            store.keep(datagram).unwrap()
        });
        let counts = buffers.each_ref().map(Arc::strong_count);
        assert_eq!(counts, [2, 2, 1]);
        assert_eq!(store.packet(places[2]), [3; 64]);
        assert_eq!(store.used_bytes(), 2 * 128 + 64);
        assert_eq!(store.room_packets(), 3);
    }
}
