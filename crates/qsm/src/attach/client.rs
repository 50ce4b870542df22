//! An attached process: a handle, and a thread that reads what the engine says.

use core::fmt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use qsm_wire::NodeId;
use qsm_wire::membership::{AnswerRows, GROUP_NAME_BYTES_MAX, QueryKind};

use super::error::AttachError;
use super::funnel::Funnel;
use super::link::{Link, lock, unexpected};
use super::publisher::AttachedPublisher;
use super::requests::{Reply, Request, packets_of_names};
use super::rows;
use super::subscription::{AttachedSubscription, AttachedUpcalls, Inbound, Rings};
use super::tally::ClientRow;
use crate::error::{CloseReason, Flushed, RecvError, RequestError};
use crate::handle::events::Events;
use crate::handoff::command::FLUSHING;
use crate::handoff::message::Overflow;
use crate::handoff::mode::DeliveryMode;
use crate::handoff::sleepers::Sleepers;

/// How long entering groups may take: longer than the engine's own limit, which it answers with.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Of these the engine makes an error when there are more.
const NAME: &str = "a group's name has 1 to 255 bytes; give it another";

/// An attachment to the engine of another process: a back-end of the handles. It ends with
/// [`Attached::shutdown`], when the last handle is dropped, or with the engine.
#[derive(Clone)]
pub(crate) struct Attached {
    handle: Arc<Handle>,
}

/// Asks the engine. It does not keep the attachment from its end.
#[derive(Clone)]
pub(crate) struct Client {
    link: Arc<Link>,
}

struct Handle {
    client: Client,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Attached {
    pub(crate) fn connect(path: &Path) -> Result<Self, AttachError> {
        let link = Arc::new(Link::open(path)?);
        let listening = Arc::clone(&link);
        let thread = thread::Builder::new().name("qsm-attached".to_owned());
        let thread = thread.spawn(move || listening.listen());
        let thread = thread.map_err(|source| AttachError::of(path.to_owned(), source))?;
        let (client, listener) = (Client { link }, Mutex::new(Some(thread)));
        Ok(Self {
            handle: Arc::new(Handle { client, listener }),
        })
    }

    pub(crate) fn id(&self) -> NodeId {
        self.link().node
    }

    /// Publishers come in the order of the names.
    pub(crate) fn publishers(
        &self,
        names: Vec<Arc<str>>,
    ) -> Result<Vec<AttachedPublisher>, RequestError> {
        check(&names)?;
        let link = self.link();
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX);
        let slot = link.slots.fetch_add(count, Ordering::Relaxed);
        let mut packets = packets_of_names(&names);
        let doing = "entering groups; is a membership service running and reachable?";
        link.ask(doing, REQUEST_TIMEOUT, |id| {
            packets.push(Request::Publish { id, slot }.encode());
            core::mem::take(&mut packets)
        })?;
        let places = slot..;
        let publisher = |(slot, name)| AttachedPublisher::new(link, slot, name);
        Ok(places.zip(names).map(publisher).collect())
    }

    pub(crate) fn events(&self) -> Events {
        let events = Events::new(1);
        let link = self.link();
        for inbox in events.mailbox.inboxes() {
            let mut readers = lock(&link.readers);
            readers.retain(|reader| !reader.is_over());
            readers.push(Arc::clone(inbox));
            if let Some(reason) = link.closed() {
                inbox.close(RecvError::Closed(reason.clone()));
            }
        }
        events
    }

