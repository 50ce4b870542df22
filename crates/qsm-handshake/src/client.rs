//! A node's end: it asks, and asks again until it is answered or gives up. It shows its credential to nobody but a
//! service that has shown its own (R-SEC-7).

use core::fmt;
use core::time::Duration;
use std::collections::VecDeque;
use std::sync::Arc;

use aws_lc_rs::rand;
use rustls::ClientConfig;

use crate::admission::{Admission, Refused};
use crate::engine::{Broken, CREDENTIAL_BYTES_MAX, Engine, Taken};
use crate::frame::{Attempt, COOKIE_BYTES, Cookie, Fragment, Frame, Saying};
use crate::identity::Identity;
use crate::moment::Now;
use crate::session::Session;
use crate::tls::{PROTOCOL, client_config};
use crate::verdict;

/// Time until a flight is sent again; the double of it each time, until there is an answer.
pub const RETRY_AFTER: Duration = Duration::from_millis(250);
/// Longest time between two sendings.
pub const RETRY_MAX: Duration = Duration::from_secs(2);
/// Time for which a client goes on without success.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(10);

/// A node that wants a session with its service.
pub struct Client<A: Admission> {
    config: Arc<ClientConfig>,
    credential: Vec<u8>,
    admission: A,
    attempt: Attempt,
    cookie: Cookie,
    /// None until there is a cookie.
    engine: Option<Engine>,
    /// The service, after it has shown who it is.
    service: Option<Session<A::Grant>>,
    outbox: VecDeque<Vec<u8>>,
    retry_after: Duration,
    retry_at: Duration,
    give_up_at: Duration,
    outcome: Option<Result<(), Failure>>,
}

impl<A: Admission> Client<A> {
    /// Begins. `admission` judges the service by its key and its credential.
    ///
    /// # Errors
    /// [`Broken`]: the credential is longer than [`CREDENTIAL_BYTES_MAX`], or the system has no random numbers.
    pub fn new(
        now: Now,
        identity: &Identity,
        credential: &[u8],
        admission: A,
    ) -> Result<Self, Broken> {
        if credential.len() > CREDENTIAL_BYTES_MAX {
            return Err(Broken {
                reason: format!("the credential is longer than {CREDENTIAL_BYTES_MAX} bytes"),
            });
        }
        let mut attempt = [0; 8];
        rand::fill(&mut attempt).map_err(|_| rustls::Error::FailedToGetRandomBytes)?;
        let mut client = Self {
            config: client_config(identity, PROTOCOL)?,
            credential: credential.to_vec(),
            admission,
            attempt: Attempt(attempt),
            cookie: [0; COOKIE_BYTES],
            engine: None,
            service: None,
            outbox: VecDeque::new(),
            retry_after: RETRY_AFTER,
            retry_at: now.elapsed,
            give_up_at: now.elapsed + GIVE_UP_AFTER,
            outcome: None,
        };
        client.send(now);
        Ok(client)
    }

    /// The next datagram to send to the service.
    pub fn poll_transmit(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop_front()
    }

    /// When [`Self::tick`] is to be called, if nothing comes before. `None` when all is done.
    #[must_use]
    pub fn next_tick(&self) -> Option<Duration> {
        let wakes = self.retry_at.min(self.give_up_at);
        self.outcome.is_none().then_some(wakes)
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Now) {
        if self.outcome.is_some() {
            return;
        }
        if now.elapsed >= self.give_up_at {
            let answered = self.engine.is_some();
            self.outcome = Some(Err(Failure::Unanswered { answered }));
        } else if now.elapsed >= self.retry_at {
            self.retry_after = (self.retry_after * 2).min(RETRY_MAX);
            self.send(now);
        }
    }

