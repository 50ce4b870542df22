//! Packets of one member: for one other, which nobody else makes or reads (R-SEC-15), and for all, which nobody else makes
//! (R-SEC-17).

mod support;

use std::time::Duration;

use qsm_identity::{NodeKey, NodePublic};
use qsm_seal::{
    Cipher, ClusterKey, Epoch, EpochOrder, Epochs, OpenError, PairKey, PairPeer, SealError,
};
use qsm_wire::{HOP_AT, NodeId, SIGNED_TAIL_BYTES};

/// A member of one epoch.
struct Member {
    node: u64,
    own: PairKey,
    key: NodeKey,
    epochs: Epochs,
}

impl Member {
    fn peer(&self) -> PairPeer {
        let (node, public) = (NodeId(self.node), self.own.public());
        PairPeer { node, public }
    }

    fn enter(&mut self, epoch: Epoch, key: &ClusterKey) {
        let key = key.clone();
        for order in [
            EpochOrder::Offer { epoch, key },
            EpochOrder::Activate { epoch },
        ] {
            self.epochs.take(Duration::ZERO, order);
        }
    }

    fn says(&mut self, to: &PairPeer) -> Vec<u8> {
        let mut sealed = Vec::new();
        let packet = support::question(self.node);
        self.epochs
            .seal_to(&self.own, to, &packet, &mut sealed)
            .unwrap();
        sealed
    }

