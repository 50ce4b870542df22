//! The folder of a cluster's root: its key, the tokens that it made, and what it revoked.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use qsm::{KeyFileCause, KeyFileError};
use qsm_console::failure::Failure;
use qsm_identity::{
    Claims, ClusterRoot, Malformed, NodeKey, NodePublic, Revocations, RevokedParts, RootKey,
    Serial, Token, TokenError, utc,
};
use zeroize::Zeroizing;

/// File of the root's secret key.
const SECRET: &str = "root.secret";
/// File of the root's public key.
const PUBLIC: &str = "root.pub";
/// File of the tokens that were made, one a line.
const ISSUED: &str = "issued";
/// File of the list of revocations.
const REVOKED: &str = "revoked.list";
/// File of the next list of revocations while it is written.
const NEXT: &str = "revoked.next";

/// Longest file that is read as a public key, a token or a list of revocations, bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest file of tokens that is read, bytes.
const ISSUED_BYTES_MAX: u64 = 1 << 30;
/// Tokens that expired longer ago than this are left out of lists of revocations, seconds: more than clocks are off.
const FORGOTTEN_SECONDS: u64 = 2 * 86_400;

/// The folder of a cluster's root.
#[derive(Debug)]
pub(crate) struct Authority {
    folder: PathBuf,
    root: ClusterRoot,
    revocations: Revocations,
}

impl Authority {
    /// Makes the folder, or takes an empty one, and the root in it.
    ///
    /// # Errors
    /// There is something in it, it cannot be written, or the cluster's name cannot be one.
    pub(crate) fn create(folder: &Path, cluster: &str) -> Result<Self, Failure> {
        let root = ClusterRoot::generate().map_err(no_random)?;
        let parts = RevokedParts {
            cluster: cluster.to_owned(),
            number: 1,
            ..RevokedParts::default()
        };
        let revocations = root.revoke(parts).map_err(|error| {
            Failure::usage(error.to_string(), "name another cluster by --cluster")
        })?;
        empty_folder(folder)?;
        write_secret(&folder.join(SECRET), &root.to_text())?;
        write_public(&folder.join(PUBLIC), &root.public().to_string())?;
        write_public(&folder.join(REVOKED), &revocations.to_string())?;
        write_secret(&folder.join(ISSUED), "")?;
        Ok(Self {
            folder: folder.to_owned(),
            root,
            revocations,
        })
    }

    /// The root in a folder that [`Authority::create`] made.
    ///
    /// # Errors
    /// Files are missing, damaged, not of one root, or others may read the secret ones.
    pub(crate) fn open(folder: &Path) -> Result<Self, Failure> {
        let path = folder.join(SECRET);
        let text = read_secret(&path)?;
        let root: ClusterRoot = text.parse().map_err(|error| unusable(&path, error))?;
        let path = folder.join(REVOKED);
        let revocations = read_revocations(&path)?;
        let cluster = &revocations.parts().cluster;
        let verified = revocations.verify(&root.public(), cluster);
        verified.map_err(|error| unusable(&path, error))?;
        Ok(Self {
            folder: folder.to_owned(),
            root,
            revocations,
        })
    }

    /// Name of the cluster.
    pub(crate) fn cluster(&self) -> &str {
        &self.revocations.parts().cluster
    }

    /// The root's public key.
    pub(crate) fn public(&self) -> RootKey {
        self.root.public()
    }

    /// The list of revocations.
    pub(crate) fn revocations(&self) -> &Revocations {
        &self.revocations
    }

    /// File of the list of revocations.
    pub(crate) fn revocations_path(&self) -> PathBuf {
        self.folder.join(REVOKED)
    }

    /// Makes a token, and notes it before anybody has it.
    ///
    /// # Errors
    /// No token can say this, or it cannot be noted.
    pub(crate) fn issue(&self, claims: Claims) -> Result<Token, Failure> {
        let token = self.root.issue(claims).map_err(|error| {
            let remedy = match error {
                Malformed::NoRole => "say what it may do: --publish, --subscribe or --role",
                Malformed::TooLong { .. } | Malformed::TooMany { .. } => {
                    "use fewer patterns, such as 'prices/**'"
                }
                _ => "see `qsm token new --help`",
            };
            Failure::usage(format!("no token can be so: {error}"), remedy)
        })?;
        let path = self.folder.join(ISSUED);
        let mut options = OpenOptions::new();
        let opened = options.append(true).create(true).mode(0o600).open(&path);
        let written = opened.and_then(|mut file| {
            file.write_all(format!("{token}\n").as_bytes())?;
            file.sync_all()
        });
        written.map_err(|error| Failure::io(format!("write {}", path.display()), &error))?;
        Ok(token)
    }

