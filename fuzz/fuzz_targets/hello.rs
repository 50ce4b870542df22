//! Arbitrary bytes as hellos and as pieces of links: a hello has one form, and a datagram is whole when its pieces are.

#![no_main]

use std::net::SocketAddr;

use qsm_link::Joiner;

#[path = "../../crates/qsm-link/src/hello.rs"]
mod hello;

use hello::{HELLO_BYTES_MAX, Hello};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(read) = Hello::decode(bytes) {
        assert!(bytes.len() <= HELLO_BYTES_MAX);
        assert_eq!(read.encode(), bytes);
    }
    // Datagrams, each behind its length, of one of two ports.
    let mut joiner = Joiner::default();
    let mut rest = bytes;
    while let [high, low, tail @ ..] = rest {
        let length = usize::from(*high & 0x7f) << 8 | usize::from(*low);
        let (datagram, tail) = tail.split_at(length.min(tail.len()));
        rest = tail;
        let from = SocketAddr::from(([10, 0, 0, 1], u16::from(*high >> 7)));
        let joined = joiner.stats().joined;
        let whole = joiner.join(from, datagram, false);
        assert_eq!(joiner.stats().joined, joined + u64::from(whole));
        assert!(!whole || !joiner.whole().is_empty());
    }
});
