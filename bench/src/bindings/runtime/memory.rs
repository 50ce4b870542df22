//! Memory of a process.

use crate::Failure;

/// Resident memory of a process, bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) now: u64,
    pub(super) most: u64,
}

impl Memory {
    pub(super) fn of(process: u32) -> Result<Self, Failure> {
        Self::parse(&std::fs::read_to_string(format!("/proc/{process}/status"))?)
    }

    fn parse(status: &str) -> Result<Self, Failure> {
        let bytes = |key: &str| -> Result<u64, Failure> {
            let line = status.lines().find_map(|line| line.strip_prefix(key));
            let kilobytes = line.and_then(|line| line.split_whitespace().next());
            Ok(kilobytes
                .ok_or("a process without memory")?
                .parse::<u64>()?
                * 1024)
        };
        Ok(Self {
            now: bytes("VmRSS:")?,
            most: bytes("VmHWM:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_what_the_kernel_says() {
        let memory = Memory::parse("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n").unwrap();
        assert_eq!((memory.now, memory.most), (1 << 20, 2 << 20));
        assert!(Memory::parse("Name:\tx\n").is_err());
    }
}
