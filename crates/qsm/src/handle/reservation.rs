use core::fmt;
use core::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::attach::publisher::AttachedPublisher;
use crate::error::SendError;
use crate::handle::own_publisher::Room;

/// Room for one message in a publisher's queue, to be written in place: made by
/// [`Publisher::reserve`](crate::Publisher::reserve).
///
/// It is a slice of bytes, all zero at first. [`Reservation::commit`] queues it as a message, without
/// another copy; dropping it gives the room back. It counts against the limits of the queue like a
/// message, but nobody waits for it: messages sent meanwhile go before it.
///
/// ```
/// use std::io::Write;
///
/// # let node = qsm::Node::builder()
/// #   .cluster(format!("doc-reservation-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
/// #   .interface("lo")
/// #   .start()?;
/// # let prices = node.subscribe(["prices/eur"])?;
/// let publisher = node.publisher("prices/eur")?;
/// let mut message = publisher.reserve(64)?;
/// let mut rest = &mut message[..];
/// write!(rest, "{:.4}", 1.0842)?;
/// let written = 64 - rest.len();
/// message.truncate(written);
/// message.commit()?;
/// # let message = prices.recv()?.into_message().expect("nothing is missing");
/// # assert_eq!(message.bytes(), b"1.0842");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a reservation that is dropped sends nothing"]
pub struct Reservation {
    place: Place,
    message: Vec<u8>,
}

/// Where it goes.
enum Place {
    Own(Room),
    /// The ring to the engine is shared by all publishers of the process, so that its room is taken
    /// when the message is there.
    Attached(Arc<AttachedPublisher>),
}

impl Reservation {
    pub(crate) fn own(room: Room, length: usize) -> Self {
        Self {
            place: Place::Own(room),
            message: vec![0; length],
        }
    }

    pub(crate) fn attached(publisher: Arc<AttachedPublisher>, length: usize) -> Self {
        Self {
            place: Place::Attached(publisher),
            message: vec![0; length],
        }
    }

    /// Shortens the message; a greater length changes nothing.
    pub fn truncate(&mut self, length: usize) {
        self.message.truncate(length);
    }

    /// Queues what was written. It is accepted as by [`Publisher::send`](crate::Publisher::send), and
    /// never waits; attached it may, until the queue to the engine has room.
    ///
    /// # Errors
    /// [`SendError::Closed`]: the node has ended.
    pub fn commit(self) -> Result<(), SendError> {
        let Self { place, message } = self;
        match place {
            Place::Own(room) => room.fill(message),
            Place::Attached(publisher) => publisher.send(&message),
        }
    }
}

impl Deref for Reservation {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.message
    }
}

impl DerefMut for Reservation {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.message
    }
}

impl fmt::Debug for Reservation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation")
            .field("length", &self.message.len())
            .finish_non_exhaustive()
    }
}
