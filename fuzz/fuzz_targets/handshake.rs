//! Arbitrary datagrams at both ends of a handshake: passed over, or the end of that handshake.

#![no_main]

#[path = "../../crates/qsm-handshake/tests/support/storm.rs"]
mod storm;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    storm::check(bytes);
});
