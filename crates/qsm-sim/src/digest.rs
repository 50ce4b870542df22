use qsm_proto::mix;

/// A running hash over everything that a run puts out; two runs of the same seed must have the
/// same one (requirement: same configuration, seed and inputs give byte-identical outputs).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(u64);

impl Digest {
    pub(crate) fn new(seed: u64) -> Self {
        Self(mix(seed))
    }

    pub(crate) fn value(self) -> u64 {
        self.0
    }

    pub(crate) fn number(&mut self, value: u64) {
        self.0 = mix(self.0 ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(value);
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.number(u64::from_le_bytes(*word));
        }
        for byte in rest {
            self.number(u64::from(*byte));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_depends_on_order_and_on_every_byte() {
        let of = |parts: &[&[u8]]| {
            let mut digest = Digest::new(1);
            parts.iter().for_each(|part| digest.bytes(part));
            digest.value()
        };
        assert_eq!(of(&[b"0123456789"]), of(&[b"0123456789"]));
        assert_ne!(of(&[b"0123456789"]), of(&[b"0123456788"]));
        assert_ne!(of(&[b"ab", b"c"]), of(&[b"a", b"bc"]));
    }
}
