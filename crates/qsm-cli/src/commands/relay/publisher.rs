//! The source of a stream: `qsm relay pub`.

use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::Failure;
use qsm_console::options::{StatsOptions, loss_ppm, seconds, size};
use qsm_console::stop::Stop;
use qsm_relay::{RateBounds, SendError, Source, SourceStats, To, WINDOW_MAX};
use serde_json::json;

use super::account::{Account, Books};
use super::content::ContentArgs;
use super::ecn::Ecn;
use super::events::Events;
use super::guard::{GuardArgs, Place};
use super::input::Input;
use super::place::LISTEN;
use super::port::{BATCH, Port};
use super::stream::{ParityMode, session, timing};
use crate::frames::Framing;

/// Packets that wait for their time, beyond which no more are read.
const WAITING_MAX: u64 = 256;
/// Bits of a number that count packets; those above are milliseconds, so that a source that is started
/// again numbers on behind its predecessor, and in two milliseconds farther than any window reaches.
const COUNT_BITS: u32 = 15;
/// Milliseconds of Unix time at which numbers begin, 2026: until 2034 they are exact as numbers of JSON,
/// in programs that take these for floating point.
const BEGINNING_MS: u64 = 1_767_225_600_000;

/// Arguments of `qsm relay pub`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "echo hello | qsm relay pub news                     waits for a receiver"
    "qsm relay pub news --wait-receivers 8 < file        for eight"
    "qsm relay pub news --listen 10.0.0.1:4491 --max-rate 2M"
))]
pub(crate) struct PublishArgs {
    /// Name of the stream; receivers give the same
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Where relays and receivers reach it; port 0: any
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = LISTEN)]
    pub(crate) listen: SocketAddr,
    /// Send nothing before so many receivers are there, and wait when none is left; 0: never wait
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) wait_receivers: u32,
    /// Give up if they are not there in time [default: wait for them]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Read messages with their length in front, in the place of lines
    #[arg(long)]
    pub(crate) frames: bool,
    /// Send no faster, bytes a second with the headers of IP and UDP; with suffix k, M or G [default:
    /// as fast as the slowest receiver can take it]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    pub(crate) max_rate: Option<usize>,
    /// Packets that are kept for receivers; when so many are not acknowledged, no more are read
    #[arg(long, value_name = "PACKETS", default_value = "4096", value_parser = clap::value_parser!(u64).range(1..=WINDOW_MAX))]
    pub(crate) window: u64,
    /// Send parity ahead of requests to children whose own hop loses packets and is long: a loss then costs no round
    /// trip. At most a quarter of what they get; none where nothing is lost, or much
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    pub(crate) parity: ParityMode,
    /// Have the kernel clone what goes to four children or more, where it allows that (capabilities CAP_NET_ADMIN
    /// and CAP_BPF); clones do not pass this host's firewall. Takes --listen with one address
    #[arg(long, conflicts_with = "identity")]
    pub(crate) clone_copies: bool,
    /// Marks of congestion in the header of IP (ECN), by which a queue says that it grows
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
    /// Protection from relays.
    #[command(flatten)]
    pub(crate) content: ContentArgs,
    /// Counters.
    #[command(flatten)]
    pub(crate) stats: StatsOptions,
}

/// Publishes stdin, and ends when all receivers have it, or with a signal.
pub(super) fn run(args: &PublishArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let sealer = args.content.sealer(&args.name)?;
    let place = Place::Source(&args.name);
    let mut port = Port::open(args.listen, args.loss, &args.guard, place)?;
    port.use_ecn(args.ecn);
    if args.clone_copies {
        port.clone_copies();
    }
    let listening = port.address()?;
    let books = Books::<SourceStats>::default();
    let served = books.serve(args.stats)?;
    let events = Events { json: args.json };
    events.say(
        &format!("source listening at {listening}"),
        &json!({ "event": "listening", "address": listening }),
    )?;
    let origin = Origin {
        stream: args.name.clone(),
        is_sealed: sealer.is_some(),
        window: args.window,
        max_rate: args.max_rate,
        parity: args.parity,
        audience: match args.wait_receivers {
            0 => Audience::Any,
            _ => Audience::Some,
        },
    };
    let mut publisher = Publisher::new(&origin, port);
    publisher.wait_for_receivers(args, &stop)?;
    let receivers = publisher.source.receivers();
    events.say(
        &format!("sending to {receivers} receivers"),
        &json!({ "event": "sending", "receivers": receivers }),
    )?;
    let framing = if args.frames {
        Framing::Frames
    } else {
        Framing::Lines
    };
    let mut input = Input::read(framing, sealer)?;
    while !publisher.is_done() {
        publisher.take(&mut input, stop.is_asked())?;
        publisher.turn(&input)?;
        books.put(Account::of(publisher.source.stats(), &publisher.port));
    }
    drop(served);
    publisher.port.close();
    let counted = publisher.source.stats();
    let account = Account::of(counted, &publisher.port);
    account.say(args.stats);
    let (sent, [counted, links, pieces, port, ecn]) = (counted.sent, account.objects());
    events.say(
        &format!("ended after {sent} messages"),
        &json!({ "event": "ended", "messages": sent, "counters": counted, "links": links, "pieces": pieces, "port": port, "ecn": ecn }),
    )
}

