use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use qsm_proto::{Deafness as Word, Instant};
use qsm_wire::{Origin, RegionId};

use crate::faults::Fault;
use crate::options::SimOptions;
use crate::violation::Violation;

/// Time in which multicast that does not arrive is named, from the last of [`SIGNS`] on.
const NAMED_WITHIN: Duration = Duration::from_secs(3);
/// Moments at which a speaker has said more and was not heard: fewer name nobody (R-REACH-1).
const SIGNS: u32 = 3;
/// Time after the end of a filter in which the word may still come.
const WORD_AFTER: Duration = Duration::from_secs(2);

/// A member that multicast does not reach is named within [`NAMED_WITHIN`] to itself and to the
/// speaker if that goes on to speak, and one that it reaches is not named (R-REACH-1, R-REACH-2).
#[derive(Debug, Default)]
pub(crate) struct Deafness {
    /// Region, listener and speaker, as listeners say, and as speakers say.
    named: [BTreeSet<(RegionId, Origin, Origin)>; 2],
    /// Words of each speaker since its multicast began not to reach the listener.
    unheard: BTreeMap<(RegionId, Origin, Origin), Unheard>,
}

/// Words of a speaker that are not heard.
#[derive(Debug)]
struct Unheard {
    /// Packets that it has sent.
    sent: u64,
    /// Moments at which these were more than before.
    signs: u32,
    /// The time of the last one that it takes.
    since: Option<Instant>,
}

impl Unheard {
    fn note(&mut self, now: Instant, sent: u64) {
        if sent > self.sent {
            self.sent = sent;
            self.signs += 1;
        }
        if self.signs >= SIGNS {
            self.since.get_or_insert(now);
        }
    }
}

/// A speaker's stream and a member that should hear it, at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) region: RegionId,
    pub(crate) listener: Origin,
    pub(crate) speaker: Origin,
    /// Packets that the speaker has sent.
    pub(crate) sent: u64,
    /// Multicast does not pass, and unicast does; both run.
    pub(crate) filtered: bool,
}

impl Deafness {
    /// A node says that a member is deaf. `hosts`: those of the listener and the speaker. A speaker
    /// repeats what the listener tells it every second until it has heard the speaker for a while,
    /// which it cannot as long as the speaker stands still (R-REACH-3). What the listener has told
    /// it meanwhile waits at the speaker.
    pub(crate) fn begin(
        &mut self,
        options: &SimOptions,
        now: Instant,
        word: &Word,
        hosts: [usize; 2],
    ) -> Result<(), Violation> {
        self.side(word).insert(key(word));
        let repeated = !word.here && self.named[0].contains(&key(word));
        if repeated || was_filtered(options, now, hosts, word.here) {
            return Ok(());
        }
        let message = format!(
            "multicast of {} is said not to reach {}, but nothing keeps it back",
            word.speaker, word.listener
        );
        Err(Violation::new("deafness", message))
    }

    /// A node says that it is over.
    pub(crate) fn end(&mut self, word: &Word) {
        self.side(word).remove(&key(word));
    }

    fn side(&mut self, word: &Word) -> &mut BTreeSet<(RegionId, Origin, Origin)> {
        &mut self.named[usize::from(!word.here)]
    }

    /// Judges a pair.
    pub(crate) fn check(&mut self, now: Instant, pair: Pair) -> Result<(), Violation> {
        let key = (pair.region, pair.listener, pair.speaker);
        if !pair.filtered {
            self.unheard.remove(&key);
            return Ok(());
        }
        let unheard = self.unheard.entry(key).or_insert(Unheard {
            sent: pair.sent,
            signs: 0,
            since: None,
        });
        unheard.note(now, pair.sent);
        let since = unheard.since;
        let late = since.is_some_and(|since| now.since(since) > NAMED_WITHIN);
        let named = self.named.iter().all(|named| named.contains(&key));
        if !late || named {
            return Ok(());
        }
        let message = format!(
            "multicast of {} does not reach {} in region {}, and has not since {since:?}; nobody has \
             said so",
            pair.speaker, pair.listener, pair.region
        );
        Err(Violation::new("deafness", message))
    }
}

fn key(word: &Word) -> (RegionId, Origin, Origin) {
    (word.region, word.listener, word.speaker)
}

/// Tells whether multicast of the second host does not reach the first.
pub(crate) fn is_filtered(options: &SimOptions, now: Instant, hosts: [usize; 2]) -> bool {
    let now = Duration::from_nanos(now.0);
    filters(options, hosts).any(|[begins, ends]| begins <= now && now <= ends)
}

