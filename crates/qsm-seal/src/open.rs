//! Packets that come are opened, or dropped with the reason (R-SEC-1).

use core::fmt;

use qsm_wire::{Coverage, HEADER_BYTES, seal, sealed_by};

use crate::key::{ClusterKey, KeyId};
use crate::layout::{COUNTER_BYTES, Form, authenticated, control_nonce, data_nonce};
use crate::maker::{Deriver, MAKERS_MAX, MakerKeys, Makers, maker_of};
use crate::window::Window;

/// Opens the packets that reach one node.
#[derive(Debug)]
pub struct Opener {
    deriver: Deriver,
    makers: Makers<Known>,
}

/// Fate of a packet that is not data and has come before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Replays {
    Refused,
    /// It is opened, and none is noted.
    Opened,
}

/// A maker of whom a packet has been opened: nobody else costs memory.
#[derive(Debug)]
struct Known {
    keys: MakerKeys,
    window: Window,
}

impl Opener {
    /// Opens what is sealed by this key, and nothing else.
    #[must_use]
    pub fn new(key: &ClusterKey) -> Self {
        Self {
            deriver: Deriver::new(key),
            makers: Makers::default(),
        }
    }

    /// Number of its key.
    #[must_use]
    pub fn key(&self) -> KeyId {
        self.deriver.id()
    }

    /// Opens a packet where it is. Returns its length: it is what it was before it was sealed, with a checksum as one
    /// that was not.
    ///
    /// # Errors
    /// [`OpenError`]; what is there then is of no use. Nothing else has changed.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<usize, OpenError> {
        self.take(datagram, Replays::Refused)
    }

    /// As [`Opener::open`], of packets that may come again: whoever takes them tells that by itself.
    pub(crate) fn open_again(&mut self, datagram: &mut [u8]) -> Result<usize, OpenError> {
        self.take(datagram, Replays::Opened)
    }

    #[inline]
    fn take(&mut self, datagram: &mut [u8], replays: Replays) -> Result<usize, OpenError> {
        if datagram.len() < HEADER_BYTES {
            return Err(OpenError::Short);
        }
        match sealed_by(datagram) {
            None => return Err(OpenError::Plain),
            Some(key) if key != self.deriver.id().0 => return Err(OpenError::OtherKey(KeyId(key))),
            Some(_) => {}
        }
        let form = Form::of(datagram);
        if datagram.len() < form.head_bytes() + form.tail_bytes() {
            return Err(OpenError::Short);
        }
        let maker = maker_of(datagram);
        let length = match self.makers.get_mut(&maker) {
            Some(known) => known.open(form, datagram, replays)?,
            None => {
                let keys = self.deriver.keys(maker).ok_or(OpenError::Forged)?;
                let mut known = Known {
                    keys,
                    window: Window::default(),
                };
                let length = known.open(form, datagram, replays)?;
                if self.makers.len() >= MAKERS_MAX {
                    self.makers.clear();
                }
                self.makers.insert(maker, known);
                length
            }
        };
        seal(&mut datagram[..length], Coverage::Head);
        Ok(length)
    }
}

impl Known {
    /// Length of the packet without what was added to it.
    fn open(
        &mut self,
        form: Form,
        datagram: &mut [u8],
        replays: Replays,
    ) -> Result<usize, OpenError> {
        let length = datagram.len() - form.tail_bytes();
        let (head, rest) = datagram.split_at_mut(form.head_bytes());
        let (counter, sealed) = match form {
            Form::Data => (None, rest),
            Form::Control => {
                let (sealed, counter) = rest.split_at_mut(rest.len() - COUNTER_BYTES);
                let mut bytes = [0; COUNTER_BYTES];
                bytes.copy_from_slice(counter);
                (Some(u64::from_le_bytes(bytes)), sealed)
            }
        };
        let counted = counter.filter(|_| replays == Replays::Refused);
        if counted.is_some_and(|counter| !self.window.is_new(counter)) {
            return Err(OpenError::Replayed);
        }
        let nonce = counter.map_or_else(|| data_nonce(head), control_nonce);
        let (known, known_bytes) = authenticated(head);
        self.keys
            .of(form)
            .open(nonce, &known[..known_bytes], sealed)
            .ok_or(OpenError::Forged)?;
        if let Some(counter) = counted {
            self.window.note(counter);
        }
        Ok(length)
    }
}

/// Why a packet is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OpenError {
    /// It is shorter than any packet.
    Short,
    /// It is not protected.
    Plain,
    /// It is protected by another key.
    OtherKey(KeyId),
    /// It was not made by anybody with the key, or has changed on its way.
    Forged,
    /// It has come before, or is older than what is remembered.
    Replayed,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("shorter than any packet"),
            Self::Plain => f.write_str("not protected by a key"),
            Self::OtherKey(key) => write!(f, "protected by another key, {key}"),
            Self::Forged => f.write_str("forged, or changed on its way"),
            Self::Replayed => f.write_str("sent again by somebody, or very late"),
        }
    }
}

impl core::error::Error for OpenError {}
