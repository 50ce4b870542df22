//! A link between two sites: a thread that carries packets between an interface at each, late, and
//! not all of them.

use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::lane::{Lane, LinkCounters, is_carried};
use crate::shape::LinkShape;
use crate::tap::Tap;

/// Longest frame: that of a packet of 64 KiB.
const FRAME_MAX: usize = 65_550;
/// Frames that are read from one side before the other's turn.
const BATCH: usize = 64;

/// Names a link of one lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    pub(crate) lab: u32,
    pub(crate) index: usize,
}

/// A link that carries until this is dropped.
#[derive(Debug)]
pub(crate) struct Link {
    lanes: Arc<Mutex<[Lane; 2]>>,
    /// Closed to end the thread.
    stop: Option<PipeWriter>,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    /// Begins to carry between the interfaces.
    pub(crate) fn start(taps: [Tap; 2], shape: LinkShape) -> Result<Self, LabError> {
        let failed = |e| LabError::system("start a link", e);
        let (stopped, stop) = io::pipe().map_err(failed)?;
        let lanes = Arc::new(Mutex::new([Lane::new(shape, 0), Lane::new(shape, 1)]));
        let carrier = Carrier {
            lanes: Arc::clone(&lanes),
            taps,
            stopped,
            began: Instant::now(),
        };
        let thread = thread::Builder::new()
            .name("link".to_owned())
            .spawn(move || carrier.run())
            .map_err(failed)?;
        Ok(Self {
            lanes,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Treats what comes from now on in this way; random numbers go on as they were.
    pub(crate) fn reshape(&self, shape: LinkShape) {
        for lane in &mut *lock(&self.lanes) {
            lane.shape = shape;
        }
    }

    pub(crate) fn counters(&self) -> [LinkCounters; 2] {
        lock(&self.lanes).each_ref().map(Lane::counters)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // One that has panicked has said so.
            drop(thread.join());
        }
    }
}

/// Belongings of the thread that carries a link.
struct Carrier {
    lanes: Arc<Mutex<[Lane; 2]>>,
    taps: [Tap; 2],
    stopped: PipeReader,
    began: Instant,
}

impl Carrier {
    fn run(self) {
        be_punctual();
        let mut buffer = vec![0; FRAME_MAX];
        loop {
            let due = self.write_due();
            match self.wait(due) {
                Ok(true) => self.read(&mut buffer),
                Ok(false) => return,
                Err(error) => {
                    eprintln!("lab: a link has ended: {error}");
                    return;
                }
            }
        }
    }

    /// Writes what has come out, and tells when the next comes.
    fn write_due(&self) -> Option<Duration> {
        let mut lanes = lock(&self.lanes);
        let now = self.began.elapsed();
        let [a, b] = &self.taps;
        for (lane, to) in lanes.iter_mut().zip([b, a]) {
            while let Some(frame) = lane.take(now) {
                to.write(&frame);
            }
        }
        lanes.iter().filter_map(Lane::next_due).min()
    }

    /// Takes what has come in.
    fn read(&self, buffer: &mut [u8]) {
        let mut lanes = lock(&self.lanes);
        for (lane, from) in lanes.iter_mut().zip(&self.taps) {
            for _ in 0..BATCH {
                let Some(length) = from.read(buffer) else {
                    break;
                };
                let frame = &buffer[..length];
                if is_carried(frame) {
                    lane.put(self.began.elapsed(), frame);
                }
            }
        }
    }

    /// Waits for packets until this time. False when the link is to end.
    fn wait(&self, due: Option<Duration>) -> io::Result<bool> {
        let [a, b] = self.taps.each_ref().map(Tap::fd);
        let mut watched = [a, b, self.stopped.as_raw_fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let time = due.map(|due| due.saturating_sub(self.began.elapsed()));
        // The longest time is 20 s and some of a queue, far below what these types hold.
        let time = time.map(|time| libc::timespec {
            tv_sec: time.as_secs() as libc::time_t,
            tv_nsec: time.subsec_nanos() as libc::c_long,
        });
        let limit = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let count = watched.len() as libc::nfds_t;
        // SAFETY: the array and the time are ours and outlive the call; no signal mask is given.
        let found = unsafe { libc::ppoll(watched.as_mut_ptr(), count, limit, std::ptr::null()) };
        if found < 0 {
            let error = io::Error::last_os_error();
            return match error.kind() {
                io::ErrorKind::Interrupted => Ok(true),
                _ => Err(error),
            };
        }
        Ok(watched[2].revents == 0)
    }
}

/// Wakes this thread when its time has come, and not up to 50 µs later.
fn be_punctual() {
    // SAFETY: the call takes integers and concerns this thread alone; where it fails, timers are
    // as late as usual.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
}

/// Lanes hold plain data, which no panic leaves halfway.
fn lock(lanes: &Mutex<[Lane; 2]>) -> MutexGuard<'_, [Lane; 2]> {
    lanes.lock().unwrap_or_else(PoisonError::into_inner)
}
