//! Who sends a stream: where it is, and whether the stream is over.

use core::time::Duration;
use std::net::SocketAddr;

use super::ReceiveStream;
use crate::Instant;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sender {
    address: Option<SocketAddr>,
    /// When it was last heard.
    heard_at: Option<Instant>,
    pub(super) dead: bool,
    /// It is dead by the word of a member alone.
    presumed: bool,
    pub(super) died: Instant,
    ended_at: Option<u64>,
    /// It has said goodbye, and no packet that is given up was for this node.
    pub(super) owes_nothing: bool,
    /// Its multicast was heard when it had sent so many packets.
    pub(super) heard: u64,
}

impl ReceiveStream {
    /// Tells whether the membership service has declared the sender dead, or a member has said so.
    #[must_use]
    pub fn sender_dead(&self) -> bool {
        self.sender.dead
    }

    /// When this node learnt that the sender is dead.
    #[must_use]
    pub fn sender_died_at(&self) -> Option<Instant> {
        self.sender.dead.then_some(self.sender.died)
    }

    /// The sender is dead: what is missing can only come from receivers now.
    pub fn sender_died(&mut self, now: Instant) {
        self.sender.presumed = false;
        if !self.sender.dead {
            self.sender.dead = true;
            self.sender.died = now;
            self.gaps.iter_mut().for_each(|gap| gap.renew(now));
            self.early.forget_missing();
            self.forget_question(now);
        }
    }

    /// A member says that the sender is dead. It counts if that has not been heard for so long, and
    /// until it is heard again. Rule R-SEC-43.
    pub(crate) fn presume_dead(&mut self, now: Instant, silence: Duration) {
        let heard = self.sender.heard_at;
        let silent = heard.is_none_or(|heard| now.since(heard) >= silence);
        if silent && !self.sender.dead {
            self.sender_died(now);
            self.sender.presumed = true;
        }
    }

    /// The sender has said goodbye, and packets that nobody has were not for this node.
    pub(crate) fn note_nothing_owed(&mut self) {
        self.sender.owes_nothing = true;
    }

    /// The stream ended with this number, unless the sender comes back to the channel.
    pub fn ended(&mut self, highest: u64) {
        self.sender.ended_at = Some(highest);
    }

    /// The stream ended with what is known of it, unless the sender comes back to the channel.
    pub(crate) fn ended_as_known(&mut self) {
        self.sender.ended_at = Some(self.highest.max(self.announced));
    }

    /// The sender may send again, whatever was said of an end.
    pub(crate) fn goes_on(&mut self) {
        self.sender.ended_at = None;
    }

    pub(super) fn over_at(&self, highest: u64) -> bool {
        self.sender.dead || self.sender.ended_at == Some(highest)
    }

    /// Where the sender was last heard from.
    #[must_use]
    pub fn sender_address(&self) -> Option<SocketAddr> {
        self.sender.address
    }

    /// The sender has been heard from there.
    pub fn heard_from(&mut self, now: Instant, address: SocketAddr) {
        self.sender.address = Some(address);
        self.heard(now);
    }

    /// The sender has been heard, from where cannot be told: anybody may send its packets from elsewhere.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.sender.heard_at = Some(now);
        if self.sender.presumed {
            self.revive_sender(now);
        }
    }

    /// The sender lives: what is missing can come from it, too.
    #[cold]
    fn revive_sender(&mut self, now: Instant) {
        (self.sender.presumed, self.sender.dead) = (false, false);
        self.gaps.iter_mut().for_each(|gap| gap.restart(now));
        self.refresh_due();
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{ChannelId, Incarnation, NodeId, Origin, StreamId};

    use super::*;
    use crate::receive::StreamMarks;

    const SILENCE: Duration = Duration::from_secs(2);

    fn after(seconds: u64) -> Instant {
        Instant(0).after(Duration::from_secs(seconds))
    }

    fn stream() -> ReceiveStream {
        let origin = Origin {
            node: NodeId(9),
            incarnation: Incarnation(1),
        };
        let channel = ChannelId(1);
        ReceiveStream::new(StreamId { origin, channel }, 1, StreamMarks::default())
    }

    // Rule R-SEC-43.
    #[test]
    fn a_members_word_that_a_sender_is_dead_counts_while_the_sender_is_silent() {
        let address = SocketAddr::from(([10, 0, 0, 9], 1));
        let mut stream = stream();
        stream.heard_from(after(1), address);
        stream.presume_dead(after(2), SILENCE);
        assert!(!stream.sender_dead(), "it has just been heard");
        stream.presume_dead(after(3), SILENCE);
        assert_eq!(stream.sender_died_at(), Some(after(3)));
        stream.heard_from(after(4), address);
        assert!(!stream.sender_dead());

        stream.presume_dead(after(8), SILENCE);
        stream.sender_died(after(9));
        stream.heard_from(after(10), address);
        assert!(stream.sender_dead(), "the service has said so");
    }

    // Rule R-SEC-43.
    #[test]
    fn a_member_is_believed_of_a_sender_that_was_never_heard() {
        let mut stream = stream();
        stream.presume_dead(after(1), SILENCE);
        assert!(stream.sender_dead());
    }
}
