use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use qsm_identity::{Grant, NodeKey, NodePublic, Role, RootKey, Token, TokenError};

use crate::key::{KeyFileError, read_secret};

/// Longest file of a token or of a root's public key that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 16;

/// Identity of a node or a membership service: its key, the token that says what it may do, and the root that makes
/// tokens. With it a cluster lets nobody in who has none.
///
/// ```no_run
/// use qsm::{Identity, NetworkOptions, Node};
///
/// let identity = Identity::read("node.key", "node.token", "root.pub")?;
/// let network = NetworkOptions::new().identity(identity);
/// let node = Node::builder().name("press-7/reader").network(network).start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Identity {
    key: Arc<NodeKey>,
    token: Token,
    root: RootKey,
}

impl Identity {
    /// Of these parts, which are checked when a node or a service starts.
    #[must_use]
    pub fn new(key: NodeKey, token: Token, root: RootKey) -> Self {
        let key = Arc::new(key);
        Self { key, token, root }
    }

    /// Reads the key, which nobody but its owner may read, the token and the root's public key from files.
    ///
    /// # Errors
    /// [`IdentityError`]: a file cannot be read, holds something else, or others may read the key.
    pub fn read(
        key: impl AsRef<Path>,
        token: impl AsRef<Path>,
        root: impl AsRef<Path>,
    ) -> Result<Self, IdentityError> {
        let path = key.as_ref();
        let text = read_secret(path)?;
        let key = text.parse::<NodeKey>().map_err(|error| {
            IdentityError::new(
                format!("{} holds no key of a node: {error}", path.display()),
                "`qsm keygen FILE --node` makes one",
            )
        })?;
        let remedy = "copy it again, whole, or have another made by `qsm token new`";
        let token: Token = read(token.as_ref(), "a token", remedy)?;
        let root: RootKey = read(root.as_ref(), "the public key of a root", "name `root.pub`")?;
        Ok(Self::new(key, token, root))
    }

    /// The public half of the key.
    #[must_use]
    pub fn public(&self) -> NodePublic {
        self.key.public()
    }

    /// The root that is trusted.
    #[must_use]
    pub fn root(&self) -> RootKey {
        self.root
    }

    pub(super) fn key(&self) -> &Arc<NodeKey> {
        &self.key
    }

    pub(super) fn token(&self) -> &Token {
        &self.token
    }

    /// Checks that the token holds now, in this cluster and with this key, for what it is to be used for.
    pub(crate) fn check(&self, cluster: &str, bearer: Bearer<'_>) -> Result<(), IdentityError> {
        let grant = self.token.verify(&self.root, unix_now(), cluster);
        let grant = grant.map_err(|error| {
            let remedy = match error {
                TokenError::NotYet { .. } => "compare the clocks of both hosts",
                TokenError::Cluster { .. } => "name the token's cluster, or use another token",
                _ => "have another made by `qsm token new`",
            };
            IdentityError::new(error.to_string(), remedy)
        })?;
        if grant.node_key().is_some_and(|key| key != self.public()) {
            return Err(IdentityError::new(
                "the token is bound to another node's key".to_owned(),
                "use the key that it was made for, or have a token made for this one",
            ));
        }
        match bearer {
            Bearer::Service => is_service(&grant),
            Bearer::Node(name) if !grant.may_join(name) => Err(IdentityError::new(
                format!("the token does not allow the name {name:?}"),
                "use a name that it allows, or have another token made",
            )),
            Bearer::Node(_) | Bearer::Observer => Ok(()),
        }
    }
}

/// User of an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bearer<'a> {
    Service,
    /// A node of this name.
    Node(&'a str),
    /// One who only looks.
    Observer,
}

/// Without secrets.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("public", &self.public())
            .finish_non_exhaustive()
    }
}

pub(super) fn is_service(grant: &Grant) -> Result<(), IdentityError> {
    if !grant.roles().has(Role::Service) {
        return Err(IdentityError::new(
            "the token is not one of a membership service".to_owned(),
            "use that of a service, which `qsm init` and `qsm token new --role service` make",
        ));
    }
    match grant.node_key() {
        Some(_) => Ok(()),
        None => Err(IdentityError::new(
            "the token of a membership service is bound to its key, and this one to none"
                .to_owned(),
            "have another made by `qsm token new --role service --node KEY`",
        )),
    }
}

/// Seconds since 1970 by this host's clock.
pub(super) fn unix_now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

fn read<T: FromStr<Err: fmt::Display>>(
    path: &Path,
    what: &str,
    remedy: &str,
) -> Result<T, IdentityError> {
    let shown = path.display();
    let mut text = String::new();
    let read =
        File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_string(&mut text));
    read.map_err(|error: io::Error| {
        let remedy = format!("name a file with {what} that this user may read");
        IdentityError::new(format!("{shown} cannot be read: {error}"), &remedy)
    })?;
    text.parse::<T>()
        .map_err(|error| IdentityError::new(format!("{shown} holds not {what}: {error}"), remedy))
}

/// Reason for which an identity cannot be used, and a remedy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityError {
    cause: String,
    remedy: String,
}

impl IdentityError {
    pub(crate) fn new(cause: String, remedy: &str) -> Self {
        let remedy = remedy.to_owned();
        Self { cause, remedy }
    }

    /// The reason alone.
    #[must_use]
    pub fn cause(&self) -> &str {
        &self.cause
    }

    /// Remedy: a thing to do about it.
    #[must_use]
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for IdentityError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.cause, self.remedy)
    }
}

impl std::error::Error for IdentityError {}

impl From<KeyFileError> for IdentityError {
    fn from(error: KeyFileError) -> Self {
        Self::new(error.to_string(), &error.remedy())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use qsm_identity::{Claims, ClusterRoot, Roles, Serial};

    use super::*;

    /// A node that has this role; `bound`: its token is its key's.
    pub(in super::super) fn identity(root: &ClusterRoot, role: Role, bound: bool) -> Identity {
        let key = NodeKey::generate().unwrap();
        let now = unix_now();
        let claims = Claims {
            cluster: "plant".to_owned(),
            serial: Serial::random().unwrap(),
            name: "press-7/**".parse().unwrap(),
            node_key: bound.then(|| key.public()),
            roles: Roles::NONE.with(role),
            not_before: now,
            expires: now + 60,
            publish: Vec::new(),
            subscribe: Vec::new(),
        };
        let token = root.issue(claims).unwrap();
        Identity::new(key, token, root.public())
    }

    #[test]
    fn a_token_is_checked_before_a_node_or_a_service_starts() {
        let root = ClusterRoot::generate().unwrap();
        let node = identity(&root, Role::Relay, true);
        assert_eq!(node.check("plant", Bearer::Node("press-7/a")), Ok(()));
        let cause = |cluster, bearer| node.check(cluster, bearer).unwrap_err().to_string();
        assert!(cause("farm", Bearer::Observer).contains("for the cluster \"plant\""));
        assert!(
            cause("plant", Bearer::Node("press-8")).contains("does not allow the name \"press-8\"")
        );
        assert!(cause("plant", Bearer::Service).contains("not one of a membership service"));
        let other = Identity {
            key: Arc::new(NodeKey::generate().unwrap()),
            ..node.clone()
        };
        let error = other.check("plant", Bearer::Node("press-7/a")).unwrap_err();
        assert!(error.cause().contains("another node's key"), "{error}");
        assert!(!error.remedy().is_empty());
    }
}
