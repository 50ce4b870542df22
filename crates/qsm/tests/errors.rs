//! Errors name the cause and the remedy.

mod common;

use std::net::UdpSocket;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use common::{PATIENCE, Site};
use qsm::{
    CloseReason, DESCRIPTION_BYTES_MAX, Family, Limits, NetworkOptions, Node, PortError, RecvError,
    RequestError, SendError, StartError,
};

fn start_error(builder: qsm::Builder) -> (StartError, String) {
    let error = builder.start().expect_err("it should not start");
    let text = error.to_string();
    (error, text)
}

#[test]
fn an_unknown_interface_is_named_with_those_that_exist() {
    let (error, text) = start_error(Node::builder().interface("nosuch0"));
    assert!(matches!(error, StartError::Interface(_)));
    assert!(
        text.contains("nosuch0") && text.contains("lo (127.0.0.1"),
        "{text}"
    );
}

#[test]
fn more_interfaces_than_two_and_one_twice_are_refused() {
    fn on<const N: usize>(interfaces: [&str; N]) -> qsm::Builder {
        Node::builder().network(NetworkOptions::new().interfaces(interfaces))
    }
    let (error, text) = start_error(on(["lo", "lo", "lo"]));
    assert!(matches!(error, StartError::TooManyInterfaces { given: 3 }));
    assert!(
        text.contains("3 interfaces are too many; give one, or two"),
        "{text}"
    );
    let (error, text) = start_error(on(["lo", "lo"]));
    assert!(matches!(
        error,
        StartError::Port(PortError::SameInterface { .. })
    ));
    assert!(text.contains("lo is given twice"), "{text}");
}

#[test]
fn a_busy_port_is_named() {
    let taken = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let site = Site::new();
    let network = site.network().unicast_port(port);
    let (error, text) = start_error(site.builder("a").network(network));
    assert!(
        matches!(error, StartError::Port(PortError::AddressInUse { .. })),
        "{error:?}"
    );
    assert!(
        text.contains(&port.to_string()) && text.contains("choose another port"),
        "{text}"
    );
}

#[test]
fn addresses_of_two_families_are_refused() {
    let network = || NetworkOptions::new().interface("127.0.0.1");
    let builder = || Node::builder().network(network());
    let service = "[fd00::1]:4481".parse().unwrap();
    let (error, text) = start_error(builder().service(service));
    assert!(matches!(error, StartError::Families { .. }), "{error:?}");
    assert_eq!(
        text,
        "the membership service at [fd00::1]:4481 cannot be used from interface lo (127.0.0.1), \
         which is of the other family; all nodes of a cluster use IPv4, or all IPv6: choose an \
         interface by an address of the right family, or change the other"
    );
    let discovery = "[ff15::8000:1]:4483".parse().unwrap();
    let (_, text) = start_error(builder().network(network().discovery(discovery)));
    assert!(text.starts_with("the discovery address [ff15::8000:1]:4483 cannot"));
    let (_, text) = start_error(builder().network(network().family(Family::V6)));
    assert!(text.starts_with("IPv6 cannot be used from interface lo (127.0.0.1)"));
}

#[test]
fn names_that_cannot_be_used_are_refused() {
    let long = "n".repeat(qsm::NAME_BYTES_MAX + 1);
    let (error, text) = start_error(Site::new().builder(&long));
    assert!(
        matches!(
            error,
            StartError::Name {
                of: "node",
                length: 65,
                max: 64
            }
        ),
        "{error:?}"
    );
    assert!(text.contains("1 to 64 bytes"), "{text}");
    let (error, _) = start_error(Site::new().builder("a").cluster(""));
    assert!(matches!(error, StartError::Name { of: "cluster", .. }));
}

#[test]
fn a_cpu_that_does_not_exist_is_refused() {
    let (error, text) = start_error(Site::new().builder("a").pin([100_000]));
    assert!(matches!(error, StartError::Thread(_)));
    assert!(
        text.starts_with("there is no CPU 100000 here; choose among 0"),
        "{text}"
    );
}

#[test]
fn a_configuration_that_cannot_work_is_refused() {
    let (error, _) = start_error(Site::new().builder("a").datagram_bytes(100));
    assert!(matches!(error, StartError::Config(_)));
}

#[test]
fn group_names_that_cannot_be_used_are_refused() {
    let node = Site::new().first("a");
    let long = "g".repeat(qsm::GROUP_NAME_BYTES_MAX + 1);
    for name in [long.as_str(), "", "new\nline"] {
        let refused = |result: Result<(), RequestError>| {
            assert!(
                matches!(result, Err(RequestError::Refused { .. })),
                "{name}: {result:?}"
            );
        };
        refused(node.subscribe([name]).map(|_| ()));
        refused(node.publisher(name).map(|_| ()));
    }
    assert!(node.stats().unwrap().subscriptions.is_empty());
    node.subscribe(["fine"]).unwrap();
}

#[test]
fn a_message_above_the_limit_is_refused_with_the_limit() {
    let limits = Limits {
        message_bytes: 1000,
        ..Limits::default()
    };
    let site = Site::new();
    let builder = site.builder("a").embedded_service(qsm::Embedded::Always);
    let node = common::admitted(builder.limits(limits));
    let publisher = node.publisher("x").unwrap();
    publisher.send(&[0; 1000]).unwrap();
    let too_large = SendError::TooLarge {
        length: 1001,
        max: 1000,
    };
    assert_eq!(publisher.send(&[0; 1001]), Err(too_large));
}

