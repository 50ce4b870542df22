//! An endpoint that is given what was recorded.

use core::any::Any;
use core::fmt::{self, Write};
use core::ops::ControlFlow;
use core::time::Duration;
use std::io::Read;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use qsm_proto::send::Batching;
use qsm_proto::{
    Datagram, Deliver, Delivery, Endpoint, Instant, Miss, Promptness, Publication, PublishError,
    Stats, Transmit,
};
use qsm_wire::GroupId;

use crate::entry::Entry;
use crate::error::{Ending, ReadError};
use crate::input::Input;
use crate::observed::Observed;
use crate::outputs::Outputs;
use crate::recording::Recording;
use crate::witness::Witness;

/// Hears what is delivered, and after which input.
pub trait Audience: Deliver {
    /// This input comes next; inputs are numbered from 1.
    fn begin(&mut self, _number: u64, _now: Instant, _input: &Input<'_>) {}

    /// The node has received this datagram.
    fn receive(&mut self, _from: SocketAddr, _bytes: &[u8]) {}

    /// The node has handed this to its sockets: one datagram, or several end to end.
    fn send(&mut self, _transmit: &Transmit<'_>) {}
}

impl<F: FnMut(Delivery<'_>)> Audience for F {}

/// The outcome of a replay.
#[derive(Debug)]
pub struct Played {
    /// Inputs given.
    pub inputs: u64,
    /// Datagrams among them.
    pub datagrams: u64,
    /// Messages published among them.
    pub published: u64,
    /// From the node's start to the last input.
    pub time: Duration,
    /// Messages delivered.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Digest of all messages delivered, in their order.
    pub deliveries: Outputs,
    /// What is seen of the cluster.
    pub observed: Observed,
    /// Counters of the state machine at the end.
    pub stats: Stats,
    /// The first input after which outputs differ from what was recorded; nothing is given after it.
    pub difference: Option<Difference>,
    /// How the file ends, or why it could not be read on. `None` after a difference.
    pub end: Option<Result<Ending, ReadError>>,
}

/// An input after which a state machine did not do what the recorded one did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// Its number, from 1.
    pub input: u64,
    /// Its time, since the node's start.
    pub at: Duration,
    /// In words.
    pub what: String,
    /// Digest of what came out when it was recorded.
    pub recorded: Outputs,
    /// Digest of what came out now.
    pub replayed: Outputs,
    /// The message, if the state machine panicked now.
    pub panic: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.as_secs_f64();
        write!(f, "input {}, at {at:.6} s: {}: ", self.input, self.what)?;
        match &self.panic {
            Some(message) => write!(f, "the state machine panicked: {message}"),
            None => write!(
                f,
                "{} came out when it was recorded, and {} now",
                self.recorded, self.replayed
            ),
        }
    }
}

/// Gives a fresh state machine what was recorded, and compares what comes out.
///
/// # Errors
/// The configuration in the file is refused.
pub fn replay<R: Read>(
    mut recording: Recording<R>,
    audience: &mut dyn Audience,
) -> Result<Played, ReadError> {
    let setup = recording.setup();
    let start = setup.start;
    let endpoint = Endpoint::new(setup.config.clone(), setup.seed, start);
    let mut player = Player {
        endpoint: endpoint.map_err(ReadError::Config)?,
        start,
        now: start,
        buffers: Vec::new(),
        group: GroupId::default(),
        batching: None,
        input: 0,
        what: String::new(),
        outputs: Outputs::default(),
        tally: Tally::default(),
        observed: Observed::default(),
    };
    let step = |entry: Entry<'_>| player.take(entry, audience);
    let played = catch_unwind(AssertUnwindSafe(|| recording.read(step)));
    let (difference, end) = match played {
        Ok(Ok(ControlFlow::Continue(ending))) => match player.check(Outputs::default()) {
            ControlFlow::Continue(()) => (None, Some(Ok(ending))),
            ControlFlow::Break(difference) => (Some(difference), None),
        },
        Ok(Ok(ControlFlow::Break(difference))) => (Some(difference), None),
        Ok(Err(error)) => (None, Some(Err(error))),
        Err(panic) => (Some(player.panicked(&*panic)), None),
    };
    Ok(player.end(difference, end))
}

struct Player {
    endpoint: Endpoint,
    start: Instant,
    now: Instant,
    /// Those that datagrams are lent of.
    buffers: Vec<Arc<[u8]>>,
    /// The one that is open for messages.
    group: GroupId,
    batching: Option<Batching>,
    /// Number of the last input.
    input: u64,
    /// In words.
    what: String,
    /// What it gave.
    outputs: Outputs,
    tally: Tally,
    observed: Observed,
}

#[derive(Default)]
struct Tally {
    datagrams: u64,
    published: u64,
    delivered: u64,
    delivered_bytes: u64,
    deliveries: Outputs,
}

impl Player {
    fn take(&mut self, entry: Entry<'_>, audience: &mut dyn Audience) -> ControlFlow<Difference> {
        match entry {
            Entry::Outputs(recorded) => return self.check(recorded),
            Entry::Unfinished => self.outputs = Outputs::default(),
            Entry::Refill => self.buffers.clear(),
            Entry::Buffer(bytes) => self.buffers.push(bytes.into()),
            Entry::End(_) => {}
            Entry::Input(now, input) => {
                self.check(Outputs::default())?;
                self.input += 1;
                self.now = now;
                self.what.clear();
                // Into memory: cannot fail.
                write!(self.what, "{input}").ok();
                audience.begin(self.input, now, &input);
                self.give(&input, audience);
            }
        }
        ControlFlow::Continue(())
    }

