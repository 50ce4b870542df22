//! The verdicts and their limits.

use std::collections::BTreeSet;
use std::fmt;
use std::net::Ipv4Addr;

use crate::change::{Action, Change};
use crate::facts::{Facts, Growth, Kind, Ring};
use crate::firewall::{Drop, Firewall, Packet};
use crate::report::{Finding, Report, Verdict};

/// Comment of rules that this program makes.
const RULE_COMMENT: &str = "qsm-doctor";

/// What a host is to be good for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wishes {
    /// Receive buffer of each socket, bytes.
    pub receive_buffer: u64,
    /// Latency that a network card may add, microseconds.
    pub coalescing_micros: u64,
    /// Multicast addresses and ports that are used.
    pub channels: Vec<(Ipv4Addr, u16)>,
    /// Addresses and ports of nodes that run here, for unicast.
    pub nodes: Vec<(Ipv4Addr, u16)>,
}

impl Default for Wishes {
    /// The defaults of Quicksilver, and the latency of 8,000 interrupts a second.
    fn default() -> Self {
        Self {
            receive_buffer: 32 << 20,
            coalescing_micros: 125,
            channels: vec![
                (Ipv4Addr::new(239, 192, 83, 77), 4483),
                (Ipv4Addr::new(239, 192, 0, 1), 4484),
            ],
            nodes: Vec::new(),
        }
    }
}

/// Below this a receiver loses at everyday rates: 5 ms at 100 MB/s.
const RECEIVE_BUFFER_LEAST: u64 = 1 << 20;
/// Memberships of a socket: discovery, and the channels of a node's region.
const MEMBERSHIPS_LEAST: u64 = 8;
/// The default of Linux.
const MEMBERSHIPS: u64 = 20;
/// The default of Linux.
const SOURCES: u64 = 10;
/// The default of Linux.
const BACKLOG: u64 = 1000;
/// What the backlog is to be raised to.
const BACKLOG_MORE: u64 = 10_000;
/// Payload, headers and room for options; every network of IPv4 carries as much.
const MTU_LEAST: u64 = 576;
const MTU: u64 = 1500;
/// One lost of so many handled is told of, although it may be long ago.
const LOST_SHARE: u64 = 1000;

/// Judges facts.
#[must_use]
pub fn examine(facts: &Facts, wishes: &Wishes) -> Report {
    let findings = vec![
        link(facts),
        address(facts),
        claimed(facts),
        kind(facts),
        multicast_flag(facts),
        mtu(facts),
        route(facts),
        rp_filter(facts),
        igmp_version(facts),
        memberships(facts),
        sources(facts),
        firewall(facts, wishes),
        snooping(facts),
        receive_buffer(facts, wishes),
        udp_drops(facts),
        backlog(facts),
        ring(facts),
        coalescing(facts, wishes),
        pause(facts),
        gro(facts),
        governor(facts),
        clock(facts),
    ];
    Report {
        interface: facts.link.name.clone(),
        findings,
    }
}

fn finding(id: &'static str, verdict: Verdict, evidence: impl Into<String>) -> Finding {
    Finding {
        id,
        verdict,
        evidence: evidence.into(),
        remedy: String::new(),
        changes: Vec::new(),
    }
}

fn ok(id: &'static str, evidence: impl Into<String>) -> Finding {
    finding(id, Verdict::Ok, evidence)
}

fn unknown(id: &'static str, evidence: impl Into<String>) -> Finding {
    finding(id, Verdict::Unknown, evidence)
}

impl Finding {
    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = remedy.into();
        self
    }

    fn change(mut self, change: Change) -> Self {
        self.changes.push(change);
        self
    }
}

/// A setting of the kernel, by the name that `sysctl` has for it.
fn sysctl(name: &str, before: u64, after: u64) -> (String, Change) {
    let path = format!("/proc/sys/{}", name.replace('.', "/"));
    setting(name, &path, before, after)
}

