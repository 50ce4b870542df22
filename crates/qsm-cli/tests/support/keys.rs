use super::{Cluster, assert_code, qsm, text};

/// A cluster's root, and keys of those who have tokens of it.
pub(crate) struct Keys {
    cluster: Cluster,
}

impl Keys {
    pub(crate) fn new() -> Self {
        let keys = Self {
            cluster: Cluster::without_service(),
        };
        let folder = keys.folder();
        assert_code(
            &qsm()
                .args(["init", &folder, "--cluster", "plant"])
                .output()
                .unwrap(),
            0,
        );
        keys
    }

    pub(crate) fn folder(&self) -> String {
        text(&self.cluster.folder.join("plant"))
    }

    /// The file of a new key, beside it a token for this name and with these rights.
    pub(crate) fn key(&self, name: &str, rights: &[&str]) -> String {
        self.key_in(name, name, rights)
    }

    /// The file of a new key for a gateway of this site, which receives all others, with a token.
    pub(crate) fn of_site(&self, file: &str, site: &str) -> String {
        let stream = format!("site/{site}");
        self.key_in(file, site, &["--publish", &stream, "--subscribe", "site/*"])
    }

    fn key_in(&self, file: &str, name: &str, rights: &[&str]) -> String {
        let folder = self.folder();
        let [key, token] = ["key", "token"].map(|end| format!("{folder}/{file}.{end}"));
        assert_code(&qsm().args(["keygen", &key, "--node"]).output().unwrap(), 0);
        let words = ["token", "new", &folder, "--name", name, "--node", &key];
        let mut made = qsm();
        made.args(words).args(rights).args(["--output", &token]);
        assert_code(&made.output().unwrap(), 0);
        key
    }
}

/// The file of a new key, in this cluster's folder, that ends of streams can have in common.
pub(crate) fn content_key(cluster: &Cluster, name: &str) -> String {
    let file = text(&cluster.folder.join(name));
    assert_code(&qsm().args(["keygen", &file]).output().unwrap(), 0);
    file
}
