//! Arbitrary datagrams: rejected, or re-encoded to an equal value; never a panic.

#![no_main]

#[path = "../../crates/qsm-wire/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    support::check_datagram(bytes);
});
