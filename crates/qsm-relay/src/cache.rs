//! Packets that a relay keeps to repair with, where it is given memory for them. Rules R-RELAY-40,
//! R-RELAY-41.

use std::collections::BTreeMap;

use crate::packet::SessionId;

/// Memory of a packet beside its payload, about, bytes.
const ENTRY_BYTES: usize = 160;

/// A packet, by when it came.
#[derive(Debug)]
struct Kept {
    stamp: u64,
    payload: Box<[u8]>,
}

/// The newest packets of all sessions of a relay that fit its memory.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    limit: usize,
    bytes: usize,
    stamp: u64,
    packets: BTreeMap<(SessionId, u64), Kept>,
    order: BTreeMap<u64, (SessionId, u64)>,
    evicted: u64,
}

impl Cache {
    /// A cache that takes so many bytes at most; with 0 it keeps nothing.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// Keeps a packet; the oldest ones go out for it.
    pub(crate) fn put(&mut self, id: SessionId, sequence: u64, payload: &[u8]) {
        let size = payload.len() + ENTRY_BYTES;
        if size > self.limit || self.has(id, sequence) {
            return;
        }
        while self.bytes + size > self.limit
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.drop_packet(oldest);
            self.evicted += 1;
        }
        self.stamp += 1;
        let (stamp, payload) = (self.stamp, payload.into());
        self.bytes += size;
        self.order.insert(stamp, (id, sequence));
        self.packets.insert((id, sequence), Kept { stamp, payload });
    }

    pub(crate) fn has(&self, id: SessionId, sequence: u64) -> bool {
        self.packets.contains_key(&(id, sequence))
    }

    pub(crate) fn payload(&self, id: SessionId, sequence: u64) -> Option<&[u8]> {
        let kept = self.packets.get(&(id, sequence))?;
        Some(&kept.payload)
    }

    /// Drops a session's packets up to this one: nobody asks for them any more.
    #[inline]
    pub(crate) fn release(&mut self, id: SessionId, upto: u64) {
        while let Some((&key, _)) = self.packets.range((id, 0)..=(id, upto)).next() {
            self.drop_packet(key);
        }
    }

    /// Bytes that it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Packets that went out for others.
    pub(crate) fn evicted(&self) -> u64 {
        self.evicted
    }

    fn drop_packet(&mut self, key: (SessionId, u64)) {
        if let Some(kept) = self.packets.remove(&key) {
            self.order.remove(&kept.stamp);
            self.bytes -= kept.payload.len() + ENTRY_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: SessionId = SessionId {
        source: 1,
        group: 1,
    };
    const OTHER: SessionId = SessionId {
        source: 2,
        group: 1,
    };

    /// R-RELAY-40.
    #[test]
    fn the_oldest_packets_of_all_sessions_go_out_first() {
        let mut cache = Cache::new(3 * (ENTRY_BYTES + 10));
        cache.put(OTHER, 9, &[0; 10]);
        cache.put(ONE, 2, &[2; 10]);
        cache.put(ONE, 1, &[1; 10]);
        cache.put(ONE, 1, &[7; 10]);
        assert_eq!(cache.payload(ONE, 1), Some(&[1; 10][..]));
        cache.put(ONE, 3, &[3; 5]);
        assert!(!cache.has(OTHER, 9) && cache.has(ONE, 2));
        assert_eq!((cache.evicted(), cache.bytes()), (1, 3 * ENTRY_BYTES + 25));
        cache.release(ONE, 2);
        assert_eq!(cache.bytes(), ENTRY_BYTES + 5);
        cache.put(ONE, 4, &[0; 1000]);
        assert!(!cache.has(ONE, 4), "larger than all of it");
        cache.release(ONE, u64::MAX);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn without_memory_nothing_is_kept() {
        let mut cache = Cache::new(0);
        cache.put(ONE, 1, &[]);
        assert!(!cache.has(ONE, 1));
    }
}
