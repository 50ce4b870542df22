//! Objects that lay out their bytes themselves.

use std::borrow::Cow;

use crate::error::ObjectError;
use crate::header::{HEADER_BYTES_MAX, Header, short_name};

/// A type that says itself where its bytes are: a few of its own in front, and pieces that lie
/// where they are, such as pictures or arrays (S2, section 2.5). Nothing is joined before it is
/// written to its place.
///
/// ```
/// use qsm_object::{Layout, ObjectError, Pieces, from_layout, read_layout};
///
/// struct Tile<'a> { x: u32, pixels: &'a [u8] }
/// impl<'a> Layout<'a> for Tile<'a> {
///     const TYPE: u32 = 40;
///     fn pieces(&'a self, pieces: &mut Pieces<'a>) {
///         pieces.own(self.x.to_le_bytes());
///         pieces.lend(self.pixels);
///     }
///     fn read(body: &'a [u8]) -> Option<Self> {
///         let (x, pixels) = body.split_first_chunk()?;
///         Some(Tile { x: u32::from_le_bytes(*x), pixels })
///     }
/// }
///
/// let tile = Tile { x: 3, pixels: &[7; 1000] };
/// let pieces = from_layout(&tile);
/// // A publisher's `reserve(pieces.length())` has such room.
/// let mut room = vec![0; pieces.length()];
/// pieces.write(&mut room);
/// let read: Tile<'_> = read_layout(&room)?;
/// assert_eq!((read.x, read.pixels), (3, &[7; 1000][..]));
/// # Ok::<(), ObjectError>(())
/// ```
pub trait Layout<'a>: Sized {
    /// Its number.
    const TYPE: u32;
    /// Its version; 1 if not given.
    const VERSION: u16 = 1;

    /// Names its pieces, in their order.
    fn pieces(&'a self, pieces: &mut Pieces<'a>);

    /// Reads a body; `None` if it is none.
    fn read(body: &'a [u8]) -> Option<Self>;
}

/// Pieces of a message, in order.
#[derive(Debug, Default)]
pub struct Pieces<'a>(Vec<Cow<'a, [u8]>>);

impl<'a> Pieces<'a> {
    /// Adds bytes that stay where they are.
    pub fn lend(&mut self, bytes: &'a [u8]) {
        self.0.push(Cow::Borrowed(bytes));
    }

    /// Adds bytes made for this message.
    pub fn own(&mut self, bytes: impl Into<Vec<u8>>) {
        self.0.push(Cow::Owned(bytes.into()));
    }

    /// Length of the message, bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.0.iter().map(|piece| piece.len()).sum()
    }

    /// Writes the message.
    ///
    /// # Panics
    /// The room has another length than [`Pieces::length`].
    pub fn write(&self, room: &mut [u8]) {
        let mut left = room;
        for piece in &self.0 {
            let (place, behind) = left.split_at_mut(piece.len());
            place.copy_from_slice(piece);
            left = behind;
        }
        assert!(left.is_empty(), "the room is longer than the message");
    }

    /// The pieces, for a vectored write.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|piece| &**piece)
    }
}

fn header<'a, T: Layout<'a>>() -> Header {
    let (kind, version) = (T::TYPE, T::VERSION);
    Header { kind, version }
}

/// Pieces of the message for an object, its header first.
#[must_use]
pub fn from_layout<'a, T: Layout<'a>>(object: &'a T) -> Pieces<'a> {
    let mut front = Vec::with_capacity(HEADER_BYTES_MAX);
    header::<T>().append(&mut front);
    let mut pieces = Pieces::default();
    pieces.own(front);
    object.pieces(&mut pieces);
    pieces
}

/// The object in a message.
///
/// # Errors
/// [`ObjectError`]: of another type or version, or [`Layout::read`] does not take it.
pub fn read_layout<'a, T: Layout<'a>>(message: &'a [u8]) -> Result<T, ObjectError> {
    let (found, body) = Header::split(message)?;
    header::<T>().admit(found, short_name::<T>())?;
    T::read(body).ok_or_else(|| ObjectError::Body {
        place: short_name::<T>().to_owned(),
        cause: crate::error::Cause::Other("its own reader does not take it".to_owned()),
    })
}