/// Tells whether it did not until a moment ago: by the clock of the listener, which stands still while
/// that sleeps, or as the speaker may still read where it stood still itself.
fn was_filtered(options: &SimOptions, now: Instant, hosts: [usize; 2], here: bool) -> bool {
    let now = Duration::from_nanos(now.0);
    let [listener, speaker] = hosts;
    filters(options, hosts).any(|[begins, ends]| {
        let slept = stood_still(options, listener, [ends, now], is_sleep);
        let waited = stood_still(options, speaker, [ends, now], is_pause);
        let waited = if here { Duration::ZERO } else { waited };
        begins <= now && now <= ends + WORD_AFTER + slept + waited
    })
}

/// Beginnings and ends of filters between two hosts.
fn filters(
    options: &SimOptions,
    [listener, speaker]: [usize; 2],
) -> impl Iterator<Item = [Duration; 2]> {
    options
        .faults
        .iter()
        .filter_map(move |(at, fault)| match fault {
            Fault::Filter { from, to, time }
                if from.contains(&speaker) && to.contains(&listener) =>
            {
                // After that the network has no faults any more.
                Some([*at, (*at + *time).min(options.duration)])
            }
            _ => None,
        })
}

fn is_sleep(fault: &Fault) -> bool {
    matches!(fault, Fault::Sleep { .. })
}

fn is_pause(fault: &Fault) -> bool {
    is_sleep(fault) || matches!(fault, Fault::Freeze { .. })
}

/// For how long a host has stood still between these two moments, by faults of this kind; its
/// pauses do not overlap.
fn stood_still(
    options: &SimOptions,
    host: usize,
    [from, to]: [Duration; 2],
    kind: fn(&Fault) -> bool,
) -> Duration {
    let of = |(at, fault): &(Duration, Fault)| match fault {
        Fault::Sleep { host: still, time } | Fault::Freeze { host: still, time }
            if *still == host && kind(fault) =>
        {
            (*at + *time).min(to).saturating_sub((*at).max(from))
        }
        _ => Duration::ZERO,
    };
    options.faults.iter().map(of).sum()
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use qsm_wire::{Incarnation, NodeId, Seed};

    use super::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn at(time: Duration) -> Instant {
        Instant(0).after(time)
    }

    /// Multicast of host 1 does not reach host 0 from 1 s to 3 s, and host 0 sleeps from 2 s to 9 s.
    fn options() -> SimOptions {
        let filter = Fault::Filter {
            from: vec![1],
            to: vec![0],
            time: s(2),
        };
        let sleep = Fault::Sleep {
            host: 0,
            time: s(7),
        };
        SimOptions {
            duration: s(20),
            faults: vec![(s(1), filter), (s(2), sleep)],
            ..SimOptions::quiet(Seed(1), 3)
        }
    }

    /// Host 0 does not hear host 1, says host 0 or host 1.
    fn word(here: bool) -> Word {
        let origin = |node| Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        };
        Word {
            region: RegionId(1),
            address: SocketAddr::from((Ipv4Addr::new(239, 192, 0, 1), 4484)),
            listener: origin(0),
            speaker: origin(1),
            peer: None,
            here,
        }
    }

    // Rule R-REACH-3.
    #[test]
    fn a_speaker_repeats_what_the_listener_still_says() {
        let mut checker = Deafness::default();
        let mut says = |time, here| checker.begin(&options(), at(s(time)), &word(here), [0, 1]);
        // The listener slept until 9 s.
        assert!(says(15, false).is_err(), "nobody has told the speaker");
        assert!(says(11, true).is_ok());
        assert!(says(15, false).is_ok());
        assert!(says(15, true).is_err(), "the listener itself is late");
        checker.end(&word(true));
        let late = checker.begin(&options(), at(s(15)), &word(false), [0, 1]);
        assert!(late.is_err(), "the listener has taken it back");
    }

    #[test]
    fn a_speaker_that_stood_still_says_what_it_was_told_before() {
        let says = |host| {
            let mut options = options();
            let time = s(5);
            options.faults.push((s(9), Fault::Freeze { host, time }));
            Deafness::default().begin(&options, at(s(15)), &word(false), [0, 1])
        };
        assert!(says(1).is_ok());
        assert!(says(2).is_err(), "another one stood still");
    }

    #[test]
    fn who_sleeps_may_say_what_was_so_before() {
        let was = |time, hosts| was_filtered(&options(), at(time), hosts, true);
        assert!(was(s(10), [0, 1]) && was(s(11), [0, 1]) && !was(s(12), [0, 1]));
        assert!(!was(s(10), [1, 0]) && !was(s(10), [2, 1]));
        let is = |time| is_filtered(&options(), at(time), [0, 1]);
        assert!(is(s(3)) && !is(s(4)) && !is(s(0)));
    }
}
