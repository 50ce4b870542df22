use core::fmt::{self, Write};
use core::time::Duration;
use qsm_gms::GroupPace;

use qsm_proto::{OriginDemand, Pace, Promptness, Recovery};
use qsm_testnet::Sites;
use qsm_wire::membership::Role;

use super::VERSION;
use crate::content::Sizes;
use crate::faults::Fault;
use crate::hosts::{HostRole, ServicePatience};
use crate::options::SimOptions;
use crate::workload::Churn;

/// The scenario text of a run; reading it gives the same run.
#[must_use]
pub fn write(options: &SimOptions) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let written = write_all(options, &mut text);
    debug_assert!(written.is_ok());
    text
}

fn write_all(options: &SimOptions, out: &mut String) -> fmt::Result {
    writeln!(out, "scenario {VERSION}")?;
    writeln!(out, "seed {}\nnodes {}", options.seed, options.nodes)?;
    write_hosts(options, out)?;
    writeln!(out, "duration {}", Time(options.duration))?;
    writeln!(out, "settle {}", Time(options.settle))?;
    let sizes = if options.sizes == Sizes::SMALL {
        "small"
    } else {
        "mix"
    };
    writeln!(out, "sizes {sizes}\ndrift {}", options.drift_ppm_max)?;
    for plan in &options.groups {
        write!(out, "group members")?;
        plan.subscribers
            .iter()
            .try_for_each(|host| write!(out, " {host}"))?;
        write!(out, " publishers")?;
        plan.publishers
            .iter()
            .try_for_each(|host| write!(out, " {host}"))?;
        writeln!(out)?;
    }
    for flow in &options.flows {
        writeln!(
            out,
            "flow host {} group {} start {} interval {} burst {} messages {}",
            flow.host,
            flow.group,
            Time(flow.start),
            Time(flow.interval),
            flow.burst,
            flow.messages
        )?;
    }
    if options.flows.is_empty() {
        writeln!(out, "no-flows")?;
    }
    write_network(options, out)?;
    write_node(options, out)?;
    for (when, churn) in &options.churn {
        writeln!(out, "at {} {}", Time(*when), Changed(churn))?;
    }
    for (when, fault) in &options.faults {
        writeln!(out, "at {} {}", Time(*when), Happens(fault))?;
    }
    Ok(())
}

fn write_hosts(options: &SimOptions, out: &mut String) -> fmt::Result {
    for (host, plan) in &options.hosts {
        let role = match plan.role {
            HostRole::Node => "node",
            HostRole::Service => "service",
            HostRole::EmbeddedService => "embedded-service",
            HostRole::Observer => "observer",
        };
        let ipv6 = if plan.ipv6 { " ipv6" } else { "" };
        let networks = if plan.two_networks {
            " two-networks"
        } else {
            ""
        };
        writeln!(out, "host {host} {role}{ipv6}{networks}")?;
    }
    if options.source_specific {
        writeln!(out, "source-specific")?;
    }
    if let Some(addresses) = options.addresses {
        writeln!(out, "addresses {addresses}")?;
    }
    if !options.multicast {
        writeln!(out, "no-multicast")?;
    }
    let ServicePatience { heartbeats, probes } = options.patience;
    if options.patience != ServicePatience::default() {
        writeln!(out, "patience heartbeats {heartbeats} probes {probes}")?;
    }
    Ok(())
}

fn write_network(options: &SimOptions, out: &mut String) -> fmt::Result {
    let network = &options.network;
    let chances = [
        ("loss", network.loss_ppm),
        ("shared-loss", network.shared_loss_ppm),
        ("damage", network.damage_ppm),
        ("duplicates", network.duplicate_ppm),
        ("lag-chance", network.membership_lag_ppm),
    ];
    for (name, ppm) in chances {
        writeln!(out, "network {name} {}", Percent(ppm))?;
    }
    let times = [
        ("delay", network.delay),
        ("jitter", network.jitter),
        ("cpu", network.cpu_per_datagram),
        ("join", network.join_latency),
        ("leave", network.leave_latency),
        ("lag", network.membership_lag),
    ];
    for (name, time) in times {
        writeln!(out, "network {name} {}", Time(time))?;
    }
    writeln!(out, "network mtu {}", network.mtu_bytes)?;
    writeln!(out, "network buffer {}", network.receive_buffer_bytes)?;
    writeln!(out, "network uplink {}", network.uplink_bits_per_second)?;
    let downlink = network.downlink_bits_per_second;
    writeln!(out, "network downlink {downlink}")?;
    writeln!(out, "network switch-queue {}", network.switch_queue_bytes)?;
    let (held, time) = (Percent(network.reorder_ppm), Time(network.reorder_delay));
    writeln!(out, "network reorder {held} {time}")?;
    let Sites {
        count,
        delay,
        bits_per_second,
        queue_bytes,
        loss_ppm,
    } = network.sites;
    let (delay, loss) = (Time(delay), Percent(loss_ppm));
    writeln!(
        out,
        "network sites {count} {delay} {bits_per_second} {queue_bytes} {loss}"
    )?;
    if let Some(burst) = network.burst {
        let (enter, exit) = (Percent(burst.enter_ppm), Percent(burst.exit_ppm));
        writeln!(
            out,
            "network burst {enter} {exit} {}",
            Percent(burst.loss_ppm)
        )?;
    }
    if network.loopback {
        writeln!(out, "network loopback")?;
    }
    Ok(())
}

