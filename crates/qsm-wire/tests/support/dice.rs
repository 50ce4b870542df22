//! A small seeded generator (SplitMix64), so that a failure repeats from its seed.

/// Numbers that look random and are the same in every run.
#[derive(Debug, Clone)]
pub struct Dice(pub u64);

impl Dice {
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound as u64) as usize
    }

    /// A number that is often one at which arithmetic goes wrong.
    pub fn u64(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => self.bits() & 0xff,
            3 => u64::from(u32::MAX).wrapping_add(self.bits() & 3),
            _ => self.bits(),
        }
    }

    pub fn u32(&mut self) -> u32 {
        self.u64() as u32
    }

    pub fn u16(&mut self) -> u16 {
        self.u64() as u16
    }

    pub fn u8(&mut self) -> u8 {
        self.bits() as u8
    }

    pub fn flag(&mut self) -> bool {
        self.bits() & 1 == 1
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.u8()).collect()
    }

    /// Up to `max` things.
    pub fn list<T>(&mut self, max: usize, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.below(max + 1)).map(|_| one(self)).collect()
    }

    /// Changes a few bytes in place, or the length, the way damaged or hostile datagrams differ
    /// from good ones.
    pub fn mutate(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len().max(1));
            match self.below(6) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at.min(bytes.len()), self.0 as u8),
                2 => bytes.extend_from_within(at.min(bytes.len())..),
                3 => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = [0, 1, 0x7f, 0x80, 0xff][(self.0 % 5) as usize];
                    }
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte ^= 1 << (self.0 % 8);
                    }
                }
            }
            self.bits();
        }
    }
}
