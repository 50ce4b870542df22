//! Nodes with several core threads: groups are spread, and all else is as with one.

mod common;

use std::collections::HashMap;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use common::{PATIENCE, Site, admitted, expect_numbers, next, pattern};
use lab::Lab;
use qsm::{
    Affinity, Builder, CloseReason, Delivery, Embedded, Event, Flushed, GroupOptions, Message,
    NetworkOptions, Node, Overflow, Pull, RecvError, RequestError, SendError, StartError,
    ThreadError, ThreadReport,
};

const GROUPS: usize = 24;
const EACH: u64 = 100;

fn names() -> Vec<String> {
    (0..GROUPS).map(|group| format!("prices/{group}")).collect()
}

/// A group of each core of the node.
fn group_of_each(node: &Node) -> Vec<String> {
    let of = |core| {
        let mut names = names().into_iter();
        names.find(|name| node.core_of(name) == core).unwrap()
    };
    (0..node.ids().count()).map(of).collect()
}

fn first(site: &Site, name: &str, cores: usize) -> Node {
    let builder = site.builder(name).cores(cores);
    admitted(builder.embedded_service(Embedded::Always))
}

fn node(site: &Site, name: &str, cores: usize) -> Node {
    admitted(site.builder(name).cores(cores))
}

fn start_error(builder: Builder) -> (StartError, String) {
    let error = builder.start().expect_err("it should not start");
    let text = error.to_string();
    (error, text)
}

/// Publishes to all groups at one node, and checks at the other that all comes in order.
fn exchange(from: &Node, to: &Node) {
    let subscription = to.subscribe(names()).unwrap();
    let publishers = from.groups(names()).publishers().unwrap();
    for (publisher, name) in publishers.iter().zip(names()) {
        assert_eq!(publisher.group(), name);
        publisher.wait_for_members(1, PATIENCE).unwrap();
    }
    for number in 1..=EACH {
        for publisher in &publishers {
            publisher.send(&pattern(number, 300)).unwrap();
        }
    }
    from.flush(PATIENCE).unwrap();
    let ids: Vec<_> = from.ids().collect();
    let mut last: HashMap<String, u64> = HashMap::new();
    for _ in 0..EACH * GROUPS as u64 {
        let message: Message = next(&subscription);
        let expected = last.entry(message.group().to_owned()).or_default();
        *expected += 1;
        assert_eq!(message.number(), *expected, "{}", message.group());
        assert!(message.bytes() == pattern(*expected, 300));
        assert_eq!(message.sender().node, ids[from.core_of(message.group())]);
    }
    assert_eq!(subscription.try_recv(), Ok(None));
}

#[test]
fn groups_are_spread_over_the_cores_and_arrive_in_order() {
    let site = Site::new();
    let (a, b) = (first(&site, "a", 2), node(&site, "b", 2));
    exchange(&a, &b);
    let cores = b.core_stats().unwrap();
    assert_eq!(cores.len(), 2);
    for (core, stats) in cores.iter().enumerate() {
        let own = names()
            .iter()
            .filter(|name| b.core_of(name) == core)
            .count() as u64;
        assert!(own > 0);
        assert_eq!(stats.protocol.messages_delivered, own * EACH, "core {core}");
    }
    let sum = b.stats().unwrap();
    assert_eq!(sum.cores, 2);
    assert_eq!(sum.node, b.id());
    assert_eq!(sum.protocol.messages_delivered, EACH * GROUPS as u64);
    assert_eq!(sum.subscriptions.len(), 0, "it was dropped");
    assert_eq!(a.stats().unwrap().publishers.len(), 0);
}

#[test]
fn nodes_with_different_numbers_of_cores_understand_each_other() {
    let site = Site::new();
    let (a, b) = (first(&site, "a", 1), node(&site, "b", 3));
    exchange(&a, &b);
    exchange(&b, &a);
    // Its own messages too.
    exchange_with_itself(&b);
}

