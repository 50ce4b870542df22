//! A relay: between its parent and its children.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use clap::Args;
use qsm::metrics;
use qsm_console::failure::Failure;
use qsm_console::options::{StatsOptions, loss_ppm};
use qsm_console::stop::Stop;
use qsm_relay::{Loop, Relay, RelayStats};
use qsm_wire::Instant;
use serde_json::{Value, json};

use super::events::{Events, warn_of_openness};
use super::patience::Patience;
use super::place::{LISTEN, parent_address};
use super::port::{BATCH, LOOK, Port};
use super::stream::timing;
use crate::stats;

/// Arguments of a relay.
#[derive(Debug, Clone, Args)]
pub(crate) struct ForwardArgs {
    /// Relay or source that is nearer to where the streams come from. NOTHING IS ENCRYPTED OR
    /// AUTHENTICATED: whoever reaches the port gets the streams, and can forge them. Use it in a
    /// network of your own, or inside a tunnel
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub(crate) parent: Option<String>,
    /// Where children reach it, and from where it speaks to its parent; port 0: any
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = LISTEN)]
    pub(crate) listen: SocketAddr,
    /// Write what happens as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    /// Lose this share of what comes, on purpose
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = loss_ppm)]
    pub(crate) loss: u32,
    /// Counters.
    #[command(flatten)]
    pub(crate) stats: StatsOptions,
}

/// Runs a relay until a signal.
pub(super) fn run(args: &ForwardArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let port = Port::open(args.listen, args.loss)?;
    let listening = port.address()?;
    let parent = parent_address(args.parent.as_deref().unwrap_or_default(), listening)?;
    let counters = Arc::new(Mutex::new(RelayStats::default()));
    let served = stats::serve_counters(&counters, args.stats)?;
    warn_of_openness();
    let events = Events { json: args.json };
    events.say(
        &format!("relay listening at {listening}, parent {parent}"),
        &json!({ "event": "listening", "address": listening, "parent": parent }),
    )?;
    let mut forward = Forward {
        relay: Relay::new(parent, port.number, timing()),
        port,
        parent,
        out: Vec::new(),
    };
    let (mut patience, mut receivers) = (Patience::new(parent), 0);
    let mut look = Instant(0);
    while !stop.is_asked() {
        forward.turn()?;
        let now = forward.port.now();
        if now < look {
            continue;
        }
        look = now.after(LOOK);
        forward.check()?;
        patience.look(now, forward.relay.waits_for_parent());
        *counters.lock().unwrap_or_else(PoisonError::into_inner) = forward.relay.stats();
        let below = forward.relay.all_receivers();
        if below != receivers {
            receivers = below;
            let sessions = forward.relay.sessions();
            events.say(
                &format!("{sessions} streams, {receivers} receivers"),
                &json!({ "event": "receivers", "streams": sessions, "receivers": receivers }),
            )?;
        }
    }
    drop(served);
    let counted = forward.relay.stats();
    if let Some(format) = args.stats.format(false) {
        stats::of_counters(&counted, format);
    }
    let counted: Value = serde_json::from_str(&metrics::json(&counted)).unwrap_or_default();
    events.say(
        "stopped",
        &json!({ "event": "stopped", "counters": counted }),
    )
}

/// A relay with its socket.
struct Forward {
    relay: Relay,
    port: Port,
    parent: SocketAddr,
    out: Vec<u8>,
}

impl Forward {
    /// Waits for something, and carries it out.
    fn turn(&mut self) -> Result<(), Failure> {
        self.port.wait(self.relay.next_timeout(), None)?;
        for _ in 0..BATCH {
            let Some((from, length)) = self.port.receive() else {
                break;
            };
            let bytes = self.port.bytes(length);
            let onward = self.relay.handle_datagram(self.port.now(), from, bytes);
            for to in self.relay.addresses(onward) {
                self.port.send(to, bytes);
            }
            self.transmit();
        }
        self.relay.handle_timeout(self.port.now());
        self.transmit();
        Ok(())
    }

    fn transmit(&mut self) {
        while let Some(to) = self.relay.poll_transmit(&mut self.out) {
            self.port.send(to, &self.out);
        }
    }

    /// A loop of parents is an error: nothing can come.
    fn check(&self) -> Result<(), Failure> {
        let Some(Loop { child, relays }) = self.relay.looped() else {
            return Ok(());
        };
        let (own, parent) = (self.port.address()?, self.parent);
        let between = match relays {
            1 => "this relay is its own parent".to_owned(),
            2 => format!("this relay's parent is {parent}, and that one's parent is this relay"),
            _ => format!(
                "this relay's parent is {parent}, and so on, up to {child}, whose parent is this relay"
            ),
        };
        Err(Failure::failed(
            format!("parents form a loop of {relays} relays, with this one at {own}: {between}"),
            "start one of them with another --parent: a relay or source that is nearer to the streams",
        ))
    }
}
