//! Live maps by the interface for C, and the same map in Rust.

mod support;

use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::time::Duration;

use qsm::ErrorCode;
use qsm_capi::*;
use qsm_replica::{Limits, LiveMap, MapBounds, MapState, Replica};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use support::{cluster, error, node};

const PATIENCE: Duration = Duration::from_secs(60);
const PATIENT: i64 = 60_000;

/// A change as C sees it: its kind, key and value.
type Seen = (EntryKind, String, Vec<u8>);

/// A node, and the map of its group `prices`.
struct Desk {
    node: *mut QsmNode,
    map: *mut QsmMap,
}

impl Desk {
    fn new(test: &str, bounds: *const QsmMapBounds) -> Self {
        let (node, mut map) = (node(test), null_mut());
        // SAFETY: the node lives, and the text is there.
        unsafe {
            let code = qsm_map_open(node, c"prices".as_ptr(), bounds, &mut map);
            assert_eq!(code, 0, "{}", error());
        }
        Self { node, map }
    }

    fn live(self) -> Self {
        // SAFETY: the map lives.
        let code = unsafe { qsm_map_wait_live(self.map, PATIENT) };
        assert_eq!(code, 0, "{}", error());
        self
    }

    fn put(&self, key: &str, value: &[u8]) -> Code {
        let (start, length) = (value.as_ptr().cast(), value.len());
        // SAFETY: the map lives, and the bytes are there.
        unsafe { qsm_map_put(self.map, key.as_ptr().cast(), key.len(), start, length) }
    }

    fn remove(&self, key: &str) -> Code {
        // SAFETY: the map lives, and the bytes are there.
        unsafe { qsm_map_remove(self.map, key.as_ptr().cast(), key.len()) }
    }

    fn get(&self, key: &str) -> Vec<Seen> {
        // SAFETY: the map lives, and the bytes are there.
        lent(|place| unsafe { qsm_map_get(self.map, key.as_ptr().cast(), key.len(), place) })
    }

    fn snapshot(&self) -> Vec<Seen> {
        // SAFETY: the map lives.
        lent(|place| unsafe { qsm_map_snapshot(self.map, place) })
    }

    fn poll(&self, most: usize, milliseconds: i64) -> Vec<Seen> {
        // SAFETY: the map lives.
        lent(|place| unsafe { qsm_map_poll(self.map, most, milliseconds, place) })
    }

    fn is_readable(&self, patience: Duration) -> bool {
        // SAFETY: the map lives, and its descriptor with it.
        let descriptor = unsafe {
            let descriptor = qsm_map_fd(self.map);
            assert!(descriptor >= 0, "{}", error());
            std::os::fd::BorrowedFd::borrow_raw(descriptor)
        };
        let mut polled = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
        let patience = Timespec::try_from(patience).expect("seconds");
        poll(&mut polled, Some(&patience)).expect("polled") == 1
    }

    fn stats(&self) -> String {
        // SAFETY: so many bytes are there.
        let length = unsafe { qsm_map_stats(self.map, null_mut(), 0) };
        let mut text = vec![0; length + 1];
        // SAFETY: as above.
        unsafe {
            assert_eq!(
                qsm_map_stats(self.map, text.as_mut_ptr(), length + 1),
                length
            );
            CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned()
        }
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // SAFETY: each is given up once.
        unsafe {
            qsm_map_close(self.map);
            qsm_node_free(self.node);
        }
    }
}

/// Copies of the entries that a call lends.
fn lent(call: impl FnOnce(*mut QsmEntries) -> Code) -> Vec<Seen> {
    let mut entries = QsmEntries {
        entries: null(),
        count: 7,
        owner: null_mut(),
    };
    assert_eq!(call(&mut entries), 0, "{}", error());
    let seen = read(&entries);
    // SAFETY: filled by the library; a second time there are none.
    unsafe {
        qsm_entries_release(&mut entries);
        qsm_entries_release(&mut entries);
    }
    assert_eq!((entries.count, entries.entries), (0, null()));
    seen
}

