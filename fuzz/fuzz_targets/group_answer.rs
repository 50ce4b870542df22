//! Arbitrary answers of the service on a group.

#![no_main]

#[path = "../../crates/qsm-wire/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    support::message::check_group_answer(bytes);
});
