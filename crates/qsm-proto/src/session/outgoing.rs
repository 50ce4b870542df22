use core::time::Duration;
use std::collections::VecDeque;

use qsm_wire::membership::MESSAGE_BYTES_MAX;
use qsm_wire::{Frame, FrameHead, Heard};

use super::peer::SessionPeer;
use super::round_trip::RoundTrip;
use crate::{Destination, Instant, Outbox, Reason};

/// Frames under way in one direction. Fewer make a large message slow (64 frames of 1400 bytes
/// per round trip are 90 MB/s at 1 ms); more could overflow a small receive buffer.
pub const WINDOW_FRAMES: u64 = 64;
/// Bytes that may wait in one direction; beyond it [`Session::send`](super::Session::send) refuses. Two of the largest
/// messages.
pub const SEND_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// Datagrams of membership that may wait in the outbox before sessions hold back new frames: a
/// quarter of the queue stays free for receipts, probes and beacons.
const WAITING_MAX: usize = Outbox::QUEUE_MAX * 3 / 4;
/// How soon to try again when the outbox was full.
const OUTBOX_RETRY: Duration = Duration::from_millis(1);
/// Equal receipts that show a loss (RFC 5681).
const REPEATS: u32 = 3;

/// The session cannot take a message now; the peer is slower than what is sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SendError {
    /// More bytes would wait than [`SEND_BYTES_MAX`].
    Full,
    /// The message is longer than [`MESSAGE_BYTES_MAX`].
    TooLarge {
        /// Its length, bytes.
        length: usize,
    },
}

impl core::fmt::Display for SendError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Full => f.write_str("the peer does not keep up with what is sent to it"),
            Self::TooLarge { length } => write!(
                f,
                "message of {length} bytes is longer than the limit of {MESSAGE_BYTES_MAX}"
            ),
        }
    }
}

impl core::error::Error for SendError {}

#[derive(Debug)]
struct OutgoingFrame {
    content: Vec<u8>,
    more: bool,
    sent_at: Instant,
    first_sent_at: Instant,
    sendings: u32,
}

/// What this end sends. Invariant: `first <= next <= first + frames.len()`,
/// `next <= first + WINDOW_FRAMES`.
#[derive(Debug)]
pub(super) struct OutgoingFrames {
    /// Not yet acknowledged, from number `first` on.
    frames: VecDeque<OutgoingFrame>,
    first: u64,
    /// Number of the first frame never sent.
    next: u64,
    bytes: usize,
    timer: Option<Instant>,
    /// From the first sending of the last frame that was receipted to its receipt.
    receipted_in: Duration,
    retry_at: Option<Instant>,
    round_trip: RoundTrip,
    repeats: u32,
    /// A loss was found when this was the highest number sent; receipts below it show more loss.
    recover_upto: u64,
    resend_first: bool,
    retransmitted: u64,
}

impl Default for OutgoingFrames {
    fn default() -> Self {
        Self {
            frames: VecDeque::new(),
            first: 1,
            next: 1,
            bytes: 0,
            timer: None,
            receipted_in: Duration::ZERO,
            retry_at: None,
            round_trip: RoundTrip::default(),
            repeats: 0,
            recover_upto: 0,
            resend_first: false,
            retransmitted: 0,
        }
    }
}

