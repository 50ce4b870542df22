//! Whether faults make sense one after the other.

use core::time::Duration;

use crate::faults::Fault;

/// What a fault needs of its host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Up,
    /// It ends, or has ended.
    Closed,
    Down,
}

/// The first fault that contradicts those before it, by its place in the list, and why. The list
/// is in the order of time; hosts are 0 to `nodes`.
pub(crate) fn contradiction(
    faults: &[(Duration, Fault)],
    nodes: usize,
    duration: Duration,
) -> Option<(usize, String)> {
    let mut states = vec![State::Up; nodes + 1];
    let mut split = false;
    for (at, (when, fault)) in faults.iter().enumerate() {
        if *when > duration {
            let reason = format!("it happens at {when:?}, but faults end at {duration:?}");
            return Some((at, reason));
        }
        if let Err(reason) = step(fault, &mut states, &mut split) {
            return Some((at, reason));
        }
    }
    None
}

/// Takes out what contradicts the rest.
pub(crate) fn reconcile(faults: &mut Vec<(Duration, Fault)>, nodes: usize, duration: Duration) {
    faults.sort_by_key(|fault| fault.0);
    while let Some((at, _)) = contradiction(faults, nodes, duration) {
        faults.remove(at);
    }
}

fn step(fault: &Fault, states: &mut [State], split: &mut bool) -> Result<(), String> {
    match fault {
        Fault::Crash { host } => {
            need(states, *host, &[State::Up, State::Closed])?;
            states[*host] = State::Down;
        }
        // A process that runs is killed first.
        Fault::Restart { host, .. } => states[*host] = State::Up,
        Fault::Close { host } => {
            need(states, *host, &[State::Up])?;
            states[*host] = State::Closed;
        }
        Fault::Freeze { host, .. }
        | Fault::Sleep { host, .. }
        | Fault::Slow { host, .. }
        | Fault::Full { host }
        | Fault::Read { host }
        | Fault::Foreign { host }
        | Fault::Doom { host, .. } => need(states, *host, &[State::Up, State::Closed])?,
        Fault::Split { from, to, .. } | Fault::Clog { from, to, .. } => {
            if let Some(host) = from.iter().find(|host| to.contains(host)) {
                return Err(format!("host {host} is on both sides"));
            }
            *split |= matches!(fault, Fault::Split { .. });
        }
        Fault::Heal if !*split => return Err("there is no split to heal".to_owned()),
        Fault::Heal => *split = false,
        Fault::Filter { .. }
        | Fault::Narrow { .. }
        | Fault::Outage { .. }
        | Fault::Garbage { .. } => {}
    }
    Ok(())
}

fn need(states: &[State], host: usize, wanted: &[State]) -> Result<(), String> {
    let state = states.get(host).copied().unwrap_or(State::Down);
    if wanted.contains(&state) {
        return Ok(());
    }
    Err(match state {
        State::Up => format!("host {host} is running"),
        State::Closed => format!("host {host} has been closed before, and not restarted since"),
        State::Down => format!("host {host} has crashed before, and not been restarted since"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn judge(faults: &[Fault]) -> Option<usize> {
        let faults: Vec<_> = faults.iter().map(|fault| (SECOND, fault.clone())).collect();
        contradiction(&faults, 3, 2 * SECOND).map(|(at, _)| at)
    }

    #[test]
    fn the_dead_can_do_nothing_but_start() {
        let crash = Fault::Crash { host: 1 };
        let restart = Fault::Restart {
            host: 1,
            same_node: true,
        };
        assert_eq!(
            judge(&[crash.clone(), restart.clone(), crash.clone()]),
            None
        );
        assert_eq!(judge(&[crash.clone(), crash.clone()]), Some(1));
        assert_eq!(judge(&[restart.clone(), crash.clone()]), None);
        let freeze = Fault::Freeze {
            host: 1,
            time: SECOND,
        };
        assert_eq!(judge(&[crash.clone(), freeze]), Some(1));
        assert_eq!(judge(&[Fault::Close { host: 1 }, crash, restart]), None);
    }

    #[test]
    fn nobody_is_on_both_sides_and_only_splits_heal() {
        let split = |to| Fault::Split {
            from: vec![1, 2],
            to,
            both_ways: true,
        };
        assert_eq!(judge(&[split(vec![3]), Fault::Heal]), None);
        assert_eq!(judge(&[split(vec![2])]), Some(0));
        assert_eq!(judge(&[Fault::Heal]), Some(0));
    }

    #[test]
    fn what_comes_too_late_is_found() {
        let late = [(3 * SECOND, Fault::Crash { host: 1 })];
        assert_eq!(
            contradiction(&late, 3, 2 * SECOND).map(|(at, _)| at),
            Some(0)
        );
        let mut faults = late.to_vec();
        reconcile(&mut faults, 3, 2 * SECOND);
        assert!(faults.is_empty());
    }
}
