//! Changes of live objects, and the descriptor that says when there are some.

use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use qsm::{CloseReason, Node, RecvError};
use qsm_binding::{Changes, Settings, await_live, join_map};
use qsm_replica::{LiveMap, MapChange, MapState, ReplicaError};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

const AT_ONCE: Option<Duration> = Some(Duration::ZERO);
const PATIENT: Duration = Duration::from_secs(60);

/// The map of a cluster of the test's own.
fn map(test: &str) -> (Node, Arc<LiveMap>) {
    let mut settings = Settings::default();
    let cluster = format!("binding-map-{test}-{}", std::process::id());
    for (name, value) in [
        ("cluster", &*cluster),
        ("interface", "lo"),
        ("embedded", "always"),
    ] {
        settings.set(name, value).expect("the setting is one");
    }
    let node = settings.start().expect("a node starts on lo");
    let map = join_map(&node, "m", 0, 0).expect("joined");
    await_live(&map, None).expect("the first one is live");
    (node, map)
}

/// Tells whether the descriptor is readable, at last or now.
fn rings(changes: &Changes<MapState>, patience: Duration) -> bool {
    let descriptor = changes.descriptor().expect("a descriptor is left");
    let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let patience = Timespec::try_from(patience).expect("seconds");
    poll(&mut polled, Some(&patience)).expect("polled") == 1
}

fn set(key: &str, value: &[u8]) -> MapChange {
    let (key, value) = (key.to_owned(), value.to_vec());
    MapChange::Set { key, value }
}

#[test]
fn who_waits_for_the_descriptor_takes_what_has_changed() {
    let (_node, map) = map("descriptor");
    let changes = Changes::new(&map);
    assert!(!rings(&changes, Duration::ZERO));
    thread::scope(|scope| {
        scope.spawn(|| map.set("a", b"1").expect("live"));
        assert!(rings(&changes, PATIENT));
    });
    map.set("b", b"2").expect("live");
    let one = changes.take(1, AT_ONCE).expect("the node runs");
    assert_eq!(one, Some(vec![set("a", b"1")]));
    assert!(rings(&changes, Duration::ZERO), "there is another");
    let other = changes.take(10, AT_ONCE).expect("the node runs");
    assert_eq!(other, Some(vec![set("b", b"2")]));
}

#[test]
fn an_object_that_is_closed_or_ended_rings() {
    let (node, first) = map("closed");
    let changes = Changes::new(&first);
    assert!(!rings(&changes, Duration::ZERO));
    thread::scope(|scope| {
        scope.spawn(move || drop(first));
        assert!(rings(&changes, PATIENT));
    });
    assert_eq!(changes.take(1, None), Ok(None));
    let late = {
        let closed = join(&node);
        Changes::new(&closed)
    };
    assert!(rings(&late, Duration::ZERO));

    let second = join(&node);
    await_live(&second, None).expect("live");
    let changes = Changes::new(&second);
    second.set("left", b"").expect("live");
    node.shutdown(PATIENT).expect("it ends");
    let left = changes.take(10, None).expect("that is left");
    assert_eq!(left, Some(vec![set("left", b"")]));
    let end = ReplicaError::Recv(RecvError::Closed(CloseReason::ShutDown));
    assert_eq!(changes.take(10, None), Err(end));
    assert!(rings(&changes, Duration::ZERO), "the end stays readable");
}

fn join(node: &Node) -> Arc<LiveMap> {
    join_map(node, "m", 0, 0).expect("joined")
}

#[test]
fn who_follows_no_more_leaves_nothing_behind() {
    let (_node, map) = map("followers");
    let open = || fs::read_dir("/proc/self/fd").expect("Linux").count();
    let before = open();
    for _ in 0..1000 {
        let changes = Changes::new(&map);
        rings(&changes, Duration::ZERO);
    }
    // As many as the map lets wait, and what other tests of this process open.
    assert!(open() < before + 300, "{before}, then {}", open());
}
