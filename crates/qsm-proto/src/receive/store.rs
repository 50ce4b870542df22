//! Memory for received packets: those that wait for their turn and those that are cached.
//!
//! One store per node, in equal places of one datagram each, allocated sixty-four at a time and
//! reused (R144). Its limit is the node's `receive_bytes`; when it is full, packets are refused
//! and asked for again later.

/// A place in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(u32);

/// The packets kept by this node, of all streams.
#[derive(Debug)]
pub struct Store {
    slabs: Vec<Box<[u8]>>,
    lengths: Vec<u16>,
    free: Vec<u32>,
    place_bytes: usize,
    places_max: usize,
}

/// Places per allocation.
const SLAB_PLACES: usize = 64;

impl Store {
    /// A store for packets of at most `packet_bytes`, growing to `limit_bytes`.
    #[must_use]
    pub fn new(packet_bytes: usize, limit_bytes: usize) -> Self {
        let place_bytes = packet_bytes.next_multiple_of(64).max(64);
        let places_max = (limit_bytes / place_bytes).max(1);
        Self {
            slabs: Vec::new(),
            lengths: Vec::new(),
            free: Vec::new(),
            place_bytes,
            places_max,
        }
    }

    /// Keeps a copy; `None` when it is too long or there is no memory.
    pub fn keep(&mut self, packet: &[u8]) -> Option<Place> {
        let length = u16::try_from(packet.len())
            .ok()
            .filter(|_| packet.len() <= self.place_bytes)?;
        if self.free.is_empty() {
            self.grow()?;
        }
        let place = self.free.pop()?;
        let (slab, start) = self.locate(Place(place));
        self.slabs[slab][start..start + packet.len()].copy_from_slice(packet);
        self.lengths[usize::try_from(place).ok()?] = length;
        Some(Place(place))
    }

    /// The packet at this place.
    #[must_use]
    pub fn packet(&self, place: Place) -> &[u8] {
        let (slab, start) = self.locate(place);
        let length = self.lengths.get(place.0 as usize).copied().unwrap_or(0);
        &self.slabs[slab][start..start + usize::from(length)]
    }

    /// Frees a place; it must not be used afterwards.
    pub fn free(&mut self, place: Place) {
        self.free.push(place.0);
    }

    /// Bytes in use.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        (self.lengths.len() - self.free.len()) * self.place_bytes
    }

    /// How many more packets can be kept for certain.
    #[must_use]
    pub fn room_packets(&self) -> usize {
        self.places_max - self.lengths.len() + self.free.len()
    }

    /// The most it will ever hold, in bytes of packets of full length.
    #[must_use]
    pub fn limit_bytes(&self) -> usize {
        self.places_max * self.place_bytes
    }

    /// One slab more; the last one is as large as the limit leaves it.
    fn grow(&mut self) -> Option<()> {
        let places = SLAB_PLACES.min(self.places_max - self.lengths.len());
        if places == 0 {
            return None;
        }
        let first = u32::try_from(self.lengths.len()).ok()?;
        let end = u32::try_from(self.lengths.len() + places).ok()?;
        self.slabs
            .push(vec![0; self.place_bytes * places].into_boxed_slice());
        self.lengths.resize(self.lengths.len() + places, 0);
        self.free.extend((first..end).rev());
        Some(())
    }

    fn locate(&self, place: Place) -> (usize, usize) {
        let at = place.0 as usize;
        (at / SLAB_PLACES, at % SLAB_PLACES * self.place_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_it_was_given_and_stops_at_its_limit() {
        let mut store = Store::new(100, 2 * 64 * 128);
        let places: Vec<Place> = (0..128u8)
            .map(|value| store.keep(&[value; 100]).unwrap())
            .collect();
        assert_eq!(store.keep(&[1]), None);
        assert!(
            places
                .iter()
                .zip(0..)
                .all(|(place, value)| store.packet(*place) == [value; 100])
        );
        store.free(places[5]);
        let again = store.keep(b"short").unwrap();
        assert_eq!(store.packet(again), b"short");
        assert_eq!(store.used_bytes(), 128 * 128);
    }

    #[test]
    fn refuses_a_packet_longer_than_a_place() {
        assert_eq!(Store::new(100, 1 << 20).keep(&[0; 129]), None);
    }
}
