use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use qsm_identity::{Grant, NodeKey, NodePublic, Role, RootKey, Token, TokenError};
use qsm_x509::{Anchors, CertificateError, Chain};

use super::revocations::{CRL_BYTES_MAX, CertificateLists};
use crate::key::{KeyFileError, read_secret};

/// Longest file of a token, of a root's public key or of certificates that is read, bytes.
const FILE_BYTES_MAX: u64 = 1 << 18;

/// Identity of a node or a membership service: its key, the token or the certificates that say what it may do, and whom
/// it trusts to make such: a root that makes tokens, authorities that issue certificates, or both. With it a cluster lets
/// nobody in who has none.
///
/// ```no_run
/// use qsm::{Identity, NetworkOptions, Node};
///
/// let identity = Identity::read("node.key", "node.token", "root.pub")?;
/// let network = NetworkOptions::new().identity(identity);
/// let node = Node::builder().name("press-7/reader").network(network).start()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// By certificates of X.509, in a cluster whose service has a token:
///
/// ```no_run
/// use qsm::Identity;
///
/// let identity = Identity::read_certificate("node.pem", "node-key.pem")?.trust_root_of("root.pub")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Identity {
    key: Arc<NodeKey>,
    credential: Credential,
    root: Option<RootKey>,
    anchors: Option<Arc<Anchors>>,
    crl: Option<PathBuf>,
}

/// Account of an identity's rights that it shows.
#[derive(Debug, Clone)]
enum Credential {
    Token(Token),
    Chain(Arc<Chain>),
}

impl Identity {
    /// Of these parts, which are checked when a node or a service starts.
    #[must_use]
    pub fn new(key: NodeKey, token: Token, root: RootKey) -> Self {
        Self {
            root: Some(root),
            ..Self::of(key, Credential::Token(token))
        }
    }

    /// Of a key and certificates for it, which are checked when a node or a service starts. Nobody is trusted yet:
    /// [`Identity::trust`], [`Identity::trust_root`].
    #[must_use]
    pub fn certified(key: NodeKey, certificates: Chain) -> Self {
        Self::of(key, Credential::Chain(Arc::new(certificates)))
    }

    fn of(key: NodeKey, credential: Credential) -> Self {
        Self {
            key: Arc::new(key),
            credential,
            root: None,
            anchors: None,
            crl: None,
        }
    }

    /// Trusts tokens of this root, in the place of another root's.
    #[must_use]
    pub fn trust_root(mut self, root: RootKey) -> Self {
        self.root = Some(root);
        self
    }

    /// Trusts certificates of these authorities, in the place of others'.
    #[must_use]
    pub fn trust(mut self, anchors: Anchors) -> Self {
        self.anchors = Some(Arc::new(anchors));
        self
    }

    /// Reads a certificate of X.509, with those between it and an authority behind it, and the private key that it is
    /// for, which nobody but its owner may read: both in PEM, the key of Ed25519 in PKCS #8.
    ///
    /// # Errors
    /// [`IdentityError`]: a file cannot be read, holds something else, or others may read the key.
    pub fn read_certificate(
        certificate: impl AsRef<Path>,
        private_key: impl AsRef<Path>,
    ) -> Result<Self, IdentityError> {
        let path = private_key.as_ref();
        let key = qsm_x509::node_key(read_secret(path)?.as_bytes());
        let key = key.map_err(|error| of_file(path, &error))?;
        let path = certificate.as_ref();
        let chain = Chain::from_pem(read_text(path, "a certificate")?.as_bytes());
        let chain = chain.map_err(|error| of_file(path, &error))?;
        Ok(Self::certified(key, chain))
    }

    /// Trusts the root whose public key is in this file, as [`Identity::trust_root`].
    ///
    /// # Errors
    /// [`IdentityError`]: it cannot be read, or holds something else.
    pub fn trust_root_of(self, path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let root = read(path.as_ref(), "the public key of a root", "name `root.pub`")?;
        Ok(self.trust_root(root))
    }

    /// Trusts the authorities whose certificates are in this file, in PEM, as [`Identity::trust`].
    ///
    /// # Errors
    /// [`IdentityError`]: it cannot be read, or holds something else.
    pub fn trust_of(self, path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        let text = read_text(path, "certificates of authorities")?;
        let anchors = Anchors::from_pem(text.as_bytes());
        Ok(self.trust(anchors.map_err(|error| of_file(path, &error))?))
    }

    /// Takes no certificate that is in a list of revoked ones in this file, in PEM; each list is of one of the authorities
    /// that are trusted already, or of one that they have certified. It is read again within a second of each change: a
    /// service shuts out who is revoked, and a node leaves a service that is.
    ///
    /// # Errors
    /// [`IdentityError`]: it cannot be read, holds something else, or no authority is trusted.
    pub fn revoked_of(mut self, path: impl AsRef<Path>) -> Result<Self, IdentityError> {
        let path = path.as_ref();
        let text = read_bounded(path, "lists of revoked certificates", CRL_BYTES_MAX)?;
        self = self.with_revoked(&text).map_err(|reason| {
            let remedy = "name a file in PEM, and the authorities whose it is by `--trust`";
            IdentityError::new(format!("{}: {reason}", path.display()), remedy)
        })?;
        self.crl = Some(path.to_owned());
        Ok(self)
    }

