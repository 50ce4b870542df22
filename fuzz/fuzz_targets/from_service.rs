//! Arbitrary membership messages from the service to nodes.

#![no_main]

#[path = "../../crates/qsm-wire/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    support::message::check_from_service(bytes);
});
