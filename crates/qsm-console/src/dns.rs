//! Questions to DNS for the hosts of a service (SRV records, RFC 2782).
//!
//! The system's resolver finds addresses of hosts, and no services. So these questions go to the
//! servers that `/etc/resolv.conf` names, and the hosts that the answer names to the system's resolver.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket};
use std::time::{Duration, Instant};

use domain::base::iana::Rcode;
use domain::base::{Message, MessageBuilder, Name, Rtype};
use domain::rdata::Srv;

const CONFIGURATION: &str = "/etc/resolv.conf";
const PORT: u16 = 53;
/// Time that a server has to answer and times that each is asked, if nothing is configured: those of the C
/// library.
const TIMEOUT_SECONDS: u32 = 5;
const ATTEMPTS: u32 = 2;
/// Servers that are asked, as many as the C library takes.
const SERVERS_MAX: usize = 3;
/// Hosts of a service that are used, those to be tried first.
const HOSTS_MAX: usize = 16;
/// Longest answer by UDP that is asked for: no network cuts it into fragments (DNS flag day 2020).
const ANSWER_BYTES: u16 = 1232;

/// A host that DNS names for a service, and the port there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    priority: u16,
    weight: u16,
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// The servers that are asked, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolver {
    servers: Vec<SocketAddr>,
    /// Time that a server has to answer.
    timeout: Duration,
    /// Times that each is asked.
    attempts: u32,
}

impl Resolver {
    /// As this host is configured.
    pub(crate) fn of_system() -> Self {
        Self::parse(&fs::read_to_string(CONFIGURATION).unwrap_or_default())
    }

    /// From lines as `resolv.conf(5)` describes them. Search lists do not apply: names of services are
    /// whole.
    fn parse(text: &str) -> Self {
        let mut resolver = Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(TIMEOUT_SECONDS.into()),
            attempts: ATTEMPTS,
        };
        for line in text.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => resolver.servers.extend(words.next().and_then(server)),
                Some("options") => words.for_each(|word| resolver.set(word)),
                _ => {}
            }
        }
        resolver.servers.truncate(SERVERS_MAX);
        if resolver.servers.is_empty() {
            let local = IpAddr::from(Ipv4Addr::LOCALHOST);
            resolver.servers.push(SocketAddr::new(local, PORT));
        }
        resolver
    }

    /// The limits are those of the C library.
    fn set(&mut self, option: &str) {
        let number = |text: &str| text.parse::<u32>().ok().filter(|number| *number > 0);
        match option.split_once(':') {
            Some(("timeout", text)) => {
                let seconds = number(text).map_or(TIMEOUT_SECONDS, |seconds| seconds.min(30));
                self.timeout = Duration::from_secs(seconds.into());
            }
            Some(("attempts", text)) => {
                self.attempts = number(text).map_or(ATTEMPTS, |attempts| attempts.min(5));
            }
            _ => {}
        }
    }

    /// The hosts of a service, those to be tried first in front: by priority, and at random by weight.
    ///
    /// # Errors
    /// In words: no server answers, or the name has none.
    pub(crate) fn hosts(&self, name: &str) -> Result<Vec<Target>, String> {
        let query = query(name)?;
        let mut failures: Vec<String> = Vec::new();
        for _ in 0..self.attempts {
            failures.clear();
            for server in &self.servers {
                let answer = match self.ask(*server, &query) {
                    Ok(answer) => answer,
                    Err(error) => {
                        failures.push(format!("the DNS server {server} {}", reason(&error)));
                        continue;
                    }
                };
                match answer.header().rcode() {
                    Rcode::NOERROR => return hosts_of(&answer, *server),
                    Rcode::NXDOMAIN => {
                        return Err(format!("the DNS server {server} knows no such name"));
                    }
                    other => failures.push(format!("the DNS server {server} says {other}")),
                }
            }
        }
        Err(failures.join(", "))
    }

    fn ask(&self, server: SocketAddr, query: &Message<Vec<u8>>) -> io::Result<Message<Vec<u8>>> {
        let any: IpAddr = match server {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(server)?;
        socket.send(query.as_slice())?;
        let end = Instant::now() + self.timeout;
        let mut buffer = vec![0; usize::from(ANSWER_BYTES)];
        loop {
            socket.set_read_timeout(Some(left(end)?))?;
            let length = match socket.recv(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                other => other?,
            };
            let answer = Message::from_octets(buffer[..length].to_vec());
            // Who guesses may send anything here.
            let Some(answer) = answer.ok().filter(|answer| answer.is_answer(query)) else {
                continue;
            };
            return match answer.header().tc() {
                true => self.ask_by_stream(server, query),
                false => Ok(answer),
            };
        }
    }

    /// For an answer that is too long for a datagram.
    fn ask_by_stream(
        &self,
        server: SocketAddr,
        query: &Message<Vec<u8>>,
    ) -> io::Result<Message<Vec<u8>>> {
        let end = Instant::now() + self.timeout;
        let mut stream = TcpStream::connect_timeout(&server, self.timeout)?;
        stream.set_write_timeout(Some(left(end)?))?;
        let length = u16::try_from(query.as_slice().len()).map_err(io::Error::other)?;
        stream.write_all(&length.to_be_bytes())?;
        stream.write_all(query.as_slice())?;
        let mut length = [0; 2];
        read_until(&mut stream, &mut length, end)?;
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        read_until(&mut stream, &mut answer, end)?;
        let answer = Message::from_octets(answer).ok();
        answer
            .filter(|answer| answer.is_answer(query))
            .ok_or_else(|| ErrorKind::InvalidData.into())
    }
}

