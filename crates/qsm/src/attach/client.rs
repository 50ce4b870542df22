//! An attached process: a handle, and a thread that reads what the engine says.

use core::fmt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use qsm_wire::NodeId;
use qsm_wire::membership::GROUP_NAME_BYTES_MAX;

use super::error::AttachError;
use super::link::{Link, lock, unexpected};
use super::publisher::Publisher;
use super::requests::{Reply, Request, packets_of_names};
use super::subscription::{Inbound, SubscribeOptions, Subscription, Upcalls};
use super::tally::ClientRow;
use crate::error::{CloseReason, RecvError, RequestError};
use crate::handle::events::Events;
use crate::handoff::received::Delivery;

/// How long entering groups may take: longer than the engine's own limit, which it answers with.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Of these the engine makes an error when there are more.
const NAME: &str = "a group's name has 1 to 255 bytes; give it another";

/// An attachment to the engine of another process, in place of a [`Node`](crate::Node) of one's
/// own.
///
/// Handles are cheap to clone and may be used from any thread. It ends with
/// [`Attached::shutdown`], when the last handle is dropped, or with the engine; then its
/// subscriptions and publishers say why.
#[derive(Clone)]
pub struct Attached {
    handle: Arc<Handle>,
}

struct Handle {
    link: Arc<Link>,
    listener: Mutex<Option<JoinHandle<()>>>,
}

impl Attached {
    /// Attaches to the engine that is shared at this path.
    ///
    /// # Errors
    /// [`AttachError`], whose text says what to do.
    pub fn connect(path: impl AsRef<Path>) -> Result<Self, AttachError> {
        let path = path.as_ref();
        let link = Arc::new(Link::open(path)?);
        let listening = Arc::clone(&link);
        let thread = thread::Builder::new().name("qsm-attached".to_owned());
        let thread = thread.spawn(move || listening.listen());
        let thread = thread.map_err(|source| AttachError::of(path.to_owned(), source))?;
        let listener = Mutex::new(Some(thread));
        Ok(Self {
            handle: Arc::new(Handle { link, listener }),
        })
    }

