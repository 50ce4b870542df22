//! The program `qsm`: publish, subscribe, watch, and a demonstration of it all.
//!
//! This crate reads arguments, files and pipes, and writes for people and for programs. The
//! protocol is in the library `qsm`.
//!
//! ```text
//!   stdin, files ──► pub ──► qsm ~~network~~ qsm ──► sub ──► stdout, files
//!   lab: hosts out of namespaces        demo: gms, senders, receivers, and a check of every byte
//! ```

#![forbid(unsafe_code)]
// They panic where nobody reads; `qsm_console::output` does not.
#![deny(clippy::print_stderr, clippy::print_stdout)]

mod access;
mod audience;
mod base64;
mod commands;
mod delivery;
#[cfg(test)]
mod documented;
mod frames;
mod group_hashes;
mod group_name;
mod help;
mod hold;
mod idle;
mod node;
mod observer;
mod origins;
mod past;
mod pcapng;
mod record;
mod senders;
mod settings;
mod spool;
mod stats;
mod store;
mod suggest;
mod surroundings;

use std::env;
use std::ffi::OsString;
use std::io::{Write, stderr};
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::log::{self, LogFormat, LogOptions};
use qsm_demo::DemoArgs;
use qsm_measure::{BenchArgs, LatencyArgs};

use crate::commands::advise::{self, AdviseArgs};
use crate::commands::capture::{self, CaptureArgs};
use crate::commands::config::{self, ConfigArgs};
use crate::commands::dash::{self, DashArgs};
use crate::commands::dissector::{self, DissectorArgs};
use crate::commands::doctor::{self, DoctorArgs};
use crate::commands::engine::{self, EngineArgs};
use crate::commands::explain::{self, ExplainArgs};
use crate::commands::gms::{self, GmsArgs};
use crate::commands::init::{self, InitArgs};
use crate::commands::keep::{self, KeepArgs};
use crate::commands::keygen::{self, KeygenArgs};
use crate::commands::lab::{self, LabArgs};
use crate::commands::list::{ListArgs, groups, nodes, regions};
use crate::commands::open::{self, OpenArgs};
use crate::commands::plan::{self, PlanArgs};
use crate::commands::publish::{self, PubArgs};
use crate::commands::relay::{self, RelayArgs};
use crate::commands::repair::{self, RepairArgs};
use crate::commands::shell::{self, CompletionArgs, ManArgs};
use crate::commands::sim::{self, SimArgs};
use crate::commands::subscribe::{self, SubArgs};
use crate::commands::token::{self, TokenArgs};
use crate::commands::top::{self, TopArgs};
use crate::settings::Settings;