#[test]
fn without_a_service_requests_time_out_and_are_withdrawn() {
    let site = Site::new();
    let node = site
        .builder("a")
        .request_timeout(Duration::from_millis(50))
        .start()
        .unwrap();
    let error = node.subscribe(["x"]).map(|_| ()).unwrap_err();
    assert!(matches!(error, RequestError::Timeout { .. }));
    assert!(error.to_string().contains("service"), "{error}");
    assert!(node.publisher("x").is_err());
    assert!(node.list_nodes().is_err());
    assert!(node.stats().unwrap().subscriptions.is_empty());
    node.shutdown(PATIENCE).unwrap();
}

// Rule R-MEM-21.
#[test]
fn a_description_is_listed_and_one_that_is_none_is_refused() {
    let node = Site::new().first("a");
    let is = |text: Option<&str>| {
        let until = Instant::now() + PATIENCE;
        while node.list_nodes().unwrap()[0].description.as_deref() != text {
            assert!(Instant::now() < until, "{text:?} is not listed");
        }
    };
    is(None);
    let longest = "d".repeat(DESCRIPTION_BYTES_MAX);
    node.describe("third row").unwrap();
    is(Some("third row"));
    node.describe(&*longest).unwrap();
    for text in [&*format!("{longest}d"), "two\nlines", "\u{1b}[2J"] {
        let error = node.describe(text).unwrap_err().to_string();
        assert!(
            error.contains("at most 1024 bytes") && error.contains("give a shorter one"),
            "{error}"
        );
    }
    node.describe("").unwrap();
    is(None);
    node.shutdown(PATIENCE).unwrap();
}

/// Not that of requests, which is `PATIENCE` here.
const BRIEF: Duration = Duration::from_millis(200);

fn assert_timeout(result: Result<(), RequestError>, text: &str) {
    let error = result.expect_err("nothing can come of it");
    assert_eq!(error.to_string(), text);
    assert!(matches!(error, RequestError::Timeout { after: BRIEF, .. }));
    assert_eq!(error.code().to_string(), "QSM-1203");
}

#[test]
fn a_timeout_names_the_time_and_the_remedy_of_the_caller() {
    let site = Site::new();
    let alone = site.builder("a").start().unwrap();
    assert_timeout(
        alone.wait_admitted(BRIEF),
        "no success within 200ms: waiting to be admitted; is a membership service running and \
         reachable?",
    );
    let node = Site::new().first("a");
    let waited = node.publisher("x").unwrap().wait_for_members(1, BRIEF);
    let error = waited.expect_err("nobody is there");
    assert_eq!(
        error.to_string(),
        "group x has 0 receivers, not 1, after 200ms: nobody is there; start receivers, check with \
         `qsm nodes` that they are seen, or allow more time"
    );
    assert_eq!(error.code().to_string(), "QSM-1207");
}

#[test]
fn messages_that_a_receiver_does_not_take_are_waited_for_as_long_as_was_asked() {
    let site = Site::new();
    let (receiving, publishing) = (site.first("a"), site.node("b"));
    let (end, ended) = channel::<()>();
    let (told, heard) = channel();
    let _upcalls = receiving
        .group("x")
        .subscribe_with(move |_| {
            told.send(()).unwrap();
            // Until the end of the test its node acknowledges nothing.
            ended.recv().unwrap_err();
        })
        .unwrap();
    let publisher = publishing.publisher("x").unwrap();
    publisher.wait_for_members(1, PATIENCE).unwrap();
    publisher.send(b"go").unwrap();
    heard.recv_timeout(PATIENCE).unwrap();
    let nodes = publishing.list_nodes().unwrap();
    let own = nodes.iter().find(|row| row.origin.node == publishing.id());
    let life = own.unwrap().origin.incarnation;
    let lacks = format!("a lacks 1 message (group x 1..=1 of life {life})");
    assert_timeout(
        publishing.flush(BRIEF).map(drop),
        &format!(
            "no success within 200ms: waiting for all receivers to have everything: {lacks}; allow \
             more time, or find out which receiver is slow (messages queued: 0, unconfirmed: 1, in \
             regions: 1, groups: x)"
        ),
    );
    assert_timeout(
        publishing.shutdown(BRIEF).map(drop),
        &format!(
            "no success within 200ms: delivering everything before the end: {lacks}; some receivers \
             may lack messages (messages queued: 0, unconfirmed: 1, in regions: 1, groups: x)"
        ),
    );
    drop(end);
}

#[test]
fn waiting_for_the_core_on_the_core_is_refused() {
    let node = Site::new().first("a");
    let (told, heard) = channel();
    let inner = node.clone();
    let _upcalls = node
        .group("x")
        .subscribe_with(move |_| {
            told.send(inner.subscribe(["y"]).map(|_| ())).unwrap();
        })
        .unwrap();
    node.publisher("x").unwrap().send(b"go").unwrap();
    let result = heard.recv_timeout(PATIENCE).unwrap();
    assert_eq!(result, Err(RequestError::OnCoreThread));
    node.shutdown(PATIENCE).unwrap();
}

#[test]
fn an_upcall_that_panics_ends_the_node_and_the_others_learn_why() {
    let node = Site::new().first("a");
    let subscription = node.subscribe(["x"]).unwrap();
    let _upcalls = node
        .group("y")
        .subscribe_with(|_| panic!("the application's mistake"))
        .unwrap();
    node.publisher("y").unwrap().send(b"go").unwrap();
    let message = "the application's mistake".to_owned();
    let reason = CloseReason::Panicked { message };
    assert_eq!(subscription.recv(), Err(RecvError::Closed(reason.clone())));
    assert_eq!(node.shutdown(PATIENCE), Err(RequestError::Closed(reason)));
}
