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
