//! The options that the commands of `qsm bench` share.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use clap::{Args, ValueEnum};
use qsm::{Builder, Cipher, Embedded, Exporter, Family, Node, OriginDemand};
use qsm_console::failure::Failure;
use qsm_console::log::Note;
use qsm_console::options::{NodeOptions, cores, local_address, loss_ppm, seconds, size};

use qsm_processes::{Gathering, Protection};

use crate::clock::Clock;
use crate::message::{PLAIN_BYTES, STAMPED_BYTES};

/// Longest message, as the library has it by default.
const PAYLOAD_BYTES_MAX: usize = 16 << 20;

/// The process at one end, sender or receiver.
#[derive(Debug, Clone, Args)]
pub(crate) struct EndOptions {
    /// Write the result as JSON, in one line
    #[arg(long)]
    pub(crate) json: bool,
    /// The other end is on this host and uses the monotonic clock
    #[arg(long, hide = true)]
    same_host: bool,
    /// Serve what the node counts by HTTP while it runs, as of `qsm pub`; port 0: any, which a line on
    /// stderr names
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = local_address)]
    metrics: Option<SocketAddr>,
    /// The node.
    #[command(flatten)]
    pub(crate) node: NodeOptions,
}

impl EndOptions {
    /// A node, which serves its metrics if asked to.
    ///
    /// # Errors
    /// The options do not fit together.
    pub(crate) fn builder(&self, spin: bool) -> Result<Builder, Failure> {
        let builder = self.node.builder(Embedded::IfNoneFound)?.spin(spin);
        Ok(match self.metrics {
            Some(address) => builder.metrics(address),
            None => builder,
        })
    }

    /// Starts the node, and says where its metrics are.
    ///
    /// # Errors
    /// It does not start.
    pub(crate) fn start(builder: Builder) -> Result<Node, Failure> {
        let node = builder.start()?;
        if let Some(address) = node.metrics_address() {
            let url = format!("http://{address}/metrics");
            let line = format!("metrics are at {url}");
            Note::info("metrics", &line).address(&url).say();
        }
        Ok(node)
    }

    /// The clock that both ends read.
    #[must_use]
    pub(crate) fn clock(&self) -> Clock {
        if self.same_host {
            Clock::monotonic()
        } else {
            Clock::wall()
        }
    }
}

/// What is sent.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Load")]
pub(crate) struct LoadOptions {
    /// Length of a message, bytes; with suffix k or M
    #[arg(long, value_name = "BYTES", default_value = "1000", value_parser = size)]
    pub(crate) payload: usize,
    /// Groups that messages are published to, in turn
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) groups: u32,
    /// How long each sender sends [default: 2]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "messages")]
    pub(crate) duration: Option<Duration>,
    /// How many messages each sender sends, however long it takes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) messages: Option<u64>,
    /// Never sleep: lowest latency, for a whole CPU in each process
    #[arg(long)]
    pub(crate) spin: bool,
}

impl LoadOptions {
    /// How long it is to last, if that was not left to the number of messages.
    #[must_use]
    pub(crate) fn lasts(&self) -> Option<Duration> {
        match self.messages {
            Some(_) => None,
            None => Some(self.duration.unwrap_or(Duration::from_secs(2))),
        }
    }

    /// Whether such messages can be made.
    ///
    /// # Errors
    /// The payload is too short or too long.
    pub(crate) fn check(&self, timed: bool) -> Result<(), Failure> {
        let min = if timed { STAMPED_BYTES } else { PLAIN_BYTES };
        if (min..=PAYLOAD_BYTES_MAX).contains(&self.payload) {
            return Ok(());
        }
        let what = if timed { "its times" } else { "its number" };
        Err(Failure::usage(
            format!("a payload of {} bytes cannot be sent", self.payload),
            format!(
                "give --payload {min}, which holds {what}, to {PAYLOAD_BYTES_MAX}, the longest \
                 message"
            ),
        ))
    }

    /// The same, as arguments of another process.
    #[must_use]
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut words = vec![
            format!("--payload={}", self.payload),
            format!("--groups={}", self.groups),
        ];
        match (self.messages, self.lasts()) {
            (Some(messages), _) => words.push(format!("--messages={messages}")),
            (None, Some(lasts)) => words.push(format!("--duration={}", lasts.as_secs_f64())),
            (None, None) => {}
        }
        words.extend(self.spin.then(|| "--spin".to_owned()));
        words
    }
}

/// What runs on this machine, and how it is shown.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Local run")]
pub(crate) struct LocalOptions {
    /// Receiving processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=200))]
    pub(crate) receivers: u16,
    /// Sending processes
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=50))]
    pub(crate) senders: u16,
    /// Lose this share of the packets at each receiver, independently
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = loss_ppm)]
    pub(crate) loss: u32,
    /// Core threads of each process; for throughput, and worth it with several --groups
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = cores)]
    pub(crate) cores: usize,
    /// Keep each core thread, and each process of --raw, on one CPU, so that all have alike to do
    #[arg(long)]
    pub(crate) pin: bool,
    /// Repetitions; shown are medians, and the least and the most
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) runs: u16,
    /// Each process on a host of its own, out of network namespaces, instead of loopback (as root)
    #[arg(long)]
    pub(crate) lab: bool,
    /// Protect packets by the key in this file, as `qsm keygen` makes it
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Protect packets by keys that are made for the run, or by none. Several, with commas between: throughput is
    /// measured with each in turn, and shown beside the first and beside what ciphers and signatures allow
    #[arg(
        long,
        value_name = "KIND",
        value_enum,
        value_delimiter = ',',
        conflicts_with = "key"
    )]
    pub(crate) protect: Vec<ProtectionName>,
    /// Have each sender send at most so many bytes in a second, with suffix k or M: as a network does that is slower
    /// than the processors
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) send_limit: Option<usize>,
    /// Use IPv6; over loopback that takes a route for multicast, which the error names
    #[arg(long)]
    pub(crate) ipv6: bool,
    /// Also measure the same sockets without the protocol, in turn with it
    #[arg(long)]
    pub(crate) raw: bool,
    /// Serve what all processes count by HTTP while they run, on one page; port 0: any, which a line on
    /// stderr names. Whoever asks takes CPU time of what is measured
    #[arg(long, value_name = "[ADDRESS:]PORT", value_parser = local_address)]
    metrics: Option<SocketAddr>,
    /// Where these are gathered.
    #[arg(skip)]
    gathering: OnceLock<Gathering>,
    /// Write results as JSON, in one line
    #[arg(long)]
    pub(crate) json: bool,
    /// Draw them too
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
}

