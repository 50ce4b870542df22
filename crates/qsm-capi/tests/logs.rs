//! Live logs by the interface for C, and the same log in Rust.

mod support;

use std::ptr::{null, null_mut};
use std::time::Duration;

use qsm::ErrorCode;
use qsm_capi::*;
use qsm_replica::{Limits, LiveLog, LogBounds, LogState, Replica};
use support::{cluster, error, node};

const PATIENCE: Duration = Duration::from_secs(60);
const PATIENT: i64 = 60_000;

/// A node, and the log of its group `events`.
struct Desk {
    node: *mut QsmNode,
    log: *mut QsmLog,
}

impl Desk {
    fn new(test: &str, entries: usize) -> Self {
        let bounds = QsmLogBounds {
            entries,
            bytes: 100,
        };
        let (node, mut log) = (node(test), null_mut());
        // SAFETY: the node lives, and the text is there.
        unsafe {
            let code = qsm_log_open(node, c"events".as_ptr(), &bounds, &mut log);
            assert_eq!(code, 0, "{}", error());
        }
        Self { node, log }
    }

    fn live(self) -> Self {
        // SAFETY: the log lives.
        let code = unsafe { qsm_log_wait_live(self.log, PATIENT) };
        assert_eq!(code, 0, "{}", error());
        self
    }

    fn append(&self, content: &[u8]) -> Code {
        // SAFETY: the log lives, and the bytes are there.
        unsafe { qsm_log_append(self.log, content.as_ptr().cast(), content.len()) }
    }

    fn poll(&self) -> Vec<Result<Vec<u8>, u64>> {
        // SAFETY: the log lives.
        lent(|place| unsafe { qsm_log_poll(self.log, 100, PATIENT, place) })
    }

    fn snapshot(&self) -> Vec<Result<Vec<u8>, u64>> {
        // SAFETY: the log lives.
        lent(|place| unsafe { qsm_log_snapshot(self.log, place) })
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        // SAFETY: each is given up once.
        unsafe {
            qsm_log_close(self.log);
            qsm_node_free(self.node);
        }
    }
}

/// Contents of the lines that a call lends, or how many were missed.
fn lent(call: impl FnOnce(*mut QsmLines) -> Code) -> Vec<Result<Vec<u8>, u64>> {
    let mut lines = QsmLines {
        lines: null(),
        count: 7,
        owner: null_mut(),
    };
    assert_eq!(call(&mut lines), 0, "{}", error());
    let line = |place| {
        // SAFETY: lent, and not released.
        let line = unsafe { &*lines.lines.add(place) };
        match line.kind {
            LineKind::Entry => {
                assert!(line.time_us > 0 && line.writer > 0);
                // SAFETY: as above.
                Ok(unsafe { std::slice::from_raw_parts(line.data, line.length) }.to_vec())
            }
            _ => Err(line.missed),
        }
    };
    let read = (0..lines.count).map(line).collect();
    // SAFETY: filled by the library; a second time there are none.
    unsafe {
        qsm_lines_release(&mut lines);
        qsm_lines_release(&mut lines);
    }
    read
}

fn entry(content: &[u8]) -> Result<Vec<u8>, u64> {
    Ok(content.to_vec())
}

#[test]
fn a_log_is_the_same_in_c_and_in_rust() {
    let desk = Desk::new("same", 0).live();
    assert_eq!(desk.append(b"opened"), 0, "{}", error());
    let node = qsm::Node::builder()
        .cluster(cluster("same"))
        .interface("lo")
        .embedded_service(qsm::Embedded::Never)
        .start()
        .expect("a node starts on lo");
    let state = LogState::new(LogBounds::default());
    let log: LiveLog = Replica::join(&node, "events", state, Limits::default()).expect("joined");
    log.wait_live(PATIENCE).expect("live");
    log.append(b"\0closed").expect("written");
    let mut taken = desk.poll();
    while taken.len() < 2 {
        let more = desk.poll();
        assert!(!more.is_empty(), "no more than {taken:?}");
        taken.extend(more);
    }
    assert_eq!(taken, [entry(b"opened"), entry(b"\0closed")]);
    assert_eq!(desk.snapshot(), taken);
    let there = log.read(|log| log.iter().map(|(_, it)| entry(it)).collect::<Vec<_>>());
    assert_eq!(there, taken);
    // SAFETY: the log lives.
    assert_eq!(unsafe { qsm_log_length(desk.log) }, 2);
}

#[test]
fn what_goes_unread_is_counted_and_what_is_too_long_is_refused() {
    let desk = Desk::new("bounds", 2);
    assert_eq!(desk.append(b"early"), ErrorCode::ReplicaNotLive.number());
    let desk = desk.live();
    for content in [b"1", b"2", b"3"] {
        assert_eq!(desk.append(content), 0, "{}", error());
    }
    assert_eq!(desk.poll(), [Err(1), entry(b"2"), entry(b"3")]);
    assert_eq!(desk.append(&[0; 101]), ErrorCode::ObjectFull.number());
    // SAFETY: null is what is tried, and handles live.
    unsafe {
        assert!(qsm_log_fd(desk.log) >= 0, "{}", error());
        let length = qsm_log_stats(desk.log, null_mut(), 0);
        assert!(length > 100, "{length}");
        assert_eq!(qsm_log_append(null(), null(), 0), Own::Null as Code);
        qsm_log_close(null_mut());
        qsm_lines_release(null_mut());
        assert_eq!(qsm_shutdown(desk.node, 5_000, null_mut()), 0);
        let mut lines = QsmLines {
            lines: null(),
            count: 0,
            owner: null_mut(),
        };
        let code = qsm_log_poll(desk.log, 1, PATIENT, &mut lines);
        assert_eq!(code, ErrorCode::ClosedShutDown.number(), "{}", error());
    }
}
