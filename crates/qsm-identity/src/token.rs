//! Tokens: what a node may be and do, signed by the cluster's root.

use core::fmt;
use core::str::FromStr;

use crate::form::{
    self, CLUSTER_BYTES_MAX, GROUP_BYTES_MAX, Malformed, NODE_NAME_BYTES_MAX, Reader,
};
use crate::grant::{Grant, Issuer, PATTERNS_MAX, check_groups};
use crate::keys::{ClusterRoot, NodePublic, RootKey, SIGNATURE_BYTES};
use crate::pattern::Pattern;
use crate::role::Roles;
use crate::serial::Serial;
use crate::text::{self, TextError};
use crate::time::utc;

/// Longest token, bytes.
pub const TOKEN_BYTES_MAX: usize = 4096;
/// A token holds for clocks that are slow by so much, seconds. Its end has no tolerance.
pub const CLOCK_TOLERANCE_SECONDS: u64 = 300;

const VERSION: u8 = 1;
/// Kind of what is signed.
const KIND: &[u8] = b"quicksilver token 1\0";

/// Content of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Name of the cluster that it is for, 1 to [`CLUSTER_BYTES_MAX`] bytes.
    pub cluster: String,
    /// Number by which it is revoked; not 0.
    pub serial: Serial,
    /// Names that the node may have, 1 to [`NODE_NAME_BYTES_MAX`] bytes.
    pub name: Pattern,
    /// The key that the node must have. `None`: any; who has the token may use it.
    pub node_key: Option<NodePublic>,
    /// Roles of the node; at least one.
    pub roles: Roles,
    /// First second at which it holds.
    pub not_before: u64,
    /// First second at which it holds no more.
    pub expires: u64,
    /// Groups that it may publish to: at least one with [`Role::Publish`](crate::Role::Publish), none without.
    pub publish: Vec<Pattern>,
    /// Groups that it may receive: at least one with [`Role::Subscribe`](crate::Role::Subscribe), none without.
    pub subscribe: Vec<Pattern>,
}

impl Claims {
    fn check_groups(&self) -> Result<(), Malformed> {
        check_groups(self.roles, &self.publish, &self.subscribe)
    }

    fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let mut out = vec![VERSION];
        form::put_name(
            &mut out,
            "the cluster's name",
            &self.cluster,
            CLUSTER_BYTES_MAX,
        )?;
        if self.serial.0 == 0 {
            return Err(Malformed::NoNumber);
        }
        out.extend_from_slice(&self.serial.0.to_be_bytes());
        let name = self.name.as_str();
        form::put_name(&mut out, "the node's name", name, NODE_NAME_BYTES_MAX)?;
        out.push(u8::from(self.node_key.is_some()));
        if let Some(key) = &self.node_key {
            out.extend_from_slice(key.as_bytes());
        }
        if self.roles.is_empty() {
            return Err(Malformed::NoRole);
        }
        out.push(self.roles.bits());
        form::check_period(self.not_before, self.expires)?;
        out.extend_from_slice(&self.not_before.to_be_bytes());
        out.extend_from_slice(&self.expires.to_be_bytes());
        self.check_groups()?;
        for groups in [&self.publish, &self.subscribe] {
            form::put_count(&mut out, "patterns of groups", groups.len(), PATTERNS_MAX)?;
            for group in groups {
                form::put_name(&mut out, "a group's name", group.as_str(), GROUP_BYTES_MAX)?;
            }
        }
        Ok(out)
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        let cluster = reader.name("the cluster's name", CLUSTER_BYTES_MAX)?;
        let serial = Serial(reader.number()?);
        if serial.0 == 0 {
            return Err(Malformed::NoNumber);
        }
        let name = reader.pattern("the node's name", NODE_NAME_BYTES_MAX)?;
        let node_key = match reader.byte()? {
            0 => None,
            1 => Some(NodePublic::from_bytes(reader.array()?)),
            other => return Err(Malformed::KeyFlag(other)),
        };
        let bits = reader.byte()?;
        let roles = Roles::from_bits(bits).ok_or(Malformed::Roles(bits))?;
        if roles.is_empty() {
            return Err(Malformed::NoRole);
        }
        let (not_before, expires) = (reader.number()?, reader.number()?);
        form::check_period(not_before, expires)?;
        let claims = Self {
            cluster: cluster.to_owned(),
            serial,
            name,
            node_key,
            roles,
            not_before,
            expires,
            publish: groups(reader)?,
            subscribe: groups(reader)?,
        };
        claims.check_groups()?;
        Ok(claims)
    }
}

fn groups(reader: &mut Reader<'_>) -> Result<Vec<Pattern>, Malformed> {
    let count = reader.count()?;
    if count > PATTERNS_MAX {
        return Err(Malformed::TooMany {
            of: "patterns of groups",
            max: PATTERNS_MAX,
        });
    }
    let groups = (0..count).map(|_| reader.pattern("a group's name", GROUP_BYTES_MAX));
    groups.collect()
}

