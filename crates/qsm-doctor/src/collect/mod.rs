//! Where each fact is read.

mod card;
mod error;
mod kernel;
mod link;
mod tool;

use std::thread;
use std::time::Duration;

use qsm_net::address_claimed;

pub use self::error::CollectError;
use crate::facts::{Claim, Facts, Growth, Link};
use crate::firewall::{Firewall, Rules};

/// Time that another host with the same address has for its answer.
const CLAIM_TIME: Duration = Duration::from_millis(200);

/// Reads what is known of this host and of an interface; counters of losses are read twice, with so
/// much time in between.
///
/// # Errors
/// There is no such interface.
pub fn collect(
    interface: &str,
    receive_buffer: u64,
    watch: Duration,
) -> Result<Facts, CollectError> {
    let (link, others) = link::read(interface)?;
    let before = Losses::read(interface);
    thread::sleep(watch);
    let now = Losses::read(interface);
    let mut kernel = kernel::read(interface, receive_buffer);
    kernel.udp = growth(before.udp, now.udp);
    kernel.backlog = growth(before.backlog, now.backlog);
    let mut card = card::read(interface);
    card.missed = growth(before.missed, now.missed);
    let rules = tool::output("nft", &["-j", "list", "ruleset"]);
    let rules = rules.and_then(|text| Rules::read(&text));
    // One that is down has no way out, which another finding says.
    let route = match link.up {
        Some(true) => link::route(interface),
        _ => None,
    };
    let claims = claims(&link);
    Ok(Facts {
        link,
        others,
        kernel,
        card,
        firewall: rules.map_or(Firewall::Unknown, Firewall::Known),
        route,
        claims,
    })
}

/// Hosts that answer for addresses of the interface; `None`: it may not be asked, or has no hardware addresses.
fn claims(link: &Link) -> Option<Vec<Claim>> {
    if link.up != Some(true) {
        return None;
    }
    let mut claims = Vec::new();
    for address in &link.addresses {
        let claimed = address_claimed(link.index?, *address, CLAIM_TIME).ok()?;
        claims.extend(claimed.map(|hardware| Claim {
            address: *address,
            hardware: hardware.map(|byte| format!("{byte:02x}")).join(":"),
        }));
    }
    Some(claims)
}

/// Counters of losses: lost and handled.
struct Losses {
    udp: Option<[u64; 2]>,
    backlog: Option<[u64; 2]>,
    missed: Option<[u64; 2]>,
}

impl Losses {
    fn read(interface: &str) -> Self {
        Self {
            udp: kernel::udp(),
            backlog: kernel::backlog(),
            missed: link::missed(interface),
        }
    }
}

fn growth(before: Option<[u64; 2]>, now: Option<[u64; 2]>) -> Option<Growth> {
    let ([before, _], [total, handled]) = (before?, now?);
    Some(Growth {
        total,
        handled,
        grown: total.saturating_sub(before),
    })
}
