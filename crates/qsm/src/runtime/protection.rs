//! Protection of a service's sockets: by the cluster's key, or by admission with tokens.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use qsm_identity::{RevocationError, Revocations};
use qsm_net::Ports;
use qsm_seal::{Cipher, ClusterKey};
use qsm_wire::NodeId;
use qsm_x509::Anchors;

use crate::admission::{
    AdmissionStats, Bearer, CertificateLists, Gate, GateLink, GateNews, GateOrder, Identity,
    IdentityError, LIST_BYTES_MAX, Leaves, RevocationFile,
};
use crate::error::StartError;
use crate::runtime::network::NetworkOptions;
use crate::runtime::shield::Shield;

/// Protection of a service's sockets, and what the guard has to tell.
pub(crate) struct Protection {
    cluster: String,
    key: Option<ClusterKey>,
    identity: Option<Identity>,
    cipher: Cipher,
    link: Arc<GateLink>,
    list: Option<RevocationFile>,
    /// Lists of revoked certificates.
    crl: Option<CertificateLists>,
    /// The newest list that holds: each run of the guard begins with it.
    revoked: Option<Revocations>,
    stats: AdmissionStats,
}

impl Protection {
    /// Checks the identity and the list of revocations, if there are.
    pub(crate) fn new(
        network: &NetworkOptions,
        cluster: &str,
        revoked: Option<PathBuf>,
    ) -> Result<Self, StartError> {
        network.check_protection()?;
        let mut this = Self {
            cluster: cluster.to_owned(),
            key: network.key.clone(),
            identity: network.identity.clone(),
            cipher: network.cipher,
            link: Arc::default(),
            list: revoked.map(|path| RevocationFile::new(path, LIST_BYTES_MAX)),
            crl: None,
            revoked: None,
            stats: AdmissionStats::default(),
        };
        this.cipher.check().map_err(|error| {
            let remedy = "start the service with another `--cipher`";
            StartError::Identity(IdentityError::new(error.to_string(), remedy))
        })?;
        match (&this.identity, &mut this.list) {
            (Some(identity), list) => {
                let checked = identity.check(cluster, Bearer::Service);
                checked.map_err(StartError::Identity)?;
                this.crl = identity.lists();
                let read = list.as_mut().and_then(poll_list).transpose();
                let list = read.map_err(no_list)?;
                if let Some(list) = list {
                    let root = identity.root().ok_or(RevocationError::Signature);
                    let verified = root.and_then(|root| list.verify(&root, cluster));
                    verified.map_err(|error| no_list(error.to_string()))?;
                    this.revoked = Some(list);
                }
            }
            (None, Some(_)) => {
                let reason = "there is a list of revocations, and the service has no identity";
                return Err(no_list(reason.to_owned()));
            }
            (None, None) => {}
        }
        Ok(this)
    }

    /// Has the sockets guarded anew: the service begins a run.
    pub(crate) fn guard(&self, ports: &mut Ports) -> Result<(), StartError> {
        if let Some(key) = &self.key {
            ports.protect(Box::new(Shield::new(key, &self.cluster)));
        }
        if let Some(identity) = &self.identity {
            let gate = Gate::new(identity, &self.cluster, self.cipher, Arc::clone(&self.link));
            let gate = gate.map_err(|broken| {
                let error = IdentityError::new(broken.to_string(), "try again later");
                StartError::Identity(error)
            })?;
            ports.protect(Box::new(gate));
            if let Some(list) = &self.revoked {
                self.link.orders.push(GateOrder::Revoke(list.clone()));
            }
        }
        Ok(())
    }

    /// Tells the guard that a node's life is over.
    pub(crate) fn gone(&self, node: NodeId, how: Leaves) {
        if self.identity.is_some() {
            self.link.orders.push(GateOrder::Gone { node, how });
        }
    }

    /// The next news of the guard.
    pub(crate) fn poll(&mut self) -> Option<GateNews> {
        match self.crl.as_mut().and_then(CertificateLists::poll) {
            Some(Ok(anchors)) => self.trust(anchors),
            Some(Err(reason)) => return Some(GateNews::ListRefused { reason }),
            None => {}
        }
        match self.list.as_mut().and_then(poll_list) {
            Some(Ok(list)) => {
                self.keep(&list);
                self.link.orders.push(GateOrder::Revoke(list));
            }
            Some(Err(reason)) => return Some(GateNews::ListRefused { reason }),
            None => {}
        }
        loop {
            match self.link.news.pop()? {
                GateNews::Counted(stats) => self.stats = stats,
                news => return Some(news),
            }
        }
    }

    /// Takes authorities with other lists of revoked certificates, for this guard and those to come.
    fn trust(&mut self, anchors: Arc<Anchors>) {
        let identity = self.identity.take();
        self.identity = identity.map(|identity| identity.with_anchors(Arc::clone(&anchors)));
        self.link.orders.push(GateOrder::Trust(anchors));
    }

    /// Keeps a list for guards to come, if it holds and is not older than the one that is kept.
    fn keep(&mut self, list: &Revocations) {
        let Some(identity) = &self.identity else {
            return;
        };
        let root = identity.root();
        let holds = root.is_some_and(|root| list.verify(&root, &self.cluster).is_ok());
        let kept = self.revoked.as_ref();
        if holds && kept.is_none_or(|kept| list.check_after(kept).is_ok()) {
            self.revoked = Some(list.clone());
        }
    }

    /// When there may be news without a datagram.
    pub(crate) fn due(&self) -> Option<Duration> {
        let list = self.list.as_ref().map(RevocationFile::due);
        let crl = self.crl.as_ref().map(CertificateLists::due);
        list.into_iter().chain(crl).min()
    }

    pub(crate) fn stats(&self) -> AdmissionStats {
        self.stats
    }
}

/// The list of revocations, when it is another one than before.
fn poll_list(file: &mut RevocationFile) -> Option<Result<Revocations, String>> {
    let text = file.poll()?;
    Some(text.and_then(|text| {
        let list = text.parse();
        let shown = file.path().display();
        list.map_err(|error| format!("{shown} holds no list of revocations: {error}"))
    }))
}

fn no_list(reason: String) -> StartError {
    let remedy = "name the file that `qsm token revoke` writes, and the identity of the service";
    StartError::Identity(IdentityError::new(reason, remedy))
}
