//! Receivers of a node's messages, by name, and what they are not known to have.

use core::fmt;
use std::sync::Arc;
use std::time::Duration;

use qsm_wire::Origin;

use crate::unconfirmed::{RANGES_SHOWN, Unconfirmed};

/// Receivers that a text names; the others are counted.
const RECEIVERS_SHOWN: usize = 8;

/// A receiver: a node, or one core thread of it. `Display` is its name, or else its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Receiver {
    /// Its identity, in the life that it is in.
    pub origin: Origin,
    /// The name that the membership service knows it by; `None` if the service did not answer within
    /// a second.
    pub name: Option<Arc<str>>,
}

/// Receivers that are there, and messages of this node that they are not known to have.
///
/// Acknowledgements are for all live receivers together: of several that are named here as live, at
/// least one lacks the messages. Of one that is away nothing is known since it went, and what was
/// sent since then is named.
///
/// ```
/// use std::time::Duration;
/// use qsm::{Node, RequestError};
///
/// # let node = Node::builder()
/// #   .cluster(format!("doc-lacking-{}", std::process::id()))
/// #   .embedded_service(qsm::Embedded::Always)
/// #   .interface("lo")
/// #   .start()?;
/// let lacking = match node.flush(Duration::from_secs(5)) {
///     // All that are waited for have everything. What those miss that are away is kept for them.
///     Ok(flushed) => flushed.away,
///     Err(RequestError::Timeout { outstanding: Some(left), .. }) => left.lacking,
///     Err(error) => return Err(error.into()),
/// };
/// for one in lacking {
///     println!("{one}");
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lacking {
    /// The receivers; of many the first.
    pub receivers: Vec<Receiver>,
    /// Number of further ones.
    pub receivers_more: u64,
    /// Time for which this node has known that they are away, that is, silent and not waited for; `None`:
    /// they are live.
    pub away: Option<Duration>,
    /// Which messages, by group; of many ranges the first.
    pub messages: Vec<Unconfirmed>,
    /// Number of messages in further ranges.
    pub messages_more: u64,
    /// This node still has all of these messages. If not, receivers that are away get the newest, as
    /// many as [`Builder::retention_bytes`](crate::Builder::retention_bytes) holds, and are told
    /// which ones they miss.
    pub kept: bool,
}

/// The receivers of a group that a node knows of, other than itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Receivers {
    /// Those that are waited for; of many the first.
    pub live: Vec<Receiver>,
    /// Number of further ones.
    pub live_more: u64,
    /// Those that are silent, and get later what they miss; of many the first.
    pub away: Vec<Receiver>,
    /// Number of further ones.
    pub away_more: u64,
}

impl Receiver {
    /// Without a name yet.
    pub(crate) fn of(origin: Origin) -> Self {
        Self { origin, name: None }
    }
}

impl Lacking {
    /// Number of messages.
    #[must_use]
    pub fn messages(&self) -> u64 {
        let named = self.messages.iter().map(Unconfirmed::messages);
        named.sum::<u64>() + self.messages_more
    }

    /// Number of receivers.
    #[must_use]
    pub fn receivers(&self) -> u64 {
        self.receivers.len() as u64 + self.receivers_more
    }
}

impl Receivers {
    /// Number of receivers.
    #[must_use]
    pub fn count(&self) -> u64 {
        let named = self.live.len() + self.away.len();
        named as u64 + self.live_more + self.away_more
    }
}

impl fmt::Display for Receiver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => f.write_str(name),
            None => write!(f, "node {}", self.origin),
        }
    }
}

