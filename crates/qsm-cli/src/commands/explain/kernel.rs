//! Packets that the kernel and the network card have dropped before any socket.

use std::fs;
use std::path::Path;

/// Files of the card's own losses: no room for a packet.
const CARD: [&str; 2] = ["rx_missed_errors", "rx_fifo_errors"];

/// Packets dropped before sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct KernelDrops {
    /// For want of room in the queues before protocols, on all CPUs.
    pub(super) softirq: u64,
    /// For want of room in network cards, of all interfaces.
    pub(super) card: u64,
}

impl KernelDrops {
    /// So far. What cannot be read counts as none.
    pub(super) fn now() -> Self {
        let softnet = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
        Self {
            softirq: softirq(&softnet),
            card: card(Path::new("/sys/class/net")),
        }
    }

    pub(super) fn since(self, before: Self) -> Self {
        Self {
            softirq: self.softirq.saturating_sub(before.softirq),
            card: self.card.saturating_sub(before.card),
        }
    }
}

/// The second column, in hexadecimal, of a line for each CPU.
fn softirq(softnet: &str) -> u64 {
    let dropped = softnet
        .lines()
        .filter_map(|line| line.split_whitespace().nth(1));
    let dropped = dropped.filter_map(|number| u64::from_str_radix(number, 16).ok());
    dropped.sum()
}

fn card(interfaces: &Path) -> u64 {
    let interfaces = fs::read_dir(interfaces).into_iter().flatten().flatten();
    let files = interfaces.flat_map(|interface| {
        let statistics = interface.path().join("statistics");
        CARD.map(|name| statistics.join(name))
    });
    let numbers =
        files.filter_map(|file| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok());
    numbers.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_of_all_cpus_are_added() {
        let softnet = "0001a2b3 00000010 00000002 00000000\n0000beef 0000000a 00000000 00000000\n";
        assert_eq!(softirq(softnet), 26);
        assert_eq!(softirq("nothing\n"), 0);
    }

    #[test]
    fn this_host_can_be_read() {
        let (before, now) = (KernelDrops::now(), KernelDrops::now());
        assert!(now.card >= before.card && now.softirq >= before.softirq);
    }
}
