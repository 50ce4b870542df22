//! NACK states (S1, 3.2.2): who has asked for a packet, and who is asked for it.
//!
//! ```text
//!                    first NACK                DTD over, somebody may have it
//!   (no state) ──────────────────► Deciding ─────────────────────────────────► Asked ◄─┐ silent, or
//!        │                            │                                         │ │   │ lacks it:
//!        │ gap, or the relay          │ all have asked          nobody is left  │ └───┘ the next
//!        │ lacks it itself            ▼                                         │
//!        ├─────────────────────► Upstream ◄───────────────────────────────────┘
//!        └──► Awaited: parity ─────►┤   it has not brought it
//!                                  │    any state: the packet comes ──► Served ──► (no state)
//!                                  └──► asked again at doubling intervals, for the state's lifetime
//! ```

use core::time::Duration;
use std::collections::BTreeMap;

use qsm_wire::Instant;

use crate::children::Children;
use crate::context::{Context, Due};
use crate::links::Links;

/// Most NACK states of a session.
pub(crate) const STATES_MAX: usize = 4096;

/// Node that is to be asked for a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    Parent,
    Child(usize),
}

/// A NACK that is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Ask {
    pub(crate) whom: Asked,
    pub(crate) sequence: u64,
}

#[derive(Debug, Clone, Copy)]
enum Stage {
    /// DTD runs; whom the election would choose now.
    Deciding { replier: Option<usize> },
    /// A child has been asked.
    Asked { replier: usize },
    /// The parent has been asked, and will be again after this interval.
    Upstream { interval: Duration },
    /// The relay lacks it, and the parent's parity may still bring it.
    Awaited,
    /// Repaired; NACKs of who was served may have crossed the repair.
    Served,
}

/// S1's NS structure of one packet.
#[derive(Debug, Clone, Copy)]
struct NackState {
    /// S1's `subList`: links whose children lack the packet.
    sub: Links,
    /// Repliers that were asked in vain.
    tried: Links,
    /// The parent has elected this relay.
    parent_waits: bool,
    stage: Stage,
    due: Instant,
    until: Instant,
}

impl NackState {
    /// Chooses the first in the list of receivers that has not asked itself (S1, 3.2.3). Rule
    /// R-RELAY-7.
    fn elect(&self, children: &Children, sequence: u64) -> Option<usize> {
        let holders = children.holders(sequence);
        holders.without(self.sub).without(self.tried).first()
    }
}

/// Where a repair goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Waiting {
    pub(crate) children: Links,
    pub(crate) parent: bool,
}

/// The NACK states of a session by their packets. Rule R-RELAY-6.
#[derive(Debug, Default)]
pub(crate) struct Nacks {
    states: BTreeMap<u64, NackState>,
    /// NACKs that the last calls want sent.
    asks: Vec<Ask>,
}

impl Nacks {
    pub(crate) fn is_full(&self) -> bool {
        self.states.len() >= STATES_MAX
    }

    pub(crate) fn has(&self, sequence: u64) -> bool {
        self.states.contains_key(&sequence)
    }

    pub(crate) fn count(&self) -> usize {
        self.states.len()
    }

    /// The NACKs that are to be sent now.
    pub(crate) fn take_asks(&mut self) -> Vec<Ask> {
        core::mem::take(&mut self.asks)
    }

    /// Gives the emptied list back for reuse.
    pub(crate) fn reuse(&mut self, mut asks: Vec<Ask>) {
        asks.clear();
        self.asks = asks;
    }

    /// The relay has found a packet missing itself, and asks its parent at once; or after so long, if parity may bring
    /// it until then. Rules R-RELAY-5, R-RELAY-75.
    pub(crate) fn found_missing(
        &mut self,
        cx: &mut Context<'_>,
        sequence: u64,
        patience: Option<Duration>,
    ) {
        self.open(cx, sequence, Links::default());
        match (patience, self.states.get_mut(&sequence)) {
            (Some(patience), Some(state)) => {
                state.stage = Stage::Awaited;
                rearm(cx, sequence, state, cx.now.after(patience));
            }
            _ => self.ask_parent(cx, sequence, cx.timing.upstream_retry),
        }
    }

