mod ended;

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;

use qsm_proto::session::{Session, SessionPeer, frame_bytes};
use qsm_proto::{Instant, Outbox};
use qsm_wire::membership::{FromService, MESSAGE_BYTES_MAX};
use qsm_wire::{Frame, Header, Heard, NodeId};

use self::ended::Ended;
use super::timers::Timers;

/// Silence after which a session is believed to have ended if another one begins.
const SILENT: Duration = Duration::from_millis(500);

/// How far a client has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its hello is on the way.
    Greeting,
    /// Its hello waits for the end of the hold.
    Held,
    /// It is a node of the cluster.
    Admitted,
}

/// A node's session.
#[derive(Debug)]
struct Client {
    session: Session,
    address: SocketAddr,
    standing: Standing,
    /// Number of the last batch told, in this session.
    batch: u64,
    /// Batches told and not confirmed: the session's frame that ends one, and its number among
    /// all batches of the service.
    unconfirmed: VecDeque<(u64, u64)>,
    heard_at: Instant,
}

/// Why a packet of a session cannot be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionError {
    /// Its sender must open a new session.
    Reset,
    /// It may make sense later.
    Ignore,
    /// There is no room for another session.
    Full,
}

/// The sessions, one per node.
#[derive(Debug)]
pub(crate) struct SessionTable {
    clients: BTreeMap<NodeId, Client>,
    ended: Ended,
    timers: Timers<NodeId>,
    /// Sessions with something to send, in no hurry: they fill the outbox as it empties.
    ready: BTreeSet<NodeId>,
    header: Header,
    frame_bytes: usize,
    nodes_max: usize,
    pub(crate) message_bytes: u64,
}

impl SessionTable {
    pub(crate) fn new(header: Header, datagram_bytes: usize, nodes_max: usize) -> Self {
        Self {
            clients: BTreeMap::new(),
            ended: Ended::default(),
            timers: Timers::new(),
            ready: BTreeSet::new(),
            header,
            frame_bytes: frame_bytes(datagram_bytes),
            nodes_max,
            message_bytes: 0,
        }
    }

    pub(crate) fn nodes(&self) -> Vec<NodeId> {
        self.clients.keys().copied().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.clients.len()
    }

    pub(crate) fn standing(&self, node: NodeId) -> Option<Standing> {
        Some(self.clients.get(&node)?.standing)
    }

    pub(crate) fn set_standing(&mut self, node: NodeId, standing: Standing) {
        if let Some(client) = self.clients.get_mut(&node) {
            client.standing = standing;
        }
    }

    /// Longest time of a client's answer.
    pub(crate) fn answers_in(&self, node: NodeId) -> Option<Duration> {
        Some(self.clients.get(&node)?.session.answers_in())
    }

    /// When a client was last heard.
    pub(crate) fn heard_at(&self, node: NodeId) -> Option<Instant> {
        Some(self.clients.get(&node)?.heard_at)
    }

    /// Takes a frame, opening a session if it is the first of a newer one.
    pub(crate) fn handle_frame(
        &mut self,
        now: Instant,
        node: NodeId,
        from: SocketAddr,
        frame: &Frame<'_>,
    ) -> Result<(), SessionError> {
        let known = self.clients.get(&node);
        if known.map(|client| client.session.id()) != Some(frame.head.session) {
            self.open(now, node, from, frame)?;
        }
        if let Some(client) = self.clients.get_mut(&node) {
            client.address = from;
            client.heard_at = now;
            client.session.handle_frame(now, frame);
            self.ready.insert(node);
        }
        Ok(())
    }

    fn open(
        &mut self,
        now: Instant,
        node: NodeId,
        address: SocketAddr,
        frame: &Frame<'_>,
    ) -> Result<(), SessionError> {
        // Ids of a node's sessions grow: a smaller one is an echo of an earlier session, unless
        // that is silent. Then another process of the node may begin anywhere.
        let known = self.clients.get(&node);
        let known = known.map(|client| (client.session.id(), client.heard_at));
        let older = known
            .is_some_and(|(id, heard_at)| frame.head.session < id && now.since(heard_at) < SILENT);
        let echo = self.ended.contains(node, frame.head.session);
        if older || echo || frame.head.heard_upto > 0 {
            return Err(SessionError::Reset);
        }
        if frame.head.number != 1 {
            return Err(SessionError::Ignore);
        }
        if known.is_none() && self.clients.len() >= self.nodes_max {
            return Err(SessionError::Full);
        }
        let client = Client {
            session: Session::new(frame.head.session, self.frame_bytes),
            address,
            standing: Standing::Greeting,
            batch: 0,
            unconfirmed: VecDeque::new(),
            heard_at: now,
        };
        self.clients.insert(node, client);
        Ok(())
    }

