//! Services are judged by their tokens or certificates, and by the newest list of revocations that is known (R-SEC-7, R-SEC-12).

use std::sync::Arc;

use qsm_handshake::{Admission, Refused};
use qsm_identity::{
    Grant, NodePublic, Refused as NotAdmitted, RevocationError, Revocations, RootKey, Serial,
    Token, TokenError,
};
use qsm_x509::{Anchors, Chain};

use super::certified::{Certified, Shown, refused as not_certified};
use super::identity::{Identity, is_service};

/// Judge of services, as one with this identity sees them.
#[derive(Debug, Clone)]
pub(super) struct ServiceJudge {
    root: Option<RootKey>,
    anchors: Option<Arc<Anchors>>,
    cluster: String,
    list: Option<Arc<Revocations>>,
}

/// A service that has shown its token, which has a number, or its certificates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Serving {
    key: NodePublic,
    serial: Option<Serial>,
    chain: Option<Arc<Chain>>,
}

impl ServiceJudge {
    /// Of services of this cluster. No list of revocations is known.
    pub(super) fn new(identity: &Identity, cluster: &str) -> Self {
        Self {
            root: identity.root(),
            anchors: identity.anchors().cloned(),
            cluster: cluster.to_owned(),
            list: None,
        }
    }

    /// Takes a list of revocations in the place of an older one. Returns whether it is a newer one.
    pub(super) fn learn(&mut self, list: Arc<Revocations>) -> Result<bool, RevocationError> {
        let root = self.root.ok_or(RevocationError::Signature)?;
        list.verify(&root, &self.cluster)?;
        if let Some(former) = &self.list {
            list.check_after(former)?;
            if list.parts().number == former.parts().number {
                return Ok(false);
            }
        }
        self.list = Some(list);
        Ok(true)
    }

    /// Takes authorities, and what they have revoked, in the place of others.
    pub(super) fn trust(&mut self, anchors: Arc<Anchors>) {
        self.anchors = Some(anchors);
    }

    /// Checks that neither the token, the certificates nor the key of a service were revoked.
    pub(super) fn check(&self, serving: &Serving) -> Result<(), Refused> {
        if let (Some(anchors), Some(chain)) = (&self.anchors, &serving.chain) {
            anchors
                .check(chain)
                .map_err(|error| not_certified(&error))?;
        }
        let Some(list) = &self.list else {
            return Ok(());
        };
        let revoked = if list.has_key(&serving.key) {
            NotAdmitted::KeyRevoked
        } else if let Some(serial) = serving.serial.filter(|serial| list.has_serial(*serial)) {
            NotAdmitted::Revoked(serial)
        } else {
            return Ok(());
        };
        Err(Refused::new(revoked.to_string()))
    }

    fn grant_of_token(&self, credential: &[u8], now: u64) -> Result<Grant, TokenError> {
        let token = Token::decode(credential)?;
        let root = self.root.ok_or(TokenError::Signature)?;
        token.verify(&root, now, &self.cluster)
    }
}

impl Admission for ServiceJudge {
    type Grant = Serving;

    fn admit(&self, key: &[u8; 32], credential: &[u8], now: u64) -> Result<Serving, Refused> {
        let key = NodePublic::from_bytes(*key);
        let (grant, chain) = match Chain::is_chain(credential) {
            true => {
                let shown = Shown {
                    key: &key,
                    credential,
                    now,
                };
                let certified = Certified::verify(self.anchors.as_deref(), &self.cluster, &shown);
                let certified = certified.map_err(|error| not_certified(&error))?;
                (certified.grant, Some(certified.chain))
            }
            false => {
                let grant = self.grant_of_token(credential, now);
                (
                    grant.map_err(|error| Refused::new(error.to_string()))?,
                    None,
                )
            }
        };
        if grant.node_key() != Some(key) {
            return Err(Refused::new("its token is not bound to its key"));
        }
        is_service(&grant).map_err(|error| Refused::new(error.cause()))?;
        let serial = grant.serial();
        let serving = Serving { key, serial, chain };
        self.check(&serving)?;
        Ok(serving)
    }
}

#[cfg(test)]
mod tests {
    use qsm_identity::{ClusterRoot, RevokedParts, Role};

    use super::super::identity::tests::identity;
    use super::super::identity::unix_now;
    use super::*;

    const CLUSTER: &str = "plant";

    fn admit(judge: &ServiceJudge, identity: &Identity) -> Result<Serving, Refused> {
        let key = *identity.public().as_bytes();
        judge.admit(&key, identity.credential(), unix_now())
    }

    fn list(root: &ClusterRoot, number: u64, of: &[&Identity]) -> Arc<Revocations> {
        let list = root.revoke(RevokedParts {
            cluster: CLUSTER.to_owned(),
            number,
            serials: Vec::new(),
            keys: of.iter().map(|one| one.public()).collect(),
        });
        Arc::new(list.unwrap())
    }

    // Rule R-SEC-7.
    #[test]
    fn services_are_known_by_tokens_bound_to_their_keys() {
        let root = ClusterRoot::generate().unwrap();
        let service = identity(&root, Role::Service, true);
        let judge = ServiceJudge::new(&service, CLUSTER);
        assert!(admit(&judge, &service).is_ok());
        assert!(admit(&judge, &identity(&root, Role::Service, false)).is_err());
        assert!(admit(&judge, &identity(&root, Role::Admin, true)).is_err());
        let foreign = ClusterRoot::generate().unwrap();
        assert!(admit(&judge, &identity(&foreign, Role::Service, true)).is_err());
    }

    // Rule R-SEC-12.
    #[test]
    fn a_revoked_service_is_refused_by_the_newest_list_of_the_root() {
        let root = ClusterRoot::generate().unwrap();
        let [good, bad] = [(); 2].map(|()| identity(&root, Role::Service, true));
        let mut judge = ServiceJudge::new(&good, CLUSTER);
        let met = admit(&judge, &bad).unwrap();
        assert_eq!(judge.learn(list(&root, 2, &[&bad])), Ok(true));
        for refused in [judge.check(&met), admit(&judge, &bad).map(|_| ())] {
            let reason = refused.unwrap_err().reason;
            assert!(reason.contains("revoked"), "{reason}");
        }
        assert!(admit(&judge, &good).is_ok());
        // The same again, an older one, and one of another root.
        assert_eq!(judge.learn(list(&root, 2, &[&bad])), Ok(false));
        assert!(judge.learn(list(&root, 1, &[])).is_err());
        let foreign = ClusterRoot::generate().unwrap();
        assert!(judge.learn(list(&foreign, 3, &[])).is_err());
        assert!(admit(&judge, &bad).is_err());
        // By the number of its token.
        let parts = RevokedParts {
            cluster: CLUSTER.to_owned(),
            number: 3,
            serials: vec![met.serial.unwrap()],
            keys: Vec::new(),
        };
        let third = Arc::new(root.revoke(parts).unwrap());
        assert_eq!(judge.learn(third), Ok(true));
        assert!(judge.check(&met).is_err());
    }
}