/// A server of the configuration; one of this link names its interface.
fn server(text: &str) -> Option<SocketAddr> {
    let plain = text.split('%').next()?;
    plain.parse::<IpAddr>().ok()?;
    (text, PORT).to_socket_addrs().ok()?.next()
}

/// Time until then.
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    match left.is_zero() {
        true => Err(ErrorKind::TimedOut.into()),
        false => Ok(left),
    }
}

fn read_until(stream: &mut TcpStream, mut buffer: &mut [u8], end: Instant) -> io::Result<()> {
    while !buffer.is_empty() {
        stream.set_read_timeout(Some(left(end)?))?;
        match stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(length) => buffer = &mut buffer[length..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn reason(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "does not answer".to_owned(),
        ErrorKind::ConnectionRefused => "does not run".to_owned(),
        ErrorKind::InvalidData => "answers what nobody can read".to_owned(),
        _ => format!("cannot be asked: {error}"),
    }
}

fn query(name: &str) -> Result<Message<Vec<u8>>, String> {
    let name = Name::vec_from_str(name).map_err(|error| format!("no name of DNS: {error}"))?;
    let too_long = |_| "too long for a question".to_owned();
    let mut message = MessageBuilder::new_vec();
    message.header_mut().set_id((random() & 0xffff) as u16);
    message.header_mut().set_rd(true);
    let mut question = message.question();
    question.push((&name, Rtype::SRV)).map_err(too_long)?;
    let mut more = question.additional();
    more.opt(|options| {
        options.set_udp_payload_size(ANSWER_BYTES);
        Ok(())
    })
    .map_err(too_long)?;
    Ok(more.into_message())
}

/// The hosts that an answer names, in the order in which to try them.
fn hosts_of(answer: &Message<Vec<u8>>, server: SocketAddr) -> Result<Vec<Target>, String> {
    let targets = records(answer)
        .ok_or_else(|| format!("the DNS server {server} answers what nobody can read"))?;
    if targets.is_empty() {
        return Err(format!(
            "the DNS server {server} knows no SRV record of that name"
        ));
    }
    // By the root as its host an answer says that there is no such service here.
    let offered = targets.into_iter().filter(|target| !target.host.is_empty());
    let mut ordered = order(offered.collect(), |below| random() % below);
    ordered.truncate(HOSTS_MAX);
    match ordered.is_empty() {
        true => Err(format!(
            "the DNS server {server} says that there is no such service"
        )),
        false => Ok(ordered),
    }
}

/// Records of the name that was asked for, or that it is another name of.
fn records(answer: &Message<Vec<u8>>) -> Option<Vec<Target>> {
    let name = answer.canonical_name()?;
    let mut targets = Vec::new();
    for record in answer.answer().ok()?.limit_to::<Srv<_>>() {
        let record = record.ok()?;
        if *record.owner() != name {
            continue;
        }
        let service = record.data();
        let host = match service.target().is_root() {
            true => String::new(),
            false => service.target().to_string(),
        };
        targets.push(Target {
            priority: service.priority(),
            weight: service.weight(),
            host,
            port: service.port(),
        });
    }
    Some(targets)
}

/// Orders hosts by priority, and those of the same one at random, with chances by weight (RFC 2782).
/// `draw` gives a number below the one that it gets.
fn order(mut targets: Vec<Target>, mut draw: impl FnMut(u64) -> u64) -> Vec<Target> {
    targets.sort_by_key(|target| (target.priority, target.weight));
    let mut ordered = Vec::with_capacity(targets.len());
    while let Some(first) = targets.first() {
        let priority = first.priority;
        let mut equals = targets.iter().take_while(|one| one.priority == priority);
        let sum: u64 = equals.clone().map(|one| u64::from(one.weight)).sum();
        let drawn = draw(sum + 1);
        let mut running = 0;
        let place = equals.position(|one| {
            running += u64::from(one.weight);
            running >= drawn
        });
        ordered.push(targets.remove(place.unwrap_or(0)));
    }
    ordered
}

/// A number that nobody can guess: keys of hash tables are drawn by the system.
fn random() -> u64 {
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests;
