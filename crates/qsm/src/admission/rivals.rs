//! Other services of the cluster. A service looks at each that it hears of by a handshake, as one who is no member, and
//! believes what it says in that session alone: so they meet as services of an open cluster do (R-MEM-7).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use qsm_handshake::Identity as Signer;
use qsm_identity::{RevocationError, Revocations};
use qsm_net::{Opened, OwnDatagram, Refusal};
use qsm_seal::KeyId;
use qsm_wire::{Header, Kind, NodeId};
use qsm_x509::Anchors;

use super::attempts::{Attempts, Ended};
use super::claim::Claim;
use super::identity::Identity;
use super::judge::{ServiceJudge, Serving};
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
    credential: Vec<u8>,
    attempts: Attempts,
    known: VecDeque<Rival>,
    rests_until: Instant,
}

#[derive(Debug)]
struct Rival {
    serving: Serving,
    session: Session,
}

impl Rivals {
    /// As a service with this identity sees them.
    pub(super) fn new(now: Instant, signer: Signer, identity: &Identity, cluster: &str) -> Self {
        let judge = ServiceJudge::new(identity, cluster);
        Self {
            credential: identity.credential().to_vec(),
            attempts: Attempts::new(now, signer, judge),
            known: VecDeque::new(),
            rests_until: now,
        }
    }

    /// Somebody says that one is at this address. `node` is the own number.
    pub(super) fn hear_of(&mut self, now: Instant, node: NodeId, address: SocketAddr) {
        let fresh =
            |one: &Rival| one.session.address == address && now < one.session.heard_at + AGAIN;
        if now < self.rests_until || self.known.iter().any(fresh) {
            return;
        }
        self.rests_until = now + PAUSE;
        let claim = Claim {
            node,
            name: "",
            credential: &self.credential,
            observes: true,
            resumes: false,
            pair_key: None,
        };
        self.attempts.begin(now, address, &claim.encode());
    }

    /// Takes a list of revocations, which the doorman has taken: what a revoked service says is not heard any more.
    pub(super) fn learn(&mut self, list: Arc<Revocations>) -> Result<(), RevocationError> {
        self.attempts.learn(list)?;
        self.known.retain(|one| self.attempts.trusts(&one.serving));
        Ok(())
    }

    /// Takes authorities, and what they have revoked, in the place of others.
    pub(super) fn trust(&mut self, anchors: Arc<Anchors>) {
        self.attempts.trust(anchors);
        self.known.retain(|one| self.attempts.trusts(&one.serving));
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
            let Ok(shaken) = result else { continue };
            self.known.retain(|one| one.session.address != address);
            if self.known.len() >= RIVALS_MAX {
                self.known.pop_front();
            }
            let (says, hears) = (&shaken.secrets.to_server, &shaken.secrets.to_client);
            self.known.push_back(Rival {
                serving: shaken.grant,
                session: Session::new(now, address, says, hears),
            });
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
        let mut known = self.known.iter_mut().map(|one| &mut one.session);
        let one = known.find(|one| one.key() == key)?;
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