/// The time of a request is far below the time that the membership service gives leaving members.
#[test]
fn a_node_comes_back_at_once_to_groups_that_it_has_left() {
    let site = Site::new();
    let first = site.builder("a").cores(3);
    let first = first.embedded_service(Embedded::Always);
    let second = site.builder("b").cores(3);
    let soon = Duration::from_secs(15);
    let a = admitted(first.request_timeout(soon));
    let b = admitted(second.request_timeout(soon));
    let names = ["g0", "g1", "g2", "g3", "g4"];
    for _ in 0..3 {
        let subscriptions = names.map(|name| a.subscribe([name]).unwrap());
        for (name, subscription) in names.iter().zip(&subscriptions) {
            let publisher = b.publisher(name).unwrap();
            publisher.wait_for_members(1, soon).unwrap();
            publisher.send(name.as_bytes()).unwrap();
            let received = subscription.recv_timeout(soon).unwrap();
            assert_eq!(common::message(received).bytes(), name.as_bytes());
        }
    }
}

fn exchange_with_itself(node: &Node) {
    let groups = group_of_each(node);
    let subscription = node.subscribe(&groups).unwrap();
    for publisher in node.groups(&groups).publishers().unwrap() {
        publisher.send(b"mine").unwrap();
    }
    let mut heard: Vec<_> = groups
        .iter()
        .map(|_| next(&subscription).group().to_owned())
        .collect();
    heard.sort_unstable();
    let mut groups = groups;
    groups.sort_unstable();
    assert_eq!(heard, groups);
}

#[test]
fn each_core_is_a_member_and_one_runs_the_service() {
    let site = Site::new();
    let builder = site.builder("a").cores(3);
    let node = builder
        .embedded_service(Embedded::IfNoneFound)
        .start()
        .unwrap();
    let events = node.events();
    node.wait_admitted(PATIENCE).unwrap();
    let rows = node.list_nodes().unwrap();
    let mut names: Vec<_> = rows.iter().map(|row| row.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["a", "a/2", "a/3"]);
    assert!(
        node.ids()
            .all(|id| rows.iter().any(|row| row.origin.node == id))
    );
    assert_eq!(node.ids().next(), Some(node.id()));
    node.shutdown(PATIENCE).unwrap();
    let events: Vec<Event> = events.collect();
    let count = |fits: fn(&Event) -> bool| events.iter().filter(|event| fits(event)).count();
    assert_eq!(
        count(|event| matches!(event, Event::ServiceEmbedded { .. })),
        1
    );
    assert_eq!(count(|event| matches!(event, Event::Admitted { .. })), 3);
    assert_eq!(count(|event| matches!(event, Event::Closed { .. })), 1);
    let reason = CloseReason::ShutDown;
    assert_eq!(events.last(), Some(&Event::Closed { reason }));
}

/// Without loopback no core hears the others of its host by multicast, nor the service there.
#[test]
fn cores_find_their_own_service_without_loopback() {
    if !lab::ready() {
        return;
    }
    let mut lab = Lab::new().unwrap();
    let hosts = lab.add_hosts(2).unwrap();
    let start = |host, embedded| {
        let _inside = lab.enter(host).unwrap();
        let network = NetworkOptions::new()
            .loopback(false)
            .receive_buffer(4 << 20);
        let builder = Node::builder().cluster("deaf").cores(2).network(network);
        let builder = builder.request_timeout(PATIENCE).embedded_service(embedded);
        builder.start().unwrap()
    };
    let a = start(hosts[0], Embedded::IfNoneFound);
    a.wait_admitted(PATIENCE).unwrap();
    let b = start(hosts[1], Embedded::Never);
    b.wait_admitted(PATIENCE).unwrap();
    exchange(&a, &b);
    assert_eq!(b.list_nodes().unwrap().len(), 4);
    a.shutdown(PATIENCE).unwrap();
    let always = start(hosts[0], Embedded::Always);
    always.wait_admitted(PATIENCE).unwrap();
}

