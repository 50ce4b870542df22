//! Tokens say what was signed, for their time and their cluster, and nothing else is a token.

mod support;

use proptest::prelude::*;
use qsm_identity::{
    CLOCK_TOLERANCE_SECONDS, Claims, ClusterRoot, Malformed, PATTERNS_MAX, Pattern, Role, Roles,
    Serial, TOKEN_BYTES_MAX, Token, TokenError,
};
use support::{HOUR, NOW, check_text, check_token, claims, node, public, root};

const DAY: u64 = 86_400;

fn patterns(all: &[&str]) -> Vec<Pattern> {
    all.iter().map(|text| text.parse().unwrap()).collect()
}

/// Rights of a node with these claims to publish to a group, and to receive it.
fn rights(claims: Claims, group: &str) -> [bool; 2] {
    let token = root().issue(claims).unwrap();
    let grant = token.verify(&root().public(), NOW, "plant").unwrap();
    [grant.may_publish(group), grant.may_subscribe(group)]
}

#[test]
fn a_token_grants_what_it_says() {
    let token = root().issue(claims()).unwrap();
    let read: Token = token.to_string().parse().unwrap();
    assert_eq!(read.claims(), &claims());
    let grant = read.verify(&root().public(), NOW, "plant").unwrap();
    assert_eq!(grant.serial(), Some(Serial(7)));
    assert_eq!(grant.node_key(), Some(node().public()));
    assert_eq!(grant.expires(), NOW + HOUR);
    assert_eq!(grant.root(), Some(root().public()));
    assert!(grant.roles().has(Role::Publish) && !grant.roles().has(Role::Admin));
    for (name, allowed) in [
        ("press-7", true),
        ("press-7/qsm/4021", true),
        ("press-70", false),
        ("press-8/qsm/4021", false),
        ("", false),
    ] {
        assert_eq!(grant.may_join(name), allowed, "{name}");
    }
}

#[test]
fn groups_are_allowed_by_pattern_and_each_way_apart() {
    assert_eq!(rights(claims(), "states/press-7"), [true, false]);
    assert_eq!(rights(claims(), "states/press-8"), [false, false]);
    assert_eq!(rights(claims(), "orders/steel"), [false, true]);
    assert_eq!(rights(claims(), "orders/steel/1"), [false, false]);
    assert_eq!(rights(claims(), "alarms"), [false, true]);
    let everything = Claims {
        publish: patterns(&["**"]),
        ..claims()
    };
    assert_eq!(rights(everything, "any/thing"), [true, false]);
    let neither = Claims {
        roles: Roles::NONE.with(Role::Relay),
        publish: Vec::new(),
        subscribe: Vec::new(),
        ..claims()
    };
    assert_eq!(rights(neither, "alarms"), [false, false]);
}

#[test]
fn a_token_holds_from_its_first_second_to_the_one_before_its_end() {
    let token = root().issue(claims()).unwrap();
    let at = |now| token.verify(&root().public(), now, "plant").map(drop);
    let not_before = NOW;
    let early = NOW - CLOCK_TOLERANCE_SECONDS - 1;
    assert_eq!(
        at(early),
        Err(TokenError::NotYet {
            not_before,
            now: early
        })
    );
    assert_eq!(at(early + 1), Ok(()));
    let expires = NOW + HOUR;
    assert_eq!(at(expires - 1), Ok(()));
    assert_eq!(
        at(expires),
        Err(TokenError::Expired {
            expires,
            now: expires
        })
    );
    assert!(at(u64::MAX).is_err() && at(0).is_err());
}

