use core::fmt;

use qsm_wire::Origin;

use super::history::{History, Sent, Stay};

/// A message that should have been delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Missing {
    receiver: Origin,
    host: usize,
    group: usize,
    sender: Origin,
    number: u64,
    published: u64,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} (host {}) has not got {}/group {} #{} of {}",
            self.receiver, self.host, self.sender, self.group, self.number, self.published
        )
    }
}

/// Every message of a sender that still lives is delivered at every node that the sender knew as
/// receiver when it published, if that node lives and its application has wanted the group
/// without a break since before the sender learned so (R003).
///
/// Nothing is required of a node that left and came back while the sender's knowledge was older
/// than the answer to its return: such a message counts for the first stay (R-MEM-9).
/// Nor of a sender that has closed in order, for nodes that the service had taken out of its
/// views: it could not know that they live, and nobody is left to name them dead (R-MEM-1); nor, for
/// those that were away then, what it has named as not known to have arrived (R-VIEW-13). Who was
/// away while a sender published more than it keeps for that may have been told of a loss instead, by
/// number (R-DATA-11). If the sender has closed since, it may have been told of packets: that excuses
/// what comes before the first message that it has or knows of, since that shows no numbers before it.
pub(crate) fn first_missing(history: &History) -> Option<Missing> {
    history
        .sent()
        .filter(|(sender, ..)| history.reliable(*sender))
        .find_map(|(sender, group, sent)| missing_of(history, sender, group, sent))
}

/// The stays of a sender's receivers whose messages must be delivered, with each receiver.
pub(crate) fn obliged<'a>(
    history: &'a History,
    sender: Origin,
    group: usize,
    sent: &'a Sent,
) -> impl Iterator<Item = (Origin, usize, Stay)> + 'a {
    sent.audience
        .iter()
        .filter(move |(receiver, _)| **receiver != sender)
        .filter_map(move |(receiver, stays)| {
            let life = history
                .life(*receiver)
                .filter(|life| life.ended.is_none())?;
            let since = *life.wants.get(&group)?;
            Some((*receiver, life.host, since, stays))
        })
        .flat_map(|(receiver, host, since, stays)| {
            stays
                .iter()
                .filter(move |stay| stay.since >= since)
                .map(move |stay| (receiver, host, *stay))
        })
}

fn missing_of(history: &History, sender: Origin, group: usize, sent: &Sent) -> Option<Missing> {
    let published = sent.times.len() as u64;
    let alive = history.alive(sender);
    let mut owed = obliged(history, sender, group, sent)
        .filter(|(.., stay)| alive || stay.last.is_none())
        .filter(|(receiver, ..)| history.reliable_to(sender, *receiver));
    owed.find_map(|(receiver, host, stay)| {
        let last = stay.last.unwrap_or(published);
        let track = history.track(receiver, group, sender);
        let mut excused = history.excused(sender, receiver, group)?;
        // Told one by one, and judged when they were.
        if let Some(track) = track {
            excused.add_all(&track.expired);
        }
        if let Some(track) = track.filter(|_| history.may_lose(sender, receiver)) {
            excused.add_all(&track.lost);
            if !alive && history.told_of_packets(sender, receiver) {
                let known = [track.delivered.first(), track.lost.first()];
                let known = known.into_iter().flatten().min().unwrap_or(1);
                excused.add(1, known - 1);
            }
        }
        let delivered = track.map_or(&excused, |track| &track.delivered);
        let number = delivered.first_missing(&excused, stay.first, last)?;
        Some(Missing {
            receiver,
            host,
            group,
            sender,
            number,
            published,
        })
    })
}
