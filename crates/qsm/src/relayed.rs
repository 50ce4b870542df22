//! Messages of other sites: a trailer behind a message's content says from where a gateway has it.

use std::collections::HashMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use qsm_wire::{Incarnation, NodeId, Origin};

/// Last bytes of a message that a gateway has relayed, drawn at random once.
const MARK: [u8; 16] = *b"\xe3\x8d\x51\xf2\x0a\xc7\x94\x7b\x1e\xd8\x66\xbf\x09\x35\xa2\xcd";
/// Node, incarnation, number, lengths of the two names, mark.
const TAIL_BYTES: usize = 8 + 4 + 8 + 1 + 1 + MARK.len();
/// Longest name of a site, bytes.
pub(crate) const SITE_BYTES_MAX: usize = 32;
/// Senders whose numbers are remembered.
const SENDERS_MAX: usize = 1 << 16;

/// Origin of a message that a gateway (`qsm relay site`) has relayed from another site. It is the
/// gateway's word: whoever may publish to the group could write the same. Rule R-RELAY-28.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Relayed<'a> {
    /// Name of the site that it was published in, at most 32 bytes.
    pub site: &'a str,
    /// Name of the node that published it; empty if the gateway did not know it.
    pub name: &'a str,
    /// The node that published it, in one of its lives. Unique in its site only.
    pub sender: Origin,
    /// Number among this sender's messages to this group, as [`Message::number`](crate::Message::number) is in its own site.
    pub number: u64,
}

impl<'a> Relayed<'a> {
    /// Longest trailer, bytes.
    pub const BYTES_MAX: usize = TAIL_BYTES + SITE_BYTES_MAX + u8::MAX as usize;

    /// Of the message with this number of a sender in a site; what is longer than its limit is cut.
    #[must_use]
    pub fn new(site: &'a str, name: &'a str, sender: Origin, number: u64) -> Self {
        Self {
            site: cut(site, SITE_BYTES_MAX),
            name: cut(name, u8::MAX as usize),
            sender,
            number,
        }
    }

    /// Adds the trailer to a content.
    pub fn append(&self, message: &mut Vec<u8>) {
        message.extend_from_slice(self.site.as_bytes());
        message.extend_from_slice(self.name.as_bytes());
        message.extend_from_slice(&self.sender.node.0.to_le_bytes());
        message.extend_from_slice(&self.sender.incarnation.0.to_le_bytes());
        message.extend_from_slice(&self.number.to_le_bytes());
        message.push(u8::try_from(self.site.len()).unwrap_or_default());
        message.push(u8::try_from(self.name.len()).unwrap_or_default());
        message.extend_from_slice(&MARK);
    }

    /// Divides a message into its content and its origin; `None` if it has no trailer, or a damaged one.
    #[must_use]
    #[inline]
    pub fn split(message: &'a [u8]) -> Option<(&'a [u8], Self)> {
        if !message.ends_with(&MARK) {
            return None;
        }
        Self::read(message)
    }

    #[cold]
    fn read(message: &'a [u8]) -> Option<(&'a [u8], Self)> {
        let (rest, tail) = message.split_at_checked(message.len().checked_sub(TAIL_BYTES)?)?;
        let (node, tail) = tail.split_first_chunk()?;
        let (incarnation, tail) = tail.split_first_chunk()?;
        let (number, tail) = tail.split_first_chunk()?;
        let [site, name, ..] = *tail else {
            return None;
        };
        let (rest, name) = rest.split_at_checked(rest.len().checked_sub(name.into())?)?;
        let (content, site) = rest.split_at_checked(rest.len().checked_sub(site.into())?)?;
        let sender = Origin {
            node: NodeId(u64::from_le_bytes(*node)),
            incarnation: Incarnation(u32::from_le_bytes(*incarnation)),
        };
        let (site, name) = (str::from_utf8(site).ok()?, str::from_utf8(name).ok()?);
        let number = u64::from_le_bytes(*number);
        let relayed = Self {
            site,
            name,
            sender,
            number,
        };
        (!site.is_empty() && site.len() <= SITE_BYTES_MAX).then_some((content, relayed))
    }
}