    /// Takes a receipt, which is also a heartbeat, and answers it.
    pub(crate) fn handle_heard(
        &mut self,
        now: Instant,
        node: NodeId,
        from: SocketAddr,
        heard: Heard,
        outbox: &mut Outbox,
    ) -> Result<(), SessionError> {
        let client = self.clients.get_mut(&node);
        let Some(client) = client.filter(|client| client.session.id() == heard.session) else {
            return Err(SessionError::Reset);
        };
        client.address = from;
        client.heard_at = now;
        client.session.handle_heard(now, heard.heard_upto, false);
        let peer = SessionPeer {
            header: self.header,
            to: from,
        };
        client.session.show_life(now, &peer, outbox);
        self.ready.insert(node);
        Ok(())
    }

    /// The next message of a node.
    pub(crate) fn poll_message(&mut self, node: NodeId) -> Option<Vec<u8>> {
        self.clients.get_mut(&node)?.session.poll_message()
    }

    pub(crate) fn is_broken(&self, node: NodeId) -> bool {
        let client = self.clients.get(&node);
        client.is_some_and(|client| client.session.is_broken())
    }

    /// Queues a message. `false`: the session cannot take it and must end.
    pub(crate) fn tell(&mut self, node: NodeId, message: &FromService) -> bool {
        let Some(client) = self.clients.get_mut(&node) else {
            return true;
        };
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        self.message_bytes += u64::try_from(bytes.len()).unwrap_or(0);
        self.ready.insert(node);
        client.session.send(&bytes).is_ok()
    }

    /// Whether an answer is short enough for one message.
    pub(crate) fn fits(message: &FromService) -> bool {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes.len() <= MESSAGE_BYTES_MAX
    }

    /// The number of the node's next batch.
    pub(crate) fn next_batch(&mut self, node: NodeId) -> Option<u64> {
        let client = self.clients.get_mut(&node)?;
        client.batch += 1;
        Some(client.batch)
    }

    /// The node has been told all of this batch of the service.
    pub(crate) fn note_batch(&mut self, node: NodeId, batch: u64) {
        if let Some(client) = self.clients.get_mut(&node) {
            let end = client.session.last_queued();
            client.unconfirmed.push_back((end, batch));
        }
    }

    /// The newest batch of the service that has arrived at the node since the last call.
    pub(crate) fn poll_confirmed(&mut self, node: NodeId) -> Option<u64> {
        let client = self.clients.get_mut(&node)?;
        let upto = client.session.confirmed_upto();
        let arrived = client.unconfirmed.partition_point(|(end, _)| *end <= upto);
        client
            .unconfirmed
            .drain(..arrived)
            .next_back()
            .map(|(_, batch)| batch)
    }

    /// Ends a session, with a last receipt so that what has arrived is not repeated.
    pub(crate) fn close(&mut self, node: NodeId, outbox: &mut Outbox) {
        self.timers.set(node, None);
        self.ready.remove(&node);
        if let Some(mut client) = self.clients.remove(&node) {
            let peer = SessionPeer {
                header: self.header,
                to: client.address,
            };
            client.session.transmit_heard(&peer, outbox);
            self.ended.insert(node, client.session.id());
        }
    }

    /// Lets sessions that have something to send do so, as far as the outbox takes it.
    pub(crate) fn transmit(&mut self, now: Instant, outbox: &mut Outbox) {
        while let Some(node) = self.timers.pop(now) {
            self.ready.insert(node);
        }
        let room = Outbox::QUEUE_MAX / 2;
        while outbox.waiting(qsm_proto::Reason::Membership) < room {
            let Some(node) = self.ready.pop_first() else {
                return;
            };
            let Some(client) = self.clients.get_mut(&node) else {
                continue;
            };
            let peer = SessionPeer {
                header: self.header,
                to: client.address,
            };
            client.session.transmit(now, &peer, outbox);
            self.timers.set(node, client.session.next_timeout());
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    pub(crate) fn retransmitted(&self) -> u64 {
        let sessions = self.clients.values();
        sessions.map(|client| client.session.retransmitted()).sum()
    }
}