#[test]
fn a_clock_that_is_off_by_a_day_is_asked_after() {
    let token = root().issue(claims()).unwrap();
    let at = |now| {
        token
            .verify(&root().public(), now, "plant")
            .unwrap_err()
            .to_string()
    };
    let slow = at(NOW - DAY);
    assert!(
        slow.contains("not valid yet") && slow.contains("is the clock right?"),
        "{slow}"
    );
    assert!(slow.contains("2027-01-15T08:00:00Z") && slow.contains("2027-01-14T08:00:00Z"));
    let fast = at(NOW + DAY);
    assert!(fast.contains("expired at 2027-01-15T09:00:00Z"), "{fast}");
    assert!(
        fast.contains("it is 2027-01-16T08:00:00Z here; if the clock is right"),
        "{fast}"
    );
}

#[test]
fn foreign_roots_and_other_clusters_are_named_before_anything_that_the_token_says() {
    let token = root().issue(claims()).unwrap();
    let foreign = ClusterRoot::generate().unwrap().public();
    let error = token.verify(&foreign, NOW + DAY, "elsewhere");
    assert_eq!(error, Err(TokenError::Signature));
    let error = token
        .verify(&root().public(), NOW + DAY, "Plant")
        .unwrap_err();
    let (of, here) = ("plant".into(), "Plant".into());
    assert_eq!(error, TokenError::Cluster { of, here });
}

#[test]
fn a_list_of_revocations_is_no_token_though_the_root_signed_it() {
    let list = root().revoke(support::parts()).unwrap();
    assert!(Token::decode(list.as_bytes()).is_err());
    let text = list.to_string().parse::<Token>().unwrap_err().to_string();
    assert_eq!(text, "it is a list of revocations, and not a token");
}

/// As the page `docs/operate/identity.md` lists them.
#[test]
fn the_bytes_of_a_token_are_those_that_are_written_down() {
    let mut expected = vec![1, 5];
    expected.extend_from_slice(b"plant");
    expected.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 7, 10]);
    expected.extend_from_slice(b"press-7/**");
    expected.push(1);
    expected.extend_from_slice(node().public().as_bytes());
    expected.push(1 | 2);
    expected.extend_from_slice(&NOW.to_be_bytes());
    expected.extend_from_slice(&(NOW + HOUR).to_be_bytes());
    expected.extend_from_slice(&[0, 1, 14]);
    expected.extend_from_slice(b"states/press-7");
    expected.extend_from_slice(&[0, 2, 6]);
    expected.extend_from_slice(b"alarms");
    expected.push(8);
    expected.extend_from_slice(b"orders/*");
    let token = root().issue(claims()).unwrap();
    let (said, signature) = token.as_bytes().split_at(expected.len());
    assert_eq!(said, expected);
    let message = [b"quicksilver token 1\0", said].concat();
    // The root's public key as that of a node, which verifies any message.
    let root = root().public().to_string();
    let key = root.replace("qsm-root-1", "qsm-node-1");
    let key: qsm_identity::NodePublic = key.parse().unwrap();
    assert!(signature.len() == 64 && key.verifies(&message, signature));
}

#[test]
fn every_flipped_bit_makes_it_none() {
    let token = root().issue(claims()).unwrap();
    for at in 0..token.as_bytes().len() * 8 {
        let mut bytes = token.as_bytes().to_vec();
        bytes[at / 8] ^= 1 << (at % 8);
        check_token(&bytes);
        if let Ok(read) = Token::decode(&bytes) {
            let error = read.verify(&root().public(), NOW, "plant");
            assert_eq!(error, Err(TokenError::Signature), "bit {at}");
        }
    }
}

#[test]
fn a_cut_or_longer_token_is_none() {
    let token = root().issue(claims()).unwrap();
    let bytes = token.as_bytes();
    for length in 0..bytes.len() {
        let error = Token::decode(&bytes[..length]).unwrap_err();
        assert_eq!(error, Malformed::Truncated, "{length} bytes");
    }
    for more in 1..=9 {
        let longer = [bytes, &[0; 9][..more]].concat();
        assert_eq!(Token::decode(&longer), Err(Malformed::Trailing(more)));
    }
    let endless = vec![1; TOKEN_BYTES_MAX + 1];
    let (length, max) = (TOKEN_BYTES_MAX + 1, TOKEN_BYTES_MAX);
    assert_eq!(
        Token::decode(&endless),
        Err(Malformed::TooLong { length, max })
    );
}