/// A setting of an interface, whose name may have dots.
fn sysctl_of(interface: &str, name: &str, before: u64, after: u64) -> (String, Change) {
    let path = format!("/proc/sys/net/ipv4/conf/{interface}/{name}");
    let shown = interface.replace('.', "/");
    setting(
        &format!("net.ipv4.conf.{shown}.{name}"),
        &path,
        before,
        after,
    )
}

fn setting(name: &str, path: &str, before: u64, after: u64) -> (String, Change) {
    let remedy = format!("sysctl -w {name}={after}, and the same in a file of /etc/sysctl.d");
    (remedy, Change::setting(path, before, after))
}

fn ip_link(facts: &Facts, make: &[&str], undo: &[&str]) -> Change {
    Change::program("ip", &["link", "set", "dev", &facts.link.name], make, undo)
}

fn ethtool(facts: &Facts, option: &str, make: &[&str], undo: &[&str]) -> Change {
    Change::program("ethtool", &[option, &facts.link.name], make, undo)
}

/// A change in the words that an operator would type.
fn typed(change: &Change) -> String {
    change.make.to_string()
}

fn link(facts: &Facts) -> Finding {
    let (id, name) = ("link", &facts.link.name);
    match (facts.link.up, facts.link.carrier) {
        (Some(false), _) => {
            let up = ip_link(facts, &["up"], &["down"]);
            finding(id, Verdict::Fault, format!("{name} is down"))
                .remedy(typed(&up))
                .change(up)
        }
        (_, Some(false)) => finding(id, Verdict::Fault, format!("{name} has no carrier"))
            .remedy("check cable, switch port, or the other end of the pair"),
        (Some(true), _) => ok(id, format!("{name} is up")),
        (None, _) => unknown(id, format!("`ip link` tells nothing of {name}")),
    }
}

fn address(facts: &Facts) -> Finding {
    let (id, link) = ("address", &facts.link);
    match (link.addresses.first(), link.ipv6) {
        (Some(first), _) => ok(id, format!("{} has {first}", link.name)),
        (None, true) => ok(id, format!("{} has an address of IPv6 only", link.name)),
        (None, false) if link.up.is_none() => unknown(id, "no interface is known"),
        (None, false) => finding(id, Verdict::Fault, format!("{} has no address", link.name))
            .remedy(format!("ip address add ADDRESS/LENGTH dev {}", link.name)),
    }
}

fn claimed(facts: &Facts) -> Finding {
    let id = "duplicate-address";
    match facts.claims.as_deref() {
        _ if facts.link.kind == Some(Kind::Loopback) => ok(id, "nobody else is there"),
        None => unknown(id, "nobody was asked: that takes root, and a network with ARP"),
        Some([]) => ok(id, "no other host answers for its addresses"),
        Some([claim, ..]) => finding(
            id,
            Verdict::Fault,
            format!(
                "{} is also the address of the host with hardware address {}",
                claim.address, claim.hardware
            ),
        )
        .remedy(format!(
            "give one of the two another address; who it is, `ip neigh` and the switch's table of {} say",
            claim.hardware
        )),
    }
}

fn kind(facts: &Facts) -> Finding {
    let (id, name) = ("interface-kind", &facts.link.name);
    let warning = |text: String, remedy: &str| finding(id, Verdict::Warning, text).remedy(remedy);
    match &facts.link.kind {
        None => unknown(id, "`ip -d link` tells no kind"),
        Some(Kind::Loopback) => warning(
            format!("{name} is the host itself: no other host is reached"),
            "choose another interface with --interface, unless one host is meant",
        ),
        Some(Kind::Wireless) => warning(
            format!(
                "{name} is wireless: access points send multicast at their lowest rate, unacknowledged{}",
                unicast_words(facts)
            ),
            "use a cable; or let the access point turn multicast into unicast",
        ),
        Some(Kind::Tunnel(kind)) => warning(
            format!(
                "{name} is a tunnel ({kind}): most of them carry no multicast{}",
                unicast_words(facts)
            ),
            "check it as the page \"Networks\" says, or use another network",
        ),
        Some(Kind::Ethernet) => ok(id, format!("{name} is an Ethernet")),
        Some(Kind::Bridge) => ok(id, format!("{name} is a bridge of this host")),
        Some(Kind::Veth) => ok(
            id,
            format!("{name} is one end of a pair, as of a container"),
        ),
        Some(Kind::Other(kind)) => ok(id, format!("{name} is of the kind {kind}")),
    }
}

