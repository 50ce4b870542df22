use core::time::Duration;

use super::Dice;
use crate::faults::{Fault, Garbage};
use crate::swarm::SwarmOptions;
use crate::timeline::reconcile;

/// A fault and when it happens.
type Timed = (Duration, Fault);

/// Kinds of faults that are drawn; each exists in half of the runs only.
const KINDS: [Draw; 12] = [
    crash,
    freeze,
    split,
    crash_service,
    doom,
    garbage,
    close,
    sleep,
    slow,
    swizzle,
    narrow,
    freeze_service,
];

/// Adds a fault, and what follows from it.
type Draw = fn(&mut Dice, Occasion, &mut Vec<Timed>);

/// Where and when.
#[derive(Debug, Clone, Copy)]
struct Occasion {
    when: Duration,
    /// Some seconds later.
    soon: Duration,
    /// A node's host.
    host: usize,
    nodes: usize,
    same_node: bool,
    forgery: bool,
}

pub(super) fn faults(dice: &mut Dice, nodes: usize, sizes: &SwarmOptions) -> Vec<Timed> {
    let mut faults = Vec::new();
    if dice.one_in(4) {
        return faults;
    }
    let kinds: Vec<Draw> = KINDS.into_iter().filter(|_| dice.one_in(2)).collect();
    if kinds.is_empty() {
        return faults;
    }
    for _ in 0..dice.range(1, sizes.faults_max.max(1)) {
        let when = dice.moment(sizes.duration);
        let host = dice.range(1, nodes);
        let kind = *dice.pick(&kinds);
        let occasion = Occasion {
            when,
            soon: when + dice.moment(Duration::from_secs(4)),
            host,
            nodes,
            same_node: dice.one_in(2),
            forgery: sizes.forgery,
        };
        kind(dice, occasion, &mut faults);
    }
    reconcile(&mut faults, nodes, sizes.duration);
    faults
}

/// Adds hosts that stand still, for 10 ms to a minute, the service's among them: their processes
/// are stopped, or the whole machines with their clocks.
pub(super) fn add_pauses(
    dice: &mut Dice,
    nodes: usize,
    mut faults: Vec<Timed>,
    sizes: &SwarmOptions,
) -> Vec<Timed> {
    if sizes.faults_max == 0 || dice.one_in(3) {
        return faults;
    }
    for _ in 0..dice.range(1, 3) {
        let host = dice.range(0, nodes);
        let longest = *dice.pick(&[100, 400, 1000, 5000, 20_000, 60_000]);
        let least = Duration::from_millis(10);
        let time = least + dice.moment(Duration::from_millis(longest));
        let pause = match dice.one_in(3) {
            true => Fault::Sleep { host, time },
            false => Fault::Freeze { host, time },
        };
        faults.push((dice.moment(sizes.duration), pause));
    }
    reconcile(&mut faults, nodes, sizes.duration);
    faults
}

/// Lets multicast not pass for a time: from all to one host, from one to all, or not at all. In half
/// of such runs nothing else goes wrong.
pub(super) fn add_filters(
    dice: &mut Dice,
    nodes: usize,
    mut faults: Vec<Timed>,
    sizes: &SwarmOptions,
) -> Vec<Timed> {
    if sizes.faults_max == 0 || !dice.one_in(8) {
        return faults;
    }
    if dice.one_in(2) {
        faults.clear();
    }
    let all: Vec<usize> = (0..=nodes).collect();
    for _ in 0..dice.range(1, 2) {
        let host = dice.range(1, nodes);
        let others: Vec<usize> = all.iter().copied().filter(|one| *one != host).collect();
        let (from, to) = match dice.number(4) {
            0 => (all.clone(), all.clone()),
            1 => (vec![host], others),
            _ => (others, vec![host]),
        };
        let time = Duration::from_secs(1) + dice.moment(Duration::from_secs(8));
        faults.push((
            dice.moment(sizes.duration),
            Fault::Filter { from, to, time },
        ));
    }
    reconcile(&mut faults, nodes, sizes.duration);
    faults
}

fn crash(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let Occasion {
        host, same_node, ..
    } = at;
    faults.push((at.when, Fault::Crash { host }));
    if !dice.one_in(3) {
        faults.push((at.soon, Fault::Restart { host, same_node }));
    }
}

fn freeze(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let time = dice.moment(Duration::from_secs(8));
    faults.push((
        at.when,
        Fault::Freeze {
            host: at.host,
            time,
        },
    ));
}

fn split(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let (from, to) = dice.sides(at.nodes);
    let split = Fault::Split {
        from,
        to,
        both_ways: dice.one_in(2),
    };
    faults.push((at.when, split));
    faults.push((at.soon, Fault::Heal));
}

fn crash_service(_: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    faults.push((at.when, Fault::Crash { host: 0 }));
    let restart = Fault::Restart {
        host: 0,
        same_node: true,
    };
    faults.push((at.soon, restart));
}

fn doom(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let packets = dice.number(20) + 1;
    faults.push((
        at.when,
        Fault::Doom {
            host: at.host,
            packets,
        },
    ));
}

fn garbage(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let forged = at.forgery && dice.one_in(2);
    let kind = if forged {
        *dice.pick(&[Garbage::Forged, Garbage::Jump])
    } else {
        *dice.pick(&Garbage::HARMLESS)
    };
    let host = dice.range(0, at.nodes);
    let count = dice.number(50) + 1;
    faults.push((at.when, Fault::Garbage { host, kind, count }));
}

fn close(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let Occasion {
        host, same_node, ..
    } = at;
    faults.push((at.when, Fault::Close { host }));
    if dice.one_in(2) {
        let later = at.soon + Duration::from_secs(3);
        faults.push((later, Fault::Restart { host, same_node }));
    }
}

fn sleep(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let time = dice.moment(Duration::from_secs(8));
    faults.push((
        at.when,
        Fault::Sleep {
            host: at.host,
            time,
        },
    ));
}

fn slow(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let slow = Fault::Slow {
        host: at.host,
        per_datagram: *dice.pick(&[
            Duration::from_micros(50),
            Duration::from_micros(500),
            Duration::from_millis(5),
        ]),
        time: dice.moment(Duration::from_secs(4)),
    };
    faults.push((at.when, slow));
}

/// Hosts are cut off one after the other and come back in another order, each with all that it
/// has missed at once (after FoundationDB's swizzled clogging).
fn swizzle(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let (chosen, _) = dice.sides(at.nodes);
    for host in chosen {
        let begin = at.when + dice.moment(Duration::from_millis(500));
        let others: Vec<usize> = (0..=at.nodes).filter(|other| *other != host).collect();
        let (from, to) = if dice.one_in(2) {
            (vec![host], others)
        } else {
            (others, vec![host])
        };
        let time = dice.moment(Duration::from_secs(2));
        faults.push((begin, Fault::Clog { from, to, time }));
    }
}

fn narrow(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let bytes = *dice.pick(&[200, 600, 1200]);
    let time = dice.moment(Duration::from_secs(3));
    faults.push((at.when, Fault::Narrow { bytes, time }));
}

fn freeze_service(dice: &mut Dice, at: Occasion, faults: &mut Vec<Timed>) {
    let time = dice.moment(Duration::from_secs(4));
    faults.push((at.when, Fault::Freeze { host: 0, time }));
}
