use std::fs;
use std::net::UdpSocket;

use rustix::net::sockopt;

use crate::facts::Kernel;

pub(crate) fn read(interface: &str, receive_buffer: u64) -> Kernel {
    let own = |name: &str| number(&format!("net/ipv4/conf/{interface}/{name}"));
    Kernel {
        rmem_max: number("net/core/rmem_max"),
        granted: granted(receive_buffer),
        igmp_max_memberships: number("net/ipv4/igmp_max_memberships"),
        igmp_max_msf: number("net/ipv4/igmp_max_msf"),
        force_igmp_version: own("force_igmp_version"),
        rp_filter_all: number("net/ipv4/conf/all/rp_filter"),
        rp_filter: own("rp_filter"),
        netdev_max_backlog: number("net/core/netdev_max_backlog"),
        backlog: None,
        udp: None,
        clock_source: text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governors: governors(),
    }
}

fn text(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// A setting below `/proc/sys`.
fn number(name: &str) -> Option<u64> {
    text(&format!("/proc/sys/{name}"))?.parse().ok()
}

/// The kernel tells twice what it was asked for, for its own overhead.
fn granted(receive_buffer: u64) -> Option<u64> {
    let socket = UdpSocket::bind("127.0.0.1:0").ok()?;
    let bytes = usize::try_from(receive_buffer).ok()?;
    sockopt::set_socket_recv_buffer_size(&socket, bytes).ok()?;
    let told = sockopt::socket_recv_buffer_size(&socket).ok()?;
    u64::try_from(told / 2).ok()
}

fn governors() -> Vec<(String, String)> {
    let Ok(folder) = fs::read_dir("/sys/devices/system/cpu/cpufreq") else {
        return Vec::new();
    };
    let paths = folder.filter_map(|entry| Some(entry.ok()?.path().join("scaling_governor")));
    let mut found: Vec<_> = paths
        .filter_map(|path| Some((path.to_str()?.to_owned(), text(path.to_str()?)?)))
        .collect();
    found.sort();
    found
}

/// Datagrams lost for want of room, and those received.
pub(crate) fn udp() -> Option<[u64; 2]> {
    udp_of(&fs::read_to_string("/proc/net/snmp").ok()?)
}

fn udp_of(text: &str) -> Option<[u64; 2]> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let of = |name: &str| {
        let at = names.split_whitespace().position(|other| other == name)?;
        values.split_whitespace().nth(at)?.parse().ok()
    };
    Some([of("RcvbufErrors")?, of("InDatagrams")?])
}

/// Packets lost between card and protocols, and those handled, of all CPUs.
pub(crate) fn backlog() -> Option<[u64; 2]> {
    backlog_of(&fs::read_to_string("/proc/net/softnet_stat").ok()?)
}

fn backlog_of(text: &str) -> Option<[u64; 2]> {
    let mut sums = [0, 0];
    for line in text.lines() {
        let mut columns = line.split_whitespace();
        let mut hex = || u64::from_str_radix(columns.next()?, 16).ok();
        let (handled, dropped) = (hex()?, hex()?);
        sums[0] += dropped;
        sums[1] += handled;
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_their_names() {
        let text = "Ip: A\nIp: 1\nUdp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors\n\
                    Udp: 100 2 3 4 5\nUdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(udp_of(text), Some([5, 100]));
        assert_eq!(udp_of("Udp: InDatagrams\nUdp: 1\n"), None);
        let text = "0000000a 00000001 00000003\n00000010 00000002 00000000\n";
        assert_eq!(backlog_of(text), Some([3, 26]));
        assert_eq!(backlog_of("x\n"), None);
    }

    #[test]
    fn this_host_has_settings() {
        let kernel = read("lo", 1 << 16);
        assert!(kernel.rmem_max > Some(0));
        assert_eq!(kernel.granted, Some(1 << 16).min(kernel.rmem_max));
        assert!(udp().is_some() && backlog().is_some());
    }
}
