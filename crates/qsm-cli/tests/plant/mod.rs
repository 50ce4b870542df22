//! A cluster that takes tokens: the folder of its root, its service as a process, and its members.

#![allow(dead_code, reason = "each test file uses its own part")]

use std::net::SocketAddr;
use std::process::{Output, Stdio};

use qsm::{Identity, Observer};

use crate::support::{Cluster, Lines, Running, assert_code, qsm, text};

/// A cluster that takes tokens, its service, and the folder of its root.
pub(crate) struct Plant {
    pub(crate) cluster: Cluster,
    pub(crate) folder: String,
    service: Option<(Running, SocketAddr)>,
}

impl Plant {
    pub(crate) fn new() -> Self {
        Self::with_hints("")
    }

    /// With hints for the service.
    pub(crate) fn with_hints(hints: &str) -> Self {
        let mut plant = Self::without_service();
        let key = plant.file("service.key");
        let hints = plant.cluster.file("hints.txt", hints.as_bytes());
        let words = ["--identity", &key, "--hints", &hints];
        let (service, address) = plant.cluster.start_gms(&words, Stdio::inherit());
        plant.cluster.use_service(&address);
        plant.service = Some((service, address.parse().unwrap()));
        plant
    }

    pub(crate) fn without_service() -> Self {
        let cluster = Cluster::without_service();
        let folder = text(&cluster.folder.join("plant"));
        let name = cluster.option("--cluster").to_owned();
        let made = qsm().args(["init", &folder, "--cluster", &name]).output();
        assert_code(&made.unwrap(), 0);
        Self {
            cluster,
            folder,
            service: None,
        }
    }

    /// Lines of the service's standard output.
    pub(crate) fn service_events(&mut self) -> Lines {
        let (service, _) = self.service.as_mut().unwrap();
        Lines::of_stdout(&mut service.0)
    }

    pub(crate) fn service_address(&self) -> SocketAddr {
        self.service.as_ref().unwrap().1
    }

    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.folder)
    }

    /// A new key and a token with these rights.
    pub(crate) fn member(&self, name: &str, rights: &[&str]) -> String {
        let (key, token) = (
            self.file(&format!("{name}.key")),
            self.file(&format!("{name}.token")),
        );
        let made = qsm().args(["keygen", &key, "--node"]).output();
        assert_code(&made.unwrap(), 0);
        let words = ["token", "new", &self.folder, "--name", "**", "--node", &key];
        let made = qsm()
            .args(words)
            .args(rights)
            .args(["--output", &token])
            .output();
        assert_code(&made.unwrap(), 0);
        key
    }

    pub(crate) fn start(&self, words: &[&str], key: &str) -> Running {
        self.cluster.start(&[words, &["--identity", key]].concat())
    }

    /// Starts one whose input the test writes.
    pub(crate) fn start_writing(&self, words: &[&str], key: &str) -> Running {
        let words = [words, &["--identity", key]].concat();
        let mut command = self.cluster.command(&words);
        Running(command.stdin(Stdio::piped()).spawn().unwrap())
    }

    pub(crate) fn run(&self, words: &[&str], key: &str, input: &[u8]) -> Output {
        self.cluster
            .run(&[words, &["--identity", key]].concat(), input)
    }

    pub(crate) fn identity(&self, key: &str) -> Identity {
        let token = key.replace(".key", ".token");
        Identity::read(key, token, self.file("root.pub")).unwrap()
    }

    /// One who asks the service for lists.
    pub(crate) fn observer(&self, key: &str) -> Observer {
        let discovery = self.cluster.option("--discovery").parse().unwrap();
        let network = qsm::NetworkOptions::new()
            .interface("lo")
            .discovery(discovery)
            .identity(self.identity(key));
        let observer = Observer::builder()
            .cluster(self.cluster.option("--cluster"))
            .network(network)
            .service(self.service_address());
        observer.open().unwrap()
    }
}
