//! Whether this machine can run a lab. Not guessed from versions: everything a lab needs is tried
//! once in a nameless namespace of a thread, and both are gone afterwards.

use std::fs;
use std::io;
use std::thread;

use crate::error::{LabError, Unavailable};
use crate::rules;
use crate::tool::{IP, NFT};

/// Bits of the effective capabilities, from `linux/capability.h`.
const NEEDED: [(u32, &str); 2] = [(12, "CAP_NET_ADMIN"), (21, "CAP_SYS_ADMIN")];

pub(crate) fn check() -> Result<(), Unavailable> {
    let effective = effective_capabilities()?;
    for (bit, capability) in NEEDED {
        if effective & (1 << bit) == 0 {
            return Err(Unavailable::MissingCapability { capability });
        }
    }
    IP.path()?;
    NFT.path()?;
    let action = "make a network namespace in a new thread";
    let tried = thread::Builder::new()
        .spawn(try_everything)
        .map_err(|e| Unavailable::Refused {
            action,
            detail: e.to_string(),
        })?
        .join();
    tried.unwrap_or_else(|_| {
        Err(Unavailable::Refused {
            action,
            detail: "panicked".to_owned(),
        })
    })
}

fn try_everything() -> Result<(), Unavailable> {
    // SAFETY: unshare takes an integer and touches no memory; it moves this thread alone, which
    // ends soon.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        let detail = io::Error::last_os_error().to_string();
        return Err(Unavailable::Refused {
            action: "make a network namespace",
            detail,
        });
    }
    let refused = |action| {
        move |error: LabError| match error {
            LabError::Unavailable(unavailable) => unavailable,
            other => Unavailable::Refused {
                action,
                detail: other.to_string(),
            },
        }
    };
    let links = "link add switch type bridge\n\
                 link add h0 type veth peer name eth0\n\
                 link set h0 master switch\n";
    IP.run(None, &["-batch", "-"], links)
        .map_err(refused("make a bridge and a veth pair"))?;
    NFT.run(None, &["-f", "-"], &rules::probe())
        .map_err(refused("set up nftables rules"))?;
    Ok(())
}

fn effective_capabilities() -> Result<u64, Unavailable> {
    let action = "read the capabilities in /proc/self/status";
    let status = fs::read_to_string("/proc/self/status").map_err(|e| Unavailable::Refused {
        action,
        detail: e.to_string(),
    })?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .ok_or_else(|| Unavailable::Refused {
            action,
            detail: "no line CapEff".to_owned(),
        })
}
