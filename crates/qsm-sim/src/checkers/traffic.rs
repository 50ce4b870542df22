use qsm_proto::Reason;

use crate::engine::Traffic;
use crate::network::NetworkCounters;
use crate::violation::Violation;

/// Repairs per lost copy of a data packet. One is needed, two come when token and NAK plane both
/// answer, and repairs get lost or doubled themselves.
const REPAIRS_PER_LOSS: u64 = 6;
/// NAKs and pulls per lost copy: retries, and passing on along the cachers of a partition.
const REQUESTS_PER_LOSS: u64 = 24;
/// What is free per disturbance (crash, freeze, split, change of membership): a dead node's
/// neighbours ask in vain, and a node that was away asks for all it missed.
const FREE_PER_DISTURBANCE: u64 = 4000;

/// Repairs and requests stay in proportion to what was lost (R209-R211): no storm.
pub(crate) fn check(
    traffic: &Traffic,
    network: &NetworkCounters,
    disturbances: u64,
) -> Result<(), Violation> {
    let free = FREE_PER_DISTURBANCE * (disturbances + 1);
    let limits = [
        (Reason::Repair, REPAIRS_PER_LOSS),
        (Reason::Request, REQUESTS_PER_LOSS),
    ];
    for (reason, per_loss) in limits {
        let sent = traffic.counts[reason as usize];
        let most = network.data_lost * per_loss + free;
        if sent > most {
            return Err(Violation::new(
                "traffic",
                format!(
                    "{sent} datagrams of kind {reason:?} for {} lost data packets and \
                     {disturbances} disturbances, more than {most}",
                    network.data_lost
                ),
            ));
        }
    }
    Ok(())
}
