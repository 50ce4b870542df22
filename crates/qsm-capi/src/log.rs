//! Live logs: the newest entries that several programs write and have alike.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

use qsm_binding::join_log;
use qsm_replica::{LogEvent, LogState, Stamp};

use crate::error::Code;
use crate::guard::{at, at_mut, bytes, call, free, give};
use crate::node::QsmNode;
use crate::object::Held;
use crate::text;

/// A live log.
#[derive(Debug)]
pub struct QsmLog(Held<LogState>);

/// Bounds of a log. Those of the program that founds it hold for all. Zeros are the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct QsmLogBounds {
    /// Most entries, of which the newest stay; 0 for the default, 10,000.
    pub entries: usize,
    /// Most bytes of entries, likewise; 0 for the default, 16 MiB.
    pub bytes: usize,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum LineKind {
    /// An entry.
    Entry = 1,
    /// `missed` entries came and had to go before they were polled.
    Missed = 2,
    /// Something that this version of the interface has no name for.
    Other = 3,
}

/// An entry of a log, or what was missed. Its pointer lasts until its batch is released.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct QsmLine {
    /// The kind.
    pub kind: LineKind,
    /// When it was written, by its writer's clock: microseconds since 1970.
    pub time_us: u64,
    /// Number of its writer, by chance.
    pub writer: u64,
    /// Number of entries missed.
    pub missed: u64,
    /// Content of the entry.
    pub data: *const u8,
    /// Its length, bytes.
    pub length: usize,
}

/// Lines lent to the program until [`qsm_lines_release`].
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct QsmLines {
    /// The lines, in order.
    pub lines: *const QsmLine,
    /// Their number.
    pub count: usize,
    /// The library's.
    pub owner: *mut QsmLineLoan,
}

/// Memory that lines point to.
#[derive(Debug)]
pub struct QsmLineLoan {
    lines: Vec<QsmLine>,
    /// Owns what the lines point to.
    _taken: Vec<LogEvent>,
}

/// Enters the log of a group, as `qsm_map_open` a map.
///
/// # Safety
/// `node` is of this library; `group` is a text; `bounds` is null or to be read; `log` may be
/// written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_open(
    node: *const QsmNode,
    group: *const c_char,
    bounds: *const QsmLogBounds,
    log: *mut *mut QsmLog,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (node, group, bounds) = unsafe {
            *at_mut(log, "log")? = null_mut();
            let group = text::read(group, "group")?;
            (at(node, "node")?, group, bounds.as_ref())
        };
        let (entries, bytes) = bounds.map_or((0, 0), |bounds| (bounds.entries, bounds.bytes));
        let made = join_log(&node.0, group, entries, bytes)?;
        // SAFETY: as above.
        unsafe { give(log, QsmLog(Held::new(made)), "log") }
    })
}

/// Waits until the log is live, as `qsm_map_wait_live` of a map.
///
/// # Safety
/// `log` is of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_wait_live(log: *const QsmLog, milliseconds: i64) -> Code {
    // SAFETY: the caller promises it.
    call(|| unsafe { at(log, "log") }?.0.wait_live(milliseconds))
}

/// Appends an entry. It is copied, is in this log at once, and in the others when it comes, as of
/// `qsm_map_put`. It is behind all entries that this log had.
///
/// # Safety
/// `log` is of this library; `data` points to `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_append(
    log: *const QsmLog,
    data: *const c_void,
    length: usize,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (log, content) = unsafe { (at(log, "log")?, bytes(data, length, "data")?) };
        Ok(log.0.object.append(content)?)
    })
}

/// Lends a copy of all entries at one moment, the oldest first.
///
/// # Safety
/// `log` is of this library; `lines` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_snapshot(log: *const QsmLog, lines: *mut QsmLines) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (log, lines) = unsafe { (at(log, "log")?, at_mut(lines, "lines")?) };
        *lines = EMPTY;
        let entry = |(stamp, content): (Stamp, &[u8])| LogEvent::Entry {
            stamp,
            content: content.to_vec(),
        };
        let copied = log.0.object.read(|state| state.iter().map(entry).collect());
        *lines = lend(copied);
        Ok(())
    })
}

