//! A peer: its connection, what it has said, and the keys of its datagrams.

use core::fmt;
use core::time::Duration;
use std::net::SocketAddr;

use noq_proto::{Connection, PathId, ReadError, StreamId, VarInt};
use qsm_handshake::raw_keys;
use qsm_identity::NodePublic;
use qsm_wire::Instant;
use zeroize::Zeroizing;

use crate::hello::{HELLO_BYTES_MAX, Hello};
use crate::seal::{Opener, SECRET_BYTES, Sealer, Secret};

/// Label by which keys are exported (RFC 8446, section 7.5).
const LABEL: &[u8] = b"EXPORTER-qsm-relay-link-1";
/// Last word of a parent to a child that it lets in.
const ACCEPTED: u8 = 1;
/// Least time that the other end has to answer when it is in doubt.
const ANSWER_MIN: Duration = Duration::from_millis(300);
/// And in round trips.
const ANSWER_TRIPS: u32 = 4;

/// A peer that has shown who it is.
pub(crate) struct Open {
    pub(crate) name: String,
    pub(crate) key: NodePublic,
    pub(crate) life: u64,
    /// Second from which its token holds no more.
    pub(crate) expires: u64,
    pub(crate) since: Instant,
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
}

/// The other end may have forgotten the link.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    until: Instant,
    /// Acknowledgements that had come before.
    acks: u64,
}

pub(crate) struct Peer {
    pub(crate) connection: Connection,
    pub(crate) is_parent: bool,
    /// This end's number of the link, which the other writes into datagrams.
    pub(crate) number: u32,
    pub(crate) began: Instant,
    /// When a datagram of it was opened last.
    pub(crate) heard: Instant,
    pub(crate) remote: SocketAddr,
    /// Where it was before that.
    pub(crate) former: Option<SocketAddr>,
    pub(crate) stream: Option<StreamId>,
    pub(crate) open: Option<Open>,
    /// Of a parent that has not let this end in yet.
    pub(crate) judged: Option<Open>,
    /// The link is given up; the connection says so yet.
    pub(crate) closed: bool,
    said: Vec<u8>,
    /// Length of its hello, when that has come.
    greeted: Option<usize>,
    doubt: Option<Doubt>,
}

/// Word of a peer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// More is to come.
    Part,
    Whole(Hello),
    /// The parent lets this end in.
    Accepted,
    /// It is none of these.
    Nonsense,
}