    /// The id of the engine's node: [`Message::sender`](crate::Message::sender) of what the
    /// processes of this engine publish.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.link().node
    }

    /// The number of this process among those of the engine, from 1.
    #[must_use]
    pub fn client(&self) -> u32 {
        self.link().client
    }

    /// Receives the messages of these groups; see [`Node::subscribe`](crate::Node::subscribe).
    ///
    /// # Errors
    /// [`RequestError`]: a name or a limit of the engine is met, no membership service answers in
    /// time, or the engine has ended.
    pub fn subscribe<I>(&self, groups: I) -> Result<Subscription, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        self.subscribe_queued(groups, SubscribeOptions::default())
    }

    /// As [`Attached::subscribe`], with a ring of one's own choice.
    ///
    /// # Errors
    /// As [`Attached::subscribe`].
    pub fn subscribe_queued<I>(
        &self,
        groups: I,
        options: SubscribeOptions,
    ) -> Result<Subscription, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let names = names(groups)?;
        let link = self.link();
        let mut names_sent = packets_of_names(&names);
        let doing = "entering groups; is a membership service running and reachable?";
        let answer = link.ask(doing, REQUEST_TIMEOUT, |id| {
            let request = Request::Subscribe {
                id,
                ring_bytes: options.ring_bytes.map_or(0, |bytes| bytes.max(1) as u64),
                overflow: options.overflow,
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
        let opened = Inbound::open(names, descriptors, (rings, ring_words));
        let inbound = opened.map_err(|error| RequestError::Refused {
            reason: format!(
                "cannot map the engine's memory: {error}; check `ulimit -v` and `ulimit -n`"
            ),
        });
        // Made in any case, so that what cannot be mapped is left.
        let subscription = Subscription::new(link, key, inbound)?;
        link.list(&subscription.inbound.memory);
        Ok(subscription)
    }

    /// As [`Attached::subscribe`], but each message is handed to `upcall`, on a thread for this
    /// subscription. Unlike the upcalls of a node it may take its time: the ring fills up
    /// meanwhile, and nothing else waits.
    ///
    /// # Errors
    /// As [`Attached::subscribe`].
    pub fn subscribe_with<I>(
        &self,
        groups: I,
        upcall: impl FnMut(Delivery<'_>) + Send + 'static,
    ) -> Result<Upcalls, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        Upcalls::start(self.subscribe(groups)?, upcall)
    }

    /// Prepares to send to a group.
    ///
    /// # Errors
    /// As [`Attached::subscribe`].
    pub fn publisher(&self, group: impl AsRef<str>) -> Result<Publisher, RequestError> {
        let mut publishers = self.publishers([group])?;
        publishers.pop().ok_or_else(unexpected)
    }

    /// Prepares to send to many groups, in one request; publishers come in the order of the names.
    ///
    /// # Errors
    /// As [`Attached::subscribe`].
    pub fn publishers<I>(&self, groups: I) -> Result<Vec<Publisher>, RequestError>
    where
        I: IntoIterator<Item: AsRef<str>>,
    {
        let names = names(groups)?;
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
        let publisher = |(slot, name)| Publisher::new(link, slot, name);
        Ok(places.zip(names).map(publisher).collect())
    }

    /// A reader of events from now on: what happens to the engine's membership of the cluster, and
    /// the end.
    #[must_use]
    pub fn events(&self) -> Events {
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

    /// Waits until everything that this process has sent before is stable: every live member of
    /// its groups has it. It also waits for what other processes of the engine have sent.
    ///
    /// # Errors
    /// [`RequestError`]: timeout, or the engine has ended.
    pub fn flush(&self, timeout: Duration) -> Result<(), RequestError> {
        let doing = "waiting for all receivers to have everything";
        let link = self.link();
        let position = lock(&link.waiting).position();
        let answer = link.ask(doing, timeout, |id| {
            let request = Request::Flush {
                id,
                position,
                timeout,
            };
            vec![request.encode()]
        });
        answer.map(drop)
    }

    /// What the engine has counted of this process.
    ///
    /// # Errors
    /// [`RequestError::Closed`].
    pub fn stats(&self) -> Result<ClientRow, RequestError> {
        let ask = |id| vec![Request::Stats { id }.encode()];
        match self.link().ask("reading counters", REQUEST_TIMEOUT, ask)? {
            (Reply::Stats { values, .. }, _) => Ok(ClientRow::of_values(&values)),
            _ => Err(unexpected()),
        }
    }

    /// Why it has ended, if it has.
    #[must_use]
    pub fn closed(&self) -> Option<CloseReason> {
        self.link().closed().cloned()
    }

    /// Waits until everything sent is stable, and detaches.
    ///
    /// # Errors
    /// [`RequestError`]: it has detached, but some receivers may lack messages.
    pub fn shutdown(&self, timeout: Duration) -> Result<(), RequestError> {
        let flushed = match self.closed() {
            Some(CloseReason::ShutDown) => Ok(()),
            _ => self.flush(timeout),
        };
        self.link().close(CloseReason::ShutDown);
        flushed
    }

    fn link(&self) -> &Arc<Link> {
        &self.handle.link
    }
}

impl fmt::Debug for Attached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Attached")
            .field("client", &self.client())
            .field("closed", &self.closed())
            .finish_non_exhaustive()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.link.close(CloseReason::ShutDown);
        if let Some(listener) = lock(&self.listener).take() {
            // A panic there was told by the panic's own message.
            drop(listener.join());
        }
    }
}

fn names<I>(groups: I) -> Result<Vec<Arc<str>>, RequestError>
where
    I: IntoIterator<Item: AsRef<str>>,
{
    let name = |group: I::Item| {
        let name = group.as_ref();
        let fits = (1..=GROUP_NAME_BYTES_MAX).contains(&name.len());
        fits.then(|| Arc::from(name))
    };
    let names: Option<Vec<_>> = groups.into_iter().map(name).collect();
    names.ok_or_else(|| RequestError::Refused {
        reason: NAME.to_owned(),
    })
}