    /// Tokens that were made, in order.
    ///
    /// # Errors
    /// Their file cannot be read, or there is something else in it.
    pub(crate) fn issued(&self) -> Result<Vec<Token>, Failure> {
        let path = self.folder.join(ISSUED);
        let text = read_text(&path, ISSUED_BYTES_MAX)?;
        let lines = text.lines().enumerate();
        let tokens = lines.map(|(at, line)| {
            let token = line.parse::<Token>();
            token.map_err(|error| {
                let place = format!("line {} of {}: {error}", at + 1, path.display());
                Failure::failed(place, "restore the file from a copy, or delete this line")
            })
        });
        tokens.collect()
    }

    /// Revokes tokens and keys, by a list with the next number. Tokens that expired long ago are left out.
    ///
    /// # Errors
    /// The list would be too long, or cannot be written.
    pub(crate) fn revoke(
        &mut self,
        serials: &[Serial],
        keys: &[NodePublic],
        now: u64,
    ) -> Result<(), Failure> {
        let issued = self.issued()?;
        let forgotten = |serial: &Serial| {
            let made = issued.iter().map(Token::claims);
            let mut made = made.filter(|claims| claims.serial == *serial);
            made.any(|claims| claims.expires.saturating_add(FORGOTTEN_SECONDS) < now)
        };
        let mut parts = self.revocations.parts().clone();
        parts.serials.extend_from_slice(serials);
        parts.serials.retain(|serial| !forgotten(serial));
        parts.keys.extend_from_slice(keys);
        parts.number += 1;
        let list = self.root.revoke(parts).map_err(|error| {
            Failure::failed(
                format!("the list of revocations cannot be made: {error}"),
                "replace the root by `qsm init`, and give tokens of the new one to those who stay",
            )
        })?;
        self.replace(&list)?;
        self.revocations = list;
        Ok(())
    }

    /// Writes the list beside the former one, and then in its place.
    fn replace(&self, list: &Revocations) -> Result<(), Failure> {
        let (path, next) = (self.revocations_path(), self.folder.join(NEXT));
        write_public(&next, &list.to_string()).map_err(|mut failure| {
            failure.remedy = format!(
                "if no other `qsm token revoke` runs, delete {} and try again",
                next.display()
            );
            failure
        })?;
        fs::rename(&next, &path)
            .map_err(|error| Failure::io(format!("write {}", path.display()), &error))
    }
}

/// State of a token, as far as this folder tells.
pub(crate) fn standing(token: &Token, authority: &Authority, now: u64) -> &'static str {
    let verified = token.verify(&authority.root.public(), now, authority.cluster());
    let bound = token.claims().node_key;
    let list = authority.revocations();
    let revoked =
        list.has_serial(token.claims().serial) || bound.is_some_and(|key| list.has_key(&key));
    match verified {
        Err(TokenError::Expired { .. }) => "expired",
        _ if revoked => "revoked",
        Ok(_) => "valid",
        Err(TokenError::NotYet { .. }) => "not yet",
        Err(_) => "foreign",
    }
}

/// Time of the host's clock, seconds since 1970.
///
/// # Errors
/// The clock is before 1970.
pub(crate) fn now() -> Result<u64, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since
        .map(|since| since.as_secs())
        .map_err(|_| Failure::failed("the clock of this host is before 1970", "set the clock"))
}

/// The public key of a node: given as text, or in a file with it or with the secret one.
///
/// # Errors
/// It is neither, or others may read the file with the secret.
pub(crate) fn node_key(given: &str) -> Result<NodePublic, Failure> {
    if let Ok(key) = given.parse() {
        return Ok(key);
    }
    let path = Path::new(given);
    let text = read_text(path, FILE_BYTES_MAX)?;
    if let Ok(key) = text.parse() {
        return Ok(key);
    }
    let text = read_secret(path)?;
    let key: NodeKey = text.parse().map_err(|error| unusable(path, error))?;
    Ok(key.public())
}

