//! The ways of sending and receiving faster: which of them a port uses, and why.

use std::fmt;
use std::io;

use crate::busy_poll::BusyPoll;
use crate::copier::Cloning;
use crate::receive;
use crate::report::IoReport;
use crate::send::{self, Gso};

/// A way of doing something faster, whether it is in use, and why. `Display` gives one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Strategy {
    /// What it is called.
    pub name: &'static str,
    /// It is in use, to the full extent that was asked for.
    pub used: bool,
    /// How, or why not, and what to do about it.
    pub reason: String,
}

impl Strategy {
    /// One that is in use.
    pub fn used(name: &'static str, reason: impl Into<String>) -> Self {
        let (used, reason) = (true, reason.into());
        Self { name, used, reason }
    }

    /// One that is not, or not as asked for.
    pub fn unused(name: &'static str, reason: impl Into<String>) -> Self {
        let (used, reason) = (false, reason.into());
        Self { name, used, reason }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = if self.used { "yes" } else { "no" };
        write!(f, "{}: {used}, {}", self.name, self.reason)
    }
}

/// Those of a port.
pub(crate) fn of(report: &IoReport) -> Vec<Strategy> {
    vec![
        sending(report),
        receiving(report),
        batches(),
        receive_buffer(report),
        send_buffer(report),
        copies(report),
        busy_poll(report),
    ]
}

fn sending(report: &IoReport) -> Strategy {
    const NAME: &str = "trains sent (UDP GSO)";
    let trains = send::TRAIN_MAX;
    let name = &report.interface.name;
    match report.gso {
        Gso::On => Strategy::used(
            NAME,
            format!("up to {trains} datagrams for one system call"),
        ),
        Gso::OffByConfiguration => Strategy::unused(NAME, "as configured"),
        Gso::OffByKernel => Strategy::unused(NAME, "the kernel has none; Linux 4.18 has"),
        Gso::Refused(number) => Strategy::unused(
            NAME,
            format!(
                "{name} refused a train: {}; try `ethtool -K {name} tx-checksum-ip-generic on`",
                said(number)
            ),
        ),
    }
}

fn receiving(report: &IoReport) -> Strategy {
    const NAME: &str = "trains received (UDP GRO)";
    match (report.gro, report.gso) {
        (true, _) => Strategy::used(NAME, "trains arrive whole, in up to 64 KiB"),
        (false, Gso::OffByConfiguration) => Strategy::unused(NAME, "as configured"),
        (false, _) => Strategy::unused(NAME, "the kernel has none; Linux 5.0 has"),
    }
}

fn batches() -> Strategy {
    let (taken, given) = (receive::BATCH, send::MESSAGES);
    Strategy::used(
        "batches",
        format!("up to {taken} datagrams or trains for one recvmmsg, {given} for one sendmmsg"),
    )
}

fn receive_buffer(report: &IoReport) -> Strategy {
    const NAME: &str = "receive buffer";
    let granted = report.receive_buffer_granted;
    let reason = format!("{granted} bytes for each socket");
    match report.receive_buffer_remedy() {
        None => Strategy::used(NAME, reason),
        Some(remedy) => Strategy::unused(
            NAME,
            format!(
                "{reason}, {} were asked for; allow it with `{remedy}`",
                report.receive_buffer_asked
            ),
        ),
    }
}

fn send_buffer(report: &IoReport) -> Strategy {
    const NAME: &str = "send buffer";
    let (granted, asked) = (report.send_buffer_granted, report.send_buffer_asked);
    if granted >= asked {
        return Strategy::used(NAME, format!("{granted} bytes"));
    }
    Strategy::unused(
        NAME,
        format!(
            "{granted} bytes, {asked} were asked for; allow it with `sysctl -w net.core.wmem_max={asked}`"
        ),
    )
}

fn copies(report: &IoReport) -> Strategy {
    const NAME: &str = Cloning::NAME;
    match &report.cloning {
        Cloning::NotAsked => Strategy::unused(NAME, "not asked for"),
        Cloning::By(device) => Strategy::used(
            NAME,
            format!("from {device}, behind the back of this host's firewall"),
        ),
        Cloning::Refused(reason) => Strategy::unused(
            NAME,
            format!(
                "{reason}; it takes the capabilities CAP_NET_ADMIN and CAP_BPF, and /dev/net/tun"
            ),
        ),
    }
}

