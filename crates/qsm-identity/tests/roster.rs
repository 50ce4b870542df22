//! Nodes that are let in, under which name, and those that have to go.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use qsm_identity::{
    Admission, Claims, ClusterRoot, Entrant, Grant, Malformed, NodePublic, Refused,
    RevocationError, RevokedParts, Roster, Serial, Token, TokenError, Update,
};
use support::{HOUR, NOW, claims, node, parts, public, root};

fn roster() -> Roster {
    Roster::new("plant", root().public())
}

/// A token that any key may use under any name.
fn bearer(serial: u64) -> Token {
    bearer_of(&root(), serial)
}

fn bearer_of(root: &ClusterRoot, serial: u64) -> Token {
    let claims = Claims {
        serial: Serial(serial),
        name: "**".parse().unwrap(),
        node_key: None,
        ..claims()
    };
    root.issue(claims).unwrap()
}

fn admit(roster: &Roster, key: &NodePublic, token: &Token) -> Result<Grant, Refused> {
    roster.admit(key.as_bytes(), token.as_bytes(), NOW)
}

/// Admits a node by the token 9 and lets it in.
fn enter(roster: &mut Roster, name: &str, key: u8, life: u64) -> Result<(), Refused> {
    let key = &public(key);
    let grant = admit(roster, key, &bearer(9))?;
    roster.enter(&Entrant { name, key, life }, &grant)
}

/// Names of nodes that have to go, each with the reason.
fn outcast(roster: &Roster, now: u64) -> BTreeMap<String, Refused> {
    let outcast = roster.outcast(now);
    outcast
        .map(|(node, refused)| (node.name.to_owned(), refused))
        .collect()
}

#[test]
fn a_token_lets_in_the_key_that_it_is_bound_to() {
    let token = root().issue(claims()).unwrap();
    assert!(admit(&roster(), &node().public(), &token).is_ok());
    assert_eq!(admit(&roster(), &public(1), &token), Err(Refused::OtherKey));
    assert!(admit(&roster(), &public(1), &bearer(1)).is_ok());
}

#[test]
fn what_is_no_token_of_this_cluster_at_this_time_lets_nobody_in() {
    let roster = roster();
    let key = node().public();
    let token = root().issue(claims()).unwrap();
    let at = |bytes: &[u8], now| roster.admit(key.as_bytes(), bytes, now).unwrap_err();
    let truncated = TokenError::Malformed(Malformed::Truncated);
    let bytes = token.as_bytes();
    assert_eq!(at(&bytes[..bytes.len() - 1], NOW), truncated.clone().into());
    assert_eq!(at(b"", NOW), truncated.into());
    let (expires, now) = (NOW + HOUR, NOW + HOUR);
    assert_eq!(at(bytes, now), TokenError::Expired { expires, now }.into());
    let early = at(bytes, NOW - 86_400);
    assert!(early.to_string().contains("is the clock right?") && early.remedy().contains("clocks"));
    let foreign = bearer_of(&ClusterRoot::generate().unwrap(), 1);
    assert_eq!(at(foreign.as_bytes(), NOW), TokenError::Signature.into());
    let elsewhere = Claims {
        cluster: "yard".into(),
        ..claims()
    };
    let elsewhere = root().issue(elsewhere).unwrap();
    assert!(
        at(elsewhere.as_bytes(), NOW)
            .to_string()
            .contains("for the cluster \"yard\"")
    );
}

#[test]
fn two_nodes_with_one_key_are_told_so() {
    let mut roster = roster();
    enter(&mut roster, "a", 1, 10).unwrap();
    let by = "a".to_owned();
    assert_eq!(
        enter(&mut roster, "b", 1, 11),
        Err(Refused::KeyInUse { by: by.clone() })
    );
    // A copy of the host, name and all.
    assert_eq!(
        enter(&mut roster, "a", 1, 11),
        Err(Refused::KeyInUse { by })
    );
    // The same node again, and its next life after the first has ended.
    assert_eq!(enter(&mut roster, "a", 1, 10), Ok(()));
    roster.leave(&public(1), 10);
    assert_eq!(enter(&mut roster, "b", 1, 11), Ok(()));
    // The end of an earlier life says nothing of this one.
    roster.leave(&public(1), 10);
    assert!(matches!(
        enter(&mut roster, "b", 1, 12),
        Err(Refused::KeyInUse { .. })
    ));
}