/// The public key of a root, of a file.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(crate) fn root_key(path: &Path) -> Result<RootKey, Failure> {
    let text = read_text(path, FILE_BYTES_MAX)?;
    text.parse().map_err(|error| unusable(path, error))
}

/// The list of revocations in a file, not verified.
///
/// # Errors
/// The file cannot be read, or holds something else.
pub(crate) fn read_revocations(path: &Path) -> Result<Revocations, Failure> {
    let text = read_text(path, FILE_BYTES_MAX)?;
    text.parse().map_err(|error| unusable(path, error))
}

/// The token that is given as text, in a file, or by `-` on stdin.
///
/// # Errors
/// There is none, or something else.
pub(crate) fn token(given: &str) -> Result<Token, Failure> {
    if given.starts_with("qsm-") {
        let token = given.parse::<Token>();
        return token.map_err(|error| Failure::failed(error.to_string(), NEW_TOKEN));
    }
    let text = match given {
        "-" => {
            let mut text = String::new();
            let read = std::io::stdin()
                .take(FILE_BYTES_MAX)
                .read_to_string(&mut text);
            read.map_err(|error| Failure::io("read stdin", &error))?;
            text
        }
        path => read_text(Path::new(path), FILE_BYTES_MAX)?,
    };
    let token = text.parse::<Token>();
    token.map_err(|error| Failure::failed(format!("{given}: {error}"), NEW_TOKEN))
}

const NEW_TOKEN: &str = "copy it again, whole, or make another by `qsm token new`";

/// Writes a secret into a new file that only its owner may read.
///
/// # Errors
/// The file is there, or cannot be written.
pub(crate) fn write_secret(path: &Path, text: &str) -> Result<(), Failure> {
    let mut line = Zeroizing::new(String::with_capacity(text.len() + 1));
    if !text.is_empty() {
        line.push_str(text);
        line.push('\n');
    }
    let written = qsm::write_secret(path, &line);
    written.map_err(|error| Failure::failed(error.to_string(), error.remedy()))
}

fn write_public(path: &Path, text: &str) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    let opened = options.write(true).create_new(true).mode(0o644).open(path);
    let written = opened.and_then(|mut file| {
        file.write_all(format!("{text}\n").as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| Failure::io(format!("write {}", path.display()), &error))
}

fn read_secret(path: &Path) -> Result<Zeroizing<String>, Failure> {
    qsm::read_secret(path).map_err(|error| Failure::failed(error.to_string(), remedy(&error)))
}

fn remedy(error: &KeyFileError) -> String {
    match error.cause() {
        KeyFileCause::ReadableByOthers(_) => error.remedy(),
        _ => "name the folder that `qsm init` made, or a file of `qsm keygen --node`, that this user may read"
            .to_owned(),
    }
}

fn read_text(path: &Path, max: u64) -> Result<String, Failure> {
    let shown = path.display();
    let mut text = String::new();
    let read = File::open(path).and_then(|file| file.take(max + 1).read_to_string(&mut text));
    match read {
        Ok(length) if length as u64 > max => Err(Failure::failed(
            format!("{shown} has more than {max} bytes"),
            "name another file",
        )),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == ErrorKind::InvalidData => Err(Failure::failed(
            format!("{shown} holds no text"),
            "name another file",
        )),
        Err(error) => Err(Failure::io(format!("read {shown}"), &error)),
    }
}

fn empty_folder(folder: &Path) -> Result<(), Failure> {
    let shown = folder.display();
    let mut builder = fs::DirBuilder::new();
    match builder.mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made.map_err(|error| Failure::io(format!("make {shown}"), &error)),
    }
    let entries = fs::read_dir(folder);
    let mut entries = entries.map_err(|error| Failure::io(format!("read {shown}"), &error))?;
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Failure::failed(
            format!("{shown} is not empty"),
            "name another folder; keys that are in use must not be overwritten",
        )),
    }
}

/// A file that holds something else than it should.
fn unusable(path: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::failed(
        format!("{}: {error}", path.display()),
        "name another file, or restore it from a copy",
    )
}

/// There are no random numbers.
pub(crate) fn no_random(error: impl std::fmt::Display) -> Failure {
    Failure::failed(error.to_string(), "try again later")
}

/// Time for which a token holds, for people.
pub(crate) fn period(claims: &Claims) -> String {
    format!("{} to {}", utc(claims.not_before), utc(claims.expires))
}