fn busy_poll(report: &IoReport) -> Strategy {
    const NAME: &str = "busy polling";
    let Some(busy) = report.busy_poll else {
        return Strategy::unused(NAME, "not asked for");
    };
    let BusyPoll {
        asked,
        reading_refused,
        waiting_refused,
    } = busy;
    let micros = asked.as_micros();
    if report.interface.loopback {
        let name = &report.interface.name;
        return Strategy::unused(
            NAME,
            format!("{name} has no device whose queue could be looked at"),
        );
    }
    let mut remedies = Vec::new();
    remedies.extend(reading_refused.map(|number| {
        format!(
            "refused for reading: {}; run with the capability CAP_NET_ADMIN, or allow it with \
             `sysctl -w net.core.busy_read={micros}`",
            said(number)
        )
    }));
    remedies.extend(waiting_refused.map(|number| {
        format!(
            "refused for waiting: {}; Linux 6.9 has it, before that `sysctl -w net.core.busy_poll={micros}`",
            said(number)
        )
    }));
    match remedies.is_empty() {
        true => Strategy::used(
            NAME,
            format!("{micros} µs before waiting for an interrupt, if the driver can"),
        ),
        false => Strategy::unused(NAME, remedies.join("; ")),
    }
}

fn said(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::interface::interfaces;
    use crate::{Port, PortConfig};

    fn report() -> IoReport {
        let interfaces = interfaces().unwrap();
        let of_this_host =
            |interface: &&crate::Interface| interface.loopback && interface.addr.is_ipv4();
        let interface = interfaces.iter().find(of_this_host).unwrap();
        let config = PortConfig::new(interface.clone());
        Port::open(config).unwrap().report()
    }

    fn line(report: &IoReport, name: &str) -> String {
        let all = of(report);
        let found = all.iter().find(|strategy| strategy.name.starts_with(name));
        found.unwrap().to_string()
    }

    #[test]
    fn what_is_refused_says_why_and_what_to_do() {
        let mut report = report();
        report.gso = Gso::Refused(libc::EIO);
        report.gro = false;
        report.send_buffer_granted = 1000;
        assert!(
            line(&report, "trains sent").contains("no, lo refused a train: Input/output error")
        );
        assert!(line(&report, "trains received").contains("no, the kernel has none"));
        let asked = report.send_buffer_asked;
        let remedy = format!("`sysctl -w net.core.wmem_max={asked}`");
        assert!(line(&report, "send buffer").contains(&remedy));
    }

    #[test]
    fn clones_that_cannot_be_had_say_what_they_take() {
        let mut report = report();
        assert_eq!(
            line(&report, Cloning::NAME),
            "copies cloned in the kernel: no, not asked for"
        );
        report.cloning = Cloning::Refused("no device: Operation not permitted".to_owned());
        let line = line(&report, Cloning::NAME);
        assert!(line.contains("no, no device") && line.contains("CAP_NET_ADMIN"));
    }

    #[test]
    fn busy_polling_is_refused_in_two_places_by_themselves() {
        let mut report = report();
        assert_eq!(line(&report, "busy"), "busy polling: no, not asked for");
        let busy = BusyPoll {
            asked: Duration::from_micros(50),
            reading_refused: None,
            waiting_refused: None,
        };
        report.busy_poll = Some(busy);
        assert_eq!(
            line(&report, "busy"),
            "busy polling: no, lo has no device whose queue could be looked at"
        );
        report.interface.loopback = false;
        assert!(line(&report, "busy").starts_with("busy polling: yes, 50 µs"));
        report.busy_poll = Some(BusyPoll {
            reading_refused: Some(libc::EPERM),
            waiting_refused: Some(libc::ENOTTY),
            ..busy
        });
        let line = line(&report, "busy");
        assert!(
            line.contains("CAP_NET_ADMIN") && line.contains("net.core.busy_poll=50"),
            "{line}"
        );
    }
}
