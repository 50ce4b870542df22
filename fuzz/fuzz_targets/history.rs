//! Arbitrary words to a keeper and a subscriber that talk to each other: nothing panics or grows, and numbers follow each
//! other.

#![no_main]

#[path = "../../crates/qsm-history/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|input: &[u8]| support::check(input));
