//! A stream's numbers and intervals.

use std::time::Duration;

use clap::ValueEnum;
use qsm_relay::{SessionId, Timing};
use sha2::{Digest, Sha256};

/// Round trips before they are measured: to children, and to a parent.
const FIRST_TRIPS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(20)];

/// Ending that tells the sealed stream of a name from the open one: no name has it, since UTF-8 has no such byte.
const SEALED: &[u8] = b"\xffsealed";

/// Parity ahead of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ParityMode {
    /// To children whose own hop loses packets and is long
    Auto,
    /// None
    Off,
}

/// The session that a stream's name stands for: the first twelve bytes of SHA-256 of it, with an ending if its
/// contents are sealed, little-endian.
pub(super) fn session(name: &str, is_sealed: bool) -> SessionId {
    let mut digest = Sha256::new_with_prefix(name);
    if is_sealed {
        digest.update(SEALED);
    }
    let digest = digest.finalize();
    let (mut source, mut group) = ([0; 8], [0; 4]);
    source.copy_from_slice(&digest[..8]);
    group.copy_from_slice(&digest[8..12]);
    SessionId {
        source: u64::from_le_bytes(source),
        group: u32::from_le_bytes(group),
    }
}

/// Intervals before round trips are measured.
pub(super) fn timing() -> Timing {
    let [children, parent] = FIRST_TRIPS;
    Timing::new(children, parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_session_that_does_not_change() {
        let news = session("news", false);
        assert_eq!(news, session("news", false));
        assert_ne!(news, session("new", false));
        assert_ne!(news, session("news", true));
        assert_eq!(
            (news.source, news.group),
            (0x4f79_b995_e9a0_fb19, 0x1762_c2c2)
        );
    }
}
