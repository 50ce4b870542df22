//! The command line: what all commands share, and the list of commands.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use qsm::{Builder, DATA_PORT, Embedded, Family, FaultConfig, Node};

use crate::bench::BenchArgs;
use crate::demo::{self, DemoArgs};
use crate::engine::EngineArgs;
use crate::gms::GmsArgs;
use crate::lab_command::LabArgs;
use crate::listing::{ListArgs, NodesArgs};
use crate::publish::PubArgs;
use crate::sim::SimArgs;
use crate::subscribe::SubArgs;
use crate::threads::ThreadOptions;

/// Examples and exit codes, for below a help text.
macro_rules! after_help {
    ($($line:literal)*) => {
        concat!(
            "Examples:\n", $("  ", $line, "\n",)*
            "\nExit codes:\n",
            "  0  done\n",
            "  1  failure: system, network or data; the error says what to do\n",
            "  2  the command line cannot be understood\n",
            "  3  what was waited for did not happen in time\n",
            "  4  done, but messages are missing or may be: lost, dropped, not written, or sent by or to\n",
            "     a node while it was excluded",
        )
    };
}
pub(crate) use after_help;

/// Reliable multicast to thousands of overlapping groups, without a broker.
#[derive(Debug, Parser)]
#[command(name = "qsm", version, after_help = after_help!(
    "qsm demo                      everything at once: hosts, losses, a crash, checked to the end"
    "qsm sub news                  in one terminal"
    "echo hello | qsm pub news     in another"
))]
pub(crate) struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Publish lines, frames or a file to groups
    Pub(PubArgs),
    /// Receive groups: print, count, hash or store their messages
    Sub(SubArgs),
    /// Run a node that other processes of this host attach to
    Engine(EngineArgs),
    /// Run a membership service on its own
    Gms(GmsArgs),
    /// List the nodes of the cluster
    Nodes(NodesArgs),
    /// List the groups of the cluster
    Groups(ListArgs),
    /// List the regions of the cluster: nodes with the same groups
    Regions(ListArgs),
    /// Test hosts on this machine, out of network namespaces
    Lab(LabArgs),
    /// Measure throughput and latency, on this machine or between hosts
    Bench(BenchArgs),
    /// Simulate clusters: replay seeds and scenarios, look for faults at random
    Sim(SimArgs),
    /// Show it all on this machine: many hosts, losses and a crash, checked to the last byte
    Demo(DemoArgs),
    /// One process of the demonstration
    #[command(hide = true)]
    DemoNode(demo::NodeArgs),
}

/// Options of everything that opens sockets.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkOptions {
    /// Network interface, by name or address: eth0, 10.0.0.1, fd00::1, fe80::1%eth0 [default: the
    /// most fitting one]. Given twice: everything goes by both networks, of which one may fail; in
    /// the same order on all hosts
    #[arg(long, value_name = "INTERFACE")]
    pub(crate) interface: Vec<String>,
    /// Use IPv6, where the addresses given do not say it [default: IPv4 where there is a choice]
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Cluster; clusters do not see each other
    #[arg(long, value_name = "NAME", default_value = "default")]
    pub(crate) cluster: String,
    /// Multicast address at which membership services are announced and looked for [default:
    /// 239.192.83.77:4483, with IPv6 [ff15::8000:534d]:4483]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = multicast)]
    pub(crate) discovery: Option<SocketAddr>,
    /// Port of the multicast addresses that the membership service hands out
    #[arg(long, value_name = "PORT", default_value_t = DATA_PORT)]
    pub(crate) data_port: u16,
    /// Whom nodes receive from at the addresses that the membership service hands out: anybody, or
    /// the senders that it names, by addresses of 232.192.0.0/14, with IPv6 ff35::/96
    #[arg(long, value_name = "KIND", value_enum, default_value_t = Multicast::Asm, conflicts_with = "data_range")]
    pub(crate) multicast: Multicast,
    /// Range of the multicast addresses that the membership service hands out [default:
    /// 239.192.0.0/14, with IPv6 ff15::/64]
    #[arg(long, value_name = "ADDRESS/LENGTH", value_parser = range)]
    pub(crate) data_range: Option<(IpAddr, u8)>,
    /// Say on stderr what happens, and at the end what was counted
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// Whom a multicast address is received from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Multicast {
    /// Anybody
    Asm,
    /// Named senders (source-specific, RFC 4607)
    Ssm,
}

