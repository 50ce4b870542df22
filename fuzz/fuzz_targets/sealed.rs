//! Arbitrary bytes as protected packets: nothing of what nobody has sealed is opened.

#![no_main]

use std::cell::RefCell;

use qsm_seal::{Cipher, ClusterKey, Opener};
use qsm_wire::{CHECKSUM_AT, FLAGS_AT, HEADER_BYTES, SEALED};

thread_local! {
    static OPENERS: RefCell<Vec<Opener>> = RefCell::new(
        Cipher::ALL
            .map(|cipher| Opener::new(&ClusterKey::from_secret(cipher, [7; 32])))
            .into(),
    );
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    OPENERS.with_borrow_mut(|openers| {
        for opener in openers {
            let mut packet = bytes.to_vec();
            assert!(opener.open(&mut packet).is_err());
            if bytes.len() >= HEADER_BYTES {
                packet.copy_from_slice(bytes);
                packet[FLAGS_AT] = SEALED;
                packet[CHECKSUM_AT].copy_from_slice(&opener.key().0.to_le_bytes());
                assert!(opener.open(&mut packet).is_err());
            }
        }
    });
});
