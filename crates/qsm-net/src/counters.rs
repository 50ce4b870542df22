//! Counters of a port. They only grow, and wrap never in practice (64 bits).

use crate::error::SendFailure;
use crate::guard::Refusal;

qsm_metrics::metrics! {
    /// Counters of one port since it was opened.
    #[derive(Copy)]
    pub struct PortCounters of "port" {
        /// Received at the unicast socket. Kept apart from multicast because the paths, and so the losses, differ.
        unicast: group(ReceiveCounters),
        /// Received at all multicast sockets together, also those left meanwhile.
        multicast: group(ReceiveCounters),
        /// Sent.
        sent: group(SendCounters),
        /// Faults injected on purpose.
        faults: group(FaultCounters),
        /// Datagrams that were not let in, where packets are protected by a key.
        refused: group(RefusalCounters),
    }
}

qsm_metrics::metrics! {
    /// Counters of datagrams that a key did not open.
    #[derive(Copy)]
    pub struct RefusalCounters of "refusal" {
        /// Datagrams of other clusters, which are not looked at.
        other_cluster: counter(datagrams),
        /// Datagrams refused because no key protects them.
        plain: counter(datagrams),
        /// Datagrams refused because another key protects them.
        other_key: counter(datagrams),
        /// Datagrams refused because they were not made with the key, or have changed on their way.
        forged: counter(datagrams),
        /// Datagrams refused because they have come before: sent again by somebody, or twice by the network.
        replayed: counter(datagrams),
        /// Datagrams refused because more signatures came than are checked.
        unchecked: counter(datagrams),
    }
}

qsm_metrics::metrics! {
    /// Counters of receiving.
    #[derive(Copy)]
    pub struct ReceiveCounters of "receive" {
        /// Datagrams after splitting of trains, before injected faults.
        datagrams: counter(datagrams),
        /// Payload bytes of the datagrams received.
        bytes: counter(bytes),
        /// `recvmmsg` calls that returned something.
        calls: counter(calls),
        /// Messages received of more than one datagram (UDP GRO).
        trains: counter(messages),
        /// Messages received that did not fit a buffer, and were dropped whole.
        truncated: counter(messages),
        /// Buffers that the kernel dropped because a receive buffer was full (`SO_RXQ_OVFL`, `SO_MEMINFO`). The kernel counts
        /// buffers: a whole train that found no room counts **one**. Damaged checksums count here too.
        kernel_drops: counter(buffers),
    }
}

qsm_metrics::metrics! {
    /// Counters of codepoints in the header of IP (ECN), by which a queue marks datagrams in the place of dropping them.
    #[derive(Copy)]
    pub struct EcnCounters of "ecn" {
        /// Datagrams that came with a codepoint that can be marked, ECT(0), or with a mark.
        capable: counter(datagrams),
        /// Of these, datagrams with a mark, CE.
        marked: counter(datagrams),
        /// Datagrams with a mark that were dropped, since they were to go on without a codepoint.
        dropped: counter(datagrams),
        /// Datagrams whose codepoint the kernel did not say.
        unread: counter(datagrams),
    }
}

qsm_metrics::metrics! {
    /// Counters of sending.
    #[derive(Copy)]
    pub struct SendCounters of "send" {
        /// Datagrams sent.
        datagrams: counter(datagrams),
        /// Payload bytes sent.
        bytes: counter(bytes),
        /// System calls to send, also those that failed.
        calls: counter(calls),
        /// Messages sent of more than one datagram (UDP GSO).
        trains: counter(messages),
        /// Copies of a train for one receiver that were cloned inside the kernel.
        cloned: counter(messages),
        /// Errors, by kind.
        errors: group(SendErrorCounters),
    }
}

qsm_metrics::metrics! {
    /// Counters of failed sends, by the kinds of [`SendFailure`](crate::SendFailure).
    #[derive(Copy)]
    pub struct SendErrorCounters of "send_error" {
        /// The send buffer was full (`EAGAIN`).
        would_block: counter(calls),
        /// The queue of the device was full (`ENOBUFS`, `ENOMEM`).
        no_buffers: counter(calls),
        /// The destination's host said that nobody listens there (`ECONNREFUSED`, by ICMP, so about an earlier datagram).
        refused: counter(calls),
        /// A firewall rule forbade it (`EPERM`, `EACCES`).
        forbidden: counter(calls),
        /// No way to the destination (`ENETUNREACH`, `EHOSTUNREACH`, `ENETDOWN`, `ENODEV`).
        unreachable: counter(calls),
        /// Too large for a datagram or for the path (`EMSGSIZE`).
        too_large: counter(calls),
        /// Sending failed for another reason.
        other: counter(calls),
        /// Trains refused by the kernel or device, sent again one datagram at a time (`EIO`, `EINVAL`).
        trains_refused: counter(trains),
    }
}

qsm_metrics::metrics! {
    /// Counters of injected faults.
    #[derive(Copy)]
    pub struct FaultCounters of "fault" {
        /// Datagrams discarded to inject a loss.
        lost: counter(datagrams),
        /// Datagrams delivered twice on purpose.
        duplicated: counter(datagrams),
        /// Datagrams delivered after their successor on purpose.
        reordered: counter(datagrams),
        /// Datagrams in which a bit was changed on purpose.
        damaged: counter(datagrams),
    }
}

impl SendErrorCounters {
    pub(crate) fn count(&mut self, failure: SendFailure) {
        let count = match failure {
            SendFailure::Forbidden => &mut self.forbidden,
            SendFailure::NoBuffers => &mut self.no_buffers,
            SendFailure::Other => &mut self.other,
            SendFailure::Refused => &mut self.refused,
            SendFailure::TooLarge => &mut self.too_large,
            SendFailure::Unreachable => &mut self.unreachable,
        };
        *count += 1;
    }
}

impl RefusalCounters {
    pub(crate) fn count(&mut self, why: Refusal) {
        let count = match why {
            Refusal::OtherCluster => &mut self.other_cluster,
            Refusal::Plain => &mut self.plain,
            Refusal::OtherKey | Refusal::Unkeyed => &mut self.other_key,
            Refusal::Forged => &mut self.forged,
            Refusal::Replayed => &mut self.replayed,
            Refusal::Unchecked => &mut self.unchecked,
        };
        *count += 1;
    }
}

impl PortCounters {
    pub(crate) fn received(&mut self, multicast: bool) -> &mut ReceiveCounters {
        if multicast {
            &mut self.multicast
        } else {
            &mut self.unicast
        }
    }
}
