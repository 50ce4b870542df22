//! Drawn tokens and lists, and what holds of any bytes.
//!
//! Shared by the tests of this crate and by the targets in `fuzz/`, so that both check the same.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::allow_attributes,
    reason = "each test file and each fuzz target uses its own part of this module"
)]

use qsm_identity::{
    Claims, ClusterRoot, NodeKey, NodePublic, Revocations, RevokedParts, Role, Roles, Serial, Token,
};

/// A time at which the tokens of [`claims`] hold.
pub const NOW: u64 = 1_800_000_000;
/// An hour, seconds.
pub const HOUR: u64 = 3600;

/// A root that is always the same.
pub fn root() -> ClusterRoot {
    let zeros = "A".repeat(43);
    format!("qsm-root-secret-1.{zeros}").parse().unwrap()
}

/// A node's key that is always the same.
pub fn node() -> NodeKey {
    let zeros = "A".repeat(43);
    format!("qsm-node-secret-1.{zeros}").parse().unwrap()
}

/// A key of a node that nobody has.
pub fn public(number: u8) -> NodePublic {
    NodePublic::from_bytes([number; 32])
}

/// Of a node that may publish and subscribe, bound to the key of [`node`].
pub fn claims() -> Claims {
    Claims {
        cluster: "plant".into(),
        serial: Serial(7),
        name: "press-7/**".parse().unwrap(),
        node_key: Some(node().public()),
        roles: Roles::NONE.with(Role::Publish).with(Role::Subscribe),
        not_before: NOW,
        expires: NOW + HOUR,
        publish: vec!["states/press-7".parse().unwrap()],
        subscribe: vec!["alarms".parse().unwrap(), "orders/*".parse().unwrap()],
    }
}

/// A list with two of each.
pub fn parts() -> RevokedParts {
    RevokedParts {
        cluster: "plant".into(),
        number: 3,
        serials: vec![Serial(5), Serial(7)],
        keys: vec![public(1), public(2)],
    }
}

/// Checks what holds of any bytes: what is read as a token is written as the same bytes, and only what the root made
/// is verified by it.
pub fn check_token(bytes: &[u8]) {
    let Ok(token) = Token::decode(bytes) else {
        return;
    };
    assert_eq!(token.as_bytes(), bytes);
    assert_eq!(token.to_string().parse(), Ok(token.clone()));
    let claims = token.claims().clone();
    let cluster = claims.cluster.clone();
    let made = root().issue(claims).expect("what was read can be written");
    let verified = token.verify(&root().public(), token.claims().not_before, &cluster);
    assert_eq!(verified.is_ok(), made == token, "{token:?}");
    // Its claims have one form.
    assert_eq!(made.as_bytes().len(), bytes.len());
    assert_eq!(
        made.as_bytes()[..bytes.len() - 64],
        bytes[..bytes.len() - 64]
    );
}

/// Checks the same of lists of revocations.
pub fn check_revocations(bytes: &[u8]) {
    let Ok(list) = Revocations::decode(bytes) else {
        return;
    };
    assert_eq!(list.as_bytes(), bytes);
    assert_eq!(list.to_string().parse(), Ok(list.clone()));
    let parts = list.parts().clone();
    assert!(parts.serials.iter().all(|serial| list.has_serial(*serial)));
    assert!(parts.keys.iter().all(|key| list.has_key(key)));
    let cluster = parts.cluster.clone();
    let made = root().revoke(parts).expect("what was read can be written");
    let verified = list.verify(&root().public(), &cluster);
    assert_eq!(verified.is_ok(), made == list, "{list:?}");
    assert_eq!(
        made.as_bytes()[..bytes.len() - 64],
        bytes[..bytes.len() - 64]
    );
}

/// Checks text: what is read as a token, a list or a key is displayed as text that is read as the same.
pub fn check_text(text: &str) {
    if let Ok(token) = text.parse::<Token>() {
        check_token(token.as_bytes());
    }
    if let Ok(list) = text.parse::<Revocations>() {
        check_revocations(list.as_bytes());
    }
    if let Ok(key) = text.parse::<NodePublic>() {
        assert_eq!(key.to_string().parse(), Ok(key));
    }
}
