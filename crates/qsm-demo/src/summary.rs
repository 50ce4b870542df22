//! The last page of the demonstration.

use std::time::Duration;

use qsm_console::figures::{bytes, count, duration, percent, rate};
use serde::Serialize;

use crate::inboxes::Inboxes;
use crate::plan::LAYOUTS;

/// Faults that are listed one by one.
const FAULTS_SHOWN: usize = 10;

/// What the demonstration came to.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Summary {
    /// Hosts; 0 if all ran on this one.
    pub(crate) hosts: usize,
    /// Processes that received and published.
    pub(crate) receivers: usize,
    /// See there.
    pub(crate) senders: usize,
    /// Groups.
    pub(crate) groups: usize,
    /// Regions: receivers and groups of each.
    pub(crate) regions: Vec<(usize, u32)>,
    /// Groups of one receiver each.
    pub(crate) inboxes: Inboxes,
    /// How long it was published.
    pub(crate) published_for: Duration,
    /// Messages published.
    pub(crate) published_messages: u64,
    /// Their bytes.
    pub(crate) published_bytes: u64,
    /// Messages received, by all receivers together.
    pub(crate) received_messages: u64,
    /// Their bytes.
    pub(crate) received_bytes: u64,
    /// Share of datagrams lost on purpose at each receiver, in parts per million.
    pub(crate) loss_ppm: u32,
    /// Datagrams lost on purpose.
    pub(crate) injected: u64,
    /// Datagrams dropped by kernels.
    pub(crate) kernel_drops: u64,
    /// Packets repaired by other receivers.
    pub(crate) from_receivers: u64,
    /// Packets repaired by their senders.
    pub(crate) from_sender: u64,
    /// Packets that came by unicast to the receiver without multicast.
    pub(crate) copies: u64,
    /// Median time of a repair, of the receivers' medians.
    pub repair_p50: Duration,
    /// From the kill to the exclusion by the membership service.
    pub(crate) excluded_after: Duration,
    /// From the restart to being in all groups.
    pub(crate) rejoined_after: Duration,
    /// From the restart until all senders knew.
    pub(crate) known_after: Duration,
    /// Hashes compared.
    pub(crate) hashes_compared: usize,
    /// What is missing or different.
    pub(crate) faults: Vec<String>,
    /// How long everything took.
    pub(crate) took: Duration,
}

/// What to try after the demonstration.
const NEXT: &str = "`qsm sub news` in one terminal, `echo hello | qsm pub news` in another";

impl Summary {
    /// The page.
    #[must_use]
    pub(crate) fn page(&self) -> String {
        let mut lines = vec![String::new(), "Quicksilver demonstration".to_owned()];
        lines.push("─".repeat(72));
        let mut fact = |name: &str, text: String| lines.push(format!("{name:<14}{text}"));
        let hosts = match self.hosts {
            0 => "this one, over loopback".to_owned(),
            hosts => format!("{hosts} network namespaces around a virtual switch"),
        };
        fact("hosts", hosts);
        fact(
            "processes",
            format!(
                "{} receivers, {} senders, 1 membership service",
                self.receivers, self.senders
            ),
        );
        fact(
            "groups",
            format!("{} ({LAYOUTS})", count(self.groups as u64)),
        );
        fact("regions", self.regions());
        fact("inboxes", self.inboxes());
        fact(
            "published",
            format!(
                "{} messages, {} in {}",
                count(self.published_messages),
                bytes(self.published_bytes),
                duration(self.published_for)
            ),
        );
        fact("received", self.received());
        fact(
            "losses",
            format!(
                "{} packets lost on purpose, {} % at every receiver: data, repairs and control; \
                 {} dropped by kernels",
                count(self.injected),
                f64::from(self.loss_ppm) / 1e4,
                count(self.kernel_drops)
            ),
        );
        fact("repairs", self.repairs());
        fact(
            "no multicast",
            format!(
                "one receiver listens to none (--multicast none): senders copied {} packets to it",
                count(self.copies)
            ),
        );
        fact(
            "crash",
            format!(
                "one receiver killed (SIGKILL): excluded after {}; restarted: back in all its \
                 groups after {}, known to all senders after {}",
                duration(self.excluded_after),
                duration(self.rejoined_after),
                duration(self.known_after)
            ),
        );
        fact("verified", self.verified());
        fact("took", duration(self.took));
        if self.faults.is_empty() {
            fact("next", NEXT.to_owned());
        }
        lines.extend(self.fault_lines());
        lines.push(String::new());
        lines.join("\n")
    }

    fn regions(&self) -> String {
        let each = |(members, groups): &(usize, u32)| format!("{members} × {groups}");
        let all: Vec<String> = self.regions.iter().map(each).collect();
        format!(
            "{} (receivers × groups: {})",
            self.regions.len(),
            all.join(", ")
        )
    }

