//! The doctor that listens: it sends and counts probes as it is told.

use std::io::{self, BufReader};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use qsm_net::{Interface, Port, PortConfig, Tap, choose_interface};

use super::burst::send;
use super::card::Card;
use super::probe::{MARK, Passed, Way, passed};
use super::tally::{Passage, Tally};
use super::words::{Answer, Opened, Order, Told, VERSION, hear, say};
use crate::{Verdict, Wishes, collect, examine};

/// Pause between two looks of a listener for its end.
const TICK: Duration = Duration::from_millis(100);
/// Longest wait of the thread that receives, and so how old a count may be.
const TURN: Duration = Duration::from_millis(10);
/// A leader that says nothing for so long is gone: longer than the longest wait of an examination.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Checks of a host that say why it keeps packets back.
const REASONS: [&str; 9] = [
    "firewall",
    "rp-filter",
    "multicast-route",
    "multicast-flag",
    "link",
    "igmp-memberships",
    "receive-buffer",
    "softirq-backlog",
    "nic-ring",
];

/// Serves leaders, one after the other, until it is stopped, also while one is served. Each is told of with its address.
///
/// # Errors
/// The socket cannot be used.
pub fn listen(
    socket: &TcpListener,
    stop: &AtomicBool,
    mut told: impl FnMut(&str),
) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    while !stop.load(Ordering::Relaxed) {
        match socket.accept() {
            Ok((stream, from)) => {
                let from = from.ip().to_canonical();
                told(&format!("examined by {from}"));
                stream.set_nonblocking(false)?;
                let served = thread::Builder::new().spawn(move || session(stream))?;
                while !served.is_finished() && !stop.load(Ordering::Relaxed) {
                    thread::sleep(TICK);
                }
                if !served.is_finished() {
                    // Asked to end: the leader sees that it is alone.
                    return Ok(());
                }
                match served.join() {
                    Ok(Ok(())) => told(&format!("{from} is done")),
                    Ok(Err(error)) => told(&format!("{from} is gone: {error}")),
                    // It has said why.
                    Err(_) => told(&format!("{from} cannot be served")),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => thread::sleep(TICK),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Serves one leader until it is done.
pub(crate) fn session(stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(SILENCE_MAX))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut writer = stream;
    let mut open: Option<Sockets> = None;
    while let Some(order) = hear(&mut reader)? {
        let answer = match (order, &mut open) {
            (Order::Open { version, .. }, _) if version != VERSION => {
                let text = format!("it speaks version {VERSION}, the leader {version}");
                Answer::Refused(format!("{text}; use the same version of qsm on all hosts"))
            }
            (order @ Order::Open { .. }, open) => match Sockets::open(&order) {
                Ok((sockets, opened)) => {
                    *open = Some(sockets);
                    Answer::Opened(opened)
                }
                Err(text) => Answer::Refused(text),
            },
            (_, None) => Answer::Refused("nothing is open".to_owned()),
            (Order::Send(burst), Some(sockets)) => {
                Answer::Sent(send(&sockets.interface, sockets.session, &burst))
            }
            (Order::Count { step }, Some(sockets)) => Answer::Counted(sockets.counted(step)),
            (Order::Examine, Some(sockets)) => Answer::Examined(sockets.examined()),
        };
        say(&mut writer, &answer)?;
    }
    Ok(())
}

/// The sockets of a session, and the thread that receives.
struct Sockets {
    interface: Interface,
    session: u32,
    wishes: Wishes,
    card: Card,
    tally: Arc<Mutex<Tally>>,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Sockets {
    fn open(order: &Order) -> Result<(Self, Opened), String> {
        let Order::Open {
            session,
            address,
            group,
            beside,
            port,
            ..
        } = *order
        else {
            return Err("nothing is to be opened".to_owned());
        };
        let chosen = choose_interface(Some(&address.to_string()), None);
        let (interface, _) = chosen.map_err(|error| error.to_string())?;
        let config = PortConfig {
            unicast_port: port,
            ..PortConfig::new(interface.clone())
        };
        let mut sockets = Port::open(config).map_err(|error| error.to_string())?;
        for joined in [group, beside] {
            let joined = sockets.join(joined);
            joined.map_err(|error| error.to_string())?;
        }
        let unicast = sockets.local_addr();
        let (tap, blind) = match Tap::open(MARK) {
            Ok(tap) => (Some(tap), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let tally = Arc::new(Mutex::new(Tally::new(session)));
        let over = Arc::new(AtomicBool::new(false));
        let receiver = Receiver {
            sockets,
            group: group.ip(),
            tap,
            tally: Arc::clone(&tally),
        };
        let ended = Arc::clone(&over);
        let thread = thread::Builder::new().spawn(move || receiver.run(&ended));
        let thread = thread.map_err(|error| error.to_string())?;
        let v4 = |address: std::net::SocketAddr| match address {
            std::net::SocketAddr::V4(v4) => Some((*v4.ip(), v4.port())),
            std::net::SocketAddr::V6(_) => None,
        };
        let opened = Opened {
            name: host_name(),
            interface: interface.name.clone(),
            mtu: interface.mtu,
            unicast,
            blind,
        };
        let sockets = Self {
            session,
            wishes: Wishes {
                channels: v4(group).into_iter().collect(),
                nodes: v4(unicast).into_iter().collect(),
                ..Wishes::default()
            },
            card: Card::now(&interface.name),
            interface,
            tally,
            over,
            thread: Some(thread),
        };
        Ok((sockets, opened))
    }

    fn counted(&self, step: u32) -> super::words::Counted {
        let mut counted = locked(&self.tally).counted(step);
        let card = Card::now(&self.interface.name);
        counted.since.card_lost = card.lost.saturating_sub(self.card.lost);
        counted.since.card_kept = card.kept.saturating_sub(self.card.kept);
        counted
    }

    /// Faults of this host that keep packets back.
    fn examined(&self) -> Vec<Told> {
        let wished = self.wishes.receive_buffer;
        let Ok(facts) = collect(&self.interface.name, wished, Duration::ZERO) else {
            return Vec::new();
        };
        let report = examine(&facts, &self.wishes);
        let findings = report.findings.into_iter();
        let bad = findings.filter(|one| one.verdict >= Verdict::Warning);
        let reasons = bad.filter(|one| REASONS.contains(&one.id));
        let told = reasons.map(|one| Told {
            id: one.id.to_owned(),
            evidence: one.evidence,
            remedy: one.remedy,
        });
        told.collect()
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked has said so.
            drop(thread.join());
        }
    }
}

/// The thread that receives.
struct Receiver {
    sockets: Port,
    group: IpAddr,
    tap: Option<Tap>,
    tally: Arc<Mutex<Tally>>,
}

impl Receiver {
    fn run(mut self, over: &AtomicBool) {
        let names = qsm_net::interfaces().unwrap_or_default();
        while !over.load(Ordering::Relaxed) {
            let turn = self.turn(&names);
            if turn.is_err() {
                // Nothing more is received, which the leader finds.
                break;
            }
        }
    }

    fn turn(&mut self, names: &[Interface]) -> io::Result<()> {
        self.sockets.wait(Some(TURN))?;
        let mut tally = locked(&self.tally);
        if let Some(tap) = &mut self.tap {
            look(tap, names, &mut tally)?;
        }
        while self.sockets.receive()? > 0 {
            for datagram in self.sockets.datagrams() {
                let way = match datagram.group {
                    None => Way::Unicast,
                    Some(group) if group.ip() == self.group => Way::Multicast,
                    Some(_) => Way::Beside,
                };
                tally.received(datagram.bytes, way);
            }
        }
        self.sockets.refresh_drops();
        let counters = self.sockets.counters();
        tally.since.full = counters.unicast.kernel_drops + counters.multicast.kernel_drops;
        Ok(())
    }
}

fn look(tap: &mut Tap, names: &[Interface], tally: &mut Tally) -> io::Result<()> {
    while let Some(seen) = tap.next_seen()? {
        let known = names.iter().find(|one| one.index == seen.interface);
        let by = Passage {
            leaving: seen.leaving,
            interface: known.map_or("another interface", |one| &one.name),
        };
        match passed(seen.packet) {
            Some(Passed::Probes(head, count)) => tally.seen(&head, count, &by),
            Some(Passed::Query) if !seen.leaving => tally.since.queries += 1,
            Some(Passed::Query) | None => {}
        }
    }
    Ok(())
}

fn locked(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn host_name() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname");
    read.map_or_else(|_| "a host".to_owned(), |name| name.trim().to_owned())
}