    /// Compares what the last input gave, unless that was done.
    fn check(&mut self, recorded: Outputs) -> ControlFlow<Difference> {
        let replayed = core::mem::take(&mut self.outputs);
        if replayed == recorded {
            return ControlFlow::Continue(());
        }
        ControlFlow::Break(Difference {
            recorded,
            replayed,
            ..self.difference()
        })
    }

    fn difference(&self) -> Difference {
        Difference {
            input: self.input,
            at: self.now.since(self.start),
            what: self.what.clone(),
            recorded: Outputs::default(),
            replayed: Outputs::default(),
            panic: None,
        }
    }

    fn panicked(&self, panic: &(dyn Any + Send)) -> Difference {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Difference {
            panic: Some(text.unwrap_or_else(|| "without a message".to_owned())),
            ..self.difference()
        }
    }

    fn give(&mut self, input: &Input<'_>, audience: &mut dyn Audience) {
        let (endpoint, now) = (&mut self.endpoint, self.now);
        let at = now.since(self.start);
        let mut counted = Counted {
            out: audience,
            tally: &mut self.tally,
            observed: &mut self.observed,
            at,
        };
        let outputs = &mut self.outputs;
        let mut out = Witness {
            out: &mut counted,
            outputs,
        };
        match input {
            Input::Datagram { from, bytes } => {
                endpoint.handle_datagram(now, *from, (*bytes).into(), &mut out);
                self.observed.note_datagram(bytes);
                audience.receive(*from, bytes);
                self.tally.datagrams += 1;
            }
            Input::Lent {
                from,
                buffer,
                start,
                length,
            } => {
                let buffer = self.buffers.get(*buffer);
                let whole =
                    buffer.filter(|buffer| buffer.len().checked_sub(*start) >= Some(*length));
                if let Some(buffer) = whole {
                    let datagram = Datagram::lent(buffer, *start..*start + *length);
                    endpoint.handle_datagram(now, *from, datagram, &mut out);
                    self.observed.note_datagram(datagram.bytes());
                    audience.receive(*from, datagram.bytes());
                }
                self.tally.datagrams += 1;
            }
            Input::Timeout => endpoint.handle_timeout(now, &mut out),
            Input::Push { payload } => {
                let publication = endpoint.publication(now, self.group);
                match push(publication, self.batching, payload, &mut out) {
                    Ok(number) => {
                        self.outputs.number(number);
                        self.tally.published += 1;
                        let (origin, length) = (endpoint.origin(), payload.len());
                        self.observed.note_message(at, self.group, origin, length);
                    }
                    Err(error) => self.outputs.result(&error),
                }
            }
            Input::Transmit => {
                if let Some(transmit) = endpoint.poll_transmit(now) {
                    self.outputs.transmit(&transmit);
                    audience.send(&transmit);
                }
            }
            Input::Event => {
                if let Some(event) = endpoint.poll_event() {
                    self.outputs.event(&event);
                    self.observed.note_event(at, &event);
                }
            }
            Input::Open { group } => {
                (self.group, self.batching) = (*group, None);
                if let Err(error) = endpoint.publication(now, *group) {
                    self.outputs.result(&error);
                }
            }
            _ => self.command(input),
        }
    }

