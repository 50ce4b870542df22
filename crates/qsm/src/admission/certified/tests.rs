//! Certificates and keys that belong together, or do not.

#[path = "../../../../qsm-x509/tests/support/mod.rs"]
mod authority;

use qsm_identity::NodeKey;

use authority::Authority;

use super::super::identity::unix_now;
use super::*;

// Rule R-SEC-19.
#[test]
fn a_certificate_is_of_use_to_who_has_proven_its_key_alone() {
    let authority = Authority::new("works CA");
    let issued = authority.issue(1, &["qsm://plant/press?subscribe=x"]);
    let chain = Chain::from_pem(issued.certificate.as_bytes()).unwrap();
    let anchors = Anchors::from_pem(authority.pem().as_bytes()).unwrap();
    let verify = |anchors: Option<&Anchors>, key: &NodePublic| {
        let shown = Shown {
            key,
            credential: chain.as_bytes(),
            now: unix_now(),
        };
        Certified::verify(anchors, "plant", &shown)
    };
    let own = chain.node_key();
    assert!(
        verify(Some(&anchors), &own)
            .unwrap()
            .grant
            .may_join("press")
    );
    let thief = NodeKey::generate().unwrap().public();
    let refused = verify(Some(&anchors), &thief).unwrap_err();
    assert_eq!(refused, CertificateError::OtherKey);
    assert_eq!(verify(None, &own).unwrap_err(), CertificateError::Unknown);
}