/// `slow lacks 5199 messages (group news 4801..=9999 of life 1)`, without a semicolon.
impl fmt::Display for Lacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (several, messages) = (self.receivers() > 1, self.messages());
        if several && self.away.is_none() {
            f.write_str("at least one of ")?;
        }
        names(f, &self.receivers, self.receivers_more)?;
        if let Some(away) = self.away {
            write!(f, ", away for {:.1} s,", away.as_secs_f64())?;
        }
        let lack = match several && self.away.is_some() {
            true => "lack",
            false => "lacks",
        };
        let noun = if messages == 1 { "message" } else { "messages" };
        write!(f, " {lack} {messages} {noun} (")?;
        let shown = self.messages.iter().take(RANGES_SHOWN);
        for (at, range) in shown.clone().enumerate() {
            write!(f, "{}{range}", if at == 0 { "" } else { ", " })?;
        }
        match messages - shown.map(Unconfirmed::messages).sum::<u64>() {
            0 => f.write_str(")")?,
            more => write!(f, ", and {more} more messages)")?,
        }
        match (self.away, self.kept) {
            (None, _) => Ok(()),
            (Some(_), true) => f.write_str(", which are kept for it until it is back or gone"),
            (Some(_), false) => f.write_str(", of which only the newest are kept for it"),
        }
    }
}

impl fmt::Display for Receivers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.count() == 0 {
            return f.write_str("nobody is there");
        }
        names(f, &self.live, self.live_more)?;
        if self.away.is_empty() {
            return Ok(());
        }
        f.write_str(if self.live.is_empty() {
            "away: "
        } else {
            ", away: "
        })?;
        names(f, &self.away, self.away_more)
    }
}

fn names(f: &mut fmt::Formatter<'_>, receivers: &[Receiver], more: u64) -> fmt::Result {
    let shown = receivers.iter().take(RECEIVERS_SHOWN);
    let hidden = (receivers.len() - shown.len()) as u64 + more;
    for (at, receiver) in shown.enumerate() {
        write!(f, "{}{receiver}", if at == 0 { "" } else { ", " })?;
    }
    match hidden {
        0 => Ok(()),
        hidden => write!(f, " and {hidden} more"),
    }
}

#[cfg(test)]
mod tests {
    use qsm_wire::{Incarnation, NodeId};

    use super::*;

    fn receiver(name: &str) -> Receiver {
        let origin = Origin {
            node: NodeId(10),
            incarnation: Incarnation(2),
        };
        Receiver {
            origin,
            name: (!name.is_empty()).then(|| name.into()),
        }
    }

    fn lacking(names: &[&str], away: Option<Duration>) -> Lacking {
        Lacking {
            receivers: names.iter().map(|name| receiver(name)).collect(),
            receivers_more: 0,
            away,
            messages: vec![Unconfirmed {
                group: "news".into(),
                incarnation: Incarnation(1),
                first: 5,
                last: 9,
            }],
            messages_more: 0,
            kept: true,
        }
    }

    #[test]
    fn who_lacks_what_is_said_by_names_and_numbers() {
        assert_eq!(
            lacking(&["slow"], None).to_string(),
            "slow lacks 5 messages (group news 5..=9 of life 1)"
        );
        let two = lacking(&["a", ""], None).to_string();
        assert!(
            two.starts_with("at least one of a, node a.2 lacks"),
            "{two}"
        );
        let away = Some(Duration::from_millis(3210));
        let mut one = lacking(&["sleeper"], away);
        one.messages_more = 2;
        assert_eq!(
            one.to_string(),
            "sleeper, away for 3.2 s, lacks 7 messages (group news 5..=9 of life 1, and 2 more \
             messages), which are kept for it until it is back or gone"
        );
        one.kept = false;
        assert!(one.to_string().ends_with("only the newest are kept for it"));
    }

    #[test]
    fn receivers_are_named_apart_from_those_that_are_away() {
        let mut receivers = Receivers::default();
        assert_eq!(receivers.to_string(), "nobody is there");
        receivers.away.push(receiver("sleeper"));
        assert_eq!(receivers.to_string(), "away: sleeper");
        receivers.live.push(receiver("awake"));
        receivers.live_more = 3;
        assert_eq!(receivers.to_string(), "awake and 3 more, away: sleeper");
        assert_eq!(receivers.count(), 5);
    }
}
