//! Parities among nodes joined in memory: who gets them, and what is left of them (R-NAK-15).

#[expect(dead_code, reason = "each test file uses its own part of it")]
mod cluster;

use std::time::Duration;

use cluster::Cluster;
use qsm_proto::Config;

const PUBLISHER: u64 = 20;
const MESSAGES: u64 = 4000;

/// A region in which one member keeps each block, and the others lose that share of what comes.
fn lossy(loss_ppm: u32, configure: impl Fn(&mut Config)) -> Cluster {
    let mut cluster = Cluster::new(12, &[PUBLISHER], |config| {
        config.layout.replication = 1;
        configure(config);
    });
    cluster.flight.loss.data_ppm = loss_ppm;
    for number in 0..MESSAGES {
        cluster.publish(PUBLISHER, 0, &[(number % 251) as u8; 1300]);
        if number % 48 == 47 {
            cluster.run(Duration::from_micros(300));
        }
    }
    cluster.settle(Duration::from_secs(5));
    cluster
}

fn assert_all_have_everything(cluster: &Cluster) {
    for member in &cluster.members {
        let got = cluster.got[member]
            .iter()
            .map(|message| (message.2, &message.3[..]));
        let sent = (0..MESSAGES).map(|number| (number + 1, vec![(number % 251) as u8; 1300]));
        let sent: Vec<_> = sent.collect();
        let sent = sent.iter().map(|(number, bytes)| (*number, &bytes[..]));
        assert!(got.eq(sent), "member {member}");
    }
}

// Rule R-NAK-15.
#[test]
fn members_that_miss_different_packets_are_served_by_the_same_parities() {
    let cluster = lossy(100_000, |config| config.recovery.parity = true);
    assert_all_have_everything(&cluster);
    let restored = cluster.total(|stats| stats.repaired_by_parity);
    let parities = cluster.total(|stats| stats.parities_sent);
    assert!(
        parities > 50 && restored > 3 * parities,
        "{restored} by {parities}"
    );
    assert_eq!(cluster.total(|stats| stats.parities_refused), 0);
    // Everything is stable: nothing is kept for blocks that are whole.
    assert!(cluster.nodes.values().all(|node| node.kept_bytes() == 0));
}

// Rule R-NAK-15.
#[test]
fn who_uses_no_parities_is_sent_the_packets() {
    let uses = |node: u64| node.is_multiple_of(2);
    let cluster = lossy(100_000, |config| {
        config.recovery.parity = uses(config.node.0);
    });
    assert_all_have_everything(&cluster);
    assert!(cluster.total(|stats| stats.repaired_by_parity) > 0);
    for (node, endpoint) in &cluster.nodes {
        let stats = endpoint.stats();
        assert!(
            uses(*node) || stats.repaired_by_parity + stats.parities_sent == 0,
            "{node}"
        );
    }
}

// Rule R-NAK-15.
#[test]
fn few_losses_are_repaired_one_by_one() {
    let cluster = lossy(500, |config| config.recovery.parity = true);
    assert_all_have_everything(&cluster);
    assert!(cluster.total(|stats| stats.repaired_by_cacher) > 5);
    assert_eq!(cluster.total(|stats| stats.parities_sent), 0);
}

// Rule R-NAK-17.
#[test]
fn parities_that_nobody_asked_for_restore_what_is_lost() {
    let cluster = lossy(10_000, |config| {
        config.recovery.parity = true;
        config.recovery.parities_ahead = 2;
    });
    assert_all_have_everything(&cluster);
    let restored = cluster.total(|stats| stats.repaired_by_parity);
    let ahead = cluster.total(|stats| stats.parities_ahead_sent);
    let packets = cluster.total(|stats| stats.data_sent);
    assert!(ahead > packets / 10 && ahead <= packets / 8, "{ahead}");
    let asked = cluster.total(|stats| stats.naks_sent);
    // Twelve members lose a hundredth, some 480 packets.
    assert!(restored > 400 && asked < 48, "{restored}, {asked} requests");
    assert_eq!(cluster.total(|stats| stats.parities_refused), 0);
    assert!(cluster.nodes.values().all(|node| node.kept_bytes() == 0));
}

// Rule R-NAK-17.
#[test]
fn who_uses_no_parities_repairs_beside_a_sender_that_sends_them_unasked() {
    let cluster = lossy(10_000, |config| {
        config.recovery.parity = config.node.0 == PUBLISHER;
        config.recovery.parities_ahead = 1;
    });
    assert_all_have_everything(&cluster);
    assert!(cluster.total(|stats| stats.parities_ahead_sent) > 0);
    assert_eq!(cluster.total(|stats| stats.repaired_by_parity), 0);
}

// Rule R-NAK-17.
#[test]
fn more_parities_than_leave_some_to_cachers_are_refused() {
    let mut config = Config::new(qsm_wire::NodeId(1), ([127, 0, 0, 1], 1).into());
    config.recovery.parities_ahead = 5;
    let error = config.check().unwrap_err();
    assert_eq!(error.to_string(), "5 parities ahead are more than 4");
}