/// Options of a node.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Network")]
pub(crate) struct NodeOptions {
    /// What all sockets share.
    #[command(flatten)]
    pub(crate) network: NetworkOptions,
    /// What this node calls itself in `qsm nodes` [default: its number]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Where the membership service is [default: look for it by multicast]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = Place::parse)]
    pub(crate) service: Option<Place>,
    /// Receive buffer of each socket, bytes; with suffix k or M [default: 32M]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) receive_buffer: Option<usize>,
    /// Lose this share of what is received, at random, to try the repair
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = loss_ppm)]
    pub(crate) loss: u32,
    /// Run a membership service in this process, at once
    #[arg(long, conflicts_with = "no_embedded_gms")]
    pub(crate) embedded_gms: bool,
    /// Never run a membership service in this process, even if none is found
    #[arg(long)]
    pub(crate) no_embedded_gms: bool,
    /// Its core threads.
    #[command(flatten)]
    pub(crate) threads: ThreadOptions,
}

impl NodeOptions {
    /// The faults to inject, if any; each process has its own random sequence.
    #[must_use]
    pub(crate) fn fault(&self) -> Option<FaultConfig> {
        (self.loss > 0).then(|| FaultConfig {
            seed: RandomState::new().hash_one(0),
            loss_ppm: self.loss,
            ..FaultConfig::default()
        })
    }

    /// A node as these options describe it; `embedded` is for when they say nothing of that.
    #[must_use = "a builder does nothing before `start`"]
    pub(crate) fn builder(&self, embedded: Embedded) -> Builder {
        let network = &self.network;
        let embedded = match (self.embedded_gms, self.no_embedded_gms) {
            (true, _) => Embedded::Always,
            (_, true) => Embedded::Never,
            _ => embedded,
        };
        let mut builder = Node::builder()
            .cluster(network.cluster.as_str())
            .data_port(network.data_port)
            .source_specific(network.multicast == Multicast::Ssm)
            .embedded_service(embedded);
        if let Some(discovery) = network.discovery {
            builder = builder.discovery(discovery);
        }
        if let Some((first, prefix)) = network.data_range {
            builder = builder.data_range(first, prefix);
        }
        if network.ipv6 {
            builder = builder.family(Family::V6);
        }
        let zone = self.service.as_ref().and_then(|place| place.zone.as_ref());
        match zone.filter(|_| network.interface.is_empty()) {
            Some(zone) => builder = builder.interface(zone),
            None => builder = builder.interfaces(&network.interface),
        }
        if let Some(name) = &self.name {
            builder = builder.name(name.as_str());
        }
        if let Some(service) = &self.service {
            builder = builder.service(service.address);
        }
        if let Some(bytes) = self.receive_buffer {
            builder = builder.receive_buffer(bytes);
        }
        if let Some(fault) = self.fault() {
            builder = builder.fault(fault);
        }
        self.threads.apply(builder)
    }
}

/// Seconds with a fraction, as options take them.
///
/// # Errors
/// Not a number from 0 to a million.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "not a number of seconds".to_owned())?;
    if !(0.0..=1e6).contains(&number) {
        return Err("must be between 0 and 1000000 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(number))
}

/// Percent into parts per million.
///
/// # Errors
/// Not a number from 0 to 100.
pub(crate) fn loss_ppm(text: &str) -> Result<u32, String> {
    let number: f64 = text
        .trim_end_matches('%')
        .parse()
        .map_err(|_| "not a number of percent".to_owned())?;
    if !(0.0..=100.0).contains(&number) {
        return Err("must be between 0 and 100".to_owned());
    }
    // At most a million, and not negative.
    Ok((number * 1e4).round() as u32)
}

/// Bytes, with suffix k (1024) or M (1024 k).
///
/// # Errors
/// Not such a number.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        _ => (text, 0),
    };
    let number: usize = digits
        .parse()
        .map_err(|_| "not a number of bytes".to_owned())?;
    number
        .checked_mul(1 << shift)
        .ok_or_else(|| "too large".to_owned())
}

