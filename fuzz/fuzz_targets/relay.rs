//! Arbitrary datagrams as packets of relays: rejected, or re-encoded to the same bytes.

#![no_main]

use qsm_relay::Packet;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(packet) = Packet::decode(bytes) {
        let mut again = Vec::new();
        packet.encode(&mut again);
        assert_eq!(again, bytes);
    }
});
