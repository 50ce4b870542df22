//! Losses that a network card counts.

use std::fs;

/// Counters since the host was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Card {
    /// Packets lost when receiving.
    pub(crate) lost: u64,
    /// Packets lost when sending.
    pub(crate) kept: u64,
}

impl Card {
    /// As of now. What is not told counts 0.
    pub(crate) fn now(interface: &str) -> Self {
        read(
            &fs::read_to_string("/proc/net/dev").unwrap_or_default(),
            interface,
        )
    }
}

fn read(text: &str, interface: &str) -> Card {
    let mut lines = text.lines().filter_map(|line| line.split_once(':'));
    let found = lines.find(|(name, _)| name.trim() == interface);
    let numbers = found.map_or("", |(_, numbers)| numbers);
    let numbers: Vec<u64> = numbers
        .split_whitespace()
        .filter_map(|number| number.parse().ok())
        .collect();
    // Each side: bytes, packets, errors, dropped, overruns of the ring, and others.
    let sum = |from: usize| {
        numbers
            .get(from..from + 3)
            .map_or(0, |lost| lost.iter().sum())
    };
    Card {
        lost: sum(2),
        kept: sum(10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_of_both_sides_are_read() {
        let text = "Inter-|   Receive    |  Transmit\n face |bytes packets errs drop\n\
                    \x20 eth0: 900 9 1 2 3 0 0 4 800 8 10 20 30 0 0 0\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
        assert_eq!(read(text, "eth0"), Card { lost: 6, kept: 60 });
        assert_eq!(read(text, "lo"), Card::default());
        assert_eq!(read(text, "eth1"), Card::default());
    }
}
