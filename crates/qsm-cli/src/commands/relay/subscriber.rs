//! The receiver of a stream: `qsm relay sub`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use clap::Args;
use qsm_console::examples;
use qsm_console::failure::{Code, Failure};
use qsm_console::log::Note;
use qsm_console::options::{StatsOptions, loss_ppm, seconds};
use qsm_console::stop::Stop;
use qsm_console::table::printable;
use qsm_relay::{Event, Receiver, ReceiverStats, WINDOW_MAX};
use qsm_wire::Instant;

use super::account::{Account, Books};
use super::content::{ContentArgs, Contents};
use super::guard::{GuardArgs, Place};
use super::patience::Patience;
use super::place::{Parents, parent_addresses};
use super::port::{BATCH, LOOK, Port};
use super::stream::{session, timing};
use super::writer::{Form, Message, Room, Writer};

/// Any port of any address.
const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
/// How soon a full writer is asked again.
const AGAIN: Duration = Duration::from_millis(5);

/// Arguments of `qsm relay sub`.
#[derive(Debug, Clone, Args)]
#[command(before_help = examples!(
    "qsm relay sub news --parent 10.0.0.2:4490           until the source ends"
    "qsm relay sub news --parent 10.0.0.2:4490 --count 1"
    "qsm relay sub news --parent 10.0.0.2:4490 --parent 10.0.0.3:4490    two relays of a site"
    "qsm relay sub news --parent 10.0.0.2:4490 --json    one object in a line for each message"
))]
pub(crate) struct SubscribeArgs {
    /// Name of the stream
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Relay of this site, or the source. Named again: another one, which takes over when the first is
    /// silent for half a second
    #[arg(long, value_name = "HOST:PORT", required = true)]
    pub(crate) parent: Vec<String>,
    /// Ask all parents at once, and take the one that answers first: the nearest, also if it was named last
    #[arg(long)]
    pub(crate) nearest: bool,
    /// From where it speaks to its parent [default: any port]
    #[arg(long, value_name = "ADDRESS:PORT", default_value_t = ANY, hide_default_value = true)]
    pub(crate) listen: SocketAddr,
    /// End after so many messages
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Give up if the parent has not answered in time [default: ask again and again]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Write each message with its length in front, in the place of lines
    #[arg(long, conflicts_with = "json")]
    pub(crate) frames: bool,
    /// Write each message as a JSON object in a line: `number`, `size`, and `text`, or `base64`
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

/// Receives until the stream ends, so many messages have come, or a signal.
pub(super) fn run(args: &SubscribeArgs) -> Result<(), Failure> {
    let stop = Stop::on_signals()?;
    let place = Place::Receiver(&args.name);
    let port = Port::open(args.listen, args.loss, &args.guard, place)?;
    let Parents { first, others } = parent_addresses(&args.parent, port.address()?)?;
    let books = Books::<ReceiverStats>::default();
    let served = books.serve(args.stats)?;
    let mut subscriber = Subscriber::new(args, port, first)?;
    subscriber.port.connect(first);
    for other in others {
        let now = subscriber.port.now();
        subscriber.receiver.add_parent(now, other);
        subscriber.port.connect(other);
    }
    if args.nearest {
        subscriber.receiver.choose_nearest();
    }
    let limit = args.timeout.map(|limit| subscriber.port.now().after(limit));
    let patience_of = |parent| Patience::with_doubt(parent, args.content.doubt());
    let (mut patience, mut look) = (patience_of(first), Instant(0));
    while !subscriber.ended && !stop.is_asked() {
        subscriber.turn()?;
        let now = subscriber.port.now();
        if now < look {
            continue;
        }
        look = now.after(LOOK);
        if subscriber.follow() {
            patience = patience_of(subscriber.parent);
        }
        let waits = !subscriber.receiver.is_member();
        patience.look(now, waits);
        if waits && limit.is_some_and(|limit| now >= limit) {
            let why = subscriber.port.failure();
            let why = why.map_or(String::new(), |why| format!(": {why}"));
            return Err(Failure::timeout(
                format!("the parent {} has not answered{why}", subscriber.parent),
                format!(
                    "is it running, can this host reach it, and do its own parents answer{}? or give a \
                     longer --timeout",
                    args.content.doubt()
                ),
            ));
        }
        books.put(subscriber.account());
    }
    drop(served);
    subscriber.end(args)
}

/// A receiver with its socket, and what it writes to.
struct Subscriber {
    receiver: Receiver,
    port: Port,
    parent: SocketAddr,
    name: String,
    contents: Contents,
    writer: Writer,
    /// A message that the writer had no room for.
    pending: Option<Message>,
    left: Option<u64>,
    written: u64,
    /// Messages are missing, or may be.
    incomplete: bool,
    ended: bool,
    out: Vec<u8>,
}

impl Subscriber {
    fn new(args: &SubscribeArgs, port: Port, parent: SocketAddr) -> Result<Self, Failure> {
        let form = match (args.json, args.frames) {
            (true, _) => Form::Json,
            (_, true) => Form::Frames,
            _ => Form::Lines,
        };
        let contents = args.content.contents(&args.name)?;
        let id = session(&args.name, args.content.content_key.is_some());
        let (number, now) = (port.number, port.now());
        Ok(Self {
            receiver: Receiver::new(id, number, timing(), parent, now),
            port,
            parent,
            name: printable(&args.name),
            contents,
            writer: Writer::start(form)?,
            pending: None,
            left: args.count,
            written: 0,
            incomplete: false,
            ended: false,
            out: Vec::new(),
        })
    }

