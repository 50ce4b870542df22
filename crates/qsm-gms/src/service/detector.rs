//! The failure detector (R050): who is heard, who is in doubt, who is away, who is gone.
//!
//! ```text
//!           silence of 3 heartbeats, or a member's suspicion            gone_after
//!   Quiet ──────────────────────────────► Probing ───────────────► Away ──────────► gone
//!     ▲                                 3 probes, 50 ms    2 probes a second          ▲
//!     │                                      │ │                    │ │               │
//!     └── an answer, or anything of its session ────────────────────┘ └─ its host ────┘
//!                                                                        says so
//! ```
//!
//! Suspicion alone moves nobody: a ring neighbour may be wrong about a path that the service does
//! not use. At the defaults a member that others suspect is away after 150 ms, any other silent one
//! after 750 ms, and gone after 30 s.
//!
//! Where heartbeats of a node are missed, its probes are sent in copies (`heartbeats.rs`): with 60 %
//! of all packets lost three probes and their answers would fail more often than not.
//!
//! Two rules hold the detector back. If the service itself has not run for a while, silence of that
//! time is its own ([`Detector::forgive`]; Lifeguard, arXiv 1707.00788). And if more than a fifth of
//! the nodes are silent at once, it may be the service that is cut off: they are away, and gone only
//! after four times as long.

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_proto::{Instant, Random};
use qsm_wire::NodeId;

use super::heartbeats::Heartbeats;
use super::timers::Timers;
use crate::ServiceConfig;

/// Nodes are probed so often while they are away.
const AWAY_INTERVAL: Duration = Duration::from_millis(500);
/// How many times more probes it takes where nobody is ever away: to be away costs little, to be dead
/// much.
const PROBES_BEFORE_DEATH: u32 = 4;
/// An answer that has not come after so many round trips is not on its way.
const ANSWER_ROUND_TRIPS: u32 = 2;
/// Of so many nodes one may be silent without being a crowd, and of fewer than this no number is.
const CROWD_ONE_IN: usize = 5;
const CROWD_NODES_MIN: usize = 4;
/// How many times longer a crowd is waited for.
const CROWD_PATIENCE: u32 = 4;

#[derive(Debug)]
struct Watch {
    heard_at: Instant,
    /// When it was last doubted.
    doubted_at: Instant,
    /// The way there and back, as far as that is known.
    round_trip: Duration,
    heartbeats: Heartbeats,
    state: WatchState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchState {
    Quiet,
    Probing { sent: u32, nonce: u64 },
    Away { nonce: u64 },
}

/// What is to be done about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Ask it.
    Ask {
        /// Whom.
        node: NodeId,
        /// Ties the answer to the question.
        nonce: u64,
        /// So many times at once.
        copies: u32,
    },
    /// Nobody is to wait for it any more.
    Away {
        /// For whom.
        node: NodeId,
    },
    /// Its life is over.
    Gone {
        /// Whose.
        node: NodeId,
    },
}

// Rules R-MEM-4, R-MEM-15.
#[derive(Debug)]
pub(crate) struct Detector {
    heartbeat: Duration,
    silence: Duration,
    probes: u32,
    interval: Duration,
    gone_after: Duration,
    random: Random,
    watched: BTreeMap<NodeId, Watch>,
    /// How many of them are away.
    away: usize,
    /// A crowd is away, and that has been told.
    crowd_told: bool,
    /// Set lazily: a deadline is moved only when it comes, not at every sign of life.
    timers: Timers<NodeId>,
}

impl Detector {
    pub(crate) fn new(config: &ServiceConfig, random: Random) -> Self {
        Self {
            heartbeat: config.heartbeat,
            silence: config.heartbeat * config.silence_heartbeats,
            probes: match config.gone_after.is_zero() {
                true => config.probes.saturating_mul(PROBES_BEFORE_DEATH),
                false => config.probes,
            },
            interval: config.probe_interval,
            gone_after: config.gone_after,
            random,
            watched: BTreeMap::new(),
            away: 0,
            crowd_told: false,
            timers: Timers::new(),
        }
    }

    /// Watches a node from now on.
    pub(crate) fn watch(&mut self, now: Instant, node: NodeId) {
        self.forget(node);
        let watch = Watch {
            heard_at: now,
            doubted_at: now,
            round_trip: Duration::ZERO,
            heartbeats: Heartbeats::default(),
            state: WatchState::Quiet,
        };
        self.watched.insert(node, watch);
        self.timers.set(node, Some(now.after(self.silence)));
    }

