use std::collections::BTreeMap;

use qsm_proto::Instant;
use qsm_proto::send::SendStream;
use qsm_wire::{Origin, RegionId};

use crate::options::SimOptions;
use crate::violation::Violation;

/// Bytes that wait to be sent, below which nobody can tell whether a sender has more to send than it may.
const WAITING_BYTES: usize = 32 << 10;
/// Time after which it has to have sent its packets, nanoseconds.
const SECOND_NS: u64 = 1_000_000_000;
/// Looks of that time at least at which something waited.
const LOOKS: u32 = 5;
/// In the mode as printed, equation 3 corrects the rate by up to this factor; of all others half is enough,
/// since views and trains are not in step with seconds.
const CORRECTED: u32 = 8;
const SHARE: u32 = 2;

/// No sender is held below the rate that the operator gives to all groups (R-RATE-10).
#[derive(Debug, Default)]
pub(crate) struct Minimum {
    held: BTreeMap<(RegionId, Origin), Held>,
}

/// A sender at which something waits.
#[derive(Debug)]
struct Held {
    since: Instant,
    /// Highest packet then.
    highest: u64,
    looks: u32,
}

/// Packets that a sender at which something waits sends in a second at least; `None`: receivers may hold it.
fn least(options: &SimOptions) -> Option<u64> {
    let minimum = Some(options.minimum_packets()).filter(|minimum| *minimum > 0)?;
    // Copies for members that hear no multicast are within the operator's bound.
    let copies = u32::try_from(options.nodes).unwrap_or(u32::MAX);
    let allowed = options.pace.rate_max_packets / copies.saturating_add(1);
    let share = if options.pace.faithful_rate {
        CORRECTED
    } else {
        SHARE
    };
    // At no limit at all nothing waits for a second.
    let limited = minimum < u32::MAX || options.pace.rate_max_packets < u32::MAX;
    let packets = u64::from((minimum.min(allowed) / share).max(1));
    Some(if limited { packets } else { u64::MAX })
}

impl Minimum {
    /// Judges one moment of a sender that runs.
    pub(crate) fn check(
        &mut self,
        now: Instant,
        options: &SimOptions,
        region: RegionId,
        stream: &SendStream,
    ) -> Result<(), Violation> {
        let Some(least) = least(options) else {
            return Ok(());
        };
        let (sender, highest) = (stream.id().origin, stream.highest());
        let key = (region, sender);
        if stream.unsent_bytes() < WAITING_BYTES {
            self.held.remove(&key);
            return Ok(());
        }
        let held = self.held.entry(key).or_insert(Held {
            since: now,
            highest,
            looks: 0,
        });
        held.looks += 1;
        if now.0 < held.since.0 + SECOND_NS {
            return Ok(());
        }
        let (sent, looks) = (highest.saturating_sub(held.highest), held.looks);
        self.held.remove(&key);
        if looks < LOOKS || sent >= least {
            return Ok(());
        }
        let message = format!(
            "{sender} is held in {region}: {sent} packets in a second although more wait, and no receiver \
             may hold it"
        );
        Err(Violation::new("minimum", message))
    }

    /// A sender stands still, or has no time to send.
    pub(crate) fn forget(&mut self, sender: Origin) {
        self.held.retain(|(_, other), _| *other != sender);
    }
}