/// Names of protections on the command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProtectionName {
    /// By nothing
    None,
    /// By one key for all
    Key,
    /// The same with the cipher aegis-128x2
    KeyAegis,
    /// By tokens: each process proves a key of its own
    Tokens,
    /// The same with the cipher aegis-128x2
    TokensAegis,
    /// By tokens, and proof of origin: what others have forged is told
    Audit,
    /// The same, and messages wait for their proof
    Verified,
    /// The same with the cipher aegis-128x2
    VerifiedAegis,
}

impl ProtectionName {
    pub(crate) fn protection(self) -> Protection {
        match self {
            Self::None => Protection::None,
            Self::Key | Self::KeyAegis => Protection::Key,
            Self::Tokens | Self::TokensAegis => Protection::Tokens,
            Self::Audit => Protection::Origin(OriginDemand::Audit),
            Self::Verified | Self::VerifiedAegis => Protection::Origin(OriginDemand::Verified),
        }
    }

    pub(crate) fn cipher(self) -> Cipher {
        match self {
            Self::KeyAegis | Self::TokensAegis | Self::VerifiedAegis => Cipher::Aegis128X2,
            Self::None | Self::Key | Self::Tokens | Self::Audit | Self::Verified => {
                Cipher::default()
            }
        }
    }

    /// As it is written on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Key => "key",
            Self::KeyAegis => "key-aegis",
            Self::Tokens => "tokens",
            Self::TokensAegis => "tokens-aegis",
            Self::Audit => "audit",
            Self::Verified => "verified",
            Self::VerifiedAegis => "verified-aegis",
        }
    }

    /// Tells whether senders sign what they send.
    pub(crate) fn seals(self) -> bool {
        matches!(self.protection(), Protection::Origin(_))
    }
}

impl LocalOptions {
    /// Serves the metrics of all processes of this run as long as the exporter lives, if that is asked for.
    ///
    /// # Errors
    /// The address cannot be had.
    pub(crate) fn serve_metrics(&self) -> Result<Option<Exporter>, Failure> {
        let Some(address) = self.metrics else {
            return Ok(None);
        };
        let (gathering, exporter) = Gathering::serve(address)?;
        // Only one run is made with these options.
        self.gathering.get_or_init(|| gathering);
        Ok(Some(exporter))
    }

    /// Protection by keys that are made for the run, and its cipher. Several kinds are measured by `qsm bench throughput`
    /// alone.
    pub(crate) fn protection(&self) -> (Protection, Cipher) {
        let name = self.protect.first().unwrap_or(&ProtectionName::None);
        (name.protection(), name.cipher())
    }

    /// The option of senders that says what they may send at most, if that is limited.
    pub(crate) fn send_limit(&self) -> Option<String> {
        let bytes = self.send_limit?;
        Some(format!("--send-limit={bytes}"))
    }

    /// The same with this protection alone.
    pub(crate) fn protected_by(&self, name: ProtectionName) -> Self {
        let protect = vec![name];
        Self {
            protect,
            ..self.clone()
        }
    }

    /// Checks that messages are measured with one protection.
    ///
    /// # Errors
    /// There are several.
    pub(crate) fn check_protection(&self) -> Result<(), Failure> {
        match self.protect.len() {
            0 | 1 => Ok(()),
            _ => Err(Failure::usage(
                "several kinds of --protect are for `qsm bench throughput` without layouts, --raw and --plot",
                "give one kind",
            )),
        }
    }

    /// The option of nodes and of the service that says where the key is, if there is one.
    pub(crate) fn key(&self) -> Option<String> {
        let file = self.key.as_ref()?;
        Some(format!("--key={}", file.display()))
    }

    /// Where the processes' metrics are gathered, if they are served.
    pub(crate) fn gathering(&self) -> Option<&Gathering> {
        self.gathering.get()
    }

    /// Whether messages can be timed.
    ///
    /// # Errors
    /// Several core threads, or several kinds of protection, which only throughput is measured of.
    pub(crate) fn check_timed(&self) -> Result<(), Failure> {
        self.check_protection()?;
        match self.cores {
            1 => Ok(()),
            _ => Err(Failure::usage(
                "messages are timed at one core thread",
                "leave out --cores, or measure with `qsm bench throughput`",
            )),
        }
    }

    /// Family of all addresses.
    #[must_use]
    pub(crate) fn family(&self) -> Family {
        if self.ipv6 { Family::V6 } else { Family::V4 }
    }
}
