//! Arbitrary bytes as lists of revocations.

#![no_main]

#[path = "../../crates/qsm-identity/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    support::check_revocations(bytes);
});