/// Reliable multicast to thousands of overlapping groups, without a broker.
#[derive(Debug, Parser)]
#[command(name = "qsm", version, before_help = examples!(
    "qsm demo                      everything at once: hosts, losses, a crash, checked to the end"
    "qsm sub news                  in one terminal"
    "echo hello | qsm pub news     in another"
))]
struct Cli {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
enum Command {
    /// Publish lines, frames or a file to groups
    Pub(PubArgs),
    /// Receive groups: print, count, hash or store their messages
    Sub(SubArgs),
    /// Open a live object by its address, or the messages of a group
    Open(OpenArgs),
    /// Keep the last messages of groups for those who join later
    Keep(KeepArgs),
    /// Run a node that other processes of this host attach to
    Engine(EngineArgs),
    /// Run a membership service on its own
    Gms(GmsArgs),
    /// List the nodes of the cluster
    Nodes(nodes::NodesArgs),
    /// List the groups of the cluster
    Groups(ListArgs),
    /// List the regions of the cluster: nodes with the same groups
    Regions(ListArgs),
    /// Watch nodes, groups and regions of the cluster, and the nodes of this host
    Top(TopArgs),
    /// Show the cluster and the nodes of this host in the browser
    Dash(DashArgs),
    /// Ask the nodes of this host where a group's messages go, or what they lose, and why
    Explain(ExplainArgs),
    /// Relay streams between sites, or publish and receive by relays: neither encrypted nor
    /// authenticated
    Relay(RelayArgs),
    /// Show or change the limit of what the nodes of a cluster send again
    Repair(RepairArgs),
    /// Make the keys of a cluster: the one that protects its packets, and a root that makes tokens
    Init(InitArgs),
    /// Make the key of a cluster, which protects its packets, or of a node
    Keygen(KeygenArgs),
    /// Make, show, list and revoke tokens, which say what a node may do
    Token(TokenArgs),
    /// Plan regions, channels and paths for subscriptions in a file
    Plan(PlanArgs),
    /// Calculate buffers, latency, interrupts, batching, retention and repair
    Advise(AdviseArgs),
    /// Examine this host for what loses or delays multicast, and mend it
    Doctor(DoctorArgs),
    /// Capture the packets of a cluster at this host, for Wireshark, into files of bounded size
    Capture(CaptureArgs),
    /// Write the dissector that shows the packets of this version in Wireshark
    Dissector(DissectorArgs),
    /// Test hosts on this machine, out of network namespaces
    Lab(LabArgs),
    /// Measure throughput and latency, on this machine or between hosts
    Bench(BenchArgs),
    /// Measure what this host adds to latency: scheduling, contention, drift of its clock
    Latency(LatencyArgs),
    /// Simulate clusters: replay seeds and scenarios, look for faults at random
    Sim(SimArgs),
    /// Show it all on this machine: many hosts, losses and a crash, checked to the last byte
    Demo(DemoArgs),
    /// Show what is set by file and variables for the options of nodes
    ///
    /// An option of a node comes from the command line, else from its variable, such as
    /// QSM_DATA_PORT for --data-port, else from a file in TOML, whose keys are the long names of
    /// options. The file is the one that QSM_CONFIG names, or ~/.config/qsm/config.toml, or
    /// /etc/qsm/config.toml.
    Config(ConfigArgs),
    /// Write the completion of a shell
    Completion(CompletionArgs),
    /// Write a page of the manual
    Man(ManArgs),
    /// One process of the demonstration
    #[command(hide = true)]
    DemoNode(qsm_demo::NodeArgs),
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let given: Vec<OsString> = brief_help(env::args_os().collect());
    let words = given.iter().skip(1);
    let words: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    let settings = Settings::for_command(words.first());
    let (command, notices) = match settings {
        Ok(settings) => {
            let command = parse(&settings, &given, &words);
            let notices = notices(&command);
            (Ok(command), notices)
        }
        Err(failure) => (Err(failure), LogOptions::default()),
    };
    log::start(notices);
    match command.and_then(|command| run(&command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            match notices.log_format {
                // That nobody reads it does not change the exit code.
                LogFormat::Text => _ = writeln!(stderr(), "{failure}"),
                LogFormat::Json => failure.note(),
            }
            failure.exit_code()
        }
    }
}

/// How the notices of a command are to be written.
fn notices(command: &Command) -> LogOptions {
    match command {
        Command::Pub(args) => args.node.network.notices,
        Command::Sub(args) => args.node.network.notices,
        Command::Open(args) => args.notices(),
        Command::Keep(args) => args.node.network.notices,
        Command::Engine(args) => args.node.network.notices,
        Command::Gms(args) => args.network.notices,
        Command::Bench(args) => args.notices(),
        Command::Nodes(args) => args.list.node.network.notices,
        Command::Groups(args) | Command::Regions(args) => args.node.network.notices,
        _ => LogOptions::default(),
    }
}

/// The definition of the command line, for parsing, help, completion and manual.
fn definition() -> clap::Command {
    help::arrange(Cli::command())
}

/// The command line with `help COMMAND` as `COMMAND -h`: the short help, which names the long one.
fn brief_help(mut words: Vec<OsString>) -> Vec<OsString> {
    let help = words.get(1).is_some_and(|word| word == "help");
    if help
        && words[2..]
            .iter()
            .all(|word| !word.to_string_lossy().starts_with('-'))
    {
        words.remove(1);
        words.push("-h".into());
    }
    words
}

/// The command that was asked for. Ends the process if there is none.
fn parse(settings: &Settings, given: &[OsString], words: &[String]) -> Command {
    let definition = settings.apply(definition());
    let parsed = definition.clone().try_get_matches_from(given);
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    match parsed {
        Ok(cli) => cli.command,
        Err(error) => suggest::improve(error, &definition, words).exit(),
    }
}

fn run(command: &Command) -> Result<(), Failure> {
    match command {
        Command::Pub(args) => publish::run(args),
        Command::Sub(args) => subscribe::run(args),
        Command::Open(args) => open::run(args),
        Command::Keep(args) => keep::run(args),
        Command::Engine(args) => engine::run(args),
        Command::Gms(args) => gms::run(args),
        Command::Nodes(args) => nodes::run(args),
        Command::Groups(args) => groups::run(args),
        Command::Regions(args) => regions::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Relay(args) => relay::run(args),
        Command::Repair(args) => repair::run(args),
        Command::Top(args) => top::run(args),
        Command::Dash(args) => dash::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Advise(args) => advise::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Capture(args) => capture::run(args),
        Command::Dissector(_) => dissector::run(),
        Command::Init(args) => init::run(args),
        Command::Keygen(args) => keygen::run(args),
        Command::Token(args) => token::run(args),
        Command::Lab(args) => lab::run(args),
        Command::Bench(args) => qsm_measure::run(args),
        Command::Latency(args) => qsm_measure::run_latency(args),
        Command::Sim(args) => sim::run(args),
        Command::Demo(args) => qsm_demo::run(args),
        Command::Config(args) => config::run(args),
        Command::Completion(args) => shell::completion(args, definition()),
        Command::Man(args) => shell::man(args, definition()),
        Command::DemoNode(args) => qsm_demo::run_node(args),
    }
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;
    use qsm_console::options::{Place, ServicePlace};

    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Cli::try_parse_from(line.split(' ')).map(|cli| cli.command)
    }

