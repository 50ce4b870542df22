//! Numbers of things in texts.

use core::fmt;

/// So many things, of which this is the name of one, with a regular plural: `1 message`, `2 messages`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Counted(pub(crate) u64, pub(crate) &'static str);

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(number, noun) = self;
        let ending = if *number == 1 { "" } else { "s" };
        write!(f, "{number} {noun}{ending}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_singular() {
        let told = [0, 1, 2].map(|number| Counted(number, "message").to_string());
        assert_eq!(told, ["0 messages", "1 message", "2 messages"]);
    }
}
