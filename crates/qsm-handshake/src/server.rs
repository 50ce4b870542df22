//! The service's end: it keeps nothing for who has not shown a cookie, and a bounded number for who has.

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use rustls::ServerConfig;

use crate::admission::{Admission, Refused};
use crate::budget::{Budget, Leave, Limits};
use crate::cookie::Cookies;
use crate::engine::{Broken, CREDENTIAL_BYTES_MAX, Engine, Taken};
use crate::frame::{Cookie, Fragment, Frame, Saying};
use crate::identity::Identity;
use crate::moment::Now;
use crate::session::Session;
use crate::table::{Done, Entry, Id, Open, Repeats, Table};
use crate::tls::{PROTOCOL, server_config};
use crate::verdict;

/// Datagrams and events that wait to be taken; more are dropped, as on the way.
const WAITING_MAX: usize = 4096;

/// A service that lets nodes in.
pub struct Server<A: Admission> {
    config: Arc<ServerConfig>,
    credential: Vec<u8>,
    admission: A,
    cookies: Cookies,
    budget: Budget,
    table: Table,
    outbox: VecDeque<(SocketAddr, Vec<u8>)>,
    events: VecDeque<Event<A::Grant>>,
    counters: ServerCounters,
}

/// Counters of a server since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerCounters {
    /// Handshakes that were begun: their cookie was right, and there was room.
    pub begun: u64,
    /// Nodes that were admitted.
    pub admitted: u64,
    /// Nodes that were refused.
    pub refused: u64,
    /// Handshakes that could not go on.
    pub broken: u64,
    /// Handshakes that were not done in time.
    pub expired: u64,
    /// Beginnings for which there was no room.
    pub denied: u64,
    /// Datagrams that were no frame.
    pub unreadable: u64,
}