/// Nodes do not multicast there if nothing is said.
fn goes_by_unicast(facts: &Facts) -> bool {
    let medium = facts.link.medium;
    medium.is_some_and(|medium| !medium.suits_multicast())
}

fn unicast_words(facts: &Facts) -> &'static str {
    match goes_by_unicast(facts) {
        true => "; nodes go by unicast there unless --multicast asm says otherwise",
        false => "",
    }
}

fn multicast_flag(facts: &Facts) -> Finding {
    let (id, name) = ("multicast-flag", &facts.link.name);
    match facts.link.multicast {
        None => unknown(id, "`ip link` tells no flags"),
        Some(true) => ok(id, format!("{name} carries multicast")),
        Some(false) if facts.link.kind == Some(Kind::Loopback) => ok(
            id,
            format!("{name} carries multicast within the host without the flag"),
        ),
        Some(false) if goes_by_unicast(facts) => ok(
            id,
            format!("{name} carries no multicast, and nodes need none there, but --service"),
        ),
        Some(false) => {
            let on = ip_link(facts, &["multicast", "on"], &["multicast", "off"]);
            finding(
                id,
                Verdict::Fault,
                format!("{name} lacks the flag MULTICAST"),
            )
            .remedy(typed(&on))
            .change(on)
        }
    }
}

fn mtu(facts: &Facts) -> Finding {
    let (id, name) = ("mtu", &facts.link.name);
    let Some(mtu) = facts.link.mtu else {
        return unknown(id, "`ip link` tells no MTU");
    };
    let evidence = format!("{name} carries packets of {mtu} bytes");
    let verdict = match mtu {
        ..MTU_LEAST => Verdict::Fault,
        MTU_LEAST..1280 => Verdict::Warning,
        1280..MTU => return ok(id, format!("{evidence}, a little less than Ethernet")),
        _ => return ok(id, evidence),
    };
    let (now, ethernet) = (mtu.to_string(), MTU.to_string());
    let change = ip_link(facts, &["mtu", &ethernet], &["mtu", &now]);
    let finding = finding(id, verdict, evidence).remedy(format!(
        "if the whole network carries more: {}",
        typed(&change)
    ));
    // Less than a node needs, on a network that carries so much by its standard.
    let kind = facts.link.kind.as_ref();
    let is_ethernet =
        kind.is_some_and(|kind| matches!(kind, Kind::Ethernet | Kind::Bridge | Kind::Veth));
    match verdict == Verdict::Fault && is_ethernet {
        true => finding.change(change),
        false => finding,
    }
}

fn route(facts: &Facts) -> Finding {
    let (id, name) = ("multicast-route", &facts.link.name);
    match facts.route {
        None => unknown(id, "`ip route get` tells nothing"),
        Some(true) => ok(id, format!("multicast leaves by {name}")),
        Some(false) => finding(
            id,
            Verdict::Fault,
            format!("the kernel finds no way for multicast out of {name}"),
        )
        .remedy(format!("ip route replace 224.0.0.0/4 dev {name}")),
    }
}

fn rp_filter(facts: &Facts) -> Finding {
    let id = "rp-filter";
    let (Some(all), Some(own)) = (facts.kernel.rp_filter_all, facts.kernel.rp_filter) else {
        return unknown(id, "rp_filter cannot be read");
    };
    let evidence = format!("rp_filter is {all} for all, {own} for {}", facts.link.name);
    // Of the two the larger one holds: 1 is strict, 2 is loose.
    if all.max(own) != 1 {
        return ok(id, evidence);
    }
    if facts.others.is_empty() {
        return ok(id, format!("{evidence}: strict, with one network only"));
    }
    let (remedy, change) = sysctl_of(&facts.link.name, "rp_filter", own, 2);
    let others = facts.others.join(", ");
    finding(
        id,
        Verdict::Warning,
        format!("{evidence}: senders whose way back leads over {others} are dropped"),
    )
    .remedy(remedy)
    .change(change)
}