    /// What the application and the runtime say.
    fn command(&mut self, input: &Input<'_>) {
        let (endpoint, now) = (&mut self.endpoint, self.now);
        let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect();
        let request = match input {
            Input::Enter { role, groups } => Some(endpoint.enter(now, *role, owned(groups))),
            Input::Exit { role, groups } => Some(endpoint.exit(now, *role, owned(groups))),
            Input::Query { list } => Some(endpoint.query(now, *list)),
            Input::Service { address } => {
                endpoint.set_service(now, *address);
                None
            }
            Input::Foreign { at } => {
                endpoint.note_foreign(now, *at);
                None
            }
            Input::Describe { text } => {
                endpoint.describe(now, (*text).to_owned());
                None
            }
            Input::Drops { packets } => {
                endpoint.note_drops(now, *packets);
                None
            }
            Input::Backlog { waiting } => {
                endpoint.set_backlog(now, *waiting);
                None
            }
            Input::Readers { full } => {
                endpoint.set_full_readers(now, full.clone());
                None
            }
            Input::Sojourn { waited } => {
                endpoint.note_sojourn(now, *waited);
                None
            }
            Input::Wait { time } => {
                endpoint.note_wait(now, *time);
                None
            }
            Input::Move { address, second } => {
                endpoint.move_to(now, *address, *second);
                None
            }
            Input::Want { group, modes } => {
                endpoint.want(now, group, modes);
                None
            }
            Input::Close => {
                endpoint.close(now);
                None
            }
            Input::Batching { batching } => {
                self.batching = Some(*batching);
                None
            }
            _ => None,
        };
        if let Some(request) = request {
            self.outputs.number(request.into());
        }
    }

    fn end(self, difference: Option<Difference>, end: Option<Result<Ending, ReadError>>) -> Played {
        Played {
            inputs: self.input,
            datagrams: self.tally.datagrams,
            published: self.tally.published,
            time: self.now.since(self.start),
            delivered: self.tally.delivered,
            delivered_bytes: self.tally.delivered_bytes,
            deliveries: self.tally.deliveries,
            stats: self.endpoint.stats(),
            observed: self.observed,
            difference,
            end,
        }
    }
}

/// Publishes a message within these limits, if there are some.
fn push(
    publication: Result<Publication<'_>, PublishError>,
    batching: Option<Batching>,
    payload: &[u8],
    out: &mut dyn Deliver,
) -> Result<u64, PublishError> {
    let mut publication = match batching {
        None => publication?,
        Some(batching) => publication?.within(batching),
    };
    publication.push(payload, out)
}

/// Counts messages on their way to the audience.
struct Counted<'a> {
    out: &'a mut dyn Audience,
    tally: &'a mut Tally,
    observed: &'a mut Observed,
    /// Time since the node's start.
    at: Duration,
}

impl Deliver for Counted<'_> {
    fn deliver(&mut self, message: Delivery<'_>) {
        self.tally.delivered += 1;
        self.tally.delivered_bytes += message.bytes.len() as u64;
        self.tally.deliveries.deliver(&message);
        let length = message.bytes.len();
        self.observed
            .note_message(self.at, message.group, message.sender, length);
        self.out.deliver(message);
    }

    fn name_group(&mut self, group: GroupId, name: &str) {
        self.out.name_group(group, name);
    }

    fn miss(&mut self, miss: Miss<'_>) {
        self.out.miss(miss);
    }

    fn deliver_promptly(&mut self, mode: Promptness, message: Delivery<'_>) {
        self.out.deliver_promptly(mode, message);
    }

    fn miss_promptly(&mut self, mode: Promptness, miss: Miss<'_>) {
        self.out.miss_promptly(mode, miss);
    }
}