    fn hears(&mut self, from: &PairPeer, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let mut bytes = sealed.to_vec();
        let length = self.epochs.open_from(&self.own, from, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// A packet for all, in this node's name.
    fn signs(&mut self, name: u64) -> Vec<u8> {
        let (mut sealed, packet) = (Vec::new(), support::question(name));
        let result = self.epochs.seal_signed(&self.key, &packet, &mut sealed);
        result.unwrap();
        sealed
    }

    fn believes(&mut self, maker: NodePublic, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
        let mut bytes = sealed.to_vec();
        let packet = self.epochs.open_signed(&mut bytes)?;
        let length = self.epochs.prove(&packet, &maker, &mut bytes)?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

fn members(cipher: Cipher) -> [Member; 3] {
    let key = ClusterKey::generate(cipher).unwrap();
    [1, 2, 3].map(|node| {
        let mut member = Member {
            node,
            own: PairKey::generate(NodeId(node)).unwrap(),
            key: NodeKey::generate().unwrap(),
            epochs: Epochs::new(),
        };
        member.enter(Epoch(1), &key);
        member
    })
}

#[test]
fn one_says_it_and_one_other_hears_it_once() {
    for cipher in Cipher::ALL {
        let [mut one, mut two, mut three] = members(cipher);
        let sealed = one.says(&two.peer());
        let plain = support::question(1);
        // As many bytes as by the key of all.
        assert_eq!(sealed.len(), plain.len() + 24);
        assert_eq!(three.hears(&one.peer(), &sealed), Err(OpenError::Forged));
        assert_eq!(two.hears(&one.peer(), &sealed), Ok(plain));
        assert_eq!(two.hears(&one.peer(), &sealed), Err(OpenError::Replayed));
        let again = one.says(&two.peer());
        assert!(two.hears(&one.peer(), &again).is_ok());
        // What one says to the other is not what the other says.
        let answer = two.says(&one.peer());
        assert!(one.hears(&two.peer(), &answer).is_ok());
        assert_eq!(one.hears(&one.peer(), &sealed), Err(OpenError::Forged));
    }
}

#[test]
fn an_insider_says_nothing_in_anothers_name() {
    let [one, mut two, mut three] = members(Cipher::default());
    // By its own pair, with the other's number in the header or in the derivation.
    let mut posed = three.says(&two.peer());
    assert_eq!(two.hears(&one.peer(), &posed), Err(OpenError::Forged));
    posed[8] = 1;
    assert_eq!(two.hears(&one.peer(), &posed), Err(OpenError::Forged));
    let mut as_one = Member {
        node: 1,
        own: PairKey::generate(NodeId(1)).unwrap(),
        key: three.key,
        epochs: three.epochs,
    };
    let posed = as_one.says(&two.peer());
    assert_eq!(two.hears(&one.peer(), &posed), Err(OpenError::Forged));
    // By the key that all have.
    let mut posed = Vec::new();
    let packet = support::question(1);
    as_one.epochs.seal(&packet, &mut posed).unwrap();
    let opened = two.hears(&one.peer(), &posed);
    assert!(matches!(opened, Err(OpenError::OtherKey(_))));
    for byte in &mut posed[20..24] {
        *byte = !*byte;
    }
    assert_eq!(two.hears(&one.peer(), &posed), Err(OpenError::Forged));
    // Data are of all, and no pair's.
    let mut of_all = Vec::new();
    let data = support::data(1, 1, b"a message");
    as_one.epochs.seal(&data, &mut of_all).unwrap();
    let opened = two.hears(&one.peer(), &of_all);
    assert!(matches!(opened, Err(OpenError::OtherKey(_))));
    // And it makes none in another's name.
    let refused = two
        .epochs
        .seal_to(&two.own, &one.peer(), &packet, &mut Vec::new());
    assert_eq!(refused, Err(SealError::OtherMaker(NodeId(1))));
}

#[test]
fn no_changed_packet_is_opened_and_the_whole_one_is_then() {
    let [mut one, mut two, _] = members(Cipher::default());
    let sealed = one.says(&two.peer());
    for at in (0..sealed.len()).filter(|at| *at != HOP_AT) {
        for bit in 0..8 {
            let mut changed = sealed.clone();
            changed[at] ^= 1 << bit;
            assert!(
                two.hears(&one.peer(), &changed).is_err(),
                "byte {at}, bit {bit}"
            );
        }
        assert!(two.hears(&one.peer(), &sealed[..at]).is_err());
    }
    assert!(
        two.hears(&one.peer(), &[&sealed[..], &[0]].concat())
            .is_err()
    );
    assert!(two.hears(&one.peer(), &sealed).is_ok());
}

#[test]
fn pairs_end_with_the_epoch_whose_key_a_member_does_not_have() {
    let [mut one, mut two, mut three] = members(Cipher::default());
    let next = ClusterKey::generate(Cipher::default()).unwrap();
    one.enter(Epoch(2), &next);
    two.enter(Epoch(2), &next);
    let sealed = one.says(&three.peer());
    assert!(matches!(
        three.hears(&one.peer(), &sealed),
        Err(OpenError::OtherKey(_))
    ));
    let sealed = one.says(&two.peer());
    assert!(two.hears(&one.peer(), &sealed).is_ok());
    // Its number in place of that of the next key does not help.
    let mut late = three.says(&two.peer());
    late[20..24].copy_from_slice(&next.id().of_pairs().0.to_le_bytes());
    assert_eq!(two.hears(&three.peer(), &late), Err(OpenError::Forged));
}

#[test]
fn a_key_of_which_no_secret_comes_makes_no_pair() {
    let [mut one, _, _] = members(Cipher::default());
    let (node, public) = (NodeId(2), [0; 32]);
    let packet = support::question(1);
    let sealed = one.epochs.seal_to(
        &one.own,
        &PairPeer { node, public },
        &packet,
        &mut Vec::new(),
    );
    assert_eq!(sealed, Err(SealError::Refused));
    assert!(!format!("{:?}", one.own).contains(&format!("{:?}", one.own.public())));
}

// Rule R-SEC-4: who has heard of many does not take again what it had heard before.
#[test]
fn nothing_comes_again_when_there_are_more_pairs_than_keys_are_kept_of() {
    const MANY: u64 = 5000;
    let [mut one, mut two, three] = members(Cipher::default());
    let first = one.says(&two.peer());
    assert!(two.hears(&one.peer(), &first).is_ok());
    for node in 0..MANY {
        let other = PairPeer {
            node: NodeId(100 + node),
            ..three.peer()
        };
        two.says(&other);
    }
    assert_eq!(two.hears(&one.peer(), &first), Err(OpenError::Replayed));
    let next = one.says(&two.peer());
    assert!(two.hears(&one.peer(), &next).is_ok());
    assert_eq!(two.hears(&one.peer(), &next), Err(OpenError::Replayed));
}

#[test]
fn what_goes_to_all_is_believed_of_its_maker_alone_and_once() {
    for cipher in Cipher::ALL {
        let [mut one, mut two, mut three] = members(cipher);
        let (of_one, of_three) = (one.key.public(), three.key.public());
        let sealed = one.signs(1);
        let plain = support::question(1);
        assert_eq!(sealed.len(), plain.len() + SIGNED_TAIL_BYTES);
        for hearer in [&mut two, &mut three] {
            assert_eq!(hearer.believes(of_one, &sealed), Ok(plain.clone()));
            let again = hearer.believes(of_one, &sealed);
            assert_eq!(again, Err(OpenError::Replayed));
        }
        // In another's name, signed by the insider's own key, by none, or by what the other has signed.
        for _ in 0..100 {
            three.signs(1);
        }
        let posed = three.signs(1);
        assert_eq!(two.believes(of_one, &posed), Err(OpenError::Forged));
        assert!(two.believes(of_three, &posed).is_ok());
        let mut unsigned = Vec::new();
        let packet = [&plain[..], &[0; 64]].concat();
        three.epochs.seal(&packet, &mut unsigned).unwrap();
        assert_eq!(two.believes(of_one, &unsigned), Err(OpenError::Forged));
        let mut opened = sealed.clone();
        let length = two.epochs.open(&mut opened).unwrap();
        let mut copied = Vec::new();
        three.epochs.seal(&opened[..length], &mut copied).unwrap();
        assert_eq!(two.believes(of_one, &copied), Err(OpenError::Forged));
    }
}

// Rule R-SEC-4: an insider does not keep another from being heard.
#[test]
fn what_is_not_proven_moves_no_window() {
    let [mut one, mut two, mut three] = members(Cipher::default());
    let of_one = one.key.public();
    for _ in 0..5000 {
        three.signs(1);
    }
    let ahead = three.signs(1);
    assert_eq!(two.believes(of_one, &ahead), Err(OpenError::Forged));
    let mut unsigned = Vec::new();
    let packet = support::question(1);
    three.epochs.seal(&packet, &mut unsigned).unwrap();
    assert!(two.epochs.open(&mut unsigned).is_ok());
    let sealed = one.signs(1);
    assert!(two.believes(of_one, &sealed).is_ok());
}

#[test]
fn a_signature_is_of_one_packet_in_one_epoch() {
    let [mut one, mut two, mut three] = members(Cipher::default());
    let of_one = one.key.public();
    let sealed = one.signs(1);
    for at in (0..sealed.len()).filter(|at| *at != HOP_AT) {
        let mut changed = sealed.clone();
        changed[at] ^= 1;
        assert!(two.believes(of_one, &changed).is_err(), "byte {at}");
        assert!(two.believes(of_one, &sealed[..at]).is_err());
    }
    // An insider opens it, and seals it in the next epoch.
    let mut plain = sealed.clone();
    let length = three.epochs.open(&mut plain).unwrap();
    let next = ClusterKey::generate(Cipher::default()).unwrap();
    for member in [&mut two, &mut three] {
        member.enter(Epoch(2), &next);
    }
    let mut later = Vec::new();
    three.epochs.seal(&plain[..length], &mut later).unwrap();
    assert_eq!(two.believes(of_one, &later), Err(OpenError::Forged));
    // Its own is believed all the same, also late.
    assert!(two.believes(of_one, &sealed).is_ok());
    let data = support::data(1, 1, b"a message");
    let refused = one.epochs.seal_signed(&one.key, &data, &mut Vec::new());
    assert_eq!(refused, Err(SealError::Refused));
}