/// Writes what services know of nodes and groups by their names.
fn write_hints(options: &SimOptions, out: &mut String) -> fmt::Result {
    for (group, batching) in &options.batches {
        write!(out, "batch {group} {}", Time(batching.delay))?;
        match batching.bytes {
            usize::MAX => writeln!(out)?,
            bytes => writeln!(out, " {bytes}")?,
        }
    }
    for (group, time) in &options.lifetimes {
        writeln!(out, "lifetime {group} {}", Time(*time))?;
    }
    for (group, pace) in &options.paces {
        match pace {
            GroupPace::Slowest => writeln!(out, "pace {group} slowest")?,
            GroupPace::Uncontrolled => writeln!(out, "pace {group} uncontrolled")?,
            GroupPace::Bounded(time) => writeln!(out, "pace {group} bounded {}", Time(*time))?,
            GroupPace::Demotes(time) => {
                writeln!(out, "pace {group} bounded {} then demote", Time(*time))?;
            }
            GroupPace::Expels(time) => {
                writeln!(out, "pace {group} bounded {} then expel", Time(*time))?;
            }
            GroupPace::AtLeast {
                time,
                packets_per_second: rate,
            } => writeln!(out, "pace {group} bounded {} min {rate}", Time(*time))?,
        }
    }
    for hint in &options.hints {
        let (kind, named) = hint.parts();
        write!(out, "hint {kind}")?;
        named.iter().try_for_each(|one| write!(out, " {one}"))?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_node(options: &SimOptions, out: &mut String) -> fmt::Result {
    let layout = options.layout;
    writeln!(
        out,
        "layout replication {} block {} ring {}",
        layout.replication, layout.block_packets, layout.ring_max
    )?;
    let limits = options.limits;
    writeln!(
        out,
        "limits send {} receive {} ahead {}",
        limits.send_bytes, limits.receive_bytes, limits.ahead_packets
    )?;
    writeln!(out, "retention {}", limits.retention_bytes)?;
    writeln!(out, "gone-after {}", Time(options.gone_after))?;
    if !options.plan_interval.is_zero() {
        writeln!(out, "plan-every {}", Time(options.plan_interval))?;
    }
    if options.plan_unwanted_ppm > 0 {
        writeln!(out, "plan-unwanted {}", Percent(options.plan_unwanted_ppm))?;
    }
    if let Some(least) = options.plan_common {
        writeln!(out, "plan-common {least}")?;
    }
    for (host, modes) in &options.prompt {
        for mode in modes {
            match mode {
                Promptness::Arrival => writeln!(out, "prompt {host} arrival")?,
                Promptness::Within(limit) => {
                    writeln!(out, "prompt {host} within {}", Time(*limit))?;
                }
            }
        }
    }
    write_hints(options, out)?;
    if !options.slow_after.is_zero() {
        writeln!(out, "slow-after {}", Time(options.slow_after))?;
    }
    write_repairs(options, out)?;
    write_switches(options, out)?;
    writeln!(out, "rate-max {}", options.pace.rate_max_packets)?;
    if options.pace.node_bytes_per_second > 0 {
        writeln!(out, "send-limit {}", options.pace.node_bytes_per_second)?;
    }
    writeln!(out, "batch-delay {}", Time(options.pace.batch_delay))?;
    let target = options.pace.queue_target;
    if target != Pace::default().queue_target {
        writeln!(out, "queue-target {}", Time(target))?;
    }
    Ok(())
}

fn write_switches(options: &SimOptions, out: &mut String) -> fmt::Result {
    let recovery = options.recovery;
    let switches = [
        ("token-plane-only", !recovery.fast),
        ("pull-late", recovery.pull_late),
        ("parity", recovery.parity),
        ("faithful-rate", options.pace.faithful_rate),
        ("rings-in-turn", options.pace.rings_in_turn),
        ("partition-feedback", options.pace.partition_feedback),
        ("refusals", options.refusals),
        ("tagged", options.tagged),
        ("origin-audit", options.origin == Some(OriginDemand::Audit)),
        (
            "origin-verified",
            options.origin == Some(OriginDemand::Verified),
        ),
        ("tell-rates", options.tells_rates),
    ];
    for (name, _) in switches.into_iter().filter(|switch| switch.1) {
        writeln!(out, "{name}")?;
    }
    if let Some(insider) = &options.insider {
        let lies: Vec<&str> = insider.lies.iter().map(|lie| lie.name()).collect();
        let [from, until] = [insider.from, insider.until].map(Time);
        let (host, lies) = (insider.host, lies.join(" "));
        writeln!(out, "insider {host} from {from} until {until} lies {lies}")?;
    }
    Ok(())
}

fn write_repairs(options: &SimOptions, out: &mut String) -> fmt::Result {
    let recovery = options.recovery;
    let budget = (
        recovery.repair_bytes_per_second,
        recovery.requests_per_second,
    );
    let default = Recovery::default();
    if budget != (default.repair_bytes_per_second, default.requests_per_second) {
        writeln!(out, "budget repairs {} requests {}", budget.0, budget.1)?;
    }
    if options.repair_bytes_per_second > 0 {
        writeln!(out, "repair-limit {}", options.repair_bytes_per_second)?;
    }
    if recovery.parities_ahead > 0 {
        writeln!(out, "parities-ahead {}", recovery.parities_ahead)?;
    }
    Ok(())
}

struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ns = qsm_proto::nanoseconds(self.0);
        let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1000, "us")];
        match units.into_iter().find(|(unit, _)| ns.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", ns / unit),
            None => write!(f, "{ns}ns"),
        }
    }
}

