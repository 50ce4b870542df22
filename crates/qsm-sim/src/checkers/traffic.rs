use std::collections::BTreeMap;

use qsm_proto::Reason;
use qsm_testnet::NetworkCounters;
use qsm_wire::Parity;

use crate::engine::Traffic;
use crate::options::SimOptions;
use crate::violation::Violation;

/// Repairs per lost copy of a data packet. One is needed, two come when token and NAK plane both
/// answer, and repairs get lost or doubled themselves.
const REPAIRS_PER_LOSS: u64 = 6;
/// NAKs and pulls per lost copy: retries, and passing on along the cachers of a partition.
const REQUESTS_PER_LOSS: u64 = 24;
/// Repairs and requests per copy that comes so late that it seems lost.
const PER_LATE: u64 = 3;
/// Of so many packets that were only overtaken one may be asked for in vain.
const OVERTAKEN_PER_REPAIR: u64 = 4;
/// What is free without any disturbance: a burst of packets that overtake each other before it is
/// known that they do.
const FREE: u64 = 500;
/// What is free per disturbance (crash, freeze, split, change of membership): a dead node's
/// neighbours ask in vain, and a node that was away asks for all it missed.
const FREE_PER_DISTURBANCE: u64 = 4000;
/// Datagrams of the token plane per round and node: a token, its receipt, the call and the
/// summary, some of them repeated.
const TOKENS_PER_ROUND: u64 = 8;
/// Rounds that a region completes in a second: tokens are at least 5 ms apart, unless a sixteenth
/// of the credit has arrived since.
const ROUNDS_PER_SECOND: u64 = 250;

/// What a run was like, for the judgement of its traffic.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Course {
    pub(crate) nodes: u64,
    pub(crate) seconds: u64,
    pub(crate) regions: u64,
    pub(crate) disturbances: u64,
    /// Parities that senders multicast without being asked, for a million packets.
    pub(crate) parities_ahead: u64,
}

/// Parities that senders multicast of each whole block without being asked (R-NAK-17), for a million packets.
pub(crate) fn parities_ahead(options: &SimOptions) -> u64 {
    let block = options.layout.block_packets;
    let sent = options.multicast && (2..=u64::from(Parity::PACKETS_MAX)).contains(&block);
    match sent {
        true => 1_000_000 * u64::from(options.recovery.parities_ahead()) / block,
        false => 0,
    }
}

/// Repairs, requests and tokens stay in proportion to what was lost, to rounds and to time
/// (R209-R211, R073): no storm, and nothing asked for that nobody misses (R074).
pub(crate) fn check(
    traffic: &Traffic,
    network: &NetworkCounters,
    stats: &BTreeMap<&'static str, u64>,
    course: Course,
) -> Result<(), Violation> {
    let sent = |reason: Reason| traffic.counts[reason as usize];
    let counted = |name: &str| stats.get(name).copied().unwrap_or(0);
    let overtaken = counted("repaired_by_reorder") / OVERTAKEN_PER_REPAIR;
    let free = FREE
        + overtaken
        + PER_LATE * network.data_late
        + FREE_PER_DISTURBANCE * course.disturbances;
    // With copies for members that multicast does not reach.
    let data_sent = counted("data_sent") + counted("copies_sent");
    let ahead = data_sent * course.parities_ahead / 1_000_000;
    let rounds = counted("rounds") + counted("rounds_abandoned");
    // A leader that dies takes its count of rounds with it into the sum; a round in progress is
    // in none.
    let tokens = TOKENS_PER_ROUND * course.nodes * (rounds + 10 * (course.disturbances + 1));
    // What there was no room for is as good as lost.
    let lost = network.data_lost
        + network.data_unheard
        + counted("discard_memory")
        + counted("discard_ahead");
    let limits = [
        (
            "repairs",
            sent(Reason::Repair),
            lost * REPAIRS_PER_LOSS + free + ahead,
        ),
        (
            "requests",
            sent(Reason::Request),
            lost * REQUESTS_PER_LOSS + free,
        ),
        ("tokens", sent(Reason::Token), tokens),
        (
            "rounds",
            rounds,
            ROUNDS_PER_SECOND * (course.seconds + 1) * course.regions.max(1),
        ),
    ];
    for (what, count, most) in limits {
        if count > most {
            return Err(Violation::new(
                "traffic",
                format!(
                    "{count} {what}, more than {most}: {lost} data packets were lost or found no room, {} came \
                     late, there were {} disturbances and {rounds} rounds",
                    network.data_late, course.disturbances
                ),
            ));
        }
    }
    Ok(())
}
