//! The failure detector (R050): who is alive, who is in doubt, who is dead.
//!
//! ```text
//!            silence of 3 heartbeats, or a member's suspicion
//!   Quiet ─────────────────────────────────────────────► Probing: 5 probes, 100 ms apart
//!     ▲                                                     │               │
//!     └────── an answer, or anything of its session ────────┘               └─► dead
//! ```
//!
//! Suspicion alone never kills: a ring neighbour may be wrong about a path that the service does
//! not use. Detection takes 0.6 s of silence and 0.5 s of probing at the defaults.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Instant, Random};
use qsm_wire::NodeId;

use super::timers::Timers;
use crate::ServiceConfig;

#[derive(Debug)]
struct Watch {
    heard_at: Instant,
    probing: Option<Probing>,
}

#[derive(Debug)]
struct Probing {
    sent: u32,
    nonce: u64,
}

/// A node in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Doubt {
    pub(crate) node: NodeId,
    /// To ask it with; `None`: it has been asked often enough, and is dead.
    pub(crate) nonce: Option<u64>,
}

// Rule R-MEM-4.
#[derive(Debug)]
pub(crate) struct Detector {
    silence: Duration,
    probes: u32,
    interval: Duration,
    random: Random,
    watched: BTreeMap<NodeId, Watch>,
    /// Set lazily: a deadline is moved only when it comes, not at every sign of life.
    timers: Timers<NodeId>,
}

impl Detector {
    pub(crate) fn new(config: &ServiceConfig, random: Random) -> Self {
        Self {
            silence: config.heartbeat * config.silence_heartbeats,
            probes: config.probes,
            interval: config.probe_interval,
            random,
            watched: BTreeMap::new(),
            timers: Timers::new(),
        }
    }

    /// Watches a node from now on.
    pub(crate) fn watch(&mut self, now: Instant, node: NodeId) {
        let probing = None;
        let heard_at = now;
        self.watched.insert(node, Watch { heard_at, probing });
        self.timers.set(node, Some(now.after(self.silence)));
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        self.watched.remove(&node);
        self.timers.set(node, None);
    }

    /// A sign of life.
    pub(crate) fn heard(&mut self, now: Instant, node: NodeId) {
        let Some(watch) = self.watched.get_mut(&node) else {
            return;
        };
        watch.heard_at = now;
        if watch.probing.take().is_some() {
            self.timers.set(node, Some(now.after(self.silence)));
        }
    }

    /// The answer to a probe; one that nobody asked for counts for nothing.
    pub(crate) fn answered(&mut self, now: Instant, node: NodeId, nonce: u64) {
        let probing = self.watched.get(&node).and_then(|w| w.probing.as_ref());
        if probing.is_some_and(|probing| probing.nonce == nonce) {
            self.heard(now, node);
        }
    }

    /// A member doubts another one.
    pub(crate) fn suspect(&mut self, now: Instant, node: NodeId) {
        let nonce = self.random.bits();
        if let Some(watch) = self.watched.get_mut(&node)
            && watch.probing.is_none()
        {
            watch.probing = Some(Probing { sent: 0, nonce });
            self.timers.set(node, Some(now));
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next node to do something about, until there is none.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Doubt> {
        while let Some(node) = self.timers.pop(now) {
            let silent_at = match self.watched.get(&node) {
                Some(watch) if watch.probing.is_none() => watch.heard_at.after(self.silence),
                Some(_) => now,
                None => continue,
            };
            if silent_at > now {
                self.timers.set(node, Some(silent_at));
                continue;
            }
            self.suspect(now, node);
            let Some(probing) = self.watched.get_mut(&node).and_then(|w| w.probing.as_mut()) else {
                continue;
            };
            if probing.sent >= self.probes {
                self.forget(node);
                return Some(Doubt { node, nonce: None });
            }
            probing.sent += 1;
            let nonce = Some(probing.nonce);
            self.timers.set(node, Some(now.after(self.interval)));
            return Some(Doubt { node, nonce });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use qsm_proto::Seed;

    use super::*;

    const MS: u64 = 1_000_000;

    fn detector() -> Detector {
        let config = ServiceConfig::new(NodeId(1), SocketAddr::from(([127, 0, 0, 1], 1)));
        let mut detector = Detector::new(&config, Random::new(Seed(1), "detector"));
        detector.watch(Instant(0), NodeId(7));
        detector
    }

    /// Every doubt until `end`, with its time in milliseconds.
    fn run(detector: &mut Detector, end: u64) -> Vec<(u64, Doubt)> {
        let mut doubts = Vec::new();
        while let Some(at) = detector.next_timeout().filter(|at| at.0 <= end * MS) {
            while let Some(doubt) = detector.poll(at) {
                doubts.push((at.0 / MS, doubt));
            }
        }
        doubts
    }

    #[test]
    fn a_silent_node_is_dead_after_five_probes_without_answer() {
        let doubts = run(&mut detector(), 10_000);
        let times: Vec<u64> = doubts.iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [600, 700, 800, 900, 1000, 1100]);
        let node = NodeId(7);
        assert_eq!(doubts[5].1, Doubt { node, nonce: None });
        assert!(doubts[4].1.nonce.is_some());
    }

    #[test]
    fn an_answer_to_the_probe_clears_the_suspicion_and_another_answer_does_not() {
        let mut detector = detector();
        detector.suspect(Instant(0), NodeId(7));
        let doubt = detector.poll(Instant(0)).unwrap();
        let (node, nonce) = (doubt.node, doubt.nonce.unwrap());
        detector.answered(Instant(MS), node, nonce ^ 1);
        assert_eq!(run(&mut detector, 150).len(), 1);
        detector.answered(Instant(160 * MS), node, nonce);
        assert_eq!(run(&mut detector, 700), []);
    }

    #[test]
    fn a_node_that_shows_signs_of_life_is_never_probed() {
        let mut detector = detector();
        for at in 1..100 {
            detector.heard(Instant(at * 500 * MS), NodeId(7));
            assert_eq!(run(&mut detector, at * 500), []);
        }
        detector.forget(NodeId(7));
        assert_eq!(detector.next_timeout(), None);
    }
}
