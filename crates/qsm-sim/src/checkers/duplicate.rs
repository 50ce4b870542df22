use super::Arrival;
use super::history::History;
use crate::violation::Violation;

/// Nothing is delivered twice in one life of a receiver (architecture §7).
pub(crate) fn check(history: &History, arrival: &Arrival<'_>) -> Result<(), Violation> {
    let Arrival {
        receiver,
        group,
        sender,
        number,
        ..
    } = *arrival;
    let track = history.track(receiver, group, sender);
    if track.is_some_and(|track| track.delivered.contains(number)) {
        let message = format!("{receiver} delivers {sender}/group {group} #{number} again");
        return Err(Violation::new("duplicate", message));
    }
    Ok(())
}

/// Nothing is delivered of a group that the application does not want, in whatever region it came
/// (R-MEM-9, R-VIEW-16).
pub(crate) fn check_wanted(history: &History, arrival: &Arrival<'_>) -> Result<(), Violation> {
    let Arrival {
        receiver,
        group,
        sender,
        number,
        ..
    } = *arrival;
    let life = history.life(receiver);
    if life.is_some_and(|life| !life.wants.contains_key(&group)) {
        let message =
            format!("{receiver} delivers {sender}/group {group} #{number}, which it does not want");
        return Err(Violation::new("stays", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use qsm_proto::Instant;
    use qsm_wire::{Incarnation, NodeId, Origin};

    use super::*;

    #[test]
    fn what_the_application_has_given_up_or_never_wanted_is_not_delivered() {
        let origin = |node| Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        };
        let mut history = History::default();
        history.begin(origin(1), 1, BTreeMap::from([(0, Instant(1))]));
        let arrival = |group| Arrival {
            receiver: origin(1),
            group,
            sender: origin(2),
            number: 1,
            bytes: &[],
        };
        assert!(check_wanted(&history, &arrival(0)).is_ok());
        assert!(check_wanted(&history, &arrival(1)).is_err());
        history.unwant(origin(1), 0);
        assert!(check_wanted(&history, &arrival(0)).is_err());
    }
}