fn igmp_version(facts: &Facts) -> Finding {
    let id = "igmp-version";
    match facts.kernel.force_igmp_version {
        None => unknown(id, "force_igmp_version cannot be read"),
        Some(0 | 3) => ok(id, "IGMP version 3, or what the querier speaks"),
        Some(version) => {
            let (remedy, change) = sysctl_of(&facts.link.name, "force_igmp_version", version, 0);
            finding(
                id,
                Verdict::Warning,
                format!("IGMP is held at version {version}: no source-specific multicast"),
            )
            .remedy(remedy)
            .change(change)
        }
    }
}

fn memberships(facts: &Facts) -> Finding {
    let id = "igmp-memberships";
    let Some(most) = facts.kernel.igmp_max_memberships else {
        return unknown(id, "igmp_max_memberships cannot be read");
    };
    let evidence = format!("a socket may join {most} groups (igmp_max_memberships)");
    let verdict = match most {
        ..MEMBERSHIPS_LEAST => Verdict::Fault,
        MEMBERSHIPS_LEAST..MEMBERSHIPS => Verdict::Warning,
        _ => return ok(id, evidence),
    };
    let (remedy, change) = sysctl("net.ipv4.igmp_max_memberships", most, MEMBERSHIPS);
    finding(id, verdict, evidence).remedy(remedy).change(change)
}

fn sources(facts: &Facts) -> Finding {
    let id = "igmp-sources";
    let Some(most) = facts.kernel.igmp_max_msf else {
        return unknown(id, "igmp_max_msf cannot be read");
    };
    let evidence = format!("a socket may name {most} senders of a group (igmp_max_msf)");
    if most >= SOURCES {
        return ok(id, evidence);
    }
    let (remedy, change) = sysctl("net.ipv4.igmp_max_msf", most, SOURCES);
    finding(
        id,
        Verdict::Warning,
        format!("{evidence}: --multicast ssm takes more sockets"),
    )
    .remedy(remedy)
    .change(change)
}

fn firewall(facts: &Facts, wishes: &Wishes) -> Finding {
    let id = "firewall";
    let Firewall::Known(rules) = &facts.firewall else {
        return unknown(
            id,
            "the rules of nftables cannot be read: needs root and the program nft",
        );
    };
    let mut found: Vec<(Passage, Drop)> = Vec::new();
    for passage in passages(wishes) {
        let packet = Packet {
            arrives: passage.arrives,
            interface: &facts.link.name,
            own: facts.link.addresses.first().copied(),
            to: passage.to,
            protocol: passage.protocol,
            port: passage.port,
        };
        found.extend(rules.drop_of(&packet).map(|drop| (passage, drop)));
    }
    found.sort_by_key(|(_, drop)| !drop.certain);
    let Some((passage, drop)) = found.first() else {
        return ok(
            id,
            "no rule of nftables drops what Quicksilver sends and receives",
        );
    };
    let Drop {
        chain,
        rule,
        certain,
    } = drop;
    let (verdict, verb) = match certain {
        true => (Verdict::Fault, "drops"),
        false => (Verdict::Warning, "may drop"),
    };
    let who = match rule {
        Some(handle) => format!("rule {handle} of {chain}"),
        None => format!("the policy of {chain}"),
    };
    let rules = found.iter().filter(|(_, drop)| drop.certain);
    let rules: BTreeSet<(&str, String)> = rules
        .map(|(passage, drop)| (&*drop.chain, passage.rule()))
        .collect();
    let finding = finding(id, verdict, format!("{who} {verb} {passage}")).remedy(format!(
        "nft insert rule {chain} {} accept (or without the rule: nft -a list chain {chain})",
        passage.rule()
    ));
    rules.iter().fold(finding, |finding, (chain, rule)| {
        finding.change(accepting(chain, rule))
    })
}