#[test]
fn one_name_has_one_key_also_after_its_node_left() {
    let mut roster = roster();
    enter(&mut roster, "a", 1, 10).unwrap();
    let name = "a".to_owned();
    assert_eq!(
        enter(&mut roster, "a", 2, 20),
        Err(Refused::NameInUse { name: name.clone() })
    );
    assert!(!roster.release("a"));
    roster.leave(&public(1), 10);
    assert_eq!(
        enter(&mut roster, "a", 2, 20),
        Err(Refused::NameInUse { name })
    );
    assert!(roster.release("a") && roster.release("never used"));
    assert_eq!(enter(&mut roster, "a", 2, 20), Ok(()));
    assert_eq!(roster.len(), 1);
    // A key that comes with another name releases the former.
    roster.leave(&public(2), 20);
    enter(&mut roster, "b", 2, 21).unwrap();
    assert_eq!(enter(&mut roster, "a", 3, 30), Ok(()));
}

#[test]
fn a_name_must_be_one_of_the_tokens() {
    let mut roster = roster();
    let key = &node().public();
    let grant = admit(&roster, key, &root().issue(claims()).unwrap()).unwrap();
    let name = "press-8";
    let refused = roster
        .enter(&Entrant { name, key, life: 1 }, &grant)
        .unwrap_err();
    assert_eq!(refused, Refused::Name { name: name.into() });
    let name = "press-7/a";
    let other = &public(1);
    let refused = roster.enter(
        &Entrant {
            name,
            key: other,
            life: 1,
        },
        &grant,
    );
    assert_eq!(refused, Err(Refused::OtherKey));
    assert!(roster.is_empty());
    assert_eq!(
        roster.enter(&Entrant { name, key, life: 1 }, &grant),
        Ok(())
    );
}

#[test]
fn those_who_left_make_room_and_those_who_are_in_do_not() {
    let mut roster = roster().with_capacity(2);
    enter(&mut roster, "a", 1, 10).unwrap();
    enter(&mut roster, "b", 2, 20).unwrap();
    assert_eq!(
        enter(&mut roster, "c", 3, 30),
        Err(Refused::Full { max: 2 })
    );
    roster.leave(&public(2), 20);
    roster.leave(&public(1), 10);
    assert_eq!(enter(&mut roster, "c", 3, 30), Ok(()));
    // The first that left was forgotten: its name is free, the other's is not.
    assert!(matches!(
        enter(&mut roster, "a", 4, 40),
        Err(Refused::NameInUse { .. })
    ));
    assert_eq!(enter(&mut roster, "b", 4, 40), Ok(()));
    assert_eq!(roster.len(), 2);
}

#[test]
fn revoked_tokens_and_keys_let_nobody_in_and_those_who_are_in_have_to_go() {
    let mut roster = roster();
    for (name, key) in [("a", 1), ("b", 2), ("c", 3)] {
        let key = &public(key);
        let grant = admit(&roster, key, &bearer(u64::from(key.as_bytes()[0]))).unwrap();
        roster
            .enter(&Entrant { name, key, life: 1 }, &grant)
            .unwrap();
    }
    assert!(outcast(&roster, NOW).is_empty());
    let before = admit(&roster, &public(4), &bearer(1)).unwrap();
    let list = RevokedParts {
        serials: vec![Serial(1)],
        keys: vec![public(2)],
        ..parts()
    };
    let list = root().revoke(list).unwrap();
    assert_eq!(roster.update(list.clone()), Ok(Update::Taken));
    assert_eq!(roster.update(list), Ok(Update::Known));
    let gone = outcast(&roster, NOW);
    let expected = [
        ("a", Refused::Revoked(Serial(1))),
        ("b", Refused::KeyRevoked),
    ];
    assert_eq!(
        gone,
        expected
            .map(|(name, refused)| (name.to_owned(), refused))
            .into()
    );
    assert_eq!(
        admit(&roster, &public(5), &bearer(1)),
        Err(Refused::Revoked(Serial(1)))
    );
    assert_eq!(
        admit(&roster, &public(2), &bearer(5)),
        Err(Refused::KeyRevoked)
    );
    assert!(admit(&roster, &public(5), &bearer(5)).is_ok());
    // Admitted before the list came, and not in yet.
    let (name, key) = ("d", &public(4));
    let refused = roster.enter(&Entrant { name, key, life: 1 }, &before);
    assert_eq!(refused, Err(Refused::Revoked(Serial(1))));
}

#[test]
fn an_older_or_foreign_list_changes_nothing() {
    let mut roster = roster();
    let list = |number, serials| RevokedParts {
        number,
        serials,
        ..parts()
    };
    roster
        .update(root().revoke(list(5, vec![Serial(1)])).unwrap())
        .unwrap();
    let older = roster.update(root().revoke(list(4, Vec::new())).unwrap());
    assert_eq!(
        older,
        Err(RevocationError::Older {
            number: 4,
            known: 5
        })
    );
    let foreign = ClusterRoot::generate().unwrap();
    let error = roster.update(foreign.revoke(list(6, Vec::new())).unwrap());
    assert_eq!(error, Err(RevocationError::Signature));
    let elsewhere = RevokedParts {
        cluster: "yard".into(),
        ..list(6, Vec::new())
    };
    let error = roster.update(root().revoke(elsewhere).unwrap());
    assert!(matches!(error, Err(RevocationError::Cluster { .. })));
    assert_eq!(
        admit(&roster, &public(8), &bearer(1)),
        Err(Refused::Revoked(Serial(1)))
    );
}

