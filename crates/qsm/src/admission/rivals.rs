//! Other services of the cluster. A service looks at each that it hears of by a handshake, as one who is no member, and
//! believes what it says in that session alone: so they meet as services of an open cluster do (R-MEM-7).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use qsm_handshake::Identity as Signer;
use qsm_net::{Opened, OwnDatagram, Refusal};
use qsm_seal::KeyId;
use qsm_wire::{Header, Kind, NodeId};

use super::attempts::{Attempts, Ended};
use super::claim::Claim;
use super::identity::{Identity, ServiceJudge};
use super::session::Session;

/// Services that are known at a time.
const RIVALS_MAX: usize = 4;
/// A service is looked at again after so long: what it says of itself may have changed.
const AGAIN: Duration = Duration::from_secs(5);
/// Least pause between two handshakes that are begun: anybody can say that a service is somewhere.
const PAUSE: Duration = Duration::from_millis(50);

/// Services that this one has heard of.
#[derive(Debug)]
pub(super) struct Rivals {
    token: Vec<u8>,
    attempts: Attempts,
    sessions: VecDeque<Session>,
    rests_until: Instant,
}

impl Rivals {
    /// As a service with this identity sees them.
    pub(super) fn new(now: Instant, signer: Signer, identity: &Identity, cluster: &str) -> Self {
        let judge = ServiceJudge {
            root: identity.root(),
            cluster: cluster.to_owned(),
        };
        Self {
            token: identity.token().as_bytes().to_vec(),
            attempts: Attempts::new(now, signer, judge),
            sessions: VecDeque::new(),
            rests_until: now,
        }
    }

    /// Somebody says that one is at this address. `node` is the own number.
    pub(super) fn hear_of(&mut self, now: Instant, node: NodeId, address: SocketAddr) {
        let known = |one: &Session| one.address == address && now < one.heard_at + AGAIN;
        if now < self.rests_until || self.sessions.iter().any(known) {
            return;
        }
        self.rests_until = now + PAUSE;
        let claim = Claim {
            node,
            name: "",
            token: &self.token,
            observes: true,
            resumes: false,
        };
        self.attempts.begin(now, address, &claim.encode());
    }

    /// Takes a frame of a handshake.
    pub(super) fn take(&mut self, now: Instant, from: SocketAddr, content: &[u8]) {
        self.attempts.take(now, from, content);
    }

    /// Goes on with handshakes. Returns how many have ended well.
    pub(super) fn go_on(
        &mut self,
        now: Instant,
        header: &Header,
        own: &mut VecDeque<OwnDatagram>,
    ) -> u64 {
        self.attempts.speak(header, own);
        let mut met = 0;
        while let Some(Ended { address, result }) = self.attempts.poll_ended(now) {
            // Nobody is told of who only says to be a service: nodes are, who look for one.
            let Ok(secrets) = result else { continue };
            self.sessions.retain(|one| one.address != address);
            if self.sessions.len() >= RIVALS_MAX {
                self.sessions.pop_front();
            }
            let (says, hears) = (&secrets.to_server, &secrets.to_client);
            self.sessions
                .push_back(Session::new(now, address, says, hears));
            met += 1;
        }
        met
    }

    /// Opens a packet of another service: where it is, and nothing else. `None`: it is of no session with one.
    pub(super) fn open(
        &mut self,
        now: Instant,
        key: KeyId,
        datagram: &mut [u8],
    ) -> Option<Result<Opened, Refusal>> {
        let one = self.sessions.iter_mut().find(|one| one.key() == key)?;
        if Kind::peek(datagram) != Some(Kind::Beacon) {
            return Some(Err(Refusal::Forged));
        }
        Some(one.open(now, datagram).map(Opened::Datagram))
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        self.attempts.tick(now);
    }

    /// When [`Rivals::tick`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        self.attempts.due()
    }
}