    /// The same with these lists of revoked certificates.
    fn with_revoked(mut self, pem: &str) -> Result<Self, String> {
        let anchors = self.anchors.as_ref();
        let anchors = anchors.ok_or("no authority is trusted whose list it could be")?;
        let listed = anchors.with_revoked(pem.as_bytes());
        self.anchors = Some(Arc::new(listed.map_err(|error| error.to_string())?));
        Ok(self)
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

    /// The root that is trusted, if one is.
    #[must_use]
    pub fn root(&self) -> Option<RootKey> {
        self.root
    }

    /// The same with authorities that know of other lists.
    pub(crate) fn with_anchors(mut self, anchors: Arc<Anchors>) -> Self {
        self.anchors = Some(anchors);
        self
    }

    /// The authorities that are trusted, if there are.
    pub(crate) fn anchors(&self) -> Option<&Arc<Anchors>> {
        self.anchors.as_ref()
    }

    /// The file of lists of revoked certificates, if there is one, to be read again when it changes.
    pub(crate) fn lists(&self) -> Option<CertificateLists> {
        let anchors = Arc::clone(self.anchors.as_ref()?);
        Some(CertificateLists::new(anchors, self.crl.clone()?))
    }

    /// The key, both halves.
    #[must_use]
    pub fn key(&self) -> &Arc<NodeKey> {
        &self.key
    }

    /// The token, as it was read: whether it holds is checked where it is used. `None`: a certificate is in
    /// its place.
    #[must_use]
    pub fn token(&self) -> Option<&Token> {
        match &self.credential {
            Credential::Token(token) => Some(token),
            Credential::Chain(_) => None,
        }
    }

    /// Bytes of the token or of the certificates, which are shown.
    pub(super) fn credential(&self) -> &[u8] {
        match &self.credential {
            Credential::Token(token) => token.as_bytes(),
            Credential::Chain(chain) => chain.as_bytes(),
        }
    }

    /// Checks that the token or certificate holds now, in this cluster and with this key, for what it is to be used for.
    /// The issuer of a certificate others judge.
    pub(crate) fn check(&self, cluster: &str, bearer: Bearer<'_>) -> Result<(), IdentityError> {
        if self.root.is_none() && self.anchors.is_none() {
            return Err(IdentityError::new(
                "neither a root nor an authority is trusted, so nobody could be let in".to_owned(),
                "name the root's public key by `--root`, or certificates of authorities by `--trust`",
            ));
        }
        let grant = match &self.credential {
            Credential::Token(token) => self.check_token(token, cluster)?,
            Credential::Chain(chain) => self.check_chain(chain, cluster)?,
        };
        match bearer {
            Bearer::Service => is_service(&grant),
            Bearer::Node(name) if !grant.may_join(name) => Err(IdentityError::new(
                format!("the token or certificate does not allow the name {name:?}"),
                "use a name that it allows, or have another one made",
            )),
            Bearer::Node(_) | Bearer::Observer => Ok(()),
        }
    }

    fn check_chain(&self, chain: &Chain, cluster: &str) -> Result<Grant, IdentityError> {
        let checked = match chain.node_key() == self.public() {
            true => chain
                .check_time(unix_now())
                .and_then(|()| chain.claimed(cluster)),
            false => Err(CertificateError::OtherKey),
        };
        checked.map_err(|error| IdentityError::new(error.to_string(), error.remedy()))
    }

    fn check_token(&self, token: &Token, cluster: &str) -> Result<Grant, IdentityError> {
        let verified = self.root.ok_or(TokenError::Signature);
        let grant = verified.and_then(|root| token.verify(&root, unix_now(), cluster));
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
        Ok(grant)
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
            "the token or certificate is not one of a membership service".to_owned(),
            "use the token of a service, which `qsm init` and `qsm token new --role service` make, or a certificate whose \
             URI has role=service",
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
    let parsed = read_text(path, what)?.parse::<T>();
    parsed.map_err(|error| {
        let shown = path.display();
        IdentityError::new(format!("{shown} holds not {what}: {error}"), remedy)
    })
}

fn read_text(path: &Path, what: &str) -> Result<String, IdentityError> {
    read_bounded(path, what, FILE_BYTES_MAX)
}

fn read_bounded(path: &Path, what: &str, bytes_max: u64) -> Result<String, IdentityError> {
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max).read_to_string(&mut text));
    read.map_err(|error: io::Error| {
        let shown = path.display();
        let remedy = format!("name a file with {what} that this user may read");
        IdentityError::new(format!("{shown} cannot be read: {error}"), &remedy)
    })?;
    Ok(text)
}

/// Error about a file of X.509.
fn of_file(path: &Path, error: &CertificateError) -> IdentityError {
    IdentityError::new(format!("{}: {error}", path.display()), error.remedy())
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
