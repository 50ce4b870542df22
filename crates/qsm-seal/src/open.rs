//! Packets that come are opened, or dropped with the reason (R-SEC-1).

use core::fmt;

use aws_lc_rs::aead::Aad;
use qsm_wire::{Coverage, HEADER_BYTES, Origin, TAG_BYTES, seal, sealed_by};

use crate::key::{ClusterKey, KeyId};
use crate::layout::{Form, authenticated, control_nonce, counter_of, data_nonce};
use crate::maker::{Deriver, MAKERS_MAX, MakerKeys, Makers, maker_of};
use crate::window::Window;

/// Opens the packets that reach one node.
#[derive(Debug)]
pub struct Opener {
    deriver: Deriver,
    makers: Makers<Known>,
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
        let form = self.form(datagram)?;
        let maker = maker_of(datagram);
        let counter = (form == Form::Control).then(|| counter_of(datagram));
        if let (Some(counter), Some(known)) = (counter, self.makers.get(&maker))
            && !known.window.is_new(counter)
        {
            return Err(OpenError::Replayed);
        }
        let length = self.decrypt(form, maker, datagram)?;
        if let (Some(counter), Some(known)) = (counter, self.makers.get_mut(&maker)) {
            known.window.note(counter);
        }
        Ok(length)
    }

    /// As [`Opener::open`], of packets that may come again: whoever takes them tells that by itself.
    pub(crate) fn open_again(&mut self, datagram: &mut [u8]) -> Result<usize, OpenError> {
        let form = self.form(datagram)?;
        self.decrypt(form, maker_of(datagram), datagram)
    }

    /// The form of a packet that is sealed by this key, and long enough.
    fn form(&self, datagram: &[u8]) -> Result<Form, OpenError> {
        if datagram.len() < HEADER_BYTES {
            return Err(OpenError::Short);
        }
        match sealed_by(datagram) {
            None => return Err(OpenError::Plain),
            Some(key) if key != self.deriver.id().0 => return Err(OpenError::OtherKey(KeyId(key))),
            Some(_) => {}
        }
        let form = Form::of(datagram);
        match datagram.len() < form.head_bytes() + form.tail_bytes() {
            true => Err(OpenError::Short),
            false => Ok(form),
        }
    }

    /// Length of the packet without what was added to it.
    fn decrypt(
        &mut self,
        form: Form,
        maker: Origin,
        datagram: &mut [u8],
    ) -> Result<usize, OpenError> {
        let length = match self.makers.get_mut(&maker) {
            Some(known) => known.keys.decrypt(form, datagram)?,
            None => {
                let keys = self.deriver.keys(maker).ok_or(OpenError::Forged)?;
                let length = keys.decrypt(form, datagram)?;
                if self.makers.len() >= MAKERS_MAX {
                    self.makers.clear();
                }
                let window = Window::default();
                self.makers.insert(maker, Known { keys, window });
                length
            }
        };
        seal(&mut datagram[..length], Coverage::Head);
        Ok(length)
    }
}

impl MakerKeys {
    /// Length of the packet without what was added to it.
    fn decrypt(&self, form: Form, datagram: &mut [u8]) -> Result<usize, OpenError> {
        let length = datagram.len() - form.tail_bytes();
        let nonce = match form {
            Form::Data => data_nonce(datagram),
            Form::Control => control_nonce(counter_of(datagram)),
        };
        let (head, rest) = datagram.split_at_mut(form.head_bytes());
        let sealed = length + TAG_BYTES - head.len();
        let (known, known_bytes) = authenticated(head);
        let aad = Aad::from(&known[..known_bytes]);
        let opened = self.of(form).open_in_place(nonce, aad, &mut rest[..sealed]);
        opened.map_err(|_| OpenError::Forged)?;
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
