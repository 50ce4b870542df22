//! The layout of most trials: sites of four hosts, joined by long links, with a short link within each
//! between the relay's switch and its receivers'.

use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant};

use lab::{HostId, Lab, LinkId, LinkShape, SiteId};

use super::stage::{PORT, Receiver, Relay, Source, Stage};
use crate::cluster::Failure;

/// Hosts of a site.
const HOSTS: usize = 4;
/// Datagrams of which the median round trip is taken.
const PINGS: usize = 31;
/// Longest wait for one that comes back.
const PING_MAX: Duration = Duration::from_secs(2);
/// Memory of a relay for packets.
pub const CACHE: [&str; 2] = ["--cache", "16M"];

/// Links of the sites to be.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    /// Sites, the source's among them; the others are linked to it.
    pub sites: usize,
    /// Links between sites.
    pub wide: LinkShape,
    /// Links within sites; none: one switch.
    pub local: Option<LinkShape>,
}

/// Hosts of one site.
#[derive(Debug)]
pub struct Site {
    /// The relay's.
    pub relay: HostId,
    /// The receivers'.
    pub receivers: Vec<HostId>,
}

/// The sites with all their processes but the receivers.
#[derive(Debug)]
pub struct Sites {
    /// Hosts and processes.
    pub stage: Stage,
    /// The source.
    pub source: Source,
    /// Where it listens.
    source_address: String,
    /// The first one is the source's.
    pub sites: Vec<Site>,
    /// A link between sites; the first of its two directions is away from the source.
    pub wide: Vec<LinkId>,
    /// The relays, one a site.
    pub relays: Vec<Relay>,
}

impl Layout {
    /// Makes the hosts, and starts the source and the relays.
    ///
    /// # Errors
    /// There can be no lab, or a process does not start.
    pub fn open(&self, program: &Path, options: &[&str]) -> Result<Sites, Failure> {
        let mut lab = Lab::new()?;
        let (mut wide, mut sites) = (Vec::new(), Vec::new());
        let first = lab.first_site();
        let source = lab.add_host()?;
        for place in 0..self.sites {
            let switch = match place {
                0 => first,
                _ => lab.add_site()?,
            };
            if place > 0 {
                let seed = self.wide.seed + place as u64;
                wide.push(lab.link(first, switch, LinkShape { seed, ..self.wide })?);
            }
            sites.push(self.add_site(&mut lab, switch, HOSTS - usize::from(place == 0))?);
        }
        let mut stage = Stage::new(lab, program);
        let receivers = sites.iter().map(|site| site.receivers.len()).sum();
        let listen = stage.at(source);
        let source = stage.source(source, &listen, receivers, options)?;
        let mut sites = Sites {
            stage,
            source,
            source_address: listen.clone(),
            sites,
            wide,
            relays: Vec::new(),
        };
        for place in 0..self.sites {
            let parent = match place {
                0 => listen.clone(),
                _ => sites.stage.at(sites.sites[0].relay),
            };
            let relay = sites.start_relay(place, &parent)?;
            sites.relays.push(relay);
        }
        Ok(sites)
    }

    fn add_site(&self, lab: &mut Lab, switch: SiteId, hosts: usize) -> Result<Site, Failure> {
        let near = match self.local {
            None => switch,
            Some(shape) => {
                let near = lab.add_site()?;
                lab.link(switch, near, shape)?;
                near
            }
        };
        let relay = lab.add_host_at(switch)?;
        let receivers = (1..hosts).map(|_| lab.add_host_at(near));
        Ok(Site {
            relay,
            receivers: receivers.collect::<Result<_, _>>()?,
        })
    }
}

impl Sites {
    /// Where the source listens.
    #[must_use]
    pub fn source_address(&self) -> String {
        self.source_address.clone()
    }

    /// Starts the relay of a site.
    ///
    /// # Errors
    /// It does not start.
    pub fn start_relay(&mut self, place: usize, parent: &str) -> Result<Relay, Failure> {
        let host = self.sites[place].relay;
        let listen = self.stage.at(host);
        self.stage.relay(host, &listen, parent, &CACHE)
    }

    /// Starts all receivers, site by site.
    ///
    /// # Errors
    /// One does not start.
    pub fn start_receivers(&mut self) -> Result<Vec<Receiver>, Failure> {
        let mut started = Vec::new();
        for site in &self.sites {
            let parent = self.stage.at(site.relay);
            for host in &site.receivers {
                started.push(self.stage.receiver(*host, &[&parent], &[])?);
            }
        }
        Ok(started)
    }
}

/// Median round trip of a datagram between two hosts, by threads of this process.
///
/// # Errors
/// None comes back.
pub fn round_trip(lab: &Lab, from: HostId, to: HostId) -> Result<Duration, Failure> {
    let there = (lab.host(to).address(), PORT + 1);
    let echo = {
        let _inside = lab.enter(to)?;
        UdpSocket::bind(there)?
    };
    let socket = {
        let _inside = lab.enter(from)?;
        UdpSocket::bind((lab.host(from).address(), PORT + 1))?
    };
    for socket in [&echo, &socket] {
        socket.set_read_timeout(Some(PING_MAX))?;
    }
    let thread = std::thread::spawn(move || {
        let mut room = [0; 64];
        while let Ok((length, from)) = echo.recv_from(&mut room) {
            if length == 0 || echo.send_to(&room[..length], from).is_err() {
                return;
            }
        }
    });
    let mut trips = Vec::new();
    let mut room = [0; 64];
    for number in 0..PINGS {
        let (sent, ping) = (Instant::now(), [u8::try_from(number).unwrap_or(0); 32]);
        socket.send_to(&ping, there)?;
        // One that is lost is passed over; what comes too late is not the next one.
        match socket.recv_from(&mut room) {
            Ok(_) if room[0] == ping[0] => trips.push(sent.elapsed()),
            _ => {}
        }
    }
    socket.send_to(&[], there)?;
    drop(thread.join());
    trips.sort_unstable();
    let median = trips.get(trips.len() / 2).copied();
    Ok(median.ok_or("no datagram comes back")?)
}