/// Content of a message, without a trailer.
#[inline]
pub(crate) fn content(message: &[u8]) -> &[u8] {
    match Relayed::split(message) {
        Some((content, _)) => content,
        None => message,
    }
}

/// The part of a text that fits.
fn cut(text: &str, most: usize) -> &str {
    let ends = (0..=text.len().min(most)).rev();
    let end = ends.into_iter().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or_default()]
}

/// Place of a relayed message among those of its sender before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RelayedOrder {
    /// The first of its sender in its group, as far as is remembered.
    First,
    /// Follows the one before.
    Next,
    /// Has come before.
    Again,
    /// Follows after a gap.
    After {
        /// First number missing.
        first: u64,
        /// Last number missing.
        last: u64,
    },
}

/// Numbers of relayed messages, by which a reader finds those that are missing or come again, also
/// across the restart of a gateway (rule R-RELAY-29). For readers that get messages in order, and read all of them.
///
/// 65,536 senders are remembered, each in each group; when more come, all are forgotten, and begin anew.
///
/// ```
/// use qsm::{Origin, Relayed, RelayedNumbers, RelayedOrder};
///
/// let mut numbers = RelayedNumbers::default();
/// let mut check = |number| {
///     let relayed = Relayed::new("fra", "ticker", Origin::default(), number);
///     numbers.check(&"prices/eur".into(), &relayed)
/// };
/// assert_eq!(check(7), RelayedOrder::First);
/// assert_eq!(check(8), RelayedOrder::Next);
/// assert_eq!(check(8), RelayedOrder::Again);
/// assert_eq!(check(11), RelayedOrder::After { first: 9, last: 10 });
/// ```
#[derive(Debug, Default)]
pub struct RelayedNumbers {
    last: HashMap<Stream, u64>,
}

/// Messages of one sender in one group.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Stream {
    site: Box<str>,
    sender: Origin,
    group: Arc<str>,
}

impl RelayedNumbers {
    /// Finds the place of a message of this group, and takes note of it.
    pub fn check(&mut self, group: &Arc<str>, relayed: &Relayed<'_>) -> RelayedOrder {
        let number = relayed.number;
        let stream = Stream {
            site: relayed.site.into(),
            sender: relayed.sender,
            group: Arc::clone(group),
        };
        if let Some(last) = self.last.get_mut(&stream) {
            let before = *last;
            *last = before.max(number);
            return match number.checked_sub(before) {
                None | Some(0) => RelayedOrder::Again,
                Some(1) => RelayedOrder::Next,
                Some(_) => RelayedOrder::After {
                    first: before + 1,
                    last: number - 1,
                },
            };
        }
        if self.last.len() == SENDERS_MAX {
            self.forget();
        }
        self.last.insert(stream, number);
        RelayedOrder::First
    }

    /// Begins anew: after a loss that was told by other means.
    pub fn forget(&mut self) {
        self.last.clear();
    }
}

/// Newest numbers of relayed messages that were delivered here. Where a site has several gateways, one that takes over
/// from another publishes again what may not have reached everybody: what is no newer is dropped. Rule R-RELAY-63.
#[derive(Debug, Default)]
pub(crate) struct RelayedOnce {
    newest: HashMap<Source, u64>,
}

/// A sender at another site, in a group.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Source {
    group: u64,
    sender: Origin,
    /// Filled with zeros.
    site: [u8; SITE_BYTES_MAX],
}

impl RelayedOnce {
    /// The number by which a group of this name is known here.
    pub(crate) fn group(&self, name: &str) -> u64 {
        self.newest.hasher().hash_one(name)
    }

    /// Takes note of a message of a group; false if it is relayed, and has come by another gateway.
    #[inline]
    pub(crate) fn takes(&mut self, group: u64, message: &[u8]) -> bool {
        match Relayed::split(message) {
            None => true,
            Some((_, relayed)) => self.is_newer(group, &relayed),
        }
    }

