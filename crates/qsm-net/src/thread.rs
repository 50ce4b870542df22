//! Where the calling thread runs, and before whom.

use std::fmt;
use std::fs;
use std::io;
use std::mem;
use std::time::Duration;

use crate::sys;

/// The CPUs that a thread may run on.
#[derive(Clone, Copy)]
pub struct Affinity(libc::cpu_set_t);

impl Affinity {
    /// Numbers of CPUs are below this: what a set of the C library holds.
    pub const CPUS_MAX: usize = libc::CPU_SETSIZE as usize;

    /// That of the calling thread.
    ///
    /// # Errors
    /// What `sched_getaffinity` returned; it is known to fail only where there are more than [`Affinity::CPUS_MAX`] CPUs.
    pub fn current() -> io::Result<Self> {
        let mut affinity = Self::none();
        // SAFETY: the size and the pointer describe the set, which is writable and outlives the call; zero means the
        // calling thread.
        sys::check(unsafe {
            libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut affinity.0)
        })?;
        Ok(affinity)
    }

    /// One CPU, if its number is below [`Affinity::CPUS_MAX`].
    fn only(cpu: usize) -> Option<Self> {
        let mut affinity = Self::none();
        (cpu < Self::CPUS_MAX).then(|| {
            // SAFETY: the number is within the set.
            unsafe { libc::CPU_SET(cpu, &mut affinity.0) };
            affinity
        })
    }

    fn none() -> Self {
        // SAFETY: cpu_set_t is plain data, for which zero is valid.
        Self(unsafe { mem::zeroed() })
    }

    /// Lets the calling thread, and those that it starts, run on these CPUs only.
    ///
    /// # Errors
    /// What `sched_setaffinity` returned: most often that the process may use none of them.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the size and the pointer describe the set, which outlives the call; zero means the calling thread.
        sys::check(unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) })
            .map(drop)
    }

    /// Their numbers, in order.
    pub fn cpus(&self) -> impl Iterator<Item = usize> {
        // SAFETY: the numbers are within the set.
        (0..Self::CPUS_MAX).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &self.0) })
    }
}

impl PartialEq for Affinity {
    fn eq(&self, other: &Self) -> bool {
        self.cpus().eq(other.cpus())
    }
}

impl Eq for Affinity {}

/// As the kernel writes them: `0-3,6`.
impl fmt::Display for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cpus = self.cpus().peekable();
        let mut comma = "";
        while let Some(first) = cpus.next() {
            let mut last = first;
            while let Some(next) = cpus.next_if_eq(&(last + 1)) {
                last = next;
            }
            write!(f, "{comma}{first}")?;
            if last > first {
                write!(f, "-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

impl fmt::Debug for Affinity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Affinity({self})")
    }
}

/// How a thread runs, as the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ThreadReport {
    /// Where it may run, if that could be read.
    pub affinity: Option<Affinity>,
    /// Its priority in the real-time class `SCHED_FIFO`, 1 to 99, if it is of that class.
    pub realtime: Option<u8>,
    /// Its time slice, if it is of normal class and the kernel tells (Linux 6.12).
    pub slice: Option<Duration>,
}

impl ThreadReport {
    /// Of the calling thread.
    #[must_use]
    pub fn current() -> Self {
        let attributes = attributes();
        let fifo = attributes.filter(|attributes| attributes.sched_policy == FIFO);
        Self {
            affinity: Affinity::current().ok(),
            realtime: fifo.and_then(|attributes| u8::try_from(attributes.sched_priority).ok()),
            slice: attributes.filter(is_normal).and_then(|attributes| {
                let slice = Duration::from_nanos(attributes.sched_runtime);
                (!slice.is_zero()).then_some(slice)
            }),
        }
    }

    /// Whether it has [`SHORT_SLICE`].
    #[must_use]
    pub fn has_short_slice(&self) -> bool {
        self.slice.is_some_and(|slice| slice <= SHORT_SLICE)
    }
}

/// Lets the calling thread, and those that it starts, run on this CPU only.
///
/// # Errors
/// [`ThreadError`]: there is no such CPU, it is off, or the process may not use it.
pub fn pin_to_cpu(cpu: usize) -> Result<(), ThreadError> {
    let pinned = match Affinity::only(cpu) {
        Some(affinity) => affinity.apply(),
        None => Err(io::Error::from_raw_os_error(libc::EINVAL)),
    };
    pinned.map_err(|source| match source.raw_os_error() {
        Some(libc::EINVAL) => refused(cpu),
        _ => ThreadError::os("choose the CPU of a thread")(source),
    })
}

