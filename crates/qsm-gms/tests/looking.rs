//! Those who look at a cluster without being nodes of it.

#[expect(dead_code, reason = "other tests use the rest")]
mod network;

use network::{Cluster, address, ms};
use qsm_gms::{HintList, Service, ServiceConfig};
use qsm_proto::enquiry::{Enquiry, EnquiryAnswer, EnquiryConfig, EnquiryQuestion};
use qsm_proto::{Destination, Instant, Seed};
use qsm_wire::membership::{
    AnswerRows, GroupDecision, GroupWay, PlanLimits, QueryKind, RegionKind, Role,
};
use qsm_wire::{
    Body, Coverage, GroupQuery, HeaderTemplate, ListQuery, NodeId, Origin, Packet, seal,
};

const SERVICE: u64 = 1;

/// A cluster with a service and members on hosts 10, 11, ...
fn cluster(members: u64) -> Cluster {
    served(members, Cluster::service_config(SERVICE))
}

/// The same with a service of this configuration.
fn served(members: u64, config: ServiceConfig) -> Cluster {
    let mut cluster = Cluster::new(12);
    cluster.start_service(config);
    for host in 10..10 + members {
        cluster.start_member(host, Some(address(SERVICE)));
    }
    cluster
}

/// Asks the service for a list, as one who is no node; nothing is lost on the way.
fn look(service: &mut Service, list: QueryKind) -> AnswerRows {
    match ask(service, EnquiryQuestion::List(list)) {
        EnquiryAnswer::Rows(rows) => rows,
        EnquiryAnswer::Group(answer) => panic!("{answer:?}"),
    }
}

/// The same for the account of a group.
fn explain(service: &mut Service, group: &str) -> Option<GroupDecision> {
    match ask(service, EnquiryQuestion::Group(group.to_owned())) {
        EnquiryAnswer::Group(answer) => answer.decision,
        EnquiryAnswer::Rows(rows) => panic!("{rows:?}"),
    }
}

