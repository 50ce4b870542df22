use qsm_wire::Origin;

use super::Arrival;
use super::history::{History, Track};
use crate::violation::Violation;

/// What was reported as lost does not come after all.
pub(crate) fn check_delivery(history: &History, arrival: &Arrival<'_>) -> Result<(), Violation> {
    let Arrival {
        receiver,
        group,
        sender,
        number,
        ..
    } = *arrival;
    let track = history.track(receiver, group, sender);
    if track.is_some_and(|track| track.lost.contains(number)) {
        let message =
            format!("{receiver} delivers {sender}/group {group} #{number}, reported as lost");
        return Err(Violation::new("loss", message));
    }
    Ok(())
}

/// A loss names messages that were published and not delivered.
pub(crate) fn check_report(
    history: &History,
    receiver: Origin,
    group: usize,
    sender: Origin,
    first: u64,
    last: u64,
) -> Result<(), Violation> {
    let published = history.published(sender, group);
    let delivered = history
        .track(receiver, group, sender)
        .is_some_and(|track| track.delivered.overlaps(first, last));
    if first == 0 || last < first || last > published || delivered {
        return Err(Violation::new(
            "loss",
            format!(
                "{receiver} reports {sender}/group {group} #{first}..=#{last} as lost; \
                 published are {published}, some of these delivered: {delivered}"
            ),
        ));
    }
    Ok(())
}

/// A sender names what a receiver lost because it kept no more for it: else it would say that
/// everybody has everything (R-VIEW-13).
fn check_told(
    history: &History,
    [sender, receiver]: [Origin; 2],
    group: usize,
    track: &Track,
) -> Result<(), Violation> {
    let both = history.alive(sender) && history.alive(receiver);
    let named = history.unserved.of(sender, receiver, group);
    let untold = named.and_then(|mut named| {
        named.add_all(&track.expired);
        track.lost.first_outside(&named)
    });
    match untold.filter(|_| both && history.may_lose(sender, receiver)) {
        None => Ok(()),
        Some(first) => Err(Violation::new(
            "flush",
            format!(
                "{receiver} lost messages of {sender}/group {group} from #{first} on, and the sender \
                 has not said so"
            ),
        )),
    }
}

/// Nothing of a sender that still lives is lost: the sender keeps what is not stable (R003, R080).
/// What has expired is judged by [`super::expiry`].
/// Judged at the end, because the cluster may know of a death before the dead node does; and only
/// for receivers that live, because one that was excluded is right to say what it misses. Of what a
/// receiver missed while it was away only as much is kept as was configured (R-VIEW-13): it is told of
/// the rest exactly, by number, as [`super::completeness`] and [`super::order`] see: a sender that lives
/// can be asked (R-DATA-11), but for what it lost before the first message of a group that it had given up
/// once: where its part begins, the sender does not know.
pub(crate) fn check_end(history: &History) -> Result<(), Violation> {
    for ((receiver, group, sender), track) in history.tracks() {
        let owed = history.alive(receiver)
            && history.reliable_to(sender, receiver)
            && !history.may_lose(sender, receiver);
        check_told(history, [sender, receiver], group, track)?;
        let excused = history.excused(sender, receiver, group).filter(|_| owed);
        let first = excused.and_then(|mut excused| {
            excused.add_all(&track.expired);
            track.lost.first_outside(&excused)
        });
        if let Some(first) = first {
            return Err(Violation::new(
                "loss",
                format!(
                    "{receiver} lost {} messages of {sender}/group {group} from #{first} on, \
                     but the sender lives",
                    track.lost.count()
                ),
            ));
        }
    }
    let lives = history
        .lives()
        .iter()
        .filter(|(_, life)| life.ended.is_none());
    for (receiver, life) in lives {
        if let Some((sender, packets)) = life
            .lost_packets
            .iter()
            .filter(|(sender, _)| history.reliable_to(**sender, *receiver))
            .filter(|(sender, _)| !history.names(**sender, *receiver))
            .filter(|(sender, _)| !history.comes_back(**sender, *receiver))
            .find(|(sender, _)| history.alive(**sender) || !history.may_lose(**sender, *receiver))
        {
            let message =
                format!("{receiver} lost {packets} packets of {sender}, but the sender lives");
            return Err(Violation::new("loss", message));
        }
    }
    Ok(())
}