    pub(crate) fn flush(&self, timeout: Duration) -> Result<Flushed, RequestError> {
        let link = self.link();
        let position = lock(&link.waiting).position();
        let answer = link.ask(FLUSHING, timeout, |id| {
            let request = Request::Flush {
                id,
                position,
                timeout,
            };
            vec![request.encode()]
        });
        match answer? {
            (Reply::Flushed { flushed, .. }, _) => Ok(flushed),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn stats(&self) -> Result<ClientRow, RequestError> {
        let ask = |id| vec![Request::Stats { id }.encode()];
        match self.link().ask("reading counters", REQUEST_TIMEOUT, ask)? {
            (Reply::Stats { values, .. }, _) => Ok(ClientRow::of_values(&values)),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.client().closed()
    }

    pub(crate) fn shutdown(&self, timeout: Duration) -> Result<Flushed, RequestError> {
        let flushed = match self.closed() {
            Some(CloseReason::ShutDown) => Ok(Flushed::default()),
            _ => self.flush(timeout),
        };
        self.link().close(CloseReason::ShutDown);
        flushed
    }

    pub(crate) fn client(&self) -> &Client {
        &self.handle.client
    }

    fn link(&self) -> &Arc<Link> {
        &self.handle.client.link
    }
}

impl Client {
    /// With a ring of so many bytes; `None`: what the engine gives.
    pub(crate) fn subscribe(
        &self,
        names: Vec<Arc<str>>,
        ring_bytes: Option<usize>,
        overflow: Overflow,
        delivery: DeliveryMode,
    ) -> Result<AttachedSubscription, RequestError> {
        check(&names)?;
        let link = &self.link;
        let mut names_sent = packets_of_names(&names);
        let doing = "entering groups; is a membership service running and reachable?";
        let answer = link.ask(doing, REQUEST_TIMEOUT, |id| {
            let request = Request::Subscribe {
                id,
                ring_bytes: ring_bytes.map_or(0, |bytes| bytes.max(1) as u64),
                overflow,
                delivery,
            };
            names_sent.push(request.encode());
            core::mem::take(&mut names_sent)
        })?;
        let (reply, descriptors) = answer;
        let Reply::Subscribed {
            key,
            rings,
            ring_words,
            ..
        } = reply
        else {
            return Err(unexpected());
        };
        let rings = Rings {
            count: rings,
            words: ring_words,
            holder: (overflow == Overflow::Hold).then_some(key),
        };
        let opened = Inbound::open(names, &link.log, descriptors, &rings);
        let inbound = opened.map_err(|error| RequestError::Refused {
            reason: format!(
                "cannot map the engine's memory: {error}; check `ulimit -v` and `ulimit -n`"
            ),
        });
        // Made in any case, so that what cannot be mapped is left.
        let subscription = AttachedSubscription::new(link, key, inbound)?;
        link.list(subscription.shelf())?;
        Ok(subscription)
    }

    /// Subscribes, and reads the messages into a queue that other rings are read into as well.
    pub(crate) fn subscribe_into(
        &self,
        names: Vec<Arc<str>>,
        funnel: &Arc<Funnel>,
        delivery: DeliveryMode,
    ) -> Result<AttachedUpcalls, RequestError> {
        let subscription = self.subscribe(names, None, funnel.of_rings(), delivery)?;
        AttachedUpcalls::pump(subscription, funnel)
    }

    pub(crate) fn query(&self, kind: QueryKind) -> Result<AnswerRows, RequestError> {
        let doing = "asking the membership service; is one running and reachable?";
        let ask = |id| vec![Request::Query { id, kind }.encode()];
        match self.link.ask(doing, REQUEST_TIMEOUT, ask)? {
            (Reply::Rows { words, .. }, memory) => rows::read(memory, words).ok_or_else(unexpected),
            _ => Err(unexpected()),
        }
    }

    pub(crate) fn closed(&self) -> Option<CloseReason> {
        self.link.closed().cloned()
    }

    /// Threads of this process that wait for their turn to ask; woken at the end too.
    pub(crate) fn turns(&self) -> &Sleepers {
        &self.link.turns
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Client").field(&self.link).finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.client.link.close(CloseReason::ShutDown);
        if let Some(listener) = lock(&self.listener).take() {
            // A panic there was told by the panic's own message.
            drop(listener.join());
        }
    }
}

fn check(names: &[Arc<str>]) -> Result<(), RequestError> {
    let fits = |name: &Arc<str>| (1..=GROUP_NAME_BYTES_MAX).contains(&name.len());
    match names.iter().all(fits) {
        true => Ok(()),
        false => Err(RequestError::Refused {
            reason: NAME.to_owned(),
        }),
    }
}
