use core::net::SocketAddr;

use crate::raw::{Reader, flag, put_address, put_origin, put_text};
use crate::{ChannelId, DecodeError, GroupId, Incarnation, Origin, RegionId, ViewNumber};

/// A value with one encoding.
pub(super) trait Field: Sized {
    fn put(&self, out: &mut Vec<u8>);
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError>;
}

macro_rules! number_field {
    ($($type:ty, $wrap:expr, $unwrap:expr, $read:ident;)*) => {
        $(impl Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&($unwrap)(*self).to_le_bytes());
            }
            fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
                reader.$read().map($wrap)
            }
        })*
    };
}

number_field! {
    u8, core::convert::identity, core::convert::identity::<u8>, u8;
    u32, core::convert::identity, core::convert::identity::<u32>, u32;
    u64, core::convert::identity, core::convert::identity::<u64>, u64;
    GroupId, GroupId, |v: Self| v.0, u32;
    RegionId, RegionId, |v: Self| v.0, u32;
    ChannelId, ChannelId, |v: Self| v.0, u32;
    ViewNumber, ViewNumber, |v: Self| v.0, u32;
    Incarnation, Incarnation, |v: Self| v.0, u32;
}

impl Field for String {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(out, self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.text().map(Self::from)
    }
}

impl Field for SocketAddr {
    fn put(&self, out: &mut Vec<u8>) {
        put_address(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.address()
    }
}

impl Field for Origin {
    fn put(&self, out: &mut Vec<u8>) {
        put_origin(out, *self);
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.origin()
    }
}

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        flag(reader.u8()?)
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        if bool::read(reader)? {
            T::read(reader).map(Some)
        } else {
            Ok(None)
        }
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        for value in self {
            value.put(out);
        }
    }
    fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let count = reader.u32()?;
        let mut values = Self::new();
        for _ in 0..count {
            // Grows with what is really there, so a false count costs nothing.
            values.push(T::read(reader)?);
        }
        Ok(values)
    }
}

/// Writes `Field` for an enum whose variants have named fields; those in brackets hold a record.
macro_rules! message {
    ($type:ident $([$tag:literal => $record:ident])* {
        $($value:literal => $variant:ident { $($field:ident),* },)*
    }) => {
        impl $crate::membership::field::Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $(Self::$record(record) => {
                        out.push($tag);
                        record.put(out);
                    })*
                    $(Self::$variant { $($field),* } => {
                        out.push($value);
                        $($field.put(out);)*
                    })*
                }
            }
            fn read(
                reader: &mut $crate::raw::Reader<'_>,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(match reader.u8()? {
                    $($tag => Self::$record($crate::membership::field::Field::read(reader)?),)*
                    $($value => Self::$variant { $($field: $crate::membership::field::Field::read(reader)?),* },)*
                    _ => return Err($crate::DecodeError::BadValue),
                })
            }
        }
    };
}

/// Writes `Field` for a struct.
macro_rules! record {
    ($type:ident { $($field:ident),* }) => {
        impl $crate::membership::field::Field for $type {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }
            fn read(
                reader: &mut $crate::raw::Reader<'_>,
            ) -> Result<Self, $crate::DecodeError> {
                Ok(Self { $($field: $crate::membership::field::Field::read(reader)?),* })
            }
        }
    };
}

/// Writes the public codec of a whole message.
macro_rules! codec {
    ($type:ident) => {
        impl $type {
            /// Appends the message.
            pub fn encode(&self, out: &mut Vec<u8>) {
                $crate::membership::field::Field::put(self, out);
            }

            /// Checks and reads a whole message.
            ///
            /// # Errors
            /// The first thing that is wrong with it.
            pub fn decode(bytes: &[u8]) -> Result<Self, $crate::DecodeError> {
                let mut reader = $crate::raw::Reader::new(bytes);
                let message = <Self as $crate::membership::field::Field>::read(&mut reader)?;
                reader.end()?;
                Ok(message)
            }
        }
    };
}

pub(super) use {codec, message, record};
