//! The reliable hop: a token goes to the successor until it is receipted, and at last past it
//! (R062, G05).

use core::time::Duration;

use qsm_wire::MemberIndex;

use super::gathered::Gathered;
use crate::repetition::{Answer, Repetition};
use crate::{Instant, nanoseconds};

/// Shortest wait for a receipt before the token is sent again: one that is lost for nothing stops
/// all senders of the region.
const TIMEOUT_MIN: Duration = Duration::from_millis(1);
/// Longest wait for the first receipt, however slow the hops so far.
const TIMEOUT_MAX: Duration = Duration::from_millis(500);
/// The least that counts as the time of a hop when a successor is judged: below it, scheduling
/// delays of a loaded host look like death.
const HOP_MIN: Duration = Duration::from_millis(10);
/// How many times the time of a hop a successor may be silent before it is passed over (R-TOK-3):
/// as long as three waits of which each is twice the one before.
const PATIENCE: u32 = 7;
/// Where the token waits for its members: for a second and a half at least.
const PATIENCE_WAITING: u32 = 143;
/// For one that was passed over before.
const PATIENCE_WITH_SILENT: u32 = 1;
/// Each wait is twice the one before, up to so many times the time of a hop.
const WAIT_MAX: u32 = 8;
/// Doublings that reach that from any wait.
const DOUBLINGS_MAX: u32 = 16;
/// How often a member is reported as long as it stays silent.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// How long after a view's installation silence is no reason for a report: the silent one may not
/// have the view yet.
const SETTLING: Duration = Duration::from_millis(500);

/// When a token was sent to a neighbour: for the first and for the last time, and how often.
#[derive(Debug, Clone, Copy)]
pub(super) struct HopSendings {
    first: Instant,
    last: Instant,
    count: u32,
}

/// A token on its way to a ring neighbour.
#[derive(Debug)]
pub(super) struct TokenHop {
    pub(super) token: Gathered,
    /// The neighbour's place in the ring.
    pub(super) position: usize,
    pub(super) to: MemberIndex,
    pub(super) sent: HopSendings,
    pub(super) deadline: Instant,
}

/// A time that is measured again and again (RFC 6298).
#[derive(Debug, Default)]
struct SmoothedTime {
    mean_ns: u64,
    /// Smoothed distance from it.
    deviation_ns: u64,
}

impl SmoothedTime {
    fn note(&mut self, sample: Duration) {
        let sample = nanoseconds(sample);
        let off = self.mean_ns.abs_diff(sample);
        (self.mean_ns, self.deviation_ns) = match self.mean_ns {
            0 => (sample, sample / 2),
            old => (
                old - old / 8 + sample / 8,
                self.deviation_ns - self.deviation_ns / 4 + off / 4,
            ),
        };
    }
}

