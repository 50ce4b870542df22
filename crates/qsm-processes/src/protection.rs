//! Keys that are made for one run and gone with it: one for all processes, or one and a token for each.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use qsm::{Cipher, ClusterKey, KeyFileError, OriginDemand, write_key, write_secret};
use qsm_console::failure::Failure;
use qsm_identity::{Claims, ClusterRoot, NodeKey, Role, Roles, Serial};

/// For so long tokens hold, seconds: longer than any run.
const TOKEN_SECONDS: u64 = 7 * 86_400;

/// Protection of a run's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protection {
    /// Nothing.
    None,
    /// One key for all processes.
    Key,
    /// Tokens: each process proves a key of its own, and packets are sealed by keys that the service gives out.
    Tokens,
    /// Tokens, and proof of origin that all groups demand: senders seal what they send.
    Origin(OriginDemand),
}

/// Keys of the processes of a run, in a folder of their own.
#[derive(Debug)]
pub(crate) struct Keys {
    folder: PathBuf,
    cipher: Cipher,
    kind: KeysKind,
}

#[derive(Debug)]
enum KeysKind {
    Shared,
    Own {
        root: ClusterRoot,
        cluster: String,
        /// Hints for the service.
        hints: &'static str,
    },
}

impl Keys {
    /// Makes what a protection with this cipher needs for this cluster; `None`: nothing.
    pub(crate) fn make(
        protection: Protection,
        cipher: Cipher,
        cluster: &str,
    ) -> Result<Option<Self>, Failure> {
        let kind = match protection {
            Protection::None => return Ok(None),
            Protection::Key => KeysKind::Shared,
            Protection::Tokens => KeysKind::own(cluster, "")?,
            Protection::Origin(OriginDemand::Audit) => KeysKind::own(cluster, "origin audit: *")?,
            Protection::Origin(OriginDemand::Verified) => {
                KeysKind::own(cluster, "origin verified: *")?
            }
        };
        static FOLDERS: AtomicU32 = AtomicU32::new(0);
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("qsm-run-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let made = DirBuilder::new().mode(0o700).create(&folder);
        made.map_err(|error| Failure::io(format!("make {}", folder.display()), &error))?;
        // From here on it is deleted, whatever fails.
        let keys = Self {
            folder,
            cipher,
            kind,
        };
        keys.write_common()?;
        Ok(Some(keys))
    }

    fn write_common(&self) -> Result<(), Failure> {
        match &self.kind {
            KeysKind::Shared => {
                let key = ClusterKey::generate(self.cipher).map_err(no_random)?;
                write_key(self.folder.join("cluster.key"), &key).map_err(not_written)
            }
            KeysKind::Own { root, hints, .. } => {
                self.write("root.pub", &root.public().to_string())?;
                self.write("hints.txt", hints)
            }
        }
    }

    fn write(&self, name: &str, content: &str) -> Result<(), Failure> {
        let path = self.folder.join(name);
        let written = fs::write(&path, content);
        written.map_err(|error| Failure::io(format!("write {}", path.display()), &error))
    }

    /// The options of a process: its key, which is made for it now; where keys are given out by the service, also that
    /// one's cipher, and hints, if there are some.
    pub(crate) fn options(&self, process: usize, service: bool) -> Result<Vec<String>, Failure> {
        let mut options = vec![self.key_option(process, service)?];
        if let KeysKind::Own { hints, .. } = &self.kind
            && service
        {
            options.push(format!("--cipher={}", self.cipher));
            if !hints.is_empty() {
                let path = self.folder.join("hints.txt");
                options.push(format!("--hints={}", path.display()));
            }
        }
        Ok(options)
    }

    /// The option by which a process uses its key. A service's may do nothing else.
    fn key_option(&self, process: usize, service: bool) -> Result<String, Failure> {
        match &self.kind {
            KeysKind::Shared => {
                let path = self.folder.join("cluster.key");
                Ok(format!("--key={}", path.display()))
            }
            KeysKind::Own { root, cluster, .. } => {
                let key = NodeKey::generate().map_err(no_random)?;
                let path = self.folder.join(format!("{process}.key"));
                write_secret(&path, &key.to_text()).map_err(not_written)?;
                let token = root.issue(claims(cluster, &key, service)?);
                let token = token.map_err(|error| {
                    Failure::failed(format!("no token can be made: {error}"), "report it")
                })?;
                write_secret(path.with_extension("token"), &token.to_string())
                    .map_err(not_written)?;
                Ok(format!("--identity={}", path.display()))
            }
        }
    }
}

impl KeysKind {
    fn own(cluster: &str, hints: &'static str) -> Result<Self, Failure> {
        Ok(Self::Own {
            root: ClusterRoot::generate().map_err(no_random)?,
            cluster: cluster.to_owned(),
            hints,
        })
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // What is left then, the system clears away.
        fs::remove_dir_all(&self.folder).ok();
    }
}

fn claims(cluster: &str, key: &NodeKey, service: bool) -> Result<Claims, Failure> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = since.map_or(0, |since| since.as_secs());
    let all = || {
        let pattern = "**".parse();
        pattern.map_err(|error: qsm::PatternError| Failure::failed(error.to_string(), "report it"))
    };
    let (roles, groups) = match service {
        true => (Roles::NONE.with(Role::Service), Vec::new()),
        false => {
            let roles = Roles::NONE.with(Role::Publish).with(Role::Subscribe);
            (roles, vec![all()?])
        }
    };
    Ok(Claims {
        cluster: cluster.to_owned(),
        serial: Serial::random().map_err(no_random)?,
        name: all()?,
        node_key: Some(key.public()),
        roles,
        not_before: now,
        expires: now + TOKEN_SECONDS,
        publish: groups.clone(),
        subscribe: groups,
    })
}