    /// A child lacks a packet that this relay lacks (`lost`) or not.
    pub(crate) fn missed_by(
        &mut self,
        cx: &mut Context<'_>,
        children: &Children,
        place: usize,
        sequence: u64,
        lost: bool,
    ) {
        let lifetime = cx.timing.nack_lifetime;
        let Some(state) = self.states.get_mut(&sequence) else {
            self.first_nack(cx, children, place, sequence, lost);
            return;
        };
        let served_just_now = state.sub.contains(place) && cx.now < state.due;
        state.until = cx.now.after(lifetime);
        match state.stage {
            Stage::Served if served_just_now => cx.stats.nacks_suppressed += 1,
            Stage::Served => {
                self.close(cx, sequence);
                self.first_nack(cx, children, place, sequence, lost);
            }
            Stage::Asked { replier } if replier == place => {
                state.sub.insert(place);
                cx.stats.repliers_failed += 1;
                self.decide(cx, children, sequence);
            }
            Stage::Deciding { replier } => {
                state.sub.insert(place);
                if replier == Some(place) {
                    let replier = state.elect(children, sequence);
                    state.stage = Stage::Deciding { replier };
                }
                cx.stats.nacks_suppressed += 1;
            }
            Stage::Asked { .. } | Stage::Upstream { .. } | Stage::Awaited => {
                state.sub.insert(place);
                cx.stats.nacks_suppressed += 1;
            }
        }
    }

    fn first_nack(
        &mut self,
        cx: &mut Context<'_>,
        children: &Children,
        place: usize,
        sequence: u64,
        lost: bool,
    ) {
        if self.is_full() {
            cx.stats.limited += 1;
            return;
        }
        self.open(cx, sequence, Links::one(place));
        if lost {
            self.ask_parent(cx, sequence, cx.timing.upstream_retry);
            return;
        }
        let at = cx.now.after(cx.timing.delay_to_decide);
        if let Some(state) = self.states.get_mut(&sequence) {
            let replier = state.elect(children, sequence);
            state.stage = Stage::Deciding { replier };
            rearm(cx, sequence, state, at);
        }
    }

    /// The parent has elected this relay to repair. It decides at once: the parent has waited
    /// already. Rule R-RELAY-10.
    pub(crate) fn wanted_by_parent(
        &mut self,
        cx: &mut Context<'_>,
        children: &Children,
        sequence: u64,
        lost: bool,
    ) {
        let served = |state: &NackState| matches!(state.stage, Stage::Served);
        if self.states.get(&sequence).is_some_and(served) {
            self.close(cx, sequence);
        }
        if !self.has(sequence) {
            if self.is_full() {
                cx.stats.limited += 1;
                return;
            }
            self.open(cx, sequence, Links::default());
        }
        let Some(state) = self.states.get_mut(&sequence) else {
            return;
        };
        state.parent_waits = true;
        match state.stage {
            // A child is at it, or the parent has been told that the packet is missing here.
            Stage::Asked { .. } | Stage::Upstream { .. } => {}
            _ if lost => self.ask_parent(cx, sequence, cx.timing.upstream_retry),
            _ => self.decide(cx, children, sequence),
        }
    }

    /// A child lacks a packet that is in the cache; false if it was sent to the child just now.
    pub(crate) fn serve_one(&mut self, cx: &mut Context<'_>, place: usize, sequence: u64) -> bool {
        let served = self.states.get_mut(&sequence);
        if let Some(state) = served
            && matches!(state.stage, Stage::Served)
        {
            let crossed = state.sub.contains(place) && cx.now < state.due;
            state.sub.insert(place);
            cx.stats.nacks_suppressed += u64::from(crossed);
            return !crossed;
        }
        if self.is_full() && !self.has(sequence) {
            cx.stats.limited += 1;
            return true;
        }
        self.close(cx, sequence);
        self.open(cx, sequence, Links::one(place));
        self.serve(cx, sequence);
        true
    }

    /// The packet is here: says who waits for it, and remembers that they were served.
    pub(crate) fn serve(&mut self, cx: &mut Context<'_>, sequence: u64) -> Waiting {
        let Some(state) = self.states.get_mut(&sequence) else {
            return Waiting::default();
        };
        if matches!(state.stage, Stage::Served) {
            return Waiting::default();
        }
        let waiting = Waiting {
            children: state.sub,
            parent: core::mem::take(&mut state.parent_waits),
        };
        state.stage = Stage::Served;
        let at = cx.now.after(cx.timing.served_hold);
        rearm(cx, sequence, state, at);
        waiting
    }

    /// All these children get the packet now, whether they have asked or not.
    pub(crate) fn serve_all(
        &mut self,
        cx: &mut Context<'_>,
        sequence: u64,
        members: Links,
    ) -> Waiting {
        let waiting = self.serve(cx, sequence);
        if let Some(state) = self.states.get_mut(&sequence) {
            state.sub = members;
        }
        Waiting {
            children: members,
            ..waiting
        }
    }