/// What this node has learned about its neighbours.
#[derive(Debug, Default)]
pub(super) struct Hops {
    /// From the first sending of a token to its receipt: how long members are waited for.
    hop: SmoothedTime,
    /// From the sending that was answered: when a token is sent again.
    receipt: SmoothedTime,
    /// Sendings that hops have taken.
    sendings: Repetition,
    /// Members passed over here and not heard since, and when the first token was sent there in vain.
    silent: Vec<(MemberIndex, Instant)>,
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
    ) -> TokenHop {
        TokenHop {
            token,
            position,
            to,
            sent: HopSendings {
                first: now,
                last: now,
                count: 1,
            },
            deadline: now.after(self.timeout()),
        }
    }

    /// Counts a repetition; `false` if the neighbour has had its chances.
    pub(super) fn again(&self, now: Instant, passing: &mut TokenHop) -> bool {
        // Past a ring's leader there is nobody to pass the token to: haste would only lose it.
        let silent = self.is_silent(passing.to) && passing.position != 0;
        let hops = match (self.waiting, silent) {
            (true, _) => PATIENCE_WAITING,
            (false, true) => PATIENCE_WITH_SILENT,
            (false, false) => PATIENCE,
        };
        let hop = self.usual();
        let end = passing.sent.first.after(hop * hops);
        if now >= end {
            return false;
        }
        passing.sent.count += 1;
        passing.sent.last = now;
        let doublings = passing.sent.count.saturating_sub(self.sendings.steady());
        let wait = self.timeout() * (1 << doublings.min(DOUBLINGS_MAX));
        passing.deadline = now.after(wait.min(hop * WAIT_MAX)).min(end);
        true
    }

    /// A receipt came, perhaps after the member was passed over. Which sending it is for cannot be
    /// told (Karn). How long a hop takes counts from the first one: were only those counted that
    /// were sent once, or in time, a hop that always takes longer would never be measured, and
    /// always be passed over. How long a receipt takes counts from the last one, or each token that
    /// is lost would make the next loss cost more; if that agrees with what is known, and from the
    /// first one if no hop takes a single sending any more. Returns how long the hop took.
    pub(super) fn receipted(
        &mut self,
        now: Instant,
        member: MemberIndex,
        sent: HopSendings,
    ) -> Duration {
        self.alive(member);
        let (took, last) = (now.since(sent.first), now.since(sent.last));
        self.hop.note(took);
        let known = Duration::from_nanos(self.receipt.mean_ns);
        let answer = Answer {
            sendings: sent.count,
            last,
            earlier: took,
        };
        self.receipt.note(self.sendings.note(known, answer));
        took
    }

    /// The member has been heard.
    pub(super) fn alive(&mut self, member: MemberIndex) {
        self.silent.retain(|(silent, _)| *silent != member);
    }

    fn is_silent(&self, member: MemberIndex) -> bool {
        self.silent.iter().any(|(silent, _)| *silent == member)
    }

    /// For how long a member has not been heard that was passed over here; zero if it was not.
    pub(super) fn silent_for(&self, now: Instant, member: MemberIndex) -> Duration {
        let mut silent = self.silent.iter();
        let since = silent.find(|(silent, _)| *silent == member);
        since.map_or(Duration::ZERO, |(_, since)| now.since(*since))
    }

    /// The member was passed over.
    pub(super) fn passed_over(&mut self, member: MemberIndex, sent: HopSendings) {
        if !self.is_silent(member) {
            self.silent.push((member, sent.first));
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
        self.hop.mean_ns
    }

    /// A view is installed: member indexes have another meaning from now on.
    pub(super) fn install(&mut self, now: Instant) {
        self.silent.clear();
        self.reported.clear();
        self.installed = now;
    }

    /// The first wait for a receipt: a token sent once too often is a small packet, one that is
    /// missed for long stops all senders of the region.
    fn timeout(&self) -> Duration {
        let SmoothedTime {
            mean_ns,
            deviation_ns,
        } = self.receipt;
        if mean_ns == 0 {
            return HOP_MIN;
        }
        let early = mean_ns.saturating_add(mean_ns / 2 + deviation_ns);
        Duration::from_nanos(early).clamp(TIMEOUT_MIN, TIMEOUT_MAX)
    }

    /// How long a hop may take.
    fn usual(&self) -> Duration {
        // A loaded host's hops are not slow, they vary.
        let spread = self.hop.deviation_ns.saturating_mul(4);
        let usual = self.hop.mean_ns.saturating_add(spread);
        Duration::from_nanos(usual).clamp(HOP_MIN, TIMEOUT_MAX)
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
        assert!(hops.timeout() >= took);
        // A token that is lost among them makes the next wait no longer.
        let before = hops.timeout();
        let (first, last) = (Instant(0), Instant(0).after(before));
        let count = 2;
        hops.receipted(
            last.after(took),
            MemberIndex(1),
            HopSendings { first, last, count },
        );
        assert!(hops.timeout() <= before);
    }
}
