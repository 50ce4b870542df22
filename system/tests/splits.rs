//! Networks that fall apart in halves and come together again: everybody gets everything that both
//! sides have published meanwhile.

use std::time::Duration;

use lab::HostId;
use qsm_system::cluster::{Cluster, Plan, Scope};
use qsm_system::trial::{Outcome, compare};

const BYTES: usize = 300;
/// Messages a second of each of the four members.
const RATE: u64 = 500;
const LASTS: Duration = Duration::from_secs(10);

/// Four members, of which all publish; two of them are cut off from the others and the service.
fn everybody_has_everything(own_service: bool) {
    if !lab::ready() {
        return;
    }
    let mut plan = Plan::new(env!("CARGO_BIN_EXE_system-node"), 4);
    plan.publishers = 0;
    plan.both = 4;
    plan.own_service = own_service;
    let mut cluster = Cluster::start(plan).unwrap();
    cluster.publish(BYTES, RATE).unwrap();
    let half: Vec<HostId> = [0, 1].map(|node| cluster.host(Some(node))).to_vec();
    cluster.cut(&half, Scope::All).unwrap();
    std::thread::sleep(LASTS);
    cluster.lab().heal().unwrap();
    let mut outcome = Outcome::default();
    compare(&mut cluster, &mut outcome).unwrap();
    assert!(outcome.is_whole(), "{outcome} {:?}", outcome.ranges);
    cluster.quit().unwrap();
}

#[test]
fn a_service_is_in_one_half() {
    everybody_has_everything(true);
}

#[test]
fn each_half_has_a_service_of_its_own() {
    everybody_has_everything(false);
}