struct Percent(u32);

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        match part {
            0 => write!(f, "{whole}%"),
            _ => write!(f, "{whole}.{part:04}%"),
        }
    }
}

struct Hosts<'a>(&'a [usize]);

impl fmt::Display for Hosts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|host| write!(f, " {host}"))
    }
}

struct Changed<'a>(&'a Churn);

impl fmt::Display for Changed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Churn {
            host,
            group,
            role,
            enter,
        } = self.0;
        let verb = if *enter { "enter" } else { "exit" };
        let role = match role {
            Role::Subscriber => "subscriber",
            Role::Publisher => "publisher",
        };
        write!(f, "{verb} {host} group {group} {role}")
    }
}

struct Happens<'a>(&'a Fault);

impl fmt::Display for Happens<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Fault::Crash { host } => write!(f, "crash {host}"),
            Fault::Close { host } => write!(f, "close {host}"),
            Fault::Restart { host, same_node } => {
                let node = if *same_node { "same-node" } else { "new-node" };
                write!(f, "restart {host} {node}")
            }
            Fault::Freeze { host, time } => write!(f, "freeze {host} {}", Time(*time)),
            Fault::Split {
                from,
                to,
                both_ways: true,
            } => write!(f, "split{} from{}", Hosts(from), Hosts(to)),
            Fault::Split {
                from,
                to,
                both_ways: false,
            } => write!(f, "cut{} to{}", Hosts(from), Hosts(to)),
            Fault::Sleep { host, time } => write!(f, "sleep {host} {}", Time(*time)),
            Fault::Slow {
                host,
                per_datagram,
                time,
            } => write!(f, "slow {host} {} {}", Time(*per_datagram), Time(*time)),
            Fault::Full { host } => write!(f, "full {host}"),
            Fault::Read { host } => write!(f, "read {host}"),
            Fault::Clog { from, to, time } => {
                write!(f, "clog {}{} to{}", Time(*time), Hosts(from), Hosts(to))
            }
            Fault::Filter { from, to, time } => {
                write!(f, "filter {}{} to{}", Time(*time), Hosts(from), Hosts(to))
            }
            Fault::Narrow { bytes, time } => write!(f, "narrow {bytes} {}", Time(*time)),
            Fault::Outage { network, time } => write!(f, "outage {} {}", network + 1, Time(*time)),
            Fault::Heal => f.write_str("heal"),
            Fault::Foreign { host } => write!(f, "foreign {host}"),
            Fault::Doom { host, packets } => write!(f, "doom {host} {packets}"),
            Fault::Garbage { host, kind, count } => {
                write!(f, "garbage {} {host} {count}", kind.name())
            }
        }
    }
}
