use qsm_proto::Reason;

use crate::engine::Datagram;

/// Packets that pass a host's network interface, by what they are for: what an analyser of
/// packets would count there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capture {
    /// Going out, by [`Reason`]. A multicast is one packet.
    pub sent: [u64; Reason::ALL.len()],
    /// Coming in.
    pub received: [u64; Reason::ALL.len()],
}

impl Capture {
    /// Packets for this reason, in both directions.
    #[must_use]
    pub fn of(&self, reason: Reason) -> u64 {
        self.sent[reason as usize] + self.received[reason as usize]
    }

    /// What has passed since that other, earlier capture.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut passed = *self;
        for reason in Reason::ALL.map(|reason| reason as usize) {
            passed.sent[reason] -= earlier.sent[reason];
            passed.received[reason] -= earlier.received[reason];
        }
        passed
    }

    pub(super) fn receive(&mut self, datagram: &Datagram) {
        if let Some(reason) = datagram.reason {
            self.received[reason as usize] += 1;
        }
    }
}