/// Why the kernel refused a CPU.
fn refused(cpu: usize) -> ThreadError {
    let online = online();
    if online.as_ref().is_none_or(|online| lists(online, cpu)) {
        let allowed = Affinity::current().map_or_else(|_| String::new(), |all| all.to_string());
        return ThreadError::CpuNotAllowed { cpu, allowed };
    }
    let online = online.unwrap_or_default();
    ThreadError::NoSuchCpu { cpu, online }
}

/// The CPUs that are there and on, as the kernel lists them.
fn online() -> Option<String> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    Some(list.trim().to_owned())
}

/// Whether a list such as `0-3,6` has this CPU.
fn lists(list: &str, cpu: usize) -> bool {
    let number = |text: &str| text.parse::<usize>().ok();
    list.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        number(first).is_some_and(|first| first <= cpu)
            && number(last).is_some_and(|last| cpu <= last)
    })
}

/// Puts the calling thread into the real-time class `SCHED_FIFO`: it runs before all threads of normal class, and of lower
/// priority, until it waits. Threads that it starts are of normal class again.
///
/// By default the kernel leaves 5 % of a CPU's time to the others (`kernel.sched_rt_runtime_us`).
///
/// # Errors
/// [`ThreadError`]: not a priority, or not permitted.
pub fn set_realtime(priority: u8) -> Result<(), ThreadError> {
    if !(1..=PRIORITY_MAX).contains(&priority) {
        return Err(ThreadError::Priority { priority });
    }
    // SAFETY: plain data, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = FIFO;
    attributes.sched_priority = priority.into();
    attributes.sched_flags = RESET_ON_FORK;
    // The call goes past the C library: musl's functions for classes refuse always.
    // SAFETY: the pointer is to a structure that says its size and outlives the call; zero means the calling thread.
    let set = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
    sys::check(sys::fit(set))
        .map(drop)
        .map_err(|source| match source.raw_os_error() {
            Some(libc::EPERM) => ThreadError::RealtimeNotPermitted { priority },
            _ => ThreadError::os("change the class of a thread")(source),
        })
}

/// The shortest time slice that Linux grants. The usual one is some milliseconds, and a tick of the clock (1 to 10 ms) has
/// to end it if the thread does not.
pub const SHORT_SLICE: Duration = Duration::from_micros(100);

/// Asks for [`SHORT_SLICE`] for the calling thread, if it is of normal class: then it can give its CPU to whoever waits
/// for it (`sched_yield`) without losing its own turn for longer than that. Its share of the CPU stays the same. Threads
/// that it starts have the usual slice.
///
/// Kernels before Linux 6.12 do nothing, and a sandbox may refuse; [`ThreadReport::slice`] has what became of it.
pub fn ask_short_slice() {
    let Some(mut attributes) = attributes().filter(is_normal) else {
        return;
    };
    attributes.sched_runtime = SHORT_SLICE.as_nanos() as u64;
    attributes.sched_flags |= RESET_ON_FORK;
    // SAFETY: the pointer is to a structure that says its size and outlives the call; zero means the calling thread.
    // A refusal changes nothing.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &attributes, 0) };
}

/// In `sched_policy`: real time, first in, first out.
const FIFO: u32 = libc::SCHED_FIFO as u32;

/// In `sched_flags`: threads started by this one are as usual.
const RESET_ON_FORK: u64 = libc::SCHED_FLAG_RESET_ON_FORK as u64;

/// The calling thread's class, and what belongs to it.
fn attributes() -> Option<libc::sched_attr> {
    // SAFETY: plain data, for which zero is valid.
    let mut attributes: libc::sched_attr = unsafe { mem::zeroed() };
    let size = size_of::<libc::sched_attr>();
    // SAFETY: the pointer and the size describe a structure that is writable and outlives the call; zero means the
    // calling thread.
    let got = unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &mut attributes, size, 0) };
    (got == 0).then_some(attributes)
}

fn is_normal(attributes: &libc::sched_attr) -> bool {
    let policy = libc::c_int::try_from(attributes.sched_policy);
    policy.is_ok_and(|policy| [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&policy))
}

/// Highest priority of `SCHED_FIFO` on Linux.
const PRIORITY_MAX: u8 = 99;

