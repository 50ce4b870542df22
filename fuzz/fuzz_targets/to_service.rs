//! Arbitrary membership messages from nodes to the service.

#![no_main]

#[path = "../../crates/qsm-wire/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    support::message::check_to_service(bytes);
});
