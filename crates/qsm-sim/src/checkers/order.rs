use super::Arrival;
use super::history::{Gap, History};
use crate::violation::Violation;

/// One sender's messages to one group arrive in the order of their numbers, over all changes of
/// views and regions (architecture §7).
pub(crate) fn check(history: &History, arrival: &Arrival<'_>) -> Result<(), Violation> {
    let Arrival {
        receiver,
        group,
        sender,
        number,
        ..
    } = *arrival;
    let highest = history
        .track(receiver, group, sender)
        .map_or(0, |track| track.highest);
    if number < highest {
        return Err(Violation::new(
            "order",
            format!("{receiver} delivers {sender}/group {group} #{number} after #{highest}"),
        ));
    }
    Ok(())
}

/// While a receiver stays, numbers are skipped only if it is told so (R201: the exact range).
pub(crate) fn check_gaps(history: &History, gaps: &[Gap]) -> Result<(), Violation> {
    for gap in gaps {
        let Some(track) = history.track(gap.receiver, gap.group, gap.sender) else {
            continue;
        };
        if let Some(number) = track
            .lost
            .first_missing(&track.delivered, gap.first, gap.last)
        {
            return Err(Violation::new(
                "order",
                format!(
                    "{} skips {}/group {} #{number} (gap #{}..=#{}) without a word",
                    gap.receiver, gap.sender, gap.group, gap.first, gap.last
                ),
            ));
        }
    }
    Ok(())
}