fn no_random(error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!("no key can be made: {error}"), "try again later")
}

fn not_written(error: KeyFileError) -> Failure {
    let cause = io::Error::other(error.to_string());
    Failure::io("write the keys of a run".to_owned(), &cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(protection: Protection) -> Option<Keys> {
        Keys::make(protection, Cipher::ChaCha20Poly1305, "plant").unwrap()
    }

    #[test]
    fn keys_are_gone_with_their_run_and_each_process_has_its_own() {
        assert!(keys(Protection::None).is_none());
        let shared = keys(Protection::Key).unwrap();
        assert_eq!(
            shared.options(0, true).unwrap(),
            shared.options(1, false).unwrap()
        );
        let key = fs::read_to_string(shared.folder.join("cluster.key")).unwrap();
        assert!(key.contains("chacha20-poly1305"), "{key}");
        let own = keys(Protection::Tokens).unwrap();
        let options = [own.options(0, true), own.options(1, false)].map(Result::unwrap);
        let mut options: Vec<String> = options.into_iter().flatten().collect();
        assert_eq!(options.remove(1), "--cipher=chacha20-poly1305");
        assert_eq!(options.len(), 2, "no hints: {options:?}");
        let verified = Protection::Origin(OriginDemand::Verified);
        let proven = keys(verified).unwrap();
        let [service, node] =
            [(0, true), (1, false)].map(|(at, service)| proven.options(at, service).unwrap());
        let hints = service[2].strip_prefix("--hints=").unwrap();
        assert_eq!(fs::read_to_string(hints).unwrap(), "origin verified: *");
        assert_eq!(node.len(), 1);
        assert_ne!(options[0], options[1]);
        for option in &options {
            let key = option.strip_prefix("--identity=").unwrap();
            let token = key.replace(".key", ".token");
            qsm::Identity::read(key, token, own.folder.join("root.pub")).unwrap();
        }
        let folders = [shared.folder.clone(), own.folder.clone()];
        drop((shared, own));
        assert!(folders.iter().all(|folder| !folder.exists()));
    }
}