fn read(entries: &QsmEntries) -> Vec<Seen> {
    let count = entries.count;
    let text = |entry: &QsmEntry| {
        // SAFETY: lent, and not released.
        let key = unsafe { bytes(entry.key.cast(), entry.key_length as usize) };
        // SAFETY: as above.
        let value = unsafe { bytes(entry.value, entry.length) };
        (
            entry.kind,
            String::from_utf8(key).expect("a key is text"),
            value,
        )
    };
    match count {
        0 => Vec::new(),
        // SAFETY: as above.
        _ => unsafe { std::slice::from_raw_parts(entries.entries, count) }
            .iter()
            .map(text)
            .collect(),
    }
}

/// # Safety
/// `start` is null, or points to `length` bytes.
unsafe fn bytes(start: *const u8, length: usize) -> Vec<u8> {
    match start.is_null() {
        true => Vec::new(),
        // SAFETY: the caller promises it.
        false => unsafe { std::slice::from_raw_parts(start, length) }.to_vec(),
    }
}

fn set(key: &str, value: &[u8]) -> Seen {
    (EntryKind::Set, key.to_owned(), value.to_vec())
}

#[test]
fn a_map_is_the_same_in_c_and_in_rust() {
    let desk = Desk::new("same", null()).live();
    assert_eq!(desk.put("eur", b"1.08"), 0, "{}", error());
    assert_eq!(desk.put("", b""), 0, "{}", error());
    let node = qsm::Node::builder()
        .cluster(cluster("same"))
        .interface("lo")
        .embedded_service(qsm::Embedded::Never)
        .start()
        .expect("a node starts on lo");
    let state = MapState::new(MapBounds::default());
    let map: LiveMap = Replica::join(&node, "prices", state, Limits::default()).expect("joined");
    map.wait_live(PATIENCE).expect("live");
    map.set("gr\u{fc}n\0", b"\0\xff").expect("written");
    map.set("usd", b"1").expect("written");
    let mut taken = Vec::new();
    while taken.last() != Some(&set("usd", b"1")) {
        let more = desk.poll(100, PATIENT);
        assert!(!more.is_empty(), "no more than {taken:?}");
        taken.extend(more);
    }
    let expected = [
        set("eur", b"1.08"),
        set("", b""),
        set("gr\u{fc}n\0", b"\0\xff"),
        set("usd", b"1"),
    ];
    assert_eq!(taken, expected);
    let sorted = [1, 0, 2, 3].map(|place| expected[place].clone());
    assert_eq!(desk.snapshot(), sorted);
    assert_eq!(desk.get("gr\u{fc}n\0"), [expected[2].clone()]);
    assert_eq!(desk.get("gbp"), []);
    let there = map.read(|map| {
        map.iter()
            .map(|(key, value)| set(key, value))
            .collect::<Vec<_>>()
    });
    assert_eq!(there, sorted);

    assert_eq!(desk.remove("eur"), 0, "{}", error());
    let gone = map.wait_for(PATIENCE, |map| map.get("eur").is_none().then_some(()));
    assert_eq!(gone, Ok(Some(())));
    let removed = (EntryKind::Removed, "eur".to_owned(), Vec::new());
    assert_eq!(desk.poll(100, PATIENT), [removed]);
    // SAFETY: the map lives.
    assert_eq!(unsafe { qsm_map_length(desk.map) }, 3);
    let stats = desk.stats();
    assert!(stats.starts_with(r#"{"live":1,"state_bytes":"#), "{stats}");
    assert!(stats.contains(r#""published":3,"#), "{stats}");
}

#[test]
fn the_descriptor_is_readable_while_something_has_changed() {
    let desk = Desk::new("descriptor", null()).live();
    // What was before, if anything.
    desk.poll(100, 0);
    while desk.is_readable(Duration::ZERO) {
        assert_eq!(desk.poll(100, 0), []);
    }
    for value in [b"1", b"2"] {
        assert_eq!(desk.put("a", value), 0, "{}", error());
        assert_eq!(desk.put("b", value), 0, "{}", error());
    }
    assert!(desk.is_readable(PATIENCE));
    assert_eq!(desk.poll(1, 0), [set("a", b"2")]);
    assert!(desk.is_readable(Duration::ZERO), "there is another");
    assert_eq!(desk.poll(0, 0), []);
    assert_eq!(desk.poll(1, 0), [set("b", b"2")]);
}

#[test]
fn who_misses_removals_is_told_to_begin_again() {
    let bounds = QsmMapBounds {
        bytes: 0,
        removed: 1,
    };
    let desk = Desk::new("restart", &bounds).live();
    for key in ["a", "b", "c"] {
        assert_eq!(desk.put(key, b"1"), 0, "{}", error());
    }
    assert_eq!(desk.poll(100, PATIENT).len(), 3);
    for key in ["a", "b"] {
        assert_eq!(desk.remove(key), 0, "{}", error());
    }
    let restart = (EntryKind::Restart, String::new(), Vec::new());
    assert_eq!(desk.poll(100, PATIENT), [restart, set("c", b"1")]);
    assert_eq!(desk.snapshot(), [set("c", b"1")]);
}

#[test]
fn what_is_lent_outlives_its_map() {
    let desk = Desk::new("outlive", null()).live();
    assert_eq!(desk.put("kept", b"value"), 0, "{}", error());
    let mut entries = QsmEntries {
        entries: null(),
        count: 0,
        owner: null_mut(),
    };
    // SAFETY: the map lives.
    assert_eq!(unsafe { qsm_map_snapshot(desk.map, &mut entries) }, 0);
    drop(desk);
    assert_eq!(read(&entries), [set("kept", b"value")]);
    // SAFETY: filled by the library.
    unsafe { qsm_entries_release(&mut entries) };
}

#[test]
fn what_a_map_does_not_take_is_named() {
    let bounds = QsmMapBounds {
        bytes: 10,
        removed: 2,
    };
    let desk = Desk::new("refused", &bounds);
    // Nobody has the map, and it is not known yet.
    // SAFETY: the map lives.
    let code = unsafe { qsm_map_wait_live(desk.map, 0) };
    assert_eq!(code, ErrorCode::ReplicaNotLive.number());
    assert_eq!(desk.put("a", b""), ErrorCode::ReplicaNotLive.number());
    assert!(error().contains("wait for it"), "{}", error());
    let desk = desk.live();
    assert_eq!(desk.put("key", b"12345678"), ErrorCode::ObjectFull.number());
    assert!(error().contains("its bound is 10"), "{}", error());
    let long = "k".repeat(1025);
    assert_eq!(desk.put(&long, b""), ErrorCode::ObjectFull.number());
    assert_eq!(desk.remove(&long), ErrorCode::ObjectKey.number());
    assert!(error().contains("at most 1024"), "{}", error());
    let mut other = null_mut();
    // SAFETY: null, and what is no text, are what is tried.
    unsafe {
        let wrong = b"\xff".as_ptr().cast();
        assert_eq!(
            qsm_map_put(desk.map, wrong, 1, null(), 0),
            Own::Text as Code
        );
        assert_eq!(error(), r#"key is not UTF-8: "\xff""#);
        let key = c"a".as_ptr();
        assert_eq!(qsm_map_put(desk.map, key, 1, null(), 3), Own::Null as Code);
        assert_eq!(error(), "value is null; give a pointer");
        assert_eq!(qsm_map_remove(null(), key, 1), Own::Null as Code);
        let code = qsm_map_open(null(), c"g".as_ptr(), null(), &mut other);
        assert_eq!((code, other.is_null()), (Own::Null as Code, true));
        let code = qsm_map_open(desk.node, c"a/*".as_ptr(), null(), &mut other);
        assert_eq!(code, ErrorCode::RequestPattern.number(), "{}", error());
        qsm_map_close(null_mut());
        qsm_entries_release(null_mut());
    }
    // The node has ended, and the map with it.
    // SAFETY: the node lives.
    assert_eq!(unsafe { qsm_shutdown(desk.node, 5_000, null_mut()) }, 0);
    let mut entries = QsmEntries {
        entries: null(),
        count: 0,
        owner: null_mut(),
    };
    let ended = ErrorCode::ClosedShutDown.number();
    // SAFETY: the map lives.
    let code = unsafe { qsm_map_poll(desk.map, 1, PATIENT, &mut entries) };
    assert_eq!(code, ended, "{}", error());
    assert!(desk.is_readable(Duration::ZERO), "the end is to be told");
    assert_eq!(desk.put("a", b""), ended, "{}", error());
}
