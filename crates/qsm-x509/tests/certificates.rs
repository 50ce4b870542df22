//! Certificates give the rights that they say if a trusted authority issued them and they hold, and else nothing.

mod support;

use proptest::prelude::*;
use qsm_identity::{Grant, Role};
use qsm_x509::{Anchors, CHAIN_BYTES_MAX, CertificateError, Chain, node_key};
use rcgen::{ExtendedKeyUsagePurpose, KeyPair, PKCS_ECDSA_P256_SHA256, date_time_ymd};
use support::{Authority, Issued};

const CLUSTER: &str = "plant";
/// 2027-01-15.
const NOW: u64 = 1_800_000_000;
const URI: &str = "qsm://plant/press-7/**?publish=states/press-7&subscribe=orders/*&role=relay";

fn trusting(authority: &Authority) -> Anchors {
    Anchors::from_pem(authority.pem().as_bytes()).unwrap()
}

fn chain(issued: &Issued) -> Chain {
    Chain::from_pem(issued.certificate.as_bytes()).unwrap()
}

fn verified(anchors: &Anchors, issued: &Issued) -> Result<Grant, CertificateError> {
    let shown = Chain::decode(chain(issued).as_bytes()).unwrap();
    anchors.verify(&shown, CLUSTER, NOW)
}

// Rule R-SEC-19.
#[test]
fn a_certificate_of_a_trusted_authority_gives_the_rights_of_its_uri() {
    let authority = Authority::new("plant CA");
    let issued = authority.issue(7, &["https://example.org/", "qsm://farm/x?role=admin", URI]);
    let grant = verified(&trusting(&authority), &issued).unwrap();
    assert!(grant.may_join("press-7/a") && !grant.may_join("press-8/a"));
    assert!(grant.may_publish("states/press-7") && !grant.may_publish("orders/x"));
    assert!(grant.may_subscribe("orders/x") && !grant.may_subscribe("states/press-7"));
    assert!(grant.roles().has(Role::Relay) && !grant.roles().has(Role::Admin));
    // 2090-01-01, and one second.
    assert_eq!(grant.expires(), 3_786_912_001);
    let key = node_key(issued.private_key.as_bytes()).unwrap();
    assert_eq!(grant.node_key(), Some(key.public()));
    assert_eq!((grant.root(), grant.serial()), (None, None));
}

// Rule R-SEC-19.
#[test]
fn foreign_expired_early_and_revoked_ones_are_refused_with_the_reason() {
    let [authority, foreign] = ["plant CA", "other CA"].map(Authority::new);
    let anchors = trusting(&authority);
    let refused = |anchors: &Anchors, issued: &Issued| verified(anchors, issued).unwrap_err();
    assert_eq!(
        refused(&anchors, &foreign.issue(1, &[URI])),
        CertificateError::Unknown
    );
    // One that only says to be of this authority.
    let posed = Authority::new("plant CA");
    assert_eq!(
        refused(&anchors, &posed.issue(1, &[URI])),
        CertificateError::Unknown
    );
    let expired = authority.issue_with(2, &[URI], |params| {
        params.not_after = date_time_ymd(2026, 1, 1);
    });
    let error = refused(&anchors, &expired);
    assert!(
        error
            .to_string()
            .contains("expired at 2026-01-01T00:00:01Z"),
        "{error}"
    );
    let early = authority.issue_with(3, &[URI], |params| {
        params.not_before = date_time_ymd(2028, 1, 1);
    });
    assert!(matches!(
        refused(&anchors, &early),
        CertificateError::NotYet { .. }
    ));

    let [good, bad] = [4, 5].map(|serial| authority.issue(serial, &[URI]));
    let listed = anchors
        .with_revoked(authority.revoke(&[5]).as_bytes())
        .unwrap();
    assert_eq!(refused(&listed, &bad), CertificateError::Revoked);
    assert!(verified(&listed, &good).is_ok() && verified(&anchors, &bad).is_ok());
    // Nobody revokes what another has issued, nor in its name.
    for other in [&foreign, &posed] {
        let both = other.revoke(&[4]) + &authority.revoke(&[5]);
        let listed = anchors.with_revoked(both.as_bytes()).unwrap();
        assert_eq!(refused(&listed, &bad), CertificateError::Revoked);
        assert!(verified(&listed, &good).is_ok());
    }
    let foreign_list = anchors
        .with_revoked(foreign.revoke(&[4]).as_bytes())
        .unwrap();
    assert!(verified(&foreign_list, &good).is_ok());
}

#[test]
fn a_clock_may_be_slow_by_five_minutes() {
    let authority = Authority::new("plant CA");
    let issued = authority.issue_with(1, &[URI], |params| {
        params.not_before = date_time_ymd(2027, 1, 15);
    });
    let anchors = trusting(&authority);
    // 2027-01-15T00:00:00Z.
    let begins = 1_799_971_200;
    let at = |now| anchors.verify(&chain(&issued), CLUSTER, now).is_ok();
    assert!(at(begins) && at(begins - 300) && !at(begins - 301));
}