#[test]
fn nodes_have_to_go_when_their_token_expires() {
    let mut roster = roster();
    enter(&mut roster, "a", 1, 1).unwrap();
    assert!(outcast(&roster, NOW + HOUR - 1).is_empty());
    let (expires, now) = (NOW + HOUR, NOW + HOUR);
    let expected = Refused::Token(TokenError::Expired { expires, now });
    assert_eq!(outcast(&roster, now), [("a".to_owned(), expected)].into());
    roster.leave(&public(1), 1);
    assert!(outcast(&roster, now).is_empty());
}

#[test]
fn a_root_is_replaced_without_a_time_in_which_nobody_gets_in() {
    let mut roster = roster();
    let next = ClusterRoot::generate().unwrap();
    let (old, new) = (bearer(1), bearer_of(&next, 1));
    assert!(admit(&roster, &public(1), &new).is_err());
    assert!(roster.trust(next.public()) && roster.trust(next.public()));
    assert!(!roster.trust(ClusterRoot::generate().unwrap().public()));
    for (name, key, token) in [("a", 1, &old), ("b", 2, &new)] {
        let key = &public(key);
        let grant = admit(&roster, key, token).unwrap();
        roster
            .enter(&Entrant { name, key, life: 1 }, &grant)
            .unwrap();
    }
    // Each root revokes its own tokens only.
    let list = RevokedParts {
        serials: vec![Serial(1)],
        keys: Vec::new(),
        ..parts()
    };
    roster.update(root().revoke(list).unwrap()).unwrap();
    assert!(admit(&roster, &public(3), &old).is_err() && admit(&roster, &public(3), &new).is_ok());

    roster.distrust(&root().public());
    assert_eq!(
        admit(&roster, &public(3), &old),
        Err(TokenError::Signature.into())
    );
    let expected = Refused::Token(TokenError::Signature);
    assert_eq!(outcast(&roster, NOW), [("a".to_owned(), expected)].into());
}

/// A step of a drawn run: a node with this key comes with this name in this life, or that life ends.
#[derive(Debug, Clone)]
enum Step {
    Enter(u8, u8, u64),
    Leave(u8, u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..6u8, 0..6u8, 0..3u64).prop_map(|(key, name, life)| Step::Enter(key, name, life)),
        (0..6u8, 0..3u64).prop_map(|(key, life)| Step::Leave(key, life)),
    ]
}

proptest! {
    /// Beside a naive model of those who are in: no name and no key is in twice, nobody is refused for them without
    /// cause, and no more are remembered than allowed.
    #[test]
    fn no_name_and_no_key_is_ever_in_twice(steps in prop::collection::vec(step(), 1..80)) {
        const CAPACITY: usize = 4;
        let mut roster = roster().with_capacity(CAPACITY);
        let grant = admit(&roster, &public(0), &bearer(1)).unwrap();
        let mut inside: BTreeMap<u8, (String, u64)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Leave(key, life) => {
                    roster.leave(&public(key), life);
                    if inside.get(&key).is_some_and(|(_, of)| *of == life) {
                        inside.remove(&key);
                    }
                }
                Step::Enter(key, name, life) => {
                    let name = name.to_string();
                    let wanted = (name.clone(), life);
                    let key_taken = inside.get(&key).is_some_and(|has| *has != wanted);
                    let mut others = inside.iter().filter(|(other, _)| **other != key);
                    let name_taken = others.any(|(_, (has, _))| *has == name);
                    let node = Entrant { name: &name, key: &public(key), life };
                    match roster.enter(&node, &grant) {
                        Ok(()) => {
                            prop_assert!(!key_taken && !name_taken);
                            inside.insert(key, wanted);
                        }
                        Err(Refused::KeyInUse { .. }) => prop_assert!(key_taken),
                        // Those who left keep their names as well.
                        Err(Refused::NameInUse { .. }) => {}
                        Err(Refused::Full { .. }) => prop_assert_eq!(inside.len(), CAPACITY),
                        Err(other) => prop_assert!(false, "{other}"),
                    }
                }
            }
            prop_assert!(roster.len() <= CAPACITY && inside.len() <= roster.len());
        }
    }
}