fn ask(service: &mut Service, question: EnquiryQuestion) -> EnquiryAnswer {
    let config = EnquiryConfig {
        cluster: Cluster::service_config(SERVICE).cluster_number(),
        question,
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

// Rule R-MEM-18.
#[test]
fn a_group_is_explained_with_its_regions_and_with_what_else_is_possible() {
    let mut cluster = cluster(10);
    for host in 10..20 {
        cluster.enter(address(host), Role::Subscriber, &["all"]);
    }
    for host in 10..15 {
        cluster.enter(address(host), Role::Subscriber, &["half"]);
    }
    // What one node alone has does not divide it from the others.
    cluster.enter(address(19), Role::Subscriber, &["inbox"]);
    cluster.enter(address(19), Role::Publisher, &["all"]);
    cluster.run(ms(2000));
    let service = cluster.services.get_mut(&address(SERVICE)).unwrap();
    assert_eq!(explain(service, "nothing"), None);
    let all = explain(service, "all").unwrap();
    assert_eq!((all.receivers, all.publishers, all.packets), (10, 1, 2));
    assert_eq!((all.pin.as_deref(), all.left_out), (None, 0));
    let limits = PlanLimits {
        unwanted_ppm: 0,
        common: Some(10),
    };
    assert_eq!(all.limits, Some(limits));
    let regions = all.regions.iter();
    let mut told: Vec<_> = regions
        .map(|it| {
            (
                it.groups,
                it.kind,
                it.members,
                it.receivers,
                it.unwanted_ppm,
            )
        })
        .collect();
    told.sort_by_key(|(groups, ..)| *groups);
    let exact = RegionKind::Exact;
    assert_eq!(told, [(1, exact, 5, 5, 0), (2, exact, 5, 5, 0)]);
    // Ten nodes with two groups, of which five do not want one.
    let nearest = all.regions[0].nearest.unwrap();
    assert_eq!(nearest.region, all.regions[1].region);
    assert_eq!(nearest.unwanted_ppm, 250_000);
    let [exact, copies, common, merged] = all.ways[..] else {
        panic!("{:?}", all.ways);
    };
    assert!(matches!(exact, GroupWay::Exact { packets: 2, cost_ns } if cost_ns == all.cost_ns));
    assert!(matches!(copies, GroupWay::Copies { packets: 10, .. }));
    // A packet less a second, if it has one message a second; a token of each node in ten.
    let expected = GroupWay::Common {
        packets: 1,
        cost_ns: 5000,
        groups: 1,
        saved: 1000,
        spent: 1000,
    };
    assert_eq!(common, expected);
    let expected = GroupWay::Merged {
        packets: 1,
        cost_ns: 5000,
        unwanted_ppm: 250_000,
    };
    assert_eq!(merged, expected);
    let inbox = explain(service, "inbox").unwrap();
    assert_eq!((inbox.receivers, inbox.packets), (1, 1));
    assert_eq!(inbox.regions[0].kind, RegionKind::Private);
    assert_eq!(service.stats().groups_explained, 3);
}

// Rule R-MEM-18.
#[test]
fn an_account_is_no_longer_than_three_questions_and_not_given_beyond_the_rate() {
    let mut cluster = served(
        120,
        ServiceConfig {
            plan_interval: ms(0),
            ..Cluster::service_config(SERVICE)
        },
    );
    for host in 10..130 {
        let own = format!("own-{}", host / 2);
        cluster.enter(address(host), Role::Subscriber, &["all", &own]);
    }
    cluster.run(ms(3000));
    let service = cluster.services.get_mut(&address(SERVICE)).unwrap();
    let all = explain(service, "all").unwrap();
    assert_eq!((all.packets, all.limits), (60, None));
    assert!(all.left_out > 0, "{}", all.regions.len());
    assert_eq!(all.regions.len() + all.left_out as usize, 60);
    let number = Cluster::service_config(SERVICE).cluster_number();
    let now = Instant(2_000_000_000_000);
    let mut answers = 0;
    for padding in (0..200).rev() {
        let query = GroupQuery {
            nonce: 5,
            name: "all",
            padding,
        };
        let mut bytes = Vec::new();
        query.encode(
            &HeaderTemplate::new(number).header(Origin::default()),
            &mut bytes,
        );
        seal(&mut bytes, Coverage::Whole);
        service.handle_datagram(now, address(99), &bytes);
        while let Some(transmit) = service.poll_transmit(now) {
            if let Body::GroupReply(_) = Packet::open(transmit.bytes).unwrap().body {
                answers += 1;
                assert!(transmit.bytes.len() <= 3 * bytes.len());
            }
        }
    }
    assert_eq!((answers, service.stats().lists_refused), (32, 168));
}

// Rule R-MEM-18.
#[test]
fn a_question_without_room_for_the_head_of_an_account_gets_no_answer() {
    let hints = HintList::new()
        .pin("c".repeat(100), ["g"])
        .finish()
        .unwrap();
    let config = Cluster::service_config(SERVICE);
    let number = config.cluster_number();
    let mut cluster = served(2, ServiceConfig { hints, ..config });
    cluster.enter(address(10), Role::Subscriber, &["g"]);
    cluster.run(ms(2000));
    let service = cluster.services.get_mut(&address(SERVICE)).unwrap();
    let pin = explain(service, "g").unwrap().pin.unwrap();
    // It is cut.
    assert_eq!(pin, "c".repeat(GroupDecision::NAME_BYTES_MAX));
    let mut answered = |padding| {
        let query = GroupQuery {
            nonce: 5,
            name: "g",
            padding,
        };
        let mut bytes = Vec::new();
        let header = HeaderTemplate::new(number).header(Origin::default());
        query.encode(&header, &mut bytes);
        seal(&mut bytes, Coverage::Whole);
        let now = Instant(2_000_000_000_000);
        service.handle_datagram(now, address(99), &bytes);
        let mut answers = 0;
        while let Some(transmit) = service.poll_transmit(now) {
            answers += u32::from(transmit.to == Destination::Node(address(99)));
        }
        answers
    };
    assert_eq!([0, 450].map(&mut answered), [0, 1]);
}