#[test]
fn others_between_a_node_and_an_authority_are_shown_with_it_and_may_be_revoked() {
    let root = Authority::new("plant CA");
    let (line, stranger) = (root.intermediate("line 7"), Authority::new("stranger"));
    let mut issued = line.issue(1, &[URI]);
    let anchors = trusting(&root);
    assert_eq!(
        verified(&anchors, &issued).unwrap_err(),
        CertificateError::Unknown
    );
    let alone = issued.certificate.clone();
    issued.certificate = alone.clone() + stranger.pem() + line.pem();
    assert!(verified(&anchors, &issued).is_ok());
    let revoked = anchors.with_revoked(line.revoke(&[1]).as_bytes()).unwrap();
    assert_eq!(
        verified(&revoked, &issued).unwrap_err(),
        CertificateError::Revoked
    );
    // A node is no authority.
    let own = line.issue(2, &[URI]);
    issued.certificate = own.certificate + &alone + line.pem();
    assert!(verified(&anchors, &issued).is_ok());
    issued.certificate = root.pem().to_owned();
    assert_eq!(
        Chain::from_pem(issued.certificate.as_bytes()).unwrap_err(),
        CertificateError::Algorithm
    );
    issued.certificate = line.pem().to_owned();
    assert_eq!(
        verified(&anchors, &issued).unwrap_err(),
        CertificateError::Unknown
    );
}

#[test]
fn names_uses_and_keys_that_do_not_fit_are_named() {
    let authority = Authority::new("plant CA");
    let anchors = trusting(&authority);
    let refused = |uris: &[&str]| verified(&anchors, &authority.issue(1, uris)).unwrap_err();
    let none = CertificateError::NoName {
        cluster: CLUSTER.to_owned(),
        of: None,
    };
    assert_eq!(refused(&["https://example.org/"]), none);
    assert_eq!(refused(&[]), none);
    assert!(
        refused(&["qsm://farm/x"])
            .to_string()
            .contains("for the cluster \"farm\"")
    );
    assert!(matches!(
        refused(&[URI, URI]),
        CertificateError::SeveralNames { .. }
    ));
    assert!(matches!(
        refused(&["qsm://plant/x?say=all"]),
        CertificateError::Uri(_)
    ));
    assert!(matches!(
        refused(&["qsm://plant/x"]),
        CertificateError::Rights(_)
    ));
    let long = format!("qsm://plant/{}?role=relay", "x".repeat(65));
    assert!(matches!(refused(&[&long]), CertificateError::Rights(_)));

    let mail = authority.issue_with(1, &[URI], |params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::EmailProtection];
    });
    assert_eq!(
        verified(&anchors, &mail).unwrap_err(),
        CertificateError::Use
    );
    for uses in [vec![], vec![ExtendedKeyUsagePurpose::ServerAuth]] {
        let issued = authority.issue_with(1, &[URI], |params| params.extended_key_usages = uses);
        assert!(verified(&anchors, &issued).is_ok());
    }
    let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    let other = authority.issue_for(&key, 1, &[URI], |_| {});
    let read = Chain::from_pem(other.certificate.as_bytes());
    assert_eq!(read.unwrap_err(), CertificateError::Algorithm);
    assert!(node_key(other.private_key.as_bytes()).is_err());
}

#[test]
fn files_that_hold_something_else_are_refused() {
    let authority = Authority::new("plant CA");
    let issued = authority.issue(1, &[URI]);
    let anchors = trusting(&authority);
    for text in [
        "",
        "qsm-token-1.AAAA",
        "-----BEGIN CERTIFICATE-----\nAA\n",
        issued.private_key.as_str(),
    ] {
        assert!(Chain::from_pem(text.as_bytes()).is_err(), "{text}");
        assert!(Anchors::from_pem(text.as_bytes()).is_err(), "{text}");
        assert!(anchors.with_revoked(text.as_bytes()).is_err(), "{text}");
    }
    assert!(node_key(issued.certificate.as_bytes()).is_err());
    let five = issued.certificate.repeat(5);
    assert!(matches!(
        Chain::from_pem(five.as_bytes()),
        Err(CertificateError::TooMany { .. })
    ));
    let groups: String = (0..400)
        .map(|at| format!("&publish=a/long/name/of/a/group/{at}"))
        .collect();
    let long = authority.issue(1, &[&format!("qsm://plant/x?{groups}")]);
    let read = Chain::from_pem(long.certificate.as_bytes());
    assert!(
        matches!(read, Err(CertificateError::TooLong { bytes, .. }) if bytes > CHAIN_BYTES_MAX)
    );
}

#[test]
fn every_flipped_bit_makes_it_none() {
    let authority = Authority::new("plant CA");
    let anchors = trusting(&authority);
    let bytes = chain(&authority.issue(1, &[URI])).as_bytes().to_vec();
    for at in 0..bytes.len() * 8 {
        let mut changed = bytes.clone();
        changed[at / 8] ^= 1 << (at % 8);
        let decoded = Chain::decode(&changed);
        let verified = decoded.and_then(|chain| anchors.verify(&chain, CLUSTER, NOW));
        assert!(verified.is_err(), "bit {at}");
    }
    for length in 0..bytes.len() {
        assert!(Chain::decode(&bytes[..length]).is_err(), "{length}");
    }
    assert!(Chain::decode(&[&bytes[..], &[0]].concat()).is_err());
}

proptest! {
    #[test]
    fn nothing_is_read_out_of_other_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(Chain::decode(&bytes).is_err());
        let headed = [&[2, 1, (bytes.len() >> 8) as u8, bytes.len() as u8][..], &bytes].concat();
        prop_assert!(Chain::decode(&headed).is_err());
        prop_assert!(Chain::from_pem(&bytes).is_err() && Anchors::from_pem(&bytes).is_err());
    }
}