/// A rule before all others of a chain that accepts something. Its number is known only once it is
/// there, so that it is found again by its comment.
fn accepting(chain: &str, rule: &str) -> Change {
    let words = format!("insert rule {chain} {rule} accept comment {RULE_COMMENT}");
    let words: Vec<&str> = words.split(' ').collect();
    let undo = format!(
        "nft -a list chain {chain} | sed -n 's/.*comment \"{RULE_COMMENT}\" # handle //p' | \
         while read -r handle; do nft delete rule {chain} handle \"$handle\"; done"
    );
    Change {
        make: Action::run("nft", &words),
        undo: Action::run("sh", &["-c", &undo]),
    }
}

/// Packets that a firewall has to let through.
#[derive(Debug, Clone, Copy)]
struct Passage {
    arrives: bool,
    to: Ipv4Addr,
    protocol: &'static str,
    port: Option<u16>,
}

impl Passage {
    /// Words of a rule about these packets alone, or about all multicast.
    fn rule(&self) -> String {
        match self.port.filter(|_| !self.to.is_multicast()) {
            Some(port) => format!("ip daddr {} udp dport {port}", self.to),
            None => "ip daddr 224.0.0.0/4".to_owned(),
        }
    }
}

impl fmt::Display for Passage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} for {}", self.protocol, self.to)?;
        if let Some(port) = self.port {
            write!(f, ":{port}")?;
        }
        f.write_str(if self.arrives {
            " that arrives"
        } else {
            " that leaves"
        })
    }
}

/// Multicast in and out, the querier's questions, and unicast to nodes that run here.
fn passages(wishes: &Wishes) -> Vec<Passage> {
    let queries = (Ipv4Addr::new(224, 0, 0, 1), "igmp", None);
    let channels = wishes.channels.iter();
    let channels = channels.map(|(group, port)| (*group, "udp", Some(*port)));
    let both = channels.chain([queries]).flat_map(|(to, protocol, port)| {
        [true, false].map(|arrives| Passage {
            arrives,
            to,
            protocol,
            port,
        })
    });
    let nodes = wishes.nodes.iter().map(|(address, port)| Passage {
        arrives: true,
        to: *address,
        protocol: "udp",
        port: Some(*port),
    });
    both.chain(nodes).collect()
}

fn snooping(facts: &Facts) -> Finding {
    let id = "bridge-querier";
    match (&facts.link.kind, facts.link.snooping, facts.link.querier) {
        (Some(Kind::Bridge), Some(true), Some(false)) => {
            let name = &facts.link.name;
            let on = ip_link(
                facts,
                &["type", "bridge", "mcast_querier", "1"],
                &["type", "bridge", "mcast_querier", "0"],
            );
            let evidence = format!(
                "{name} forwards multicast to those who asked, and asks nobody: without another \
                 querier on the network it stops after minutes"
            );
            finding(id, Verdict::Warning, evidence)
                .remedy(typed(&on))
                .change(on)
        }
        (Some(Kind::Bridge), Some(_), _) => ok(id, "the bridge does not forget memberships"),
        (Some(Kind::Bridge), None, _) => unknown(id, "`ip -d link` tells nothing of snooping"),
        (None, ..) => unknown(id, "`ip -d link` tells no kind"),
        _ => ok(id, "no bridge of this host is in the way"),
    }
}

fn receive_buffer(facts: &Facts, wishes: &Wishes) -> Finding {
    let (id, wanted) = ("receive-buffer", wishes.receive_buffer);
    let Some(most) = facts.kernel.rmem_max else {
        return unknown(id, "rmem_max cannot be read");
    };
    let granted = match facts.kernel.granted {
        Some(granted) => format!(", and {granted} of {wanted} bytes are granted"),
        None => String::new(),
    };
    let evidence = format!("net.core.rmem_max is {most}{granted}");
    if most >= wanted {
        return ok(id, evidence);
    }
    let verdict = match most < RECEIVE_BUFFER_LEAST.min(wanted) {
        true => Verdict::Fault,
        false => Verdict::Warning,
    };
    let (remedy, change) = sysctl("net.core.rmem_max", most, wanted);
    finding(id, verdict, evidence).remedy(remedy).change(change)
}