    /// Watches a node from now on that others have spoken of: it is away.
    pub(crate) fn expect(&mut self, now: Instant, node: NodeId) {
        self.watch(now, node);
        let nonce = self.random.bits();
        self.enter(node, WatchState::Away { nonce });
        self.timers.set(node, Some(now));
    }

    pub(crate) fn forget(&mut self, node: NodeId) {
        self.enter(node, WatchState::Quiet);
        self.watched.remove(&node);
        self.timers.set(node, None);
    }

    /// Changes a node's state; returns whether it was another one.
    fn enter(&mut self, node: NodeId, state: WatchState) -> bool {
        let Some(watch) = self.watched.get_mut(&node) else {
            return false;
        };
        let away = |state| usize::from(matches!(state, WatchState::Away { .. }));
        self.away = self.away + away(state) - away(watch.state);
        self.crowd_told &= self.away > 0;
        core::mem::replace(&mut watch.state, state) != state
    }

    /// A sign of life.
    pub(crate) fn heard(&mut self, now: Instant, node: NodeId) {
        let Some(watch) = self.watched.get_mut(&node) else {
            return;
        };
        let gap = now.since(watch.heard_at);
        watch.heartbeats.note(gap, self.heartbeat);
        watch.heard_at = now;
        if watch.state != WatchState::Quiet {
            self.enter(node, WatchState::Quiet);
            self.timers.set(node, Some(now.after(self.silence)));
        }
    }

    /// Distance of a node: its answers take that long.
    pub(crate) fn note_round_trip(&mut self, node: NodeId, round_trip: Duration) {
        if let Some(watch) = self.watched.get_mut(&node) {
            watch.round_trip = round_trip;
        }
    }

    /// The answer to a probe; one that nobody asked for counts for nothing.
    pub(crate) fn answered(&mut self, now: Instant, node: NodeId, answer: u64) {
        let asked = match self.watched.get(&node).map(|watch| watch.state) {
            Some(WatchState::Probing { nonce, .. } | WatchState::Away { nonce }) => Some(nonce),
            _ => None,
        };
        if asked == Some(answer) {
            self.heard(now, node);
        }
    }

    /// A member doubts another one.
    pub(crate) fn suspect(&mut self, now: Instant, node: NodeId) {
        let watch = self.watched.get_mut(&node);
        if let Some(watch) = watch.filter(|watch| watch.state == WatchState::Quiet) {
            watch.doubted_at = now;
            let nonce = self.random.bits();
            self.enter(node, WatchState::Probing { sent: 0, nonce });
            self.timers.set(node, Some(now));
        }
    }

    /// The host of a node says that no process is there. `true`: it was in doubt, and is gone;
    /// otherwise it is in doubt from now on.
    pub(crate) fn refused(&mut self, now: Instant, node: NodeId) -> bool {
        let state = self.watched.get(&node).map(|watch| watch.state);
        if state.is_none_or(|state| state == WatchState::Quiet) {
            self.suspect(now, node);
            return false;
        }
        self.forget(node);
        true
    }

    /// The service did not run for a while: nobody's silence of that time counts.
    pub(crate) fn forgive(&mut self, now: Instant) {
        let nodes: Vec<NodeId> = self.watched.keys().copied().collect();
        for node in nodes {
            if let Some(watch) = self.watched.get_mut(&node) {
                watch.heard_at = now;
            }
            if !self.is_away(node) {
                self.enter(node, WatchState::Quiet);
                self.timers.set(node, Some(now.after(self.silence)));
            }
        }
    }

    /// Whether a node has been heard lately and nobody doubts it.
    pub(crate) fn is_quiet(&self, node: NodeId) -> bool {
        let watch = self.watched.get(&node);
        watch.is_some_and(|watch| watch.state == WatchState::Quiet)
    }

    /// Tells whether a node has been heard lately, whatever others say of it.
    pub(crate) fn is_heard(&self, now: Instant, node: NodeId) -> bool {
        let watch = self.watched.get(&node);
        let lately = watch.is_some_and(|watch| now.since(watch.heard_at) < self.silence);
        lately && !self.is_away(node)
    }

    fn is_away(&self, node: NodeId) -> bool {
        let watch = self.watched.get(&node);
        watch.is_some_and(|watch| matches!(watch.state, WatchState::Away { .. }))
    }