    fn account(&self) -> Account<ReceiverStats> {
        Account::of(self.receiver.stats(), &self.port).with_contents(self.contents.stats())
    }

    /// Says that another parent has taken over, if so.
    fn follow(&mut self) -> bool {
        let (before, now) = (self.parent, self.receiver.parent());
        if before == now {
            return false;
        }
        self.parent = now;
        let line = format!("the parent {before} is silent; {now} takes its place");
        Note::warn("waiting", &line).address(&now.to_string()).say();
        true
    }

    /// Waits for something, and carries it out.
    fn turn(&mut self) -> Result<(), Failure> {
        self.transmit();
        let mut due = self.receiver.next_timeout();
        if self.pending.is_some() {
            let again = self.port.now().after(AGAIN);
            due = Some(due.map_or(again, |due| due.min(again)));
        }
        self.port.wait(due, None)?;
        for _ in 0..BATCH {
            let Some(received) = self.port.receive() else {
                break;
            };
            let (now, bytes) = (self.port.now(), self.port.bytes(&received));
            self.receiver
                .handle_marked(now, received.from, bytes, self.port.codepoint());
        }
        self.receiver.handle_timeout(self.port.now());
        self.take_events();
        self.transmit();
        Ok(())
    }

    fn transmit(&mut self) {
        while let Some(to) = self.receiver.poll_transmit(&mut self.out) {
            self.port.send(to, &self.out);
        }
    }

    /// Takes events as far as there is room for messages.
    fn take_events(&mut self) {
        while !self.ended {
            if let Some(message) = self.pending.take() {
                match self.writer.put(&message) {
                    Room::Taken => self.count(),
                    Room::Full => {
                        self.pending = Some(message);
                        return;
                    }
                    Room::Closed => self.ended = true,
                }
                continue;
            }
            match self.receiver.poll_event() {
                None => return,
                Some(Event::Delivered { sequence, payload }) => {
                    let content = self.contents.open(self.port.now(), payload);
                    self.incomplete |= content.is_none();
                    self.pending = content.map(|bytes| Message {
                        number: sequence,
                        bytes,
                    });
                }
                Some(Event::Joined { .. }) => {
                    let (name, parent) = (&self.name, self.parent);
                    let line = format!("subscribed to {name} at {parent}");
                    Note::info("subscribed", &line).group(name).say();
                }
                Some(Event::Lost { first, last }) => self.lost(last - first + 1),
                Some(Event::Ended) => self.ended = true,
            }
        }
    }

    fn count(&mut self) {
        self.written += 1;
        if let Some(left) = &mut self.left {
            *left -= 1;
            self.ended |= *left == 0;
        }
    }

    /// Tells of messages that nobody keeps any more. More than any window are a new source's.
    fn lost(&mut self, messages: u64) {
        self.incomplete = true;
        let name = &self.name;
        if messages > WINDOW_MAX {
            let line = format!(
                "the source of {name} was started again; what the one before had not delivered is lost"
            );
            Note::warn("lost", &line).group(name).say();
            return;
        }
        let line = format!("LOST: {messages} messages of {name}, before this receiver had them");
        Note::warn("lost", &line)
            .group(name)
            .messages(messages)
            .say();
    }

    /// Leaves, and writes the rest.
    fn end(mut self, args: &SubscribeArgs) -> Result<(), Failure> {
        self.receiver.leave();
        self.transmit();
        self.port.close();
        let account = self.account();
        self.writer.end()?;
        account.say(args.stats);
        if self.incomplete {
            return Err(Failure::new(
                Code::Incomplete,
                format!(
                    "{} messages have come, and some are missing or may be",
                    self.written
                ),
                "see the lines above; a receiver that is away for more than 5 s, or starts late, misses \
                 what its source does not keep any more",
            ));
        }
        Ok(())
    }
}