#[test]
fn the_service_lasts_as_long_as_any_core_of_its_node() {
    let site = Site::new();
    let (a, b) = (first(&site, "a", 2), node(&site, "b", 1));
    let group = &group_of_each(&a)[1];
    let (told, held) = channel();
    let (go_on, wait) = channel::<()>();
    let upcall = move |_: Delivery<'_>| {
        told.send(()).unwrap();
        // Fails only when the test has ended.
        wait.recv().unwrap_or_default();
    };
    let _upcalls = a.group(group).subscribe_with(upcall).unwrap();
    a.publisher(group).unwrap().send(b"hold").unwrap();
    held.recv_timeout(PATIENCE).unwrap();
    let ending = thread::spawn(move || a.shutdown(PATIENCE));
    let names = || -> Vec<String> {
        let rows = b.list_nodes().unwrap();
        rows.into_iter().map(|row| row.name).collect()
    };
    while names().contains(&"a".to_owned()) {}
    // The first core has said goodbye; it keeps the service for the second.
    b.subscribe(["x"]).unwrap();
    go_on.send(()).unwrap();
    assert_eq!(ending.join().unwrap(), Ok(Flushed::default()));
}

#[test]
fn shutdown_delivers_what_every_core_accepted() {
    let site = Site::new();
    let (a, b) = (first(&site, "a", 2), node(&site, "b", 2));
    let groups = group_of_each(&a);
    let subscriptions: Vec<_> = groups
        .iter()
        .map(|group| b.subscribe([group]).unwrap())
        .collect();
    let publishers = a.groups(&groups).publishers().unwrap();
    for publisher in &publishers {
        publisher.wait_for_members(1, PATIENCE).unwrap();
        for number in 1..=5000 {
            publisher.send(&pattern(number, 100)).unwrap();
        }
    }
    a.shutdown(PATIENCE).unwrap();
    for subscription in &subscriptions {
        expect_numbers(subscription, 1..=5000, |number| pattern(number, 100));
    }
    let closed = SendError::Closed(CloseReason::ShutDown);
    for publisher in &publishers {
        assert_eq!(publisher.send(b"late"), Err(closed.clone()));
    }
    assert_eq!(a.closed(), Some(CloseReason::ShutDown));
    assert_eq!(a.stats().unwrap().protocol.messages_published, 10_000);
    assert_eq!(a.events().count(), 0);
}

#[test]
fn feeds_and_leaving_reach_the_core_of_the_group() {
    let site = Site::new();
    let (a, b) = (first(&site, "a", 2), node(&site, "b", 2));
    let groups = group_of_each(&a);
    let subscription = b.subscribe(&groups).unwrap();
    let publishers = a.groups(&groups).publishers().unwrap();
    let feeds: Vec<_> = publishers
        .iter()
        .map(|publisher| {
            publisher.wait_for_members(1, PATIENCE).unwrap();
            let mut left = 10_u8;
            let feed = move |message: &mut Vec<u8>| {
                let Some(next) = left.checked_sub(1) else {
                    return Pull::End;
                };
                left = next;
                message.push(left);
                Pull::Message
            };
            publisher.feed(feed).unwrap()
        })
        .collect();
    let mut counts: HashMap<String, u32> = HashMap::new();
    for _ in 0..20 {
        *counts
            .entry(next(&subscription).group().to_owned())
            .or_default() += 1;
    }
    assert!(groups.iter().all(|group| counts[group] == 10), "{counts:?}");
    drop(feeds);
    b.leave(&groups).unwrap();
    // The membership service hears of it.
    while b.list_groups().unwrap().iter().any(|row| row.members > 0) {}
    assert!(
        a.list_groups()
            .unwrap()
            .iter()
            .all(|row| row.publishers == 1)
    );
}