    /// How many nodes are away at once, and of how many, if they are a crowd; told once.
    pub(crate) fn poll_crowd(&mut self) -> Option<(usize, usize)> {
        let (crowd, told) = (self.is_crowd(), self.crowd_told);
        self.crowd_told |= crowd;
        (crowd && !told).then_some((self.away, self.watched.len()))
    }

    fn is_crowd(&self) -> bool {
        let nodes = self.watched.len();
        nodes >= CROWD_NODES_MIN && self.away >= 2 && self.away * CROWD_ONE_IN > nodes
    }

    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// The next thing to do, until there is none.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Verdict> {
        while let Some(node) = self.timers.pop(now) {
            let Some(watch) = self.watched.get(&node) else {
                continue;
            };
            let (heard_at, state) = (watch.heard_at, watch.state);
            let copies = watch.heartbeats.copies();
            let answered_by = watch
                .doubted_at
                .after(watch.round_trip * ANSWER_ROUND_TRIPS);
            match state {
                WatchState::Quiet => {
                    let silent_at = heard_at.after(self.silence);
                    if silent_at > now {
                        self.timers.set(node, Some(silent_at));
                    } else {
                        self.suspect(now, node);
                    }
                }
                WatchState::Probing { sent, nonce } if sent < self.probes => {
                    let sent = sent + 1;
                    self.enter(node, WatchState::Probing { sent, nonce });
                    self.timers.set(node, Some(now.after(self.interval)));
                    return Some(Verdict::Ask {
                        node,
                        nonce,
                        copies,
                    });
                }
                // Its answer may be on its way.
                WatchState::Probing { .. } if answered_by > now => {
                    self.timers.set(node, Some(answered_by));
                }
                WatchState::Probing { .. } if self.gone_after.is_zero() => {
                    self.forget(node);
                    return Some(Verdict::Gone { node });
                }
                WatchState::Probing { nonce, .. } => {
                    self.enter(node, WatchState::Away { nonce });
                    self.timers.set(node, Some(now));
                    return Some(Verdict::Away { node });
                }
                WatchState::Away { nonce } => {
                    let ask = Verdict::Ask {
                        node,
                        nonce,
                        copies,
                    };
                    return Some(self.watch_over(now, node, heard_at, ask));
                }
            }
        }
        None
    }

    /// A node that is away is asked again, or is gone.
    fn watch_over(
        &mut self,
        now: Instant,
        node: NodeId,
        heard_at: Instant,
        ask: Verdict,
    ) -> Verdict {
        let patience = match self.is_crowd() {
            true => self.gone_after * CROWD_PATIENCE,
            false => self.gone_after,
        };
        let ends = heard_at.after(patience);
        if ends <= now {
            self.forget(node);
            return Verdict::Gone { node };
        }
        self.timers
            .set(node, Some(now.after(AWAY_INTERVAL).min(ends)));
        ask
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use qsm_proto::Seed;

    use super::*;

    const MS: u64 = 1_000_000;
    const NODE: NodeId = NodeId(7);

    fn detector(nodes: u64, gone_after: Duration) -> Detector {
        let mut config = ServiceConfig::new(NodeId(1), SocketAddr::from(([127, 0, 0, 1], 1)));
        config.gone_after = gone_after;
        let mut detector = Detector::new(&config, Random::new(Seed(1), "detector"));
        (0..nodes).for_each(|node| detector.watch(Instant(0), NodeId(7 + node)));
        detector
    }

    /// Every verdict until `end`, with its time in milliseconds.
    fn run(detector: &mut Detector, end: u64) -> Vec<(u64, Verdict)> {
        let mut verdicts = Vec::new();
        while let Some(at) = detector.next_timeout().filter(|at| at.0 <= end * MS) {
            while let Some(verdict) = detector.poll(at) {
                verdicts.push((at.0 / MS, verdict));
            }
        }
        verdicts
    }

    fn times(verdicts: &[(u64, Verdict)], is: impl Fn(&Verdict) -> bool) -> Vec<u64> {
        let of_kind = verdicts.iter().filter(|(_, verdict)| is(verdict));
        of_kind.map(|(at, _)| *at).collect()
    }

    fn asks(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Ask { .. })
    }

    fn away(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Away { .. })
    }

    fn gone(verdict: &Verdict) -> bool {
        matches!(verdict, Verdict::Gone { .. })
    }

    // Rule R-MEM-15.
    #[test]
    fn a_silent_node_is_away_soon_and_gone_late() {
        let verdicts = run(&mut detector(1, Duration::from_secs(30)), 100_000);
        assert_eq!(times(&verdicts, away), [750]);
        assert_eq!(times(&verdicts, gone), [30_000]);
        let asked = times(&verdicts, asks);
        assert_eq!(asked[..5], [600, 650, 700, 750, 1250]);
        assert_eq!(asked.len(), 62);
    }

    // Rule R-MEM-4.
    #[test]
    fn without_a_time_to_be_away_a_silent_node_is_gone_after_its_probes() {
        let verdicts = run(&mut detector(1, Duration::ZERO), 10_000);
        assert_eq!(times(&verdicts, asks).len(), 12);
        assert_eq!(
            (times(&verdicts, away), times(&verdicts, gone)),
            (vec![], vec![1200])
        );
    }

    // Rule R-MEM-15.
    #[test]
    fn a_suspected_node_is_away_after_150_ms_and_comes_back_by_any_word() {
        let mut detector = detector(1, Duration::from_secs(30));
        detector.suspect(Instant(100 * MS), NODE);
        assert_eq!(times(&run(&mut detector, 300), away), [250]);
        assert!(!detector.is_quiet(NODE));
        detector.heard(Instant(300 * MS), NODE);
        assert!(detector.is_quiet(NODE));
        assert_eq!(run(&mut detector, 899), []);
    }

    #[test]
    fn an_answer_to_the_probe_clears_the_suspicion_and_another_answer_does_not() {
        let mut detector = detector(1, Duration::from_secs(30));
        detector.suspect(Instant(0), NODE);
        let Some(Verdict::Ask { nonce, .. }) = detector.poll(Instant(0)) else {
            panic!("it is not asked");
        };
        detector.answered(Instant(MS), NODE, nonce ^ 1);
        assert_eq!(run(&mut detector, 60).len(), 1);
        detector.answered(Instant(60 * MS), NODE, nonce);
        assert_eq!(run(&mut detector, 600), []);
    }

    // Rule R-MEM-4.
    #[test]
    fn a_far_node_is_away_only_when_its_answer_would_have_come() {
        let mut detector = detector(1, Duration::from_secs(30));
        detector.note_round_trip(NODE, Duration::from_millis(300));
        detector.suspect(Instant(100 * MS), NODE);
        let verdicts = run(&mut detector, 1000);
        assert_eq!(times(&verdicts, asks)[..3], [100, 150, 200]);
        assert_eq!(times(&verdicts, away), [700]);
    }

    // Rule R-MEM-15.
    #[test]
    fn what_its_host_says_of_a_node_in_doubt_ends_its_life_at_once() {
        let mut detector = detector(1, Duration::from_secs(30));
        assert!(!detector.refused(Instant(0), NODE), "nobody was in doubt");
        assert_eq!(run(&mut detector, 10).len(), 1);
        assert!(detector.refused(Instant(20 * MS), NODE));
        assert_eq!(run(&mut detector, 100_000), []);
    }

    // Rule R-MEM-15.
    #[test]
    fn a_service_that_did_not_run_takes_nobody_for_silent() {
        let mut detector = detector(3, Duration::from_secs(30));
        run(&mut detector, 640);
        detector.forgive(Instant(9000 * MS));
        assert_eq!(run(&mut detector, 9599), []);
        assert_eq!(times(&run(&mut detector, 9800), away), [9750; 3]);
    }

    // Rule R-MEM-15.
    #[test]
    fn a_crowd_that_is_silent_at_once_is_waited_for_longer() {
        let mut detector = detector(10, Duration::from_secs(30));
        let heard = |detector: &mut Detector, at: u64| {
            (10..17).for_each(|node| detector.heard(Instant(at * MS), NodeId(node)));
        };
        let mut ends = Vec::new();
        for at in (500..150_000).step_by(500) {
            heard(&mut detector, at);
            ends.extend(times(&run(&mut detector, at), gone));
            assert_eq!(detector.poll_crowd(), (at == 1000).then_some((3, 10)));
        }
        // When one of three is gone, two of nine are still more than a fifth, but one of eight is not.
        assert_eq!(ends.len(), 3);
        assert!(ends.iter().all(|end| *end >= 120_000), "{ends:?}");
    }

    #[test]
    fn a_node_that_shows_signs_of_life_is_never_probed() {
        let mut detector = detector(1, Duration::from_secs(30));
        for at in 1..100 {
            detector.heard(Instant(at * 500 * MS), NODE);
            assert_eq!(run(&mut detector, at * 500), []);
        }
        detector.forget(NODE);
        assert_eq!(detector.next_timeout(), None);
    }
}
