//! Packets of a signed stream in any order, with changed bytes, and arbitrary ones: proven is only what was signed.

#![no_main]

#[path = "../../crates/qsm-origin/tests/support/mod.rs"]
mod support;

thread_local! {
    static STREAM: support::Stream = support::Stream::new();
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    STREAM.with(|stream| stream.check(input));
});
