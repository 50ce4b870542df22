//! The doctor that leads: it has every peer send probes, and every other one count them.

use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::agent;
use super::evidence::{Absent, Course, Evidence, Fault, Kind, Path, Peer};
use super::probe::{HEAD_BYTES, Way};
use super::words::{Answer, Burst, Counted, Opened, Order, Part, Sent, VERSION, hear, say};

/// Default of [`Plan::port`], for the words between doctors.
pub const CONTROL_PORT: u16 = 4485;
/// Most peers: paths grow with their square.
pub const PEERS_MAX: usize = 16;
/// Default of [`Plan::group`]: no node uses it, and the port is that of nodes' data.
pub const GROUP: [&str; 2] = ["239.192.83.78:4484", "[ff15::8000:534e]:4484"];
/// Hops that are allowed, one after the other; those of nodes among them.
pub(crate) const HOPS: [u8; 6] = [1, 2, 4, 8, HOPS_OF_NODES, 64];
/// Limits of nodes.
pub(crate) const HOPS_OF_NODES: u8 = qsm_net::TTL_DEFAULT;

/// Time that a peer has for its first answer.
const CONNECT_MAX: Duration = Duration::from_secs(3);
/// Time that it has for each answer.
const ANSWER_MAX: Duration = Duration::from_secs(30);
/// Time that memberships may take until they are known.
const WARM_UP_MAX: Duration = Duration::from_millis(1500);
/// Rounds of the watch, also where the examination has taken longer than that.
const ROUNDS_MIN: u32 = 3;
/// Time after the last arrival until nothing more is waited for.
const SILENCE: Duration = Duration::from_millis(250);
/// Pause between two questions for counts.
const TICK: Duration = Duration::from_millis(15);
/// Small probes: more than a loss of one in a hundred can hide in.
const SINGLES: Part = Part {
    bytes: 200,
    calls: 400,
    train: 1,
};
/// Between small probes: a network at rest loses none of them.
const GAP_MICROS: u32 = 500;
/// Least packet that is tried for the size.
const SIZE_LEAST: u32 = 576;
/// Sizes that are tried.
const SIZES: u32 = 64;
/// Copies of each size, so that a loss here and there does not look like a limit.
const COPIES: u32 = 8;

/// Peers to be examined, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The peers beside this host: names or addresses, with the port if it is not [`CONTROL_PORT`].
    pub peers: Vec<String>,
    /// Multicast address; the next one is used beside it. `None`: [`GROUP`].
    pub group: Option<SocketAddr>,
    /// Port of unicast; 0 lets the kernel choose.
    pub port: u16,
    /// Time for which memberships and queries are watched.
    pub watch: Duration,
}

/// Why there is no examination.
#[derive(Debug)]
#[non_exhaustive]
pub enum LeadError {
    /// More than [`PEERS_MAX`].
    TooMany(usize),
    /// None of the peers can be asked.
    Alone(Vec<Absent>),
    /// This host cannot send and receive.
    Own(String),
    /// A peer ended in between.
    Gone(String, io::Error),
}

impl std::fmt::Display for LeadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooMany(count) => write!(
                f,
                "{count} peers are too many; name at most {PEERS_MAX}, and examine the others apart"
            ),
            Self::Alone(absent) => {
                let named = absent
                    .iter()
                    .map(|one| format!("{}: {}", one.name, one.reason));
                let named: Vec<String> = named.collect();
                write!(
                    f,
                    "no peer can be asked ({}); run `qsm doctor --listen` there, and let TCP to its port \
                     {CONTROL_PORT} pass",
                    named.join("; ")
                )
            }
            Self::Own(error) => f.write_str(error),
            Self::Gone(name, error) => write!(
                f,
                "{name} does not answer any more: {error}; run `qsm doctor --listen` there again"
            ),
        }
    }
}

impl std::error::Error for LeadError {}