/// An address and port. A link-local one may say its interface: `[fe80::1%eth0]:4481`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    /// Without the interface.
    pub(crate) address: SocketAddr,
    /// The interface.
    pub(crate) zone: Option<String>,
}

impl Place {
    /// From a command line.
    ///
    /// # Errors
    /// Not an address and a port.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (address, zone) = match (text.find('%'), text.find(']')) {
            (Some(from), Some(to)) if from < to => {
                let zone = text[from + 1..to].to_owned();
                (format!("{}{}", &text[..from], &text[to..]), Some(zone))
            }
            _ => (text.to_owned(), None),
        };
        let address = address.parse().map_err(|_| {
            "not an address and a port, such as 10.0.0.1:4481 or [fd00::1]:4481".to_owned()
        })?;
        Ok(Self { address, zone })
    }
}

fn range(text: &str) -> Result<(IpAddr, u8), String> {
    let parsed = text
        .split_once('/')
        .and_then(|(first, prefix)| Some((first.parse().ok()?, prefix.parse().ok()?)));
    let (first, prefix): (IpAddr, u8) =
        parsed.ok_or("not a range, such as 239.192.0.0/14 or ff15::/64")?;
    if !first.is_multicast() {
        return Err("not multicast addresses: those begin with 224 to 239, or ff".to_owned());
    }
    Ok((first, prefix))
}