#[test]
fn an_upcall_runs_on_one_core_and_several_have_one_each() {
    let site = Site::new();
    let (a, b) = (first(&site, "a", 2), node(&site, "b", 2));
    let groups = group_of_each(&b);
    let error = b
        .groups(&groups)
        .subscribe_with(|_| ())
        .map(|_| ())
        .unwrap_err();
    let text = error.to_string();
    assert!(matches!(error, RequestError::Refused { .. }));
    assert!(
        text.contains(&format!("{} on core 1", groups[1])) && text.contains("subscribe_per_core"),
        "{text}"
    );
    assert!(b.stats().unwrap().subscriptions.is_empty());

    let (told, heard) = channel();
    let inner = b.clone();
    let upcalls = b
        .groups(&groups)
        .subscribe_per_core(|core| {
            let (told, inner) = (told.clone(), inner.clone());
            move |delivery| {
                // A call that waits for the other core could wait for ever.
                let asked = inner.publisher("another").map(|_| ());
                let message = delivery.message().expect("nothing is lost");
                told.send((core, inner.core_of(message.group), asked))
                    .unwrap();
            }
        })
        .unwrap();
    assert!(upcalls.groups().eq(groups.iter()));
    for publisher in a.groups(&groups).publishers().unwrap() {
        publisher.wait_for_members(1, PATIENCE).unwrap();
        publisher.send(b"go").unwrap();
    }
    let mut cores: Vec<usize> = (0..2)
        .map(|_| {
            let (core, of_group, asked) = heard.recv_timeout(PATIENCE).unwrap();
            assert_eq!(core, of_group);
            assert_eq!(asked, Err(RequestError::OnCoreThread));
            core
        })
        .collect();
    cores.sort_unstable();
    assert_eq!(cores, [0, 1]);
    drop(inner);
    b.shutdown(PATIENCE).unwrap();
}

#[test]
fn a_core_that_panics_ends_all_of_the_node() {
    let site = Site::new();
    let node = first(&site, "a", 2);
    let events = node.events();
    let groups = group_of_each(&node);
    let other = node.subscribe([&groups[0]]).unwrap();
    let both = node.subscribe(&groups).unwrap();
    let publishers = node.groups(&groups).publishers().unwrap();
    publishers[0].send(b"before").unwrap();
    assert_eq!(next(&other).bytes(), b"before");
    let _upcalls = node
        .group(&groups[1])
        .subscribe_with(|_| panic!("the application's mistake"))
        .unwrap();
    publishers[1].send(b"go").unwrap();
    let message = "the application's mistake".to_owned();
    let reason = CloseReason::Panicked { message };
    let closed = RecvError::Closed(reason.clone());
    assert_eq!(other.recv(), Err(closed.clone()));
    while both.recv().is_ok() {}
    assert_eq!(both.recv(), Err(closed));
    assert_eq!(
        node.shutdown(PATIENCE),
        Err(RequestError::Closed(reason.clone()))
    );
    assert_eq!(node.closed(), Some(reason.clone()));
    assert_eq!(
        publishers[0].send(b"late"),
        Err(SendError::Closed(reason.clone()))
    );
    assert_eq!(events.last(), Some(Event::Closed { reason }));
}

#[test]
fn dropping_the_last_handle_ends_all_cores() {
    let node = first(&Site::new(), "a", 2);
    let subscription = node.subscribe(group_of_each(&node)).unwrap();
    drop(node);
    let closed = RecvError::Closed(CloseReason::ShutDown);
    assert_eq!(subscription.recv(), Err(closed));
}

#[test]
fn one_queue_that_is_full_ends_a_subscription_that_wants_that() {
    let node = first(&Site::new(), "a", 2);
    let groups = group_of_each(&node);
    let options = GroupOptions::default()
        .capacity_messages(4)
        .overflow(Overflow::Disconnect);
    let subscription = node.groups(&groups).options(options).subscribe().unwrap();
    let publisher = node.publisher(&groups[1]).unwrap();
    for _ in 0..3 {
        publisher.send(b"too many").unwrap();
    }
    node.flush(PATIENCE).unwrap();
    // Each core's queue has its share of the capacity.
    assert!(subscription.recv().is_ok() && subscription.recv().is_ok());
    assert_eq!(subscription.recv(), Err(RecvError::Overflow));
    assert_eq!(subscription.dropped(), 1);
}