/// Examines the ways between this host and its peers, and between these.
///
/// # Errors
/// [`LeadError`]: there is nothing that could be examined.
pub fn lead(plan: &Plan) -> Result<Evidence, LeadError> {
    if plan.peers.len() > PEERS_MAX {
        return Err(LeadError::TooMany(plan.peers.len()));
    }
    let mut absent = Vec::new();
    let mut links = Vec::new();
    for name in &plan.peers {
        match reach(name) {
            Ok(link) => links.push((name.clone(), link)),
            Err(error) => absent.push(Absent {
                name: name.clone(),
                reason: error.to_string(),
            }),
        }
    }
    let Some((_, first)) = links.first() else {
        return Err(LeadError::Alone(absent));
    };
    let own = first.local_addr().map_err(own_error)?.ip();
    let itself = itself().map_err(own_error)?;
    let mut stage = Stage::new(plan, own);
    stage
        .enter(own.to_string(), itself, own)
        .map_err(LeadError::Own)?;
    for (name, link) in links {
        let address = link.peer_addr().map_err(own_error)?.ip();
        if let Err(reason) = stage.enter(name.clone(), link, address) {
            absent.push(Absent { name, reason });
        }
    }
    if stage.seats.len() < 2 {
        return Err(LeadError::Alone(absent));
    }
    stage.examine(plan.watch)?;
    stage.evidence(plan, absent)
}

fn own_error(error: io::Error) -> LeadError {
    LeadError::Own(error.to_string())
}