/// Losses that grow are a fault, many of the past a warning.
fn losses(growth: Growth) -> Verdict {
    match growth {
        Growth { grown: 1.., .. } => Verdict::Fault,
        Growth { total, handled, .. } if total > handled / LOST_SHARE => Verdict::Warning,
        _ => Verdict::Ok,
    }
}

/// Numbers of a counter.
fn counted(growth: Growth) -> String {
    let Growth { total, grown, .. } = growth;
    format!("{total} since the start of the host, {grown} just now")
}

fn udp_drops(facts: &Facts) -> Finding {
    let id = "udp-drops";
    let Some(growth) = facts.kernel.udp else {
        return unknown(id, "/proc/net/snmp cannot be read");
    };
    let evidence = format!(
        "datagrams without room in a receive buffer: {}",
        counted(growth)
    );
    finding(id, losses(growth), evidence).remedy(match losses(growth) {
        Verdict::Ok => "",
        _ => "larger receive buffers (receive-buffer), or a CPU for the receiver; `ss -ulnmp` shows whose",
    })
}

fn backlog(facts: &Facts) -> Finding {
    let id = "softirq-backlog";
    let Some(growth) = facts.kernel.backlog else {
        return unknown(id, "/proc/net/softnet_stat cannot be read");
    };
    let most = facts.kernel.netdev_max_backlog;
    let shown = most.map_or_else(String::new, |most| format!(", of {most} places"));
    let evidence = format!(
        "packets without room before the protocols: {}{shown}",
        counted(growth)
    );
    let verdict = losses(growth);
    if verdict == Verdict::Ok {
        return match most.filter(|most| *most < BACKLOG) {
            Some(most) => {
                let (remedy, change) = sysctl("net.core.netdev_max_backlog", most, BACKLOG);
                finding(id, Verdict::Warning, evidence)
                    .remedy(remedy)
                    .change(change)
            }
            None => ok(id, evidence),
        };
    }
    match most {
        Some(most) => {
            let (remedy, change) = sysctl(
                "net.core.netdev_max_backlog",
                most,
                BACKLOG_MORE.max(2 * most),
            );
            finding(id, verdict, evidence).remedy(remedy).change(change)
        }
        None => finding(id, verdict, evidence).remedy("raise net.core.netdev_max_backlog"),
    }
}

fn ring(facts: &Facts) -> Finding {
    let id = "nic-ring";
    let lost = facts.card.missed.map(losses);
    let missed = match facts.card.missed {
        Some(growth) => format!("; packets without a descriptor: {}", counted(growth)),
        None => String::new(),
    };
    let Some(Ring { now, max }) = facts.card.ring else {
        return match lost {
            Some(verdict @ (Verdict::Fault | Verdict::Warning)) => {
                finding(id, verdict, format!("the size is not told{missed}"))
                    .remedy("fewer interrupts at other CPUs, or a card with a larger ring")
            }
            _ => unknown(id, "the card tells no ring sizes (`ethtool -g`)"),
        };
    };
    let evidence = format!("{now} of {max} receive descriptors are used{missed}");
    match lost {
        Some(verdict @ (Verdict::Fault | Verdict::Warning)) if now < max => {
            let (now, max) = (now.to_string(), max.to_string());
            let change = ethtool(facts, "-G", &["rx", &max], &["rx", &now]);
            finding(id, verdict, evidence)
                .remedy(typed(&change))
                .change(change)
        }
        Some(verdict @ (Verdict::Fault | Verdict::Warning)) => finding(id, verdict, evidence)
            .remedy("spread its interrupts over more CPUs (`ethtool -L`), or use a faster card"),
        _ => ok(id, evidence),
    }
}