    fn inboxes(&self) -> String {
        let Inboxes {
            inboxes,
            letters,
            announcements,
            packets,
            private_regions,
            ..
        } = self.inboxes;
        format!(
            "{inboxes}, one of each receiver, {private_regions} of them in private regions, so that they \
             divide nobody; {} letters to one receiver and {} messages to all took {} packets",
            count(letters),
            count(announcements),
            count(packets)
        )
    }

    fn received(&self) -> String {
        let seconds = self.published_for.as_secs_f64().max(1e-3);
        format!(
            "{} messages, {} by all receivers together ({} messages/s, {}/s)",
            count(self.received_messages),
            bytes(self.received_bytes),
            rate(self.received_messages as f64 / seconds),
            bytes((self.received_bytes as f64 / seconds) as u64)
        )
    }

    fn repairs(&self) -> String {
        let all = self.from_receivers + self.from_sender;
        format!(
            "{} data packets: {} by other receivers, {} by their sender; median {}",
            count(all),
            percent(self.from_receivers, all),
            percent(self.from_sender, all),
            duration(self.repair_p50)
        )
    }

    fn verified(&self) -> String {
        match self.faults.len() {
            0 => format!(
                "OK: nothing missing, nothing twice, nothing out of order; {} SHA-256 agree",
                count(self.hashes_compared as u64)
            ),
            faults => format!("FAILED: {} faults", count(faults as u64)),
        }
    }

    fn fault_lines(&self) -> Vec<String> {
        let shown = self.faults.iter().take(FAULTS_SHOWN);
        let mut lines: Vec<String> = shown.map(|fault| format!("  {fault}")).collect();
        if self.faults.len() > FAULTS_SHOWN {
            lines.push(format!("  and {} more", self.faults.len() - FAULTS_SHOWN));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> Summary {
        Summary {
            hosts: 13,
            receivers: 9,
            senders: 3,
            groups: 2205,
            regions: vec![(4, 1500), (3, 1200)],
            inboxes: Inboxes {
                inboxes: 9,
                dividing: 7,
                letters: 6000,
                announcements: 2000,
                packets: 10_000,
                private_regions: 7,
                regions_without: 2,
            },
            published_for: Duration::from_secs(20),
            published_messages: 400_000,
            published_bytes: 100_000_000,
            received_messages: 2_000_000,
            received_bytes: 600_000_000,
            loss_ppm: 20_000,
            injected: 12_345,
            kernel_drops: 0,
            from_receivers: 900,
            from_sender: 100,
            copies: 40_000,
            repair_p50: Duration::from_micros(850),
            excluded_after: Duration::from_millis(1100),
            rejoined_after: Duration::from_millis(300),
            known_after: Duration::from_millis(350),
            hashes_compared: 12_000,
            faults: Vec::new(),
            took: Duration::from_secs(34),
        }
    }

    #[test]
    fn the_page_says_it_all() {
        let expected = "
Quicksilver demonstration
────────────────────────────────────────────────────────────────────────
hosts         13 network namespaces around a virtual switch
processes     9 receivers, 3 senders, 1 membership service
groups        2,205 (exact overlap, hierarchy, cluster-wide, irregular, inboxes)
regions       2 (receivers × groups: 4 × 1500, 3 × 1200)
inboxes       9, one of each receiver, 7 of them in private regions, so that they divide nobody; \
6,000 letters to one receiver and 2,000 messages to all took 10,000 packets
published     400,000 messages, 100 MB in 20.00 s
received      2,000,000 messages, 600 MB by all receivers together (100 k messages/s, 30.0 MB/s)
losses        12,345 packets lost on purpose, 2 % at every receiver: data, repairs and control; \
0 dropped by kernels
repairs       1,000 data packets: 90.0 % by other receivers, 10.0 % by their sender; median 850 µs
no multicast  one receiver listens to none (--multicast none): senders copied 40,000 packets to it
crash         one receiver killed (SIGKILL): excluded after 1.10 s; restarted: back in all its \
groups after 300.0 ms, known to all senders after 350.0 ms
verified      OK: nothing missing, nothing twice, nothing out of order; 12,000 SHA-256 agree
took          34.00 s
next          `qsm sub news` in one terminal, `echo hello | qsm pub news` in another
";
        assert_eq!(summary().page(), expected);
    }

    #[test]
    fn faults_are_shown_but_not_without_end() {
        let mut summary = summary();
        summary.faults = (0..12).map(|at| format!("fault {at}")).collect();
        let page = summary.page();
        assert!(page.contains("FAILED: 12 faults"), "{page}");
        assert!(page.contains("fault 9\n  and 2 more"), "{page}");
        assert!(!page.contains("\nnext "), "{page}");
    }
}