impl<A: Admission> Server<A> {
    /// With this key, and what shows nodes that it is the service's. `admission` judges nodes.
    ///
    /// # Errors
    /// [`Broken`]: the credential is longer than [`CREDENTIAL_BYTES_MAX`], or the system has no random numbers.
    pub fn new(identity: &Identity, credential: &[u8], admission: A) -> Result<Self, Broken> {
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return Err(Broken {
                reason: format!("the credential is longer than {CREDENTIAL_BYTES_MAX} bytes"),
            });
        }
        Ok(Self {
            config: server_config(identity, PROTOCOL)?,
            credential: credential.to_vec(),
            admission,
            cookies: Cookies::new()?,
            budget: Budget::new(Limits::default()),
            table: Table::default(),
            outbox: VecDeque::new(),
            events: VecDeque::new(),
            counters: ServerCounters::default(),
        })
    }

    /// With other limits; those of before are forgotten.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.budget = Budget::new(limits);
        self
    }

    /// The next datagram to send, and where to.
    pub fn poll_transmit(&mut self) -> Option<(SocketAddr, Vec<u8>)> {
        self.outbox.pop_front()
    }

    /// The next thing that has happened.
    pub fn poll_event(&mut self) -> Option<Event<A::Grant>> {
        self.events.pop_front()
    }

    /// Its counters.
    #[must_use]
    pub fn counters(&self) -> ServerCounters {
        self.counters
    }

    /// The judge of nodes.
    #[must_use]
    pub fn admission(&self) -> &A {
        &self.admission
    }

    /// Handshakes that cost memory now.
    #[must_use]
    pub fn known(&self) -> usize {
        self.table.len()
    }

    /// When [`Self::tick`] is to be called, if nothing comes before.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        self.table.next_deadline()
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        while let Some(expired) = self.table.expire(now.elapsed) {
            if let Some(prefix) = expired.prefix {
                self.budget.end(prefix);
                self.counters.expired += 1;
            }
        }
    }

    /// A datagram has come from there.
    pub fn receive(&mut self, now: Now, from: SocketAddr, datagram: &[u8]) {
        self.tick(now);
        let Some(frame) = Frame::decode(datagram) else {
            self.counters.unreadable += 1;
            return;
        };
        let id = Id {
            from,
            attempt: frame.attempt,
        };
        match frame.saying {
            Saying::Ask => self.send_cookie(now, id),
            Saying::ToServer(cookie, fragment) => self.take(now, id, &cookie, fragment),
            Saying::Cookie(_) | Saying::ToClient(_) => self.counters.unreadable += 1,
        }
    }

    fn send_cookie(&mut self, now: Now, id: Id) {
        let cookie = self.cookies.make(now, id.from, id.attempt);
        let frame = Frame {
            attempt: id.attempt,
            saying: Saying::Cookie(cookie),
        };
        self.send(id, [frame.encode()]);
    }

    fn send(&mut self, id: Id, datagrams: impl IntoIterator<Item = Vec<u8>>) {
        for datagram in datagrams {
            if self.outbox.len() < WAITING_MAX {
                self.outbox.push_back((id.from, datagram));
            }
        }
    }

    fn take(&mut self, now: Now, id: Id, cookie: &Cookie, fragment: Fragment<'_>) {
        if self.table.get(id).is_none() {
            if !self.cookies.is_valid(now, id.from, id.attempt, cookie) {
                return self.send_cookie(now, id);
            }
            if !self.begin(now, id) {
                return;
            }
        }
        if let Err(broken) = self.advance(now, id, fragment) {
            self.forget(id);
            self.counters.broken += 1;
            self.tell(Event::Broken {
                from: id.from,
                broken,
            });
        }
    }

    /// True if there is room for one more.
    fn begin(&mut self, now: Now, id: Id) -> bool {
        let ip = id.from.ip();
        let prefix = match self.budget.begin(now.elapsed, ip) {
            Leave::Granted(prefix) => prefix,
            Leave::Denied => {
                self.counters.denied += 1;
                return false;
            }
            Leave::DeniedAndTold(denied) => {
                self.counters.denied += 1;
                self.tell(Event::Flood { from: ip, denied });
                return false;
            }
        };
        let Ok(engine) = Engine::server(Arc::clone(&self.config), &self.credential) else {
            // The library refuses its own settings, which it does not.
            self.budget.end(prefix);
            return false;
        };
        self.counters.begun += 1;
        let open = Open {
            engine: Box::new(engine),
            prefix,
            answered: 0,
            repeats: Repeats::default(),
        };
        self.table.open(now.elapsed, id, open);
        true
    }

    fn advance(&mut self, now: Now, id: Id, fragment: Fragment<'_>) -> Result<(), Broken> {
        let open = match self.table.get(id) {
            Some(Entry::Open(open)) => open,
            Some(Entry::Done(done)) => {
                let is_last = fragment.number.checked_add(1) == Some(done.answered);
                if is_last && done.repeats.take() {
                    let flight = done.flight.clone();
                    self.send(id, flight);
                }
                return Ok(());
            }
            None => return Ok(()),
        };
        let taken = open.engine.take(fragment)?;
        let heard = open.engine.heard().map(<[u8]>::to_vec);
        if let Some(credential) = heard {
            return self.decide(now, id, &credential);
        }
        if taken == Taken::Answer {
            open.answered = open.engine.next();
        }
        let is_last = fragment.number.checked_add(1) == Some(open.answered);
        let again = taken == Taken::Repeated && is_last && open.repeats.take();
        if again || taken == Taken::Answer {
            let flight = flight(id, &open.engine);
            self.send(id, flight);
        }
        Ok(())
    }

    /// The node has shown its credential: it is admitted, or told why not.
    fn decide(&mut self, now: Now, id: Id, credential: &[u8]) -> Result<(), Broken> {
        let Some(Entry::Open(open)) = self.table.get(id) else {
            return Ok(());
        };
        let engine = &mut open.engine;
        let prefix = open.prefix;
        let peer = engine.peer()?;
        let judged = self.admission.admit(&peer, credential, now.unix);
        engine.say(&verdict::encode(judged.as_ref().map(|_| ())))?;
        let done = Done {
            answered: engine.next(),
            repeats: Repeats::default(),
            flight: flight(id, engine),
        };
        let from = id.from;
        let event = match judged {
            Ok(grant) => Event::Admitted {
                from,
                session: Session {
                    peer,
                    grant,
                    secrets: engine.secrets()?,
                    hybrid: engine.is_hybrid(),
                },
            },
            Err(refused) => Event::Refused {
                from,
                peer,
                refused,
            },
        };
        match event {
            Event::Admitted { .. } => self.counters.admitted += 1,
            _ => self.counters.refused += 1,
        }
        self.tell(event);
        self.send(id, done.flight.clone());
        self.budget.end(prefix);
        self.table.close(now.elapsed, id, done);
        Ok(())
    }

    fn forget(&mut self, id: Id) {
        if let Some(Entry::Open(open)) = self.table.get(id) {
            self.budget.end(open.prefix);
        }
        self.table.remove(id);
    }

    fn tell(&mut self, event: Event<A::Grant>) {
        if self.events.len() < WAITING_MAX {
            self.events.push_back(event);
        }
    }
}

fn flight(id: Id, engine: &Engine) -> Vec<Vec<u8>> {
    let frame = |fragment| Frame {
        attempt: id.attempt,
        saying: Saying::ToClient(fragment),
    };
    engine
        .flight()
        .map(|fragment| frame(fragment).encode())
        .collect()
}

impl<A: Admission> fmt::Debug for Server<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("known", &self.table.len())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

/// Event at a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<G> {
    /// A node is in.
    Admitted {
        /// Where it is.
        from: SocketAddr,
        /// The session with it.
        session: Session<G>,
    },
    /// A node has been told that it may not come in.
    Refused {
        /// Where it is.
        from: SocketAddr,
        /// Its key.
        peer: [u8; 32],
        /// Why.
        refused: Refused,
    },
    /// A handshake could not go on.
    Broken {
        /// Where the other end is.
        from: SocketAddr,
        /// Why.
        broken: Broken,
    },
    /// An address begins more handshakes than it may. Said every 10 s at most.
    Flood {
        /// The address. With IPv6 all of its /64 are meant.
        from: IpAddr,
        /// Handshakes not begun since it was said before.
        denied: u64,
    },
}