#[test]
fn each_core_has_a_port_after_the_first() {
    let site = Site::new();
    let builder = || site.builder("a").cores(2);
    let at = |port| builder().network(site.network().unicast_port(port));
    let (error, text) = start_error(at(65_535));
    assert!(matches!(error, StartError::UnicastPorts { first: 65_535 }));
    assert!(text.contains("after 65535"), "{text}");
    let any = builder()
        .embedded_service(Embedded::Always)
        .start()
        .unwrap();
    let ports: Vec<_> = any
        .core_stats()
        .unwrap()
        .iter()
        .map(|core| core.address.port())
        .collect();
    assert_ne!(ports[0], ports[1]);
    // The first is free, the second is not.
    if let Some(first) = ports[1].checked_sub(1).filter(|first| *first != ports[0]) {
        let (_, text) = start_error(at(first));
        assert!(text.contains("in use"), "{text}");
    }
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let site = Site::new();
    for cores in [0, qsm::CORES_MAX + 1] {
        let (error, text) = start_error(site.builder("a").cores(cores));
        assert!(matches!(error, StartError::Cores { .. }));
        assert_eq!(
            text,
            format!("a node cannot have {cores} core threads; give it 1 to 64")
        );
    }
    let (error, text) = start_error(site.builder("a").cores(2).pin([0]));
    assert!(matches!(error, StartError::Cpus { cpus: 1, cores: 2 }));
    assert_eq!(
        text,
        "core threads: 2, but CPUs to pin them to: 1; give one for each"
    );
    let long = "n".repeat(qsm::NAME_BYTES_MAX - 1);
    let (error, _) = start_error(site.builder(&long).cores(2));
    assert!(
        matches!(error, StartError::Name { length: 65, .. }),
        "{error:?}"
    );
    // The second cannot be pinned, so the first does not begin.
    let cpu = Affinity::current().unwrap().cpus().next().unwrap();
    let (error, _) = start_error(site.builder("a").cores(2).pin([cpu, 100_000]));
    assert!(matches!(
        error,
        StartError::Thread(ThreadError::NoSuchCpu { cpu: 100_000, .. })
    ));
    let (error, _) = start_error(site.builder("a").realtime(0));
    assert!(matches!(
        error,
        StartError::Thread(ThreadError::Priority { priority: 0 })
    ));
}

#[test]
fn cores_run_where_they_are_told() {
    let own = Affinity::current().unwrap();
    let (first, last) = (own.cpus().next().unwrap(), own.cpus().last().unwrap());
    let cpus = [first, last];
    let builder = Site::new().builder("a").cores(2).pin(cpus);
    let node = admitted(builder.embedded_service(Embedded::Always));
    for (core, cpu) in node.core_stats().unwrap().iter().zip(cpus) {
        let affinity = core.thread.affinity.unwrap();
        assert_eq!(affinity.cpus().collect::<Vec<_>>(), [cpu]);
        assert_eq!(core.thread.realtime, None);
        // Kernels tell of slices since they grant short ones.
        assert_eq!(core.thread.has_short_slice(), core.thread.slice.is_some());
    }
    let own_slice = ThreadReport::current();
    assert!(!own_slice.has_short_slice(), "nor are its slices short");
    assert_eq!(
        Affinity::current().unwrap(),
        own,
        "this thread is not pinned"
    );
}

#[test]
fn a_realtime_core_says_so_or_what_it_lacks() {
    match Site::new().builder("a").realtime(1).start() {
        Ok(node) => assert_eq!(node.stats().unwrap().thread.realtime, Some(1)),
        Err(error) => {
            let text = error.to_string();
            assert!(
                text.contains("CAP_SYS_NICE") && text.contains("ulimit -r 1"),
                "{text}"
            );
        }
    }
}

#[test]
fn a_probe_tells_what_each_core_would_get() {
    let cpu = Affinity::current().unwrap().cpus().next().unwrap();
    let site = Site::new();
    let network = site.network().busy_poll(Duration::from_micros(20));
    let builder = site.builder("a").network(network).pin([cpu]).spin(true);
    let reports = builder.probe().unwrap();
    let [report] = &reports[..] else {
        panic!("one core, {} reports", reports.len());
    };
    let text = report.to_string();
    for line in [
        "interface: lo",
        "batches: yes, ",
        "copies cloned in the kernel: no, not asked for",
        "busy polling: no, lo has no device",
        &format!("pinned: yes, to CPU {cpu}\n"),
        "real time: no, not asked for",
        "short slices: ",
        "spinning: yes, ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert_eq!(report.strategies().len(), 11);
}