#[test]
fn each_digit_of_the_text_counts() {
    let token = root().issue(claims()).unwrap();
    let text = token.to_string();
    for at in 0..text.len() {
        for digit in ['A', 'B', '_', '='] {
            let mut other = text.clone();
            other.replace_range(at..=at, &digit.to_string());
            if other != text {
                let read = other.parse::<Token>();
                let verified = read.and_then(|read| read.verify(&root().public(), NOW, "plant"));
                assert!(verified.is_err(), "{digit} at {at}");
            }
        }
    }
}

/// Bytes of the claims with this change, signed: a form that the root does not write.
#[test]
fn unknown_versions_roles_and_flags_are_named() {
    let bytes = root().issue(claims()).unwrap().as_bytes().to_vec();
    // Version, length and name of the cluster, serial, length and name of the node.
    let flag = 1 + 1 + 5 + 8 + 1 + 10;
    let roles = flag + 1 + 32;
    for (at, value, error) in [
        (0, 2, Malformed::Version(2)),
        (0, 0, Malformed::Version(0)),
        (flag, 2, Malformed::KeyFlag(2)),
        (roles, 0b10_0011, Malformed::Roles(0b10_0011)),
        (roles, 0, Malformed::NoRole),
        (roles, 1, Malformed::GroupsWithoutRole { role: "subscribe" }),
        (
            2,
            b'\n',
            Malformed::Name {
                of: "the cluster's name",
            },
        ),
        (
            2,
            0xff,
            Malformed::Name {
                of: "the cluster's name",
            },
        ),
        (
            1,
            0,
            Malformed::Name {
                of: "the cluster's name",
            },
        ),
        (
            1,
            65,
            Malformed::Name {
                of: "the cluster's name",
            },
        ),
    ] {
        let mut other = bytes.clone();
        other[at] = value;
        assert_eq!(Token::decode(&other).unwrap_err(), error);
    }
}

#[test]
fn what_no_token_can_say_is_refused_when_it_is_made() {
    let of = "the node's name";
    for (wrong, error) in [
        (
            Claims {
                serial: Serial(0),
                ..claims()
            },
            Malformed::NoNumber,
        ),
        (
            Claims {
                roles: Roles::NONE,
                ..claims()
            },
            Malformed::NoRole,
        ),
        (
            Claims {
                publish: Vec::new(),
                ..claims()
            },
            Malformed::GroupsWithoutRole { role: "publish" },
        ),
        (
            Claims {
                roles: Roles::NONE.with(Role::Publish),
                ..claims()
            },
            Malformed::GroupsWithoutRole { role: "subscribe" },
        ),
        (
            Claims {
                expires: NOW,
                ..claims()
            },
            Malformed::Period {
                not_before: NOW,
                expires: NOW,
            },
        ),
        (
            Claims {
                expires: u64::MAX,
                ..claims()
            },
            Malformed::Period {
                not_before: NOW,
                expires: u64::MAX,
            },
        ),
        (
            Claims {
                name: "x".repeat(65).parse().unwrap(),
                ..claims()
            },
            Malformed::Name { of },
        ),
        (
            Claims {
                cluster: String::new(),
                ..claims()
            },
            Malformed::Name {
                of: "the cluster's name",
            },
        ),
    ] {
        assert_eq!(root().issue(wrong).unwrap_err(), error);
    }
}