/// Connects with a peer's doctor.
fn reach(name: &str) -> io::Result<TcpStream> {
    let plain = name.parse::<IpAddr>().ok();
    let addresses: Vec<SocketAddr> = match plain {
        Some(address) => vec![SocketAddr::new(address, CONTROL_PORT)],
        None => match name.to_socket_addrs() {
            Ok(known) => known.collect(),
            Err(_) => (name, CONTROL_PORT).to_socket_addrs()?.collect(),
        },
    };
    let mut last = io::Error::new(io::ErrorKind::NotFound, "it has no address");
    for address in addresses {
        match TcpStream::connect_timeout(&address, CONNECT_MAX) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// A listener of this process, for this host.
fn itself() -> io::Result<TcpStream> {
    let socket = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(socket.local_addr()?)?;
    let (accepted, _) = socket.accept()?;
    thread::Builder::new().spawn(move || agent::session(accepted))?;
    Ok(stream)
}

/// A peer that takes part.
struct Seat {
    name: String,
    reader: BufReader<TcpStream>,
    writer: TcpStream,
    address: IpAddr,
    opened: Opened,
    last: Counted,
}

impl Seat {
    fn ask(&mut self, order: &Order) -> io::Result<Answer> {
        say(&mut self.writer, order)?;
        hear(&mut self.reader)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn gone(&self, error: io::Error) -> LeadError {
        LeadError::Gone(self.name.clone(), error)
    }

    /// The expectation of an answer, or why the peer is of no more use.
    fn expect<T>(
        &mut self,
        order: &Order,
        take: impl FnOnce(Answer) -> Option<T>,
    ) -> Result<T, LeadError> {
        let answer = self.ask(order).map_err(|error| self.gone(error))?;
        if let Answer::Refused(text) = answer {
            return Err(self.gone(io::Error::other(text)));
        }
        let strange = || self.gone(io::Error::other("it answered something else"));
        take(answer).ok_or_else(strange)
    }

    fn send(&mut self, burst: &Burst) -> Result<Sent, LeadError> {
        self.expect(&Order::Send(burst.clone()), |answer| match answer {
            Answer::Sent(sent) => Some(sent),
            _ => None,
        })
    }

    fn count(&mut self, step: u32) -> Result<Counted, LeadError> {
        let order = Order::Count { step };
        let counted = self.expect(&order, |answer| match answer {
            Answer::Counted(counted) => Some(counted),
            _ => None,
        })?;
        Ok(counted)
    }

    fn examined(&mut self) -> Result<Vec<Fault>, LeadError> {
        let told = self.expect(&Order::Examine, |answer| match answer {
            Answer::Examined(told) => Some(told),
            _ => None,
        })?;
        let faults = told.into_iter().map(|one| Fault {
            id: one.id,
            evidence: one.evidence,
            remedy: one.remedy,
        });
        Ok(faults.collect())
    }
}

/// An examination in progress.
struct Stage {
    session: u32,
    group: SocketAddr,
    beside: SocketAddr,
    port: u16,
    seats: Vec<Seat>,
    step: u32,
    paths: BTreeMap<(usize, usize), BTreeMap<(Way, Kind), Course>>,
}

/// Probes of one kind that a peer sends to others.
struct Probes {
    sender: usize,
    receivers: Vec<usize>,
    way: Way,
    kind: Kind,
}

impl Stage {
    fn new(plan: &Plan, own: IpAddr) -> Self {
        let [v4, v6] = GROUP;
        let usual = if own.is_ipv4() { v4 } else { v6 };
        // Both are constants that a test reads.
        let usual = usual.parse().ok();
        let group = plan.group.or(usual);
        let group = group.unwrap_or_else(|| SocketAddr::new(own, 0));
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            session: since.unwrap_or_default().subsec_nanos() ^ std::process::id() << 12,
            group,
            beside: SocketAddr::new(next(group.ip()), group.port()),
            port: plan.port,
            seats: Vec::new(),
            step: 0,
            paths: BTreeMap::new(),
        }
    }

    fn enter(&mut self, name: String, link: TcpStream, address: IpAddr) -> Result<(), String> {
        let text = |error: io::Error| error.to_string();
        link.set_nodelay(true).map_err(text)?;
        link.set_read_timeout(Some(ANSWER_MAX)).map_err(text)?;
        let reader = BufReader::new(link.try_clone().map_err(text)?);
        let opened = Opened {
            name: String::new(),
            interface: String::new(),
            mtu: 0,
            unicast: SocketAddr::new(address, 0),
            blind: None,
        };
        let mut seat = Seat {
            name,
            reader,
            writer: link,
            address,
            opened,
            last: Counted::default(),
        };
        let order = Order::Open {
            version: VERSION,
            session: self.session,
            address,
            group: self.group,
            beside: self.beside,
            port: self.port,
        };
        match seat.ask(&order).map_err(text)? {
            Answer::Opened(opened) => seat.opened = opened,
            Answer::Refused(reason) => return Err(reason),
            _ => return Err("it answered something else".to_owned()),
        }
        self.seats.push(seat);
        Ok(())
    }

    fn examine(&mut self, watch: Duration) -> Result<(), LeadError> {
        let start = Instant::now();
        let count = self.seats.len();
        self.warm_up()?;
        for sender in 0..count {
            let all: Vec<usize> = (0..count).filter(|other| *other != sender).collect();
            let mtu = self.seats[sender].opened.mtu;
            for kind in [Kind::Single, Kind::Sizes, Kind::Fragments, Kind::Trains] {
                let multicast = Probes {
                    sender,
                    receivers: all.clone(),
                    way: Way::Multicast,
                    kind,
                };
                self.run(&multicast, mtu)?;
                for receiver in all.clone() {
                    let unicast = Probes {
                        receivers: vec![receiver],
                        way: Way::Unicast,
                        ..multicast
                    };
                    self.run(&unicast, mtu)?;
                }
            }
            let hops = HOPS.map(|hops| (Way::Multicast, Kind::Hops(hops)));
            for (way, kind) in hops.into_iter().chain([(Way::Beside, Kind::Beside)]) {
                let probes = Probes {
                    sender,
                    receivers: all.clone(),
                    way,
                    kind,
                };
                self.run(&probes, mtu)?;
            }
        }
        self.watch(start, watch)
    }

    /// Waits until memberships are known and neighbours found, or that took too long.
    fn warm_up(&mut self) -> Result<(), LeadError> {
        let (start, count) = (Instant::now(), self.seats.len());
        for sender in 0..count {
            let probes = Probes {
                sender,
                receivers: (0..count).filter(|other| *other != sender).collect(),
                way: Way::Multicast,
                kind: Kind::After(Duration::ZERO),
            };
            let mtu = self.seats[sender].opened.mtu;
            self.run(&probes, mtu)?;
            while start.elapsed() < WARM_UP_MAX && !self.complete(&probes) {
                self.run(&probes, mtu)?;
            }
        }
        Ok(())
    }

    /// All of these probes arrived everywhere.
    fn complete(&self, probes: &Probes) -> bool {
        probes.receivers.iter().all(|receiver| {
            let path = self.paths.get(&(probes.sender, *receiver));
            let course = path.and_then(|path| path.get(&(probes.way, probes.kind)));
            course.is_some_and(|course| course.lost() == 0)
        })
    }

    /// Sends a few probes again and again, until the time has passed.
    fn watch(&mut self, start: Instant, watch: Duration) -> Result<(), LeadError> {
        let pause = (watch / 40).max(Duration::from_millis(250));
        let count = self.seats.len();
        let mut rounds = 0;
        while !watch.is_zero() && (start.elapsed() < watch || rounds < ROUNDS_MIN) {
            rounds += 1;
            let left = watch.saturating_sub(start.elapsed());
            thread::sleep(pause.min(left));
            let now = start.elapsed();
            for sender in 0..count {
                let probes = Probes {
                    sender,
                    receivers: (0..count).filter(|other| *other != sender).collect(),
                    way: Way::Multicast,
                    kind: Kind::After(now),
                };
                let mtu = self.seats[sender].opened.mtu;
                self.run(&probes, mtu)?;
            }
        }
        Ok(())
    }

    /// Has probes sent, waits until they are there or nothing more comes, and notes what became of them.
    fn run(&mut self, probes: &Probes, mtu: u32) -> Result<(), LeadError> {
        self.step += 1;
        let step = self.step;
        let to = match (probes.way, probes.receivers.first()) {
            (Way::Unicast, Some(receiver)) => self.seats[*receiver].opened.unicast,
            (Way::Beside, _) => self.beside,
            _ => self.group,
        };
        let headers = if to.is_ipv4() { 28 } else { 48 };
        let parts = parts(probes.kind, mtu, headers);
        let wanted = parts.iter().map(|part| u64::from(part.calls * part.train));
        let wanted = wanted.sum();
        let together = parts.iter().map(|part| u64::from(part.train)).max();
        let burst = Burst {
            step,
            way: probes.way,
            to,
            ttl: match probes.kind {
                Kind::Hops(hops) => hops,
                _ => HOPS_OF_NODES,
            },
            gap_micros: match probes.kind {
                Kind::Single => GAP_MICROS,
                _ => 100,
            },
            parts,
        };
        let sent = self.seats[probes.sender].send(&burst)?;
        let counted = self.settle(probes, step, sent.taken)?;
        let at_sender = self.seats[probes.sender].count(step)?;
        let sender = Side::new(&self.seats[probes.sender], &at_sender);
        let mut courses = Vec::new();
        for (receiver, now) in probes.receivers.iter().zip(&counted) {
            let side = Side::new(&self.seats[*receiver], now);
            let mut course = course(&sent, &sender, &side, now);
            course.wanted = wanted;
            course.together = together.unwrap_or(1);
            let sizes = now.sizes.iter();
            course.sizes = sizes
                .map(|(bytes, count)| (bytes + headers, *count))
                .collect();
            courses.push((*receiver, course));
        }
        for (receiver, course) in courses {
            let path = self.paths.entry((probes.sender, receiver)).or_default();
            path.insert((probes.way, probes.kind), course);
        }
        for (receiver, now) in probes.receivers.iter().zip(counted) {
            self.seats[*receiver].last = now;
        }
        self.seats[probes.sender].last = at_sender;
        Ok(())
    }

    /// Counts of the receivers, once all has arrived or nothing more does.
    fn settle(&mut self, probes: &Probes, step: u32, sent: u64) -> Result<Vec<Counted>, LeadError> {
        let mut before: Option<Vec<Counted>> = None;
        let mut since = Instant::now();
        loop {
            let mut now = Vec::new();
            for receiver in &probes.receivers {
                now.push(self.seats[*receiver].count(step)?);
            }
            if now.iter().all(|one| one.arrived >= sent) {
                return Ok(now);
            }
            let same = before.as_ref() == Some(&now);
            if !same {
                since = Instant::now();
            } else if since.elapsed() >= SILENCE {
                return Ok(now);
            }
            before = Some(now);
            thread::sleep(TICK);
        }
    }

    fn evidence(mut self, plan: &Plan, absent: Vec<Absent>) -> Result<Evidence, LeadError> {
        let mut peers = Vec::new();
        for seat in &mut self.seats {
            let faults = seat.examined()?;
            let since = seat.count(0)?.since;
            peers.push(Peer {
                address: seat.address,
                name: seat.opened.name.clone(),
                interface: seat.opened.interface.clone(),
                mtu: seat.opened.mtu,
                unicast: seat.opened.unicast,
                blind: seat.opened.blind.clone(),
                faults,
                queries: since.queries,
                foreign: since.foreign,
            });
        }
        let paths = self
            .paths
            .into_iter()
            .map(|((from, to), courses)| Path { from, to, courses });
        Ok(Evidence {
            group: self.group,
            beside: self.beside,
            peers,
            absent,
            paths: paths.collect(),
            watched: plan.watch,
        })
    }
}

/// Probes to be sent.
fn parts(kind: Kind, mtu: u32, headers: u32) -> Vec<Part> {
    // The largest that IP has; interfaces of the host itself have more.
    let mtu = mtu.min(65_535);
    let full = (mtu.saturating_sub(headers)).max(HEAD_BYTES as u32);
    let one = |bytes: u32, calls: u32| Part {
        bytes,
        calls,
        train: 1,
    };
    match kind {
        Kind::Single => vec![SINGLES],
        Kind::Sizes => {
            let width = mtu.saturating_sub(SIZE_LEAST);
            let sizes = (0..=SIZES).map(|at| SIZE_LEAST.min(mtu) + width * at / SIZES);
            let sizes = sizes.map(|size| size.saturating_sub(headers).max(HEAD_BYTES as u32));
            sizes.map(|bytes| one(bytes, COPIES)).collect()
        }
        Kind::Fragments => vec![one((3 * full).min(60_000), 16)],
        Kind::Trains => vec![Part {
            bytes: full,
            calls: 12,
            train: (60_000 / full).clamp(1, 40),
        }],
        Kind::Hops(_) => vec![one(100, COPIES)],
        Kind::After(_) => vec![one(100, 4)],
        Kind::Beside => vec![one(100, 20)],
    }
}

/// Counts of a host of one step.
struct Side<'a> {
    interface: &'a str,
    blind: bool,
    now: &'a Counted,
    before: &'a Counted,
}

impl<'a> Side<'a> {
    fn new(seat: &'a Seat, now: &'a Counted) -> Self {
        Self {
            interface: &seat.opened.interface,
            blind: seat.opened.blind.is_some(),
            now,
            before: &seat.last,
        }
    }

    /// Those of this interface, if anybody looked, and the most of another one.
    fn at_card(&self, counts: &BTreeMap<String, u64>) -> (Option<u64>, Option<(String, u64)>) {
        let own = counts.get(self.interface).copied().unwrap_or(0);
        let others = counts.iter().filter(|(name, _)| *name != self.interface);
        let most = others.max_by_key(|(_, count)| **count);
        let most = most.map(|(name, count)| (name.clone(), *count));
        ((!self.blind).then_some(own), most)
    }

    fn grown(&self, of: impl Fn(&Counted) -> u64) -> u64 {
        of(self.now).saturating_sub(of(self.before))
    }
}

fn course(sent: &Sent, sender: &Side<'_>, receiver: &Side<'_>, now: &Counted) -> Course {
    let (left, left_elsewhere) = sender.at_card(&sender.now.left);
    let (came, came_elsewhere) = receiver.at_card(&receiver.now.came);
    Course {
        wanted: sent.taken,
        together: 1,
        sent: sent.taken,
        refused: sent.refused.clone(),
        left,
        left_elsewhere,
        came,
        came_elsewhere,
        arrived: now.arrived,
        sizes: BTreeMap::new(),
        late: now.late,
        astray: now.astray,
        full: receiver.grown(|counted| counted.since.full),
        card_lost: receiver.grown(|counted| counted.since.card_lost),
        card_kept: sender.grown(|counted| counted.since.card_kept),
    }
}

/// The next address.
fn next(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(v4) => IpAddr::V4(u32::from(v4).wrapping_add(1).into()),
        IpAddr::V6(v6) => IpAddr::V6(u128::from(v6).wrapping_add(1).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_addresses_are_multicast_and_nodes_use_others() {
        for text in GROUP {
            let group: SocketAddr = text.parse().unwrap();
            assert!(group.ip().is_multicast());
            assert!(next(group.ip()).is_multicast());
            assert_ne!(group.ip().to_string(), "239.192.83.77");
        }
        assert!(HOPS.contains(&HOPS_OF_NODES));
    }

    #[test]
    fn the_full_size_is_tried_and_nothing_beyond() {
        for (mtu, headers) in [(1500, 28), (9000, 48), (576, 28), (1280, 48), (100, 28)] {
            let sizes = parts(Kind::Sizes, mtu, headers);
            let most = sizes.iter().map(|part| part.bytes + headers).max();
            assert_eq!(most, Some(mtu));
            let all: u32 = sizes.iter().map(|part| part.calls).sum();
            assert!(all < 1000);
        }
        let trains = parts(Kind::Trains, 9000, 28);
        assert!(trains[0].bytes * trains[0].train <= 65_507);
    }
}
