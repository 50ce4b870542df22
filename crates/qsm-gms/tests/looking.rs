//! Those who look at a cluster without being nodes of it.

#[expect(dead_code, reason = "other tests use the rest")]
mod network;

use network::{Cluster, address, ms};
use qsm_gms::Service;
use qsm_proto::enquiry::{Enquiry, EnquiryConfig};
use qsm_proto::{Destination, Instant, Seed};
use qsm_wire::membership::{AnswerRows, QueryKind, Role};
use qsm_wire::{Coverage, HeaderTemplate, ListQuery, NodeId, Origin, seal};

const SERVICE: u64 = 1;

/// A cluster with a service and members on hosts 10, 11, ...
fn cluster(members: u64) -> Cluster {
    let mut cluster = Cluster::new(12);
    cluster.start_service(Cluster::service_config(SERVICE));
    for host in 10..10 + members {
        cluster.start_member(host, Some(address(SERVICE)));
    }
    cluster
}

/// Asks the service for a list, as one who is no node; nothing is lost on the way.
fn look(service: &mut Service, list: QueryKind) -> AnswerRows {
    let config = EnquiryConfig {
        cluster: Cluster::service_config(SERVICE).cluster_number(),
        list,
        service: Some(address(SERVICE)),
        discovery: Cluster::service_config(SERVICE).discovery,
        datagram_bytes: 1472,
    };
    // Later than all that it has heard.
    let mut now = Instant(1_000_000_000_000);
    let mut enquiry = Enquiry::new(config, NodeId(77), Seed(3), now);
    loop {
        enquiry.handle_timeout(now);
        let (mut asked, mut answered) = (0, 0);
        while let Some(transmit) = enquiry.poll_transmit(now) {
            asked += transmit.bytes.len();
            service.handle_datagram(now, address(99), transmit.bytes);
        }
        while let Some(transmit) = service.poll_transmit(now) {
            if transmit.to == Destination::Node(address(99)) {
                answered += transmit.bytes.len();
                enquiry.handle_datagram(now, transmit.bytes);
            }
        }
        assert!(answered <= 3 * asked, "{answered} for {asked}");
        if let Some(outcome) = enquiry.poll_outcome() {
            return outcome.unwrap();
        }
        now = now.after(ms(1));
    }
}

fn rows_of(service: &Service, list: QueryKind) -> AnswerRows {
    let rows = service.rows();
    match list {
        QueryKind::Nodes => AnswerRows::Nodes(rows.nodes),
        QueryKind::Groups => AnswerRows::Groups(rows.groups),
        QueryKind::Regions => AnswerRows::Regions(rows.regions),
    }
}

// Rule R-MEM-18.
#[test]
fn who_is_no_node_gets_the_same_lists_part_by_part() {
    let mut cluster = cluster(30);
    for host in 10..40 {
        let name = format!("a group with a name that is long, of host {host}");
        cluster.enter(address(host), Role::Subscriber, &["all", &name]);
    }
    cluster.run(ms(2000));
    let service = cluster.services.get_mut(&address(SERVICE)).unwrap();
    let before = service.stats();
    for list in [QueryKind::Nodes, QueryKind::Groups, QueryKind::Regions] {
        assert_eq!(look(service, list), rows_of(service, list));
    }
    let after = service.stats();
    // More than one part for some.
    assert!(after.list_parts > 3, "{}", after.list_parts);
    assert_eq!((after.batches, after.admitted), (before.batches, 30));
    assert_eq!(service.sessions(), 30);
}

// Rule R-MEM-18.
#[test]
fn a_question_of_another_cluster_or_beyond_the_rate_gets_no_answer() {
    let mut cluster = cluster(2);
    cluster.run(ms(2000));
    let now = cluster.now;
    let service = cluster.services.get_mut(&address(SERVICE)).unwrap();
    let ask = |service: &mut Service, cluster: u32| {
        let query = ListQuery {
            nonce: 5,
            list: QueryKind::Nodes,
            version: 0,
            offset: 0,
            padding: 0,
        };
        let header = HeaderTemplate::new(cluster).header(Origin::default());
        let mut bytes = Vec::new();
        query.encode(&header, &mut bytes);
        seal(&mut bytes, Coverage::Whole);
        service.handle_datagram(now, address(99), &bytes);
    };
    let answers = |service: &mut Service| {
        let mut answers = 0;
        while let Some(transmit) = service.poll_transmit(now) {
            if transmit.to == Destination::Node(address(99)) {
                answers += 1;
                // A question without padding gets a short answer.
                assert!(transmit.bytes.len() <= 3 * ListQuery::BYTES);
            }
        }
        answers
    };
    let own = Cluster::service_config(SERVICE).cluster_number();
    ask(service, own + 1);
    assert_eq!((answers(service), service.stats().discard_cluster), (0, 1));
    (0..300).for_each(|_| ask(service, own));
    assert_eq!((answers(service), service.stats().lists_refused), (256, 44));
}

// Rule R-MEM-18.
#[test]
fn a_service_that_does_not_know_the_cluster_yet_says_nothing_of_it() {
    let config = Cluster::service_config(SERVICE);
    let number = config.cluster_number();
    let mut service = Service::new(config, Seed(1), Instant(0)).unwrap();
    let query = ListQuery {
        nonce: 5,
        list: QueryKind::Nodes,
        version: 0,
        offset: 0,
        padding: 400,
    };
    let mut bytes = Vec::new();
    query.encode(
        &HeaderTemplate::new(number).header(Origin::default()),
        &mut bytes,
    );
    seal(&mut bytes, Coverage::Whole);
    service.handle_datagram(Instant(0), address(99), &bytes);
    assert_eq!(service.stats().lists_unready, 1);
    assert_eq!(service.stats().list_parts, 0);
    // Nobody has reported: there is nobody.
    let later = Instant(0).after(ms(1500));
    service.handle_datagram(later, address(99), &bytes);
    assert_eq!(service.stats().list_parts, 1);
}