/// Why a thread cannot run as it should.
#[derive(Debug)]
#[non_exhaustive]
pub enum ThreadError {
    /// The process may not use the CPU.
    CpuNotAllowed {
        /// Its number.
        cpu: usize,
        /// Those it uses now, as the kernel lists them.
        allowed: String,
    },
    /// There is no such CPU, or it is off.
    NoSuchCpu {
        /// The number given.
        cpu: usize,
        /// Those that are there, as the kernel lists them.
        online: String,
    },
    /// Another error of the operating system.
    Os {
        /// What was tried.
        doing: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Priorities are 1 to 99.
    Priority {
        /// What was given.
        priority: u8,
    },
    /// The process lacks the privilege for a real-time class.
    RealtimeNotPermitted {
        /// What was asked for.
        priority: u8,
    },
}

impl ThreadError {
    fn os(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Os { doing, source }
    }
}

impl fmt::Display for ThreadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CpuNotAllowed { cpu, allowed } => write!(
                f,
                "this process may not run on CPU {cpu}; choose among {allowed}, or widen what its container or control \
                 group allows (`cpuset.cpus`)"
            ),
            Self::NoSuchCpu { cpu, online } => {
                write!(f, "there is no CPU {cpu} here; choose among {online}")
            }
            Self::Os { doing, source } => write!(f, "cannot {doing}: {source}"),
            Self::Priority { priority } => write!(
                f,
                "{priority} is no real-time priority; choose 1 to {PRIORITY_MAX}, of which more goes first"
            ),
            Self::RealtimeNotPermitted { priority } => write!(
                f,
                "this process may not use real-time priority {priority}; run it with the capability CAP_SYS_NICE \
                 (`setcap cap_sys_nice+ep PROGRAM`), or raise its limit (`ulimit -r {priority}`, LimitRTPRIO={priority} of \
                 a systemd unit)"
            ),
        }
    }
}

impl std::error::Error for ThreadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        if let Self::Os { source, .. } = self {
            Some(source)
        } else {
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// On a thread of its own, whose class and CPUs are no other test's.
    fn apart<T: Send + 'static>(body: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(body).join().unwrap()
    }

    #[test]
    fn a_pinned_thread_runs_on_one_cpu_and_can_be_let_go() {
        let (before, pinned, after) = apart(|| {
            let before = Affinity::current().unwrap();
            pin_to_cpu(before.cpus().last().unwrap()).unwrap();
            let pinned = Affinity::current().unwrap();
            before.apply().unwrap();
            (before, pinned, Affinity::current().unwrap())
        });
        assert_eq!(
            pinned.cpus().collect::<Vec<_>>(),
            [before.cpus().last().unwrap()]
        );
        assert_eq!(after, before);
    }

    #[test]
    fn a_cpu_that_is_not_there_is_named_with_those_that_are() {
        for cpu in [Affinity::CPUS_MAX - 1, 100_000] {
            let error = pin_to_cpu(cpu).unwrap_err();
            assert!(matches!(&error, ThreadError::NoSuchCpu { .. }), "{error:?}");
            let expected = format!(
                "there is no CPU {cpu} here; choose among {}",
                online().unwrap()
            );
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn cpus_are_listed_as_the_kernel_does() {
        let mut affinity = Affinity::none();
        for cpu in [0, 1, 2, 5, 7, 8] {
            // SAFETY: the number is within the set.
            unsafe { libc::CPU_SET(cpu, &mut affinity.0) };
        }
        assert_eq!(affinity.to_string(), "0-2,5,7-8");
        let has = |cpu| lists("0-2,5,7-8", cpu);
        assert!(has(0) && has(2) && has(5) && has(8));
        assert!(!has(3) && !has(6) && !has(9) && !lists("", 0));
    }

    #[test]
    fn a_realtime_thread_says_so_or_what_it_lacks() {
        let report = apart(|| {
            set_realtime(3).map(|()| {
                let child = apart(ThreadReport::current);
                (ThreadReport::current(), child)
            })
        });
        match report {
            Ok((own, child)) => assert_eq!((own.realtime, child.realtime), (Some(3), None)),
            Err(error) => {
                let text = error.to_string();
                assert!(matches!(
                    error,
                    ThreadError::RealtimeNotPermitted { priority: 3 }
                ));
                assert!(
                    text.contains("setcap cap_sys_nice+ep") && text.contains("ulimit -r 3"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_short_slice_is_the_own_threads_alone() {
        let (before, own, child) = apart(|| {
            let before = ThreadReport::current();
            ask_short_slice();
            (
                before,
                ThreadReport::current(),
                apart(ThreadReport::current),
            )
        });
        // Kernels tell of slices since they grant short ones.
        assert_eq!(own.slice, before.slice.map(|_| SHORT_SLICE));
        assert_eq!(own.has_short_slice(), own.slice.is_some());
        assert_eq!(child.slice, before.slice);
        assert!(!before.has_short_slice());
    }

    #[test]
    fn a_realtime_thread_has_no_slice() {
        let report = apart(|| {
            set_realtime(3).ok()?;
            ask_short_slice();
            Some(ThreadReport::current())
        });
        if let Some(report) = report {
            assert_eq!((report.realtime, report.slice), (Some(3), None));
        }
    }

    #[test]
    fn what_is_no_priority_is_refused() {
        for priority in [0, 100] {
            let error = set_realtime(priority).unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("{priority} is no real-time priority"))
            );
        }
    }
}
