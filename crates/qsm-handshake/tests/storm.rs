//! A bounded run of what the fuzzer does (`fuzz/fuzz_targets/handshake.rs`).

#[path = "support/storm.rs"]
mod storm;

use proptest::prelude::*;

/// An instruction: what to do, how many bytes come with it, and those.
fn instruction() -> impl Strategy<Value = Vec<u8>> {
    let made = prop::collection::vec(any::<u8>(), 0..64);
    (any::<u8>(), made).prop_map(|(what, made)| {
        let length = u8::try_from(made.len()).unwrap();
        [&[what, length][..], &made].concat()
    })
}

proptest! {
    // Rules R-SEC-7 and R-SEC-8.
    #[test]
    fn nothing_that_comes_at_any_moment_lets_a_node_in_without_its_credential(
        instructions in prop::collection::vec(instruction(), 0..60),
    ) {
        storm::check(&instructions.concat());
    }
}
