//! Addresses of live objects.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use qsm::{Builder, ChannelOptions, NetworkOptions, Node};

const SCHEME: &str = "qsm://";

/// A kind of object behind a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// No object: the messages of the group.
    Messages,
    /// A [`LiveMap`](crate::LiveMap).
    Map,
    /// A [`LiveLog`](crate::LiveLog).
    Log,
    /// A `LiveText`, with the feature `text`.
    Text,
}

impl Kind {
    const ALL: [Self; 4] = [Self::Messages, Self::Map, Self::Log, Self::Text];

    /// The word for it in an address.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Map => "map",
            Self::Log => "log",
            Self::Text => "text",
        }
    }
}

/// The address of a live object: `qsm://CLUSTER/GROUP?type=map`.
///
/// `type` is `map`, `log`, `text`, or `messages`, the default. `interface`, `discovery` and `data-port` say how the
/// cluster is reached, as the options of that name do. Other characters than letters, digits and `-._~/*` may be
/// written as `%` and two hexadecimal digits; the group may contain `/`.
///
/// ```
/// let uri: qsm_replica::Uri = "qsm://floor/prices/eur?type=map&interface=lo".parse()?;
/// assert_eq!((&*uri.cluster, &*uri.group), ("floor", "prices/eur"));
/// assert_eq!(uri.kind, qsm_replica::Kind::Map);
/// # Ok::<(), qsm_replica::UriError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uri {
    /// Name of the cluster.
    pub cluster: String,
    /// Name of the group.
    pub group: String,
    /// Kind of the object.
    pub kind: Kind,
    /// The network interface, if given.
    pub interface: Option<String>,
    /// The address at which membership services are looked for, if given.
    pub discovery: Option<SocketAddr>,
    /// The port of the multicast addresses, if given.
    pub data_port: Option<u16>,
}

/// Why a text is no address of the object that is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UriError {
    /// It does not begin with `qsm://`, or has no cluster or no group.
    Form {
        /// The text.
        text: String,
    },
    /// A `%` without two hexadecimal digits, or bytes that are not UTF-8.
    Escape {
        /// The part with it.
        part: String,
    },
    /// A parameter is not known, or its value is not of its form.
    Parameter {
        /// The parameter.
        text: String,
    },
    /// The object at this address is of another kind.
    Kind {
        /// The kind that the address names.
        named: Kind,
        /// The kind that is asked for.
        asked: Kind,
    },
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Form { text } => write!(
                f,
                "{text:?} is no address of a group; give one such as qsm://CLUSTER/GROUP?type=map"
            ),
            Self::Escape { part } => write!(
                f,
                "{part:?} has a % that is no byte of UTF-8; write a % itself as %25"
            ),
            Self::Parameter { text } => write!(
                f,
                "the parameter {text:?} is none of an address; it takes type=map, log, text or messages, \
                 interface=NAME, discovery=ADDRESS:PORT and data-port=PORT"
            ),
            Self::Kind { named, asked } => write!(
                f,
                "the address says type={}, and a {} is asked for; write type={}, or bind to what it names",
                named.word(),
                asked.word(),
                asked.word()
            ),
        }
    }
}

impl std::error::Error for UriError {}

impl FromStr for Uri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        let form = || {
            let text = text.to_owned();
            UriError::Form { text }
        };
        let rest = text.strip_prefix(SCHEME).ok_or_else(form)?;
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (cluster, group) = path.split_once('/').ok_or_else(form)?;
        let (cluster, group) = (unescaped(cluster)?, unescaped(group)?);
        if cluster.is_empty() || group.is_empty() {
            return Err(form());
        }
        let mut uri = Self {
            cluster,
            group,
            kind: Kind::Messages,
            interface: None,
            discovery: None,
            data_port: None,
        };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            uri.set(parameter)?;
        }
        Ok(uri)
    }
}

impl Uri {
    fn set(&mut self, parameter: &str) -> Result<(), UriError> {
        let unknown = || {
            let text = parameter.to_owned();
            UriError::Parameter { text }
        };
        let (name, value) = parameter.split_once('=').ok_or_else(unknown)?;
        let value = unescaped(value)?;
        match name {
            "type" => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.word() == value);
                self.kind = kind.ok_or_else(unknown)?;
            }
            "interface" if !value.is_empty() => self.interface = Some(value),
            "discovery" => self.discovery = Some(value.parse().map_err(|_| unknown())?),
            "data-port" => self.data_port = Some(value.parse().map_err(|_| unknown())?),
            _ => return Err(unknown()),
        }
        Ok(())
    }

    /// Refuses an address of another kind of object.
    ///
    /// # Errors
    /// [`UriError::Kind`].
    pub fn admit(&self, asked: Kind) -> Result<(), UriError> {
        match self.kind {
            named if named == asked => Ok(()),
            named => Err(UriError::Kind { named, asked }),
        }
    }

    /// A node of that cluster, to be started.
    pub fn node(&self) -> Builder {
        let mut network = NetworkOptions::new();
        if let Some(interface) = &self.interface {
            network = network.interface(interface.as_str());
        }
        if let Some(discovery) = self.discovery {
            network = network.discovery(discovery);
        }
        let builder = Node::builder()
            .cluster(self.cluster.as_str())
            .network(network);
        match self.data_port {
            Some(port) => builder.channels(ChannelOptions::new().port(port)),
            None => builder,
        }
    }
}

/// A part without its escapes.
fn unescaped(part: &str) -> Result<String, UriError> {
    let wrong = || {
        let part = part.to_owned();
        UriError::Escape { part }
    };
    let mut bytes = Vec::with_capacity(part.len());
    let mut left = part.bytes();
    while let Some(byte) = left.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(left.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (high, low) = digit().zip(digit()).ok_or_else(wrong)?;
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Uri, UriError> {
        text.parse()
    }

    #[test]
    fn an_address_has_cluster_group_kind_and_the_way_there() {
        let uri = parse("qsm://the%20floor/prices/eur?type=log&discovery=239.1.2.3:4&data-port=5");
        let uri = uri.unwrap();
        assert_eq!((&*uri.cluster, &*uri.group), ("the floor", "prices/eur"));
        assert_eq!(uri.kind, Kind::Log);
        assert_eq!(uri.discovery, Some("239.1.2.3:4".parse().unwrap()));
        assert_eq!((uri.data_port, uri.interface), (Some(5), None));
        assert_eq!(parse("qsm://a/b").unwrap().kind, Kind::Messages);
    }

    #[test]
    fn nonsense_is_refused_with_a_remedy() {
        for (text, said) in [
            ("http://a/b", "qsm://CLUSTER/GROUP"),
            ("qsm://a", "qsm://CLUSTER/GROUP"),
            ("qsm:///b", "qsm://CLUSTER/GROUP"),
            ("qsm://a/", "qsm://CLUSTER/GROUP"),
            ("qsm://a/b%2", "%25"),
            ("qsm://a/b%ff", "%25"),
            ("qsm://a/b%+1", "%25"),
            ("qsm://a/b?type=set", "type=map, log, text"),
            ("qsm://a/b?colour=red", "it takes type="),
            ("qsm://a/b?discovery=here", "ADDRESS:PORT"),
            ("qsm://a/b?data-port=70000", "data-port=PORT"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(said), "{text}: {error}");
        }
        let log = parse("qsm://a/b?type=log").unwrap();
        let error = log.admit(Kind::Map).unwrap_err().to_string();
        assert!(error.contains("write type=map"), "{error}");
        assert!(log.admit(Kind::Log).is_ok());
    }
}
