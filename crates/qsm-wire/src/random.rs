/// Where all randomness of a node comes from. Same seed, same inputs: same outputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seed(pub u64);

/// A small generator of our own (SplitMix64, Steele et al. 2014), so that a dependency's upgrade
/// cannot change a trace. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// The stream of numbers that belongs to this seed and this name. Every component has its
    /// own, so that one more draw in one of them changes nothing in the others.
    #[inline]
    #[must_use]
    pub fn new(seed: Seed, name: &str) -> Self {
        let mut random = Self { state: seed.0 };
        for byte in name.bytes() {
            random.state ^= u64::from(byte);
            random.bits();
        }
        random
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`; 0 when `bound` is 0. The bias is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.bits()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Whether an event of this probability, in parts per million, happens now.
    #[inline]
    pub fn chance_ppm(&mut self, ppm: u32) -> bool {
        self.below(1_000_000) < u64::from(ppm)
    }
}

/// Spreads a number's bits over all 64 (the finaliser of `SplitMix64`): the hash of this crate.
#[inline]
#[must_use]
pub fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
