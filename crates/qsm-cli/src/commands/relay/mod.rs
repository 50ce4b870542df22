//! `qsm relay`: relays between sites, and streams by them.

mod account;
mod content;
mod ecn;
mod events;
mod forward;
mod guard;
mod incoming;
mod input;
mod notices;
mod outgoing;
mod patience;
mod place;
mod port;
mod publisher;
mod site;
mod stream;
mod subscriber;
mod writer;

use clap::{Args, Subcommand};
use qsm_console::examples;
use qsm_console::failure::Failure;

use self::forward::ForwardArgs;
use self::publisher::PublishArgs;
use self::site::SiteArgs;
pub(crate) use self::site::site_name;
use self::subscriber::SubscribeArgs;

/// Arguments of `qsm relay`.
#[derive(Debug, Clone, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    before_help = examples!(
        "qsm relay pub news                              where the stream is: it listens at port 4490"
        "qsm relay --parent source.example:4490          at each site"
        "qsm relay sub news --parent relay.example:4490  at hosts of the site"
        "qsm relay --parent source.example:4490 --identity fra.key   encrypted and authenticated"
    )
)]
pub(crate) struct RelayArgs {
    /// A source or receiver of a stream, or a site's gateway, in the place of a relay.
    #[command(subcommand)]
    pub(crate) role: Option<Role>,
    #[command(flatten)]
    pub(crate) relay: ForwardArgs,
}

/// Ends of a stream, and gateways of sites.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum Role {
    /// Publish lines or frames from stdin to receivers below this host, as fast as the slowest of them
    /// can take them; without --identity not encrypted, and to whoever asks
    Pub(PublishArgs),
    /// Receive a stream from a relay or its source, and write it to stdout; without --identity not
    /// encrypted, and from whoever sends with the parent's address
    Sub(SubscribeArgs),
    /// Join groups of this site's cluster with those of other sites: send what is published here, and publish
    /// what is published there; without --link-identity not encrypted between sites
    Site(Box<SiteArgs>),
}

/// Runs the command, until a signal or the end of the stream.
///
/// # Errors
/// The port is taken, the parent's name is unknown, parents form a loop, or something did not come in
/// time.
pub(crate) fn run(args: &RelayArgs) -> Result<(), Failure> {
    match &args.role {
        None => forward::run(&args.relay),
        Some(Role::Pub(args)) => publisher::run(args),
        Some(Role::Sub(args)) => subscriber::run(args),
        Some(Role::Site(args)) => site::run(args),
    }
}
