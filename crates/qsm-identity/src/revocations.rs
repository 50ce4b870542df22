//! Lists of what is revoked, signed by the cluster's root.

use core::fmt;
use core::str::FromStr;

use crate::form::{self, CLUSTER_BYTES_MAX, Malformed, Reader};
use crate::keys::{ClusterRoot, NodePublic, RootKey, SIGNATURE_BYTES};
use crate::serial::Serial;
use crate::text::{self, TextError};

/// Most tokens in a list.
pub const REVOKED_SERIALS_MAX: usize = 4096;
/// Most keys of nodes in a list.
pub const REVOKED_KEYS_MAX: usize = 1024;

const VERSION: u8 = 1;
/// Kind of what is signed.
const KIND: &[u8] = b"quicksilver revocations 1\0";

/// Content of a list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RevokedParts {
    /// Name of the cluster, 1 to [`CLUSTER_BYTES_MAX`] bytes.
    pub cluster: String,
    /// Number of the list; a list with a greater one takes its place. Not 0.
    pub number: u64,
    /// Tokens that hold no more, at most [`REVOKED_SERIALS_MAX`].
    pub serials: Vec<Serial>,
    /// Keys of nodes that are admitted by no token, at most [`REVOKED_KEYS_MAX`].
    pub keys: Vec<NodePublic>,
}

impl RevokedParts {
    fn encode(&self) -> Result<Vec<u8>, Malformed> {
        let mut out = vec![VERSION];
        form::put_name(
            &mut out,
            "the cluster's name",
            &self.cluster,
            CLUSTER_BYTES_MAX,
        )?;
        out.extend_from_slice(&self.number.to_be_bytes());
        form::put_count(&mut out, "serials", self.serials.len(), REVOKED_SERIALS_MAX)?;
        for serial in &self.serials {
            out.extend_from_slice(&serial.0.to_be_bytes());
        }
        form::put_count(&mut out, "keys", self.keys.len(), REVOKED_KEYS_MAX)?;
        for key in &self.keys {
            out.extend_from_slice(key.as_bytes());
        }
        self.check()?;
        Ok(out)
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Self, Malformed> {
        match reader.byte()? {
            VERSION => {}
            other => return Err(Malformed::Version(other)),
        }
        let cluster = reader.name("the cluster's name", CLUSTER_BYTES_MAX)?;
        let number = reader.number()?;
        let count = count(reader, "serials", REVOKED_SERIALS_MAX)?;
        let serials = (0..count).map(|_| reader.number().map(Serial));
        let serials = serials.collect::<Result<_, _>>()?;
        let count = self::count(reader, "keys", REVOKED_KEYS_MAX)?;
        let keys = (0..count).map(|_| reader.array().map(NodePublic::from_bytes));
        let keys = keys.collect::<Result<_, _>>()?;
        let parts = Self {
            cluster: cluster.to_owned(),
            number,
            serials,
            keys,
        };
        parts.check()?;
        Ok(parts)
    }

    fn check(&self) -> Result<(), Malformed> {
        if self.number == 0 || self.serials.first() == Some(&Serial(0)) {
            return Err(Malformed::NoNumber);
        }
        form::check_order("serials", &self.serials)?;
        form::check_order("keys", &self.keys)
    }
}

fn count(reader: &mut Reader<'_>, of: &'static str, max: usize) -> Result<usize, Malformed> {
    let count = reader.count()?;
    match count > max {
        true => Err(Malformed::TooMany { of, max }),
        false => Ok(count),
    }
}

impl ClusterRoot {
    /// Makes a list. It is put in order, and what is in it twice is left out.
    ///
    /// # Errors
    /// [`Malformed`]: no list can say this.
    pub fn revoke(&self, mut parts: RevokedParts) -> Result<Revocations, Malformed> {
        parts.serials.sort();
        parts.serials.dedup();
        parts.keys.sort();
        parts.keys.dedup();
        let mut bytes = parts.encode()?;
        self.sign(KIND, &mut bytes);
        Ok(Revocations { parts, bytes })
    }
}

/// A list of what is revoked, which says nothing before [`Revocations::verify`].
#[derive(Clone, PartialEq, Eq)]
pub struct Revocations {
    parts: RevokedParts,
    /// Those of the parts, and the signature.
    bytes: Vec<u8>,
}

impl Revocations {
    /// A list of its bytes, not verified.
    ///
    /// # Errors
    /// [`Malformed`]: they are not those of a list, to the last byte.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let parts = RevokedParts::decode(&mut reader)?;
        reader.array::<SIGNATURE_BYTES>()?;
        reader.end()?;
        let bytes = bytes.to_vec();
        Ok(Self { parts, bytes })
    }

