/// Codepoint of a datagram in the header of IP (ECN; RFC 3168, section 5). Sources and relays send no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Codepoint {
    /// A queue that grows drops it.
    #[default]
    NotCapable,
    /// ECT(0): a queue may mark it in the place of dropping it.
    Capable,
    /// CE: a queue has marked it.
    Marked,
}

impl Codepoint {
    /// The codepoint of these two bits. ECT(1), which is for other controls (RFC 9331), counts as no capability: none
    /// of these sources sends it.
    #[must_use]
    pub fn of(bits: u8) -> Self {
        match bits & 3 {
            3 => Self::Marked,
            2 => Self::Capable,
            _ => Self::NotCapable,
        }
    }

    /// Its two bits.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::NotCapable => 0,
            Self::Capable => 2,
            Self::Marked => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_rfc_3168_and_ect_1_is_no_capability() {
        let of = [0, 1, 2, 3].map(Codepoint::of);
        assert_eq!(of.map(Codepoint::bits), [0, 0, 2, 3]);
        assert_eq!(Codepoint::of(0xb8 | 3), Codepoint::Marked);
    }
}
