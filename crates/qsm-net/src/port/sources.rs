//! Source-specific multicast (RFC 4607): a group is received from named hosts, and from nobody else.
//!
//! The kernel limits how many sources a socket may name for a group (`net.ipv4.igmp_max_msf`, 10 by default;
//! `net.ipv6.mld_max_msf`, 64). So a group has as many sockets as its sources take, each with its share of them; a
//! datagram reaches the one that names its source.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};

use super::Port;
use crate::address::Family;
use crate::error::PortError;
use crate::socket::Socket;

impl Port {
    /// Receives what these hosts, and no others, send to a multicast address and port. Said again it replaces the
    /// hosts; with those that stay nothing is lost meanwhile. [`Port::leave`] ends it.
    ///
    /// # Errors
    /// As [`Port::join`], and hosts of the other family. The sources before the one that failed are joined.
    pub fn join_sources(
        &mut self,
        group: SocketAddr,
        sources: &BTreeSet<IpAddr>,
    ) -> Result<(), PortError> {
        let group = self.check_group(group)?;
        for slot in 0..self.groups.len() {
            self.leave_others(slot, group, sources);
        }
        let joined: BTreeSet<IpAddr> = self.sources_of(group).collect();
        let mut missing = sources.difference(&joined).peekable();
        if missing.peek().is_none() {
            return Ok(());
        }
        let most = sources_max(Family::of(group.ip()));
        for source in missing {
            self.join_source(group, *source, most)?;
        }
        Ok(())
    }

    fn sources_of(&self, group: SocketAddr) -> impl Iterator<Item = IpAddr> {
        let sockets = self.groups.iter().flatten();
        let own = sockets.filter(move |socket| socket.address == group);
        own.flat_map(|socket| socket.sources.iter().copied())
    }

    /// Has a socket of the group give up the sources that are not wanted; without any it is closed.
    fn leave_others(&mut self, slot: usize, group: SocketAddr, wanted: &BTreeSet<IpAddr>) {
        let Some(Some(socket)) = self.groups.get_mut(slot) else {
            return;
        };
        if socket.address != group || socket.sources.is_empty() {
            return;
        }
        for at in (0..socket.sources.len()).rev() {
            // A source that cannot be left goes with the socket.
            if !wanted.contains(&socket.sources[at])
                && socket.leave_source(&self.config, at).is_err()
            {
                socket.sources.clear();
                break;
            }
        }
        if socket.sources.is_empty() {
            self.close(slot);
        }
    }

    fn join_source(
        &mut self,
        group: SocketAddr,
        source: IpAddr,
        most: usize,
    ) -> Result<(), PortError> {
        if Family::of(source) != self.config.interface.family() {
            return Err(PortError::OtherFamily {
                group: SocketAddr::new(source, group.port()),
                interface: self.config.interface.to_string(),
            });
        }
        let failed = PortError::membership(group, &self.config.interface.name);
        let sockets = self.groups.iter_mut().flatten();
        let mut own =
            sockets.filter(|socket| socket.address == group && !socket.sources.is_empty());
        if let Some(socket) = own.find(|socket| socket.sources.len() < most) {
            match socket.join_source(&self.config, source) {
                Err(error) if is_full(&error) => {}
                joined => return joined.map_err(failed),
            }
        }
        let slot = self.free_slot()?;
        let mut socket = Socket::of_sources(&self.config, group)?;
        socket.join_source(&self.config, source).map_err(failed)?;
        self.put(slot, socket)
    }
}

/// The limit is lower than it seemed.
fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOBUFS | libc::ENOMEM))
}

/// Most sources that the kernel lets a socket name; its default if that cannot be read.
fn sources_max(family: Family) -> usize {
    let (path, default) = match family {
        Family::V4 => ("/proc/sys/net/ipv4/igmp_max_msf", 10),
        Family::V6 => ("/proc/sys/net/ipv6/mld_max_msf", 64),
    };
    let limit = fs::read_to_string(path).ok();
    limit
        .and_then(|limit| limit.trim().parse().ok())
        .unwrap_or(default)
}
