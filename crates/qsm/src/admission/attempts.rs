//! Handshakes of a node with services that it has heard of, a few at a time.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use qsm_handshake::{Client, Failure, Identity as Signer, Now, Session as Met};
use qsm_identity::{RevocationError, Revocations};
use qsm_net::OwnDatagram;
use qsm_wire::{AdmissionStage, Header};
use qsm_x509::Anchors;

use super::identity::unix_now;
use super::judge::{ServiceJudge, Serving};
use super::packet::admission;

/// Handshakes at a time. Who claims to be a service costs one; those that nobody has answered make room.
const ATTEMPTS_MAX: usize = 8;
/// Addresses at which a handshake has failed and that rest.
const RESTS_MAX: usize = 64;
/// First rest; it doubles with each failure.
const REST_MIN: Duration = Duration::from_millis(500);
/// Longest rest.
const REST_MAX: Duration = Duration::from_secs(10);

/// Handshakes that are under way.
#[derive(Debug)]
pub(super) struct Attempts {
    signer: Signer,
    judge: ServiceJudge,
    started: Instant,
    open: VecDeque<Attempt>,
    rests: BTreeMap<SocketAddr, Rest>,
}

#[derive(Debug)]
struct Attempt {
    address: SocketAddr,
    client: Client<ServiceJudge>,
    /// Somebody has answered.
    answered: bool,
}

#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    pause: Duration,
}

/// A handshake that has ended.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) address: SocketAddr,
    pub(super) result: Result<Met<Serving>, Failure>,
}

impl Attempts {
    pub(super) fn new(now: Instant, signer: Signer, judge: ServiceJudge) -> Self {
        Self {
            signer,
            judge,
            started: now,
            open: VecDeque::new(),
            rests: BTreeMap::new(),
        }
    }

    /// Takes a list of revocations. Returns whether it is a newer one.
    pub(super) fn learn(&mut self, list: Arc<Revocations>) -> Result<bool, RevocationError> {
        self.judge.learn(list)
    }

    /// Takes authorities, and what they have revoked, in the place of others.
    pub(super) fn trust(&mut self, anchors: Arc<Anchors>) {
        self.judge.trust(anchors);
    }

    /// Checks that a service was not revoked.
    pub(super) fn trusts(&self, serving: &Serving) -> bool {
        self.judge.check(serving).is_ok()
    }

    /// Begins one with the service at this address, if none is under way there and it does not rest.
    pub(super) fn begin(&mut self, now: Instant, address: SocketAddr, claim: &[u8]) {
        let rests = self.rests.get(&address);
        let under_way = |attempt: &Attempt| attempt.address == address;
        if rests.is_some_and(|rest| now < rest.until) || self.open.iter().any(under_way) {
            return;
        }
        if self.open.len() >= ATTEMPTS_MAX {
            let unanswered = self.open.iter().position(|attempt| !attempt.answered);
            let Some(oldest) = unanswered else { return };
            self.open.remove(oldest);
        }
        let moment = self.moment(now);
        let Ok(client) = Client::new(moment, &self.signer, claim, self.judge.clone()) else {
            // No random numbers, or too long a token, which was checked.
            return;
        };
        self.open.push_back(Attempt {
            address,
            client,
            answered: false,
        });
    }

    /// Takes a frame of a handshake; each knows its own.
    pub(super) fn take(&mut self, now: Instant, from: SocketAddr, content: &[u8]) {
        let moment = self.moment(now);
        for attempt in &mut self.open {
            attempt.answered |= attempt.address == from;
            attempt.client.receive(moment, content);
        }
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, now: Instant) {
        let moment = self.moment(now);
        for attempt in &mut self.open {
            attempt.client.tick(moment);
        }
    }

    /// When [`Attempts::tick`] has something to do.
    pub(super) fn due(&self) -> Option<Instant> {
        let ticks = self.open.iter();
        let next = ticks.filter_map(|attempt| attempt.client.next_tick()).min();
        next.map(|at| self.started + at)
    }

    /// Sends what is to be said.
    pub(super) fn speak(&mut self, header: &Header, own: &mut VecDeque<OwnDatagram>) {
        for attempt in &mut self.open {
            while let Some(frame) = attempt.client.poll_transmit() {
                own.push_back(OwnDatagram {
                    to: attempt.address,
                    bytes: admission(header, AdmissionStage::Handshake, &frame),
                });
            }
        }
    }

    /// The next one that has ended.
    pub(super) fn poll_ended(&mut self, now: Instant) -> Option<Ended> {
        let ended = |attempt: &Attempt| attempt.client.outcome().is_some();
        let at = self.open.iter().position(ended)?;
        let Attempt {
            address,
            mut client,
            ..
        } = self.open.remove(at)?;
        let result = match (client.take_session(), client.outcome().cloned()) {
            (Some(met), _) => {
                // A list may have come meanwhile.
                let checked = self.judge.check(&met.grant).map_err(Failure::Untrusted);
                checked.map(|()| met)
            }
            (None, Some(Err(failure))) => Err(failure),
            _ => return None,
        };
        match &result {
            Ok(_) => {
                self.rests.remove(&address);
            }
            Err(_) => self.rest(now, address),
        }
        Some(Ended { address, result })
    }

    fn rest(&mut self, now: Instant, address: SocketAddr) {
        let former = self.rests.get(&address).map(|rest| rest.pause);
        if former.is_none() && self.rests.len() >= RESTS_MAX {
            self.rests.pop_first();
        }
        let pause = former.map_or(REST_MIN, |pause| (pause * 2).min(REST_MAX));
        let until = now + pause;
        self.rests.insert(address, Rest { until, pause });
    }

    fn moment(&self, now: Instant) -> Now {
        Now {
            elapsed: now.saturating_duration_since(self.started),
            unix: unix_now(),
        }
    }
}