/// Number of entries.
///
/// # Safety
/// `log` is null or of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_length(log: *const QsmLog) -> u64 {
    // SAFETY: the caller promises it.
    let log = unsafe { log.as_ref() };
    log.map_or(0, |log| log.0.object.read(|state| state.len() as u64))
}

/// Takes what has come, at most `most` lines: at first the entries that are there, then those that come, its own as well, in
/// the order in which they come here. If there is nothing, waits for the first: so many milliseconds, or for ever if
/// negative; then the batch is empty. Entries that had to go before they were taken are counted, so a program that does not
/// poll costs no memory and delays nobody. An error says that the log has ended.
///
/// # Safety
/// `log` is of this library; `lines` may be written to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_poll(
    log: *const QsmLog,
    most: usize,
    milliseconds: i64,
    lines: *mut QsmLines,
) -> Code {
    call(|| {
        // SAFETY: the caller promises it.
        let (log, lines) = unsafe { (at(log, "log")?, at_mut(lines, "lines")?) };
        *lines = EMPTY;
        *lines = lend(log.0.poll(most, milliseconds)?);
        Ok(())
    })
}

const EMPTY: QsmLines = QsmLines {
    lines: null(),
    count: 0,
    owner: null_mut(),
};

fn lend(taken: Vec<LogEvent>) -> QsmLines {
    if taken.is_empty() {
        return EMPTY;
    }
    let loan = Box::new(QsmLineLoan {
        lines: taken.iter().map(QsmLine::of).collect(),
        _taken: taken,
    });
    QsmLines {
        lines: loan.lines.as_ptr(),
        count: loan.lines.len(),
        owner: Box::into_raw(loan),
    }
}

impl QsmLine {
    fn of(event: &LogEvent) -> Self {
        match event {
            LogEvent::Entry { stamp, content } => Self {
                time_us: stamp.time,
                writer: stamp.origin,
                data: content.as_ptr(),
                length: content.len(),
                ..Self::bare(LineKind::Entry)
            },
            LogEvent::Missed { entries } => Self {
                missed: *entries,
                ..Self::bare(LineKind::Missed)
            },
            _ => Self::bare(LineKind::Other),
        }
    }

    fn bare(kind: LineKind) -> Self {
        Self {
            kind,
            time_us: 0,
            writer: 0,
            missed: 0,
            data: null(),
            length: 0,
        }
    }
}

/// Gives lines back, from any thread; there are none then. Of none, nothing. They outlive their log.
///
/// # Safety
/// `lines` is null, or was filled by this library, and what it lent is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_lines_release(lines: *mut QsmLines) {
    // SAFETY: the caller promises it.
    if let Some(lines) = unsafe { lines.as_mut() } {
        let owner = lines.owner;
        *lines = EMPTY;
        // SAFETY: as above.
        unsafe { free(owner) };
    }
}

/// A descriptor for `poll` or `epoll`, as `qsm_map_fd` of a map.
///
/// # Safety
/// `log` is of this library.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_fd(log: *const QsmLog) -> c_int {
    let mut descriptor = -1;
    call(|| {
        // SAFETY: the caller promises it.
        descriptor = unsafe { at(log, "log") }?.0.descriptor()?;
        Ok(())
    });
    descriptor
}

/// Counters of a log, as `qsm_map_stats` of a map.
///
/// # Safety
/// `log` is null or of this library; `place` points to `size` bytes, or `size` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_stats(
    log: *const QsmLog,
    place: *mut c_char,
    size: usize,
) -> usize {
    // SAFETY: the caller promises it.
    let log = unsafe { log.as_ref() };
    let stats = log.map(|log| log.0.stats()).unwrap_or_default();
    // SAFETY: as above.
    unsafe { text::write(&stats, place, size) };
    stats.len()
}

/// Leaves the log, and gives up the handle. Lines that it has lent stay until they are released.
///
/// # Safety
/// `log` is null, or of this library and not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qsm_log_close(log: *mut QsmLog) {
    // SAFETY: the caller promises it.
    unsafe { free(log) }
}