    #[cold]
    fn is_newer(&mut self, group: u64, relayed: &Relayed<'_>) -> bool {
        let mut site = [0; SITE_BYTES_MAX];
        let name = relayed.site.as_bytes();
        site[..name.len()].copy_from_slice(name);
        let sender = relayed.sender;
        if self.newest.len() == SENDERS_MAX {
            self.newest.clear();
        }
        let source = Source {
            group,
            sender,
            site,
        };
        let newest = self.newest.entry(source).or_default();
        let is_newer = relayed.number > *newest;
        *newest = relayed.number.max(*newest);
        is_newer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticker(number: u64) -> Relayed<'static> {
        let (node, incarnation) = (NodeId(7), Incarnation(3));
        Relayed::new("fra", "ticker", Origin { node, incarnation }, number)
    }

    /// R-RELAY-28.
    #[test]
    fn a_trailer_is_read_as_it_was_written_and_is_no_content() {
        let mut bytes = b"1.0842".to_vec();
        ticker(9).append(&mut bytes);
        assert_eq!(Relayed::split(&bytes), Some((&b"1.0842"[..], ticker(9))));
    }

    /// R-RELAY-28.
    #[test]
    fn bytes_without_a_whole_trailer_are_content() {
        let mut sealed = Vec::new();
        ticker(1).append(&mut sealed);
        for damaged in [&sealed[1..], &sealed[..sealed.len() - 1], &MARK, b""] {
            assert_eq!(Relayed::split(damaged), None);
            assert_eq!(content(damaged), damaged);
        }
        sealed[0] = 0xff;
        assert_eq!(Relayed::split(&sealed), None);
    }

    /// R-RELAY-29: of each sender, site and group by itself.
    #[test]
    fn numbers_show_gaps_and_what_comes_again() {
        let mut numbers = RelayedNumbers::default();
        let (one, other) = (Arc::from("one"), Arc::from("other"));
        assert_eq!(numbers.check(&one, &ticker(4)), RelayedOrder::First);
        assert_eq!(numbers.check(&other, &ticker(4)), RelayedOrder::First);
        let after = RelayedOrder::After { first: 5, last: 6 };
        assert_eq!(numbers.check(&one, &ticker(7)), after);
        assert_eq!(numbers.check(&one, &ticker(6)), RelayedOrder::Again);
        assert_eq!(numbers.check(&one, &ticker(8)), RelayedOrder::Next);
        let elsewhere = Relayed {
            site: "lon",
            ..ticker(9)
        };
        assert_eq!(numbers.check(&one, &elsewhere), RelayedOrder::First);
        numbers.forget();
        assert_eq!(numbers.check(&one, &ticker(20)), RelayedOrder::First);
    }

    /// R-RELAY-63: of each sender, site and group by itself; what is not relayed passes.
    #[test]
    fn what_another_gateway_publishes_again_is_not_taken() {
        let mut once = RelayedOnce::default();
        let (one, other) = (once.group("one"), once.group("other"));
        let message = |relayed: Relayed<'_>| {
            let mut bytes = b"1.0842".to_vec();
            relayed.append(&mut bytes);
            bytes
        };
        let elsewhere = Relayed {
            site: "lon",
            ..ticker(1)
        };
        for (group, relayed, expected) in [
            (one, ticker(7), true),
            (one, ticker(7), false),
            (one, ticker(9), true),
            (one, ticker(8), false),
            (other, ticker(7), true),
            (one, elsewhere, true),
        ] {
            assert_eq!(
                once.takes(group, &message(relayed)),
                expected,
                "{relayed:?}"
            );
        }
        assert!(once.takes(one, b"its own") && once.takes(one, b"its own"));
    }

    #[test]
    fn names_that_are_too_long_are_cut_between_characters() {
        let long = "é".repeat(200);
        let relayed = Relayed::new("fra", &long, Origin::default(), 1);
        let mut bytes = Vec::new();
        relayed.append(&mut bytes);
        let (content, read) = Relayed::split(&bytes).unwrap();
        assert!(content.is_empty());
        assert_eq!((read.name.len(), read), (254, relayed));
    }
}
