//! A reliable, ordered session of messages over datagrams, between a node and the membership
//! service (R057). Both ends use the same code.
//!
//! Membership traffic is rare, small and must not be lost; a TCP connection per node would cost
//! the service a socket each and tie its recovery to the kernel's timers. So messages are cut
//! into frames, numbered per direction, and acknowledged cumulatively:
//!
//! ```text
//!  send() ─► frames ─► window of 64 ─► datagrams ─► reorder buffer ─► messages ─► poll_message()
//!                        ▲  resent after RTO, or at once when receipts repeat themselves
//!                        └── heard_upto, in every frame and in SessionAck
//! ```
//!
//! Loss is repaired as in `NewReno` (RFC 6582) without its congestion window, since a window of
//! 64 small frames needs none: three equal receipts, or the timeout of RFC 6298, resend the first
//! missing frame; as long as receipts then move on but not past what was sent before, the next
//! first missing frame is resent at once.
//!
//! Nothing is sent by itself: [`Session::transmit`] does whatever is due, and its owner calls it
//! after every input and at [`Session::next_timeout`].

mod round_trip;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use qsm_wire::membership::MESSAGE_BYTES_MAX;
use qsm_wire::{Frame, FrameHead, HEADER_BYTES, Header, Heard, TAG_BYTES};

use self::round_trip::RoundTrip;
use crate::{Destination, Instant, Outbox, Reason};

/// Frames under way in one direction. Fewer make a large message slow (64 frames of 1400 bytes
/// per round trip are 90 MB/s at 1 ms); more could overflow a small receive buffer.
pub const WINDOW_FRAMES: u64 = 64;
/// Bytes that may wait in one direction; beyond it [`Session::send`] refuses. Two of the largest
/// messages.
pub const SEND_BYTES_MAX: usize = 2 * MESSAGE_BYTES_MAX;
/// Longest a receipt waits for company. Far below the shortest retransmission timeout.
pub const ACK_DELAY: Duration = Duration::from_millis(2);
/// Frames received without receipt before one is sent at once.
pub const ACK_FRAMES: u32 = 16;
/// Received messages that may wait to be polled; beyond it frames are not accepted, so their
/// sender repeats them.
pub const INBOX_MAX: usize = 128;
/// Equal receipts that show a loss (RFC 5681).
const REPEATS: u32 = 3;
/// Datagrams of membership that may wait in the outbox before sessions hold back new frames: a
/// quarter of the queue stays free for receipts, probes and beacons.
const WAITING_MAX: usize = Outbox::QUEUE_MAX * 3 / 4;
/// How soon to try again when the outbox was full.
const OUTBOX_RETRY: Duration = Duration::from_millis(1);
/// Bytes of a frame before its content, after the header.
const FRAME_HEAD_BYTES: usize = 25;

/// Content bytes of a frame in datagrams of this size.
#[must_use]
pub fn frame_bytes(datagram_bytes: usize) -> usize {
    datagram_bytes
        .saturating_sub(HEADER_BYTES + FRAME_HEAD_BYTES + TAG_BYTES)
        .max(64)
}

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

/// Where a session's datagrams go and what stands on them.
#[derive(Debug, Clone, Copy)]
pub struct Letterhead {
    /// The header of each datagram.
    pub header: Header,
    /// The peer.
    pub to: SocketAddr,
}

#[derive(Debug)]
struct OutFrame {
    content: Vec<u8>,
    more: bool,
    sent_at: Instant,
    resent: bool,
}

/// What this end sends. Invariant: `first <= next <= first + frames.len()`,
/// `next <= first + WINDOW_FRAMES`.
#[derive(Debug)]
struct Sending {
    /// Not yet acknowledged, from number `first` on.
    frames: VecDeque<OutFrame>,
    first: u64,
    /// Number of the first frame never sent.
    next: u64,
    bytes: usize,
    timer: Option<Instant>,
    retry_at: Option<Instant>,
    round_trip: RoundTrip,
    repeats: u32,
    /// A loss was found when this was the highest number sent; receipts below it show more loss.
    recover_upto: u64,
    resend_first: bool,
    retransmitted: u64,
}

/// What this end receives.
#[derive(Debug, Default)]
struct Receiving {
    heard_upto: u64,
    /// Frames beyond a gap, at most [`WINDOW_FRAMES`].
    ahead: BTreeMap<u64, (bool, Vec<u8>)>,
    /// The message that is coming together.
    partial: Vec<u8>,
    ready: VecDeque<Vec<u8>>,
    ack_at: Option<Instant>,
    unacked: u32,
    broken: bool,
}

