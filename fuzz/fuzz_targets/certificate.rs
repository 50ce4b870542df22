//! Arbitrary bytes and texts as certificates, and as URIs of their names.

#![no_main]

use qsm_x509::{Anchors, Chain, NameUri};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(chain) = Chain::decode(bytes) {
        assert_eq!(chain.as_bytes(), bytes);
        // It may have a key and a name, and nobody has issued it.
        drop(chain.claimed("plant"));
    }
    drop((Chain::from_pem(bytes), Anchors::from_pem(bytes)));
    if let Ok(text) = core::str::from_utf8(bytes) {
        drop(text.parse::<NameUri>());
    }
});