/// Fate of messages while there is no receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Audience {
    /// They are sent all the same.
    Any,
    /// They wait for one.
    Some,
    /// They are dropped.
    Present,
}

/// A stream, as its source begins it.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// Name of the stream.
    pub(super) stream: String,
    /// Its contents are sealed.
    pub(super) is_sealed: bool,
    /// Packets that are kept.
    pub(super) window: u64,
    /// Bytes a second.
    pub(super) max_rate: Option<usize>,
    pub(super) parity: ParityMode,
    pub(super) audience: Audience,
}

/// A source with its socket.
pub(super) struct Publisher {
    pub(super) source: Source,
    pub(super) port: Port,
    /// A message that has been read and does not fit the window yet.
    pending: Option<Vec<u8>>,
    audience: Audience,
    /// Messages that were dropped because nobody was there.
    pub(super) unsent: u64,
    finished: bool,
    out: Vec<u8>,
}

impl Publisher {
    pub(super) fn new(origin: &Origin, port: Port) -> Self {
        let mut source = Source::new(
            session(&origin.stream, origin.is_sealed),
            timing(),
            origin.window,
        );
        let max = origin.max_rate.map_or(u64::MAX, |rate| rate.max(1) as u64);
        let min = RateBounds::default().min.min(max);
        source.adapt_rate(RateBounds { min, max });
        if origin.parity == ParityMode::Auto {
            source.send_parity();
        }
        if port.uses_ecn() {
            source.use_marks();
        }
        source.number_behind(first_number());
        Self {
            source,
            port,
            pending: None,
            audience: origin.audience,
            unsent: 0,
            finished: false,
            out: Vec::new(),
        }
    }

    fn wait_for_receivers(&mut self, args: &PublishArgs, stop: &Stop) -> Result<(), Failure> {
        let end = args.timeout.map(|limit| self.port.now().after(limit));
        while self.source.receivers() < args.wait_receivers && !stop.is_asked() {
            if end.is_some_and(|end| self.port.now() >= end) {
                return Err(Failure::timeout(
                    format!(
                        "{} of {} receivers have come",
                        self.source.receivers(),
                        args.wait_receivers
                    ),
                    "start them, give a longer --timeout, or a smaller --wait-receivers",
                ));
            }
            self.port.wait(self.source.next_timeout(), None)?;
            self.carry_out();
        }
        Ok(())
    }

    /// Takes messages as far as there is room for them, and somebody who gets them; none after a signal.
    pub(super) fn take(&mut self, input: &mut Input, asked_to_end: bool) -> Result<(), Failure> {
        let now = self.port.now();
        let alone = self.source.children() == 0;
        let nobody = self.audience == Audience::Some && alone;
        while !self.finished && self.source.waiting() < WAITING_MAX {
            let next = match self.pending.take() {
                Some(_) if nobody && asked_to_end => None,
                Some(message) => Some(message),
                None if asked_to_end => None,
                None => input.next()?,
            };
            let Some(message) = next else {
                if asked_to_end || input.is_ended() {
                    self.finished = true;
                    self.source.finish(now);
                }
                break;
            };
            if nobody {
                self.pending = Some(message);
                break;
            }
            if alone && self.audience == Audience::Present {
                self.unsent += 1;
                // Whoever wants to join is to be heard.
                if self.unsent.is_multiple_of(WAITING_MAX) {
                    break;
                }
                continue;
            }
            match self.source.send(now, &message) {
                Ok(_) => {}
                Err(SendError::WindowFull { .. }) => {
                    self.pending = Some(message);
                    break;
                }
                Err(error) => return Err(Failure::failed(error.to_string(), "start it again")),
            }
        }
        Ok(())
    }

    /// Waits for something, and carries it out.
    pub(super) fn turn(&mut self, input: &Input) -> Result<(), Failure> {
        self.carry_out();
        let room = self.pending.is_none() && self.source.waiting() < WAITING_MAX;
        let bell = input.bell().filter(|_| room && !self.finished);
        self.port.wait(self.source.next_timeout(), bell)?;
        self.carry_out();
        Ok(())
    }

    fn carry_out(&mut self) {
        for _ in 0..BATCH {
            let Some(received) = self.port.receive() else {
                break;
            };
            let (now, bytes) = (self.port.now(), self.port.bytes(&received));
            self.source.handle_datagram(now, received.from, bytes);
        }
        self.source.handle_timeout(self.port.now());
        while let Some(to) = self.source.poll_transmit(&mut self.out) {
            match to {
                To::Address(address) => self.port.send(address, &self.out),
                To::Children(links) => {
                    let to = self.source.addresses(links);
                    let codepoint = self.source.codepoint();
                    self.port.send_copies(to, &self.out, codepoint);
                }
            }
        }
    }

    /// Everybody has everything, knows the end, and has left or is gone.
    pub(super) fn is_done(&self) -> bool {
        self.finished && self.source.children() == 0 && self.pending.is_none()
    }
}

/// The number behind which this source numbers: that of the time.
fn first_number() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let ms = since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(0));
    ms.saturating_sub(BEGINNING_MS) << COUNT_BITS
}
