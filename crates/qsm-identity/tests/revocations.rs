//! Lists of revocations say what was signed, and an older one never takes the place of a newer one.

mod support;

use proptest::prelude::*;
use qsm_identity::{
    ClusterRoot, Malformed, REVOKED_KEYS_MAX, REVOKED_SERIALS_MAX, RevocationError, Revocations,
    RevokedParts, Serial,
};
use support::{check_revocations, parts, public, root};

#[test]
fn a_list_is_read_back_and_knows_what_is_in_it() {
    let list = root().revoke(parts()).unwrap();
    let read: Revocations = list.to_string().parse().unwrap();
    assert_eq!(read.parts(), &parts());
    assert_eq!(read.verify(&root().public(), "plant"), Ok(()));
    assert!(read.has_serial(Serial(5)) && !read.has_serial(Serial(6)));
    assert!(read.has_key(&public(2)) && !read.has_key(&public(3)));
}

#[test]
fn every_flipped_bit_makes_it_none() {
    let list = root().revoke(parts()).unwrap();
    for at in 0..list.as_bytes().len() * 8 {
        let mut bytes = list.as_bytes().to_vec();
        bytes[at / 8] ^= 1 << (at % 8);
        check_revocations(&bytes);
        if let Ok(read) = Revocations::decode(&bytes) {
            let error = read.verify(&root().public(), "plant");
            assert_eq!(error, Err(RevocationError::Signature), "bit {at}");
        }
    }
}

#[test]
fn a_cut_or_longer_list_is_none() {
    let list = root().revoke(parts()).unwrap();
    let bytes = list.as_bytes();
    for length in 0..bytes.len() {
        let error = Revocations::decode(&bytes[..length]).unwrap_err();
        assert_eq!(error, Malformed::Truncated, "{length} bytes");
    }
    let longer = [bytes, &[0]].concat();
    assert_eq!(Revocations::decode(&longer), Err(Malformed::Trailing(1)));
}

#[test]
fn foreign_roots_other_clusters_and_tokens_are_named() {
    let list = root().revoke(parts()).unwrap();
    let foreign = ClusterRoot::generate().unwrap().public();
    assert_eq!(
        list.verify(&foreign, "plant"),
        Err(RevocationError::Signature)
    );
    let error = list.verify(&root().public(), "yard").unwrap_err();
    assert!(
        error.to_string().contains("for the cluster \"plant\""),
        "{error}"
    );
    let token = root().issue(support::claims()).unwrap();
    assert!(Revocations::decode(token.as_bytes()).is_err());
}

#[test]
fn lists_are_ordered_unique_and_bounded() {
    let disordered = RevokedParts {
        serials: vec![Serial(9), Serial(2), Serial(9)],
        keys: vec![public(9), public(2), public(9)],
        ..parts()
    };
    let list = root().revoke(disordered).unwrap();
    assert_eq!(list.parts().serials, [Serial(2), Serial(9)]);
    assert_eq!(list.parts().keys, [public(2), public(9)]);
    let most = RevokedParts {
        serials: (1..=REVOKED_SERIALS_MAX as u64).map(Serial).collect(),
        ..parts()
    };
    check_revocations(root().revoke(most.clone()).unwrap().as_bytes());
    let mut more = most;
    more.serials.push(Serial(u64::MAX));
    let (of, max) = ("serials", REVOKED_SERIALS_MAX);
    assert_eq!(
        root().revoke(more).unwrap_err(),
        Malformed::TooMany { of, max }
    );
    let keys = (0..=REVOKED_KEYS_MAX as u16).map(|at| {
        let mut bytes = [0; 32];
        bytes[..2].copy_from_slice(&at.to_be_bytes());
        qsm_identity::NodePublic::from_bytes(bytes)
    });
    let more = RevokedParts {
        keys: keys.collect(),
        ..parts()
    };
    let (of, max) = ("keys", REVOKED_KEYS_MAX);
    assert_eq!(
        root().revoke(more).unwrap_err(),
        Malformed::TooMany { of, max }
    );
    let nameless = RevokedParts {
        number: 0,
        ..parts()
    };
    assert_eq!(root().revoke(nameless).unwrap_err(), Malformed::NoNumber);
    let nobody = RevokedParts {
        serials: vec![Serial(0)],
        ..parts()
    };
    assert_eq!(root().revoke(nobody).unwrap_err(), Malformed::NoNumber);
}

#[test]
fn only_a_greater_number_comes_after() {
    let list = |number, serials| {
        root()
            .revoke(RevokedParts {
                number,
                serials,
                ..parts()
            })
            .unwrap()
    };
    let former = list(3, vec![Serial(5)]);
    assert_eq!(list(4, Vec::new()).check_after(&former), Ok(()));
    assert_eq!(former.check_after(&former), Ok(()));
    let error = list(2, vec![Serial(5)]).check_after(&former);
    assert_eq!(
        error,
        Err(RevocationError::Older {
            number: 2,
            known: 3
        })
    );
    let error = list(3, vec![Serial(6)]).check_after(&former);
    assert_eq!(error, Err(RevocationError::Twice { number: 3 }));
}

proptest! {
    #[test]
    fn drawn_lists_are_read_back_and_damaged_ones_in_one_way_or_not_at_all(
        number in 1..u64::MAX,
        serials in prop::collection::vec(1..u64::MAX, 0..40),
        keys in prop::collection::vec(any::<u8>(), 0..10),
        at in any::<prop::sample::Index>(), by in 1..=u8::MAX,
        noise in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let serials = serials.into_iter().map(Serial).collect();
        let keys = keys.into_iter().map(public).collect();
        let list = root().revoke(RevokedParts { number, serials, keys, ..parts() }).unwrap();
        check_revocations(list.as_bytes());
        prop_assert!(list.verify(&root().public(), "plant").is_ok());
        let mut bytes = list.as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        check_revocations(&bytes);
        check_revocations(&noise);
    }
}
