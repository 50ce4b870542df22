//! `qsm dash`: what `qsm top` and `qsm explain` see, in the browser.
//!
//! ```text
//!   service ── lists ──────┐
//!   nodes here ─ counters ─┼──► rows, sums, explanations ──► qsm-dash ──► browsers
//!   nodes here ─ groups ───┘
//! ```

mod rows;
mod sight;

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::options::{NodeOptions, local_address, seconds};
use qsm_console::output;
use qsm_console::stop::Stop;
use qsm_dash::{Config, Dash, Token};

use self::sight::Sight;

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
    /// Word that opens what the nodes of this host say. Command lines can be read by all users of a host:
    /// see --access-token-file [default: a new one, which is part of the address that is written]
    #[arg(long, value_name = "TOKEN", value_parser = Token::new, conflicts_with = "access_token_file")]
    access_token: Option<Token>,
    /// Read the token from a file
    #[arg(long, value_name = "FILE")]
    access_token_file: Option<PathBuf>,
    /// Name by which browsers may reach it, beside addresses and localhost; may be given again
    #[arg(long, value_name = "NAME")]
    host: Vec<String>,
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
    let given = given_token(args)?;
    let drawn = given.is_none();
    let token = match given {
        Some(token) => token,
        None => Token::draw().map_err(|error| Failure::io("draw a token", &error))?,
    };
    let config = Config {
        listen: args.listen,
        token: token.clone(),
        names: args.host.clone(),
    };
    let sight = Sight::new(&args.node, args.timeout);
    let dash = Dash::start(config, sight)
        .map_err(|error| Failure::io(format_args!("listen at {}", args.listen), &error))?;
    let address = dash.address();
    if !address.ip().is_loopback() {
        output::say(format_args!(
            "qsm: {address} is not of this host alone: who reaches it sees nodes and groups, and the \
             token can be read on the way, since nothing is encrypted"
        ));
    }
    let shown = format!("http://{}/", reachable(address));
    let shown = match drawn {
        true => format!("{shown}#token={}", token.text()),
        false => shown,
    };
    output::write(format!("{shown}\n"))?;
    while !stop.is_asked() {
        thread::sleep(ATTENTION);
    }
    Ok(())
}

fn given_token(args: &DashArgs) -> Result<Option<Token>, Failure> {
    let Some(file) = &args.access_token_file else {
        return Ok(args.access_token.clone());
    };
    let text = fs::read_to_string(file);
    let text =
        text.map_err(|error| Failure::io(format_args!("read {}", file.display()), &error))?;
    let token = Token::new(text.trim());
    let wrong = |why| {
        Failure::usage(
            format!("{}: {why}", file.display()),
            "write one with `head -c 16 /dev/urandom | xxd -p > FILE`, readable by its user alone",
        )
    };
    token.map(Some).map_err(wrong)
}

/// An address that a browser of this host can go to.
fn reachable(address: SocketAddr) -> String {
    match address.ip().is_unspecified() {
        true => format!("localhost:{}", address.port()),
        false => address.to_string(),
    }
}