#[test]
fn lists_of_groups_are_ordered_unique_and_bounded() {
    let disordered = Claims {
        publish: patterns(&["b", "a", "b"]),
        ..claims()
    };
    let token = root().issue(disordered).unwrap();
    assert_eq!(token.claims().publish, patterns(&["a", "b"]));
    check_token(token.as_bytes());
    let many = |count: usize, length: usize| Claims {
        publish: (0..count)
            .map(|at| format!("{at:0length$}").parse().unwrap())
            .collect(),
        ..claims()
    };
    assert!(root().issue(many(PATTERNS_MAX, 40)).is_ok());
    let (of, max) = ("patterns of groups", PATTERNS_MAX);
    let error = root().issue(many(PATTERNS_MAX + 1, 2)).unwrap_err();
    assert_eq!(error, Malformed::TooMany { of, max });
    let error = root().issue(many(PATTERNS_MAX, 255)).unwrap_err();
    assert!(matches!(
        error,
        Malformed::TooLong {
            max: TOKEN_BYTES_MAX,
            ..
        }
    ));
    let error = root().issue(many(1, 256)).unwrap_err();
    assert_eq!(
        error,
        Malformed::Name {
            of: "a group's name"
        }
    );
}

#[test]
fn a_token_is_printed_without_its_signature() {
    let token = root().issue(claims()).unwrap();
    let text = token.to_string();
    assert!(!format!("{token:?}").contains(&text[text.len() - 8..]));
}

fn drawn_pattern() -> impl Strategy<Value = Pattern> {
    let segment = prop_oneof![Just("*".to_owned()), Just("**".to_owned()), "[a-zß]{1,5}"];
    let segments = prop::collection::vec(segment, 1..4);
    segments.prop_map(|segments| segments.join("/").parse().unwrap())
}

prop_compose! {
    fn drawn_claims()(
        cluster in "[a-z]{1,64}",
        serial in 1..u64::MAX,
        name in drawn_pattern(),
        key in prop::option::of(any::<u8>()),
        others in 0..8u8,
        start in 0..NOW,
        length in 1..NOW,
        publish in prop::collection::vec(drawn_pattern(), 0..5),
        subscribe in prop::collection::vec(drawn_pattern(), 0..5),
    ) -> Claims {
        let mut roles = Roles::NONE;
        for (at, role) in [Role::Relay, Role::Admin, Role::Service].into_iter().enumerate() {
            if others >> at & 1 != 0 {
                roles = roles.with(role);
            }
        }
        for (role, groups) in [(Role::Publish, &publish), (Role::Subscribe, &subscribe)] {
            if !groups.is_empty() {
                roles = roles.with(role);
            }
        }
        if roles.is_empty() {
            roles = roles.with(Role::Relay);
        }
        Claims {
            cluster, serial: Serial(serial), name, node_key: key.map(public), roles,
            not_before: start, expires: start + length, publish, subscribe,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 4 } else { 256 }))]

    #[test]
    fn drawn_claims_are_read_back(claims in drawn_claims()) {
        let token = root().issue(claims.clone()).unwrap();
        let read: Token = token.to_string().parse().unwrap();
        prop_assert_eq!(&read, &token);
        let grant = read.verify(&root().public(), claims.not_before, &claims.cluster).unwrap();
        prop_assert_eq!(grant.roles(), claims.roles);
        for group in ["a", "a/b", "zz/top"] {
            let publish = claims.publish.iter().any(|pattern| pattern.matches(group));
            let subscribe = claims.subscribe.iter().any(|pattern| pattern.matches(group));
            prop_assert_eq!(grant.may_publish(group), publish);
            prop_assert_eq!(grant.may_subscribe(group), subscribe);
        }
        check_token(token.as_bytes());
    }

    #[test]
    fn drawn_bytes_and_damaged_tokens_are_read_in_one_way_or_not_at_all(
        claims in drawn_claims(), at in any::<prop::sample::Index>(), by in 1..=u8::MAX,
        noise in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        check_token(&noise);
        let mut bytes = root().issue(claims).unwrap().as_bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= by;
        check_token(&bytes);
    }

    #[test]
    fn drawn_text_is_read_in_one_way_or_not_at_all(text in "qsm-(token|revoked|node)-1\\.[A-Za-z0-9_-]{0,90}") {
        check_text(&text);
    }
}