/// One end of a session (R-MEM-3).
#[derive(Debug)]
pub struct Session {
    id: u64,
    frame_bytes: usize,
    sending: Sending,
    receiving: Receiving,
}

impl Session {
    /// A session of this id whose frames carry at most `frame_bytes` of content (see
    /// [`frame_bytes`]).
    #[must_use]
    pub fn new(id: u64, frame_bytes: usize) -> Self {
        Self {
            id,
            frame_bytes: frame_bytes.max(1),
            sending: Sending {
                frames: VecDeque::new(),
                first: 1,
                next: 1,
                bytes: 0,
                timer: None,
                retry_at: None,
                round_trip: RoundTrip::default(),
                repeats: 0,
                recover_upto: 0,
                resend_first: false,
                retransmitted: 0,
            },
            receiving: Receiving::default(),
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Queues a message.
    ///
    /// # Errors
    /// When it is too large or too much waits already; nothing is queued then.
    pub fn send(&mut self, message: &[u8]) -> Result<(), SendError> {
        if message.len() > MESSAGE_BYTES_MAX {
            return Err(SendError::TooLarge {
                length: message.len(),
            });
        }
        if self.sending.bytes + message.len() > SEND_BYTES_MAX {
            return Err(SendError::Full);
        }
        self.sending.bytes += message.len();
        let count = message.len().div_ceil(self.frame_bytes).max(1);
        for index in 0..count {
            let end = message.len().min((index + 1) * self.frame_bytes);
            self.sending.frames.push_back(OutFrame {
                content: message[index * self.frame_bytes..end].to_vec(),
                more: index + 1 < count,
                sent_at: Instant(0),
                resent: false,
            });
        }
        Ok(())
    }

    /// A frame of this session arrived.
    pub fn handle_frame(&mut self, now: Instant, frame: &Frame<'_>) {
        self.handle_heard(now, frame.head.heard_upto, true);
        self.receiving
            .take(now, frame.head.number, frame.head.more, frame.content);
    }

    /// A receipt of this session arrived, alone or in a frame; only lone ones show losses by
    /// repeating themselves.
    pub fn handle_heard(&mut self, now: Instant, heard_upto: u64, in_frame: bool) {
        self.sending.acknowledge(now, heard_upto, in_frame);
    }

    /// The next message, whole and in order.
    pub fn poll_message(&mut self) -> Option<Vec<u8>> {
        self.receiving.ready.pop_front()
    }

    /// Sends what is due: new frames within the window, repetitions, a receipt.
    pub fn transmit(&mut self, now: Instant, letterhead: &Letterhead, outbox: &mut Outbox) {
        if self.sending.timer.is_some_and(|at| at <= now) {
            self.sending.expire();
        }
        self.sending.retry_at = None;
        if core::mem::take(&mut self.sending.resend_first) && !self.sending.frames.is_empty() {
            self.emit(now, 0, letterhead, outbox);
            self.sending.timer = Some(now.after(self.sending.round_trip.timeout()));
        }
        while self.sending.has_new() {
            if outbox.waiting(Reason::Membership) >= WAITING_MAX {
                self.sending.retry_at = Some(now.after(OUTBOX_RETRY));
                break;
            }
            let index = usize::try_from(self.sending.next - self.sending.first).unwrap_or(0);
            self.emit(now, index, letterhead, outbox);
            self.sending.next += 1;
            let timeout = now.after(self.sending.round_trip.timeout());
            self.sending.timer.get_or_insert(timeout);
        }
        if self.receiving.ack_at.is_some_and(|at| at <= now) {
            self.transmit_heard(letterhead, outbox);
        }
    }

    /// Sends a receipt now, as a sign of life.
    pub fn transmit_heard(&mut self, letterhead: &Letterhead, outbox: &mut Outbox) {
        let heard = Heard {
            session: self.id,
            heard_upto: self.receiving.heard_upto,
        };
        outbox.push(
            Reason::Membership,
            Destination::Node(letterhead.to),
            |out| {
                heard.encode(&letterhead.header, out);
            },
        );
        self.receiving.acknowledged();
    }

    /// When [`Session::transmit`] has something to do again.
    #[must_use]
    pub fn next_timeout(&self) -> Option<Instant> {
        [
            self.sending.timer,
            self.sending.retry_at,
            self.receiving.ack_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Number of the last frame of what has been queued so far; 0 if nothing has.
    #[must_use]
    pub fn last_queued(&self) -> u64 {
        let queued = u64::try_from(self.sending.frames.len()).unwrap_or(u64::MAX);
        self.sending.first + queued - 1
    }

    /// The peer has received all frames up to this number.
    #[must_use]
    pub fn confirmed_upto(&self) -> u64 {
        self.sending.first - 1
    }

    /// Whether everything sent has been acknowledged.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.sending.frames.is_empty()
    }

    /// How long the way to the peer and back takes, as far as receipts show it, which wait for
    /// company; `None` before the first.
    #[must_use]
    pub fn round_trip(&self) -> Option<Duration> {
        let smoothed = self.sending.round_trip.smoothed();
        smoothed.map(|smoothed| smoothed.saturating_sub(ACK_DELAY))
    }

    /// Whether the peer broke the rules (a message without end); the session is of no use then.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.receiving.broken
    }

    /// Whether a frame has ever arrived.
    #[must_use]
    pub fn has_heard(&self) -> bool {
        self.receiving.heard_upto > 0
    }

    /// Frames sent more than once so far, counted each time.
    #[must_use]
    pub fn retransmitted(&self) -> u64 {
        self.sending.retransmitted
    }

    fn emit(&mut self, now: Instant, index: usize, letterhead: &Letterhead, outbox: &mut Outbox) {
        let Some(frame) = self.sending.frames.get_mut(index) else {
            return;
        };
        let number = self.sending.first + u64::try_from(index).unwrap_or(0);
        if number < self.sending.next {
            frame.resent = true;
            self.sending.retransmitted += 1;
        }
        frame.sent_at = now;
        let packet = Frame {
            head: FrameHead {
                session: self.id,
                number,
                heard_upto: self.receiving.heard_upto,
                more: frame.more,
            },
            content: &frame.content,
        };
        outbox.push(
            Reason::Membership,
            Destination::Node(letterhead.to),
            |out| {
                packet.encode(&letterhead.header, out);
            },
        );
        self.receiving.acknowledged();
    }
}

impl Sending {
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

    fn acknowledge(&mut self, now: Instant, heard_upto: u64, in_frame: bool) {
        // A receipt for what was never sent is a lie or another session's: ignored.
        if heard_upto >= self.next {
            return;
        }
        if heard_upto < self.first {
            let repeated = heard_upto + 1 == self.first && self.next > self.first;
            self.repeats += u32::from(repeated && !in_frame);
            if self.repeats == REPEATS && self.recover_upto < self.first {
                self.resend_first = true;
                self.recover_upto = self.next - 1;
            }
            return;
        }
        while self.first <= heard_upto {
            let Some(frame) = self.frames.pop_front() else {
                break;
            };
            self.bytes -= frame.content.len();
            // Karn: a repeated frame's receipt may be for either copy.
            if self.first == heard_upto && !frame.resent {
                self.round_trip.sample(now.since(frame.sent_at));
            }
            self.first += 1;
        }
        self.repeats = 0;
        self.round_trip.progress();
        self.resend_first = self.first <= self.recover_upto;
        self.timer = (self.next > self.first).then(|| now.after(self.round_trip.timeout()));
    }
}

impl Receiving {
    fn take(&mut self, now: Instant, number: u64, more: bool, content: &[u8]) {
        if number <= self.heard_upto {
            self.ack_at = Some(now);
            return;
        }
        if number > self.heard_upto + WINDOW_FRAMES || self.ready.len() >= INBOX_MAX {
            return;
        }
        if number > self.heard_upto + 1 {
            self.ahead
                .entry(number)
                .or_insert_with(|| (more, content.to_vec()));
            self.ack_at = Some(now);
            return;
        }
        self.append(more, content);
        while let Some((more, content)) = self.ahead.remove(&(self.heard_upto + 1)) {
            self.append(more, &content);
        }
        self.unacked += 1;
        let due = if self.unacked >= ACK_FRAMES || !self.ahead.is_empty() {
            now
        } else {
            now.after(ACK_DELAY)
        };
        self.ack_at = Some(self.ack_at.map_or(due, |at| at.min(due)));
    }

    fn append(&mut self, more: bool, content: &[u8]) {
        self.heard_upto += 1;
        if self.partial.len() + content.len() > MESSAGE_BYTES_MAX {
            self.broken = true;
            self.partial = Vec::new();
            return;
        }
        self.partial.extend_from_slice(content);
        if !more {
            self.ready.push_back(core::mem::take(&mut self.partial));
        }
    }

    fn acknowledged(&mut self) {
        self.ack_at = None;
        self.unacked = 0;
    }
}
