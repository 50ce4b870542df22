use qsm_wire::{Random, Seed, covered_bytes};

/// Most bits that change.
const BITS_MAX: u64 = 8;

/// A copy of a datagram as it arrives when it has been damaged: cut short, or with some bits
/// changed where its checksum covers it.
#[must_use]
pub fn damaged(datagram: &[u8], seed: Seed) -> Vec<u8> {
    let mut random = Random::new(seed, "damage");
    let mut below = |bound: usize| usize::try_from(random.below(bound as u64)).unwrap_or(0);
    let mut copy = datagram.to_vec();
    if copy.is_empty() || below(4) == 0 {
        copy.truncate(below(datagram.len().max(1)));
        return copy;
    }
    let covered = covered_bytes(datagram);
    for _ in 0..=below(BITS_MAX as usize) {
        copy[below(covered)] ^= 1 << below(8);
    }
    copy
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Coverage, Header, Origin, Packet, StreamQuery, is_intact, seal};

    use super::*;

    #[test]
    fn what_is_damaged_is_found_out() {
        let query = StreamQuery {
            channel: qsm_wire::ChannelId(3),
            stream: Origin::default(),
        };
        let mut bytes = Vec::new();
        query.encode(&Header::default(), &mut bytes);
        seal(&mut bytes, Coverage::Whole);
        let copies: Vec<_> = (0..1000).map(|seed| damaged(&bytes, Seed(seed))).collect();
        let (shorter, changed): (Vec<_>, Vec<_>) =
            copies.iter().partition(|copy| copy.len() < bytes.len());
        assert!((150..350).contains(&shorter.len()));
        assert!(shorter.iter().all(|copy| !is_intact(copy)));
        // Bits may have changed back, or in the hop alone.
        let believed = |copy: &&&Vec<u8>| Packet::open(copy).is_ok();
        let believed: Vec<_> = changed.iter().filter(believed).collect();
        assert!(believed.len() < 30, "{}", believed.len());
        assert!(believed.iter().all(|copy| copy[4..] == bytes[4..]));
    }
}