impl Peer {
    pub(crate) fn new(connection: Connection, number: u32, now: Instant) -> Self {
        let remote = remote_of(&connection);
        Self {
            is_parent: connection.side().is_client(),
            number,
            began: now,
            heard: now,
            remote: remote.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0))),
            former: None,
            stream: None,
            open: None,
            judged: None,
            closed: false,
            said: Vec::new(),
            greeted: None,
            doubt: None,
            connection,
        }
    }

    /// The address by the connection, if that is another one than before.
    pub(crate) fn moved(&self) -> Option<SocketAddr> {
        remote_of(&self.connection).filter(|remote| *remote != self.remote)
    }

    /// Says a hello. A child says no more on the stream.
    pub(crate) fn say(&mut self, stream: StreamId, hello: &Hello) -> bool {
        let last = self.is_parent;
        self.write(stream, &hello.encode(), last)
    }

    /// Tells a child that it is let in.
    pub(crate) fn accept(&mut self, stream: StreamId) -> bool {
        self.write(stream, &[ACCEPTED], true)
    }

    fn write(&mut self, stream: StreamId, bytes: &[u8], last: bool) -> bool {
        let mut sending = self.connection.send_stream(stream);
        // All of it fits a window that is new.
        sending.write(bytes) == Ok(bytes.len()) && (!last || sending.finish().is_ok())
    }

    /// Reads on.
    pub(crate) fn read(&mut self, stream: StreamId) -> Said {
        let Some(ended) = self.take(stream) else {
            return Said::Nonsense;
        };
        match self.greeted {
            None => match Hello::decode(&self.said) {
                Some(hello) => {
                    self.greeted = Some(self.said.len());
                    Said::Whole(hello)
                }
                None if ended => Said::Nonsense,
                None => Said::Part,
            },
            Some(length) => match &self.said[length..] {
                [ACCEPTED] if self.is_parent => Said::Accepted,
                [] => Said::Part,
                _ => Said::Nonsense,
            },
        }
    }

    /// Takes what has come; whether that is all. None for what nobody says.
    fn take(&mut self, stream: StreamId) -> Option<bool> {
        let mut receiving = self.connection.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else {
            return Some(false);
        };
        loop {
            match chunks.next(HELLO_BYTES_MAX) {
                Ok(Some(chunk)) => self.said.extend_from_slice(&chunk.bytes),
                Ok(None) => return Some(true),
                Err(ReadError::Blocked) => return Some(false),
                Err(ReadError::Reset(_)) => return None,
            }
            if self.said.len() > HELLO_BYTES_MAX + 1 {
                return None;
            }
        }
    }

    /// The key that it has proven to have.
    pub(crate) fn key(&self) -> Option<NodePublic> {
        let identity = self.connection.crypto_session().peer_identity()?;
        let certificates = identity.downcast_ref::<Vec<_>>()?;
        raw_keys::public_of(certificates.first()?).map(NodePublic::from_bytes)
    }

    /// The keys of both directions: what this end seals with, and what it opens with.
    pub(crate) fn keys(&self, link: u32, now: Instant) -> Option<(Sealer, Opener)> {
        let mut secrets = Zeroizing::new([0; 2 * SECRET_BYTES]);
        let session = self.connection.crypto_session();
        session
            .export_keying_material(&mut secrets[..], LABEL, &[])
            .ok()?;
        let of = |half: &[u8]| half.try_into().map(Zeroizing::new).ok();
        let (up, down) = secrets.split_at(SECRET_BYTES);
        let (up, down): (Secret, Secret) = (of(up)?, of(down)?);
        let (own, other) = if self.is_parent {
            (up, down)
        } else {
            (down, up)
        };
        Some((Sealer::new(own, link, now)?, Opener::new(other)?))
    }

    /// A datagram of it was opened.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.heard = now;
        self.doubt = None;
    }

    /// Speaks on the connection, so that the other end sees where this one is, and knows it or not. Rule
    /// R-RELAY-24.
    pub(crate) fn doubt(&mut self, now: Instant) {
        if self.doubt.is_some() || self.connection.is_handshaking() {
            return;
        }
        self.connection.ping();
        let trip = self.connection.rtt(PathId::ZERO).unwrap_or_default();
        self.doubt = Some(Doubt {
            until: now.after((trip * ANSWER_TRIPS).max(ANSWER_MIN)),
            acks: self.acks(),
        });
    }

    pub(crate) fn doubted_until(&self) -> Option<Instant> {
        self.doubt.map(|doubt| doubt.until)
    }

    /// Tells whether the other end has forgotten the link: it has not answered in time.
    pub(crate) fn is_forgotten(&mut self, now: Instant) -> bool {
        let Some(doubt) = self.doubt.filter(|doubt| now >= doubt.until) else {
            return false;
        };
        self.doubt = None;
        self.acks() == doubt.acks
    }

    fn acks(&mut self) -> u64 {
        self.connection.stats().frame_rx.acks
    }

    /// Gives the connection up, with a reason for the other end.
    pub(crate) fn close(&mut self, now: std::time::Instant, code: u32, reason: &str) {
        let reason = reason.as_bytes().to_vec().into();
        self.connection.close(now, VarInt::from_u32(code), reason);
        self.closed = true;
    }
}

fn remote_of(connection: &Connection) -> Option<SocketAddr> {
    let path = connection.network_path(PathId::ZERO).ok()?;
    Some(path.remote())
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer")
            .field("remote", &self.remote)
            .field("is_parent", &self.is_parent)
            .field("open", &self.open.as_ref().map(|open| &open.name))
            .finish_non_exhaustive()
    }
}
