//! Frames: what one datagram carries of a handshake (R-SEC-6).
//!
//! ```text
//!  Ask       | 1 | attempt (8) | zeros (24)  |
//!  Cookie    | 2 | attempt (8) | cookie (24) |
//!  ToServer  | 3 | attempt (8) | cookie (24) | number | level | content |
//!  ToClient  | 4 | attempt (8) |               number | level | content |
//! ```

/// Bytes of a cookie.
pub(crate) const COOKIE_BYTES: usize = 24;
/// Most bytes of TLS in a fragment. A `ServerHello` with the hybrid key exchange takes one.
pub(crate) const FRAGMENT_BYTES: usize = 1280;
/// Bytes by which protected content is longer.
pub(crate) const TAG_BYTES: usize = 16;
/// The longest frame. With the headers of packets, UDP and IPv6 it fits 1420 bytes, as tunnels leave them.
pub const FRAME_BYTES_MAX: usize = TO_SERVER_BYTES + FRAGMENT_BYTES + TAG_BYTES;

const ASK_BYTES: usize = 1 + ATTEMPT_BYTES + COOKIE_BYTES;
const TO_SERVER_BYTES: usize = ASK_BYTES + 2;
const ATTEMPT_BYTES: usize = 8;

pub(crate) type Cookie = [u8; COOKIE_BYTES];

/// Tells the handshakes of one client apart, and whoever sees none of its packets cannot guess it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Attempt(pub(crate) [u8; ATTEMPT_BYTES]);

/// By what a fragment is protected (RFC 9001, 2.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// By nothing.
    Initial,
    /// By the keys of the handshake.
    Handshake,
    /// By the keys that both ends have proven to have.
    Session,
}

impl Level {
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Initial => 0,
            Self::Handshake => 1,
            Self::Session => 2,
        }
    }

    fn of(code: u8) -> Option<Self> {
        [Self::Initial, Self::Handshake, Self::Session]
            .into_iter()
            .find(|level| level.code() == code)
    }
}

/// A piece of what one end says, numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment<'a> {
    pub(crate) number: u8,
    pub(crate) level: Level,
    pub(crate) content: &'a [u8],
}

/// Content of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Saying<'a> {
    Ask,
    Cookie(Cookie),
    ToServer(Cookie, Fragment<'a>),
    ToClient(Fragment<'a>),
}

/// A frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) attempt: Attempt,
    pub(crate) saying: Saying<'a>,
}

/// Returns whether a frame is one for a client. Who is a client and a server at once gives it to the client.
#[must_use]
pub fn is_to_client(bytes: &[u8]) -> bool {
    let frame = Frame::decode(bytes);
    frame.is_some_and(|frame| matches!(frame.saying, Saying::Cookie(_) | Saying::ToClient(_)))
}

impl<'a> Frame<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FRAME_BYTES_MAX);
        let kind = match self.saying {
            Saying::Ask => 1,
            Saying::Cookie(_) => 2,
            Saying::ToServer(..) => 3,
            Saying::ToClient(_) => 4,
        };
        bytes.push(kind);
        bytes.extend_from_slice(&self.attempt.0);
        match self.saying {
            Saying::Ask => bytes.extend_from_slice(&[0; COOKIE_BYTES]),
            Saying::Cookie(cookie) | Saying::ToServer(cookie, _) => {
                bytes.extend_from_slice(&cookie);
            }
            Saying::ToClient(_) => {}
        }
        if let Saying::ToServer(_, fragment) | Saying::ToClient(fragment) = self.saying {
            bytes.extend_from_slice(&[fragment.number, fragment.level.code()]);
            bytes.extend_from_slice(fragment.content);
        }
        bytes
    }

    /// `None` for what is no frame.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let (attempt, rest) = rest.split_first_chunk::<ATTEMPT_BYTES>()?;
        let saying = match kind {
            1 if rest == [0; COOKIE_BYTES] => Saying::Ask,
            2 => Saying::Cookie(rest.try_into().ok()?),
            3 => {
                let (cookie, rest) = rest.split_first_chunk::<COOKIE_BYTES>()?;
                Saying::ToServer(*cookie, fragment(rest)?)
            }
            4 => Saying::ToClient(fragment(rest)?),
            _ => return None,
        };
        Some(Self {
            attempt: Attempt(*attempt),
            saying,
        })
    }
}

fn fragment(bytes: &[u8]) -> Option<Fragment<'_>> {
    let ([number, level], content) = bytes.split_first_chunk::<2>()?;
    let fits = content.len() <= FRAGMENT_BYTES + TAG_BYTES;
    (fits && !content.is_empty()).then_some(Fragment {
        number: *number,
        level: Level::of(*level)?,
        content,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_cookie_is_longer_than_what_asks_for_it() {
        let attempt = Attempt([7; 8]);
        let length = |saying| Frame { attempt, saying }.encode().len();
        let cookie = length(Saying::Cookie([1; COOKIE_BYTES]));
        let fragment = Fragment {
            number: 0,
            level: Level::Initial,
            content: &[0],
        };
        assert!(cookie <= length(Saying::Ask));
        assert!(cookie <= length(Saying::ToServer([1; COOKIE_BYTES], fragment)));
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_written(
            attempt in any::<[u8; 8]>(),
            cookie in any::<[u8; COOKIE_BYTES]>(),
            number in any::<u8>(),
            code in 0_u8..3,
            content in prop::collection::vec(any::<u8>(), 1..=FRAGMENT_BYTES + TAG_BYTES),
        ) {
            let level = Level::of(code).unwrap();
            let fragment = Fragment { number, level, content: &content };
            for saying in [
                Saying::Ask,
                Saying::Cookie(cookie),
                Saying::ToServer(cookie, fragment),
                Saying::ToClient(fragment),
            ] {
                let frame = Frame { attempt: Attempt(attempt), saying };
                let bytes = frame.encode();
                prop_assert!(bytes.len() <= FRAME_BYTES_MAX);
                prop_assert_eq!(Frame::decode(&bytes), Some(frame));
                let to_client = matches!(saying, Saying::Cookie(_) | Saying::ToClient(_));
                prop_assert_eq!(is_to_client(&bytes), to_client);
                let longer = [&bytes[..], &vec![0; FRAME_BYTES_MAX]].concat();
                prop_assert_eq!(Frame::decode(&longer), None);
            }
        }

        #[test]
        fn what_is_read_is_written_again_as_it_was(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Some(frame) = Frame::decode(&bytes) {
                prop_assert_eq!(frame.encode(), bytes);
            }
        }
    }
}
