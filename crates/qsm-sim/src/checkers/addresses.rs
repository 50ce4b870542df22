use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use qsm_wire::NodeId;
use qsm_wire::membership::RegionRow;

use crate::options::SimOptions;
use crate::violation::Violation;

/// A service gives no more multicast addresses than it has (R-MEM-8), unless hints ask for more, and
/// never one to nodes of two domains (R-VIEW-18).
pub(crate) fn check(
    options: &SimOptions,
    regions: &[RegionRow],
    host: impl Fn(NodeId) -> Option<usize>,
) -> Result<(), Violation> {
    let mut used: BTreeMap<SocketAddr, BTreeSet<usize>> = BTreeMap::new();
    let shared = regions.iter().filter(|row| row.address.ip().is_multicast());
    for row in shared {
        let members = row.members.iter();
        let hosts = members.filter_map(|member| host(member.origin.node));
        used.entry(row.address).or_default().extend(hosts);
    }
    let most = options.addresses.unwrap_or(usize::MAX);
    // After a restart regions of the former service keep what they have.
    let bounded = options.hints.is_empty() && !options.has_service_deaths();
    if bounded && used.len() > most {
        let message = format!("{} multicast addresses are in use, of {most}", used.len());
        return Err(Violation::new("addresses", message));
    }
    for (address, hosts) in &used {
        let first = hosts.first().copied().unwrap_or_default();
        if let Some(other) = hosts.iter().find(|host| options.is_foreign(first, **host)) {
            let message = format!(
                "hosts {first} and {other}, which are of two domains, both receive from {address}"
            );
            return Err(Violation::new("addresses", message));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use qsm_proto::Seed;
    use qsm_wire::membership::{Member, RegionKind};
    use qsm_wire::{Incarnation, Origin, RegionId, ViewNumber};

    use super::*;
    use crate::hints::Hint;

    fn region(id: u32, node: u64, last: u8) -> RegionRow {
        let address = SocketAddr::from(([239, 0, 1, last], 7));
        let origin = Origin {
            node: NodeId(node),
            incarnation: Incarnation(1),
        };
        let member = Member {
            origin,
            address: SocketAddr::from(([10, 0, 0, 1], 7)),
            joined: ViewNumber(1),
            left: None,
            away: None,
        };
        RegionRow {
            region: RegionId(id),
            view: ViewNumber(1),
            address,
            kind: RegionKind::Exact,
            groups: 1,
            members: vec![member],
        }
    }

    #[test]
    fn more_addresses_than_there_are_and_one_of_two_domains_are_seen() {
        let mut options = SimOptions::quiet(Seed(1), 3);
        let judge = |options: &SimOptions, rows: &[RegionRow]| {
            check(options, rows, |node| usize::try_from(node.0).ok())
        };
        let rows = [region(1, 1, 1), region(2, 2, 1), region(3, 3, 2)];
        assert!(judge(&options, &rows).is_ok());
        options.addresses = Some(1);
        assert!(judge(&options, &rows).is_err());
        options.addresses = Some(2);
        assert!(judge(&options, &rows).is_ok());
        options.hints.push(Hint::Domain([2].into()));
        assert!(judge(&options, &rows).is_err());
    }
}
