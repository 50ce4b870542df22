//! Where the calling thread runs.

use std::io;
use std::mem;

use crate::sys;

/// Lets the calling thread run on this CPU only.
///
/// # Errors
/// What `sched_setaffinity` returned: most often that there is no such CPU, or that this process
/// may not use it.
pub fn pin_to_cpu(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::from_raw_os_error(libc::EINVAL));
    }
    // SAFETY: cpu_set_t is plain data, for which zero is valid.
    let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
    // SAFETY: the CPU is below CPU_SETSIZE; the set outlives the call, which only reads it. Zero
    // means the calling thread.
    sys::check(unsafe {
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    })?;
    Ok(())
}
