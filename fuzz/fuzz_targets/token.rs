//! Arbitrary bytes and texts as tokens.

#![no_main]

#[path = "../../crates/qsm-identity/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    support::check_token(bytes);
    if let Ok(text) = core::str::from_utf8(bytes) {
        support::check_text(text);
    }
});
