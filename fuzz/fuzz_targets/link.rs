//! Arbitrary datagrams, changed and repeated ones beside an open link: it takes what its ends have sealed, once, and stays.

#![no_main]

#[path = "../../crates/qsm-link/tests/support/mod.rs"]
mod support;

thread_local! {
    static SITE: support::Site = support::Site::new();
}

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    SITE.with(|site| site.check(input));
});
