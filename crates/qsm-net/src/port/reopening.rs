//! Opening a port anew when its interface has another address, or is another one of the same name.

use crate::changes::Changes;
use crate::config::PortConfig;
use crate::error::PortError;
use crate::interface::{Interface, InterfaceError};
use crate::port::Port;
use crate::socket::Socket;

impl Port {
    /// True once after the kernel has told of a change of this host's interfaces or their addresses, which
    /// [`receive`](Port::receive) takes from it, and for which a [`wait`](Port::wait) ends. Never where a sandbox forbids
    /// rtnetlink.
    pub fn take_change(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Looks whether the interface still has the port's address. If it has another one of the family instead, opens all
    /// sockets anew at that, under the same port number where that was asked for or is free; groups stay joined.
    /// Datagrams that wait in the old sockets are lost. [`local_addr`](Port::local_addr) says where the port is then.
    ///
    /// # Errors
    /// [`PortError`]: the interface is gone, is down, or has no such address, and the sockets are as they were; to be
    /// tried again.
    pub fn follow_address(&mut self) -> Result<(), PortError> {
        let former = &self.config.interface;
        let interface = former.again().map_err(|error| missing(error, former))?;
        if (interface.index, interface.addr) == (former.index, former.addr) {
            return Ok(());
        }
        self.reopen(interface)
    }

    fn reopen(&mut self, interface: Interface) -> Result<(), PortError> {
        if interface.addr == self.config.interface.addr {
            // The address is to be bound once more, and is in use until the old socket is closed.
            let unicast_port = 0;
            let config = PortConfig {
                unicast_port,
                ..self.config_at(&interface)
            };
            self.unicast = Socket::unicast(&config)?;
        }
        let unicast = self.unicast_at(&interface)?;
        let config = self.config_at(&interface);
        let open = |socket: &Option<Socket>| {
            let opened = socket.as_ref().map(|socket| again(socket, &config));
            opened.transpose()
        };
        let groups: Vec<_> = self.groups.iter().map(open).collect::<Result<_, _>>()?;
        self.refresh_drops();
        let watched = self.poller.replace_unicast(unicast.fd());
        watched.map_err(PortError::os("watch a socket"))?;
        self.number = unicast.address.port();
        self.unicast = unicast;
        for (slot, socket) in groups.into_iter().enumerate() {
            self.poller.forget(slot as u32);
            if let Some(socket) = socket {
                self.put(slot, socket)?;
            }
        }
        self.transmitter.follow(&interface);
        self.config.interface = interface;
        self.open_copier();
        Ok(())
    }

    fn config_at(&self, interface: &Interface) -> PortConfig {
        PortConfig {
            interface: interface.clone(),
            unicast_port: self.number,
            ..self.config.clone()
        }
    }

    /// Under the number that others know, or any if the system has chosen it and another process has it there.
    fn unicast_at(&self, interface: &Interface) -> Result<Socket, PortError> {
        let config = self.config_at(interface);
        match Socket::unicast(&config) {
            Err(PortError::AddressInUse { .. }) if self.config.unicast_port == 0 => {
                let unicast_port = 0;
                Socket::unicast(&PortConfig {
                    unicast_port,
                    ..config
                })
            }
            opened => opened,
        }
    }

    /// Watches for changes, where that is allowed.
    pub(super) fn watch_changes(&mut self) {
        let changes = Changes::open().ok();
        self.changes = changes.filter(|changes| self.poller.add_changes(changes.fd()).is_ok());
    }

    pub(super) fn note_changes(&mut self) {
        if self.poller.take_changes()
            && let Some(changes) = &self.changes
        {
            changes.drain();
            self.changed = true;
        }
    }
}

/// A socket for the same group and sources.
fn again(socket: &Socket, config: &PortConfig) -> Result<Socket, PortError> {
    if socket.sources.is_empty() {
        return Socket::multicast(config, socket.address);
    }
    let mut opened = Socket::of_sources(config, socket.address)?;
    for source in &socket.sources {
        let failed = PortError::membership(socket.address, &config.interface.name);
        opened.join_source(config, *source).map_err(failed)?;
    }
    Ok(opened)
}

fn missing(error: InterfaceError, former: &Interface) -> PortError {
    match error {
        InterfaceError::NoAddress { .. } => PortError::AddressNotAvailable {
            address: (former.addr, 0).into(),
        },
        InterfaceError::Os(source) => PortError::Os {
            doing: "list the network interfaces",
            source,
        },
        _ => PortError::InterfaceGone {
            name: former.name.clone(),
        },
    }
}