impl OutgoingFrames {
    /// Cuts a message into frames of at most so many bytes.
    pub(super) fn push(&mut self, message: &[u8], frame_bytes: usize) -> Result<(), SendError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(SendError::TooLarge {
                length: message.len(),
            });
        }
        if self.bytes + message.len() > SEND_BYTES_MAX {
            return Err(SendError::Full);
        }
        self.bytes += message.len();
        let count = message.len().div_ceil(frame_bytes).max(1);
        for index in 0..count {
            let end = message.len().min((index + 1) * frame_bytes);
            self.frames.push_back(OutgoingFrame {
                content: message[index * frame_bytes..end].to_vec(),
                more: index + 1 < count,
                sent_at: Instant(0),
                first_sent_at: Instant(0),
                sendings: 0,
            });
        }
        Ok(())
    }

    /// Sends new frames within the window, and repetitions, each with this receipt; whether there
    /// were any.
    pub(super) fn transmit(
        &mut self,
        now: Instant,
        receipt: Heard,
        peer: &SessionPeer,
        outbox: &mut Outbox,
    ) -> bool {
        if self.timer.is_some_and(|at| at <= now) {
            self.expire();
        }
        self.retry_at = None;
        let mut sent = false;
        if core::mem::take(&mut self.resend_first) && !self.frames.is_empty() {
            self.emit(now, 0, receipt, peer, outbox);
            self.resend_others(now, receipt, peer, outbox);
            sent = true;
            self.timer = Some(now.after(self.round_trip.timeout()));
        }
        while self.has_new() {
            if outbox.waiting(Reason::Membership) >= WAITING_MAX {
                self.retry_at = Some(now.after(OUTBOX_RETRY));
                break;
            }
            let index = usize::try_from(self.next - self.first).unwrap_or(0);
            self.emit(now, index, receipt, peer, outbox);
            sent = true;
            self.next += 1;
            let timeout = now.after(self.round_trip.timeout());
            self.timer.get_or_insert(timeout);
        }
        sent
    }

    /// Sends those after the first again that have had as long as an answer takes. As many frames
    /// in all as one frame usually takes sendings: where those are lost that often, so are these, and
    /// one after the other would take as many timeouts.
    fn resend_others(
        &mut self,
        now: Instant,
        receipt: Heard,
        peer: &SessionPeer,
        outbox: &mut Outbox,
    ) {
        let sent = usize::try_from(self.next - self.first).unwrap_or(0);
        for index in 1..sent.min(self.round_trip.steady()) {
            let sent_at = self.frames.get(index).map_or(now, |frame| frame.sent_at);
            if sent_at.after(self.round_trip.usual()) <= now {
                self.emit(now, index, receipt, peer, outbox);
            }
        }
    }

    /// Sends the first frame again, if the receipt of its last sending could be there by now; whether
    /// it did.
    pub(super) fn repeat(
        &mut self,
        now: Instant,
        receipt: Heard,
        peer: &SessionPeer,
        outbox: &mut Outbox,
    ) -> bool {
        if !self.is_overdue(now) {
            return false;
        }
        self.emit(now, 0, receipt, peer, outbox);
        let next = now.after(self.round_trip.usual());
        self.timer = self.timer.map(|at| at.max(next));
        true
    }

    /// The receipt of the first frame's last sending could be there by now, and is not.
    fn is_overdue(&self, now: Instant) -> bool {
        let first = self.frames.front().filter(|_| self.next > self.first);
        first.is_some_and(|frame| frame.sent_at.after(self.round_trip.usual()) <= now)
    }

    fn emit(
        &mut self,
        now: Instant,
        index: usize,
        receipt: Heard,
        peer: &SessionPeer,
        outbox: &mut Outbox,
    ) {
        let Some(frame) = self.frames.get_mut(index) else {
            return;
        };
        let number = self.first + u64::try_from(index).unwrap_or(0);
        self.retransmitted += u64::from(number < self.next);
        if frame.sendings == 0 {
            frame.first_sent_at = now;
        }
        frame.sendings = frame.sendings.saturating_add(1);
        frame.sent_at = now;
        let packet = Frame {
            head: FrameHead {
                session: receipt.session,
                number,
                heard_upto: receipt.heard_upto,
                more: frame.more,
            },
            content: &frame.content,
        };
        outbox.push(Reason::Membership, Destination::Node(peer.to), |out| {
            packet.encode(&peer.header, out);
        });
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        self.timer.into_iter().chain(self.retry_at).min()
    }

    /// Number of the last frame queued so far; 0 if none has been.
    pub(super) fn last_queued(&self) -> u64 {
        let queued = u64::try_from(self.frames.len()).unwrap_or(u64::MAX);
        self.first + queued - 1
    }

    /// The peer has received all frames up to this number.
    pub(super) fn confirmed_upto(&self) -> u64 {
        self.first - 1
    }

    /// Whether everything sent has been acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Time in which a frame is receipted, with its repetitions if none has come without.
    pub(super) fn receipted_in(&self) -> Duration {
        self.round_trip().unwrap_or(self.receipted_in)
    }

    /// Time that a frame and its receipt take.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.round_trip.smoothed()
    }

    /// Frames sent more than once so far, counted each time.
    pub(super) fn retransmitted(&self) -> u64 {
        self.retransmitted
    }

    fn has_new(&self) -> bool {
        let queued = u64::try_from(self.frames.len()).unwrap_or(u64::MAX);
        self.next < self.first + queued.min(WINDOW_FRAMES)
    }

    /// The retransmission timer ran out.
    fn expire(&mut self) {
        self.round_trip.back_off();
        self.resend_first = true;
        self.recover_upto = self.next - 1;
        self.repeats = 0;
    }

    /// The peer is heard, and lacks what it has been sent. If it could have been answered by now it
    /// is lost, which is no reason to wait for longer the next time.
    fn insist(&mut self, now: Instant) {
        if self.is_overdue(now) {
            self.round_trip.restart();
            let next = now.after(self.round_trip.usual());
            self.timer = self.timer.map(|at| at.min(next));
        }
    }

    /// The peer has received all frames up to this number.
    pub(super) fn acknowledge(&mut self, now: Instant, heard_upto: u64, in_frame: bool) {
        // A receipt for what was never sent is a lie or another session's: ignored.
        if heard_upto >= self.next {
            return;
        }
        if heard_upto < self.first {
            let repeated = heard_upto + 1 == self.first && self.next > self.first;
            if repeated {
                self.insist(now);
            }
            self.repeats += u32::from(repeated && !in_frame);
            if self.repeats == REPEATS && self.recover_upto < self.first {
                self.resend_first = true;
                self.recover_upto = self.next - 1;
            }
            return;
        }
        let mut sendings = 0;
        while self.first <= heard_upto {
            let Some(frame) = self.frames.pop_front() else {
                break;
            };
            self.bytes -= frame.content.len();
            sendings = sendings.max(frame.sendings);
            // Karn: a repeated frame's receipt may be for either copy, and that of those behind it
            // has waited for it.
            if self.first == heard_upto && sendings == 1 {
                self.round_trip.sample(now.since(frame.sent_at));
            }
            self.receipted_in = now.since(frame.first_sent_at);
            self.first += 1;
        }
        self.repeats = 0;
        self.round_trip.progress(sendings);
        self.resend_first = self.first <= self.recover_upto;
        self.timer = (self.next > self.first).then(|| now.after(self.round_trip.timeout()));
    }
}