fn multicast(text: &str) -> Result<SocketAddr, String> {
    let Place { address, zone } = Place::parse(text)?;
    if zone.is_some() {
        return Err("say the interface by --interface, not after the address".to_owned());
    }
    if !address.ip().is_multicast() {
        return Err("not a multicast address: those begin with 224 to 239, or ff".to_owned());
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_examples_and_exit_codes_in_its_help() {
        for command in Cli::command()
            .get_subcommands_mut()
            .filter(|c| !c.is_hide_set())
        {
            let help = command.render_long_help().to_string();
            for part in ["Examples:", "Exit codes:"] {
                assert!(help.contains(part), "{}: {part}", command.get_name());
            }
        }
    }

    #[test]
    fn options_reach_the_command() {
        let line = "qsm pub a b --interface lo --interface eth1 --cluster c --name n --service 10.0.0.1:5 \
                    --discovery 239.1.2.3:4 --data-port 9 --data-range ff18::/32 --receive-buffer 4M --loss 2.5 -v";
        let Command::Pub(args) = parse(line).unwrap() else {
            panic!("not a pub");
        };
        let node = &args.node;
        assert_eq!(args.groups, ["a", "b"]);
        assert_eq!(node.network.interface, ["lo", "eth1"]);
        assert_eq!(node.loss, 25_000);
        assert_eq!(node.receive_buffer, Some(4 << 20));
        assert_eq!(node.service, Some(Place::parse("10.0.0.1:5").unwrap()));
        assert_eq!(node.network.discovery, Some("239.1.2.3:4".parse().unwrap()));
        let range = ("ff18::".parse().unwrap(), 32);
        assert_eq!(node.network.data_range, Some(range));
        assert!(node.network.verbose && !node.embedded_gms);
        assert_eq!(node.fault().map(|fault| fault.loss_ppm), Some(25_000));
    }

    #[test]
    fn options_of_threads_reach_the_command() {
        let line = "qsm nodes --io --cores 2 --pin 4,2 --realtime 5 --busy-poll 50";
        let Command::Nodes(args) = parse(line).unwrap() else {
            panic!("not nodes");
        };
        let threads = &args.list.node.threads;
        let pin = threads.pin.as_ref().map(|cpus| &cpus.0[..]);
        assert!(args.io);
        assert_eq!((threads.cores, pin), (2, Some(&[4, 2][..])));
        assert_eq!((threads.realtime, threads.busy_poll), (Some(5), Some(50)));
    }

    #[test]
    fn addresses_of_ipv6_may_name_their_interface() {
        let place = Place::parse("[fe80::1%eth0]:4481").unwrap();
        assert_eq!(place.address, "[fe80::1]:4481".parse().unwrap());
        assert_eq!(place.zone.as_deref(), Some("eth0"));
        let place = Place::parse("[fd00::1]:4481").unwrap();
        assert_eq!((place.address.port(), place.zone), (4481, None));
        for wrong in ["fe80::1%eth0", "[fe80::1]%eth0:4481", "10.0.0.1", ""] {
            assert!(Place::parse(wrong).is_err(), "{wrong}");
        }
        let Command::Sub(args) = parse("qsm sub a --ipv6 --discovery [ff15::9]:4").unwrap() else {
            panic!("not a sub");
        };
        let network = &args.node.network;
        assert!(network.ipv6 && args.node.threads.cores == 1);
        assert_eq!(network.discovery, Some("[ff15::9]:4".parse().unwrap()));
    }

    #[test]
    fn the_help_names_the_default_addresses() {
        let mut cli = Cli::command();
        let sub = cli.find_subcommand_mut("sub").unwrap();
        let help = sub.render_long_help().to_string();
        for default in [qsm::DISCOVERY_V4, qsm::DISCOVERY_V6] {
            assert!(help.contains(&default.to_string()), "{default}: {help}");
        }
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        for (line, kind) in [
            ("qsm", ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand),
            ("qsm pub", ErrorKind::MissingRequiredArgument),
            ("qsm fly", ErrorKind::InvalidSubcommand),
            ("qsm pub a --loss 101", ErrorKind::ValueValidation),
            ("qsm pub a --loss -1", ErrorKind::UnknownArgument),
            (
                "qsm pub a --discovery 10.0.0.1:5",
                ErrorKind::ValueValidation,
            ),
            (
                "qsm pub a --discovery [fd00::1]:5",
                ErrorKind::ValueValidation,
            ),
            (
                "qsm pub a --discovery [ff12::1%eth0]:5",
                ErrorKind::ValueValidation,
            ),
            ("qsm pub a --service fd00::1", ErrorKind::ValueValidation),
            (
                "qsm pub a --data-range fd00::/64",
                ErrorKind::ValueValidation,
            ),
            ("qsm pub a --data-range ff15::", ErrorKind::ValueValidation),
            ("qsm pub a --multicast both", ErrorKind::InvalidValue),
            (
                "qsm pub a --multicast ssm --data-range 239.1.0.0/16",
                ErrorKind::ArgumentConflict,
            ),
            ("qsm pub a --rate 0", ErrorKind::ValueValidation),
            (
                "qsm pub a --embedded-gms --no-embedded-gms",
                ErrorKind::ArgumentConflict,
            ),
            ("qsm pub a --frames --whole f", ErrorKind::ArgumentConflict),
            ("qsm sub a --frames --json", ErrorKind::ArgumentConflict),
            ("qsm sub a --count 0", ErrorKind::ValueValidation),
            ("qsm engine", ErrorKind::MissingRequiredArgument),
            (
                "qsm sub a --attach p --interface lo",
                ErrorKind::ArgumentConflict,
            ),
            (
                "qsm pub a --attach p --cores 1",
                ErrorKind::ArgumentConflict,
            ),
            ("qsm sub a --cores 0", ErrorKind::ValueValidation),
            ("qsm sub a --pin 3-2", ErrorKind::ValueValidation),
            ("qsm sub a --realtime 100", ErrorKind::ValueValidation),
            ("qsm sub a --busy-poll 0", ErrorKind::ValueValidation),
            ("qsm groups --io", ErrorKind::UnknownArgument),
            ("qsm sub a --until-idle -1", ErrorKind::UnknownArgument),
            ("qsm lab run", ErrorKind::MissingRequiredArgument),
            ("qsm lab run --hosts 0 -- true", ErrorKind::ValueValidation),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.kind(), kind, "{line}: {error}");
        }
    }

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!(size("8M"), Ok(8 << 20));
        assert_eq!(size("64k"), Ok(64 << 10));
        assert_eq!(size("17"), Ok(17));
        assert!(size("x").is_err() && size("").is_err());
        assert!(size("99999999999999M").is_err());
        assert_eq!(loss_ppm("2%"), Ok(20_000));
        assert_eq!(loss_ppm("0.0001"), Ok(1));
        assert_eq!(seconds("1.5"), Ok(Duration::from_millis(1500)));
        assert!(seconds("-1").is_err() && seconds("NaN").is_err());
    }
}