    #[test]
    fn the_definition_is_consistent() {
        definition().debug_assert();
    }

    #[test]
    fn every_command_has_examples_and_exit_codes_in_its_help() {
        for command in definition()
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
    fn help_of_a_command_is_its_short_help() {
        let brief = |line: &str| brief_help(line.split(' ').map(OsString::from).collect());
        assert_eq!(brief("qsm help sub"), ["qsm", "sub", "-h"]);
        assert_eq!(brief("qsm help sim run"), ["qsm", "sim", "run", "-h"]);
        assert_eq!(brief("qsm help"), ["qsm", "-h"]);
        assert_eq!(brief("qsm help --help"), ["qsm", "help", "--help"]);
        assert_eq!(brief("qsm sub help"), ["qsm", "sub", "help"]);
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
        assert_eq!(node.service, [ServicePlace::parse("10.0.0.1:5").unwrap()]);
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
    fn nonsense_about_captures_is_a_usage_error() {
        for (line, kind) in [
            ("qsm capture", ErrorKind::MissingRequiredArgument),
            ("qsm capture f --files 1", ErrorKind::ValueValidation),
            ("qsm capture f --file-size 100k", ErrorKind::ValueValidation),
            (
                "qsm capture f --heads 9 --whole",
                ErrorKind::ArgumentConflict,
            ),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.kind(), kind, "{line}: {error}");
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
            ("qsm plan", ErrorKind::MissingRequiredArgument),
            (
                "qsm advise",
                ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
            ),
            (
                "qsm plan f --layout zipf:1,2,3",
                ErrorKind::ArgumentConflict,
            ),
            ("qsm plan --layout rings:3", ErrorKind::ValueValidation),
            ("qsm plan f --check", ErrorKind::ArgumentConflict),
            ("qsm lab run", ErrorKind::MissingRequiredArgument),
            ("qsm lab run --hosts 0 -- true", ErrorKind::ValueValidation),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.kind(), kind, "{line}: {error}");
        }
    }
}