    /// Its bytes: at most about 64 KiB.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its content, whoever made it.
    #[must_use]
    pub fn parts(&self) -> &RevokedParts {
        &self.parts
    }

    /// Checks that this root made the list, and for this cluster.
    ///
    /// # Errors
    /// [`RevocationError::Signature`], [`RevocationError::Cluster`].
    pub fn verify(&self, root: &RootKey, cluster: &str) -> Result<(), RevocationError> {
        if !root.has_signed(KIND, &self.bytes) {
            return Err(RevocationError::Signature);
        }
        match self.parts.cluster == cluster {
            true => Ok(()),
            false => Err(RevocationError::Cluster {
                of: self.parts.cluster.clone(),
                here: cluster.to_owned(),
            }),
        }
    }

    /// Checks that it may take the place of another list of the same root.
    ///
    /// # Errors
    /// [`RevocationError::Older`]; [`RevocationError::Twice`]: both have one number, and are not the same.
    pub fn check_after(&self, former: &Self) -> Result<(), RevocationError> {
        let (number, known) = (self.parts.number, former.parts.number);
        match number.cmp(&known) {
            core::cmp::Ordering::Less => Err(RevocationError::Older { number, known }),
            core::cmp::Ordering::Equal if self.parts != former.parts => {
                Err(RevocationError::Twice { number })
            }
            _ => Ok(()),
        }
    }

    /// Returns whether the token of this number is in it.
    #[must_use]
    pub fn has_serial(&self, serial: Serial) -> bool {
        self.parts.serials.binary_search(&serial).is_ok()
    }

    /// Returns whether this key of a node is in it.
    #[must_use]
    pub fn has_key(&self, key: &NodePublic) -> bool {
        self.parts.keys.binary_search(key).is_ok()
    }
}

/// Text: `qsm-revoked-1.` and its bytes in base64url.
impl fmt::Display for Revocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&text::write(text::REVOCATIONS, &self.bytes))
    }
}

impl fmt::Debug for Revocations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Revocations").field(&self.parts).finish()
    }
}

impl FromStr for Revocations {
    type Err = RevocationError;

    /// Reads what is displayed, or a file of it.
    fn from_str(text: &str) -> Result<Self, RevocationError> {
        let bytes = text::read(text::REVOCATIONS, text)?;
        Ok(Self::decode(&bytes)?)
    }
}

/// Reason for which a list of revocations is not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum RevocationError {
    /// The text is not that of a list.
    Text(TextError),
    /// The bytes are not those of a list.
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
    /// A newer list is known.
    Older {
        /// Number of this one.
        number: u64,
        /// Number of the one that is known.
        known: u64,
    },
    /// The root made two lists of this number: its files were copied, or restored from an old copy.
    Twice {
        /// The number.
        number: u64,
    },
}

impl fmt::Display for RevocationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(error) => error.fmt(f),
            Self::Malformed(error) => write!(f, "the list of revocations is damaged: {error}"),
            Self::Signature => f.write_str(
                "the list of revocations was not signed by this cluster's root, or was changed since",
            ),
            Self::Cluster { of, here } => write!(
                f,
                "the list of revocations is for the cluster {of:?}, and this is {here:?}"
            ),
            Self::Older { number, known } => write!(
                f,
                "the list of revocations has number {number}, and number {known} is known already"
            ),
            Self::Twice { number } => write!(
                f,
                "there are two lists of revocations with number {number}; was the root restored from an old copy?"
            ),
        }
    }
}

impl core::error::Error for RevocationError {}

impl From<TextError> for RevocationError {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

impl From<Malformed> for RevocationError {
    fn from(error: Malformed) -> Self {
        Self::Malformed(error)
    }
}
