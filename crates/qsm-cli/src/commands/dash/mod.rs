//! `qsm dash`: what `qsm top` and `qsm explain` see, in the browser.
//!
//! ```text
//!   service ── lists ──────┐
//!   nodes here ─ counters ─┼──► rows, sums, explanations ──► qsm-dash ──► browsers
//!   nodes here ─ groups ───┘
//! ```

mod rows;
mod sight;

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::options::{NodeOptions, local_address, seconds};
use qsm_console::output;
use qsm_console::stop::Stop;
use qsm_dash::Dash;

use self::sight::Sight;
use crate::access::AccessOptions;

/// Time between two looks at whether the user wants to end it.
const ATTENTION: Duration = Duration::from_millis(100);

/// Arguments of `qsm dash`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm dash                                        then open the address that it says"
    "qsm dash --listen 9000                          at another port of this host"
    "qsm dash --access-token-file /etc/qsm/dash.token  with a token that stays the same"
    "qsm dash --listen 10.0.0.5:4488 --host desk     for others, by the name http://desk:4488"
))]
pub(crate) struct DashArgs {
    /// Where to listen. A port alone is one of this host
    #[arg(long, value_name = "[ADDRESS:]PORT", default_value = "127.0.0.1:4488",
          value_parser = local_address)]
    listen: SocketAddr,
    /// Access to the page.
    #[command(flatten)]
    access: AccessOptions,
    /// Time to look for a membership service, and to wait for its answer
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = seconds)]
    timeout: Duration,
    /// Where to ask.
    #[command(flatten)]
    node: NodeOptions,
}

/// Runs the command, until it is asked to end.
///
/// # Errors
/// The token cannot be read, or the address is not to be had.
pub(crate) fn run(args: &DashArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let access = args.access.at(args.listen)?;
    let sight = Sight::new(&args.node, args.timeout);
    let dash = Dash::start(access.config.clone(), sight)
        .map_err(|error| Failure::io(format_args!("listen at {}", args.listen), &error))?;
    let address = dash.address();
    if !address.ip().is_loopback() {
        output::say(format_args!(
            "qsm: {address} is not of this host alone: who reaches it sees nodes and groups, and the \
             token can be read on the way, since nothing is encrypted"
        ));
    }
    output::write(format!("{}\n", access.url(address)))?;
    while !stop.is_asked() {
        thread::sleep(ATTENTION);
    }
    Ok(())
}