fn coalescing(facts: &Facts, wishes: &Wishes) -> Finding {
    let (id, most) = ("interrupt-coalescing", wishes.coalescing_micros);
    let (name, card) = (&facts.link.name, &facts.card);
    if card.adaptive_rx == Some(true) {
        let off = ethtool(facts, "-C", &["adaptive-rx", "off"], &["adaptive-rx", "on"]);
        let evidence = format!("{name} chooses by itself how late it interrupts (adaptive-rx)");
        return finding(id, Verdict::Warning, evidence)
            .remedy(typed(&off))
            .change(off);
    }
    match card.rx_usecs {
        None => unknown(id, "the card tells no coalescing (`ethtool -c`)"),
        Some(now) if now > most => {
            let (now, most) = (now.to_string(), most.to_string());
            let change = ethtool(facts, "-C", &["rx-usecs", &most], &["rx-usecs", &now]);
            let evidence = format!("{name} waits up to {now} µs before it interrupts");
            finding(id, Verdict::Warning, evidence)
                .remedy(typed(&change))
                .change(change)
        }
        Some(now) => ok(
            id,
            format!("{name} waits up to {now} µs before it interrupts"),
        ),
    }
}

fn pause(facts: &Facts) -> Finding {
    let (id, name) = ("pause-frames", &facts.link.name);
    match facts.card.pause {
        None => unknown(id, "the card tells nothing of pause frames (`ethtool -a`)"),
        Some(false) => ok(id, format!("{name} neither obeys nor sends pause frames")),
        Some(true) => {
            let off = ["autoneg", "off", "rx", "off", "tx", "off"];
            let change = ethtool(
                facts,
                "-A",
                &off,
                &["autoneg", "on", "rx", "on", "tx", "on"],
            );
            let evidence = format!(
                "{name} obeys or sends pause frames: the slowest port of a switch may set the pace"
            );
            finding(id, Verdict::Warning, evidence)
                .remedy(typed(&change))
                .change(change)
        }
    }
}

fn gro(facts: &Facts) -> Finding {
    let id = "receive-offload";
    match (facts.card.gro, &facts.link.kind) {
        (None, _) => unknown(id, "the card tells no offloads (`ethtool -k`)"),
        (Some(false), Some(Kind::Ethernet)) => {
            let on = ethtool(facts, "-K", &["gro", "on"], &["gro", "off"]);
            let evidence = "packets are taken one by one (generic-receive-offload is off)";
            finding(id, Verdict::Warning, evidence)
                .remedy(typed(&on))
                .change(on)
        }
        (Some(true), _) => ok(id, "packets are taken together (generic-receive-offload)"),
        (Some(false), _) => ok(id, "packets come together from the other end already"),
    }
}

fn governor(facts: &Facts) -> Finding {
    let id = "cpu-governor";
    let slow = |(_, governor): &&(String, String)| {
        ["powersave", "conservative", "ondemand"].contains(&&**governor)
    };
    let all = &facts.kernel.governors;
    let slow: Vec<_> = all.iter().filter(slow).collect();
    match (all.first(), slow.first()) {
        (None, _) => unknown(
            id,
            "the system sets no CPU frequency, or a host above it does",
        ),
        (Some((_, first)), None) => ok(id, format!("CPU frequency: {first}")),
        (_, Some((_, first))) => {
            let evidence = format!(
                "CPU frequency: {first} on {} of {} CPUs: work after a rest begins slowly",
                slow.len(),
                all.len()
            );
            let base = finding(id, Verdict::Warning, evidence)
                .remedy("cpupower frequency-set -g performance");
            let changes = slow
                .iter()
                .map(|(file, now)| Change::setting(file, now, "performance"));
            changes.fold(base, Finding::change)
        }
    }
}

fn clock(facts: &Facts) -> Finding {
    let id = "clock-source";
    match facts.kernel.clock_source.as_deref() {
        None => unknown(id, "the clock source cannot be read"),
        Some(slow @ ("hpet" | "acpi_pm" | "jiffies" | "refined-jiffies" | "pit")) => finding(
            id,
            Verdict::Warning,
            format!("the clock is {slow}: each look at it takes about a microsecond"),
        )
        .remedy(
            "the kernel's log says why it does not trust tsc (`dmesg | grep -i tsc`); on a virtual \
             machine take its host's clock (kvm-clock, hyperv_clocksource)",
        ),
        Some(fast) => ok(id, format!("the clock is {fast}")),
    }
}
