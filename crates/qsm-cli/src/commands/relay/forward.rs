//! A relay: between its parent and its children.

use std::net::SocketAddr;

use clap::Args;
use qsm_console::failure::Failure;
use qsm_console::options::{StatsOptions, loss_ppm, size};
use qsm_console::stop::Stop;
use qsm_relay::{Loop, Relay, RelayStats};
use qsm_wire::Instant;
use serde_json::json;

use super::account::{Account, Books};
use super::ecn::Ecn;
use super::events::Events;
use super::guard::{GuardArgs, Place};
use super::patience::Patience;
use super::place::{LISTEN, Parents, parent_addresses};
use super::port::{BATCH, LOOK, Port};
use super::stream::{ParityMode, timing};

/// Arguments of a relay.
#[derive(Debug, Clone, Args)]
pub(crate) struct ForwardArgs {
    /// Relay or source that is nearer to where the streams come from. Without --identity NOTHING IS
    /// ENCRYPTED OR AUTHENTICATED: whoever reaches the port gets the streams, and can forge them
    /// Named again: another one, which takes over when the first is silent for half a second
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub(crate) parent: Vec<String>,
    /// Where children reach it, and from where it speaks to its parent; port 0: any
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = LISTEN)]
    pub(crate) listen: SocketAddr,
    /// Keep the newest packets in so much memory, and answer requests out of it [default: keep none]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) cache: Option<usize>,
    /// Send parity ahead of requests to children whose own hop loses packets and is long: a loss then costs no round
    /// trip. At most a quarter of what they get; none where nothing is lost, or much
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) parity: ParityMode,
    /// Have the kernel clone what goes to four children or more, where it allows that (capabilities CAP_NET_ADMIN
    /// and CAP_BPF); clones do not pass this host's firewall. Takes --listen with one address
    #[arg(long, conflicts_with = "identity")]
    pub(crate) clone_copies: bool,
    /// Marks of congestion in the header of IP (ECN): with `on` packets go on with what they have come with
    #[arg(long, value_name = "USE", default_value = "on")]
    pub(crate) ecn: Ecn,
    /// Write what happens as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    /// Lose this share of what comes, on purpose
    #[arg(long, value_name = "PERCENT", default_value = "0", value_parser = loss_ppm)]
    pub(crate) loss: u32,
    /// Protection.
    #[command(flatten)]
    pub(crate) guard: GuardArgs,
    /// Counters.
    #[command(flatten)]
    pub(crate) stats: StatsOptions,
}

/// Runs a relay until a signal.
pub(super) fn run(args: &ForwardArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let mut port = Port::open(args.listen, args.loss, &args.guard, Place::Relay)?;
    port.use_ecn(args.ecn);
    if args.clone_copies {
        port.clone_copies();
    }
    let listening = port.address()?;
    let Parents { first, others } = parent_addresses(&args.parent, listening)?;
    let books = Books::<RelayStats>::default();
    let served = books.serve(args.stats)?;
    let events = Events { json: args.json };
    events.say(
        &format!("relay listening at {listening}, parent {first}"),
        &json!({ "event": "listening", "address": listening, "parent": first }),
    )?;
    let relay = relay_of(args, first, port.number);
    let mut forward = Forward {
        relay,
        port,
        parent: first,
        out: Vec::new(),
    };
    forward.port.connect(first);
    for other in others {
        let now = forward.port.now();
        forward.relay.add_parent(now, other);
        forward.port.connect(other);
    }
    let (mut patience, mut receivers) = (Patience::new(first), 0);
    let mut look = Instant(0);
    while !stop.is_asked() {
        forward.turn()?;
        let now = forward.port.now();
        if now < look {
            continue;
        }
        look = now.after(LOOK);
        forward.check()?;
        if let Some(before) = forward.follow() {
            let parent = forward.parent;
            events.say(
                &format!("the parent {before} is silent; {parent} takes its place"),
                &json!({ "event": "parent", "address": parent, "before": before }),
            )?;
            patience = Patience::new(parent);
        }
        patience.look(now, forward.relay.waits_for_parent());
        books.put(Account::of(forward.relay.stats(), &forward.port));
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
    forward.port.close();
    let account = Account::of(forward.relay.stats(), &forward.port);
    account.say(args.stats);
    let [counted, links, pieces, port, ecn] = account.objects();
    events.say(
        "stopped",
        &json!({ "event": "stopped", "counters": counted, "links": links, "pieces": pieces, "port": port, "ecn": ecn }),
    )
}

/// The relay that the options ask for.
fn relay_of(args: &ForwardArgs, parent: SocketAddr, number: u64) -> Relay {
    let mut relay = Relay::new(parent, number, timing());
    relay.keep(args.cache.unwrap_or(0));
    if args.parity == ParityMode::Auto {
        relay.send_parity();
    }
    relay
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
            let Some(received) = self.port.receive() else {
                break;
            };
            let (now, bytes) = (self.port.now(), self.port.bytes(&received));
            let onward = self.relay.handle_datagram(now, received.from, bytes);
            if !onward.is_empty() {
                self.port.pass_on(&received, self.relay.addresses(onward));
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

    /// Takes note of the parent that there is now. Returns the one before, if another one has taken its place.
    fn follow(&mut self) -> Option<SocketAddr> {
        let now = self.relay.parent();
        let before = core::mem::replace(&mut self.parent, now);
        (before != now).then_some(before)
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