    /// A state's timer is due.
    pub(crate) fn due(&mut self, cx: &mut Context<'_>, children: &Children, sequence: u64) {
        let Some(state) = self.states.get(&sequence) else {
            return;
        };
        match state.stage {
            Stage::Served => self.close(cx, sequence),
            Stage::Deciding { .. } => self.decide(cx, children, sequence),
            Stage::Awaited => self.ask_parent(cx, sequence, cx.timing.upstream_retry),
            Stage::Asked { .. } => {
                cx.stats.repliers_failed += 1;
                self.decide(cx, children, sequence);
            }
            Stage::Upstream { .. } if cx.now >= state.until => self.close(cx, sequence),
            Stage::Upstream { interval } => {
                cx.stats.nacked_again += 1;
                let interval = (interval * 2).min(cx.timing.retry_max);
                self.ask_parent(cx, sequence, interval);
            }
        }
    }

    /// Asks another parent for all that the one before was asked for. That one waits for nothing any more, and
    /// the new one has not asked. Rule R-RELAY-42.
    pub(crate) fn ask_another_parent(&mut self, cx: &mut Context<'_>) {
        for state in self.states.values_mut() {
            state.parent_waits = false;
        }
        let upstream = |state: &NackState| matches!(state.stage, Stage::Upstream { .. });
        let states = self.states.iter().filter(|(_, state)| upstream(state));
        let asked: Vec<u64> = states.map(|(sequence, _)| *sequence).collect();
        for sequence in asked {
            cx.stats.nacked_again += 1;
            self.ask_parent(cx, sequence, cx.timing.upstream_retry);
        }
    }

    /// A child is gone, and its place may become another's.
    pub(crate) fn forget_child(&mut self, children: &Children, place: usize) {
        for (sequence, state) in &mut self.states {
            state.sub.remove(place);
            state.tried.remove(place);
            if let Stage::Deciding { replier } = state.stage
                && replier == Some(place)
            {
                let replier = state.elect(children, *sequence);
                state.stage = Stage::Deciding { replier };
            }
        }
    }

    /// Gives up states of packets up to here, which nobody keeps any more.
    #[inline]
    pub(crate) fn give_up(&mut self, cx: &mut Context<'_>, upto: u64) {
        while let Some((&sequence, _)) = self.states.first_key_value()
            && sequence <= upto
        {
            self.close(cx, sequence);
        }
    }

    /// Gives up all states.
    pub(crate) fn clear(&mut self, cx: &mut Context<'_>) {
        while let Some((sequence, state)) = self.states.pop_first() {
            cx.cancel_timer(state.due, Due::Nack(sequence));
        }
    }

    /// Asks the elected replier, or the parent if everybody below lacks the packet.
    fn decide(&mut self, cx: &mut Context<'_>, children: &Children, sequence: u64) {
        let Some(state) = self.states.get_mut(&sequence) else {
            return;
        };
        let elected = match state.stage {
            Stage::Deciding {
                replier: Some(replier),
            } => Some(replier),
            _ => state.elect(children, sequence),
        };
        let Some(replier) = elected else {
            self.ask_parent(cx, sequence, cx.timing.upstream_retry);
            return;
        };
        state.tried.insert(replier);
        state.stage = Stage::Asked { replier };
        let at = cx.now.after(cx.timing.replier_wait);
        rearm(cx, sequence, state, at);
        cx.stats.repliers_elected += 1;
        let whom = Asked::Child(replier);
        self.asks.push(Ask { whom, sequence });
    }

    fn ask_parent(&mut self, cx: &mut Context<'_>, sequence: u64, interval: Duration) {
        let Some(state) = self.states.get_mut(&sequence) else {
            return;
        };
        state.stage = Stage::Upstream { interval };
        let at = cx.now.after(interval);
        rearm(cx, sequence, state, at);
        cx.stats.nacked_upstream += 1;
        let whom = Asked::Parent;
        self.asks.push(Ask { whom, sequence });
    }

    /// A state that does not wait for anything yet.
    fn open(&mut self, cx: &Context<'_>, sequence: u64, sub: Links) {
        let state = NackState {
            sub,
            tried: Links::default(),
            parent_waits: false,
            stage: Stage::Deciding { replier: None },
            due: Instant::NEVER,
            until: cx.now.after(cx.timing.nack_lifetime),
        };
        self.states.insert(sequence, state);
    }

    fn close(&mut self, cx: &mut Context<'_>, sequence: u64) {
        if let Some(state) = self.states.remove(&sequence) {
            cx.cancel_timer(state.due, Due::Nack(sequence));
        }
    }
}

fn rearm(cx: &mut Context<'_>, sequence: u64, state: &mut NackState, at: Instant) {
    cx.cancel_timer(state.due, Due::Nack(sequence));
    state.due = at;
    cx.set_timer(at, Due::Nack(sequence));
}
