//! The reliable hop: a token goes to the successor until it is receipted, and at last past it
//! (R062, G05).

use core::time::Duration;

use qsm_wire::MemberIndex;

use super::gathered::Gathered;
use crate::{Instant, nanoseconds};

/// Shortest wait for a receipt. Below it, scheduling delays of a loaded host look like losses.
const TIMEOUT_MIN: Duration = Duration::from_millis(10);
/// Longest wait for the first receipt, however slow the hops so far.
const TIMEOUT_MAX: Duration = Duration::from_millis(500);
/// How often a token is sent to a successor before it is passed over; each wait is twice the one
/// before (R-TOK-3).
const SENDINGS_MAX: u32 = 3;
/// How often where the token waits for its members: for a second and a half at least.
const SENDINGS_WAITING: u32 = 20;
/// How often to one that was passed over before.
const SENDINGS_TO_SILENT: u32 = 1;
/// How often a member is reported as long as it stays silent.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// How long after a view's installation silence is no reason for a report: the silent one may not
/// have the view yet.
const SETTLING: Duration = Duration::from_millis(500);

/// A token on its way to a ring neighbour.
#[derive(Debug)]
pub(super) struct Passing {
    pub(super) token: Gathered,
    /// The neighbour's place in the ring.
    pub(super) position: usize,
    pub(super) to: MemberIndex,
    /// For the first time.
    pub(super) sent: Instant,
    pub(super) deadline: Instant,
    sendings: u32,
}

/// What this node has learned about its neighbours.
#[derive(Debug, Default)]
pub(super) struct Hops {
    smoothed_ns: u64,
    /// Smoothed deviation from it.
    deviation_ns: u64,
    /// Members passed over here and not heard since.
    silent: Vec<MemberIndex>,
    /// Members reported, and when last.
    reported: Vec<(MemberIndex, Instant)>,
    /// When the view was installed here.
    installed: Instant,
    /// Members that do not answer are waited for.
    waiting: bool,
}

impl Hops {
    pub(super) fn new(waiting: bool) -> Self {
        Self {
            waiting,
            ..Self::default()
        }
    }

    pub(super) fn start(
        &self,
        now: Instant,
        token: Gathered,
        position: usize,
        to: MemberIndex,
    ) -> Passing {
        Passing {
            token,
            position,
            to,
            sent: now,
            deadline: now.after(self.timeout(0)),
            sendings: 1,
        }
    }

    /// Counts a repetition; `false` if the neighbour has had its chances.
    pub(super) fn again(&self, now: Instant, passing: &mut Passing) -> bool {
        let silent = self.silent.contains(&passing.to);
        let max = match (self.waiting, silent) {
            (true, _) => SENDINGS_WAITING,
            (false, true) => SENDINGS_TO_SILENT,
            (false, false) => SENDINGS_MAX,
        };
        if passing.sendings >= max {
            return false;
        }
        passing.deadline = now.after(self.timeout(passing.sendings));
        passing.sendings += 1;
        true
    }

    /// A receipt came, perhaps after the member was passed over. The time of a hop counts from the
    /// first sending: which one it is for cannot be told (Karn), and were only those counted that
    /// were sent once, or in time, a hop that always takes longer would never be measured, and
    /// always be passed over.
    pub(super) fn receipted(&mut self, now: Instant, member: MemberIndex, sent: Instant) {
        self.alive(member);
        let sample = nanoseconds(now.since(sent));
        let off = self.smoothed_ns.abs_diff(sample);
        (self.smoothed_ns, self.deviation_ns) = match self.smoothed_ns {
            0 => (sample, sample / 2),
            old => (
                old - old / 8 + sample / 8,
                self.deviation_ns - self.deviation_ns / 4 + off / 4,
            ),
        };
    }

    /// The member has been heard.
    pub(super) fn alive(&mut self, member: MemberIndex) {
        self.silent.retain(|silent| *silent != member);
    }

    /// The member was passed over.
    pub(super) fn passed_over(&mut self, member: MemberIndex) {
        if !self.silent.contains(&member) {
            self.silent.push(member);
        }
    }

    /// Somebody found the member silent; whether it is time to report it (again).
    pub(super) fn report(&mut self, now: Instant, member: MemberIndex) -> bool {
        let known = self.reported.iter_mut().find(|(of, _)| *of == member);
        let due = match &known {
            Some((_, before)) => now.since(*before) >= REPORT_INTERVAL,
            None => now.since(self.installed) >= SETTLING,
        };
        match known {
            Some((_, before)) if due => *before = now,
            None if due => self.reported.push((member, now)),
            _ => {}
        }
        due
    }

    /// Smoothed time from sending a token to its receipt, nanoseconds; 0 before the first.
    pub(super) fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }

    /// A view is installed: member indexes have another meaning from now on.
    pub(super) fn install(&mut self, now: Instant) {
        self.silent.clear();
        self.reported.clear();
        self.installed = now;
    }

    fn timeout(&self, repetition: u32) -> Duration {
        // As in RFC 6298: a loaded host's hops are not slow, they vary.
        let spread = self.deviation_ns.saturating_mul(4);
        let usual = Duration::from_nanos(self.smoothed_ns.saturating_add(spread));
        usual.clamp(TIMEOUT_MIN, TIMEOUT_MAX) * (1 << repetition.min(SENDINGS_MAX))
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Origin, RegionId, TokenHead, ViewNumber};

    use super::*;

    // Rule R-TOK-3.
    #[test]
    fn a_hop_that_always_takes_longer_than_the_first_wait_is_measured_all_the_same() {
        let mut hops = Hops::default();
        let took = Duration::from_millis(40);
        for _ in 0..50 {
            let now = Instant(0);
            let token = Gathered {
                head: TokenHead {
                    region: RegionId(1),
                    view: ViewNumber(1),
                    leader: Origin::default(),
                    round: 1,
                    level: 0,
                    ring: 0,
                    visited: 1,
                    rate_packets: u32::MAX,
                    credit_bytes: u32::MAX,
                },
                suspects: Vec::new(),
                slots: Vec::new(),
            };
            let mut passing = hops.start(now, token, 1, MemberIndex(1));
            while passing.deadline < now.after(took) {
                let deadline = passing.deadline;
                assert!(hops.again(deadline, &mut passing), "given up");
            }
            hops.receipted(now.after(took), passing.to, passing.sent);
        }
        assert!(hops.timeout(0) >= took);
    }
}