    /// A datagram has come from the service's address. What is not of this handshake is passed over.
    pub fn receive(&mut self, now: Now, datagram: &[u8]) {
        let Some(frame) = Frame::decode(datagram) else {
            return;
        };
        if frame.attempt != self.attempt || self.outcome.is_some() {
            return;
        }
        let result = match frame.saying {
            Saying::Cookie(cookie) => self.take_cookie(now, cookie),
            Saying::ToClient(fragment) => self.take(now, fragment),
            Saying::Ask | Saying::ToServer(..) => Ok(()),
        };
        if let Err(failure) = result {
            self.outcome = Some(Err(failure));
        }
    }

    /// The outcome, once there is one.
    #[must_use]
    pub fn outcome(&self) -> Option<&Result<(), Failure>> {
        self.outcome.as_ref()
    }

    /// The session, once, when the outcome is good.
    pub fn take_session(&mut self) -> Option<Session<A::Grant>> {
        match self.outcome {
            Some(Ok(())) => self.service.take(),
            _ => None,
        }
    }

    /// A later cookie is for the next sending: the service has begun anew, or the first one is too old.
    fn take_cookie(&mut self, now: Now, cookie: Cookie) -> Result<(), Failure> {
        self.cookie = cookie;
        if self.engine.is_none() {
            self.engine = Some(Engine::client(Arc::clone(&self.config))?);
            self.answered(now);
        }
        Ok(())
    }

    fn take(&mut self, now: Now, fragment: Fragment<'_>) -> Result<(), Failure> {
        let Some(engine) = &mut self.engine else {
            return Ok(());
        };
        let taken = engine.take(fragment)?;
        if engine.is_proven() && self.service.is_none() {
            self.service = Some(meet(engine, &self.admission, now)?);
            engine.say(&self.credential)?;
        }
        if let Some(verdict) = engine.heard() {
            let verdict = verdict::decode(verdict).ok_or_else(|| Broken {
                reason: "the service's verdict cannot be read".into(),
            })?;
            self.outcome = Some(verdict.map_err(Failure::Refused));
        } else if taken == Taken::Answer {
            self.answered(now);
        }
        Ok(())
    }

    /// There is something new to say.
    fn answered(&mut self, now: Now) {
        self.retry_after = RETRY_AFTER;
        self.send(now);
    }

    fn send(&mut self, now: Now) {
        self.retry_at = now.elapsed + self.retry_after;
        self.outbox.clear();
        let (attempt, cookie) = (self.attempt, self.cookie);
        let encode = |saying| Frame { attempt, saying }.encode();
        match &self.engine {
            None => self.outbox.push_back(encode(Saying::Ask)),
            Some(engine) => self.outbox.extend(
                engine
                    .flight()
                    .map(|fragment| encode(Saying::ToServer(cookie, fragment))),
            ),
        }
    }
}

/// Judges the service.
fn meet<A: Admission>(
    engine: &Engine,
    admission: &A,
    now: Now,
) -> Result<Session<A::Grant>, Failure> {
    let peer = engine.peer()?;
    let grant = admission
        .admit(&peer, engine.server_credential(), now.unix)
        .map_err(Failure::Untrusted)?;
    Ok(Session {
        peer,
        grant,
        secrets: engine.secrets()?,
        hybrid: engine.is_hybrid(),
    })
}

impl<A: Admission> fmt::Debug for Client<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("engine", &self.engine)
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// Why there is no session.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The service did not answer in time.
    Unanswered {
        /// True if it had begun to.
        answered: bool,
    },
    /// The handshake could not go on.
    Broken(Broken),
    /// Whoever answered is no service of this cluster. It has not been shown the credential.
    Untrusted(Refused),
    /// The service does not let this node in.
    Refused(Refused),
}

impl From<Broken> for Failure {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unanswered { answered: false } => f.write_str("the service does not answer"),
            Self::Unanswered { answered: true } => {
                f.write_str("the service has answered, but not to the end")
            }
            Self::Broken(broken) => write!(f, "the handshake failed: {broken}"),
            Self::Untrusted(refused) => {
                write!(f, "what answered is no service of this cluster: {refused}")
            }
            Self::Refused(refused) => write!(f, "the service refuses this node: {refused}"),
        }
    }
}

impl core::error::Error for Failure {}
