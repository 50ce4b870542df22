//! URIs by which certificates name nodes and their rights.

use core::fmt;
use core::str::FromStr;

use qsm_identity::{Pattern, PatternError, Role, Roles};

/// Begin of all such URIs.
const SCHEME: &str = "qsm://";
/// Longest URI that is read, bytes.
const URI_BYTES_MAX: usize = 4096;

/// Names and rights of a node: `qsm://CLUSTER/NAME?publish=GROUPS&subscribe=GROUPS&role=ROLE`. Name and groups may be
/// patterns, each parameter may come again, and bytes that have a meaning in URIs stand as `%` and two digits (RFC 3986
/// §2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameUri {
    /// Name of the cluster.
    pub cluster: String,
    /// Names that the node may have.
    pub name: Pattern,
    /// Roles; to publish and to subscribe follow from groups.
    pub roles: Roles,
    /// Groups that it may publish to, in order.
    pub publish: Vec<Pattern>,
    /// Groups that it may receive, in order.
    pub subscribe: Vec<Pattern>,
}

/// Returns whether this is a URI of some cluster.
pub(crate) fn is_ours(uri: &str) -> bool {
    uri.get(..SCHEME.len())
        .is_some_and(|begin| begin.eq_ignore_ascii_case(SCHEME))
}

impl FromStr for NameUri {
    type Err = UriError;

    fn from_str(text: &str) -> Result<Self, UriError> {
        if !is_ours(text) {
            return Err(UriError::Scheme);
        }
        if text.len() > URI_BYTES_MAX {
            return Err(UriError::TooLong(text.len()));
        }
        let rest = &text[SCHEME.len()..];
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (cluster, name) = place.split_once('/').ok_or(UriError::NoName)?;
        let mut uri = Self {
            cluster: decoded(cluster)?,
            name: pattern(name)?,
            roles: Roles::NONE,
            publish: Vec::new(),
            subscribe: Vec::new(),
        };
        for parameter in query.split('&').filter(|parameter| !parameter.is_empty()) {
            uri.take(parameter)?;
        }
        for groups in [&mut uri.publish, &mut uri.subscribe] {
            groups.sort();
            groups.dedup();
        }
        Ok(uri)
    }
}

impl NameUri {
    fn take(&mut self, parameter: &str) -> Result<(), UriError> {
        let (key, value) = parameter.split_once('=').unwrap_or((parameter, ""));
        let role = match key {
            "publish" => {
                self.publish.push(pattern(value)?);
                Role::Publish
            }
            "subscribe" => {
                self.subscribe.push(pattern(value)?);
                Role::Subscribe
            }
            "role" => {
                let role: Option<Role> = value.parse().ok();
                let of_groups = |role: &Role| matches!(role, Role::Publish | Role::Subscribe);
                let role = role.filter(|role| !of_groups(role));
                role.ok_or_else(|| UriError::Role(shown(value)))?
            }
            _ => return Err(UriError::Parameter(shown(key))),
        };
        self.roles = self.roles.with(role);
        Ok(())
    }
}

fn pattern(text: &str) -> Result<Pattern, UriError> {
    let text = decoded(text)?;
    let parsed = text.parse();
    parsed.map_err(|error| UriError::Pattern(shown(&text), error))
}

/// Text whose escapes are resolved.
fn decoded(text: &str) -> Result<String, UriError> {
    let wrong = || UriError::Escape(shown(text));
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next()), digit(rest.next()));
                let pair = high.zip(low).ok_or_else(wrong)?;
                bytes.push((pair.0 << 4 | pair.1) as u8);
            }
            b'#' | b' ' => return Err(wrong()),
            _ => bytes.push(byte),
        }
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

/// As much of a foreign text as an error says.
fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Reason for which a text is no such URI.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum UriError {
    /// It does not begin with `qsm://`.
    Scheme,
    /// It is longer than any that is read: this many bytes.
    TooLong(usize),
    /// No name follows the cluster.
    NoName,
    /// Something is not escaped as it has to be.
    Escape(String),
    /// A name or group is none, nor a pattern.
    Pattern(String, PatternError),
    /// A role is not known, or follows from groups.
    Role(String),
    /// A parameter is not known.
    Parameter(String),
}

impl fmt::Display for UriError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scheme => write!(f, "does not begin with {SCHEME}"),
            Self::TooLong(bytes) => {
                write!(f, "has {bytes} bytes, and {URI_BYTES_MAX} are allowed")
            }
            Self::NoName => f.write_str("has no name behind the cluster"),
            Self::Escape(text) => {
                write!(f, "has {text:?}, which is not escaped as URIs are")
            }
            Self::Pattern(text, error) => {
                write!(f, "has {text:?}, which is no name or pattern: {error}")
            }
            Self::Role(role) => {
                write!(
                    f,
                    "has the role {role:?}; there are relay, admin and service"
                )
            }
            Self::Parameter(key) => {
                write!(
                    f,
                    "has the parameter {key:?}; there are publish, subscribe and role"
                )
            }
        }
    }
}

impl core::error::Error for UriError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NameUri, UriError> {
        text.parse()
    }

    #[test]
    fn a_uri_says_what_a_token_says() {
        let uri = read("qsm://plant/press-7/**?subscribe=orders/*&publish=b&publish=a&role=relay");
        let uri = uri.unwrap();
        assert_eq!(
            (uri.cluster.as_str(), uri.name.as_str()),
            ("plant", "press-7/**")
        );
        assert_eq!(uri.publish, ["a", "b"].map(|text| text.parse().unwrap()));
        assert_eq!(uri.subscribe, ["orders/*".parse().unwrap()]);
        assert_eq!(uri.roles.to_string(), "publish, subscribe, relay");
        let bare = read("QSM://plant/press").unwrap();
        assert!(bare.roles.is_empty());
        let escaped = read("qsm://a%20b/x?publish=50%25%26more").unwrap();
        assert_eq!(
            (escaped.cluster.as_str(), escaped.publish[0].as_str()),
            ("a b", "50%&more")
        );
    }

    #[test]
    fn what_is_no_such_uri_is_refused_with_the_reason() {
        for text in ["", "qsm:/", "http://plant/a", "plant/a"] {
            assert_eq!(read(text), Err(UriError::Scheme), "{text}");
        }
        assert_eq!(read("qsm://plant"), Err(UriError::NoName));
        for text in [
            "qsm://p/a%2",
            "qsm://p/a%zz",
            "qsm://p/a?publish=%ff",
            "qsm://p/a#x",
        ] {
            assert!(matches!(read(text), Err(UriError::Escape(_))), "{text}");
        }
        for text in ["qsm://p/a**?role=relay", "qsm://p/a?publish=b*"] {
            assert!(matches!(read(text), Err(UriError::Pattern(..))), "{text}");
        }
        for text in [
            "qsm://p/a?role=root",
            "qsm://p/a?role=publish",
            "qsm://p/a?role",
        ] {
            assert!(matches!(read(text), Err(UriError::Role(_))), "{text}");
        }
        assert!(matches!(
            read("qsm://p/a?group=x"),
            Err(UriError::Parameter(_))
        ));
        let long = format!("qsm://p/{}", "a".repeat(URI_BYTES_MAX));
        assert!(matches!(read(&long), Err(UriError::TooLong(_))));
    }
}