impl ClusterRoot {
    /// Makes a token. Its lists of groups are put in order, and what is in them twice is left out.
    ///
    /// # Errors
    /// [`Malformed`]: no token can say this.
    pub fn issue(&self, mut claims: Claims) -> Result<Token, Malformed> {
        for groups in [&mut claims.publish, &mut claims.subscribe] {
            groups.sort();
            groups.dedup();
        }
        let mut bytes = claims.encode()?;
        self.sign(KIND, &mut bytes);
        let (length, max) = (bytes.len(), TOKEN_BYTES_MAX);
        match length > max {
            true => Err(Malformed::TooLong { length, max }),
            false => Ok(Token { claims, bytes }),
        }
    }
}

/// A token: claims, and a signature that is not believed before [`Token::verify`].
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    claims: Claims,
    /// Those of the claims, and the signature.
    bytes: Vec<u8>,
}

impl Token {
    /// A token of its bytes, not verified.
    ///
    /// # Errors
    /// [`Malformed`]: they are not those of a token, to the last byte.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let (length, max) = (bytes.len(), TOKEN_BYTES_MAX);
        if length > max {
            return Err(Malformed::TooLong { length, max });
        }
        let mut reader = Reader::new(bytes);
        let claims = Claims::decode(&mut reader)?;
        reader.array::<SIGNATURE_BYTES>()?;
        reader.end()?;
        let bytes = bytes.to_vec();
        Ok(Self { claims, bytes })
    }

    /// Its bytes, at most [`TOKEN_BYTES_MAX`]: what a node shows.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its content, whoever made it. Only [`Token::verify`] tells what it allows.
    #[must_use]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }

    /// Verifies the token for this cluster at this time, in seconds since 1970. Nothing of it is believed before its
    /// signature.
    ///
    /// # Errors
    /// [`TokenError`]: it was not signed by this root, is for another cluster, or holds not yet (by more than
    /// [`CLOCK_TOLERANCE_SECONDS`]) or no more.
    pub fn verify(&self, root: &RootKey, now: u64, cluster: &str) -> Result<Grant, TokenError> {
        if !root.has_signed(KIND, &self.bytes) {
            return Err(TokenError::Signature);
        }
        let claims = &self.claims;
        if claims.cluster != cluster {
            return Err(TokenError::Cluster {
                of: claims.cluster.clone(),
                here: cluster.to_owned(),
            });
        }
        let not_before = claims.not_before;
        if now.saturating_add(CLOCK_TOLERANCE_SECONDS) < not_before {
            return Err(TokenError::NotYet { not_before, now });
        }
        let expires = claims.expires;
        if now >= expires {
            return Err(TokenError::Expired { expires, now });
        }
        Ok(Grant {
            issuer: Issuer::Root {
                root: *root,
                serial: claims.serial,
            },
            name: claims.name.clone(),
            node_key: claims.node_key,
            roles: claims.roles,
            expires,
            publish: claims.publish.clone(),
            subscribe: claims.subscribe.clone(),
        })
    }
}

/// Text: `qsm-token-1.` and its bytes in base64url.
impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::write(text::TOKEN, &self.bytes))
    }
}

/// Without the signature: a token without a key is a secret.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Token").field(&self.claims).finish()
    }
}

impl FromStr for Token {
    type Err = TokenError;

    /// Reads what is displayed, or a file of it.
    fn from_str(text: &str) -> Result<Self, TokenError> {
        let bytes = text::read(text::TOKEN, text)?;
        Ok(Self::decode(&bytes)?)
    }
}

/// Reason for which a token is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TokenError {
    /// The text is not that of a token.
    Text(TextError),
    /// The bytes are not those of a token.
    Malformed(Malformed),
    /// It was not signed by this root, or somebody changed it.
    Signature,
    /// It is for another cluster.
    Cluster {
        /// The one that it is for.
        of: String,
        /// The one that it is shown to.
        here: String,
    },
    /// It holds not yet.
    NotYet {
        /// First second at which it holds.
        not_before: u64,
        /// Time of the clock here.
        now: u64,
    },
    /// It holds no more.
    Expired {
        /// First second at which it held no more.
        expires: u64,
        /// Time of the clock here.
        now: u64,
    },
}

impl fmt::Display for TokenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Malformed(error) => write!(f, "the token is damaged: {error}"),
            Self::Signature => {
                f.write_str("the token was not signed by this cluster's root, or was changed since")
            }
            Self::Cluster { of, here } => {
                write!(
                    f,
                    "the token is for the cluster {of:?}, and this is {here:?}"
                )
            }
            Self::NotYet { not_before, now } => write!(
                f,
                "the token is not valid yet, but from {} on, and it is {} here; is the clock right?",
                utc(*not_before),
                utc(*now)
            ),
            Self::Expired { expires, now } => write!(
                f,
                "the token expired at {}, and it is {} here; if the clock is right, it needs a new token",
                utc(*expires),
                utc(*now)
            ),
        }
    }
}

impl core::error::Error for TokenError {}

impl From<TextError> for TokenError {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

impl From<Malformed> for TokenError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}
